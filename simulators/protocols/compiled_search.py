"""The search through a model's states in machine code: a queue of packed states, and a table of those that are known.

What a process can do depends on its own row and the shared numbers alone, and the same pairs of them occur in many
states: actions are asked once for each pair, in Python, and what they change is kept as bits.

The queue is the list of all states, in the order in which they were found: breadth first, with the one that each was
found from. Successors of a batch of states are made first and looked up then, so that the processor waits for many
lines of the table at once.

NOTE: everything that is compiled stands in this file: the cache watches no other.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined
from tileproof.simulators.protocols.tables import Ints, Tables, Words

# Why `advance` came back.
DONE, FULL, ASKS, BROKEN, STUCK = range(5)
# Slots of the numbers that it keeps between calls.
NEXT, COUNT, STEPS, ENDS, AT_STATE, AT_CODE, ASKED = range(7)
NOTES = 7

BATCH = 64
# Of a key, for the role; the rest is the cell.
ROLE_BITS = 4
_GOES = 1
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Memory(NamedTuple):
    """What processes can do, by their own row and the shared numbers.

    Args:
        table: [power of two], where keys are found by their hash: their number and 1, 0 where there is none.
        keys: [room, words], the words of the shared numbers; the last one is the cell and the role.
        ranges: [room, 3], by key, its steps: from, to; and the first one that is private, -1 if none is.
        changes: [room, words], by step, the bits of the state that change, those of the cell left out.
        cells: [room], by step, the cell afterwards.
        codes: [room], by step, what the action answered.
    """

    table: Ints
    keys: Words
    ranges: Ints
    changes: Words
    cells: Ints
    codes: Ints


class Room(NamedTuple):
    """Where the search works.

    Args:
        cells: [processes], of the state that is looked at.
        keys: [processes], the number of what each can do in the memory.
        asked: [batch * processes, 2], states and processes of which the memory does not know what they can do.
        out: [successors, words], of a batch.
        origin: [successors], the state that each is of.
        start: [successors], where each is to be looked up.
        known: [successors], whether it was found there at the first look.
    """

    cells: Ints
    keys: Ints
    asked: Ints
    out: Words
    origin: Ints
    start: Ints
    known: NDArray[np.bool_]


def room_for(processes: int, words: int, most: int) -> Room:
    """Room for a batch of states with at most so many successors each."""
    count = BATCH * most
    return Room(
        np.zeros(processes, np.int64),
        np.zeros(processes, np.int64),
        np.zeros((BATCH * processes, 2), np.int64),
        np.zeros((count, words), np.uint64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
    )


@borrowing_inlined
def _copy(to: NDArray[Any], values: NDArray[Any]) -> None:
    for index in range(to.size):  # a slice's assignment would look for overlaps first
        to[index] = values[index]


@borrowing_inlined
def _hashed(words: Words) -> int:
    mixed = uint64(0)
    for word in words:
        mixed = (mixed ^ word) * _FACTOR
        mixed ^= mixed >> uint64(29)
    return int64(mixed * _FACTOR >> uint64(20))  # type: ignore[no-any-return]


@borrowing_inlined
def _same(a: Words, b: Words) -> bool:
    for word in range(a.size):
        if a[word] != b[word]:
            return False
    return True


@borrowing_inlined
def _slot(table: Words, words: Words, start: int) -> int:
    """Where a state is in the table, or the free place where it belongs; searched from `start` on."""
    last = table.shape[0] - 1
    slot = start
    while table[slot, 0] != 0 and not _same(table[slot], words):
        slot = (slot + 1) & last
    return slot


@borrowing_inlined
def _put(words: Words, tables: Tables, process: int, cell: int) -> None:
    place = tables.cells[process]
    words[place[0]] = words[place[0]] & ~(uint64(place[2]) << uint64(place[1])) | uint64(cell) << uint64(place[1])


@borrowing_inlined
def _place(words: Words, tables: Tables, process: int, cell: int, cells: Ints, sorts: bool) -> None:
    """Put the new cell of a process where it belongs."""
    at = process
    if sorts:
        first, behind = tables.cells[process, 4], tables.cells[process, 5]
        while at > first and cells[at - 1] > cell:
            _put(words, tables, at, cells[at - 1])
            at -= 1
        while at + 1 < behind and cells[at + 1] < cell:
            _put(words, tables, at, cells[at + 1])
            at += 1
    _put(words, tables, at, cell)


@borrowing_inlined
def _mixed(masks: Words, words: Words) -> np.uint64:
    """Of the shared numbers, to which a key is added for its hash."""
    mixed = uint64(0)
    for word in range(masks.size):
        mixed = (mixed ^ words[word] & masks[word]) * _FACTOR
        mixed ^= mixed >> uint64(29)
    return mixed  # type: ignore[no-any-return]


@borrowing_inlined
def _key_slot(memory: Memory, masks: Words, words: Words, mixed: np.uint64, key: np.uint64) -> int:
    """Where a key is in the memory's table, or the free place where it belongs."""
    last, end = memory.table.size - 1, memory.keys.shape[1] - 1
    slot = int64((mixed ^ key) * _FACTOR >> uint64(20)) & last
    while memory.table[slot] != 0:
        known = memory.table[slot] - 1
        differs = memory.keys[known, end] ^ key
        for word in range(masks.size):
            differs |= memory.keys[known, word] ^ words[word] & masks[word]
        if differs == 0:
            break
        slot = (slot + 1) & last
    return int(slot)


@borrowing
def remember(memory: Memory, masks: Words, begin: int, end: int) -> None:
    """Put the keys from `begin` to `end` into the table."""
    for key in range(begin, end):
        words = memory.keys[key]
        memory.table[_key_slot(memory, masks, words, _mixed(masks, words), words[words.size - 1])] = key + 1


@borrowing_inlined
def _emit(
    tables: Tables,
    memory: Memory,
    words: Words,
    process: int,
    sorts: bool,
    room: Room,
    made: int,
    count: int,
    notes: Ints,
) -> None:
    """The successor by one remembered step, as number `count` of the batch."""
    successor = room.out[count]
    for word in range(words.size):
        successor[word] = words[word] ^ memory.changes[made, word]
    _place(successor, tables, process, memory.cells[made], room.cells, sorts)
    if memory.codes[made] != _GOES and notes[AT_CODE] == 0:
        notes[AT_CODE] = memory.codes[made]


@borrowing_inlined
def _look_up(tables: Tables, memory: Memory, words: Words, room: Room, state: int, notes: Ints) -> bool:
    """Find what each process can do in a state; False, with the questions put down, where that is not known."""
    asked, mixed = notes[ASKED], _mixed(tables.masks, words)
    for process in range(room.cells.size):
        place = tables.cells[process]
        cell = int64(words[place[0]] >> uint64(place[1])) & place[2]
        room.cells[process] = cell
        slot = _key_slot(memory, tables.masks, words, mixed, uint64(cell << ROLE_BITS | place[3]))
        room.keys[process] = memory.table[slot] - 1
        if memory.table[slot] == 0:
            room.asked[notes[ASKED], 0], room.asked[notes[ASKED], 1] = state, process
            notes[ASKED] += 1
    return bool(asked == notes[ASKED])


@borrowing_inlined
def _expand(
    tables: Tables, memory: Memory, words: Words, sorts: bool, partial: bool, room: Room, count: int, notes: Ints
) -> int:
    """Successors of the state that was looked up last, but for those left out, behind the `count` first; how many
    there are then."""
    if partial:
        for process in range(room.cells.size):
            made = memory.ranges[room.keys[process], 2]
            if made >= 0:
                _emit(tables, memory, words, process, sorts, room, made, count, notes)
                return count + 1
    for process in range(room.cells.size):
        key = room.keys[process]
        for made in range(memory.ranges[key, 0], memory.ranges[key, 1]):
            _emit(tables, memory, words, process, sorts, room, made, count, notes)
            count += 1
    return count


@borrowing_inlined
def _all_done(tables: Tables, cells: Ints) -> bool:
    for process in range(cells.size):
        if cells[process] >> tables.cells[process, 6] != tables.cells[process, 7]:
            return False
    return True


@borrowing
def advance(
    tables: Tables,
    memory: Memory,
    states: Words,
    parents: Ints,
    table: Words,
    notes: Ints,
    room: Room,
    sorts: bool,
    partial: bool,
) -> int:
    """Go on with the search until it is done, something is wrong, there is no room for another batch, or the memory
    does not know what `room.asked` can do.

    Args:
        tables: the model.
        memory: of what its processes can do.
        states: [room, words], the queue; `notes[COUNT]` are there and those before `notes[NEXT]` have been looked at.
        parents: by state, the one that it was found from.
        table: [power of two, words], where known states are found by their hash.
        notes: [NOTES], kept between calls.
        room: of a batch.
        sorts: leave out states with rows exchanged.
        partial: take private actions first.
    """
    out, origin, start, known = room.out, room.origin, room.start, room.known
    last = table.shape[0] - 1
    notes[ASKED] = 0
    while notes[NEXT] < notes[COUNT]:
        if notes[COUNT] + out.shape[0] > states.shape[0]:
            return FULL
        made, state, ends = 0, notes[NEXT], 0
        while state < min(notes[COUNT], notes[NEXT] + BATCH):
            if _look_up(tables, memory, states[state], room, state, notes) and notes[ASKED] == 0:
                after = _expand(tables, memory, states[state], sorts, partial, room, made, notes)
                if notes[AT_CODE] != 0:
                    notes[AT_STATE] = state
                    return BROKEN
                if after == made:
                    if not _all_done(tables, room.cells):
                        notes[AT_STATE] = state
                        return STUCK
                    ends += 1
                for one in range(made, after):
                    origin[one] = state
                made = after
            state += 1
        if notes[ASKED] != 0:
            return ASKS
        for one in range(made):
            start[one] = _hashed(out[one]) & last
            # NOTE: no branch looks at what is loaded here, so that many loads are under way at once.
            differs = uint64(0)
            for word in range(out.shape[1]):
                differs |= table[start[one], word] ^ out[one, word]
            known[one] = differs == 0
        for one in range(made):
            if known[one]:
                continue
            slot = _slot(table, out[one], start[one])
            if table[slot, 0] == 0:
                _copy(table[slot], out[one])
                _copy(states[notes[COUNT]], out[one])
                parents[notes[COUNT]] = origin[one]
                notes[COUNT] += 1
        notes[STEPS] += made
        notes[ENDS] += ends
        notes[NEXT] = state
    return DONE


@borrowing
def fill(table: Words, states: Words, count: int) -> None:
    """Put the first states into an empty table."""
    last = table.shape[0] - 1
    for state in range(count):
        _copy(table[_slot(table, states[state], _hashed(states[state]) & last)], states[state])


@borrowing
def settle(
    tables: Tables,
    memory: Memory,
    states: Words,
    table: Words,
    notes: Ints,
    room: Room,
    good: NDArray[np.bool_],
    sorts: bool,
    partial: bool,
) -> int:
    """Which states can still end: one pass, latest states first. The memory knows all steps, from the search.

    Args:
        good: by place in the table, whether that state can end; grows.

    Returns:
        How many states this pass has found that can.
    """
    out, last, found = room.out, table.shape[0] - 1, 0
    for state in range(notes[COUNT] - 1, -1, -1):
        own = _slot(table, states[state], _hashed(states[state]) & last)
        if good[own]:
            continue
        _look_up(tables, memory, states[state], room, state, notes)
        made = _expand(tables, memory, states[state], sorts, partial, room, 0, notes)
        ends = made == 0
        for one in range(made):
            if good[_slot(table, out[one], _hashed(out[one]) & last)]:
                ends = True
                break
        if ends:
            good[own] = True
            found += 1
    return found


@borrowing
def first_without(table: Words, states: Words, good: NDArray[np.bool_], count: int) -> int:
    """The first state that is not good; -1 if all are."""
    last = table.shape[0] - 1
    for state in range(count):
        if not good[_slot(table, states[state], _hashed(states[state]) & last)]:
            return state
    return -1
