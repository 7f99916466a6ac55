"""Counters by opcode and of shared memory as tables."""

from collections.abc import Iterable, Iterator, Sequence

from tileproof.conformance.columns import aligned
from tileproof.simulators.ptx.findings import Counters, SharedUse


def describe_counters(counters: Counters) -> Iterator[str]:
    """Thread instructions by opcode, most frequent first; then what each instruction costs in shared memory."""
    yield "thread instructions"
    ranked = sorted(counters.opcodes.items(), key=lambda item: (-item[1], item[0]))
    yield from _indented(aligned([(f"{count:,}", opcode) for opcode, count in ranked], (1,)))
    if not counters.shared:
        return
    yield ""
    yield "shared memory, by instruction of a warp"
    head = ("times", "passes", "of conflicts", "ways", "instruction")
    yield from _indented(aligned([head, *map(_line, counters.shared)], (4,)))


def _line(use: SharedUse) -> Sequence[str]:
    numbers = (use.accesses, use.passes, use.conflicts, use.ways)
    return (*(f"{number:,}" for number in numbers), f"{use.opcode} at {use.where}")


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
