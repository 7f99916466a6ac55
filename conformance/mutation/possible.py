"""Which values a register can have, whatever the kernel is given: a set where it is small, an interval where not.

Example: with 256 threads `and.b32 %r2, %tid.x, 31` gives 0 to 31 and `shl.b32 %r3, %r2, 4` the 32 multiples of 16. A
register with several definitions, or with what comes from memory, can have any value. Operands are taken to be
independent of each other, so that more is thought possible than is: what holds for all of it holds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.program import NO_GUARD, SINK, Kind, Program, Step

Values = NDArray[np.uint64]

MOST_VALUES = 1 << 16
MOST_COMBINATIONS = 1 << 20

# Most of a launch: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
_MOST_THREADS = 1024
_MOST_BLOCKS = {"x": 2**31 - 1, "y": 65535, "z": 65535}
_LANES = 32


@dataclass(frozen=True)
class Possible:
    """Values of a register, as unsigned numbers.

    Args:
        low: the least.
        high: the greatest.
        values: all of them, ascending, where they are few.
    """

    low: int
    high: int
    values: Values | None = None

    @classmethod
    def of(cls, values: Values) -> "Possible":
        """A set, or only its ends where it is large."""
        distinct = np.unique(values)
        kept = distinct if distinct.size <= MOST_VALUES else None
        return cls(int(distinct[0]), int(distinct[-1]), kept)

    @classmethod
    def between(cls, low: int, high: int) -> "Possible":
        """All from `low` to `high`."""
        few = high - low < MOST_VALUES
        return cls(low, high, np.arange(low, high + 1, dtype=np.uint64) if few else None)

    def cut(self, bits: int) -> "Possible":
        """As an operand of so many bits reads it; 0 for the whole register."""
        if not bits or self.high < 1 << bits:
            return self
        if self.values is not None:
            return Possible.of(self.values & np.uint64((1 << bits) - 1))
        return Possible(0, (1 << bits) - 1)


class Registers:
    """What the registers of a kernel can hold.

    Args:
        program: the kernel.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        count = Counter(slot for step in program.steps for slot in step.destinations if slot != SINK)
        once = (step for step in program.steps if step.kind in (Kind.ARITHMETIC, Kind.LOAD))
        self._definitions: Mapping[int, Step] = {
            slot: step for step in once for slot in step.destinations if count[slot] == 1
        }
        self._known: dict[int, Possible] = {}
        self._open: set[int] = set()

    def __getitem__(self, slot: int) -> Possible:
        """Of a slot of the program."""
        if slot not in self._known:
            if slot in self._open or len(self._open) > 200:  # a loop, or a chain too long to follow
                return self._any(slot)
            self._open.add(slot)
            self._known[slot] = self._find(slot)
            self._open.discard(slot)
        return self._known[slot]

    def operands(self, step: Step) -> list[Possible]:
        """Of a step's sources, as it reads them."""
        return [self[slot].cut(bits) for slot, bits in zip(step.sources, _narrow(step), strict=True)]

    def _any(self, slot: int) -> Possible:
        return Possible(0, (1 << self._program.slot_bits[slot]) - 1)

    def _find(self, slot: int) -> Possible:
        program = self._program
        if slot in program.constants:
            value = program.constants[slot]
            return Possible.between(value, value)
        if slot in program.specials:
            return _special(program.specials[slot], program) or self._any(slot)
        step = self._definitions.get(slot)
        if step is None or any(step.sign_from) or step.guard != NO_GUARD:
            return self._any(slot)
        if step.kind is Kind.LOAD:
            return self._loaded(step, slot)
        operands = self.operands(step)
        at = step.destinations.index(slot)
        exact = results(step, operands)
        found = Possible.of(exact[at]) if exact is not None else _by_ends(step, operands)
        # NOTE: an interval that a narrow result cannot hold has wrapped: then its lower end says nothing, either.
        return found if found is not None and found.high < 1 << _result_bits(step) else self._any(slot)

    def _loaded(self, step: Step, slot: int) -> Possible:
        assert step.access is not None
        bits = 8 * step.access.size
        return Possible.between(0, (1 << bits) - 1) if bits < self._program.slot_bits[slot] else self._any(slot)


def results(step: Step, operands: Sequence[Possible]) -> tuple[Values, ...] | None:
    """What an arithmetic step makes of every combination of operands; None where there are too many."""
    sets = [one.values for one in operands]
    if step.operation is None or any(one is None for one in sets):
        return None
    sizes = [one.size for one in sets if one is not None]
    if np.prod(sizes, dtype=np.float64) > MOST_COMBINATIONS:
        return None
    grids = np.meshgrid(*(one for one in sets if one is not None), indexing="ij")
    with np.errstate(all="ignore"):
        made = step.operation.compute([grid.reshape(-1) for grid in grids])
    return tuple(np.broadcast_to(np.asarray(one, np.uint64), (int(np.prod(sizes)),)) for one in made)


def _narrow(step: Step) -> Sequence[int]:
    return step.narrow or (0,) * len(step.sources)


def _special(name: str, program: Program) -> Possible | None:
    limit = program.thread_limit
    threads = _MOST_THREADS if limit is None else limit[0] * limit[1] * limit[2]
    kind, _, axis = name.partition(".")
    if kind == "%tid":
        return Possible.between(0, threads - 1)
    if kind == "%ntid":
        return Possible.between(1, threads)
    if kind == "%ctaid":
        return Possible.between(0, _MOST_BLOCKS[axis] - 1)
    if kind == "%nctaid":
        return Possible.between(1, _MOST_BLOCKS[axis])
    return Possible.between(0, _LANES - 1) if name == "%laneid" else None


def _by_ends(step: Step, operands: Sequence[Possible]) -> Possible | None:
    """The interval of results where an operation grows with its operands and does not wrap, or forgets bits."""
    assert step.operation is not None
    words = step.operation.name.split(".")
    if len(step.operation.destinations) > 1 or not _is_integer(step.operation.destinations[0]) or "sat" in words:
        return None
    lows, highs = [one.low for one in operands], [one.high for one in operands]
    kind = words[-1]
    if not _is_integer(kind) or (kind[0] == "s" and not never_negative(step, operands)):
        return None
    match words[0], *lows:
        case "add", *_:
            return Possible(sum(lows), sum(highs))
        case "mul", *_ if "hi" not in words:
            return Possible(lows[0] * lows[1], highs[0] * highs[1])
        case "mad", *_ if "hi" not in words:
            return Possible(lows[0] * lows[1] + lows[2], highs[0] * highs[1] + highs[2])
        case "shl", *_ if highs[1] < 64:
            return Possible(lows[0] << lows[1], highs[0] << highs[1])
        case "shr", *_ if highs[1] < 64:
            return Possible(lows[0] >> highs[1], highs[0] >> lows[1])
        case "and", *_:
            return Possible(0, min(highs))
        case (("or" | "xor"), *_):
            return Possible(0, (1 << max(high.bit_length() for high in highs)) - 1)
        case (("mov" | "cvt"), *_):
            return Possible(lows[0], highs[0])
        case "min", *_:
            return Possible(min(lows), min(highs))
        case "max", *_:
            return Possible(max(lows), max(highs))
        case "div", *_ if lows[1] > 0:
            return Possible(lows[0] // highs[1], highs[0] // lows[1])
        case "rem", *_ if lows[1] > 0:
            return Possible(0, min(highs[0], highs[1] - 1))
    return None


def _is_integer(kind: str) -> bool:
    return kind[0] in "sub" and kind[1:].isdigit()


def _result_bits(step: Step) -> int:
    assert step.operation is not None
    return _bits(step.operation.destinations[0])


def _bits(kind: str) -> int:
    digits = "".join(letter for letter in kind if letter.isdigit())
    return int(digits) if digits else 1


def never_negative(step: Step, operands: Sequence[Possible]) -> bool:
    """Whether the highest bit of every operand is clear, so that signed and unsigned readings are the same."""
    assert step.operation is not None
    return all(one.high < 1 << (_bits(kind) - 1) for one, kind in zip(operands, step.operation.sources, strict=True))
