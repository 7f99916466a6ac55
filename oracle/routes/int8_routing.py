"""Which kernel metainfer's INT8 W8A8 GEMM takes: exact-shape guards, then generic tiled arms, then a scalar fallback.

x_q[M][K] · W[K][N]. The order is the rule: the guards of the lineage, each naming a tuned kernel; then a generic
single-buffered arm <rows, columns, K stage>; then one thread an output. The scalar fallback decodes the pack that the
weight of that exact (K, N) was given, and reads any other weight as it is.

M splits the calls into two phases with kernels of their own. The sources disagree where decode ends: the decode skill
measures up to M = 16 and routes M > 16 to prefill, the foundations skill routes M <= 32 to decode. `DECODE_LAST_M` is
16 here, so 17..32 is prefill; 32 is the other setting.

Example, TP8: (M, N, K) = (128, 1280, 4096) reaches the tuned qkv kernel, M = 127 does not; (4095, 4096, 1024) misses
the exact o_proj guard and takes the scalar fallback, because its weight is packed.

A guard of one lineage never overlaps another of the same lineage.
"""

from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.arguments import whole, wholes
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes.coverage import Band, Interval, bands
from tileproof.oracle.routes.int8_lineages import Lineage, Phase

#: Last M of decode by the decode skill (section 5.1), which measured it.
MEASURED_DECODE_LAST_M = 16
#: Last M of decode by the foundations skill (sections 0 and 5), which did not.
STATED_DECODE_LAST_M = 32
#: The setting used where none is given.
DECODE_LAST_M = MEASURED_DECODE_LAST_M

#: Int32 planes [M][N] of workspace from which the fused combine of the M = 16 qkv kernel runs.
FUSED_WORKSPACE_PLANES = 16


class Arm(Enum):
    """What kind of kernel computes a call."""

    TUNED = "a tuned kernel behind a guard"
    TILED = "a generic single-buffered tiled arm"
    SCALAR = "one thread an output, k ascending"


class Unsupported(Enum):
    """Why the HIP path returns None and the caller keeps its own kernel; the value says it in words."""

    BIAS = "a bias"
    OUTPUT_TYPE = "an output that is not bf16"
    OPERAND = "an operand of wrong dtype, rank or scale shape"
    STRIDED = "a buffer that is not contiguous"
    UNPREPARED = "a weight that was not prepared"
    SHAPE = "K or N that is no target of the lineage"


@dataclass(frozen=True)
class Int8Route:
    """What computes a call."""

    phase: Phase
    arm: Arm
    #: Name of the guard, or rows x columns x K stage of a tiled arm.
    kernel: str
    #: How the kernel reads the weight.
    pack: str


def phase_of(m: int, decode_last_m: int = DECODE_LAST_M) -> Phase:
    """The phase of a call.

    Raises:
        Refusal: M below 1, or an end of decode that no source states.
    """
    m, decode_last_m = wholes(m=m, decode_last_m=decode_last_m)
    if m < 1:
        raise Refusal(f"m = {m} is below 1", hint="an empty call has no route; return before it")
    if decode_last_m not in (MEASURED_DECODE_LAST_M, STATED_DECODE_LAST_M):
        raise Refusal(
            f"decode up to M = {decode_last_m} is stated nowhere",
            hint=f"{MEASURED_DECODE_LAST_M} or {STATED_DECODE_LAST_M}",
        )
    return Phase.DECODE if m <= decode_last_m else Phase.PREFILL


def int8_route(lineage: Lineage, m: int, n: int, k: int, decode_last_m: int = DECODE_LAST_M) -> Int8Route:
    """The kernel of a call: the first guard that accepts it, else the first arm that tiles it, else the fallback.

    A generic arm is taken in prefill where its columns divide N and its K stage divides K (inferred: the sources name
    the arms, not their conditions); a tail of M is masked. A call of the other phase than the lineage's has no tuned
    kernel.

    Raises:
        Refusal: an extent below 1, or as `phase_of`.
    """
    m, n, k = wholes(m=m, n=n, k=k)
    phase = phase_of(m, decode_last_m)
    if n < 1 or k < 1:
        raise Refusal(f"a weight of K = {k}, N = {n} is empty", hint="K and N are at least 1")
    if phase is lineage.phase:
        for guard in lineage.guards:
            if guard.accepts(m, n, k):
                return Int8Route(phase, Arm.TUNED, guard.name, guard.pack)
    pack = fallback_pack(lineage, k, n)
    if phase is Phase.PREFILL and pack == "contiguous":
        for rows, columns, stage in lineage.arms:
            if n % columns == 0 and k % stage == 0:
                return Int8Route(phase, Arm.TILED, f"{rows}x{columns}x{stage}", pack)
    return Int8Route(phase, Arm.SCALAR, "scalar", pack)


def fallback_pack(lineage: Lineage, k: int, n: int) -> str:
    """The layout by which the fallback reads a weight: its pack where (K, N) has one, else as stored."""
    packs = {(weight.k, weight.n): weight.pack for weight in lineage.packed}
    return packs.get((k, n), "contiguous")


def int8_coverage(
    lineage: Lineage, n: int, k: int, widths: Interval, decode_last_m: int = DECODE_LAST_M
) -> tuple[Band[Int8Route], ...]:
    """Which M reach which kernel, for one weight."""
    extents = [guard.m for guard in lineage.guards]
    exact = [extent.exactly for extent in extents if extent.exactly is not None]
    return bands(
        lambda m: int8_route(lineage, m, n, k, decode_last_m),
        widths,
        tiles={extent.multiple_of for extent in extents if extent.multiple_of > 1},
        thresholds=[
            decode_last_m + 1,
            *(extent.at_least for extent in extents),
            *(edge for value in exact for edge in (value, value + 1)),
        ],
    )


def fuses_combine(workspace_planes: int) -> bool:
    """Whether the M = 16 qkv kernel combines its split K in its own tail; otherwise a second kernel does.

    Raises:
        Refusal: a negative number of planes.
    """
    workspace_planes = whole("workspace_planes", workspace_planes)
    if workspace_planes < 0:
        raise Refusal(f"a workspace of {workspace_planes} planes", hint="count int32 planes of M x N elements")
    return workspace_planes >= FUSED_WORKSPACE_PLANES


def unsupported(
    lineage: Lineage,
    n: int,
    k: int,
    *,
    has_bias: bool = False,
    output_is_bf16: bool = True,
    operands_fit: bool = True,
    contiguous: bool = True,
    prepared: bool = True,
) -> tuple[Unsupported, ...]:
    """Every reason for which the HIP path declines a call; empty if it takes it."""
    reasons = {
        Unsupported.BIAS: has_bias,
        Unsupported.OUTPUT_TYPE: not output_is_bf16,
        Unsupported.OPERAND: not operands_fit,
        Unsupported.STRIDED: not contiguous,
        Unsupported.UNPREPARED: not prepared,
        Unsupported.SHAPE: not any(guard.n.accepts(n) and guard.k.accepts(k) for guard in lineage.guards),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)
