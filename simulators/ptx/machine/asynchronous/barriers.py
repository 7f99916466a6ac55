"""The mbarrier objects of the resident blocks, as plain arrays over the 8-byte words of their shared memory.

A word is the object's byte offset in the window of all resident blocks, divided by 8; so any number of objects takes
one numpy call. The object's bytes themselves hold nothing that a kernel may look at.

Example: after `mbarrier.init [0x400], 2` in the wave's first block `life[0]` is LIVE, `pending[0]` 2, `phase[0]` 0; two
arrivals later `phase[0]` is 1 and `pending[0]` 2 again.
"""

from typing import Final

import numpy as np

from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask

WORD_SHIFT = 3
OBJECT_BYTES = 1 << WORD_SHIFT
# Largest count, expected or pending, and largest magnitude of the transaction count (PTX ISA, "Contents of the mbarrier
# object").
COUNT_LIMIT = (1 << 20) - 1
_PHASE_BITS = 22
_COUNT_MASK = np.uint64(COUNT_LIMIT)


class Life:
    """What stands at a word: plain numbers, because numpy asks enumerations for more at every comparison."""

    NONE: Final = 0
    LIVE: Final = 1
    INVALIDATED: Final = 2


class Barriers:
    """All mbarrier objects.

    Attributes:
        any_live: whether some object was ever initialised.
        life: a `Life` for every word.
        expected: arrivals of every phase.
        pending: arrivals that the current phase still waits for.
        transactions: bytes expected less bytes completed in the current phase.
        asked: bytes that the current phase was told to expect.
        issued: bytes of the copies that were issued in it, landed or not.
        phase: the current, incomplete phase, from 0.
        observed: phases that some wait has seen complete.
        promised: phases that copies were bound to: the last one's number plus 1.
        promised_at: step index of the copy that was bound last.
        component: the order core's name of the object.
        base: shared address of a block's first byte.

    Args:
        window_bytes: shared memory of all resident blocks.
        stride: bytes from one block's shared memory to the next one's.
        base: shared address of a block's first byte.
    """

    def __init__(self, window_bytes: int, stride: int, base: int) -> None:
        words = (window_bytes >> WORD_SHIFT) + 1
        self._stride, self.base = max(stride, 1), base
        self.any_live = False
        self.life = np.zeros(words, np.uint8)
        self.expected, self.pending, self.transactions, self.phase = np.zeros((4, words), np.int32)
        self.asked, self.issued = np.zeros((2, words), np.int32)
        self.observed, self.promised, self.promised_at, self.component = np.zeros((4, words), np.int32)

    def init(self, words: Lanes, counts: Lanes) -> None:
        """New objects in phase 0."""
        self.any_live = True
        self.life[words] = Life.LIVE
        self.expected[words] = self.pending[words] = counts
        for field in (self.transactions, self.asked, self.issued, self.phase, self.observed, self.promised):
            field[words] = 0

    def complete(self, words: Lanes) -> Mask:
        """Which of the objects have nothing left to wait for in their current phase."""
        nothing_left: Mask = (self.pending[words] == 0) & (self.transactions[words] == 0)
        nothing_left &= self.life[words] == Life.LIVE
        return nothing_left

    def advance(self, words: Lanes) -> None:
        """The objects enter their next phase."""
        self.phase[words] += 1
        self.pending[words] = self.expected[words]
        self.asked[words] = self.issued[words] = 0

    def states(self, words: Lanes, pending: Lanes) -> Bits:
        """The opaque state of each object: its pending count, its phase and where in its block it lies."""
        place = (words << WORD_SHIFT) % self._stride >> WORD_SHIFT
        phase = self.phase[words] & ((1 << _PHASE_BITS) - 1)
        states: Bits = (pending | phase.astype(np.int64) << 20 | place << (20 + _PHASE_BITS)).astype(np.uint64)
        return states

    def state_phases(self, words: Lanes, states: Bits) -> tuple[Lanes, Mask]:
        """The phase that each state names, and whether it is a state of that object, of this phase or the last."""
        phase = (states >> np.uint64(20)).astype(np.int64) & ((1 << _PHASE_BITS) - 1)
        place = (states >> np.uint64(20 + _PHASE_BITS)).astype(np.int64)
        behind = self.phase[words] - phase
        fits = (place == (words << WORD_SHIFT) % self._stride >> WORD_SHIFT) & (behind >= 0) & (behind <= 1)
        return phase, fits

    def touched(self, offsets: Lanes, nbytes: int) -> Mask:
        """Which accesses of at most 16 aligned bytes touch a live object."""
        last = (offsets + (nbytes - 1)) >> WORD_SHIFT
        touched: Mask = (self.life[offsets >> WORD_SHIFT] == Life.LIVE) | (self.life[last] == Life.LIVE)
        return touched

    def inside(self, start: int, end: int) -> bool:
        """Whether a live object lies in the bytes from `start` to below `end`."""
        return bool((self.life[start >> WORD_SHIFT : (end + 7) >> WORD_SHIFT] == Life.LIVE).any())

    def address(self, word: int) -> int:
        """The object's shared address in its block."""
        return self.base + (word << WORD_SHIFT) % self._stride

    def block(self, word: int) -> int:
        """The resident block that the object belongs to."""
        return (word << WORD_SHIFT) // self._stride

    def words_of(self, block: int) -> slice:
        """All words of a resident block."""
        return slice(block * self._stride >> WORD_SHIFT, (block + 1) * self._stride >> WORD_SHIFT)


def pending_of(states: Bits) -> Bits:
    """The pending count that states hold."""
    return states & _COUNT_MASK
