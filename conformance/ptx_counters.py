"""Counters by opcode and of shared memory as tables."""

from collections.abc import Iterable, Iterator, Sequence

from tileproof.simulators.ptx.findings import Counters, SharedUse


def describe_counters(counters: Counters) -> Iterator[str]:
    """Thread instructions by opcode, most frequent first; then what each instruction costs in shared memory."""
    yield "thread instructions"
    ranked = sorted(counters.opcodes.items(), key=lambda item: (-item[1], item[0]))
    yield from _table(((f"{count:,}", opcode) for opcode, count in ranked), right=1)
    if not counters.shared:
        return
    yield ""
    yield "shared memory, by instruction of a warp"
    head = ("times", "passes", "of conflicts", "ways", "instruction")
    yield from _table((head, *map(_line, counters.shared)), right=4)


def _line(use: SharedUse) -> Sequence[str]:
    numbers = (use.accesses, use.passes, use.conflicts, use.ways)
    return (*(f"{number:,}" for number in numbers), f"{use.opcode} at {use.where}")


def _table(rows: Iterable[Sequence[str]], right: int) -> Iterator[str]:
    """Columns, the first `right` of them aligned at their ends."""
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (c.rjust(w) if i < right else c for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        yield f"  {'  '.join(cells)}"
