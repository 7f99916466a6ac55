"""LDS of a block, and who touched which byte since the last barrier.

Waves of a block meet at barriers only. Two accesses to a byte by different waves, of which one writes, are ordered
where a barrier stands between the end of the first and the start of the second; else they race, whatever the schedule
was. An access ends where its wave waits for it (`lgkmcnt`): one in flight at a barrier reaches into the next interval.

So for every byte two sets of waves are enough, its writers and its readers of this interval. A barrier empties them,
but for the accesses in flight. Example: wave 0 writes byte 5, barrier without a wait before it, wave 1 reads byte 5:
the write is still a member of the new interval, and the read races with it.

Source: AMD "Vega" ISA, s_barrier and s_waitcnt: a barrier does not wait for outstanding LDS operations.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.addresses.lds_tile import CAPACITY_BYTES
from tileproof.oracle.refusal import Refusal

#: A wave is a bit of a 32-bit set.
WAVE_LIMIT = 32

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Access:
    wave: int
    index: Index
    writes: bool
    line: int


@dataclass(frozen=True)
class Race:
    """Two unordered accesses to one byte."""

    byte: int
    other_wave: int
    other_writes: bool
    other_line: int
    #: Bytes that race.
    count: int


class Lds:
    """The LDS that a block has.

    Args:
        size: bytes.

    Raises:
        Refusal: more than a compute unit has.
    """

    def __init__(self, size: int) -> None:
        if not 0 < size <= CAPACITY_BYTES:
            raise Refusal(f"{size} bytes of LDS", hint=f"a block has 1 .. {CAPACITY_BYTES}")
        self.data = np.zeros(size, np.uint8)
        self.defined = np.zeros(size, np.bool_)
        self._sets = {writes: np.zeros(size, np.uint32) for writes in (False, True)}
        self._lines = {writes: np.zeros(size, np.int32) for writes in (False, True)}
        self._in_flight: list[_Access] = []

    @property
    def size(self) -> int:
        """Bytes."""
        return self.data.size

    def access(self, wave: int, index: Index, writes: bool, line: int) -> Race | None:
        """Notes one wave's access to the bytes `index`, and returns what it races with."""
        race = self._race(wave, index, writes)
        access = _Access(wave, index, writes, line)
        self._note(access)
        self._in_flight.append(access)
        return race

    def wait(self) -> None:
        """All accesses so far have ended."""
        self._in_flight.clear()

    def barrier(self) -> None:
        """A new interval, into which reaches what is in flight."""
        for touched in self._sets.values():
            touched[:] = 0
        for access in self._in_flight:
            self._note(access)

    def _note(self, access: _Access) -> None:
        self._sets[access.writes][access.index] |= np.uint32(1 << access.wave)
        self._lines[access.writes][access.index] = access.line

    def _race(self, wave: int, index: Index, writes: bool) -> Race | None:
        for other_writes in (True, False) if writes else (True,):
            others = self._sets[other_writes][index] & np.uint32(~(1 << wave) & 0xFFFFFFFF)
            hit = np.flatnonzero(others)
            if hit.size:
                byte = int(index[hit[0]])
                other = int(others[hit[0]])
                line = int(self._lines[other_writes][byte])
                return Race(byte, (other & -other).bit_length() - 1, other_writes, line, hit.size)
        return None
