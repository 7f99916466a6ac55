"""Counterexamples on the real kernels: a model's trace becomes a script for the CPU device.

A model's process is a block or a warp of the launch; what it does is known by the instruction that it makes: a ticket
is `atom.global.add`. The script has the processes come to these instructions in the order of the trace; what a step of
hardware stands for, a store that comes late or a copy that lands, is left to the device. The kernel then runs with the
same defect as the model, and the device must find what the fault of the kernel is expected to be found by.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tileproof.conformance.faults import fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.protocols import CP_ASYNC, TMA, protocol
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.search import decide
from tileproof.simulators.protocols.trace import Trace, TraceStep
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.machine.script import Move, Script

Who = Callable[[TraceStep], range]


def blocks_of(warps: int, apart: int = 1) -> Who:
    """A process is a block of so many warps; blocks of the model lie so many apart in the grid."""
    return lambda step: range(step.process * apart * warps, (step.process * apart + 1) * warps)


def _warp(step: TraceStep) -> range:
    """A process is a warp of the first block."""
    return range(step.process, step.process + 1)


def _others_apart(step: TraceStep) -> range:
    """A process is a block of four warps, two blocks apart, of which the first warp has thread 0."""
    first = 8 * step.process
    return range(first + 1, first + 4) if step.words.startswith("others") else range(first, first + 1)


@dataclass(frozen=True)
class Replay:
    """One fault of a model that a kernel can have.

    Args:
        protocol: the model's family.
        fault: of the model.
        kernel: how the entry's name begins.
        kernel_fault: of the kernel.
        case: that is run, where the shipped kernel has no finding.
        opcodes: by a step's words, how the opcode of its instruction begins.
        who: which warps of the launch a step's process is.
        extents: of the model.
        lands_late: copies land as late as they may.
        seed: of late stores and stale loads.
        expected: what the device must find along this trace; None for what the kernel's fault is found by at all times.
    """

    protocol: str
    fault: str
    kernel: str
    kernel_fault: str
    case: str
    opcodes: Mapping[str, str]
    who: Who
    extents: Mapping[str, int] = field(default_factory=dict)
    lands_late: bool = False
    seed: int | None = None
    expected: frozenset[FindingKind] | None = None

    def caught(self, kinds: Iterable[FindingKind]) -> bool:
        """Whether these findings are those of the trace."""
        expected = fault(self.kernel_fault).expected if self.expected is None else self.expected
        return expected <= frozenset(kinds)

    @property
    def name(self) -> str:
        """Model, fault and the kernel's fault."""
        return f"{self.protocol} {self.fault}: {self.kernel_fault}"

    def trace(self) -> Trace:
        """The shortest trace. Raises: Refusal where the model is proved."""
        verdict = decide(protocol(self.protocol).build(self.extents, self.fault).model())
        if verdict.trace is None:
            raise Refusal(f"{self.name}: the model is proved, there is nothing to replay")
        return verdict.trace

    def script(self) -> Script:
        """The trace as a script."""
        return Script(self.kernel, tuple(self._moves(self.trace())), self.lands_late, self.seed)

    def _moves(self, trace: Trace) -> Iterator[Move]:
        for step in trace.steps:
            opcode = self.opcodes.get(step.words)
            if opcode is not None:
                yield Move(self.who(step), opcode)


@dataclass(frozen=True)
class Replayed:
    """What the device found.

    Args:
        kinds: of findings, the comparison with the oracle included.
        moves: of the script.
        made: moves that the last launch made.
    """

    kinds: frozenset[FindingKind]
    moves: int
    made: int


def replay_trace(replay: Replay, *, faulty: bool = True) -> Replayed:
    """Run the kernel along the trace, with its fault or as shipped."""
    script, device = replay.script(), Device()
    device.follow(script)
    source = fault(replay.kernel_fault).kernel_source() if faulty else None
    result = run_case(find_case(replay.case), device, kernel_source=source)
    if device.scripted is None:
        raise Refusal(f"{replay.name}: no launch of {replay.kernel} in case {replay.case}")
    return Replayed(frozenset(one.kind for one in result.findings), len(script.moves), device.scripted.made)


_ELECTION = {
    "begins and reads the scale": "ld.global.f32",
    "raises its slot": "atom.global.max",
    "takes a ticket": "atom.global.add",
    "takes a slot's maximum": "ld.global.f32",
    "sets the counter back": "atom.global.exch",
}
_SPLIT = {"stores its half": "st.global.v2", "others store theirs": "st.global.v2", "arrives": "atom.global.add"}
_TMA = {
    "finds the slot empty": "mbarrier.try_wait",
    "announces a stage": "mbarrier.arrive.expect_tx",
    "orders its first box": "cp.async.bulk.tensor",
    "orders its second box": "cp.async.bulk.tensor",
    "finds the slot full": "mbarrier.try_wait",
    "reads the slot": "ldmatrix",
    "releases the slot": "mbarrier.arrive.shared",
    "stages its sums": "st.shared",
    "writes outputs": "ld.shared",
}
_CP_ASYNC = {
    "fetches": "cp.async.commit_group",
    "waits for its group": "cp.async.wait_group",
    "multiplies": "ldmatrix",
    "stages its sums": "st.shared",
    "writes outputs": "ld.shared",
}

_RING = "astrai_quantize/fp8_quantize_tensor/"
_VECTOR = _RING + "vector/R3.C2048.B2.S1.W3.bf16re4m3/nan-history/0"
_DECODE = "metainfer_w8a8_gemm/int8_gemm/decode-fused/M16.N128.K256.S3."
_TILED = "ninfer_linear/fp8_a8_gemm/cp-async/T3.N128.K640/subnormals/0"
_ROUTE = "ninfer_linear_add/fp8_a8_gemm/tma/T9.N128.K320/cancelled-residual/0"
_MM = "astrai_mm_fp8/mm_fp8/"
_SMALL = _MM + "64x64-s3-lean/Ba0.Bb0.M16.N16.K320.nte4m3/cancellation/0"
_LARGE = _MM + "128x128-s2/Ba0.Bb0.M130.N20.K192.nte4m3/one-hot/0"
_CROSSWISE = _MM + "64x64-s3-lean/Ba0.Bb0.M20.N18.K320.tne4m3/cancellation/0"


def _elections() -> Iterator[Replay]:
    one_slot, one_block = {"blocks": 2, "across": 2, "slots": 1}, {"blocks": 1, "across": 1}
    for name, kernel_fault, case, extents in (
        ("no-release", "no-fence-before-the-ticket", _VECTOR, one_slot),
        ("no-acquire", "no-fence-after-the-ticket", _VECTOR, one_slot),
        ("no-syncwarp", "no-syncwarp", _RING + "vector/R1.C4097.B12.S4.W16.bf16re4m3/falling/0", {"blocks": 3}),
        (
            "wrong-extent",
            "ticket-of-one-dimension",
            _RING + "tile-scalar/R95.C255.B12.S4.W16.f16re4m3te5m2/all-codes/0",
            {"blocks": 12, "across": 4, "slots": 1},
        ),
        ("not-rearmed", "counter-not-re-armed", _VECTOR, one_slot),
        (
            "not-cleaned",
            "slot-not-cleaned",
            _RING + "vector/R1.C1.B12.S4.W3.bf16re4m3/random-bits/0",
            {**one_slot, **one_block},
        ),
        ("reads-late", "scale-read-after-the-ticket", _VECTOR, {**one_slot, "pairs": 1}),
    ):
        yield Replay(
            "election",
            name,
            "fp8_quantize_tensor",
            f"ring-{kernel_fault}",
            case,
            _ELECTION,
            blocks_of(8),
            extents,
            seed=0,
        )


def _splits() -> Iterator[Replay]:
    for name, kernel_fault, case, extents in (
        ("no-release", "no-fence-before-the-arrival", "kn8/uniform/0", {"parts": 3}),
        ("no-acquire", "no-fence-behind-the-arrival", "kn8/uniform/0", {"parts": 3}),
        ("no-barrier", "no-barrier-before-the-arrival", "kn8/uniform/0", {"parts": 3}),
        ("begins-at-zero", "counter-meant-to-begin-at-zero", "kn8/uniform/0", {"parts": 3}),
        ("first-arrival", "first-arrival-combines", "kn8/uniform/0", {"parts": 3}),
        ("one-plane", "planes-on-one-another", "kn8/uniform/0", {"parts": 3}),
    ):
        who = _others_apart if name == "no-barrier" else blocks_of(4, apart=2)
        yield Replay(
            "split-k", name, "int8_gemm_decode", f"w8a8-{kernel_fault}", _DECODE + case, _SPLIT, who, extents, seed=0
        )


def _tma_rings() -> Iterator[Replay]:
    for name, kernel_fault in (
        ("released-early", "released-early"),
        ("not-fenced", "release-not-fenced"),
        ("no-syncwarp", "release-without-syncwarp"),
        ("full-parity", "full-parity"),
        ("empty-parity", "empty-parity"),
        ("too-few-bytes", "too-few-bytes"),
        ("too-many-bytes", "too-many-bytes"),
        ("one-releases", "one-warp-releases"),
        ("too-many-release", "nine-warps-release"),
        ("not-initialised", "barriers-not-awaited"),
        ("staged-early", "staged-over-the-ring"),
        ("written-early", "written-before-staged"),
    ):
        extents = {"tiles": 5, "consumers": 2}
        # The model's trace is the read before the copy, not the hang that follows on most schedules.
        expected = frozenset({FindingKind.RACE}) if name == "full-parity" else None
        yield Replay(
            "tma-ring",
            name,
            TMA,
            f"tma-{kernel_fault}",
            _ROUTE,
            _TMA,
            _warp,
            extents,
            lands_late=name in ("full-parity", "too-few-bytes"),
            expected=expected,
        )


def _copy_rings() -> Iterator[Replay]:
    five = {"tiles": 5}
    for name, kernel_fault in (
        ("waits-for-too-few", "wait-covers-one-group-too-few"),
        ("no-barrier", "no-barrier-after-the-wait"),
        ("no-second-barrier", "no-barrier-before-the-refill"),
        ("no-last-barrier", "staging-over-live-operands"),
        ("written-early", "no-barrier-before-the-copy-out"),
    ):
        yield Replay("cp-async-ring", name, CP_ASYNC, kernel_fault, _TILED, _CP_ASYNC, _warp, five, lands_late=True)
    for family, name, kernel_fault, case, tiles in (
        ("mm-ring", "no-drain", "staging-over-live-rings", _LARGE, 3),
        ("mm-ring", "slot-short", "ring-one-slot-short", _LARGE, 3),
        ("mm-ring-crosswise", "slot-short", "lean-ring-under-crosswise-fetch", _CROSSWISE, 5),
        ("mm-ring-lean", "waits-for-too-few", "wait-covers-one-group-too-few", _SMALL, 5),
        ("mm-ring-lean", "empty-not-committed", "empty-group-not-committed", _SMALL, 5),
        ("mm-ring-lean", "no-barrier", "no-barrier-after-the-wait", _SMALL, 5),
        ("mm-ring-lean", "no-second-barrier", "no-barrier-before-a-lean-refill", _SMALL, 5),
        ("mm-ring-lean", "written-early", "no-barrier-before-the-copy-out", _SMALL, 5),
    ):
        extents = {"tiles": tiles}
        yield Replay(family, name, "mm_fp8", f"mm-{kernel_fault}", case, _CP_ASYNC, _warp, extents, lands_late=True)


REPLAYS: Mapping[str, Replay] = MappingProxyType(
    {one.name: one for one in (*_elections(), *_splits(), *_tma_rings(), *_copy_rings())}
)
"""Every fault of a model that a kernel can have, by name."""
