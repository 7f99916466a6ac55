"""The search through a model's states in machine code: a queue of packed states, and a table of those that are known.

What a process can do is found by decision trees over the shared numbers (`step_memory.py`); a way that a tree lacks is
put down as a question, and asked of the model in Python.

The queue is the list of all states, in the order in which they were found: breadth first, with the one that each was
found from. The table holds numbers of states, each with some bits of the state's hash, so that it is small and a state
that is new is mostly known to be so at the first look. Successors of a batch of states are made first (`expand`) and
looked up then (`enter`), so that the processor waits for many lines of memory at once, and so that several threads can
make them (`side_by_side.py`).

What a step *does* is two rows of bits: those that it changes, and those that it looks at. What others *mind* is two
rows, too: what they mind being changed, and being looked at. Two of them meet where they have a bit in common.

NOTE: everything that is compiled stands in this file: the cache watches no other.
NOTE: indices are unsigned wherever states are made: of a signed one compiled code asks first whether it is negative.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined
from tileproof.simulators.protocols.tables import Ints, Ints32, Tables, Words

# An index or a row of bits: in compiled code of 64 bits without a sign.
Unsigned = Any

# Why a search came back.
DONE, FULL, ASKS, BROKEN, STUCK, CLASH, PAUSED = range(7)
# Slots of the numbers that it keeps between calls. AT_PROCESS is who clashes, BESIDE whether not by its thread;
# LEVEL_END is the first state that lies deeper than DEPTH; BACK is how many states have been seen of which no successor
# was found later than they were.
NEXT, COUNT, STEPS, ENDS, AT_STATE, AT_CODE, AT_PROCESS, BESIDE, ASKED, DEPTH, LEVEL_END, UNTIL, BACK = range(13)
NOTES = 13

BATCH = 64
LONGEST_STROLL = 10_000
# Of a key, for the role; the rest is the cell.
ROLE_BITS = 4
# Asked of a process whose cell is new.
CELL = -1
# In a tree: not known yet. Nodes are odd, and leaf n is 2 n.
UNKNOWN = 0
_WAITS, _GOES = range(2)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_NUMBER = np.uint64(0xFFFFFFFF)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)
_0, _1, _2, _3 = (np.uint64(number) for number in range(4))
# A node, from its lowest bit on: 1, a word, a shift, a mask of at most six bits, and the reference for value 0.
_WORD_AT, _SHIFT_AT, _MASK_AT, _FIRST_AT = (np.uint64(shift) for shift in (1, 8, 16, 24))
_WORD_MASK, _BYTE = np.uint64(127), np.uint64(255)
# Where the cell of a process is: its word, shift and bits, and whether it is not the first of its role.
_PLACE_SHIFT_AT, _PLACE_BITS_AT, _PLACE_AGAIN_AT = (np.uint64(shift) for shift in (4, 10, 16))
_PLACE_WORD, _PLACE_MASK = np.uint64(15), np.uint64(63)


class Memory(NamedTuple):
    """What processes can do, by their cells and the shared numbers. Leaf 0 is none.

    Args:
        direct: [room], by `tables.direct` and the cell, its number and 1, 0 where there is none: for narrow cells.
        table: [power of two], where keys of wide cells are found by their hash: the same.
        keys: [room], by cell, the cell and its role.
        roots: [room, 3], by cell, references to its trees: those of the thread from, to, and those of others to.
        holds: [room, 2 words], by cell, what it minds that others do.
        own: [room, 2], by cell, bits of it that its thread looks at, and that it changes.
        refs: [room], references: UNKNOWN, a node or a leaf.
        does: [room, 2 words], by leaf, bits that it changes, those of the cell left out, and bits that it looks at, but
            not those that it only adds to.
        cells: [room], by leaf, the cell afterwards.
        codes: [room], by leaf, what the action answered; that a process waits is a leaf, too.
        alone: [room], by leaf, whether it may be taken alone.
        things: [room], by the reference to a tree, which of the things of its role it is; 0 for a thread's.
        shared: [roles, things, 2 words], by thing beside a thread, all that it does.
        rows: [roles, things, 2], bits of the cell that it changes, and that it looks at.
    """

    direct: Ints32
    table: Words
    keys: Words
    roots: Words
    holds: Words
    own: Words
    refs: Words
    does: Words
    cells: Words
    codes: Words
    alone: NDArray[np.bool_]
    things: Words
    shared: Words
    rows: Words


class Queue(NamedTuple):
    """States in the order in which they were found, with room for more.

    Args:
        states: [room, words].
        parents: by state, the one that it was found from.
        lasts: by state, 1 and that of its successors which was found last; 0 where there is none, and before.
    """

    states: Words
    parents: Ints32
    lasts: Ints32


class Room(NamedTuple):
    """Where the search works.

    Args:
        at: [words], the state that is looked at.
        cells: [processes], its cells.
        ids: [processes], their numbers in the memory.
        who: [processes + 1], those to look at: of processes with one role and cell the first, where rows are sorted.
        ends: [processes, trees], the leaves at which the trees of a process end.
        held: [2 words], what processes of this state mind.
        others: [2 words], what all but one mind.
        taken: [processes, things], which of the things beside threads are not put off.
        touched: [2 words], what is taken minds.
        rows: [processes, 2], bits of each cell that what is taken looks at, and that it changes.
        asked: [room, 2], processes and references, or CELL, of which the memory does not know enough.
        asked_at: [room, words], the states in which that is so.
        clash: [2 words], bits that a process changed, and that it looked at, though another one minds.
        out: [successors, words], of a batch.
        origin: [successors], the state that each is of.
        hashes: [successors], of each.
        found: [successors], the number of the same state where that was seen at the first look, else -1.
    """

    at: Words
    cells: Words
    ids: Words
    who: Words
    ends: Words
    held: Words
    others: Words
    taken: NDArray[np.bool_]
    touched: Words
    rows: Words
    asked: Ints
    asked_at: Words
    clash: Words
    out: Words
    origin: Ints32
    hashes: Words
    found: Ints


def room_for(processes: int, words: int, things: int, most: int, count: int) -> Room:
    """Room for so many successors, of states with at most so many each, and so many things beside a thread."""
    questions = BATCH * (processes + 2 * most)
    return Room(
        at=np.zeros(words, np.uint64),
        cells=np.zeros(processes, np.uint64),
        ids=np.zeros(processes, np.uint64),
        who=np.zeros(processes + 1, np.uint64),
        ends=np.zeros((processes, most), np.uint64),
        held=np.zeros(2 * words, np.uint64),
        others=np.zeros(2 * words, np.uint64),
        taken=np.zeros((processes, things), np.bool_),
        touched=np.zeros(2 * words, np.uint64),
        rows=np.zeros((processes, 2), np.uint64),
        asked=np.zeros((questions, 2), np.int64),
        asked_at=np.zeros((questions, words), np.uint64),
        clash=np.zeros(2 * words, np.uint64),
        out=np.zeros((count, words), np.uint64),
        origin=np.zeros(count, np.int32),
        hashes=np.zeros(count, np.uint64),
        found=np.zeros(count, np.int64),
    )


def node_of(word: int, shift: int, mask: int, first: int) -> int:
    """A node: a look at some bits of a word, and the reference for value 0."""
    return first << int(_FIRST_AT) | mask << int(_MASK_AT) | shift << int(_SHIFT_AT) | word << int(_WORD_AT) | 1


def first_below(node: int) -> int:
    """The reference to which a node leads for value 0."""
    return node >> int(_FIRST_AT)


@borrowing_inlined
def _copy(to: NDArray[Any], values: NDArray[Any]) -> None:
    for index in range(to.size):  # a slice's assignment would look for overlaps first
        to[index] = values[index]


@borrowing_inlined
def _hashed(words: Words) -> Unsigned:
    mixed = uint64(0)
    for word in words:
        mixed = (mixed ^ word) * _FACTOR
        mixed ^= mixed >> uint64(29)
    mixed *= _FACTOR
    return mixed ^ mixed >> uint64(32)


@borrowing_inlined
def _same(a: Words, b: Words) -> bool:
    for word in range(a.size):
        if a[word] != b[word]:
            return False
    return True


@borrowing_inlined
def _entry(mixed: Unsigned, state: int) -> Unsigned:
    """Of the table: a state's number and 1, and the upper half of its hash."""
    return mixed & ~_NUMBER | uint64(state + 1)


@borrowing_inlined
def _slot(table: Words, states: Words, words: Words, mixed: Unsigned) -> Unsigned:
    """Where a state is in the table, or the free place where it belongs."""
    last = uint64(table.size - 1)
    slot = mixed & last
    while table[slot] != _0:
        entry = table[slot]
        if (entry ^ mixed) >> uint64(32) == _0 and _same(states[(entry & _NUMBER) - _1], words):
            break
        slot = (slot + _1) & last
    return slot


@borrowing_inlined
def _put(words: Words, place: Unsigned, cell: Unsigned) -> None:
    word, shift = place & _PLACE_WORD, place >> _PLACE_SHIFT_AT & _PLACE_MASK
    mask = (_1 << (place >> _PLACE_BITS_AT & _PLACE_MASK)) - _1
    words[word] = words[word] & ~(mask << shift) | cell << shift


@borrowing_inlined
def _place(words: Words, tables: Tables, process: Unsigned, cell: Unsigned, cells: Words, sorts: bool) -> None:
    """Put the new cell of a process where it belongs."""
    at, places = process, tables.places
    if sorts:
        first, behind = tables.firsts[process], tables.behinds[process]
        while at > first and cells[at - _1] > cell:
            _put(words, places[at], cells[at - _1])
            at -= _1
        while at + _1 < behind and cells[at + _1] < cell:
            _put(words, places[at], cells[at + _1])
            at += _1
    _put(words, places[at], cell)


@borrowing_inlined
def _cell_slot(memory: Memory, key: Unsigned) -> Unsigned:
    """Where a wide cell is in the memory's table, or the free place where it belongs."""
    last = uint64(memory.table.size - 1)
    slot = key * _FACTOR >> uint64(32) & last
    while memory.table[slot] != _0 and memory.keys[memory.table[slot] - _1] != key:
        slot = (slot + _1) & last
    return slot


@borrowing
def remember(tables: Tables, memory: Memory, begin: int, end: int) -> None:
    """Put the cells from `begin` to `end` where they are found."""
    for number in range(begin, end):
        key = memory.keys[number]
        direct = tables.direct[key & uint64((1 << ROLE_BITS) - 1)]
        if direct != _NONE:
            memory.direct[direct + (key >> uint64(ROLE_BITS))] = number + 1
        else:
            memory.table[_cell_slot(memory, key)] = number + 1


@borrowing_inlined
def _question(room: Room, process: Unsigned, ref: int, notes: Ints) -> None:
    asked = notes[ASKED]
    room.asked[asked, 0], room.asked[asked, 1] = int64(process), ref
    _copy(room.asked_at[asked], room.at)
    notes[ASKED] += 1


@borrowing_inlined
def _look_up(tables: Tables, memory: Memory, sorts: bool, room: Room) -> Unsigned:
    """Find the cells of the state that is looked at; how many processes to look at, `_NONE` where a cell is new."""
    words, count, before, is_new = room.at, _0, _0, False
    for process in range(uint64(room.cells.size)):
        place = tables.places[process]
        mask = (_1 << (place >> _PLACE_BITS_AT & _PLACE_MASK)) - _1
        cell = words[place & _PLACE_WORD] >> (place >> _PLACE_SHIFT_AT & _PLACE_MASK) & mask
        direct = tables.directs[process]
        if direct != _NONE:
            number = uint64(memory.direct[direct + cell])
        else:
            number = memory.table[_cell_slot(memory, cell << uint64(ROLE_BITS) | tables.roles[process])]
        # NOTE: nothing branches on what is found here: it differs from state to state.
        room.cells[process], room.ids[process], room.who[count] = cell, number - _1, process
        count += _1 - (place >> _PLACE_AGAIN_AT & uint64(cell == before) & uint64(sorts))
        before = cell
        is_new |= number == _0
    return _NONE if is_new else count


@borrowing_inlined
def _ask_for_cells(room: Room, notes: Ints) -> None:
    for process in range(uint64(room.ids.size)):
        if room.ids[process] == _NONE:
            _question(room, process, CELL, notes)


@borrowing_inlined
def _gather(memory: Memory, room: Room, count: Unsigned) -> None:
    """What the processes of a state mind."""
    held = room.held
    for bits in range(uint64(held.size)):
        held[bits] = _0
    for one in range(count):
        cell = room.ids[room.who[one]]
        for bits in range(uint64(held.size)):
            held[bits] |= memory.holds[cell, bits]


@borrowing_inlined
def _gather_others(memory: Memory, ids: Words, but: Unsigned, held: Words) -> None:
    """What the processes of a state mind, one of them left out."""
    for bits in range(uint64(held.size)):
        held[bits] = _0
        for process in range(uint64(ids.size)):
            if process != but:
                held[bits] |= memory.holds[ids[process], bits]


@borrowing_inlined
def _below(node: Unsigned, words: Words) -> Unsigned:
    """The reference to which a node leads in a state."""
    value = words[node >> _WORD_AT & _WORD_MASK] >> (node >> _SHIFT_AT & _BYTE) & (node >> _MASK_AT & _BYTE)
    return (node >> _FIRST_AT) + value


@borrowing_inlined
def _walk(
    memory: Memory, process: Unsigned, first: Unsigned, begin: Unsigned, end: Unsigned, room: Room, notes: Ints
) -> bool:
    """Go through some trees of a process to their ends, `first` being its first; whether each has an end.

    A question is put down for one that has none.
    """
    known, words = True, room.at
    for root in range(begin, end):
        ref = memory.refs[root]
        while ref & _1 != _0:
            ref = memory.refs[_below(ref, words)]
        room.ends[process, root - first] = ref >> _1
        if ref == _0:
            _question(room, process, int64(root), notes)
            known = False
    return known


@borrowing_inlined
def _all_alone(memory: Memory, process: Unsigned, count: Unsigned, room: Room) -> bool:
    """Whether a process's thread, which has so many trees, can go on, and all that it can do may be taken alone."""
    for tree in range(count):
        if not memory.alone[room.ends[process, tree]]:
            return False
    return bool(count != _0)


@borrowing_inlined
def _walk_all(memory: Memory, partial: bool, room: Room, count: Unsigned, notes: Ints) -> Unsigned:
    """Go through the trees of processes, but only to the first of which nothing need be looked at but what it may do
    alone; `_NONE` if there is none. The trees of what happens beside threads come last.
    """
    for one in range(count):
        process = room.who[one]
        cell = room.ids[process]
        first, behind = memory.roots[cell, _0], memory.roots[cell, _1]
        known = _walk(memory, process, first, first, behind, room, notes)
        if known and partial and _all_alone(memory, process, behind - first, room):
            return process
    for one in range(count):
        process = room.who[one]
        cell = room.ids[process]
        _walk(memory, process, memory.roots[cell, _0], memory.roots[cell, _1], memory.roots[cell, _2], room, notes)
    return _NONE


@borrowing_inlined
def _meet(does: Words, minds: Words) -> bool:
    """Whether something does what others mind."""
    for bits in range(uint64(minds.size)):
        if does[bits] & minds[bits] != _0:
            return True
    return False


@borrowing_inlined
def _mind(minds: Words, does: Words) -> None:
    """From now on it is minded what meets what was done: changing what it looked at, looking at what it changed."""
    words = uint64(does.size) >> _1
    for word in range(words):
        minds[word] |= does[words + word]
        minds[words + word] |= does[word]


@borrowing_inlined
def _clashes(memory: Memory, root: Unsigned, does: Words, room: Room) -> None:
    """Put down what is changed that others mind, and the first look that they mind."""
    words = uint64(room.at.size)
    for word in range(words):
        room.clash[word] |= does[word] & room.others[word]
    ref = memory.refs[root]
    while ref & _1 != _0:
        dark = words + (ref >> _WORD_AT & _WORD_MASK)
        looked = (ref >> _MASK_AT & _BYTE) << (ref >> _SHIFT_AT & _BYTE) & does[dark] & room.others[dark]
        if looked != _0:
            room.clash[dark] = looked
            return
        ref = memory.refs[_below(ref, room.at)]


@borrowing_inlined
def _guard(
    memory: Memory, process: Unsigned, root: Unsigned, is_beside: bool, does: Words, room: Room, notes: Ints
) -> None:
    """See whether others mind what a process does, or looks at to wait, which somebody minds."""
    _gather_others(memory, room.ids, _NONE if is_beside else process, room.others)
    if _meet(does, room.others):
        _clashes(memory, root, does, room)
        notes[AT_PROCESS], notes[BESIDE] = int64(process), is_beside


@borrowing_inlined
def _touch_all(memory: Memory, room: Room, count: Unsigned) -> None:
    """Put down what threads mind, and what is held."""
    _copy(room.touched, room.held)
    for one in range(count):
        process = room.who[one]
        cell = room.ids[process]
        room.rows[process, _0], room.rows[process, _1] = memory.own[cell, _0], memory.own[cell, _1]
        for tree in range(memory.roots[cell, _1] - memory.roots[cell, _0]):
            _mind(room.touched, memory.does[room.ends[process, tree]])


@borrowing_inlined
def _is_met(memory: Memory, role: Unsigned, thing: Unsigned, process: Unsigned, room: Room) -> bool:
    """Whether what is taken minds a thing beside a thread."""
    own = memory.rows[role, thing, _0] & room.rows[process, _0] | memory.rows[role, thing, _1] & room.rows[process, _1]
    return bool(own != _0) or _meet(memory.shared[role, thing], room.touched)


@borrowing_inlined
def _take(memory: Memory, role: Unsigned, thing: Unsigned, process: Unsigned, room: Room) -> None:
    room.taken[process, thing] = True
    _mind(room.touched, memory.shared[role, thing])
    room.rows[process, _0] |= memory.rows[role, thing, _1]
    room.rows[process, _1] |= memory.rows[role, thing, _0]


@borrowing_inlined
def _has_things(memory: Memory, room: Room) -> bool:
    """Whether there is anything beside threads that could be put off."""
    for process in range(uint64(room.ids.size)):
        if memory.roots[room.ids[process], _1] < memory.roots[room.ids[process], _2]:
            return True
    return False


@borrowing_inlined
def _puts_off(tables: Tables, memory: Memory, room: Room, count: Unsigned) -> bool:
    """Whether things beside threads may be put off; which are not is put down then."""
    if room.taken.shape[1] == 0 or not _has_things(memory, room):
        return False
    _touch_all(memory, room, count)
    room.taken[:] = False
    grows = True
    while grows:
        grows = False
        for one in range(count):
            process = room.who[one]
            role = tables.roles[process]
            for thing in range(tables.things[role]):
                if not room.taken[process, thing] and _is_met(memory, role, thing, process, room):
                    _take(memory, role, thing, process, room)
                    grows = True
    return True


@borrowing_inlined
def _step(
    tables: Tables, memory: Memory, process: Unsigned, leaf: Unsigned, sorts: bool, room: Room, count: int
) -> None:
    """Make the state behind a step, as number `count` of the batch."""
    successor = room.out[count]
    for word in range(uint64(successor.size)):
        successor[word] = room.at[word] ^ memory.does[leaf, word]
    _place(successor, tables, process, memory.cells[leaf], room.cells, sorts)


# Of what is made of some trees: all, or that which is put off, or that which is not.
_ALL, _OFF, _ON = range(3)


@borrowing_inlined
def _make(
    tables: Tables,
    memory: Memory,
    process: Unsigned,
    is_beside: bool,
    which: int,
    sorts: bool,
    guards: bool,
    room: Room,
    count: int,
    notes: Ints,
) -> int:
    """The successors by the thread of a process, or by what is beside it, behind the `count` first; how many then."""
    cell = room.ids[process]
    first = memory.roots[cell, _0]
    begin, end = memory.roots[cell, uint64(is_beside)], memory.roots[cell, uint64(is_beside) + _1]
    for root in range(begin, end):
        if which != _ALL and room.taken[process, memory.things[root]] != (which == _ON):
            continue
        leaf = room.ends[process, root - first]
        if guards and notes[AT_PROCESS] < 0 and _meet(memory.does[leaf], room.held):
            _guard(memory, process, root, is_beside, memory.does[leaf], room, notes)
        code = memory.codes[leaf]
        if code != uint64(_WAITS):
            _step(tables, memory, process, leaf, sorts, room, count)
            count += 1
            if code != uint64(_GOES) and notes[AT_CODE] == 0:
                notes[AT_CODE] = int64(code)
    return count


@borrowing_inlined
def _successors(
    tables: Tables, memory: Memory, words: Words, sorts: bool, partial: bool, room: Room, count: int, notes: Ints
) -> int:
    """Successors of a state, but for those left out, behind the `count` first; how many there are then."""
    asked, before = notes[ASKED], count
    _copy(room.at, words)
    processes = _look_up(tables, memory, sorts, room)
    if processes == _NONE:
        _ask_for_cells(room, notes)
        return count
    alone = _walk_all(memory, partial, room, processes, notes)
    if asked != notes[ASKED]:
        return count
    if partial:
        _gather(memory, room, processes)
    if alone != _NONE:
        return _make(tables, memory, alone, False, _ALL, sorts, partial, room, count, notes)
    which = _ON if partial and _puts_off(tables, memory, room, processes) else _ALL
    for one in range(processes):
        count = _make(tables, memory, room.who[one], False, _ALL, sorts, partial, room, count, notes)
        count = _make(tables, memory, room.who[one], True, which, sorts, partial, room, count, notes)
    if which == _ON and count == before:
        for one in range(processes):
            count = _make(tables, memory, room.who[one], True, _OFF, sorts, partial, room, count, notes)
    return count


@borrowing_inlined
def _all_done(tables: Tables, cells: Words) -> bool:
    for process in range(uint64(cells.size)):
        if cells[process] >> tables.at[process] != tables.ends[process]:
            return False
    return True


@borrowing
def expand(
    tables: Tables,
    memory: Memory,
    states: Words,
    begin: int,
    end: int,
    notes: Ints,
    room: Room,
    sorts: bool,
    partial: bool,
) -> int:
    """Make the successors of some states: DONE, or why not.

    Args:
        notes: of this call: STEPS is how many successors there are then, ENDS how many states have ended.
    """
    made = 0
    notes[ASKED], notes[ENDS], notes[AT_CODE] = 0, 0, 0
    for state in range(begin, end):
        if made + room.ends.shape[1] > room.out.shape[0]:
            return FULL
        notes[AT_PROCESS], notes[AT_STATE] = -1, state
        after = _successors(tables, memory, states[state], sorts, partial, room, made, notes)
        if notes[ASKED] != 0:
            notes[AT_CODE] = 0
            if 2 * notes[ASKED] > room.asked.shape[0]:
                break
            continue
        if notes[AT_CODE] != 0:
            return BROKEN
        if notes[AT_PROCESS] >= 0:
            return CLASH
        if after == made:
            if not _all_done(tables, room.cells):
                return STUCK
            notes[ENDS] += 1
        for one in range(made, after):
            room.origin[one] = state
        made = after
    notes[STEPS] = made
    return ASKS if notes[ASKED] != 0 else DONE


@borrowing_inlined
def _first_look(table: Words, states: Words, room: Room, begin: int, end: int) -> None:
    """Look up some successors, each in one place."""
    last = uint64(table.size - 1)
    for one in range(begin, end):
        room.hashes[one] = _hashed(room.out[one])
        # NOTE: no branch hangs on what is loaded here, so that many loads are under way at once.
        room.found[one] = int64(table[room.hashes[one] & last])
    for one in range(begin, end):
        entry = uint64(room.found[one])
        differs = (entry ^ room.hashes[one]) >> uint64(32)
        state = (entry & _NUMBER) - uint64((entry & _NUMBER) != _0)
        for word in range(uint64(states.shape[1])):
            differs |= states[state, word] ^ room.out[one, word]
        room.found[one] = int64(state) if differs == _0 else -1


@borrowing_inlined
def _enter_one(table: Words, queue: Queue, room: Room, one: int, notes: Ints) -> int:
    """The number of a successor, which is entered where it is new."""
    slot = _slot(table, queue.states, room.out[one], room.hashes[one])
    if table[slot] == _0:
        count = notes[COUNT]
        table[slot] = _entry(room.hashes[one], count)
        _copy(queue.states[count], room.out[one])
        queue.parents[count] = room.origin[one]
        notes[COUNT] += 1
    return int(int64(table[slot] & _NUMBER) - 1)


@borrowing_inlined
def _deepen(state: int, notes: Ints) -> None:
    """If a state is deeper than those before, what they have found is a level."""
    if state >= notes[LEVEL_END]:
        notes[LEVEL_END] = notes[COUNT]
        notes[DEPTH] += 1


@borrowing
def enter(table: Words, queue: Queue, room: Room, made: int, begin: int, end: int, notes: Ints) -> None:
    """Enter the successors of the states from `begin` to `end`, `made` of them; there is room for all."""
    look = BATCH * 2
    for first in range(0, made, look):
        behind = min(first + look, made)
        _first_look(table, queue.states, room, first, behind)
        for one in range(first, behind):
            _deepen(room.origin[one], notes)
            number = room.found[one] if room.found[one] >= 0 else _enter_one(table, queue, room, one, notes)
            queue.lasts[room.origin[one]] = max(queue.lasts[room.origin[one]], number + 1)
    _deepen(end - 1, notes)
    notes[NEXT] = end
    for state in range(begin, end):
        notes[BACK] += (queue.lasts[state] != 0) & (queue.lasts[state] <= state + 1)


@borrowing
def advance(
    tables: Tables,
    memory: Memory,
    queue: Queue,
    table: Words,
    notes: Ints,
    own: Ints,
    room: Room,
    sorts: bool,
    partial: bool,
) -> int:
    """Go on with the search until it is done, something is wrong, there is no room for another batch, the memory does
    not know enough of what is in `room.asked`, or `notes[UNTIL]` states have been looked at.

    Args:
        tables: the model.
        memory: of what its processes can do.
        queue: `notes[COUNT]` states are there and those before `notes[NEXT]` have been looked at.
        table: [power of two], where known states are found by their hash.
        notes: [NOTES], kept between calls.
        own: [NOTES], of the last batch.
        room: of a batch.
        sorts: leave out states with rows exchanged.
        partial: leave out orders of steps that may be taken alone, or put off.
    """
    while notes[NEXT] < notes[COUNT]:
        if notes[COUNT] + room.out.shape[0] > queue.states.shape[0]:
            return FULL
        if notes[NEXT] >= notes[UNTIL]:
            return PAUSED
        begin, behind = notes[NEXT], min(notes[COUNT], notes[NEXT] + BATCH)
        status = expand(tables, memory, queue.states, begin, behind, own, room, sorts, partial)
        if status != DONE:
            return int(status)
        enter(table, queue, room, own[STEPS], begin, behind, notes)
        notes[STEPS] += own[STEPS]
        notes[ENDS] += own[ENDS]
    return DONE


@borrowing
def fill(table: Words, states: Words, count: int) -> None:
    """Put the first states into an empty table."""
    last = uint64(table.size - 1)
    for state in range(count):
        mixed = _hashed(states[state])
        slot = mixed & last
        while table[slot] != _0:
            slot = (slot + _1) & last
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
    count: int,
    notes: Ints,
    room: Room,
    good: NDArray[np.bool_],
    sorts: bool,
    partial: bool,
) -> int:
    """Which states can still end: one pass, latest states first. The memory knows all steps, from the search.

    Args:
        count: of the states.
        notes: of a batch.
        good: by state, whether it can end; grows.

    Returns:
        How many states this pass has found that can.
    """
    found = 0
    for state in range(count - 1, -1, -1):
        if good[state]:
            continue
        made = _successors(tables, memory, states[state], sorts, partial, room, 0, notes)
        ends = made == 0
        for one in range(made):
            slot = _slot(table, states, room.out[one], _hashed(room.out[one]))
            if good[(table[slot] & _NUMBER) - _1]:
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
        made = _successors(tables, memory, state, sorts, partial, room, 0, notes)
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
