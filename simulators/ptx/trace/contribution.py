"""What the slice found, added up by instruction."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tileproof.simulators.ptx.findings import Index3, Thread, Where
from tileproof.simulators.ptx.machine.memory import Allocation, Backing, Bits
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.trace.look import Look

# Block index and linear index in the block.
Threads = set[tuple[Index3, int]]


@dataclass(frozen=True)
class Contribution:
    """One instruction's part in an element; unrolled copies of one that the same threads execute count together.

    Attributes:
        opcode: as written.
        where: PTX and CUDA line of the first one.
        copies: how many there are in the PTX text.
        executions: how often threads executed it for the element.
        threads: how many threads did.
        lanes: which, by their linear index in the block, in words.
        example: the last execution: its first thread, and the register that it wrote with the value.
        places: addresses that it touched, in words.
    """

    opcode: str
    where: Where
    copies: int
    executions: int
    threads: int
    lanes: str
    example: str
    places: str


@dataclass
class _Sum:
    first: tuple[int, int]
    executions: int = 0
    threads: Threads = field(default_factory=set)
    example: str = ""
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)


class Contributions:
    """Adds up looks, which come last ones first.

    Args:
        program: the kernel.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._sums: dict[int, _Sum] = {}

    def add(self, place: tuple[int, int], look: Look, after: Mapping[int, Bits]) -> None:
        """One event, by its place in the run; `after` are the registers that it wrote."""
        if not look.lanes:
            return
        lanes, geometry = sorted(look.lanes), look.log.geometry
        total = self._sums.setdefault(look.event.pc, _Sum(place))
        total.first = place
        total.executions += len(lanes)
        size = geometry.lanes_per_block
        total.threads.update((geometry.thread(lane).block, lane % size) for lane in lanes)
        if not total.example:
            total.example = _example(look, lanes[0], geometry.thread(lanes[0]), after)
        for backing, first, last in look.ranges:
            name, shift = _memory(look, backing, first)
            low, high = total.ranges.get(name, (first + shift, last + shift))
            total.ranges[name] = min(low, first + shift), max(high, last + shift)

    def listed(self) -> tuple[Contribution, ...]:
        """In the order of first execution."""
        alike: dict[Hashable, list[int]] = {}
        for pc, _ in sorted(self._sums.items(), key=lambda item: item[1].first):
            step = self._program.steps[pc]
            key = (step.opcode, step.where.source, frozenset(self._sums[pc].threads))
            alike.setdefault(key, []).append(pc)
        return tuple(map(self._together, alike.values()))

    def _together(self, pcs: list[int]) -> Contribution:
        step, sums = self._program.steps[pcs[0]], [self._sums[pc] for pc in pcs]
        ranges: dict[str, tuple[int, int]] = {}
        for each in sums:
            for name, (low, high) in each.ranges.items():
                known = ranges.get(name, (low, high))
                ranges[name] = min(low, known[0]), max(high, known[1])
        return Contribution(
            step.opcode,
            step.where,
            len(pcs),
            sum(each.executions for each in sums),
            len(sums[0].threads),
            _threads(sums[0].threads),
            sums[0].example,
            ", ".join(f"{name} 0x{low:x}..0x{high - 1:x}" for name, (low, high) in sorted(ranges.items())),
        )


def _example(look: Look, lane: int, thread: Thread, after: Mapping[int, Bits]) -> str:
    """A thread, and the registers that carry the value: those written, or else those read."""
    shown = [(slot, after[slot][lane]) for slot in look.step.destinations if slot in after]
    if not shown:
        registers = look.program.registers
        shown = [(slot, look.values[slot][lane]) for slot in look.step.sources[1:] if slot in registers]
    digits = {slot: -(-look.program.slot_bits[slot] // 4) for slot, _ in shown}
    values = ", ".join(f"{_name(look.program, slot)} = 0x{int(value):0{digits[slot]}x}" for slot, value in shown[:2])
    return f"{thread}{': ' if values else ''}{values}"


def _name(program: Program, slot: int) -> str:
    return program.registers.get(slot, f"slot {slot}")


def _memory(look: Look, backing: Backing, offset: int) -> tuple[str, int]:
    """The memory's name, and what makes an address of an offset."""
    log = look.log
    if backing is log.shared:
        block = offset // max(log.stride, 1)
        return "shared", log.base - block * log.stride
    if backing is log.parameters:
        return "parameters", 0
    if isinstance(backing, Allocation):
        return "global", backing.base
    return "constants" if backing is log.constants else "local", 0


def _threads(threads: Threads) -> str:
    """`block (0, 1, 0): threads 0..31, 64`, by their linear index in the block; of the first blocks."""
    blocks = sorted({block for block, _ in threads})
    shown = [f"block {block}: threads {runs(sorted(t for b, t in threads if b == block))}" for block in blocks[:2]]
    more = f"; {len(blocks) - len(shown)} more blocks" if len(blocks) > len(shown) else ""
    return "; ".join(shown) + more


def runs(numbers: list[int], most: int = 6) -> str:
    """Ascending numbers as ranges, the first ones of many: `0..3, 8, 12..15`."""
    if not numbers:
        return "none"
    array = np.array(numbers)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(array) != 1)))
    ends = np.concatenate((starts[1:], [array.size])) - 1
    texts = [
        str(array[a]) if a == b else f"{array[a]}..{array[b]}"
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    more = f", ... ({len(texts) - most} more ranges)" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
