"""Which bytes of memory hold intervals instead of values: three arrays beside a backing's bytes, made when needed.

Every byte of an element that is more than one value knows the element's ends and its grain; grain 0 is a byte that is
what it is. Elements are aligned to their size. A store over part of an element leaves the rest as single bits.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.scalar import Bits, mask_of
from tileproof.simulators.ptx.machine.bracket_interval import Interval, Lanes, from_mask, open_bits, regroup

if TYPE_CHECKING:
    from tileproof.simulators.ptx.machine.memory import Backing

Bytes = NDArray[np.uint8]

_WORD = 8
_EVERY_BYTE = np.uint64(0x0101_0101_0101_0101)
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class HeldBytes:
    """Bytes that were taken out of a memory, as three arrays of as many: see `BracketBytes`."""

    low: Bytes
    high: Bytes
    grain: Bytes

    @property
    def open_bytes(self) -> int:
        """Bytes of elements that are more than one value."""
        return int(np.count_nonzero(self.grain))

    def spread(self, nbytes: int, index: Lanes) -> "HeldBytes":
        """The same bytes at some places among others, which are values."""
        low, high, grain = (np.zeros(nbytes, np.uint8) for _ in range(3))
        low[index], high[index], grain[index] = self.low, self.high, self.grain
        return HeldBytes(low, high, grain)


class BracketBytes:
    """Ends and grains of the bytes of one backing.

    Args:
        padded_bytes: of the backing's array, a multiple of 8.
    """

    def __init__(self, padded_bytes: int) -> None:
        # Zeros that the operating system provides at first touch.
        self.low: Bytes = np.zeros(padded_bytes, np.uint8)
        self.high: Bytes = np.zeros(padded_bytes, np.uint8)
        self.grain: Bytes = np.zeros(padded_bytes, np.uint8)

    def clear(self, offsets: Lanes, size: int) -> None:
        """Values were stored at aligned offsets."""
        self._break(offsets, size)
        self.grain.view(_UNSIGNED[size])[offsets // size] = 0

    def clear_range(self, start: int, stop: int) -> None:
        """The host wrote bytes."""
        self.clear(np.arange(start, stop), 1)

    def load(self, data: Bytes, offsets: Lanes, size: int) -> Interval | None:
        """The interval at aligned offsets; None if there are only values."""
        grains = self.grain.view(_UNSIGNED[size])[offsets // size]
        if not grains.any():
            return None
        used = [int(grain) for grain in np.unique(np.ascontiguousarray(grains).view(np.uint8)) if grain]
        words = offsets // _WORD
        shift = (offsets % _WORD * 8).astype(np.uint64)
        intervals = [self._words(data, words, grain) for grain in used]
        if len(used) == 1:
            (interval,) = intervals
            if interval.grain > 8 * size:
                interval = regroup(interval, 8 * size, 64)
            return interval.field(shift, 8 * size)
        mask = np.bitwise_or.reduce([open_bits(interval, 64) for interval in intervals])
        return from_mask(data.view(np.uint64)[words], mask).field(shift, 8 * size)

    def store(self, offsets: Lanes, size: int, interval: Interval) -> None:
        """Intervals, where more than one value, at aligned offsets that `clear` has just cleared."""
        if interval.grain > 8 * size:
            interval = regroup(interval, 8 * size, interval.grain)
        element = _UNSIGNED[size]
        index = offsets // size
        self.low.view(element)[index] = interval.low.astype(element)
        self.high.view(element)[index] = interval.high.astype(element)
        self.grain.view(element)[index] = _grains(interval, size).astype(element)

    def take(self, starts: Lanes, nbytes: int) -> HeldBytes | None:
        """The bytes of pieces, one after the other; None if they are all values."""
        self._cut(starts, nbytes)
        index = (starts[:, None] + np.arange(nbytes)).reshape(-1)
        grain = self.grain[index]
        return HeldBytes(self.low[index], self.high[index], grain) if grain.any() else None

    def put(self, starts: Lanes, nbytes: int, held: HeldBytes | None) -> None:
        """Pieces were overwritten, with what was taken from elsewhere."""
        self._cut(starts, nbytes)
        index = (starts[:, None] + np.arange(nbytes)).reshape(-1)
        self.grain[index] = 0 if held is None else held.grain
        if held is not None:
            self.low[index], self.high[index] = held.low, held.high

    def _words(self, data: Bytes, words: Lanes, grain: int) -> Interval:
        """Words of 8 bytes: intervals in the bytes of a grain, values in the others."""
        held = self.grain.view(np.uint64)[words]
        unlike = held ^ (np.uint64(grain) * _EVERY_BYTE)
        for distance in (1, 2, 4):
            unlike = unlike | unlike >> np.uint64(distance)
        ours: Bits = ((unlike & _EVERY_BYTE) ^ _EVERY_BYTE) * np.uint64(0xFF)
        value: Bits = data.view(np.uint64)[words] & ~ours
        low: Bits = (self.low.view(np.uint64)[words] & ours) + value
        high: Bits = (self.high.view(np.uint64)[words] & ours) + value
        return Interval(low, high, grain)

    def _cut(self, starts: Lanes, nbytes: int) -> None:
        """Elements that reach over the end of a piece become single bits."""
        places = int(np.bitwise_or.reduce(starts, initial=0)) | nbytes | _WORD
        unit = places & -places  # the largest power of two that divides all of them
        self._break((starts[:, None] + np.arange(0, nbytes, unit)).reshape(-1), unit)

    def _break(self, offsets: Lanes, size: int) -> None:
        """Elements of which only a part is about to be stored become single bits."""
        first = self.grain[offsets]
        for grain in np.unique(first[first > 8 * size]):
            nbytes = int(grain) // 8
            places = np.unique(offsets[first == grain] // nbytes)
            element = _UNSIGNED[nbytes]
            low, high = (end.view(element)[places].astype(np.uint64) for end in (self.low, self.high))
            bits = regroup(Interval(low, high, int(grain)), 1, int(grain))
            self.low.view(element)[places] = bits.low.astype(element)
            self.high.view(element)[places] = bits.high.astype(element)
            self.grain.view(element)[places] = int(mask_of(8 * nbytes) // 0xFF)


def _grains(interval: Interval, size: int) -> Bits:
    """For every byte of a word of `size` bytes the grain of its element, 0 where that is one value."""
    nbytes = max(1, interval.grain // 8)
    grains = np.zeros_like(interval.low)
    differ = interval.low ^ interval.high
    for start in range(0, size, nbytes):
        field = np.uint64(mask_of(8 * nbytes) << (8 * start))
        every = np.uint64((mask_of(8 * nbytes) // 0xFF * interval.grain) << (8 * start))
        grains |= np.where(differ & field != 0, every, np.uint64(0))
    return grains


def copy_bytes(
    source: "Backing", source_offsets: Lanes, destination: "Backing", destination_offsets: Lanes, size: int
) -> None:
    """After a copy of 1, 2, 4 or 8 bytes from each aligned offset to another: the intervals go with the bytes."""
    if destination.brackets is not None:
        destination.brackets.clear(destination_offsets, size)
    held = source.bracket(source_offsets, size)
    if held is not None:
        destination.set_bracket(destination_offsets, size, held)
