"""How many blocks a compute unit holds: two published laws, which contradict each other.

Both say that blocks · LDS stays within 64 KiB and that a block has a multiple of 64 threads. Of vector registers they
say, word for word:

    65,536      VGPR x threads x blocks <= 65,536       (prefill skill, section 3.2, for the TP8 family)
    512 KiB     VGPR x threads x blocks <= 512 KiB      (prefill skill, section 7, for all of M = 4096)

512 KiB of registers of four bytes are 131,072: twice as many. The same page states 65,536 VGPRs a compute unit.

Example, GLM o_proj: 151 · 256 · 2 = 77,312 registers for its two blocks. The first law allows one block and is refuted
by the report; the second allows three, LDS two. TP8 qkv, 96 registers, is said to be stopped at two blocks by its
registers: the first law allows two, the second five, and is refuted in turn.

So neither is used: this module holds reports against the laws and predicts nothing. `predicted_blocks` refuses.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 3.2 and 7.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tileproof.oracle.addresses.lds_tile import CAPACITY_BYTES
from tileproof.oracle.maps.dumma_fragments import LANES
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.kernel_reports import ACCEPTED, KernelReport


@dataclass(frozen=True)
class Law:
    """One published bound on the vector registers of a compute unit."""

    name: str
    registers: int
    source: str


_PREFILL = "int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad"
LAW_65536 = Law("65,536", 65_536, f"{_PREFILL} section 3.2")
LAW_512_KIB = Law("512 KiB", 512 * 1024 // 4, f"{_PREFILL} section 7, registers of 4 bytes")
LAWS = (LAW_65536, LAW_512_KIB)


class Verdict(Enum):
    """What a report says of a law."""

    EXACT = "exact"
    #: The law with LDS allows more than are reported; it bounds, so this is no failure.
    LOOSE = "allows more"
    TOO_STRICT = "refuted: allows fewer"
    #: The report says that registers stop one more block, for which the law has room.
    TOO_LAX = "refuted: registers do not stop it"
    #: Registers or blocks are not reported.
    UNDECIDED = "not reported"

    @property
    def refutes(self) -> bool:
        """Whether the report contradicts the law."""
        return self in (Verdict.TOO_STRICT, Verdict.TOO_LAX)


@dataclass(frozen=True)
class Judgement:
    """One law held against one report."""

    law: Law
    report: KernelReport
    #: The most blocks that the law and LDS allow; None where registers or blocks are not reported.
    allowed: int | None
    verdict: Verdict


def judge(law: Law, report: KernelReport) -> Judgement:
    """Holds a law against a report.

    Raises:
        Refusal: threads that are no whole waves, LDS beyond a compute unit's, or no registers or blocks.
    """
    if report.threads < 1 or report.threads % LANES or not 0 < report.lds_bytes <= CAPACITY_BYTES:
        raise Refusal(
            f"{report.shape}: {report.threads} threads and {report.lds_bytes} bytes of LDS",
            hint=f"a block has a multiple of {LANES} threads and at most {CAPACITY_BYTES} bytes",
        )
    if any(value is not None and value < 1 for value in (report.registers, report.blocks)):
        raise Refusal(f"{report.shape}: {report.registers} registers, {report.blocks} blocks", hint="at least one each")
    if report.registers is None or report.blocks is None:
        return Judgement(law, report, None, Verdict.UNDECIDED)
    by_registers = law.registers // (report.registers * report.threads)
    allowed = min(by_registers, CAPACITY_BYTES // report.lds_bytes)
    if report.blocks > allowed:
        return Judgement(law, report, allowed, Verdict.TOO_STRICT)
    if report.register_bound and by_registers > report.blocks:
        return Judgement(law, report, allowed, Verdict.TOO_LAX)
    return Judgement(law, report, allowed, Verdict.EXACT if report.blocks == allowed else Verdict.LOOSE)


def judge_all(reports: Iterable[KernelReport] = ACCEPTED) -> tuple[tuple[Judgement, ...], ...]:
    """Every report with every law, in the order of `LAWS`."""
    return tuple(tuple(judge(law, report) for law in LAWS) for report in reports)


def separating(reports: Iterable[KernelReport] = ACCEPTED) -> tuple[KernelReport, ...]:
    """The reports for which the laws allow different numbers of blocks and that say which number there was."""
    return tuple(
        first.report
        for first, *others in judge_all(reports)
        if first.report.blocks is not None and any(other.allowed != first.allowed for other in others)
    )


def predicted_blocks() -> int:
    """Refuses: no law of the two fits every report, so neither can be asked.

    Raises:
        Refusal: always.
    """
    raise Refusal(
        "the occupancy of gfx928 is not predicted: its two published laws (65,536 registers and 512 KiB of them) "
        "contradict each other, and reports refute either",
        hint="`tileproof show gfx928 --occupancy` holds both against every accepted kernel",
    )
