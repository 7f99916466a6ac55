"""`cp.async`, its groups and waits: compiled. What looks wrong is the reference engine's."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast import flights
from tileproof.simulators.ptx.fast.asking import number, passes
from tileproof.simulators.ptx.fast.layout import (
    BASE,
    BYTES,
    CHANGES,
    COMPLETE,
    COPIES,
    COPIES_READY,
    DATA,
    GLOBAL,
    GLOBAL_READ,
    K0,
    KNOWN,
    KNOWN_STEP,
    KNOWN_TABLES,
    LIFE,
    MASK,
    OPEN_GROUP,
    ORDERED,
    ROOM,
    SHARED,
    SHARED_WRITTEN,
    SLOT,
    SOURCE,
    STARTS,
    USED,
    USED_AT,
    WRITTEN,
)
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.places import ZERO, find, place, touches_object
from tileproof.simulators.ptx.fast.pointers import counts_at, longs_at, offsets_at, table_at, words_at
from tileproof.simulators.ptx.machine.asynchronous.small_flights import NO_SOURCE

#: The constants of a copy are those of a load of its source, but that the last one is whether an operand says how many
#: bytes are read; then of its target: where shared memory starts in the
#: address's space, what is added to it, and its bits that count; the step; what the order calls its reads and its
#: writes. Those of a group: whether it commits, and how many groups a wait leaves open, or -1 for no wait.
_NBYTES, _OFFSET, _CUT = K0 + 3, K0 + 2, K0 + 4
_PARTIAL = K0 + 5
_WINDOW, _TARGET_OFFSET, _TARGET_CUT, _STEP = K0 + 6, K0 + 7, K0 + 8, K0 + 9
_READS, _WRITES = K0 + 10, K0 + 11
_COMMITS, _PENDING = K0, K0 + 1
_ANY = 1 << 40
#: Of the room for each lane, that for a table of runs.
_RUN_NUMBERS = 2


@part
def copy(
    row: Any,
    operands: Any,
    registers: Any,
    lanes: Any,
    runs: Any,
    active: Any,
    spaces: Any,
    allocations: Any,
    counters: Any,
    found: Any,
    frame: Any,
) -> Any:
    """`cp.async` by lanes whose addresses are defined; 0, or 1 for handed back.

    The operands are the target, the source and perhaps how many bytes are read: all or none, other numbers are handed
    back. Arguments as those of `memory.load`.
    """
    groups, shared = spaces[COPIES], spaces[SHARED]
    if groups[COPIES_READY] == 0 or shared[BYTES] < row[_NBYTES] or not flights.has_room(spaces, active):
        return 1
    to, whole, rest, taken = found + active * 8, runs, runs, active
    if row[_PARTIAL] != 0:
        room = found + (ROOM - _RUN_NUMBERS) * lanes * 8
        wholes, rests, taken = _reading(row, operands, registers, lanes, runs, room)
        if wholes < 0:
            return 1
        whole, rest = table_at(room, wholes, 2), table_at(room + lanes * 8, rests, 2)
    if not _targets(row, operands, registers, lanes, runs, active, shared, to):
        return 1
    where = (GLOBAL, 0, 0, ZERO, ZERO, 0, 0, -1)
    if taken > 0:
        where = _sources(row, operands, registers, lanes, whole, spaces, allocations, found)
        if where[0] != GLOBAL:
            return 1
    if frame[ORDERED] != 0:
        who, open_ = found + 2 * active * 8, counts_at(groups[OPEN_GROUP], lanes)
        _issuers(whole, taken, open_, who)
        if taken > 0 and not _passes(row, GLOBAL, where[7], taken, who, found, row[_READS], frame):
            return 1
        _issuers(runs, active, open_, who)
        if not _passes(row, SHARED, -1, active, who, to, row[_WRITES], frame):
            return 1  # last: a write that is remembered must not be checked again
    _join(groups, runs, lanes, row[_STEP])
    counters[GLOBAL_READ] += taken * row[_NBYTES]
    counters[SHARED_WRITTEN] += active * row[_NBYTES]
    counters[CHANGES] += 1
    turns = flights.delay(spaces)
    if turns != 0:
        _put(shared[WRITTEN], to, active, row[_NBYTES], np.uint32(0))  # nobody knows the bytes until it lands
        due = flights.begin(spaces, turns)
        if taken < active:
            _targets(row, operands, registers, lanes, rest, active - taken, shared, to)
            flights.add(spaces, lanes, rest, to, NO_SOURCE, found, row[_NBYTES], 0, due)
            _targets(row, operands, registers, lanes, whole, taken, shared, to)
        flights.add(spaces, lanes, whole, to, where[7], found, row[_NBYTES], row[_NBYTES], due)
        return 0
    if taken < active:
        _put(shared[DATA], to, active, row[_NBYTES], np.uint32(0))
        if shared[WRITTEN] != 0:
            _put(shared[WRITTEN], to, active, row[_NBYTES], np.uint32(0xFFFF_FFFF))
        _targets(row, operands, registers, lanes, whole, taken, shared, to)
    _move(where[1], found, shared[DATA], to, taken, row[_NBYTES])
    if shared[WRITTEN] != 0:
        _move(where[2], found, shared[WRITTEN], to, taken, row[_NBYTES])
    return 0


@part
def _reading(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, room: Any) -> Any:
    """Runs of the lanes that read all bytes, to address `room`, and of those that read none, behind them: how many of
    each, -1 if some lanes read only a part; how many lanes read all.
    """
    whole, rest = table_at(room, lanes // 2, 2), table_at(room + lanes * 8, lanes // 2, 2)
    slot, mask = operands[row[SOURCE] + 2, SLOT], np.uint64(operands[row[SOURCE] + 2, MASK])
    bytes_, size = longs_at(registers + slot * lanes * 8, lanes), np.uint64(row[_NBYTES])
    wholes, rests, taken = 0, 0, 0
    for r in range(len(runs)):
        last = size + np.uint64(1)
        for lane in range(runs[r, 0], runs[r, 1]):
            here = bytes_[lane] & mask
            if here != size and here != np.uint64(0):
                return -1, 0, 0
            if here == size:
                wholes = _extend(whole, wholes, lane, here != last)
                taken += 1
            else:
                rests = _extend(rest, rests, lane, here != last)
            last = here
    return wholes, rests, taken


@part
def _extend(runs: Any, count: Any, lane: Any, begins: Any) -> Any:
    """The last of `count` runs has a lane more, or another run begins with it; how many there are now."""
    if begins:
        runs[count, 0] = lane
        count += 1
    runs[count - 1, 1] = lane + 1
    return count


@part
def _sources(
    row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, spaces: Any, allocations: Any, found: Any
) -> Any:
    """Where the copies read, to address `found`, and what `place` says of it; -1 in place of the space if not legal."""
    source = registers + operands[row[SOURCE] + 1, SLOT] * lanes * 8
    offset, cut, low = np.uint64(row[_OFFSET]), np.uint64(row[_CUT]), np.uint64(row[_NBYTES] - 1)
    where = place(row, (longs_at(source, lanes)[runs[0, 0]] + offset) & cut, spaces, allocations)
    legal = where[0] == GLOBAL and _positions(source, runs, 0, offset, cut, low, where[3], where[4], found)
    return where if legal else (-1, 0, 0, ZERO, ZERO, 0, 0, -1)


@part
def _targets(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, active: Any, shared: Any, to: Any) -> Any:
    """Where the copies write, to address `to`; whether that is legal."""
    target = registers + operands[row[SOURCE], SLOT] * lanes * 8
    offset, cut, low = np.uint64(row[_TARGET_OFFSET]), np.uint64(row[_TARGET_CUT]), np.uint64(row[_NBYTES] - 1)
    least, limit = np.uint64(shared[BASE] + row[_WINDOW]), np.uint64(shared[BYTES] - row[_NBYTES])
    if not _positions(target, runs, shared[STARTS], offset, cut, low, least, limit, to):
        return False
    return shared[LIFE] == 0 or not touches_object(shared[LIFE], row[_NBYTES], to, active)


@part
def _issuers(runs: Any, active: Any, open_: Any, who: Any) -> None:
    """The lanes, and behind them their open groups."""
    number(runs, who, active)
    numbers, ticks = offsets_at(who, active), offsets_at(who + active * 8, active)
    for i in range(active):
        ticks[i] = open_[numbers[i]]


@part
def _passes(row: Any, space: Any, allocation: Any, active: Any, who: Any, offsets: Any, flags: Any, frame: Any) -> Any:
    """Whether the order has nothing against what the lanes' engines do."""
    return passes(
        frame, space, allocation, who, offsets, active, (row[_NBYTES], flags, row[_STEP], 0, who + active * 8)
    )


@part
def _move(source: Any, origins: Any, target: Any, places: Any, count: Any, nbytes: Any) -> None:
    """Bytes from offsets to offsets; from nowhere, ones."""
    origin, place_ = longs_at(origins, count), longs_at(places, count)
    from_words, to_words = words_at(source, _ANY), words_at(target, _ANY)
    for i in range(count):
        for word in range(np.uint64(nbytes >> 2)):
            value = from_words[(origin[i] >> np.uint64(2)) + word] if source != 0 else np.uint32(0xFFFF_FFFF)
            to_words[(place_[i] >> np.uint64(2)) + word] = value


@part
def _put(target: Any, places: Any, count: Any, nbytes: Any, value: Any) -> None:
    """A word, over and over, to offsets."""
    place_, words = longs_at(places, count), words_at(target, _ANY)
    for i in range(count):
        for word in range(np.uint64(nbytes >> 2)):
            words[(place_[i] >> np.uint64(2)) + word] = value


@part
def _join(groups: Any, runs: Any, lanes: Any, step: Any) -> None:
    """The copies join their lanes' open groups."""
    open_, used, used_at = (
        counts_at(groups[OPEN_GROUP], lanes),
        counts_at(groups[USED], lanes),
        counts_at(groups[USED_AT], lanes),
    )
    for r in range(len(runs)):
        for lane in range(runs[r, 0], runs[r, 1]):
            used[lane] = open_[lane] + 1
            used_at[lane] = step


@part
def group(row: Any, runs: Any, lanes: Any, spaces: Any, allocations: Any, counters: Any, frame: Any) -> Any:
    """`cp.async.commit_group`, `wait_group` and `wait_all`; 0, or 1 for handed back."""
    groups = spaces[COPIES]
    if groups[COPIES_READY] == 0 or (row[_PENDING] >= 0 and not flights.may_finish(spaces, allocations)):
        return 1
    open_, complete = counts_at(groups[OPEN_GROUP], lanes), counts_at(groups[COMPLETE], lanes)
    for r in range(len(runs)):
        for lane in range(runs[r, 0], runs[r, 1]):
            open_[lane] += row[_COMMITS]
            if row[_PENDING] >= 0:
                complete[lane] = max(complete[lane], open_[lane] - row[_PENDING])
    if row[_PENDING] >= 0:
        counters[CHANGES] += flights.finish(spaces, allocations, lanes)
    if row[_PENDING] >= 0 and frame[KNOWN] != 0:
        _learn(frame, runs, lanes, complete)
    return 0


@part
def _learn(frame: Any, runs: Any, lanes: Any, complete: Any) -> None:
    """The order learns what the lanes know of their groups."""
    step, tables = frame[KNOWN_STEP], frame[KNOWN_TABLES]
    known = counts_at(frame[KNOWN], (tables * lanes - 1) * step + 1)
    for table in range(tables):
        for r in range(len(runs)):
            for lane in range(runs[r, 0], runs[r, 1]):
                place_ = (table * lanes + lane) * step
                known[place_] = max(known[place_], complete[lane])


@part
def _positions(
    base: Any, runs: Any, starts: Any, offset: Any, cut: Any, low: Any, least: Any, limit: Any, found: Any
) -> Any:
    """Byte offsets of all runs, one after the other; whether all are legal."""
    count = 0
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        own = starts + first * 8 if starts != 0 else 0
        if not find(base + first * 8, n, own, offset, cut, low, least, limit, found + count * 8):
            return False
        count += n
    return True
