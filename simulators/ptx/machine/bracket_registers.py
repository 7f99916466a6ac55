"""Which registers hold intervals instead of values: a table beside the register file, empty for most programs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.scalar import Bits
from tileproof.simulators.ptx.machine.bracket_interval import Interval, Lanes, regroup

Selection = slice | Lanes


class BracketRegisters:
    """Intervals by slot.

    Attributes:
        flags: for each slot whether some lane of it may hold an interval.
        live: whether any does.

    Args:
        slot_bits: width of every slot.
        lanes: of the wave.
    """

    def __init__(self, slot_bits: Sequence[int], lanes: int) -> None:
        self.flags: NDArray[np.uint8] = np.zeros(len(slot_bits), np.uint8)
        self.live = False
        self._slot_bits = slot_bits
        self._lanes = lanes
        # Full lanes; both ends of a lane that holds one value are zero.
        self._table: dict[int, Interval] = {}

    def clear(self, slot: int, selection: Selection) -> None:
        """The selected lanes of a slot were written with values."""
        held = self._table.get(slot)
        if held is None:
            return
        held.low[selection] = 0
        held.high[selection] = 0
        if not held.wide.any():
            del self._table[slot]
            self.flags[slot] = 0
            self.live = bool(self._table)

    def set(self, slot: int, selection: Selection, interval: Interval) -> None:
        """The selected lanes of a slot hold an interval, where it is more than one value."""
        wide = interval.wide
        if slot < 0 or not wide.any():
            return
        width = max(8, self._slot_bits[slot])
        held = self._table.get(slot)
        if held is None:
            held = Interval(np.zeros(self._lanes, np.uint64), np.zeros(self._lanes, np.uint64), interval.grain)
        elif held.grain != interval.grain:
            held.low[selection] = 0
            held.high[selection] = 0
            if not held.wide.any():
                held = Interval(held.low, held.high, interval.grain)
            else:  # lanes that disagree about the elements: single bits for all
                bits, interval = regroup(held, 1, width), regroup(interval, 1, width)
                held = Interval(bits.low, bits.high, 1)
        held.low[selection] = np.where(wide, interval.low, 0)
        held.high[selection] = np.where(wide, interval.high, 0)
        self._table[slot] = held
        self.flags[slot] = 1
        self.live = True

    def get(self, slot: int, selection: Selection, values: Bits, narrow: int = 0) -> Interval | None:
        """The interval that the selected lanes of a slot hold; None if all of them are one value.

        Args:
            slot: where.
            selection: lanes.
            values: what they hold nominally, cut to `narrow`.
            narrow: the low bits to read, 0 for all.
        """
        if slot < 0 or not self.flags[slot]:
            return None
        held = self._table[slot].take(selection)
        wide = held.wide
        if not wide.any():
            return None
        if narrow:
            if held.grain > narrow:
                held = regroup(held, narrow, max(8, self._slot_bits[slot]))
            held = held.field(np.uint64(0), narrow)
        return Interval(np.where(wide, held.low, values), np.where(wide, held.high, values), held.grain)
