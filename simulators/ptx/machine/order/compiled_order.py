"""The compiled part of the order: what is asked at every access, for a whole selection of lanes in one call.

One file, because numba's cache watches the file of a compiled function only. Arrays (see `clocks`, `touched`,
`shadow` for who owns them):

    rows     int32 [rows, components]: a clock; everything of component c with a tick below rows[r, c] is known
    views    int32 [planes, lanes, 7]: what a lane knows: a row, a map of other units' rows, and bounds of its own
    maps     int32 [entries, 2]: unit and row, ascending units; spans int64 [maps, 2]: where each map's entries are
    records  int32 [records, 8]: accesses of one warp, by one instruction, in one interval of its clock
    nodes    uint32 [nodes, 3]: chained sets of accesses: record, lanes, the rest of the set
    writes, reads  uint32 [granules]: slots

A slot is 0 or empty for what is too old to matter; a record and a lane; or (bit 31) a node and a lane. A node's lanes
are a mask relative to the lane of the slot that leads to it, and its rest is a slot relative to it too, so that
neighbouring granules that neighbouring lanes touch in the same way share one node.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined, compiled

# Columns of a view.
ROW, FOREIGN, TICK, OWN_ENGINES, VIEW_COLUMNS = 0, 1, 2, 3, 7
# Columns of a record.
UNIT, COMPONENT, AT, PC, FLAGS, WARP_OF, RECORD_COLUMNS = 0, 1, 2, 3, 4, 5, 8
# Columns of a node.
RECORD, MASK, REST, NODE_COLUMNS = 0, 1, 2, 3
# Of the state of the tables.
NEXT_RECORD, NEXT_NODE, FIRST_RECORD, FIRST_NODE, STATES = 0, 1, 2, 3, 4
# Of the shape of a wave.
LANES_PER_UNIT, UNIT_BASE, LANES_PER_BLOCK, WARPS_PER_UNIT, SHAPES = 0, 1, 2, 3, 4

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

#: A bound that covers all there will be; the largest tick.
EVER = 2**31 - 1
NODE = 1 << 31
_NUMBER = (1 << 26) - 1
_ALL = 0xFFFF_FFFF
_LANE = 31
# Readers of one place that are kept at most: of global memory only, where all blocks of a launch may read it.
LONGEST_CHAIN = 64

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
def _plane_for(planes: Array, flags: int) -> int:
    """What the present access's issuer must know an earlier access by: planes for generic writes, reads, async ones."""
    if flags & ASYNC_PROXY:
        return integer(planes[2] if flags & WRITES else planes[3])
    return integer(planes[0] if flags & WRITES else planes[1])


@borrowing
def find_conflicts(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, planes: Array, records: Array, nodes: Array,
    state: Array, writes: Array, reads: Array, shift: int, lanes: Array, offsets: Array, nbytes: int, flags: int,
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
        writes: a slot for each granule.
        reads: a slot for each granule.
        shift: log2 of a granule's bytes.
        lanes: int64 [n], who accesses.
        offsets: int64 [n], first byte of each.
        nbytes: of each.
        flags: of the access.
        asked: 1: each lane must know; 32: all lanes of its warp; 128: that lane and the 127 behind it.
        found: int64 [most, 3]: position, record and lane of the first pairs.
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
                slot = integer(writes[granule] if side == 0 else reads[granule])
                if slot == 0 or slot >> 5 == known or is_empty(state, slot):
                    continue
                leader = slot >> 5
                all_known = alike
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
    warp: int,
) -> int:  # fmt: skip
    """The record of such accesses: the last one of this warp and instruction if it is the same, or a new one."""
    number = integer(last[row, pc])
    if (
        number >= state[FIRST_RECORD]
        and records[number, AT] == at
        and records[number, COMPONENT] == component
        and records[number, FLAGS] == flags
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
    last[row, pc] = number
    return number


@borrowing_inlined
def _stands_for(
    rows: Array, spans: Array, maps: Array, records: Array, views: Array, lane: int, unit: int, warp: int, flags: int,
    mask: int, record: int, other_mask: int, base: int,
) -> bool:  # fmt: skip
    """Whether who is ordered after the present access is so after an earlier one, and whom that concerns this does."""
    other = records[record, FLAGS]
    if (flags >> ENGINE_SHIFT) & ENGINE_MASK or (other & ~flags) & NON_COHERENT:
        return False
    if flags & STRONG and not (other & STRONG and (flags ^ other) >> SCOPE_SHIFT & 63 == 0):
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
def _chained(
    nodes: Array, state: Array, kept: Array, length: int, dropped: int, slot: int, fresh: int, number: int, mask: int,
    base: int, room: int, longest: int,
) -> int:  # fmt: skip
    """The slot of a set: record `number` by the lanes `mask` relative to `base`, and what is kept of the set at `slot`.

    Kept are `length` accesses, `dropped` are those that need no place any more; without any, `slot` stays as it is.
    """
    if length == 0:
        return fresh if mask == 1 else _node(nodes, state, number, mask, integer(0), base)
    if length > longest:
        length, dropped = longest >> 1, 1
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
    rows: Array, spans: Array, maps: Array, records: Array, nodes: Array, state: Array, views: Array, kept: Array,
    slot: int, lane: int, unit: int, warp: int, flags: int, number: int, mask: int, room: int, longest: int,
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
            rows, spans, maps, records, views, lane, unit, warp, flags, mask, record, other_mask, base
        ):  # fmt: skip
            dropped += 1
        elif length < kept.shape[0]:
            kept[length, 0], kept[length, 1], kept[length, 2] = record, other_mask, base
            length += 1
        else:
            length += 1
    return _chained(nodes, state, kept, length, dropped, slot, fresh, number, mask, own, room, longest)


@compiled
def record_accesses(
    rows: Array, views: Array, spans: Array, maps: Array, shape: Array, records: Array, nodes: Array, state: Array,
    last: Array, writes: Array, reads: Array, shift: int, lanes: Array, offsets: Array, nbytes: int, flags: int,
    pc: int, mask: int, ticks: Array, components: Array, at: Array, longest: int,
) -> bool:  # fmt: skip
    """Remember accesses that were checked; False, and nothing is changed, where the tables lack room for the worst.

    Args:
        rows: of clocks.
        views: of lanes.
        spans: of maps.
        maps: of clocks of other units.
        shape: of the wave.
        records: of accesses.
        nodes: of sets of them.
        state: of both tables.
        last: int32 [warps, steps], the last record of each warp and instruction.
        writes: a slot for each granule.
        reads: a slot for each granule.
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
    kept = np.empty((2 * LONGEST_CHAIN, 3), np.int64)
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
            now = _record(records, state, last, lane >> 5, pc, unit, component, tick, flags, warp)
            if now != number:
                number, seen = now, integer(-1)
        if before < 0 or not _alike(views, before, lane):
            seen = integer(-1)
        before = lane
        own = lane & _LANE if mask == 1 else integer(0)
        first = offsets[position] >> shift
        for granule in range(first, first + each):
            if flags & WRITES and not flags & STRONG:
                if mask == 1:
                    writes[granule] = number << 5 | own
                else:
                    if seen < 0:
                        seen, seen_result = integer(0), _node(nodes, state, number, mask, 0, own)
                    writes[granule] = seen_result
                reads[granule] = 0
                continue
            slot = integer(writes[granule] if flags & WRITES else reads[granule])
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
                    rows, spans, maps, records, nodes, state, views, kept,
                    slot, lane, unit, warp, flags, number, mask, room, longest,
                )  # fmt: skip
                seen, turned = slot >> 5, (slot - own) & _LANE
                seen_result = (result & ~_LANE) | ((result - own) & _LANE)
            if flags & WRITES:
                writes[granule] = result
            else:
                reads[granule] = result
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
                for component in range(rows.shape[1]):
                    rows[target, component] = max(rows[target, component], rows[row, component])
            joined, into = row, target
        mine = lane % shape[LANES_PER_UNIT]
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


@compiled
def mark_slots(
    slots: Array, records: Array, nodes: Array, state: Array, live_records: Array, live_nodes: Array
) -> None:
    """Mark the records and nodes that slots lead to; empty slots become 0."""
    for index in range(slots.size):
        slot = integer(slots[index])
        if slot and is_empty(state, slot):
            slots[index] = 0
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
def renumber_slots(slots: Array, new_records: Array, new_nodes: Array) -> None:
    """Slots of old numbers become slots of new ones."""
    for index in range(slots.size):
        slot = integer(slots[index])
        if slot == 0:
            continue
        number = (slot >> 5) & _NUMBER
        if slot & NODE:
            slots[index] = NODE | integer(new_nodes[number]) << 5 | (slot & _LANE)
        else:
            slots[index] = integer(new_records[number]) << 5 | (slot & _LANE)


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
def last_is_weak(records: Array, nodes: Array, state: Array, slot: int) -> bool:
    """Whether the last write that a slot leads to is a weak one."""
    if slot == 0 or is_empty(state, slot):
        return False
    number = (slot >> 5) & _NUMBER
    record = integer(nodes[number, RECORD]) if slot & NODE else number
    return not records[record, FLAGS] & STRONG
