"""Which kernel computes an INT8 product: guards on exact shapes, then generic tiles, then one thread an output.

A family holds the weights of one model on one number of devices. Its guards name tuned kernels and how their weights
are packed; a guard that says no falls through to the generic tiles, which read weights as they are stored, and these to
the scalar kernel, which decodes the order that the weight of that exact (K, N) has, and reads any other as it is.

M decides between two phases: a family of the other phase has no kernel of its own for a call. The sources disagree
where decode ends. `DECODE_LAST_M` is the setting that was measured, so M = 17 to 32 is prefill unless it is set to
`STATED_DECODE_LAST_M`.

Example: TP8 qkv, (M, N, K) = (128, 1280, 4096), takes 64x128x64-b1; M = 127 takes the scalar kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tileproof.kernels.int8_arms import GENERIC_TILES, SCALAR, TileArm
from tileproof.oracle.refusal import Refusal

MEASURED_DECODE_LAST_M = 16
STATED_DECODE_LAST_M = 32
DECODE_LAST_M = MEASURED_DECODE_LAST_M

FUSED_PLANES = 16
"""Planes of workspace from which the tuned qkv of decode adds its parts itself; with fewer a second kernel does."""


@dataclass(frozen=True)
class Tuned:
    """One tuned kernel.

    Args:
        name: of the projection.
        accepts: whether it computes a product of M, N, K.
        arm: its kernel.
        pack: order of its weight.
        splits: parts of K over the grid.
        with_fewer_planes: the kernel where the workspace has fewer planes than FUSED_PLANES.
    """

    name: str
    accepts: Callable[[int, int, int], bool]
    arm: str
    pack: str
    splits: int = 0
    with_fewer_planes: str = ""


@dataclass(frozen=True)
class Family:
    """The weights of one model.

    Args:
        name: as in `oracle.routes.int8_lineages`.
        decodes: whether its tuned kernels are for decode, and not for prefill.
        tuned: in the order in which they are asked; no two accept the same product.
        packs: (K, N) of the weights that are stored packed, and their order.
        tiles: generic kernels, in the order in which they are tried.
    """

    name: str
    decodes: bool
    tuned: tuple[Tuned, ...]
    packs: Mapping[tuple[int, int], str] = field(default_factory=dict)
    tiles: tuple[TileArm, ...] = GENERIC_TILES

    def pack_of(self, k: int, n: int) -> str:
        """The order of a weight."""
        return self.packs.get((k, n), "contiguous")

    def targets(self, k: int, n: int) -> bool:
        """Whether any tuned kernel computes products of such a weight, whatever M is."""
        return any(one.accepts(m, n, k) for one in self.tuned for m in _TELLING_M)


_TELLING_M = (16, 64, 128, 3072, 4096)
"""For each tuned kernel, an M that it accepts."""


@dataclass(frozen=True)
class Choice:
    """What computes a product.

    Args:
        arm: the kernel.
        pack: how it reads the weight.
        tuned: name of the projection whose guard said yes; "" for a generic kernel.
        splits: parts of K over the grid.
    """

    arm: str
    pack: str
    tuned: str = ""
    splits: int = 0


def _is(m: int, n: int, k: int) -> Callable[[int, int, int], bool]:
    return lambda *given: given == (m, n, k)


TP4_M4096 = Family(
    "TP4 M4096",
    decodes=False,
    tuned=(
        Tuned("qkv", _is(4096, 2560, 4096), "64x128x64-b1", "n-major"),
        Tuned("o_proj", _is(4096, 4096, 2048), "128x64x64-b2", "panel-64"),
        Tuned("gate_up", _is(4096, 768, 4096), "64x128x64-b2", "n-major"),
        Tuned("down", _is(4096, 4096, 384), "128x64x64-b2", "n-major"),
    ),
    packs={(2048, 4096): "panel-64", (4096, 2560): "n-major", (384, 4096): "n-major", (4096, 768): "n-major"},
)
TP8_M4096 = Family(
    "TP8 M4096",
    decodes=False,
    tuned=(
        Tuned("qkv", lambda m, n, k: m >= 128 and n == 1280 and k == 4096, "64x128x64-b1", "n-major"),
        Tuned("o_proj", _is(4096, 4096, 1024), "128x64x64-b1", "n-major"),
        Tuned("gate_up", _is(4096, 384, 4096), "64x128x64-b2", "n-major"),
        Tuned("down", lambda m, n, k: m >= 128 and k == 192 and n % 128 == 0, "64x128x64-b2", "n-major"),
    ),
    packs={(4096, 1280): "n-major", (1024, 4096): "n-major", (4096, 384): "n-major", (192, 4096): "n-major"},
)
GLM_TP8_M4096 = Family(
    "GLM TP8 M4096",
    decodes=False,
    tuned=(
        Tuned("fused_qkv_a", lambda m, n, k: m >= 128 and n == 2624 and k == 6144, "128x64x64-b2", "panel-64-k16"),
        Tuned(
            "kv_b",
            lambda m, n, k: k == 512 and n == 3584 and m >= 64 and m % 64 == 0,
            "64x128x64-b1",
            "stage-64-n128-k8",
        ),
        Tuned("q_b", lambda m, n, k: (k, n) == (2048, 2048), "128x128x64-b1", "stage-64-k8"),
        Tuned("o_proj", _is(4096, 6144, 2048), "256x64x64-b1", "n-major"),
        Tuned("shared_down", _is(4096, 6144, 256), "64x128x64-b1", "tile-128x64"),
        Tuned("shared_gate_up", _is(4096, 512, 6144), "64x64x64-b2", "n-major"),
    ),
    packs={
        (6144, 2624): "panel-64-k16",
        (512, 3584): "stage-64-n128-k8",
        (2048, 2048): "stage-64-k8",
        (2048, 6144): "n-major",
        (256, 6144): "tile-128x64",
        (6144, 512): "n-major",
    },
)
TP4_M16 = Family(
    "TP4 M16",
    decodes=True,
    tuned=(
        Tuned("qkv", _is(16, 2560, 4096), "decode-fused", "contiguous", 6, with_fewer_planes="decode-partial"),
        Tuned("o_proj", _is(16, 4096, 2048), "decode-in-block", "fragment"),
        Tuned("gate_up", _is(16, 768, 4096), "decode-partial", "n-major", 16),
        Tuned("down", _is(16, 4096, 384), "decode-in-block", "n-major"),
    ),
    packs={(4096, 2560): "contiguous", (2048, 4096): "fragment", (4096, 768): "n-major", (384, 4096): "n-major"},
    tiles=(),
)
TP4_M3072 = Family(
    "TP4 M3072",
    decodes=False,
    tuned=(Tuned("wqkv_a", lambda m, n, k: m > 32 and n % 64 == 0 and k % 64 == 0, "64x64x64-b2", "contiguous"),),
    tiles=(),
)

FAMILIES = {one.name: one for one in (TP4_M4096, TP8_M4096, GLM_TP8_M4096, TP4_M16, TP4_M3072)}
"""By name."""


def select(family: Family, m: int, n: int, k: int, *, decode_last_m: int = DECODE_LAST_M, planes: int = 0) -> Choice:
    """The kernel for a product.

    Args:
        family: whose weight it is.
        m, n, k: at least 1 each.
        decode_last_m: where decode ends, 16 or 32.
        planes: int32 planes [M, N] of the workspace.

    Raises:
        Refusal: another end of decode.
    """
    decodes = is_decode(m, decode_last_m)
    for one in family.tuned:
        if decodes is family.decodes and one.accepts(m, n, k):
            enough = planes >= FUSED_PLANES or not one.with_fewer_planes
            return Choice(one.arm if enough else one.with_fewer_planes, one.pack, one.name, one.splits)
    pack = family.pack_of(k, n)
    if not decodes and pack == "contiguous":
        for tile in family.tiles:
            if tile.obstacle(m, n, k) is None:
                return Choice(tile.name, pack)
    return Choice(SCALAR.name, pack)


def is_decode(m: int, decode_last_m: int) -> bool:
    """Whether M rows belong to decode. Raises: Refusal for an end of decode that no source states."""
    if decode_last_m not in (MEASURED_DECODE_LAST_M, STATED_DECODE_LAST_M):
        raise Refusal(
            f"decode that ends at M = {decode_last_m} is stated nowhere",
            hint=f"{MEASURED_DECODE_LAST_M} or {STATED_DECODE_LAST_M}",
        )
    return m <= decode_last_m
