"""Copies of `cp.async` between issue and landing: a table with one row for each lane's copy, in the order of issue.

Compiled code adds rows and lands them too. What lands together lands in the order of the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.memory import Backing, Bytes, GlobalMemory, Lanes, Mask, Moves
from tileproof.simulators.ptx.program import Step

#: Columns: the lane; its group; where it writes in shared memory; the allocation that it reads, or NO_SOURCE for zeros;
#: where in it; bytes that it writes; bytes that it reads, the others are zero; the turn in which it lands by itself, or
#: NEVER; the number of its instruction, in the order of issue.
LANE, GROUP, TARGET, ALLOCATION, SOURCE, NBYTES, TAKEN, DUE, NUMBER, COLUMNS = range(10)
#: The state: rows; instructions issued so far; the present turn; the turn in which the first row lands by itself.
COUNT, ISSUED, TURN, NEXT_DUE, STATES = range(5)
NO_SOURCE = -1
NEVER = int(np.iinfo(np.int64).max)
_FIRST_ROOM = 1 << 10
_NOTHING = Backing(0, defined=True)
_ALL_BITS = np.uint8(0xFF)


@dataclass(frozen=True, eq=False)
class SmallCopy:
    """The copies of one instruction from one allocation.

    Attributes:
        step: the instruction.
        lanes: who issued them.
        groups: each lane's group.
        target: shared memory.
        target_offsets: where each lane writes.
        source: the allocation.
        source_offsets: where each lane reads.
        nbytes: written by each lane.
        source_bytes: of these, read from the source; the rest is zero.
    """

    step: Step
    lanes: Lanes
    groups: Lanes
    target: Backing
    target_offsets: Lanes
    source: Backing
    source_offsets: Lanes
    nbytes: int
    source_bytes: int


class SmallFlights:
    """The rows of the resident blocks.

    Attributes:
        table: int64 [room, COLUMNS]; rows from COUNT on mean nothing.
        state: int64 [STATES].
        moves: counts how often the table was exchanged for a larger one.

    Args:
        shared: shared memory of all resident blocks.
        memory: global memory.
    """

    def __init__(self, shared: Backing, memory: GlobalMemory) -> None:
        self.table: Lanes = np.zeros((_FIRST_ROOM, COLUMNS), np.int64)
        self.state: Lanes = np.zeros(STATES, np.int64)
        self.state[NEXT_DUE] = NEVER
        self.moves = Moves()
        self._shared, self._memory = shared, memory

    @property
    def rows(self) -> Lanes:
        """What is in flight."""
        return self.table[: self.state[COUNT]]

    def send(self, copies: list[SmallCopy], delay: int | None) -> None:
        """The copies of one instruction; they land after so many turns, 0 for at once, None for only when they must."""
        for copy in copies:
            if delay == 0:
                self._put(copy.target_offsets, copy.source, copy.source_offsets, copy.nbytes, copy.source_bytes)
            else:
                words(self._shared.track(), copy.nbytes)[copy.target_offsets // copy.nbytes] = 0
        if delay != 0:
            due = NEVER if delay is None else int(self.state[TURN]) + delay
            self.state[ISSUED] += 1
            self.state[NEXT_DUE] = min(due, int(self.state[NEXT_DUE]))
            for copy in copies:
                self._add(copy, due)

    def _add(self, copy: SmallCopy, due: int) -> None:
        first, count = int(self.state[COUNT]), copy.lanes.size
        while len(self.table) < first + count:
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            self.moves.count += 1
        rows = self.table[first : first + count]
        rows[:, LANE], rows[:, GROUP], rows[:, TARGET] = copy.lanes, copy.groups, copy.target_offsets
        rows[:, ALLOCATION], rows[:, SOURCE] = self._memory.index_of(copy.source), copy.source_offsets
        rows[:, NBYTES], rows[:, TAKEN] = copy.nbytes, copy.source_bytes
        rows[:, DUE], rows[:, NUMBER] = due, self.state[ISSUED]
        self.state[COUNT] += count

    def begin_turn(self, turn: int) -> bool:
        """What is due lands; whether anything was."""
        self.state[TURN] = turn
        if self.state[NEXT_DUE] > turn:
            return False
        landed = self.land(self.rows[:, DUE] <= turn)
        self.state[NEXT_DUE] = self.rows[:, DUE].min(initial=NEVER)
        return landed

    def land(self, chosen: Mask, order: Lanes | None = None) -> bool:
        """Some rows land, in this order of theirs; whether there were any."""
        if not chosen.any():
            return False
        rows, left = self.rows[chosen], self.rows[~chosen]
        self.table[: len(left)] = left
        self.state[COUNT] = len(left)
        for part in _alike(rows if order is None else rows[order]):
            first = part[0]
            source = _NOTHING if first[ALLOCATION] == NO_SOURCE else self._memory.allocation(int(first[ALLOCATION]))
            self._put(part[:, TARGET], source, part[:, SOURCE], int(first[NBYTES]), int(first[TAKEN]))
        return True

    def _put(self, target: Lanes, source: Backing, source_offsets: Lanes, nbytes: int, taken: int) -> None:
        shared = self._shared
        if taken < nbytes:
            self._put_bytes(target, source, source_offsets, nbytes, taken)
        else:
            put, get = target // nbytes, source_offsets // nbytes
            words(shared.data, nbytes)[put] = words(source.data, nbytes)[get]
            written = words(shared.track(), nbytes)
            if source.written is None:
                written[put] = np.iinfo(written.dtype).max
            else:
                written[put] = words(source.written, nbytes)[get]
        if source.brackets is not None or shared.brackets is not None:
            # What approximate functions left open of the bytes; what was filled with zeros is decided.
            held = None if source.brackets is None else source.brackets.take(source_offsets, taken)
            shared.put_brackets(target, nbytes, None)
            if held is not None:
                shared.put_brackets(target, taken, held)

    def _put_bytes(self, target: Lanes, source: Backing, source_offsets: Lanes, nbytes: int, taken: int) -> None:
        shared, index = self._shared, target[:, None] + np.arange(nbytes)
        shared.data[index] = 0
        shared.track()[index] = _ALL_BITS
        if taken:
            part, origin = index[:, :taken], source_offsets[:, None] + np.arange(taken)
            shared.data[part] = source.data[origin]
            if source.written is not None:
                shared.track()[part] = source.written[origin]


def _alike(rows: Lanes) -> Iterator[Lanes]:
    """Rows one after the other that are of one instruction, allocation and number of bytes."""
    differs = (rows[1:][:, (ALLOCATION, TAKEN, NUMBER)] != rows[:-1][:, (ALLOCATION, TAKEN, NUMBER)]).any(axis=1)
    yield from np.split(rows, np.flatnonzero(differs) + 1)


def words(array: Bytes, nbytes: int) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Bytes as rows of `nbytes`, in elements as large as numpy moves fast."""
    if nbytes == 4:
        return array.view(np.uint32)
    pairs = array.view(np.uint64)
    return pairs if nbytes == 8 else pairs[: pairs.size // 2 * 2].reshape(-1, 2)
