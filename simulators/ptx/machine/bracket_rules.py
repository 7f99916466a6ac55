"""What an operation makes of intervals: for each kind of operation a rule that never loses a legal result.

An operation that grows or falls with each operand has its extreme results at corners, where every operand is at one of
its ends: for [1, 2] - [0.5, 1] they are 1 - 1 and 2 - 0.5. Where that is not so (infinity minus infinity, a divisor
interval around zero) the result is open in all bits. Comparisons are decided if all corners agree. Bits that an
operation only moves keep their intervals; for all else the rules for undefined bits say which result bits are open.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.ieee import BINARIES, BINARY32, Binary, decode, is_nan, magnitude
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import SCALARS, Bits, Flags, Scalar, as_signed, mask_of, pack, unpack
from tileproof.simulators.ptx.machine.bracket_interval import (
    Interval,
    common,
    crosses_zero,
    from_mask,
    hull,
    of_unsigned_range,
    open_bits,
    regroup,
    unsigned_range,
)

Intervals = Sequence[Interval | None]
Rule = Callable[[Sequence[Bits], Intervals], list[Interval | None]]

_MONOTONE = frozenset(
    ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "neg", "abs", "min", "max", "ex2", "lg2", "rsqrt", "tanh")
)
_PERIODIC = frozenset(("sin", "cos"))
_MOVERS = frozenset(("and", "or", "xor", "lop3", "shl", "shr", "shf", "prmt", "bfi", "bfe", "cvt", "mov"))


@cache
def rule_of(operation: Operation) -> Rule:
    """The rule of an operation."""
    mnemonic, *qualifiers = operation.name.split(".")
    opcode = Opcode.parse(mnemonic, tuple(qualifiers))
    floats = bool(opcode.types) and opcode.types[-1].is_float
    if floats and mnemonic in _PERIODIC:
        return Periodic(operation, opcode)
    if floats and mnemonic in _MONOTONE:
        return Corners(operation, opcode)
    if mnemonic == "cvt" and (floats or opcode.types[0].is_float):
        return Corners(operation, opcode)
    if mnemonic in ("setp", "set"):
        return Decision(operation, opcode)
    if mnemonic == "selp":
        return lambda values, intervals: [_selected(SCALARS[operation.sources[0]], values, intervals)]
    if mnemonic in _MOVERS and len(operation.destinations) == 1:
        return lambda values, intervals: [_moved(operation, values, intervals)]
    return lambda values, intervals: _by_bits(operation, values, intervals)


def width_of(type_name: str) -> int:
    """Bits of the word that holds a value of a type: a predicate counts as 8."""
    return max(8, SCALARS[type_name].bits)


def _binary_of(scalar: Scalar) -> Binary | None:
    """The format of the elements of a type; None for integers and for 8-bit floats. tf32 lies in 32 bits."""
    return BINARY32 if scalar.name == "tf32" else BINARIES.get(scalar.name.removesuffix("x2"))


def _is_infinite(codes: Bits, binary: Binary) -> Flags:
    return np.equal(magnitude(codes, binary), binary.infinity)


class Operands:
    """The sources of an operation whose elements are floats or integers.

    Args:
        operation: whose sources.
        scalar: how their elements are read.
        values: nominal.
        intervals: None for a source that is one value.
    """

    def __init__(self, operation: Operation, scalar: Scalar, values: Sequence[Bits], intervals: Intervals) -> None:
        self.scalar = scalar
        self.bits = scalar.bits // scalar.lanes
        self.binary = _binary_of(scalar)
        self.ends: list[tuple[Bits, Bits]] = []
        self.open: list[int] = []
        for index, (value, interval) in enumerate(zip(values, intervals, strict=True)):
            if interval is None:
                self.ends.append((value, value))
                continue
            self.open.append(index)
            if operation.sources[index] == "pred":
                self.ends.append((interval.low, interval.high))
                continue
            part = regroup(interval, self.bits, width_of(operation.sources[index]))
            self.ends.append((part.low, part.high) if scalar.is_float else self._integers(part))

    def _integers(self, interval: Interval) -> tuple[Bits, Bits]:
        """Ends in the order of integers: those of both signs reach from the least one."""
        least, most = unsigned_range(interval.low, interval.high, self.bits)
        if not self.scalar.signed:
            return least, most
        mixed = crosses_zero(interval)
        return np.where(mixed, np.uint64(1 << (self.bits - 1)), least), np.where(mixed, interval.high, most)

    def corners(self) -> list[list[Bits]]:
        """Every choice of an end for each open source."""
        found = []
        for choice in product((0, 1), repeat=len(self.open)):
            chosen = dict(zip(self.open, choice, strict=True))
            found.append([ends[chosen.get(index, 0)] for index, ends in enumerate(self.ends)])
        return found

    def touches(self, test: Callable[[Bits, Binary], Flags]) -> Flags:
        """Where an open source has an end of a kind."""
        found = np.zeros(self.ends[0][0].shape, np.bool_)
        if self.binary is None:
            return found
        for index in self.open:
            low, high = self.ends[index]
            for ends in zip(*(unpack(end, self.scalar.lanes, self.bits) for end in (low, high)), strict=True):
                found |= (ends[0] != ends[1]) & (test(ends[0], self.binary) | test(ends[1], self.binary))
        return found

    def any(self, index: int, test: Callable[[Bits, Bits], Flags]) -> Flags:
        """Where an element of a source has ends that pass a test."""
        lanes = (unpack(end, self.scalar.lanes, self.bits) for end in self.ends[index])
        found: Flags = np.logical_or.reduce([test(low, high) for low, high in zip(*lanes, strict=True)])
        return found


class Corners:
    """Operations that grow or fall with each operand; their approximate forms have a bracket at each corner."""

    def __init__(self, operation: Operation, opcode: Opcode) -> None:
        self._operation = operation
        self._mnemonic = opcode.mnemonic
        self._saturates = "sat" in opcode.flags
        self._result, self._source = opcode.types[0], opcode.types[-1]
        self._bits = self._result.bits // self._result.lanes
        self._binary = _binary_of(self._result)
        self.width = width_of(operation.destinations[0])

    def __call__(self, values: Sequence[Bits], intervals: Intervals) -> list[Interval | None]:
        """The interval of the result."""
        operands = Operands(self._operation, self._source, values, intervals)
        single = self.at(values, single=True)
        if not operands.open:
            return [single]
        corners = [self.at(corner, single=False) for corner in operands.corners()]
        result = self._spanned(corners) if self._result.is_float or self._binary else self._integers(corners)
        if self._mnemonic == "abs":
            low = np.where(operands.any(0, self._crosses), np.uint64(0), result.low)
            result = Interval(low, result.high, result.grain)
        result = self._opened(result, operands, corners)
        several = np.logical_or.reduce([interval.wide for interval in intervals if interval is not None])
        low, high = np.where(several, result.low, single.low), np.where(several, result.high, single.high)
        return [Interval(low, high, self._bits)]

    def at(self, corner: Sequence[Bits], *, single: bool) -> Interval:
        """The result at one corner; `single` as in `Operation.allowed`."""
        operation = self._operation
        if operation.allowed is not None:
            return Interval(*operation.allowed(corner, single), self._bits)
        (result,) = operation.compute(corner)
        return Interval(result, result, self._bits)

    def _spanned(self, corners: Sequence[Interval]) -> Interval:
        return hull(corners, self.width)

    def _integers(self, corners: Sequence[Interval]) -> Interval:
        codes = [corner.low for corner in corners]
        if self._result.signed:
            flip = np.uint64(1 << (self._bits - 1))
            least = np.minimum.reduce([code ^ flip for code in codes]) ^ flip
            most = np.maximum.reduce([code ^ flip for code in codes]) ^ flip
            mixed = (least ^ most) & flip != 0
            low, high = of_unsigned_range(least, most, self._bits)
            ones = np.uint64(mask_of(self._bits))
            return Interval(np.where(mixed, ones, low), np.where(mixed, most, high), self._bits)
        return Interval(*of_unsigned_range(np.minimum.reduce(codes), np.maximum.reduce(codes), self._bits), self._bits)

    def _opened(self, result: Interval, operands: Operands, corners: Sequence[Interval]) -> Interval:
        """The result, open in all bits where corners do not say it all."""
        infinite = operands.touches(_is_infinite)
        unknown = operands.touches(is_nan) | self.singular(operands)
        count, bits = self._result.lanes, self._bits
        if self._saturates and self._binary is not None:
            one = pack([np.full_like(result.low, self._binary.one)] * count, bits)
            anywhere = unknown | infinite
            low = np.where(anywhere, np.uint64(0), result.low)
            return Interval(low, np.where(anywhere, one, result.high), bits)
        ends = [unpack(end, count, bits) for corner in corners for end in (corner.low, corner.high)]
        # An 8-bit float is not asked for NaN itself: where a result is NaN, others may lie between.
        doubtful = infinite if operands.binary is not None else np.ones_like(infinite)
        opened = [unknown | self._undecided_nan([end[lane] for end in ends], doubtful) for lane in range(count)]
        lowest, highest = np.uint64(mask_of(bits)), np.uint64(mask_of(bits - 1))
        lows = [np.where(o, lowest, low) for o, low in zip(opened, unpack(result.low, count, bits), strict=True)]
        highs = [np.where(o, highest, high) for o, high in zip(opened, unpack(result.high, count, bits), strict=True)]
        return Interval(pack(lows, bits), pack(highs, bits), bits)

    def _undecided_nan(self, ends: Sequence[Bits], doubtful: Flags) -> Flags:
        """Where a corner is NaN, unless all are the same NaN and no open operand reaches infinity."""
        if self._binary is None:
            return np.zeros_like(doubtful)
        nan = np.logical_or.reduce([is_nan(end, self._binary) for end in ends])
        same = np.logical_and.reduce([end == ends[0] for end in ends])
        undecided: Flags = nan & (~same | doubtful)
        return undecided

    def _crosses(self, low: Bits, high: Bits) -> Flags:
        crosses: Flags = (low ^ high) >> np.uint64(self._bits - 1) != 0
        return crosses

    def singular(self, operands: Operands) -> Flags:
        """Where a result between corners may lie outside them."""
        never = np.zeros(operands.ends[0][0].shape, np.bool_)
        binary = operands.binary
        if binary is None:
            return never

        def reaches_zero(low: Bits, high: Bits) -> Flags:
            least = np.minimum(magnitude(low, binary), magnitude(high, binary))
            return (least < binary.smallest_normal) | self._crosses(low, high)

        def reaches_infinity(low: Bits, high: Bits) -> Flags:
            return np.maximum(magnitude(low, binary), magnitude(high, binary)) >= binary.infinity

        crosses = [operands.any(index, self._crosses) for index in range(len(operands.ends))]
        match self._mnemonic:
            case "rcp" | "rsqrt":
                return crosses[0]
            case "div":
                return crosses[1] | (operands.any(1, reaches_zero) & crosses[0])
            case "mul" | "fma" | "mad":
                return (crosses[0] & operands.any(1, reaches_infinity)) | (
                    crosses[1] & operands.any(0, reaches_infinity)
                )
        return never


class Periodic(Corners):
    """sin and cos, whose slope is at most 1: no farther from a corner's bracket than the operand is wide."""

    def _opened(self, result: Interval, operands: Operands, corners: Sequence[Interval]) -> Interval:
        assert self._binary is not None
        assert operands.binary is not None
        (low, high) = operands.ends[0]
        with np.errstate(invalid="ignore"):  # infinite ends, whose result is NaN
            width = np.abs(decode(high, operands.binary) - decode(low, operands.binary))
        reach = np.where(np.isfinite(width), np.minimum(width, 4.0), 4.0) * (1 + 2.0**-40)
        low_end = (decode(result.low, self._binary) - reach).astype(np.float32)
        high_end = (decode(result.high, self._binary) + reach).astype(np.float32)
        outer = np.nextafter(low_end, np.float32(-np.inf)), np.nextafter(high_end, np.float32(np.inf))
        codes = [np.clip(end, -1, 1).view(np.uint32).astype(np.uint64) for end in outer]
        span = Interval(codes[0], codes[1], self._bits)
        return super()._opened(span, operands, corners)


class Decision:
    """setp and set: decided where all corners agree, and for equality where the operands cannot meet between."""

    def __init__(self, operation: Operation, opcode: Opcode) -> None:
        self._operation = operation
        self._scalar = opcode.types[-1]
        self._tests_equality = bool(opcode.flags & {"eq", "ne", "equ", "neu"})

    def __call__(self, values: Sequence[Bits], intervals: Intervals) -> list[Interval | None]:
        """The intervals of the results."""
        operands = Operands(self._operation, self._scalar, values, intervals)
        corners = [self._operation.compute(corner) for corner in operands.corners()]
        unknown = operands.touches(is_nan)
        if self._tests_equality:
            unknown |= self.may_meet(operands)
        results: list[Interval | None] = []
        for index, type_name in enumerate(self._operation.destinations):
            codes = [corner[index] for corner in corners]
            differ = np.logical_or.reduce([code != codes[0] for code in codes])
            true = np.uint64(BINARY32.one if type_name == "f32" else mask_of(SCALARS[type_name].bits))
            nominal = self._operation.compute(values)[index]
            results.append(from_mask(nominal, np.where(differ | unknown, true, np.uint64(0))))
        return results

    def may_meet(self, operands: Operands) -> Flags:
        """Where the first two operands, more than one value, may be equal."""
        (a_low, a_high), (b_low, b_high) = operands.ends[:2]
        several = (a_low != a_high) | (b_low != b_high)
        values: list[NDArray[Any]] = [a_low, a_high, b_low, b_high]
        if operands.binary is not None:
            values = [decode(end, operands.binary) for end in values]
        elif self._scalar.signed:
            values = [as_signed(end, operands.bits) for end in values]
        apart: Flags = (values[1] < values[2]) | (values[3] < values[0])
        meet: Flags = several & ~apart
        return meet


def _selected(scalar: Scalar, values: Sequence[Bits], intervals: Intervals) -> Interval | None:
    """selp: one of the two, or what lies around both where the predicate is open."""
    first, second, predicate = values
    given = [interval for interval in intervals[:2] if interval is not None]
    width = max(8, scalar.bits)
    grains = {interval.grain for interval in given}
    grain = scalar.bits if not given else grains.pop() if len(grains) == 1 else 1
    a, b = (
        Interval(value, value, grain) if interval is None else regroup(interval, grain, width)
        for value, interval in zip((first, second), intervals[:2], strict=True)
    )
    either = hull([a, b], width)
    unknown = np.zeros(first.shape, np.bool_) if intervals[2] is None else intervals[2].wide
    low = np.where(unknown, either.low, np.where(predicate != 0, a.low, b.low))
    return Interval(low, np.where(unknown, either.high, np.where(predicate != 0, a.high, b.high)), grain)


def _by_bits(operation: Operation, values: Sequence[Bits], intervals: Intervals) -> list[Interval | None]:
    """The rule for undefined bits, applied to open ones."""
    masks = [
        np.zeros_like(value) if interval is None else open_bits(interval, width_of(type_name))
        for value, interval, type_name in zip(values, intervals, operation.sources, strict=True)
    ]
    results = zip(operation.compute(values), operation.undefined(values, masks), strict=True)
    return [from_mask(result, mask) for result, mask in results]


def _moved(operation: Operation, values: Sequence[Bits], intervals: Intervals) -> Interval | None:
    """Bit operations: whole elements that arrive whole and unchanged keep their intervals."""
    (by_bits,) = _by_bits(operation, values, intervals)
    widths = [width_of(type_name) for type_name in operation.sources]
    given = [interval for interval in intervals if interval is not None]
    if {interval.grain for interval in given} != {given[0].grain} or given[0].grain == 1:
        return by_bits
    grain = given[0].grain
    lows = [value if i is None else i.low for value, i in zip(values, intervals, strict=True)]
    highs = [value if i is None else i.high for value, i in zip(values, intervals, strict=True)]
    (low,), (high,) = operation.compute(lows), operation.compute(highs)
    width = width_of(operation.destinations[0])
    if grain > width:
        return by_bits
    taken = np.zeros_like(low)
    clean = np.ones(low.shape, np.bool_)
    for source, interval in enumerate(intervals):
        if interval is None:
            continue
        for element in range(widths[source] // grain):
            shift = np.uint64(element * grain)
            field = np.uint64(mask_of(grain)) << shift
            open_ = (interval.low ^ interval.high) & field != 0
            masks = [np.zeros_like(value) for value in values]
            masks[source] = np.where(open_, field, np.uint64(0))
            (reached,) = operation.undefined(values, masks)
            clean &= _arrives(reached, (low, high), interval, shift, grain, width) & (reached & taken == 0)
            taken |= reached
    return Interval(low, high, grain) if clean.all() else by_bits


def _arrives(
    reached: Bits, results: tuple[Bits, Bits], interval: Interval, shift: np.uint64, grain: int, width: int
) -> Flags:
    """Where the bits that an element reaches are none, or one whole element that holds both of its ends."""
    arrives = np.equal(reached, 0)
    field = np.uint64(mask_of(grain))
    low, high = ((end >> shift) & field for end in (interval.low, interval.high))
    for target in range(width // grain):
        there = np.uint64(target * grain)
        same = ((results[0] >> there) & field == low) & ((results[1] >> there) & field == high)
        arrives |= (reached == field << there) & same
    return arrives


def packed(elements: Sequence[Bits], intervals: Intervals, bits: int) -> Interval:
    """`mov.b32 d, {lo, hi}`: elements side by side."""
    given = [interval for interval in intervals if interval is not None]
    small = [regroup(interval, bits, max(8, bits)) if interval.grain > bits else interval for interval in given]
    even = common(small, bits)
    parts = iter(even)
    ends = [
        (value, value) if interval is None else ((part := next(parts)).low, part.high)
        for value, interval in zip(elements, intervals, strict=True)
    ]
    return Interval(pack([low for low, _ in ends], bits), pack([high for _, high in ends], bits), even[0].grain)


def unpacked(interval: Interval, index: int, bits: int, width: int) -> Interval:
    """`mov.b32 {lo, hi}, a`: one element."""
    part = regroup(interval, bits, width) if interval.grain > bits else interval
    return part.field(np.uint64(index * bits), bits)
