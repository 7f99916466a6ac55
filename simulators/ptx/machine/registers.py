"""The register file of the resident lanes: raw bits, and which of them nothing ever wrote."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.bracket_registers import BracketRegisters
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.program import SINK

Selection = slice | Lanes
"""Lanes that execute together: a slice where they are neighbours, which numpy reads without a copy."""

EVERY_BIT = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
# What is known of a whole register: every bit of it was written; its row of masks says; nothing wrote it at all.
DEFINED, PARTLY, NEVER = 0, 1, 2


def as_selection(lanes: Lanes) -> Selection:
    """Ascending lane numbers as a selection."""
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first + 1 == lanes.size else lanes


class RegisterFile:
    """Arrays for the registers of one wave after the other: making them anew costs more than a short kernel."""

    def __init__(self) -> None:
        self._values: Bits = np.zeros((0, 0), np.uint64)
        self._masks: Bits = np.zeros((0, 0), np.uint64)

    def rows(self, slots: int, lanes: int) -> tuple[Bits, Bits, bool]:
        """Values and masks [slots, lanes], and whether a wave of this size left something in them."""
        same = self._values.shape == (slots, lanes)
        if not same:
            self._values, self._masks = np.zeros((2, slots, lanes), np.uint64)
        return self._values, self._masks, same


class Registers:
    """Values, which bits of them are undefined, and for each slot what is known of it as a whole.

    Attributes:
        values: raw bits [slots, lanes]; of a slot that nothing has written, of no meaning.
        masks: undefined bits [slots, lanes]; of a slot that is PARTLY written only.
        known: for each slot DEFINED, PARTLY or NEVER.
        never: the masks of a slot that nothing has written.
        present: how many lanes can still execute.
        kept: whether the constants of the last wave still stand in their slots.
        brackets: the intervals of registers that an approximate function left open.
        before_write: called with slot and lanes before a register is written.

    Args:
        slot_bits: width of every register, constant and special register.
        live: lanes that run the kernel; the lanes that pad the last warp of a block count as defined.
        lanes: all of them.
        file: where the arrays come from.
    """

    def __init__(self, slot_bits: Sequence[int], live: Lanes, lanes: int, file: RegisterFile) -> None:
        self._slot_bits = slot_bits
        self.values, self.masks, self.kept = file.rows(len(slot_bits), lanes)
        self.known: NDArray[np.uint8] = np.full(len(slot_bits), NEVER, np.uint8)
        self.never: Bits = np.zeros(lanes, np.uint64)
        self.never[live] = EVERY_BIT
        self.present = live.size
        self.brackets = BracketRegisters(slot_bits, lanes)
        self.before_write: Callable[[int, Selection], None] | None = None

    def fill(self, slot: int, values: int | Bits) -> None:
        """Set a constant or special register in every lane."""
        self.values[slot] = values
        self.known[slot] = DEFINED

    def keep(self, slot: int) -> None:
        """A constant stands in its slot already."""
        self.known[slot] = DEFINED

    def read(self, slot: int, selection: Selection, narrow: int = 0) -> Bits:
        """Bits of the selected lanes; the low `narrow` bits only where it is not 0."""
        if self.known[slot] == NEVER:
            self._open(slot)
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
        if self.known[slot] == DEFINED:
            return False
        row = self.never if self.known[slot] == NEVER else self.masks[slot]
        return bool(row[selection].any())

    def _mask(self, slot: int, selection: Selection, narrow: int) -> Bits:
        if self.known[slot] == DEFINED:
            return np.zeros_like(self.values[slot][selection])
        row = self.never if self.known[slot] == NEVER else self.masks[slot]
        chosen: Bits = row[selection]
        return chosen & np.uint64((1 << (narrow or self._slot_bits[slot])) - 1)

    def write(self, slot: int, selection: Selection, values: Bits, undefined: Bits | None, sign_from: int = 0) -> None:
        """Write the selected lanes; `sign_from` bits are sign-extended into the wider register first."""
        if slot == SINK:
            return
        if self.before_write is not None:
            self.before_write(slot, selection)
        if sign_from:
            bits = self._slot_bits[slot]
            values = _sign_extend(values, sign_from, bits)
            undefined = None if undefined is None else _sign_extend(undefined, sign_from, bits)
        everyone = undefined is None and values.size == self.present
        if not everyone and self.known[slot] == NEVER:
            self._open(slot)
        self.values[slot][selection] = values
        if self.brackets.live:
            self.brackets.clear(slot, selection)
        if everyone:
            self.known[slot] = DEFINED
        elif undefined is not None or self.known[slot] != DEFINED:
            self._mark(slot, selection, undefined)

    def leave(self, count: int) -> None:
        """So many lanes end: nobody reads what they left."""
        self.present -= count

    def _open(self, slot: int) -> None:
        """Of a slot that nothing has written: zeros, every bit of them undefined."""
        self.values[slot] = 0
        self.masks[slot] = self.never
        self.known[slot] = PARTLY

    def _mark(self, slot: int, selection: Selection, undefined: Bits | None) -> None:
        if self.known[slot] == DEFINED:
            self.masks[slot] = 0
            self.known[slot] = PARTLY
        self.masks[slot][selection] = 0 if undefined is None else undefined


def _sign_extend(values: Bits, bits: int, register_bits: int) -> Bits:
    """Also right for masks: an undefined sign bit leaves every bit above it undefined."""
    sign = np.uint64(1 << (bits - 1))
    return ((values ^ sign) - sign) & np.uint64((1 << register_bits) - 1)
