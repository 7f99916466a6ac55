"""The compiled part of the order: what is asked at every access, for a whole selection of lanes in one call.

One file, because numba's cache watches the file of a compiled function only. Arrays (see `clocks`, `touched`,
`shadow` for who owns them):

    rows     int32 [rows, components]: a clock; everything of component c with a tick below rows[r, c] is known
    views    int32 [planes, lanes, 7]: what a lane knows: a row, a map of other units' rows, and bounds of its own
    maps     int32 [entries, 2]: unit and row, ascending units; spans int64 [maps, 2]: where each map's entries are
    records  int32 [records, 8]: accesses of one warp, by one instruction, in one interval of its clock
    nodes    uint32 [nodes, 4]: chained sets of accesses: record, lanes, the rest of the set
    lines    uint32 [lines, 2]: of 16 neighbouring granules the last writes, and the reads since
    leaves   uint32 [leaves, 16]: a slot for each granule of a line that is not touched in one way

A slot is 0 or empty for what is too old to matter; a record and a lane; or (bit 31) a node and a lane. A node's lanes
are a mask relative to the lane of the slot that leads to it, and its rest is a slot relative to it too, so that
neighbouring granules that neighbouring lanes touch in the same way share one node.

A line holds the slot of its first granule, and the lane of the slots behind grows by one with every SIZE bytes of the
record that the slot leads to first; or (bits 31 and 30) the number of a leaf.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined, compiled

# Columns of a view.
ROW, FOREIGN, TICK, OWN_ENGINES, VIEW_COLUMNS = 0, 1, 2, 3, 7
# Columns of a record.
UNIT, COMPONENT, AT, PC, FLAGS, WARP_OF, SIZE, RECORD_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 8
# Columns of a node.
RECORD, MASK, REST, NODE_COLUMNS = 0, 1, 2, 4
# Of the state of the tables.
NEXT_RECORD, NEXT_NODE, FIRST_RECORD, FIRST_NODE, NEXT_LEAF, FREE_LEAF, LIVE_LEAVES, FOLDED = range(8)
# The instruction, plus one, whose accesses to a place were the last of which some are left out; 0 for none.
LEFT_OUT, STATES = 8, 9
# Of the shape of a wave.
LANES_PER_UNIT, UNIT_BASE, LANES_PER_BLOCK, WARPS_PER_UNIT = 0, 1, 2, 3
# Whether the program has strong accesses whose scope is less than the GPU.
NARROW, SHAPES = 4, 5

# Flags of a record.
WRITES = 1
STRONG = 2
ATOMIC = 4
SINGLE = 8  # one component, not one a lane
ASYNC_PROXY = 16
NON_COHERENT = 32
ENDS = 64  # a block's end, as a write of its shared memory: what its own threads did there is before it
REDUCES = 128  # an element-wise update by an engine
SCOPE_SHIFT = 8  # 2 bits
SIZE_SHIFT = 10  # 4 bits: log2 of the bytes of an element
ENGINE_SHIFT = 16  # engine + 1, 0 for a thread
ENGINE_MASK = 7
_STRENGTH = STRONG | ASYNC_PROXY | REDUCES | 3 << SCOPE_SHIFT | 15 << SIZE_SHIFT

#: Whether all lanes of a warp know the same, but for what is their own.
DIFFERENT, SAME, UNKNOWN = 0, 1, 2

#: A bound that covers all there will be; the largest tick.
EVER = 2**31 - 1
NODE = 1 << 31
LEAF = NODE | 1 << 30
#: Granules of a line, as a power of two.
LINE_SHIFT = 4
#: The sides of a line.
WRITTEN, READ = 0, 1
#: The size of a record whose accesses are by one lane each, or by all lanes of a warp: lanes never grow along a line.
ALONE = 40
_INSIDE = (1 << LINE_SHIFT) - 1
_NUMBER = (1 << 26) - 1
_LEAF_NUMBER = (1 << 30) - 1
_ALL = 0xFFFF_FFFF
_LANE = 31
# Accesses of one place in global memory from which on some are left out. Where blocks of a launch have no order at all,
# two units stand for all others: whoever comes later and races with one that is missing races with one of the two.
# Where they may have some, more are kept, the last ones, and a note says that others are not; in shared memory all are.
LONGEST_CHAIN, LONGEST_KNOWN_CHAIN, NO_LIMIT = 64, 1024, 1 << 40
#: Rows of scratch for the accesses of a set.
KEPT = 2048

Array = Any
integer = cast(Callable[[Any], int], np.int64)


@borrowing_inlined
def _foreign_row(spans: Array, maps: Array, which: int, unit: int) -> int:
    """The row that map `which` has for a unit, or -1."""
    low, high = spans[which, 0], spans[which, 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if maps[middle, 0] < unit:
            low = middle + 1
        else:
            high = middle
    if low < end and maps[low, 0] == unit:
        return integer(maps[low, 1])
    return integer(-1)


@borrowing_inlined
def _row_for(spans: Array, maps: Array, views: Array, plane: int, lane: int, unit: int, other: int) -> int:
    """The row in which a lane knows about unit `other`, or -1."""
    if unit == other:
        return integer(views[plane, lane, ROW])
    return _foreign_row(spans, maps, integer(views[plane, lane, FOREIGN]), other)


@borrowing_inlined
def _wholly(rows: Array, records: Array, row: int, record: int) -> bool:
    """Whether a row covers all that a record stands for, whichever lanes they were."""
    if row < 0:
        return False
    first, at = records[record, COMPONENT], records[record, AT]
    if records[record, FLAGS] & SINGLE:
        return bool(rows[row, first] > at)
    if rows[row, first] <= at:
        return False
    lowest = rows[row, first]
    for lane in range(1, 32):
        lowest = min(lowest, rows[row, first + lane])
    return bool(lowest > at)


@borrowing_inlined
def _own_bound(views: Array, plane: int, lane: int, flags: int) -> int:
    """What a lane knows of its own accesses, or of those of one of its own engines."""
    engine = (flags >> ENGINE_SHIFT) & ENGINE_MASK
    return integer(views[plane, lane, TICK if engine == 0 else OWN_ENGINES + engine - 1])


@borrowing_inlined
def _is_own(shape: Array, records: Array, record: int, other: int, lane: int, warp: int) -> bool:
    """Whether an access was made, or issued, by this lane; of a warpgroup's engine, by this lane's warpgroup."""
    if not records[record, FLAGS] & SINGLE:
        return bool(records[record, WARP_OF] == warp and other == lane & _LANE)
    if (records[record, FLAGS] >> ENGINE_SHIFT) & ENGINE_MASK != 4:
        return False
    per_block = shape[LANES_PER_BLOCK] >> 5
    mine, its = warp % per_block, records[record, WARP_OF] % per_block
    return bool(mine >> 2 == its >> 2 and warp - mine == records[record, WARP_OF] - its)


@borrowing_inlined
def _knows(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, records: Array,
    plane: int, lane: int, unit: int, warp: int, record: int, other: int,
) -> bool:  # fmt: skip
    """Whether a lane, of a unit and a warp of the launch, is ordered after an access by lane `other` of a record."""
    at = records[record, AT]
    own = _is_own(shape, records, record, other, lane, warp)
    if own and _own_bound(views, plane, lane, records[record, FLAGS]) > at:
        return True
    row = _row_for(spans, maps, views, plane, lane, unit, records[record, UNIT])
    if row < 0:
        return False
    component = integer(records[record, COMPONENT])
    if not records[record, FLAGS] & SINGLE:
        component += other
    return bool(rows[row, component] > at)


@borrowing_inlined
def _morally_strong(shape: Array, records: Array, record: int, flags: int, unit: int, warp: int) -> bool:
    """Whether two strong accesses of one place may stand without order: both scopes reach, sizes and proxies agree."""
    other = records[record, FLAGS]
    if (
        not (flags & other & STRONG)
        or (flags ^ other) & (ASYNC_PROXY | REDUCES)
        or ((flags ^ other) >> SIZE_SHIFT) & 15
    ):
        return False
    scope = min((flags >> SCOPE_SHIFT) & 3, (other >> SCOPE_SHIFT) & 3)
    if records[record, UNIT] != unit:
        return bool(scope >= 2)
    per_block = shape[LANES_PER_BLOCK] >> 5
    if records[record, WARP_OF] // per_block != warp // per_block:
        return bool(scope >= 1)
    return True


@borrowing_inlined
def _same_block(shape: Array, records: Array, record: int, warp: int) -> bool:
    """Whether a warp of the launch is of the block that made an access."""
    per_block = shape[LANES_PER_BLOCK] >> 5
    return bool(records[record, WARP_OF] // per_block == warp // per_block)


@borrowing_inlined
def is_empty(state: Array, slot: int) -> bool:
    """Whether a slot holds nothing, or only what an earlier launch did."""
    if slot & NODE:
        return bool((slot >> 5) & _NUMBER < state[FIRST_NODE])
    return bool(slot >> 5 < state[FIRST_RECORD])


@borrowing_inlined
def _leading(nodes: Array, slot: int) -> int:
    """The record that a slot leads to first."""
    number = (slot >> 5) & _NUMBER
    return integer(nodes[number, RECORD]) if slot & NODE else integer(number)


@borrowing_inlined
def _behind(slot: int, inside: int, step: int) -> int:
    """The slot of a granule of a line, by that of the first one; lanes grow by one with every 2^step granules."""
    return (slot & ~_LANE) | ((slot + (inside >> step)) & _LANE)


@borrowing_inlined
def slot_of(
    lines: Array, leaves: Array, records: Array, nodes: Array, shift: int, granule: int, side: int
) -> int:  # fmt: skip
    """The slot of a granule."""
    slot = integer(lines[granule >> LINE_SHIFT, side])
    if slot >= LEAF:
        return integer(leaves[slot & _LEAF_NUMBER, granule & _INSIDE])
    if slot == 0:
        return slot
    return _behind(slot, granule & _INSIDE, records[_leading(nodes, slot), SIZE] - shift)


@borrowing_inlined
def is_clear(lines: Array, state: Array, line: int) -> bool:
    """Whether a line holds no reads that count."""
    slot = integer(lines[line, READ])
    return slot < LEAF and (slot == 0 or is_empty(state, slot))


@borrowing_inlined
def _new_leaf(leaves: Array, state: Array) -> int:
    """The number of a leaf that nobody has; -1 if there is none."""
    if state[LIVE_LEAVES] + 2 >= leaves.shape[0]:
        return integer(-1)
    state[LIVE_LEAVES] += 1
    leaf = state[FREE_LEAF]
    if leaf:
        state[FREE_LEAF] = leaves[leaf, 0]
        return integer(leaf)
    state[NEXT_LEAF] += 1
    return integer(state[NEXT_LEAF] - 1)


@borrowing_inlined
def _drop_leaf(leaves: Array, state: Array, leaf: int) -> None:
    """Nobody has a leaf any more."""
    leaves[leaf, 0] = state[FREE_LEAF]
    state[FREE_LEAF] = leaf
    state[LIVE_LEAVES] -= 1


@borrowing_inlined
def _split(
    lines: Array, leaves: Array, records: Array, nodes: Array, state: Array, shift: int, line: int, side: int
) -> int:
    """The leaf of a line, made if it has none; -1 if there is no room."""
    slot = integer(lines[line, side])
    if slot >= LEAF:
        return slot & _LEAF_NUMBER
    leaf = _new_leaf(leaves, state)
    if leaf < 0:
        return leaf
    step = integer(0)
    if slot != 0 and is_empty(state, slot):
        slot = integer(0)
    if slot:
        step = integer(records[_leading(nodes, slot), SIZE] - shift)
    for inside in range(_INSIDE + 1):
        leaves[leaf, inside] = _behind(slot, inside, step) if slot else 0
    lines[line, side] = LEAF | leaf
    return leaf


@borrowing_inlined
def _plane_for(planes: Array, flags: int) -> int:
    """What the present access's issuer must know an earlier access by: planes for generic writes, reads, async ones."""
    if flags & ASYNC_PROXY:
        return integer(planes[2] if flags & WRITES else planes[3])
    return integer(planes[0] if flags & WRITES else planes[1])


@borrowing
def find_conflicts(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, planes: Array, records: Array, nodes: Array,
    state: Array, lines: Array, leaves: Array, shift: int, lanes: Array, offsets: Array, nbytes: int, flags: int,
    asked: int, found: Array,
) -> int:  # fmt: skip
    """How many pairs of an access and an earlier one have no order; nothing is changed.

    Args:
        rows: of clocks.
        views: of lanes.
        spans: of maps.
        maps: of clocks of other units.
        shape: of the wave.
        planes: int64 [4]: in which plane a generic write, a generic read, an async write, an async read is looked up.
        records: of accesses.
        nodes: of sets of them.
        state: of both tables.
        lines: of granules.
        leaves: of lines.
        shift: log2 of a granule's bytes.
        lanes: int64 [n], who accesses.
        offsets: int64 [n], first byte of each.
        nbytes: of each.
        flags: of the access.
        asked: 1: each lane must know; 32: all lanes of its warp; 128: that lane and the 127 behind it.
        found: int64 [most, 3]: position, record and lane of the first pairs.

    Sets have their last access first. An atomic reads what the write before it left ("Observation Order" of the PTX
    ISA), so who knows it comes after that write, too, and where that is an atomic, after what it read.
    """
    count = 0
    known = integer(-1)  # the set that was last found to be wholly known, by lanes that know the same as this one
    before = integer(-1)
    alike = True  # all who are asked know the same
    unit, unit_end = integer(0), integer(0)
    first_warp = shape[UNIT_BASE] * shape[WARPS_PER_UNIT]
    each, sides = nbytes >> shift, 2 if flags & WRITES else 1
    for position in range(lanes.size):
        lane = lanes[position]
        begin = lane & ~_LANE if asked == 32 else lane
        if lane >= unit_end or before < 0 or lane < before:
            unit = shape[UNIT_BASE] + lane // shape[LANES_PER_UNIT]
            unit_end = (unit - shape[UNIT_BASE] + 1) * shape[LANES_PER_UNIT]
            before = integer(-1)
        if before < 0 or (asked > 1 and before >> 5 != lane >> 5) or not _alike(views, before, lane):
            known = integer(-1)
            alike = True
            for who in range(begin + 1, begin + asked):
                alike = alike and _alike(views, begin, who)
        before = lane
        warp = first_warp + (lane >> 5)
        first = offsets[position] >> shift
        for granule in range(first, first + each):
            for side in range(sides):
                slot = slot_of(lines, leaves, records, nodes, shift, granule, side)
                if slot == 0 or slot >> 5 == known or is_empty(state, slot):
                    continue
                leader = slot >> 5
                all_known = alike
                observed = False  # by an atomic that the lane knows, or by one which that has observed
                while slot != 0 and not is_empty(state, slot):
                    base = slot & _LANE
                    if slot & NODE:
                        node = (slot >> 5) & _NUMBER
                        record, mask = integer(nodes[node, RECORD]), integer(nodes[node, MASK])
                        slot = _rest(nodes, node, base)
                    else:
                        record, mask, slot = slot >> 5, integer(1), integer(0)
                    other = integer(records[record, FLAGS])
                    hidden = (flags | other) & NON_COHERENT and (flags | other) & WRITES
                    if observed:
                        observed = bool(other & ATOMIC)
                        all_known = False
                        continue
                    if other & ATOMIC and asked == 1 and not flags & ASYNC_PROXY:
                        observed = _knows_any(
                            rows, views, spans, maps, shape, records,
                            planes[0], lane, unit, warp, record, mask, base,
                        )  # fmt: skip
                    if flags & ENDS and _same_block(shape, records, record, warp):
                        continue
                    plane = _plane_for(planes, other)
                    if (
                        records[record, WARP_OF] == warp
                        and mask == 1
                        and base == lane & _LANE
                        and asked == 1
                        and not other & (SINGLE | NON_COHERENT)
                        and not hidden
                        and _own_bound(views, plane, lane, other) > records[record, AT]
                    ):
                        all_known = False
                        continue
                    row = _row_for(spans, maps, views, plane, lane, unit, records[record, UNIT])
                    if alike and not hidden and _wholly(rows, records, row, record):
                        continue
                    all_known = False
                    if _morally_strong(shape, records, record, flags, unit, warp):
                        continue
                    source = base
                    while mask:
                        ordered = not hidden
                        if mask & 1:
                            for who in range(begin, begin + asked if ordered else begin):
                                if not _knows(
                                    rows, views, spans, maps, shape, records,
                                    plane, who, unit, first_warp + (who >> 5), record, source,
                                ):  # fmt: skip
                                    ordered = False
                                    break
                            if not ordered:
                                if count < found.shape[0]:
                                    found[count, 0], found[count, 1], found[count, 2] = position, record, source
                                count += 1
                                break
                        mask >>= 1
                        source = (source + 1) & _LANE
                if all_known:
                    known = leader
    return count


@borrowing_inlined
def _knows_any(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, records: Array, plane: int, lane: int,
    unit: int, warp: int, record: int, mask: int, base: int,
) -> bool:  # fmt: skip
    """Whether a lane knows one of the accesses of a set's element; lanes of an atomic read each other's."""
    while mask:
        if mask & 1 and _knows(rows, views, spans, maps, shape, records, plane, lane, unit, warp, record, base):
            return True
        mask >>= 1
        base = (base + 1) & _LANE
    return False


@borrowing_inlined
def _alike(views: Array, one: int, other: int) -> bool:
    """Whether two lanes of a unit know the same, but for what is their own."""
    for plane in range(views.shape[0]):
        if (
            views[plane, one, ROW] != views[plane, other, ROW]
            or views[plane, one, FOREIGN] != views[plane, other, FOREIGN]
        ):
            return False
    return True


@borrowing_inlined
def _rest(nodes: Array, node: int, base: int) -> int:
    """The slot of the rest of a set that is led to by lane `base`."""
    slot = integer(nodes[node, REST])
    return (slot & ~_LANE) | ((slot + base) & _LANE) if slot else integer(0)


@borrowing_inlined
def _node(nodes: Array, state: Array, record: int, mask: int, rest: int, base: int) -> int:
    """The slot of a new node, led to by lane `base`; `rest` is a slot."""
    number = integer(state[NEXT_NODE])
    state[NEXT_NODE] = number + 1
    nodes[number, RECORD] = record
    nodes[number, MASK] = mask
    nodes[number, REST] = (rest & ~_LANE) | ((rest - base) & _LANE) if rest else 0
    return integer(NODE | number << 5 | base)


@borrowing_inlined
def _record(
    records: Array, state: Array, last: Array, row: int, pc: int, unit: int, component: int, at: int, flags: int,
    warp: int, size: int,
) -> int:  # fmt: skip
    """The record of such accesses: the last one of this warp and instruction if it is the same, or a new one."""
    number = integer(last[pc, row])
    if (
        state[FIRST_RECORD] <= number < state[NEXT_RECORD]
        and records[number, AT] == at
        and records[number, WARP_OF] == warp
        and records[number, PC] == pc
        and records[number, FLAGS] == flags
        and records[number, COMPONENT] == component
        and records[number, SIZE] == size
        and records[number, UNIT] == unit
    ):
        return number
    number = integer(state[NEXT_RECORD])
    state[NEXT_RECORD] = number + 1
    records[number, UNIT] = unit
    records[number, COMPONENT] = component
    records[number, AT] = at
    records[number, PC] = pc
    records[number, FLAGS] = flags
    records[number, WARP_OF] = warp
    records[number, SIZE] = size
    last[pc, row] = number
    return number


@borrowing_inlined
def _stands_for(
    rows: Array, spans: Array, maps: Array, shape: Array, records: Array, views: Array, lane: int, unit: int, warp: int,
    flags: int, mask: int, record: int, other_mask: int, base: int,
) -> bool:  # fmt: skip
    """Whether who is ordered after the present access is so after an earlier one, and whom that concerns this does.

    A strong access of a smaller scope may reach the present one and not an earlier one of another block.
    """
    other = records[record, FLAGS]
    if (flags >> ENGINE_SHIFT) & ENGINE_MASK or (other & ~flags) & NON_COHERENT:
        return False
    if flags & STRONG and not (other & STRONG and (flags ^ other) >> SCOPE_SHIFT & 63 == 0):
        return False
    if flags & STRONG and shape[NARROW] and not _same_block(shape, records, record, warp):
        return False
    own = records[record, WARP_OF] == warp and not (other >> ENGINE_SHIFT) & ENGINE_MASK
    if own and (mask == _ALL or (other_mask == 1 and base == lane & _LANE)):
        return True
    return _wholly(rows, records, _row_for(spans, maps, views, 0, lane, unit, records[record, UNIT]), record)


@borrowing_inlined
def _repeats(records: Array, record: int, other_mask: int, base: int, number: int, lane: int, mask: int) -> bool:
    """Whether an element of a set stands for the present access too: the same lanes in the same interval."""
    for column in (UNIT, COMPONENT, AT, FLAGS):
        if records[record, column] != records[number, column]:
            return False
    return bool(other_mask == _ALL or (mask == 1 and (other_mask >> ((lane - base) & _LANE)) & 1))


@borrowing_inlined
def _is_spoken_for(records: Array, kept: Array, count: int, number: int, record: int) -> bool:
    """Whether the present access and `count` earlier ones have two, of different units, that race wherever one does.

    An access without strength races with all that a strong one does; strong ones of a kind race with the same.
    """
    strength, unit = records[record, FLAGS] & _STRENGTH, integer(-1)
    for index in range(-1, count):
        other = number if index < 0 else integer(kept[index, 0])
        own = records[other, FLAGS] & _STRENGTH
        if own & STRONG and own != strength:
            continue
        if unit >= 0 and records[other, UNIT] != unit:
            return True
        unit = integer(records[other, UNIT])
    return False


@borrowing_inlined
def _shortened(records: Array, kept: Array, least: int, length: int, number: int) -> int:
    """How many of a set stay: the `least` last ones, and those that nobody speaks for."""
    count = integer(least)
    for index in range(least, length):
        if not _is_spoken_for(records, kept, count, number, integer(kept[index, 0])):
            for column in range(3):
                kept[count, column] = kept[index, column]
            count += 1
    return count


@borrowing_inlined
def _chained(
    records: Array, nodes: Array, state: Array, kept: Array, length: int, dropped: int, slot: int, fresh: int,
    number: int, mask: int, base: int, room: int, longest: int,
) -> int:  # fmt: skip
    """The slot of a set: record `number` by the lanes `mask` relative to `base`, and what is kept of the set at `slot`.

    Kept are `length` accesses, `dropped` are those that need no place any more; without any, `slot` stays as it is.
    """
    if length == 0:
        return fresh if mask == 1 else _node(nodes, state, number, mask, integer(0), base)
    least = longest >> 1
    if length > longest and length % least == 1 and length <= kept.shape[0]:  # asked seldom, if it does not help
        count = _shortened(records, kept, least, length, number)
        dropped += length - count
        if count < length and longest > LONGEST_CHAIN:
            state[LEFT_OUT] = records[number, PC] + 1
        length = count
    if dropped == 0 or length > kept.shape[0] or length >= room:
        return _node(nodes, state, number, mask, slot, base)
    rest = integer(0)
    for index in range(length - 1, -1, -1):
        if rest == 0 and kept[index, 1] == 1:
            rest = kept[index, 0] << 5 | kept[index, 2]
        else:
            rest = _node(nodes, state, kept[index, 0], kept[index, 1], rest, kept[index, 2])
    return _node(nodes, state, number, mask, rest, base)


@borrowing_inlined
def _joined(
    rows: Array, spans: Array, maps: Array, shape: Array, records: Array, nodes: Array, state: Array, views: Array,
    kept: Array, slot: int, lane: int, unit: int, warp: int, flags: int, number: int, mask: int, room: int,
    longest: int,
) -> int:  # fmt: skip
    """The slot of the set at `slot` and the present access: those that it stands for go, and all that are too many."""
    own = lane & _LANE if mask == 1 else integer(0)
    fresh = number << 5 | own
    if slot == 0 or is_empty(state, slot):
        return fresh if mask == 1 else _node(nodes, state, number, mask, 0, own)
    if slot & NODE:
        head = (slot >> 5) & _NUMBER
        base = slot & _LANE
        if nodes[head, RECORD] == number:
            more = integer(nodes[head, MASK]) | (1 << ((own - base) & _LANE) if mask == 1 else _ALL)
            if more == nodes[head, MASK]:
                return slot
            return _node(nodes, state, number, more, _rest(nodes, head, base), base)
    elif slot >> 5 == number:
        if mask == 1 and slot == fresh:
            return slot
        return _node(nodes, state, number, mask | 1 << ((slot - own) & _LANE), 0, own)
    length, dropped, left = 0, 0, slot
    while left != 0 and not is_empty(state, left):
        base = left & _LANE
        if left & NODE:
            node = (left >> 5) & _NUMBER
            record, other_mask = integer(nodes[node, RECORD]), integer(nodes[node, MASK])
            left = _rest(nodes, node, base)
        else:
            record, other_mask, left = left >> 5, integer(1), integer(0)
        if _repeats(records, record, other_mask, base, number, own, mask):
            return slot
        if _stands_for(
            rows, spans, maps, shape, records, views, lane, unit, warp, flags, mask, record, other_mask, base
        ):  # fmt: skip
            dropped += 1
        elif length < kept.shape[0]:
            kept[length, 0], kept[length, 1], kept[length, 2] = record, other_mask, base
            length += 1
        else:
            length += 1
    return _chained(records, nodes, state, kept, length, dropped, slot, fresh, number, mask, own, room, longest)


@compiled
def record_accesses(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, records: Array, nodes: Array, state: Array,
    last: Array, lines: Array, leaves: Array, shift: int, lanes: Array, offsets: Array, nbytes: int, flags: int,
    pc: int, mask: int, ticks: Array, components: Array, at: Array, longest: int,
) -> bool:  # fmt: skip
    """Remember accesses that were checked; False, and nothing is remembered, where the tables lack room for the worst.

    Args:
        rows: of clocks.
        views: of lanes.
        spans: of maps.
        maps: of clocks of other units.
        shape: of the wave.
        records: of accesses.
        nodes: of sets of them.
        state: of both tables.
        last: int32 [steps, warps], perhaps the last record of each instruction and warp.
        lines: of granules.
        leaves: of lines.
        shift: log2 of a granule's bytes.
        lanes: int64 [n], who accesses.
        offsets: int64 [n], first byte of each.
        nbytes: of each.
        flags: of the access.
        pc: of the instruction.
        mask: 1, or 2^32 - 1 where each access is one of all lanes of the warp.
        ticks: int32 [warps], the clocks of the warps.
        components: int64 [n], who performs each access (lane 0 of the warp where it is one a lane); [0] for threads.
        at: int64 [n], the performer's tick; [0] for threads.
        longest: sets may grow to this.
    """
    each = nbytes >> shift
    most = lanes.size * each
    if state[NEXT_RECORD] + lanes.size >= records.shape[0] or state[NEXT_NODE] + most >= nodes.shape[0]:
        return False
    weak = bool(flags & WRITES) and not flags & STRONG
    sides = (WRITTEN, READ) if weak else (WRITTEN, WRITTEN) if flags & WRITES else (READ, READ)
    for position in range(lanes.size):
        first = offsets[position] >> shift
        for line in range(first >> LINE_SHIFT, ((first + each - 1) >> LINE_SHIFT) + 1):
            for side in sides:
                if weak and side == READ and is_clear(lines, state, line):
                    continue
                if _split(lines, leaves, records, nodes, state, shift, line, side) < 0:
                    return False
    size = integer(ALONE)
    if mask == 1 and not (flags >> ENGINE_SHIFT) & ENGINE_MASK:
        size = integer(0)
        while 1 << size < nbytes:
            size += 1
    kept = np.empty((KEPT, 3), np.int64)
    number, before = integer(-1), integer(-1)
    seen, turned, seen_result = integer(-1), integer(0), integer(0)
    unit, unit_begin, unit_end = integer(0), integer(0), integer(0)
    first_warp = shape[UNIT_BASE] * shape[WARPS_PER_UNIT]
    for position in range(lanes.size):
        lane = lanes[position]
        if lane >= unit_end or before < 0 or lane < before:
            unit_begin = lane // shape[LANES_PER_UNIT] * shape[LANES_PER_UNIT]
            unit_end = unit_begin + shape[LANES_PER_UNIT]
            unit = shape[UNIT_BASE] + lane // shape[LANES_PER_UNIT]
            before = integer(-1)
        warp = first_warp + (lane >> 5)
        if components.size or before < 0 or before >> 5 != lane >> 5:
            component, tick = (lane - unit_begin) & ~_LANE, integer(ticks[lane >> 5])
            if components.size:
                component, tick = components[position], at[position]
            now = _record(records, state, last, lane >> 5, pc, unit, component, tick, flags, warp, size)
            if now != number:
                number, seen = now, integer(-1)
        if before < 0 or not _alike(views, before, lane):
            seen = integer(-1)
        before = lane
        own = lane & _LANE if mask == 1 else integer(0)
        first = offsets[position] >> shift
        for granule in range(first, first + each):
            leaf, inside = lines[granule >> LINE_SHIFT, sides[0]] & _LEAF_NUMBER, granule & _INSIDE
            if weak:
                if mask == 1:
                    leaves[leaf, inside] = number << 5 | own
                else:
                    if seen < 0:
                        seen, seen_result = integer(0), _node(nodes, state, number, mask, 0, own)
                    leaves[leaf, inside] = seen_result
                if lines[granule >> LINE_SHIFT, READ] >= LEAF:
                    leaves[lines[granule >> LINE_SHIFT, READ] & _LEAF_NUMBER, inside] = 0
                continue
            slot = integer(leaves[leaf, inside])
            if mask == 1 and slot == number << 5 | own:
                continue  # the same access again
            if slot == 0 or is_empty(state, slot):
                if mask == 1:
                    result = number << 5 | own
                elif seen == 0:
                    result = seen_result
                else:
                    result = _node(nodes, state, number, mask, 0, own)
                    seen, turned, seen_result = integer(0), integer(0), result
            elif slot >> 5 == seen and (slot - own) & _LANE == turned:
                result = (seen_result & ~_LANE) | ((seen_result + own) & _LANE)
            else:
                room = nodes.shape[0] - state[NEXT_NODE] - (lanes.size - position) * each
                result = _joined(
                    rows, spans, maps, shape, records, nodes, state, views, kept,
                    slot, lane, unit, warp, flags, number, mask, room, longest,
                )  # fmt: skip
                seen, turned = slot >> 5, (slot - own) & _LANE
                seen_result = (result & ~_LANE) | ((result - own) & _LANE)
            leaves[leaf, inside] = result
    return True


@borrowing
def publish(
    rows: Array, views: Array, plane: int, shape: Array, engines: Array, ticks: Array, lanes: Array, targets: Array
) -> None:
    """Join what lanes know, and their own accesses up to now, into rows.

    Args:
        rows: of clocks.
        views: of lanes.
        plane: of the views.
        shape: of the wave.
        engines: int64 [4], the first component of each kind of engine of threads and warpgroups; -1 without.
        ticks: int32 [warps], the clocks of the warps.
        lanes: int64 [n].
        targets: int64 [n], the row for each.
    """
    joined, into = integer(-1), integer(-1)
    for position in range(lanes.size):
        lane, target = lanes[position], targets[position]
        row = integer(views[plane, lane, ROW])
        if row != joined or target != into:
            if row != target:
                _join_row(rows, target, row)
            joined, into = row, target
        _publish_own(rows, views, plane, shape, engines, ticks, lane, lane % shape[LANES_PER_UNIT], target)


@borrowing
def count_groups(lanes: Array, per: int) -> int:
    """How many groups of `per` neighbours some of these ascending lanes are of."""
    if lanes[-1] - lanes[0] == lanes.size - 1:
        return integer(lanes[-1] // per - lanes[0] // per + 1)
    count, end = integer(0), integer(0)
    for position in range(lanes.size):
        if lanes[position] >= end:
            count += 1
            end = (lanes[position] // per + 1) * per
    return count


@borrowing_inlined
def _is_plain_warp(views: Array, plane: int, engines: Array, lanes: Array, position: int) -> bool:
    """Whether all lanes of a warp stand here, know one row, and of their own accesses all, and have no engines."""
    lane = lanes[position]
    if lane & _LANE or position + 32 > lanes.size or lanes[position + 31] != lane + 31:
        return False
    if engines[0] >= 0 or engines[1] >= 0 or engines[2] >= 0 or engines[3] >= 0:
        return False
    row, other = views[plane, lane, ROW], np.int32(0)
    for who in range(np.uint64(lane), np.uint64(lane + 32)):
        other |= (views[plane, who, ROW] ^ row) | (views[plane, who, TICK] ^ np.int32(EVER))
    return bool(other == 0)


@borrowing
def meet(
    rows: Array, views: Array, shape: Array, engines: Array, ticks: Array, minds: Array, lanes: Array, per: int,
    fresh: Array,
) -> None:  # fmt: skip
    """The lanes of each group of `per` neighbours publish, and learn the rows of what they published.

    Args:
        rows: of clocks.
        views: of lanes.
        shape: of the wave.
        engines: see `publish`.
        ticks: int32 [warps], grows for all that take part.
        minds: uint8 [warps], see `compiled_warps`.
        lanes: int64 [n], ascending.
        per: divides the lanes of a unit.
        fresh: int64 [planes, groups], new rows.
    """
    for plane in range(views.shape[0]):
        group, end, unit_end = integer(-1), integer(0), integer(0)
        joined, target, before = integer(-1), integer(0), integer(0)
        position = integer(0)
        while position < lanes.size:
            lane = lanes[position]
            if lane >= end:
                group, end, joined = group + 1, (lane // per + 1) * per, integer(-1)
                target = fresh[plane, group]
                for component in range(np.uint64(rows.shape[1])):
                    rows[target, component] = rows[0, component]
            if lane >= unit_end:
                before = lane // shape[LANES_PER_UNIT] * shape[LANES_PER_UNIT]
                unit_end = before + shape[LANES_PER_UNIT]
            row = integer(views[plane, lane, ROW])
            if row != joined:
                _join_row(rows, target, row)
                joined = row
            position += 1
            if end - lane < 32 or not _is_plain_warp(views, plane, engines, lanes, position - 1):
                _publish_own(rows, views, plane, shape, engines, ticks, lane, lane - before, target)
                views[plane, lane, ROW] = target
                continue
            bound = np.int32(ticks[lane >> 5] + 1)
            for component in range(np.uint64(lane - before), np.uint64(lane - before + 32)):
                rows[target, component] = max(rows[target, component], bound)
            for who in range(np.uint64(lane), np.uint64(lane + 32)):
                views[plane, who, ROW] = target
            position += 31
    warp = integer(-1)
    for position in range(lanes.size):
        if lanes[position] >> 5 != warp:  # lanes ascend
            warp = lanes[position] >> 5
            ticks[warp] += 1
            minds[warp] = UNKNOWN


@borrowing_inlined
def _join_row(rows: Array, target: int, row: int) -> None:
    for component in range(np.uint64(rows.shape[1])):
        rows[target, component] = max(rows[target, component], rows[row, component])


@borrowing_inlined
def _publish_own(
    rows: Array, views: Array, plane: int, shape: Array, engines: Array, ticks: Array, lane: int, mine: int, target: int
) -> None:
    """Put what a lane, lane `mine` of its unit, knows of its own into a row."""
    bound = views[plane, lane, TICK]
    if bound == EVER:
        bound = ticks[lane >> 5] + 1
    rows[target, mine] = max(rows[target, mine], bound)
    for engine in range(4):
        if engines[engine] < 0:
            continue
        component = engines[engine] + mine
        if engine == 3:
            block, local = mine // shape[LANES_PER_BLOCK], mine % shape[LANES_PER_BLOCK]
            component = engines[engine] + block * ((shape[LANES_PER_BLOCK] + 127) // 128) + local // 128
        rows[target, component] = max(rows[target, component], views[plane, lane, OWN_ENGINES + engine])


@compiled
def compare_rows(rows: Array, one: int, other: int) -> int:
    """1: the first row covers the second; 2: the second covers the first; 0: neither."""
    first, second = True, True
    for component in range(rows.shape[1]):
        first = first and rows[one, component] >= rows[other, component]
        second = second and rows[one, component] <= rows[other, component]
    return 1 if first else 2 if second else 0


@borrowing_inlined
def _mark(slot: int, nodes: Array, state: Array, live_records: Array, live_nodes: Array) -> None:
    """Mark the records and nodes that a slot leads to."""
    while slot != 0 and not is_empty(state, slot):
        number = (slot >> 5) & _NUMBER
        if not slot & NODE:
            live_records[number] = 1
            break
        if live_nodes[number]:
            break
        live_nodes[number] = 1
        live_records[nodes[number, RECORD]] = 1
        slot = integer(nodes[number, REST])
        if slot and is_empty(state, slot):
            nodes[number, REST] = 0


@compiled
def mark_lines(lines: Array, leaves: Array, nodes: Array, state: Array, live_records: Array, live_nodes: Array) -> None:
    """Mark the records and nodes that lines lead to; empty slots become 0, and so do lines of empty leaves."""
    for line in range(lines.shape[0]):
        for side in (WRITTEN, READ):
            slot = integer(lines[line, side])
            if slot < LEAF:
                if slot and is_empty(state, slot):
                    lines[line, side] = 0
                else:
                    _mark(slot, nodes, state, live_records, live_nodes)
                continue
            leaf, used = slot & _LEAF_NUMBER, False
            for inside in range(_INSIDE + 1):
                slot = integer(leaves[leaf, inside])
                if slot and is_empty(state, slot):
                    leaves[leaf, inside] = 0
                elif slot:
                    used = True
                    _mark(slot, nodes, state, live_records, live_nodes)
            if not used:
                lines[line, side] = 0
                _drop_leaf(leaves, state, leaf)


@borrowing_inlined
def _renumbered(slot: int, new_records: Array, new_nodes: Array) -> int:
    if slot == 0:
        return slot
    number = (slot >> 5) & _NUMBER
    if slot & NODE:
        return NODE | integer(new_nodes[number]) << 5 | (slot & _LANE)
    return integer(new_records[number]) << 5 | (slot & _LANE)


@compiled
def renumber_slots(slots: Array, new_records: Array, new_nodes: Array) -> None:
    """Slots of old numbers become slots of new ones."""
    for index in range(slots.size):
        slots[index] = _renumbered(integer(slots[index]), new_records, new_nodes)


@compiled
def renumber_lines(lines: Array, leaves: Array, new_records: Array, new_nodes: Array) -> None:
    """Likewise of lines and their leaves."""
    for line in range(lines.shape[0]):
        for side in (WRITTEN, READ):
            slot = integer(lines[line, side])
            if slot < LEAF:
                lines[line, side] = _renumbered(slot, new_records, new_nodes)
                continue
            leaf = slot & _LEAF_NUMBER
            for inside in range(_INSIDE + 1):
                leaves[leaf, inside] = _renumbered(integer(leaves[leaf, inside]), new_records, new_nodes)


@compiled
def refine_lines(
    lines: Array, leaves: Array, records: Array, nodes: Array, state: Array, shift: int, finer: Array, finer_shift: int
) -> bool:
    """Put lines into lines of smaller granules; False, with nothing of `lines` changed, where leaves lack room."""
    ratio = shift - finer_shift
    needed = integer(0)
    for line in range(lines.shape[0]):
        for side in (WRITTEN, READ):
            needed += (1 << ratio) if lines[line, side] >= LEAF else 0
    if state[LIVE_LEAVES] + needed + 2 >= leaves.shape[0]:
        return False
    for line in range(lines.shape[0]):
        for side in (WRITTEN, READ):
            slot = integer(lines[line, side])
            for part in range(1 << ratio):
                target, start = line << ratio | part, part << LINE_SHIFT >> ratio
                if target >= finer.shape[0]:
                    break
                if slot < LEAF:
                    if slot and not is_empty(state, slot):
                        step = records[_leading(nodes, slot), SIZE] - finer_shift
                        finer[target, side] = _behind(slot, part << LINE_SHIFT, step)
                    continue
                leaf = _new_leaf(leaves, state)
                for inside in range(_INSIDE + 1):
                    leaves[leaf, inside] = leaves[slot & _LEAF_NUMBER, start + (inside >> ratio)]
                finer[target, side] = LEAF | leaf
                _unite(finer, leaves, records, nodes, state, finer_shift, target, side)
            if slot >= LEAF:
                _drop_leaf(leaves, state, slot & _LEAF_NUMBER)
    return True


@borrowing_inlined
def _moved(slot: int, records: int, nodes: int) -> int:
    """The slot of what stands so many records and nodes behind what a slot leads to."""
    if slot == 0:
        return slot
    return slot + ((nodes if slot & NODE else records) << 5)


@compiled
def unfold(
    lines: Array, leaves: Array, records: Array, nodes: Array, state: Array, shape: Array, ticks: Array, units: int,
    stride: int,
) -> bool:  # fmt: skip
    """What the first unit of a wave did in its shared memory, all others did in theirs: note that for each of them.

    False, and nothing is changed, where the tables lack room.

    Args:
        lines: of shared memory; those of other units than the first are empty.
        leaves: of lines.
        records: all of the first unit, made since the warps' present ticks began.
        nodes: of such records.
        state: of the tables; nothing in them is too old to matter.
        shape: of the wave.
        ticks: int32 [warps], the clocks of the warps.
        units: of the wave.
        stride: lines of a unit.
    """
    many, sets, split = state[NEXT_RECORD] - 1, state[NEXT_NODE] - 1, state[LIVE_LEAVES]
    if (
        many * units + 2 >= records.shape[0]
        or sets * units + 2 >= nodes.shape[0]
        or split * units + 2 >= leaves.shape[0]
    ):
        return False
    warps = shape[WARPS_PER_UNIT]
    for unit in range(1, units):
        for number in range(1, many + 1):
            own = unit * many + number
            for column in range(records.shape[1]):
                records[own, column] = records[number, column]
            warp = records[number, WARP_OF] + unit * warps
            records[own, UNIT] += unit
            records[own, WARP_OF] = warp
            records[own, AT] = ticks[warp - shape[UNIT_BASE] * warps]
        for number in range(1, sets + 1):
            own = unit * sets + number
            nodes[own, RECORD] = nodes[number, RECORD] + unit * many
            nodes[own, MASK] = nodes[number, MASK]
            nodes[own, REST] = _moved(integer(nodes[number, REST]), unit * many, unit * sets)
        for line in range(stride):
            for side in (WRITTEN, READ):
                slot = integer(lines[line, side])
                if slot >= LEAF:
                    leaf = _new_leaf(leaves, state)
                    for inside in range(_INSIDE + 1):
                        own = integer(leaves[slot & _LEAF_NUMBER, inside])
                        leaves[leaf, inside] = _moved(own, unit * many, unit * sets)
                    slot = LEAF | leaf
                else:
                    slot = _moved(slot, unit * many, unit * sets)
                lines[unit * stride + line, side] = slot
    state[NEXT_RECORD], state[NEXT_NODE] = many * units + 1, sets * units + 1
    return True


@borrowing_inlined
def _unite(
    lines: Array, leaves: Array, records: Array, nodes: Array, state: Array, shift: int, line: int, side: int
) -> None:
    """Do without the leaf of a line whose granules are touched in one way after all."""
    leaf = integer(lines[line, side]) & _LEAF_NUMBER
    lead = integer(leaves[leaf, 0])
    step = integer(records[_leading(nodes, lead), SIZE]) - shift
    for inside in range(_INSIDE + 1):
        if leaves[leaf, inside] != (_behind(lead, inside, step) if lead else 0):
            return
    lines[line, side] = lead
    _drop_leaf(leaves, state, leaf)


@compiled
def knows(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, records: Array, plane: int, lane: int,
    record: int, other: int,
) -> bool:  # fmt: skip
    """Whether a lane is ordered, in a plane, after an access by lane `other` of a record."""
    unit = shape[UNIT_BASE] + lane // shape[LANES_PER_UNIT]
    warp = shape[UNIT_BASE] * shape[WARPS_PER_UNIT] + (lane >> 5)
    return _knows(rows, views, spans, maps, shape, records, plane, lane, unit, warp, record, other)


@compiled
def last_is_weak(
    lines: Array, leaves: Array, records: Array, nodes: Array, state: Array, shift: int, granule: int
) -> bool:  # fmt: skip
    """Whether the last write of a granule is a weak one."""
    slot = slot_of(lines, leaves, records, nodes, shift, granule, WRITTEN)
    if slot == 0 or is_empty(state, slot):
        return False
    return not records[_leading(nodes, slot), FLAGS] & STRONG
