"""The register file of the resident lanes: raw bits, and which of them nothing ever wrote."""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.machine.bracket_registers import BracketRegisters
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.program import SINK

Selection = slice | Lanes
"""Lanes that execute together: a slice where they are neighbours, which numpy reads without a copy."""

EVERY_BIT = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def as_selection(lanes: Lanes) -> Selection:
    """Ascending lane numbers as a selection."""
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first + 1 == lanes.size else lanes


class Registers:
    """Values as uint64 [slots, lanes], and for each slot a mask of undefined bits or None while there are none.

    Attributes:
        brackets: the intervals of registers that an approximate function left open.

    Args:
        slot_bits: width of every register, constant and special register.
        live: lanes that run the kernel; the lanes that pad the last warp of a block count as defined.
        lanes: all of them.
    """

    def __init__(self, slot_bits: Sequence[int], live: Lanes, lanes: int) -> None:
        self._slot_bits = slot_bits
        self.values: Bits = np.zeros((len(slot_bits), lanes), np.uint64)
        self._live_count = live.size
        # One mask stands for all registers that nothing has written at all; it is copied before it changes.
        self._never: Bits = np.zeros(lanes, np.uint64)
        self._never[live] = EVERY_BIT
        self._undefined: list[Bits | None] = [self._never] * len(slot_bits)
        self.brackets = BracketRegisters(slot_bits, lanes)

    def fill(self, slot: int, values: int | Bits) -> None:
        """Set a constant or special register in every lane."""
        self.values[slot] = values
        self._undefined[slot] = None

    def read(self, slot: int, selection: Selection, narrow: int = 0) -> Bits:
        """Bits of the selected lanes; the low `narrow` bits only where it is not 0."""
        values: Bits = self.values[slot][selection]
        return values & np.uint64((1 << narrow) - 1) if narrow else values

    def undefined(self, slots: Sequence[int], selection: Selection, narrow: Sequence[int] = ()) -> list[Bits] | None:
        """Masks of undefined bits of the selected lanes, one for each slot; None if there is no such bit."""
        if not any(self._touches_undefined(slot, selection) for slot in slots):
            return None
        bits = narrow or [self._slot_bits[slot] for slot in slots]
        masks = [self._mask(slot, selection, n) for slot, n in zip(slots, bits, strict=True)]
        return masks if any(mask.any() for mask in masks) else None

    def _touches_undefined(self, slot: int, selection: Selection) -> bool:
        mask = self._undefined[slot]
        return mask is not None and bool(mask[selection].any())

    def _mask(self, slot: int, selection: Selection, narrow: int) -> Bits:
        mask = self._undefined[slot]
        if mask is None:
            return np.zeros_like(self.values[slot][selection])
        chosen: Bits = mask[selection]
        return chosen & np.uint64((1 << (narrow or self._slot_bits[slot])) - 1)

    def write(self, slot: int, selection: Selection, values: Bits, undefined: Bits | None, sign_from: int = 0) -> None:
        """Write the selected lanes; `sign_from` bits are sign-extended into the wider register first."""
        if slot == SINK:
            return
        if sign_from:
            bits = self._slot_bits[slot]
            values = _sign_extend(values, sign_from, bits)
            undefined = None if undefined is None else _sign_extend(undefined, sign_from, bits)
        self.values[slot][selection] = values
        if self.brackets.live:
            self.brackets.clear(slot, selection)
        if undefined is None and (self._undefined[slot] is None or values.size == self._live_count):
            self._undefined[slot] = None
        else:
            self._mark(slot, selection, undefined)

    def _mark(self, slot: int, selection: Selection, undefined: Bits | None) -> None:
        mask = self._undefined[slot]
        if mask is None:
            mask = self._undefined[slot] = np.zeros_like(self._never)
        elif mask is self._never:
            mask = self._undefined[slot] = self._never.copy()
        mask[selection] = 0 if undefined is None else undefined


def _sign_extend(values: Bits, bits: int, register_bits: int) -> Bits:
    """Also right for masks: an undefined sign bit leaves every bit above it undefined."""
    sign = np.uint64(1 << (bits - 1))
    return ((values ^ sign) - sign) & np.uint64((1 << register_bits) - 1)
