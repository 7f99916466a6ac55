"""The search through a model's states in machine code: a queue of packed states, and a table of those that are known.

What a process can do is found by decision trees over the shared numbers (`step_memory.py`); a way that a tree lacks is
put down as a question, and asked of the model in Python.

The queue is the list of all states, in the order in which they were found: breadth first, with the one that each was
found from. The table holds numbers of states, each with some bits of the state's hash, so that it is small and a state
that is new is mostly known to be so at the first look. Successors of a batch of states are made first and looked up
then, so that the processor waits for many lines of memory at once.

NOTE: everything that is compiled stands in this file: the cache watches no other.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined
from tileproof.simulators.protocols.tables import Ints, Ints32, Tables, Words

# Why `advance` came back.
DONE, FULL, ASKS, BROKEN, STUCK, CLASH, PAUSED = range(7)
# Slots of the numbers that it keeps between calls. AT_PROCESS is who clashes, BESIDE whether not by its thread;
# LEVEL_END is the first state that lies deeper than DEPTH.
NEXT, COUNT, STEPS, ENDS, AT_STATE, AT_CODE, AT_PROCESS, BESIDE, ASKED, DEPTH, LEVEL_END, UNTIL = range(12)
NOTES = 12

BATCH = 64
LONGEST_STROLL = 10_000
# Of a key, for the role; the rest is the cell.
ROLE_BITS = 4
# Asked of a process whose cell is new.
CELL = -1
# In a tree: not known yet; a process waits. Nodes are more than 0, and leaf n is WAIT - 1 - n.
UNKNOWN, WAIT = 0, -1
_GOES = 1
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_NUMBER = np.uint64(0xFFFFFFFF)
# Of what is touched: looked at, and changed.
_SEEN, _CHANGED = range(2)
# Rows of the masks that say what is held: by someone and by more than one, so that nobody else changes it; and the
# same for what nobody else looks at.
_ANY, _ANY_TWICE, _DARK, _DARK_TWICE = range(4)


class Memory(NamedTuple):
    """What processes can do, by their cells and the shared numbers.

    Args:
        table: [power of two], where keys of cells are found by their hash: their number and 1, 0 where there is none.
        keys: [room], by cell, the cell and its role.
        roots: [room, 3], by cell, references to its trees: those of the thread from, to, and those of others to.
        holds: [room, 2, words], by cell, bits that nobody else may change, and those that nobody else may look at.
        own: [room, 2], by cell, bits of it that its thread looks at, and that it changes.
        refs: [room], references: UNKNOWN, a node, WAIT or a leaf.
        nodes: [room, 4], word, shift and mask of the number that is looked at, and the reference for value 0.
        changes: [room, words], by leaf, the bits of the state that change, those of the cell left out.
        cells: [room], by leaf, the cell afterwards.
        codes: [room], by leaf, what the action answered.
        alone: [room], by leaf, whether it may be taken alone.
        sees: [room, words], by leaf, the bits that it looks at; those that it only adds to are not among them.
        things: [room], by the reference to a tree, which of the things of its role it is; -1 for a thread's.
        shared: [roles, things, 2, words], by thing beside a thread, bits that it looks at, and that it changes.
        rows: [roles, things, 2], the same of the cell.
    """

    table: Ints
    keys: Ints
    roots: Ints
    holds: Words
    own: Ints
    refs: Ints
    nodes: Ints
    changes: Words
    cells: Ints
    codes: Ints
    alone: NDArray[np.bool_]
    sees: Words
    things: Ints
    shared: Words
    rows: Ints


class Room(NamedTuple):
    """Where the search works.

    Args:
        at: [words], the state that is looked at.
        cells: [processes], its cells.
        ids: [processes], their numbers in the memory.
        held: [4, words], bits that processes of this state hold.
        taken: [processes, things], which of the things beside threads are not put off.
        touched: [2, words], bits that what is taken looks at, and that it changes.
        rows: [processes, 2], the same of each cell.
        asked: [room, 2], processes and references, or CELL, of which the memory does not know enough.
        asked_at: [room, words], the states in which that is so.
        clash: [2, words], bits that a process changed, and that it looked at, though another one holds them so.
        out: [successors, words], of a batch.
        origin: [successors], the state that each is of.
        hashes: [successors], of each.
        found: [successors], the number of the same state where that was seen at the first look, else -1.
    """

    at: Words
    cells: Ints
    ids: Ints
    held: Words
    taken: NDArray[np.bool_]
    touched: Words
    rows: Ints
    asked: Ints
    asked_at: Words
    clash: Words
    out: Words
    origin: Ints
    hashes: Words
    found: Ints


def room_for(processes: int, words: int, things: int, most: int) -> Room:
    """Room for a batch of states with at most so many successors, and so many things beside a thread, each."""
    count = BATCH * most
    return Room(
        np.zeros(words, np.uint64),
        np.zeros(processes, np.int64),
        np.zeros(processes, np.int64),
        np.zeros((4, words), np.uint64),
        np.zeros((processes, things), np.bool_),
        np.zeros((2, words), np.uint64),
        np.zeros((processes, 2), np.int64),
        np.zeros((BATCH * (processes + 2 * most), 2), np.int64),
        np.zeros((BATCH * (processes + 2 * most), words), np.uint64),
        np.zeros((2, words), np.uint64),
        np.zeros((count, words), np.uint64),
        np.zeros(count, np.int64),
        np.zeros(count, np.uint64),
        np.zeros(count, np.int64),
    )


@borrowing_inlined
def _copy(to: NDArray[Any], values: NDArray[Any]) -> None:
    for index in range(to.size):  # a slice's assignment would look for overlaps first
        to[index] = values[index]


@borrowing_inlined
def _hashed(words: Words) -> np.uint64:
    mixed = uint64(0)
    for word in words:
        mixed = (mixed ^ word) * _FACTOR
        mixed ^= mixed >> uint64(29)
    mixed *= _FACTOR
    return mixed ^ mixed >> uint64(32)  # type: ignore[no-any-return]


@borrowing_inlined
def _same(a: Words, b: Words) -> bool:
    for word in range(a.size):
        if a[word] != b[word]:
            return False
    return True


@borrowing_inlined
def _entry(mixed: np.uint64, state: int) -> np.uint64:
    """Of the table: a state's number and 1, and the upper half of its hash."""
    return mixed & ~_NUMBER | uint64(state + 1)  # type: ignore[no-any-return]


@borrowing_inlined
def _slot(table: Words, states: Words, words: Words, mixed: np.uint64) -> int:
    """Where a state is in the table, or the free place where it belongs."""
    last = table.size - 1
    slot = int64(mixed) & last
    while table[slot] != 0:
        entry = table[slot]
        if (entry ^ mixed) >> uint64(32) == 0 and _same(states[int64(entry & _NUMBER) - 1], words):
            break
        slot = (slot + 1) & last
    return int(slot)


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
def _cell_slot(memory: Memory, key: int) -> int:
    """Where a cell is in the memory's table, or the free place where it belongs."""
    last = memory.table.size - 1
    slot = int64(uint64(key) * _FACTOR >> uint64(32)) & last
    while memory.table[slot] != 0 and memory.keys[memory.table[slot] - 1] != key:
        slot = (slot + 1) & last
    return int(slot)


@borrowing
def remember(memory: Memory, begin: int, end: int) -> None:
    """Put the cells from `begin` to `end` into the memory's table."""
    for cell in range(begin, end):
        memory.table[_cell_slot(memory, memory.keys[cell])] = cell + 1


@borrowing_inlined
def _question(room: Room, process: int, ref: int, notes: Ints) -> None:
    asked = notes[ASKED]
    room.asked[asked, 0], room.asked[asked, 1] = process, ref
    _copy(room.asked_at[asked], room.at)
    notes[ASKED] += 1


@borrowing_inlined
def _look_up(tables: Tables, memory: Memory, room: Room, notes: Ints) -> bool:
    """Find the cells of the state that is looked at; False, with the questions put down, where one is new."""
    asked, words = notes[ASKED], room.at
    for process in range(room.cells.size):
        place = tables.cells[process]
        cell = int64(words[place[0]] >> uint64(place[1])) & place[2]
        room.cells[process] = cell
        room.ids[process] = memory.table[_cell_slot(memory, cell << ROLE_BITS | place[3])] - 1
        if room.ids[process] < 0:
            _question(room, process, CELL, notes)
    return bool(asked == notes[ASKED])


@borrowing_inlined
def _walk(memory: Memory, words: Words, root: int) -> int:
    """The reference at which a tree's way ends."""
    ref = root
    node = memory.refs[ref]
    while node > 0:
        look = memory.nodes[node]
        ref = look[3] + (int64(words[look[0]] >> uint64(look[1])) & look[2])
        node = memory.refs[ref]
    return int(ref)


@borrowing_inlined
def _looks_at_held(memory: Memory, words: Words, root: int, process: int, is_beside: bool, room: Room) -> bool:
    """Whether a tree's way looks at what another process holds so that nobody else may; the first such look counts."""
    end = memory.refs[_walk(memory, words, root)]
    node = memory.refs[root]
    while node > 0:
        look = memory.nodes[node]
        dark = room.held[_DARK, look[0]]
        if not is_beside:
            dark = room.held[_DARK_TWICE, look[0]] | dark & ~memory.holds[room.ids[process], 1, look[0]]
        touched = dark & uint64(look[2]) << uint64(look[1])
        if end < WAIT:
            touched &= memory.sees[WAIT - 1 - end, look[0]]
        if touched != 0:
            room.clash[1, look[0]] = touched
            return True
        node = memory.refs[look[3] + (int64(words[look[0]] >> uint64(look[1])) & look[2])]
    return False


@borrowing_inlined
def _changes_held(memory: Memory, leaf: int, process: int, is_beside: bool, room: Room) -> bool:
    """Whether a step changes what another process holds."""
    clashes = False
    for word in range(room.clash.shape[1]):
        held = room.held[_ANY, word]
        if not is_beside:
            held = room.held[_ANY_TWICE, word] | held & ~memory.holds[room.ids[process], 0, word]
        touched = held & memory.changes[leaf, word]
        if touched != 0:
            room.clash[0, word] |= touched
            clashes = True
    return clashes


@borrowing_inlined
def _gather(memory: Memory, room: Room) -> bool:
    """What the processes of a state hold; whether that is anything."""
    some = uint64(0)
    for word in range(room.clash.shape[1]):
        any_, any_twice, dark, dark_twice = uint64(0), uint64(0), uint64(0), uint64(0)
        for process in range(room.ids.size):
            held, hidden = memory.holds[room.ids[process], 0, word], memory.holds[room.ids[process], 1, word]
            any_twice |= any_ & held
            any_ |= held
            dark_twice |= dark & hidden
            dark |= hidden
        room.held[_ANY, word], room.held[_ANY_TWICE, word] = any_, any_twice
        room.held[_DARK, word], room.held[_DARK_TWICE, word] = dark, dark_twice
        some |= any_
    return bool(some != 0)


@borrowing_inlined
def _is_again(tables: Tables, room: Room, process: int, sorts: bool) -> bool:
    """Whether the process before has the same role and row: it can do the same."""
    return bool(sorts and process > tables.cells[process, 4] and room.cells[process] == room.cells[process - 1])


@borrowing_inlined
def _goes_alone(memory: Memory, room: Room, process: int, notes: Ints) -> bool:
    """Whether the process's thread can go on, and all that it can do may be taken alone."""
    first, behind = memory.roots[room.ids[process], 0], memory.roots[room.ids[process], 1]
    for root in range(first, behind):
        end = memory.refs[_walk(memory, room.at, root)]
        if end == UNKNOWN:
            _question(room, process, root, notes)
            return False
        if end == WAIT or not memory.alone[WAIT - 1 - end]:
            return False
    return bool(first < behind)


@borrowing_inlined
def _try(
    tables: Tables,
    memory: Memory,
    process: int,
    root: int,
    sorts: bool,
    guards: bool,
    room: Room,
    count: int,
    notes: Ints,
) -> int:
    """The successor by one tree, if there is one, as number `count` of the batch; how many there are then."""
    is_beside, words = root >= memory.roots[room.ids[process], 1], room.at
    end = memory.refs[_walk(memory, words, root)]
    guards = guards and notes[AT_PROCESS] < 0
    if guards and end != UNKNOWN and _looks_at_held(memory, words, root, process, is_beside, room):
        notes[AT_PROCESS], notes[BESIDE] = process, is_beside
    if end == UNKNOWN:
        _question(room, process, root, notes)
    if end >= WAIT:
        return count
    leaf = WAIT - 1 - end
    if guards and _changes_held(memory, leaf, process, is_beside, room):
        notes[AT_PROCESS], notes[BESIDE] = process, is_beside
    successor = room.out[count]
    for word in range(words.size):
        successor[word] = words[word] ^ memory.changes[leaf, word]
    _place(successor, tables, process, memory.cells[leaf], room.cells, sorts)
    if memory.codes[leaf] != _GOES and notes[AT_CODE] == 0:
        notes[AT_CODE] = memory.codes[leaf]
    return count + 1


@borrowing_inlined
def _first_alone(tables: Tables, memory: Memory, sorts: bool, room: Room, notes: Ints) -> int:
    """The first process of which nothing but what it may do alone need be looked at; as many as there are if none."""
    for process in range(room.cells.size):
        if not _is_again(tables, room, process, sorts) and _goes_alone(memory, room, process, notes):
            return process
    return room.cells.size


@borrowing_inlined
def _touch(memory: Memory, room: Room, root: int) -> None:
    """Put down what a tree's way touches."""
    ref, words = root, room.at
    node = memory.refs[ref]
    while node > 0:
        look = memory.nodes[node]
        ref = look[3] + (int64(words[look[0]] >> uint64(look[1])) & look[2])
        node = memory.refs[ref]
    if node < WAIT:
        for word in range(words.size):
            room.touched[_SEEN, word] |= memory.sees[WAIT - 1 - node, word]
            room.touched[_CHANGED, word] |= memory.changes[WAIT - 1 - node, word]
        return
    node = memory.refs[root]
    while node > 0:
        look = memory.nodes[node]
        room.touched[_SEEN, look[0]] |= uint64(look[2]) << uint64(look[1])
        node = memory.refs[look[3] + (int64(words[look[0]] >> uint64(look[1])) & look[2])]


@borrowing_inlined
def _touch_all(tables: Tables, memory: Memory, room: Room, sorts: bool) -> bool:
    """Put down what threads touch, and what is held; whether anything can be put off."""
    some = False
    for word in range(room.at.size):
        room.touched[_SEEN, word], room.touched[_CHANGED, word] = room.held[_ANY, word], room.held[_DARK, word]
    for process in range(room.ids.size):
        roots = memory.roots[room.ids[process]]
        some = some or roots[1] < roots[2]
        _copy(room.rows[process], memory.own[room.ids[process]])
        if not _is_again(tables, room, process, sorts):
            for root in range(roots[0], roots[1]):
                _touch(memory, room, root)
    return some


@borrowing_inlined
def _meets(memory: Memory, role: int, thing: int, process: int, room: Room) -> bool:
    """Whether a thing beside a thread touches what is taken."""
    row, own = memory.rows[role, thing], room.rows[process]
    meets = row[_CHANGED] & own[_SEEN] | row[_SEEN] & own[_CHANGED] != 0
    for word in range(room.at.size):
        seen, changed = memory.shared[role, thing, _SEEN, word], memory.shared[role, thing, _CHANGED, word]
        meets = meets or changed & room.touched[_SEEN, word] | seen & room.touched[_CHANGED, word] != 0
    return bool(meets)


@borrowing_inlined
def _take(memory: Memory, role: int, thing: int, process: int, room: Room) -> None:
    room.taken[process, thing] = True
    for kind in range(2):
        room.rows[process, kind] |= memory.rows[role, thing, kind]
        for word in range(room.at.size):
            room.touched[kind, word] |= memory.shared[role, thing, kind, word]


@borrowing_inlined
def _puts_off(tables: Tables, memory: Memory, sorts: bool, room: Room) -> bool:
    """Whether things beside threads may be put off; which are not is put down then."""
    if room.taken.shape[1] == 0 or not _touch_all(tables, memory, room, sorts):
        return False
    room.taken[:] = False
    grows = True
    while grows:
        grows = False
        for process in range(room.ids.size):
            role = tables.cells[process, 3]
            if _is_again(tables, room, process, sorts):
                continue
            for thing in range(tables.things[role]):
                if not room.taken[process, thing] and _meets(memory, role, thing, process, room):
                    _take(memory, role, thing, process, room)
                    grows = True
    return True


@borrowing_inlined
def _expand(
    tables: Tables, memory: Memory, words: Words, sorts: bool, partial: bool, room: Room, count: int, notes: Ints
) -> int:
    """Successors of a state, but for those left out, behind the `count` first; how many there are then."""
    _copy(room.at, words)
    if not _look_up(tables, memory, room, notes):
        return count
    begin, end, alone, puts_off = 0, room.cells.size, False, False
    guards = partial and _gather(memory, room)
    if partial:
        one = _first_alone(tables, memory, sorts, room, notes)
        alone = one < end
        if alone:
            begin, end = one, one + 1
        else:
            puts_off = _puts_off(tables, memory, sorts, room)
    before = count
    for again in range(1 + puts_off):
        for process in range(begin, end):
            if _is_again(tables, room, process, sorts):
                continue
            roots = memory.roots[room.ids[process]]
            for root in range(roots[0], roots[1] if alone else roots[2]):
                is_off = puts_off and root >= roots[1] and not room.taken[process, memory.things[root]]
                if is_off == (again == 1):
                    count = _try(tables, memory, process, root, sorts, guards, room, count, notes)
        if count > before:
            break
    return count


@borrowing_inlined
def _all_done(tables: Tables, cells: Ints) -> bool:
    for process in range(cells.size):
        if cells[process] >> tables.cells[process, 6] != tables.cells[process, 7]:
            return False
    return True


@borrowing_inlined
def _first_look(table: Words, states: Words, room: Room, made: int) -> None:
    """Look up all successors of a batch, each in one place."""
    last = table.size - 1
    for one in range(made):
        room.hashes[one] = _hashed(room.out[one])
        # NOTE: no branch hangs on what is loaded here, so that many loads are under way at once.
        room.found[one] = int64(table[int64(room.hashes[one]) & last])
    for one in range(made):
        entry = uint64(room.found[one])
        differs = (entry ^ room.hashes[one]) >> uint64(32)
        state = max(int64(entry & _NUMBER) - 1, 0)
        for word in range(states.shape[1]):
            differs |= states[state, word] ^ room.out[one, word]
        room.found[one] = state if differs == 0 else -1


@borrowing_inlined
def _enter(table: Words, states: Words, parents: Ints32, room: Room, one: int, notes: Ints) -> int:
    """The number of a successor, which is entered where it is new."""
    slot = _slot(table, states, room.out[one], room.hashes[one])
    if table[slot] == 0:
        count = notes[COUNT]
        table[slot] = _entry(room.hashes[one], count)
        _copy(states[count], room.out[one])
        parents[count] = room.origin[one]
        notes[COUNT] += 1
    return int64(table[slot] & _NUMBER) - 1  # type: ignore[no-any-return]


@borrowing_inlined
def _enter_all(table: Words, states: Words, parents: Ints32, lasts: Ints32, room: Room, made: int, notes: Ints) -> None:
    """Enter the successors of a batch."""
    for one in range(made):
        number = room.found[one] if room.found[one] >= 0 else _enter(table, states, parents, room, one, notes)
        lasts[room.origin[one]] = max(lasts[room.origin[one]], number + 1)


@borrowing
def advance(
    tables: Tables,
    memory: Memory,
    states: Words,
    parents: Ints32,
    lasts: Ints32,
    table: Words,
    notes: Ints,
    room: Room,
    sorts: bool,
    partial: bool,
) -> int:
    """Go on with the search until it is done, something is wrong, there is no room for another batch, the memory does
    not know enough of what is in `room.asked`, or `notes[UNTIL]` states have been looked at.

    Args:
        tables: the model.
        memory: of what its processes can do.
        states: [room, words], the queue; `notes[COUNT]` are there and those before `notes[NEXT]` have been looked at.
        parents: by state, the one that it was found from.
        lasts: by state, 1 and that of its successors which was found last; 0 where there is none, and before.
        table: [power of two], where known states are found by their hash.
        notes: [NOTES], kept between calls.
        room: of a batch.
        sorts: leave out states with rows exchanged.
        partial: leave out orders of steps that may be taken alone.
    """
    notes[ASKED] = 0
    while notes[NEXT] < notes[COUNT]:
        if notes[COUNT] + room.out.shape[0] > states.shape[0]:
            return FULL
        if notes[NEXT] >= notes[UNTIL]:
            return PAUSED
        if notes[NEXT] == notes[LEVEL_END]:
            notes[LEVEL_END] = notes[COUNT]
            notes[DEPTH] += 1
        made, ends, behind = 0, 0, min(notes[LEVEL_END], notes[NEXT] + BATCH)
        for state in range(notes[NEXT], behind):
            notes[AT_PROCESS], notes[AT_STATE] = -1, state
            after = _expand(tables, memory, states[state], sorts, partial, room, made, notes)
            if notes[ASKED] != 0:
                notes[AT_CODE] = 0
                continue
            if notes[AT_CODE] != 0:
                return BROKEN
            if notes[AT_PROCESS] >= 0:
                return CLASH
            if after == made:
                if not _all_done(tables, room.cells):
                    return STUCK
                ends += 1
            for one in range(made, after):
                room.origin[one] = state
            made = after
        if notes[ASKED] != 0:
            return ASKS
        _first_look(table, states, room, made)
        _enter_all(table, states, parents, lasts, room, made, notes)
        notes[STEPS] += made
        notes[ENDS] += ends
        notes[NEXT] = behind
    return DONE


@borrowing
def fill(table: Words, states: Words, count: int) -> None:
    """Put the first states into an empty table."""
    last = table.size - 1
    for state in range(count):
        mixed = _hashed(states[state])
        slot = int64(mixed) & last
        while table[slot] != 0:
            slot = (slot + 1) & last
        table[slot] = _entry(mixed, state)


@borrowing
def goes_round(lasts: Ints32, marks: Ints32, count: int) -> bool:
    """Whether one comes back to a state by going from each to the successor that was found last.

    Where not, one comes to a state without a successor, so that all states have a way to an end.

    Args:
        lasts: by state, as of `advance`.
        marks: [count], zeros; the state and 1 from which each was come to first.
        count: of the states.
    """
    for start in range(count):
        state = start
        while state >= 0 and marks[state] == 0:
            marks[state] = start + 1
            state = lasts[state] - 1
        if state >= 0 and marks[state] == start + 1:
            return True
    return False


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
        good: by state, whether it can end; grows.

    Returns:
        How many states this pass has found that can.
    """
    found = 0
    for state in range(notes[COUNT] - 1, -1, -1):
        if good[state]:
            continue
        made = _expand(tables, memory, states[state], sorts, partial, room, 0, notes)
        ends = made == 0
        for one in range(made):
            slot = _slot(table, states, room.out[one], _hashed(room.out[one]))
            if good[int64(table[slot] & _NUMBER) - 1]:
                ends = True
                break
        if ends:
            good[state] = True
            found += 1
    return found


@borrowing
def stroll(
    tables: Tables, memory: Memory, state: Words, notes: Ints, room: Room, sorts: bool, partial: bool, seed: int
) -> int:
    """Go from a state to any successor, and so on until there is none or something is in the way.

    Args:
        state: where it is; changes.
        seed: which successors it takes.
    """
    drawn = uint64(seed)
    for _ in range(LONGEST_STROLL):
        notes[ASKED], notes[AT_CODE], notes[AT_PROCESS] = 0, 0, -1
        made = _expand(tables, memory, state, sorts, partial, room, 0, notes)
        if notes[ASKED] != 0:
            return ASKS
        if notes[AT_PROCESS] >= 0:
            return CLASH
        if made == 0 or notes[AT_CODE] != 0:
            return DONE
        drawn = (drawn + uint64(1)) * _FACTOR
        drawn ^= drawn >> uint64(32)
        _copy(state, room.out[int64(drawn >> uint64(1)) % made])
    return DONE
