"""The compiled short cut of the order: weak accesses of whole warps that nothing speaks against.

`pass_warps` does what `find_conflicts` and `record_accesses` do together, for lanes of a warp that know the same. It
takes lanes of one instruction that touch one place together: `patterns` remembers, for each step, which lanes of its
last warp did, and usually those of the next one do too. Whatever is not plain it leaves to the other two. Accesses that
an engine performs go the same way; those of one component (a warpgroup's `wgmma`) come in bundles of 32.

    patterns  int64 [steps, 132]: how many lanes; which; how many runs; bytes of each, and by whom; each lane's offset
              from the first one's; then of runs, which are of neighbouring places that neighbouring lanes touch in the
              same way: the first offset; the first place's first lane, and from bit 5 on all its lanes relative to
              that; how many places

Indices are unsigned in the innermost loops: numba looks for negative ones otherwise, and LLVM makes no vectors of them.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.compiled_order import (
    ALONE,
    ASYNC_PROXY,
    AT,
    COMPONENT,
    DIFFERENT,
    ENGINE_MASK,
    ENGINE_SHIFT,
    FIRST_NODE,
    FIRST_RECORD,
    FLAGS,
    FOREIGN,
    LANES_PER_UNIT,
    LEAF,
    LINE_SHIFT,
    MASK,
    NEXT_NODE,
    NEXT_RECORD,
    NODE,
    NODE_COLUMNS,
    NON_COHERENT,
    READ,
    RECORD,
    RECORD_COLUMNS,
    ROW,
    SAME,
    SINGLE,
    SIZE,
    TICK,
    UNIT,
    UNIT_BASE,
    UNKNOWN,
    VIEW_COLUMNS,
    WARP_OF,
    WARPS_PER_UNIT,
    WRITES,
    WRITTEN,
    Array,
    integer,
)

COUNT, PRESENT, RUNS, FORM, OFFSETS, PLACES, MEMBERS, LENGTHS, PATTERN = 0, 1, 2, 3, 4, 36, 68, 100, 132
#: What `pass_warps` says.
NOT_SIMPLE, PASSED, NO_ROOM = 0, 1, 2
_NOBODY = 0x0FFF_FFFF
_NUMBER, _LEAF_NUMBER = core._NUMBER, core._LEAF_NUMBER
_ALL = 0xFFFF_FFFF
_LANE = 31
_WARPGROUP, _WARPGROUP_ENGINE = 128, 4  # its lanes; how flags name its engine

_row_for, _wholly, _plane_for = core._row_for, core._wholly, core._plane_for
_rest, _node, _record, _chained = core._rest, core._node, core._record, core._chained
_leading, _behind, _split, _drop_leaf = core._leading, core._behind, core._split, core._drop_leaf


def _of_columns(width: int) -> Any:
    """What makes the number of a table's columns known when it is compiled: finding a row is a shift then."""

    def of_columns(context: Any, table: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = context.make_array(table)(context, builder, value=values[0])
            shape, nbytes = cgutils.unpack_tuple(builder, array.shape), table.dtype.bitwidth // 8
            row = context.get_constant(types.intp, nbytes * width)
            strides = [row, context.get_constant(types.intp, nbytes)]
            if table.ndim == 3:
                strides.insert(0, builder.mul(shape[1], row))
            array.shape = cgutils.pack_array(builder, [*shape[:-1], context.get_constant(types.intp, width)])
            array.strides = cgutils.pack_array(builder, strides)
            return array._getvalue()

        return table(table), generate

    return intrinsic(of_columns)


_views, _records, _nodes, _leaves, _patterns = map(
    _of_columns, (VIEW_COLUMNS, RECORD_COLUMNS, NODE_COLUMNS, 1 << LINE_SHIFT, PATTERN)
)
_pairs, _triples = map(_of_columns, (2, 3))


@borrowing_inlined
def _present(lanes: Array, begin: int, end: int) -> int:
    """The lanes of one warp as bits."""
    if end - begin == 32:
        return integer(_ALL)
    present = integer(0)
    for position in range(begin, end):
        present |= integer(1) << (lanes[position] & _LANE)
    return present


@borrowing_inlined
def _fits(pattern: Array, present: int, form: int, offsets: Array, begin: int, end: int) -> bool:
    """Whether a pattern is that of a warp's accesses."""
    if pattern[COUNT] != end - begin or pattern[PRESENT] != present or pattern[FORM] != form:
        return False
    first, other, at, own = offsets[begin], integer(0), np.uint64(begin), np.uint64(OFFSETS)
    for i in range(np.uint64(end - begin)):
        other |= (offsets[at + i] - first) ^ pattern[own + i]
    return bool(other == 0)


@borrowing_inlined
def _learn(
    pattern: Array, present: int, lanes: Array, offsets: Array, begin: int, end: int, nbytes: int, by_warp: bool
) -> None:
    """Make it the pattern of these accesses."""
    first, places = offsets[begin], integer(0)
    pattern[COUNT], pattern[PRESENT], pattern[FORM] = end - begin, present, nbytes << 1 | by_warp
    for position in range(begin, end):
        relative, lane = offsets[position] - first, lanes[position] & _LANE
        pattern[OFFSETS + position - begin] = relative
        place = places - 1
        while place >= 0 and pattern[PLACES + place] != relative:
            place -= 1
        if place < 0:
            pattern[PLACES + places], pattern[MEMBERS + places] = relative, lane | 32
            places += 1
        else:
            pattern[MEMBERS + place] |= integer(32) << (lane - (pattern[MEMBERS + place] & _LANE))
    runs = integer(0)
    for place in range(places):
        relative, members = pattern[PLACES + place], pattern[MEMBERS + place]
        if by_warp:
            members = integer(_ALL) << 5
        step = integer(0) if by_warp else integer(1)
        if runs > 0:
            length = pattern[LENGTHS + runs - 1]
            follows = relative == pattern[PLACES + runs - 1] + length * nbytes
            if follows and members == pattern[MEMBERS + runs - 1] + length * step:
                pattern[LENGTHS + runs - 1] = length + 1
                continue
        pattern[PLACES + runs], pattern[MEMBERS + runs], pattern[LENGTHS + runs] = relative, members, 1
        runs += 1
    pattern[RUNS] = runs


@borrowing_inlined
def _one_mind(views: Array, begin: int, end: int) -> bool:
    """Whether neighbouring lanes know the same, but for what is their own."""
    other = np.int32(0)
    for plane in range(views.shape[0]):
        row, foreign = views[plane, begin, ROW], views[plane, begin, FOREIGN]
        for lane in range(np.uint64(begin + 1), np.uint64(end)):
            other |= (views[plane, lane, ROW] ^ row) | (views[plane, lane, FOREIGN] ^ foreign)
    return bool(other == 0)


@borrowing_inlined
def _even(components: Array, at: Array, begin: int, end: int) -> bool:
    """Whether neighbouring accesses are performed by one warp's engines, or one component, at one tick."""
    other = integer(0)
    for position in range(begin, end):
        other |= (components[position] ^ components[begin]) | (at[position] ^ at[begin])
    return bool(other == 0)


@borrowing_inlined
def _agree(views: Array, minds: Array, begin: int, end: int) -> bool:
    """Whether lanes of one warp know the same, but for what is their own."""
    warp = begin >> 5
    if minds[warp] == UNKNOWN:
        minds[warp] = SAME if _one_mind(views, warp << 5, (warp + 1) << 5) else DIFFERENT
    return bool(minds[warp] == SAME) or (end - begin < 32 and _one_mind(views, begin, end))


@borrowing_inlined
def _is_old(slot: int, old: int, old_node: int) -> bool:
    """Whether a slot is empty, or leads to what is before the present access by its number alone."""
    return slot < old or NODE <= slot < old_node


@borrowing_inlined
def _all_known(slots: Array, first: int, end: int, old: int, old_node: int, known: int) -> bool:
    """Whether neighbouring slots are all old, or all lead to what is known."""
    below, leader, other, node = np.uint32(old), np.uint32(known), np.uint32(0), np.uint32(NODE)
    span = np.uint32(old_node - NODE)
    for i in range(np.uint64(first), np.uint64(end)):
        slot = slots[i]
        fresh = np.uint32(slot >= below) & np.uint32(slot - node >= span)
        other |= fresh & np.uint32((slot >> np.uint32(5)) != leader)
    return bool(other == 0)


@borrowing_inlined
def _common(slots: Array, old: int, old_node: int, step: int) -> int:
    """The first slot of a whole line if the others follow from it; 0 if all are old; -1 otherwise."""
    fresh, other, lead, height = np.uint32(0), np.uint32(0), slots[0], np.uint32(step)
    below, node, span = np.uint32(old), np.uint32(NODE), np.uint32(old_node - NODE)
    for i in range(np.uint64(1 << LINE_SHIFT)):
        slot = slots[i]
        fresh |= np.uint32(slot >= below) & np.uint32(slot - node >= span)
        turned = (lead & np.uint32(_LANE)) + (np.uint32(i) >> height)
        other |= slot ^ ((lead & ~np.uint32(_LANE)) | (turned & np.uint32(_LANE)))
    if fresh == 0:
        return integer(0)
    return integer(-1) if other else integer(lead)


@borrowing_inlined
def _covers(
    rows: Array, views: Array, spans: Array, maps: Array, planes: Array, records: Array, nodes: Array, old: int,
    old_node: int, slot: int, lane: int, unit: int, flags: int,
) -> bool:  # fmt: skip
    """Whether a lane, and all that know the same, are ordered after every access of a set, whoever's it was."""
    while not _is_old(slot, old, old_node):
        if slot & NODE:
            node = (slot >> 5) & _NUMBER
            record = integer(nodes[node, RECORD])
            slot = _rest(nodes, node, slot & _LANE)
        else:
            record, slot = slot >> 5, integer(0)
        other = integer(records[record, FLAGS])
        if (flags | other) & NON_COHERENT and (flags | other) & WRITES:
            return False
        plane = _plane_for(planes, other)
        if plane < 0:
            return False  # nobody knows anything there
        row = _row_for(spans, maps, views, plane, lane, unit, records[record, UNIT])
        if not _wholly(rows, records, row, record):
            return False
    return True


@borrowing_inlined
def _own(views: Array, planes: Array, records: Array, record: int, lane: int, warp: int, flags: int) -> bool:
    """Whether a lane knows an access of its own by itself; the record is one of single lanes."""
    other = integer(records[record, FLAGS])
    if records[record, WARP_OF] != warp or other & (SINGLE | NON_COHERENT) or (other >> ENGINE_SHIFT) & ENGINE_MASK:
        return False
    if flags & (NON_COHERENT | ASYNC_PROXY):
        return False
    return bool(views[_plane_for(planes, other), lane, TICK] > records[record, AT])


@borrowing_inlined
def _turned(mask: int, turn: int) -> int:
    """Lanes `turn` above, around the warp."""
    return ((mask << turn) | (mask >> (32 - turn))) & _ALL


@borrowing_inlined
def _within(mask: int, base: int, other_mask: int, other_base: int) -> bool:
    """Whether lanes `mask` relative to `base` are among the others."""
    return bool(_turned(mask, (base - other_base) & _LANE) & ~other_mask == 0)


@borrowing_inlined
def _alike(records: Array, one: int, other: int) -> bool:
    """Whether two records are of the same warp in the same interval, by instructions of the same kind."""
    same = True
    for column in (UNIT, COMPONENT, AT, FLAGS):
        same = same and records[one, column] == records[other, column]
    return same


@borrowing_inlined
def _joined(
    rows: Array, spans: Array, maps: Array, records: Array, nodes: Array, state: Array, views: Array, kept: Array,
    slot: int, lane: int, unit: int, warp: int, flags: int, number: int, mask: int, base: int, room: int,
    longest: int, old: int, old_node: int,
) -> int:  # fmt: skip
    """The slot of the set at `slot` and reads by the lanes `mask` relative to `base`; see `compiled_order._joined`."""
    fresh = number << 5 | base
    if _is_old(slot, old, old_node):
        return fresh if mask == 1 else _node(nodes, state, number, mask, integer(0), base)
    length, dropped, left = 0, 0, slot
    while not _is_old(left, old, old_node):
        at = left & _LANE
        if left & NODE:
            node = (left >> 5) & _NUMBER
            record, other_mask = integer(nodes[node, RECORD]), integer(nodes[node, MASK])
            left = _rest(nodes, node, at)
        else:
            record, other_mask, left = left >> 5, integer(1), integer(0)
        if record == number:
            if _within(mask, base, other_mask, at):
                return slot
            mask |= _turned(other_mask, (at - base) & _LANE)
            dropped += 1
            continue
        if _alike(records, record, number) and _within(mask, base, other_mask, at):
            return slot
        other = integer(records[record, FLAGS])
        stands = not other & ~flags & NON_COHERENT and not (flags >> ENGINE_SHIFT) & ENGINE_MASK
        own = records[record, WARP_OF] == warp and not (other >> ENGINE_SHIFT) & ENGINE_MASK
        if stands and not (own and _within(other_mask, at, mask, base)):
            row = _row_for(spans, maps, views, 0, lane, unit, records[record, UNIT])
            stands = _wholly(rows, records, row, record)
        if stands:
            dropped += 1
        else:
            if length < kept.shape[0]:
                kept[length, 0], kept[length, 1], kept[length, 2] = record, other_mask, at
            length += 1
    return _chained(records, nodes, state, kept, length, dropped, slot, fresh, number, mask, base, room, longest)


@borrowing_inlined
def _at(base: int, before: int, step: int) -> int:
    """The lane at a granule: `before` granules behind the first one of a run, which lane `base` touches."""
    return integer((base + (before >> step)) & _LANE)


@borrowing_inlined
def _stands(
    rows: Array, views: Array, spans: Array, maps: Array, planes: Array, records: Array, nodes: Array, leaves: Array,
    old: int, old_node: int, word: int, begin: int, end: int, before: int, step: int, size: int, members: int,
    known: int, lane: int, unit: int, warp: int, flags: int,
) -> int:  # fmt: skip
    """Whether nothing in granules `begin` to `end` of a line speaks against an access.

    Args:
        rows, views, spans, maps, planes, records, nodes, leaves: see `compiled_order`.
        old, old_node: slots of records, and of nodes, below these are old.
        word: of the line.
        begin, end: granules.
        before: how far the line's first granule lies behind the first one of the run.
        step: how many granules a lane touches, as a power of two.
        size: of the access, as of a record.
        members: of the run.
        known: the set that is known.
        lane: the first that accesses.
        unit: its unit.
        warp: its warp.
        flags: of the access.

    Returns:
        the set that is known then, or -1.
    """
    base, single, leaf, mine = members & _LANE, members >> 5 == 1, word & _LEAF_NUMBER, integer(-1)
    if word < LEAF:
        end = begin + 1
    elif _all_known(leaves[leaf], begin, end, old, old_node, known):
        return known
    for inside in range(begin, end):
        slot = word if word < LEAF else integer(leaves[leaf, inside])
        if _is_old(slot, old, old_node) or slot >> 5 == known:
            continue
        own = single and slot < NODE
        if own:
            who = _at(base, before + (0 if word < LEAF else inside), step)
            own = slot & _LANE == who and (word >= LEAF or records[slot >> 5, SIZE] == size)
            if own and slot >> 5 != mine:
                own = _own(views, planes, records, slot >> 5, (lane & ~_LANE) + who, warp, flags)
        if own:
            mine = slot >> 5
            continue
        if not _covers(
            rows, views, spans, maps, planes, records, nodes, old, old_node, slot, lane, unit, flags
        ):  # fmt: skip
            return integer(-1)
        known = slot >> 5
    return known


def _made(stamp: int) -> Any:
    """The entry; `stamp` is part of what numba's cache knows it by."""

    def pass_warps(
        rows: Array, views: Array, minds: Array, spans: Array, maps: Array, shape: Array, planes: Array,
        records: Array, nodes: Array, state: Array, last: Array, patterns: Array, kept: Array, lines: Array,
        leaves: Array, shift: int, lanes: Array, offsets: Array, nbytes: int, flags: int, pc: int, by_warp: bool,
        ticks: Array, longest: int, components: Array, moments: Array,
    ) -> int:  # fmt: skip
        """Check and remember weak accesses; whether that was simple: otherwise ask the other two.

        What some of the lanes read may be remembered then. Arguments as theirs, and

        Args:
            minds: uint8 [warps], whether all lanes of a warp know the same.
            patterns: int64 [steps, 132], see above.
            kept: int64 [2048, 3], scratch.
            by_warp: each access is one of all lanes of the warp, and all must know; or it is of a single component.
        """
        if stamp == 0:
            return NOT_SIMPLE
        views, records, nodes, leaves = _views(views), _records(records), _nodes(nodes), _leaves(leaves)
        lines, patterns, kept = _pairs(lines), _patterns(patterns), _triples(kept)
        each, total = nbytes >> shift, lanes.size
        if state[NEXT_RECORD] + total >= records.shape[0] or state[NEXT_NODE] + total * each >= nodes.shape[0]:
            return NO_ROOM
        size = integer(shift)
        while 1 << size < nbytes:
            size += 1
        step = size - shift
        if 1 << size != nbytes:
            return NOT_SIMPLE
        if by_warp:
            size, step = integer(ALONE), integer(ALONE)
        first_warp = shape[UNIT_BASE] * shape[WARPS_PER_UNIT]
        stores = flags & WRITES != 0
        old, old_node = state[FIRST_RECORD] << 5, NODE | state[FIRST_NODE] << 5
        pattern = patterns[pc]
        single, warpgroup = flags & SINGLE != 0, (flags >> ENGINE_SHIFT) & ENGINE_MASK == _WARPGROUP_ENGINE
        unit, unit_begin, unit_end = integer(0), integer(0), integer(0)
        for remember in range(2 if stores else 1):
            begin = integer(0)
            known, known_row, known_foreign = integer(_NOBODY), integer(-1), integer(-1)
            while begin < total:
                lane = lanes[begin]
                end = begin + 1
                if single:
                    while end < total and end - begin < 32 and lanes[end] == lane:
                        end += 1
                elif lane & _LANE == 0 and begin + 32 <= total and lanes[begin + 31] == lane + 31:
                    end = begin + 32
                else:
                    while end < total and lanes[end] >> 5 == lane >> 5:
                        if lanes[end] <= lanes[end - 1]:
                            return NOT_SIMPLE
                        end += 1
                if lane >= unit_end or lane < unit_begin:
                    unit_begin = lane // shape[LANES_PER_UNIT] * shape[LANES_PER_UNIT]
                    unit_end = unit_begin + shape[LANES_PER_UNIT]
                    unit = shape[UNIT_BASE] + lane // shape[LANES_PER_UNIT]
                    known = integer(_NOBODY)
                present = _present(lanes, begin, end)
                if not _fits(pattern, present, nbytes << 1 | by_warp, offsets, begin, end):
                    _learn(pattern, present, lanes, offsets, begin, end, nbytes, by_warp)
                warp, runs, start = first_warp + (lane >> 5), pattern[RUNS], offsets[begin]
                if not remember:
                    if components.size and not _even(components, moments, begin, end):
                        return NOT_SIMPLE
                    low, high = (lane & ~_LANE, (lane & ~_LANE) + 32) if by_warp else (lane, lanes[end - 1] + 1)
                    if not _agree(views, minds, low, high):
                        return NOT_SIMPLE
                    if warpgroup and not _one_mind(views, lane, lane + _WARPGROUP):
                        return NOT_SIMPLE
                    row, foreign = integer(views[0, lane, ROW]), integer(views[0, lane, FOREIGN])
                    if row != known_row or foreign != known_foreign or views.shape[0] > 1:
                        known, known_row, known_foreign = integer(_NOBODY), row, foreign
                number, result = integer(-1), integer(0)
                seen, turned, seen_mask = integer(-1), integer(0), integer(0)
                if remember or not stores:
                    component, tick = (lane - unit_begin) & ~_LANE, integer(ticks[lane >> 5])
                    if components.size:
                        component, tick = components[begin], moments[begin]
                    number = _record(records, state, last, lane >> 5, pc, unit, component, tick, flags, warp, size)
                    if stores and single:
                        result = number << 5
                    elif stores and by_warp:
                        result = _node(nodes, state, number, integer(_ALL), integer(0), integer(0))
                for run in range(runs):
                    first = (start + pattern[PLACES + run]) >> shift
                    behind = first + pattern[LENGTHS + run] * each
                    members = pattern[MEMBERS + run]
                    base, mask = members & _LANE, integer(1) if single else members >> 5
                    if stores and not by_warp and mask != 1:
                        return NOT_SIMPLE  # two lanes at one place
                    for line in range(np.uint64(first >> LINE_SHIFT), np.uint64(((behind - 1) >> LINE_SHIFT) + 1)):
                        head = integer(line << np.uint64(LINE_SHIFT))
                        low, high = max(first - head, 0), min(behind - head, 1 << LINE_SHIFT)
                        whole = high - low == 1 << LINE_SHIFT
                        for side in range(0 if remember else 2 if stores else 1):
                            word = integer(lines[line, side])
                            if _is_old(word, old, old_node) or (word >> 5 == known and word < LEAF):
                                continue
                            known = _stands(
                                rows, views, spans, maps, planes, records, nodes, leaves, old, old_node, word, low,
                                high, head - first, step, size, members, known, lane, unit, warp, flags,
                            )  # fmt: skip
                            if known < 0:
                                return NOT_SIMPLE
                        word = integer(lines[line, READ])
                        if not stores and word < LEAF and whole:
                            if _is_old(word, old, old_node):
                                word = integer(0)
                            whole = word == 0 or records[_leading(nodes, word), SIZE] == size
                        if not whole:
                            for side in range(0 if stores else 1, 2):
                                word = integer(lines[line, side])
                                if side == READ and stores and _is_old(word, old, old_node):
                                    lines[line, READ] = 0
                                elif _split(lines, leaves, records, nodes, state, shift, line, side) < 0:
                                    return NO_ROOM
                        if stores and not remember:
                            continue
                        at = _at(base, head - first, step)
                        if stores:
                            slot = result if by_warp else number << 5 | at
                            if whole:
                                for side in range(2):
                                    if lines[line, side] >= LEAF:
                                        _drop_leaf(leaves, state, integer(lines[line, side]) & _LEAF_NUMBER)
                                lines[line, WRITTEN], lines[line, READ] = slot, 0
                                continue
                            leaf = integer(lines[line, WRITTEN]) & _LEAF_NUMBER
                            for inside in range(low, high):
                                leaves[leaf, inside] = _behind(slot, inside, step)
                            if lines[line, READ]:
                                leaf = integer(lines[line, READ]) & _LEAF_NUMBER
                                for inside in range(low, high):
                                    leaves[leaf, inside] = 0
                            continue
                        leaf = integer(-1)
                        if not whole or word >= LEAF:
                            leaf = integer(lines[line, READ]) & _LEAF_NUMBER
                            slot = _common(leaves[leaf], old, old_node, step) if whole else integer(-1)
                            if slot == 0 or (slot > 0 and records[_leading(nodes, slot), SIZE] == size):
                                _drop_leaf(leaves, state, leaf)
                                leaf, word = integer(-1), slot
                        if leaf < 0:
                            high = low + 1
                        for inside in range(low, high):
                            slot = word if leaf < 0 else integer(leaves[leaf, inside])
                            if _is_old(slot, old, old_node):
                                slot = integer(0)
                            at = _at(base, head - first + inside, step)
                            if mask != seen_mask or slot >> 5 != seen or (slot != 0 and (slot - at) & _LANE != turned):
                                room = nodes.shape[0] - state[NEXT_NODE] - (total - begin) * each
                                seen, turned, seen_mask = slot >> 5, (slot - at) & _LANE, mask
                                result = _joined(
                                    rows, spans, maps, records, nodes, state, views, kept,
                                    slot, lane, unit, warp, flags, number, mask, at, room, longest,
                                    old, old_node,
                                )  # fmt: skip
                                result = (result & ~_LANE) | ((result - at) & _LANE)
                            slot = (result & ~_LANE) | ((result + at) & _LANE)
                            if leaf < 0:
                                lines[line, READ] = slot
                            else:
                                leaves[leaf, inside] = slot
                begin = end
        return PASSED

    return borrowing(pass_warps)


def _stamp() -> int:
    """A number that stands for the text of what is compiled: numba's cache watches this file alone."""
    text = Path(core.__file__ or "").read_bytes() + Path(__file__).read_bytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "little") | 1


STAMP = _stamp()
pass_warps = _made(STAMP)
