"""Intervals of raw bits: what a register or a place in memory may hold where an approximate function left it open.

An interval's ends are words of raw bits, split into elements of `grain` bits; each element lies, independently of the
others, between its two ends in the order of *sign and magnitude*. That is the order of the values of every float
format, so an interval needs no format: [0x3F80, 0x3F81] of grain 16 is {1, 1.0078125} of bfloat16. NaN codes stand at
both ends of the order. Of grain 1 every bit is an element: bits whose ends differ may be 0 or 1.

Example: the float32 interval [0x3F80FFFF, 0x3F810000] cut into halves of 16 bits is [0x3F80, 0x3F81] above and, for
these differ, anything below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.scalar import Bits, mask_of, pack, unpack
from tileproof.simulators.ptx.alu.scalar import Flags as Mask

Lanes = NDArray[np.int64]
_NONE = np.uint64(0)


@dataclass(frozen=True)
class Interval:
    """Lowest and highest bits of a vector of words.

    Attributes:
        low: the lower ends, element by element.
        high: the upper ends; a word that is one value has equal ends.
        grain: bits of an element: 1, 8, 16, 32 or 64.
    """

    low: Bits
    high: Bits
    grain: int

    @property
    def wide(self) -> Mask:
        """Which words are more than one value."""
        wide: Mask = self.low != self.high
        return wide

    def take(self, positions: Lanes | slice) -> "Interval":
        """Some of the words."""
        return Interval(self.low[positions], self.high[positions], self.grain)

    def field(self, shift: Bits | np.uint64, bits: int) -> "Interval":
        """The `bits` bits from `shift` on; both are multiples of the grain."""
        mask = np.uint64(mask_of(bits))
        return Interval((self.low >> shift) & mask, (self.high >> shift) & mask, self.grain)


def from_mask(values: Bits, mask: Bits) -> Interval:
    """Values of which the bits of a mask are open."""
    return Interval(values & ~mask, values | mask, 1)


def place(codes: Bits, bits: int) -> Bits:
    """Elements as unsigned integers in their order."""
    sign, ones = np.uint64(1 << (bits - 1)), np.uint64(mask_of(bits))
    return np.where(codes & sign != 0, codes ^ ones, codes | sign)


def crosses_zero(interval: Interval) -> Mask:
    """Which one-element words have ends of different signs."""
    crosses: Mask = (interval.low ^ interval.high) >> np.uint64(interval.grain - 1) != 0
    return crosses


def hull(intervals: Sequence[Interval], width: int) -> Interval:
    """The smallest interval around intervals of one grain."""
    grain = intervals[0].grain
    if grain == 1:
        return Interval(
            reduce(np.bitwise_and, (i.low for i in intervals)), reduce(np.bitwise_or, (i.high for i in intervals)), 1
        )
    lows = [unpack(interval.low, width // grain, grain) for interval in intervals]
    highs = [unpack(interval.high, width // grain, grain) for interval in intervals]
    low = [reduce(lambda a, b: _first(a, b, grain), elements) for elements in zip(*lows, strict=True)]
    high = [reduce(lambda a, b: _last(a, b, grain), elements) for elements in zip(*highs, strict=True)]
    return Interval(pack(low, grain), pack(high, grain), grain)


def _first(a: Bits, b: Bits, bits: int) -> Bits:
    return np.where(place(a, bits) <= place(b, bits), a, b)


def _last(a: Bits, b: Bits, bits: int) -> Bits:
    return np.where(place(a, bits) >= place(b, bits), a, b)


def open_bits(interval: Interval, width: int) -> Bits:
    """The bits that are not the same in all values of an interval."""
    if interval.grain == 1:
        return interval.low ^ interval.high
    differ = unpack(interval.low ^ interval.high, width // interval.grain, interval.grain)
    return pack([_smeared(bits) for bits in differ], interval.grain)


def _smeared(bits: Bits) -> Bits:
    """The highest set bit and all below: what lies between two codes shares only the bits above."""
    for distance in (1, 2, 4, 8, 16, 32):
        bits = bits | bits >> np.uint64(distance)
    return bits


def regroup(interval: Interval, grain: int, width: int) -> Interval:
    """An interval of another grain that holds every value of this one, for words of `width` bits."""
    if interval.grain == grain:
        return interval
    if grain == 1:
        return from_mask(interval.low, open_bits(interval, width))
    if interval.grain == 1:
        return _of_bits(interval, grain, width)
    while interval.grain < grain:
        interval = _joined(interval, width)
    while interval.grain > grain:
        interval = _halved(interval, width)
    return interval


def common(intervals: Sequence[Interval], width: int) -> list[Interval]:
    """The intervals with one grain: theirs if they agree, else single bits."""
    grains = {interval.grain for interval in intervals}
    grain = grains.pop() if len(grains) == 1 else 1
    return [regroup(interval, grain, width) for interval in intervals]


def _of_bits(interval: Interval, grain: int, width: int) -> Interval:
    """Elements of single bits: an open sign makes the ends the largest magnitudes."""
    sign = np.uint64(1 << (grain - 1))
    magnitude = np.uint64(mask_of(grain - 1))
    lows, highs = [], []
    for low, high in zip(
        unpack(interval.low, width // grain, grain), unpack(interval.high, width // grain, grain), strict=True
    ):
        lows.append(np.where(high & sign != 0, sign | (high & magnitude), low))
        highs.append(np.where(low & sign != 0, sign | (low & magnitude), high & magnitude))
    return Interval(pack(lows, grain), pack(highs, grain), grain)


def _joined(interval: Interval, width: int) -> Interval:
    """Elements of twice the grain. Below a negative upper half, the largest lower half is the lowest."""
    grain = interval.grain
    sign = np.uint64(1 << (grain - 1))
    low, high = (unpack(end, width // grain, grain) for end in (interval.low, interval.high))
    lows, highs = [], []
    for rest, top in zip(range(0, len(low), 2), range(1, len(low), 2), strict=True):
        least, most = unsigned_range(low[rest], high[rest], grain)
        lows.append(np.where(low[top] & sign != 0, most, least) | low[top] << np.uint64(grain))
        highs.append(np.where(high[top] & sign != 0, least, most) | high[top] << np.uint64(grain))
    return Interval(pack(lows, 2 * grain), pack(highs, 2 * grain), 2 * grain)


def unsigned_range(low: Bits, high: Bits, bits: int) -> tuple[Bits, Bits]:
    """Least and largest element read as unsigned integers: with a negative low end, that is the largest."""
    mixed = (low ^ high) >> np.uint64(bits - 1) != 0
    return np.where(mixed, _NONE, np.minimum(low, high)), np.where(mixed, low, np.maximum(low, high))


def of_unsigned_range(least: Bits, most: Bits, bits: int) -> tuple[Bits, Bits]:
    """Ends of the smallest element interval that holds all unsigned integers between two."""
    sign = np.uint64(1 << (bits - 1))
    mixed, negative = (least < sign) & (most >= sign), least >= sign
    low = np.where(mixed | negative, most, least)
    high = np.where(mixed, sign - np.uint64(1), np.where(negative, least, most))
    return low, high


def _halved(interval: Interval, width: int) -> Interval:
    """Elements of half the grain: the lower one is open where the upper one is."""
    grain, half = interval.grain, interval.grain // 2
    lows, highs = [], []
    for low, high in zip(
        unpack(interval.low, width // grain, grain), unpack(interval.high, width // grain, grain), strict=True
    ):
        (rest_low, top_low), (rest_high, top_high) = unpack(low, 2, half), unpack(high, 2, half)
        first, last = of_unsigned_range(np.minimum(rest_low, rest_high), np.maximum(rest_low, rest_high), half)
        same = top_low == top_high
        lows += [np.where(same, first, np.uint64(mask_of(half))), top_low]
        highs += [np.where(same, last, np.uint64(mask_of(half - 1))), top_high]
    return Interval(pack(lows, half), pack(highs, half), half)
