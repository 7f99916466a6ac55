"""`cp.async` in flight, compiled: rows of the table of `SmallFlights`, and their landing.

A row that lands is that of the reference engine: the same bytes in the same order.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import (
    BYTES,
    COMPLETE,
    COPIES,
    DATA,
    FLIGHT_ROOM,
    FLIGHT_STATE,
    FLIGHT_TABLE,
    FLIGHTS,
    LANDINGS,
    OPEN_GROUP,
    SHARED,
    WRITTEN,
)
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import counts_at, longs_at, offsets_at, table_at, words_at
from tileproof.simulators.ptx.machine import draws
from tileproof.simulators.ptx.machine.asynchronous.small_flights import (
    ALLOCATION,
    COLUMNS,
    COUNT,
    DUE,
    GROUP,
    ISSUED,
    LANE,
    NBYTES,
    NEVER,
    NEXT_DUE,
    NO_SOURCE,
    NUMBER,
    SOURCE,
    STATES,
    TAKEN,
    TARGET,
    TURN,
)

_ANY = 1 << 40
_ONES = np.uint32(0xFFFF_FFFF)
_landing, _LATEST = draws.landing, draws.LATEST


@part
def has_room(spaces: Any, count: Any) -> Any:
    """Whether so many copies more have rows."""
    line = spaces[FLIGHTS]
    return offsets_at(line[FLIGHT_STATE], STATES)[COUNT] + count <= line[FLIGHT_ROOM]


@part
def delay(spaces: Any) -> Any:
    """Turns until a copy that is issued now lands: drawn, or 0."""
    landings = spaces[FLIGHTS, LANDINGS]
    return _landing(longs_at(landings, 1)) if landings != 0 else 0


@part
def begin(spaces: Any, turns: Any) -> Any:
    """The copies of an instruction are sent, which land after so many turns; the turn in which they do."""
    state = offsets_at(spaces[FLIGHTS, FLIGHT_STATE], STATES)
    due = NEVER if turns == _LATEST else state[TURN] + turns
    state[ISSUED] += 1
    state[NEXT_DUE] = min(state[NEXT_DUE], due)
    return due


@part
def add(
    spaces: Any, lanes: Any, runs: Any, targets: Any, allocation: Any, sources: Any, nbytes: Any, taken: Any, due: Any
) -> None:
    """Rows of the lanes of some runs.

    Args:
        spaces: the memories.
        lanes: of the wave.
        runs: who.
        targets: address of where each writes.
        allocation: that they read, or NO_SOURCE.
        sources: address of where in it each reads.
        nbytes: that each writes.
        taken: that each reads.
        due: when they land by themselves.
    """
    line, open_ = spaces[FLIGHTS], counts_at(spaces[COPIES, OPEN_GROUP], lanes)
    state, table = offsets_at(line[FLIGHT_STATE], STATES), table_at(line[FLIGHT_TABLE], line[FLIGHT_ROOM], COLUMNS)
    to, origin, i = offsets_at(targets, lanes), offsets_at(sources, lanes), 0
    for r in range(len(runs)):
        for lane in range(runs[r, 0], runs[r, 1]):
            row = table[state[COUNT]]
            row[LANE], row[GROUP], row[TARGET], row[NBYTES], row[TAKEN] = lane, open_[lane], to[i], nbytes, taken
            row[ALLOCATION], row[SOURCE] = allocation, origin[i] if taken != 0 else 0
            row[DUE], row[NUMBER] = due, state[ISSUED]
            state[COUNT] += 1
            i += 1


@part
def finish(spaces: Any, allocations: Any, lanes: Any) -> Any:
    """Copies of groups that their lanes know to be complete land; how many. Asked for where `may_finish` holds."""
    line, shared, complete = spaces[FLIGHTS], spaces[SHARED], counts_at(spaces[COPIES, COMPLETE], lanes)
    state = offsets_at(line[FLIGHT_STATE], STATES)
    count, kept = state[COUNT], 0
    table = table_at(line[FLIGHT_TABLE], line[FLIGHT_ROOM], COLUMNS)
    for i in range(count):
        row = table[i]
        if row[GROUP] < complete[row[LANE]]:
            _put(row, shared, allocations)
            continue
        for column in range(COLUMNS if kept != i else 0):
            table[kept, column] = row[column]
        kept += 1
    state[COUNT] = kept
    return count - kept


@part
def may_finish(spaces: Any, allocations: Any) -> Any:
    """Whether whatever is in flight may land here: no intervals stand in its bytes, and none is zero in part."""
    line = spaces[FLIGHTS]
    count = offsets_at(line[FLIGHT_STATE], STATES)[COUNT]
    if count != 0 and spaces[SHARED, BYTES] == 0:
        return False
    table, good = table_at(line[FLIGHT_TABLE], line[FLIGHT_ROOM], COLUMNS), True
    for i in range(count):
        allocation, taken = table[i, ALLOCATION], table[i, TAKEN]
        good &= allocation == NO_SOURCE or allocations[allocation, BYTES] != 0
        good &= taken == 0 or taken == table[i, NBYTES]
    return good


@part
def _put(row: Any, shared: Any, allocations: Any) -> None:
    """A row's bytes come to shared memory."""
    place, size, taken = np.uint64(row[TARGET] >> 2), np.uint64(row[NBYTES] >> 2), row[TAKEN]
    data, defined = words_at(shared[DATA], _ANY), words_at(shared[WRITTEN], _ANY)
    if taken == 0:
        for i in range(size):
            data[place + i], defined[place + i] = np.uint32(0), _ONES
        return
    source, origin = allocations[row[ALLOCATION]], np.uint64(row[SOURCE] >> 2)
    given, known = words_at(source[DATA], _ANY), words_at(source[WRITTEN], _ANY)
    for i in range(size):
        data[place + i] = given[origin + i]
        defined[place + i] = known[origin + i] if source[WRITTEN] != 0 else _ONES
