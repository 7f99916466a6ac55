"""The tables of `tileproof show gfx928`: LDS strides, occupancy by two laws."""

from collections.abc import Sequence

from tileproof.conformance.columns import aligned
from tileproof.oracle.banks import BankUse
from tileproof.simulators.gfx928.lds_counts import COUNTS
from tileproof.simulators.gfx928.lds_phases import StrideUse, every_stride
from tileproof.simulators.gfx928.occupancy import LAWS, Judgement, judge_all, separating

MACHINE = "gfx928"
_STRIDES = ("stride", "row", "staged by", "phases", "passes", "conflicts", "fragment read", "phases", "passes")
STRIDE_HEADINGS = (*_STRIDES, "conflicts", "bytes read", "conflicts")


def stride_lines() -> list[str]:
    """One line a stride, then what the columns mean."""
    rows = [STRIDE_HEADINGS, *map(_stride_row, every_stride())]
    return [
        *aligned(rows, (2, 6, 10)),
        "",
        "One wave each: 16 bytes a lane staged in rows, a fragment of 8 bytes a lane read along K, or by single bytes.",
        "",
        *count_lines(),
    ]


def count_lines() -> list[str]:
    """What others counted in hardware, and what the model makes of the same kernels."""
    rows = [("conflicts of", "strides", "counted by others", "by this model", "")]
    rows += [
        (
            count.kernel,
            f"{count.stride_a}/{count.stride_b}",
            f"{count.counted} M",
            f"{count.modelled:,}",
            "agrees" if count.agrees else "DIFFERS",
        )
        for count in COUNTS
    ]
    return aligned(rows, (0, 1, 4))


def _stride_row(use: StrideUse) -> tuple[str, ...]:
    return (
        str(use.stride),
        str(use.row_bytes),
        f"{16 // use.write_bytes} x {use.write_bytes} bytes",
        *_counts(use.write),
        f"{8 // use.read_bytes} x {use.read_bytes} bytes",
        *_counts(use.read),
        "8 x 1 byte",
        str(use.byte_read.conflicts),
    )


def _counts(use: BankUse) -> tuple[str, str, str]:
    return str(use.phases), str(use.passes), str(use.conflicts)


def occupancy_lines() -> list[str]:
    """Every accepted kernel with both laws, then which law each report refutes, and what separates them."""
    judged = judge_all()
    headings = ("kernel", "threads", "registers", "LDS", "blocks")
    rows = [(*headings, *(text for law in LAWS for text in (law.name, "verdict")))]
    rows += [_occupancy_row(judgements) for judgements in judged]
    failures = [
        f"{j.law.name}: {j.report.shape}: {j.report.registers} x {j.report.threads} x {j.report.blocks} = "
        f"{(j.report.registers or 0) * j.report.threads * (j.report.blocks or 0):,} registers, {j.verdict.value}"
        for judgements in judged
        for j in judgements
        if j.verdict.refutes
    ]
    return [
        *aligned(rows, (0, 6, 8)),
        "",
        "Refuted:",
        *(f"  {line}" for line in failures),
        "The laws allow different numbers of blocks for: " + "; ".join(report.shape for report in separating()),
        "Reported by others, measured by nobody here; nothing is predicted from either law.",
    ]


def _occupancy_row(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    report = judgements[0].report
    laws = [text for j in judgements for text in (_number(j.allowed), j.verdict.value)]
    return (
        report.shape,
        str(report.threads),
        _number(report.registers),
        str(report.lds_bytes),
        _number(report.blocks),
        *laws,
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
