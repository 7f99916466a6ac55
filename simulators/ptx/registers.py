"""The register file of the resident lanes: raw bits, and which of them nothing ever wrote."""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.memory import Bits, Lanes
from tileproof.simulators.ptx.program import SINK

Selection = slice | Lanes
EVERY_LANE = slice(None)
_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Registers:
    """Values as uint64 [slots, lanes]; a slot's undefined mask is None while all of its lanes are defined.

    Args:
        slot_bits: width of every register, constant and special register.
        lanes: resident lanes, those that pad the last warp of a block included.
        live: lanes that run the kernel; the padding ones count as defined.
    """

    def __init__(self, slot_bits: Sequence[int], live: Lanes, lanes: int) -> None:
        self._slot_bits = slot_bits
        self.values: Bits = np.zeros((len(slot_bits), lanes), np.uint64)
        self._live_count = live.size
        never: Bits = np.zeros(lanes, np.uint64)
        never[live] = _ALL_BITS
        never.setflags(write=False)
        self._undefined: list[Bits | None] = [never] * len(slot_bits)

    def fill(self, slot: int, values: int | Bits) -> None:
        """Set a constant or special register in every lane."""
        self.values[slot] = values
        self._undefined[slot] = None

    def read(self, slot: int, selection: Selection, narrow: int = 0) -> Bits:
        """Bits of the selected lanes; the low `narrow` bits only where it is not 0."""
        values: Bits = self.values[slot][selection]
        return values & np.uint64((1 << narrow) - 1) if narrow else values

    def all_defined(self, slots: Sequence[int]) -> bool:
        """Whether no lane of any of the slots has an undefined bit."""
        undefined = self._undefined
        return all(undefined[slot] is None for slot in slots)

    def undefined(self, slot: int, selection: Selection, narrow: int = 0) -> Bits:
        """Masks of undefined bits of the selected lanes."""
        mask = self._undefined[slot]
        if mask is None:
            return np.zeros_like(self.values[slot][selection])
        chosen: Bits = mask[selection]
        return chosen & np.uint64((1 << narrow) - 1) if narrow else chosen

    def write(self, slot: int, selection: Selection, values: Bits, undefined: Bits | None, sign_from: int = 0) -> None:
        """Write the selected lanes; `sign_from` bits are sign-extended into the wider register first."""
        if slot == SINK:
            return
        if sign_from:
            values = _sign_extend(values, sign_from, self._slot_bits[slot])
        self.values[slot][selection] = values
        self._mark(slot, selection, values.size, undefined)

    def _mark(self, slot: int, selection: Selection, count: int, undefined: Bits | None) -> None:
        mask = self._undefined[slot]
        if undefined is None and (mask is None or count == self._live_count):
            self._undefined[slot] = None
            return
        mask = np.zeros(self.values.shape[1], np.uint64) if mask is None else mask.copy()
        mask[selection] = 0 if undefined is None else undefined
        self._undefined[slot] = mask if mask.any() else None


def _sign_extend(values: Bits, bits: int, register_bits: int) -> Bits:
    sign = np.uint64(1 << (bits - 1))
    return ((values ^ sign) - sign) & np.uint64((1 << register_bits) - 1)
