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

from tileproof.oracle.numbers.compiled import borrowing, borrowing_inlined
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.compiled_order import (
    ASYNC_PROXY,
    AT,
    COMPONENT,
    ENGINE_MASK,
    ENGINE_SHIFT,
    FIRST_RECORD,
    FLAGS,
    FOREIGN,
    LANES_PER_UNIT,
    MASK,
    NEXT_NODE,
    NEXT_RECORD,
    NODE,
    NON_COHERENT,
    RECORD,
    ROW,
    SINGLE,
    TICK,
    UNIT,
    UNIT_BASE,
    WARP_OF,
    WARPS_PER_UNIT,
    WRITES,
    Array,
    integer,
    is_empty,
)

COUNT, PRESENT, RUNS, FORM, OFFSETS, PLACES, MEMBERS, LENGTHS, PATTERN = 0, 1, 2, 3, 4, 36, 68, 100, 132
#: Whether all lanes of a warp know the same, but for what is their own.
DIFFERENT, SAME, UNKNOWN = 0, 1, 2
_NOBODY = 0x0FFF_FFFF
_NUMBER = (1 << 26) - 1
_ALL = 0xFFFF_FFFF
_LANE = 31
_WARPGROUP, _WARPGROUP_ENGINE = 128, 4  # its lanes; how flags name its engine

_row_for, _wholly, _plane_for = core._row_for, core._wholly, core._plane_for
_rest, _node, _record, _chained = core._rest, core._node, core._record, core._chained


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
def _all_known(slots: Array, first: int, count: int, old: int, known: int) -> bool:
    """Whether neighbouring slots are all empty, or all lead to what is known."""
    below, leader, other, at = np.uint32(old), np.uint32(known), np.uint32(0), np.uint64(first)
    for i in range(np.uint64(count)):
        slot = slots[at + i]
        other |= np.uint32(slot >= below) & np.uint32((slot >> np.uint32(5)) != leader)
    return bool(other == 0)


@borrowing_inlined
def _all_old(slots: Array, first: int, count: int, old: int) -> bool:
    """Whether neighbouring slots are all empty."""
    most, at = np.uint32(0), np.uint64(first)
    for i in range(np.uint64(count)):
        most = max(most, slots[at + i])
    return bool(most < old)


@borrowing_inlined
def _in_step(slots: Array, first: int, count: int) -> bool:
    """Whether neighbouring slots lead to the same by one lane after the other."""
    at, lead = np.uint64(first), slots[np.uint64(first)]
    if (integer(lead) & _LANE) + count > 32:
        return False
    other = np.uint32(0)
    for i in range(np.uint64(count)):
        other |= slots[at + i] ^ (lead + np.uint32(i))
    return bool(other == 0)


@borrowing_inlined
def _fill(slots: Array, first: int, count: int, slot: int) -> None:
    """A slot and those by the lanes behind its own."""
    at, head, lane = np.uint64(first), np.uint32(slot & ~_LANE), np.uint32(slot & _LANE)
    for i in range(np.uint64(count)):
        slots[at + i] = head | ((lane + np.uint32(i)) & np.uint32(_LANE))


@borrowing_inlined
def _clear(slots: Array, first: int, count: int) -> None:
    at = np.uint64(first)
    for i in range(np.uint64(count)):
        slots[at + i] = np.uint32(0)


@borrowing_inlined
def _covers(
    rows: Array, views: Array, spans: Array, maps: Array, planes: Array, records: Array, nodes: Array, state: Array,
    slot: int, lane: int, unit: int, flags: int,
) -> bool:  # fmt: skip
    """Whether a lane, and all that know the same, are ordered after every access of a set, whoever's it was."""
    while slot != 0 and not is_empty(state, slot):
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
    longest: int,
) -> int:  # fmt: skip
    """The slot of the set at `slot` and reads by the lanes `mask` relative to `base`; see `compiled_order._joined`."""
    fresh = number << 5 | base
    if slot == 0 or is_empty(state, slot):
        return fresh if mask == 1 else _node(nodes, state, number, mask, integer(0), base)
    length, dropped, left = 0, 0, slot
    while left != 0 and not is_empty(state, left):
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
    return _chained(nodes, state, kept, length, dropped, slot, fresh, number, mask, base, room, longest)


@borrowing_inlined
def _stands(
    rows: Array, views: Array, spans: Array, maps: Array, planes: Array, records: Array, nodes: Array, state: Array,
    slots: Array, first: int, count: int, each: int, members: int, known: int, lane: int, unit: int, warp: int,
    flags: int,
) -> int:  # fmt: skip
    """Whether nothing in the slots of one run speaks against an access: the set that is known then, or -1."""
    old = state[FIRST_RECORD] << 5
    if _all_known(slots, first, count * each, old, known):
        return known
    base, single = members & _LANE, members >> 5 == 1
    slot = integer(slots[first])
    plain = single and each == 1 and slot & _LANE == base and slot >= old and not slot & NODE
    if plain and _in_step(slots, first, count):
        plain = _own(views, planes, records, slot >> 5, (lane & ~_LANE) + base, warp, flags)
        if plain:
            return known
    mine = integer(-1)
    for granule in range(first, first + count * each):
        slot = integer(slots[granule])
        if slot < old or slot >> 5 == known:
            continue
        who = base + (granule - first) // each
        own = single and not slot & NODE and slot & _LANE == who
        if own and slot >> 5 != mine:
            own = _own(views, planes, records, slot >> 5, (lane & ~_LANE) + who, warp, flags)
        if own:
            mine = slot >> 5
            continue
        if not _covers(rows, views, spans, maps, planes, records, nodes, state, slot, lane, unit, flags):
            return integer(-1)
        known = slot >> 5
    return known


def _made(stamp: int) -> Any:
    """The entry; `stamp` is part of what numba's cache knows it by."""

    def pass_warps(
        rows: Array, views: Array, minds: Array, spans: Array, maps: Array, shape: Array, planes: Array,
        records: Array, nodes: Array, state: Array, last: Array, patterns: Array, kept: Array, writes: Array,
        reads: Array, shift: int, lanes: Array, offsets: Array, nbytes: int, flags: int, pc: int, by_warp: bool,
        ticks: Array, longest: int, components: Array, moments: Array,
    ) -> bool:  # fmt: skip
        """Check and remember weak accesses; False where that is not simple: ask the other two.

        What some of the lanes read may be remembered then. Arguments as theirs, and

        Args:
            minds: uint8 [warps], whether all lanes of a warp know the same.
            patterns: int64 [steps, 132], see above.
            kept: int64 [128, 3], scratch.
            by_warp: each access is one of all lanes of the warp, and all must know; or it is of a single component.
        """
        if stamp == 0:
            return False
        each, total = nbytes >> shift, lanes.size
        if state[NEXT_RECORD] + total >= records.shape[0] or state[NEXT_NODE] + total * each >= nodes.shape[0]:
            return False
        first_warp = shape[UNIT_BASE] * shape[WARPS_PER_UNIT]
        stores, old = flags & WRITES != 0, state[FIRST_RECORD] << 5
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
                            return False
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
                        return False
                    low, high = (lane & ~_LANE, (lane & ~_LANE) + 32) if by_warp else (lane, lanes[end - 1] + 1)
                    if not _agree(views, minds, low, high):
                        return False
                    if warpgroup and not _one_mind(views, lane, lane + _WARPGROUP):
                        return False
                    row, foreign = integer(views[0, lane, ROW]), integer(views[0, lane, FOREIGN])
                    if row != known_row or foreign != known_foreign or views.shape[0] > 1:
                        known, known_row, known_foreign = integer(_NOBODY), row, foreign
                    for run in range(runs):
                        first = (start + pattern[PLACES + run]) >> shift
                        count, members = pattern[LENGTHS + run], pattern[MEMBERS + run]
                        known = _stands(
                            rows, views, spans, maps, planes, records, nodes, state,
                            writes, first, count, each, members, known, lane, unit, warp, flags,
                        )  # fmt: skip
                        if stores and known >= 0:
                            known = _stands(
                                rows, views, spans, maps, planes, records, nodes, state,
                                reads, first, count, each, members, known, lane, unit, warp, flags,
                            )  # fmt: skip
                        if known < 0:
                            return False
                        if stores and not by_warp and members >> 5 != 1:
                            return False  # two lanes at one place
                if stores and not remember:
                    begin = end
                    continue
                component, tick = (lane - unit_begin) & ~_LANE, integer(ticks[lane >> 5])
                if components.size:
                    component, tick = components[begin], moments[begin]
                number = _record(records, state, last, lane >> 5, pc, unit, component, tick, flags, warp)
                seen, turned, seen_mask, result = integer(-1), integer(0), integer(0), integer(0)
                if stores and single:
                    result = number << 5
                elif stores and by_warp:
                    result = _node(nodes, state, number, integer(_ALL), integer(0), integer(0))
                for run in range(runs):
                    first = (start + pattern[PLACES + run]) >> shift
                    count, members = pattern[LENGTHS + run], pattern[MEMBERS + run]
                    base, mask = members & _LANE, integer(1) if single else members >> 5
                    if stores:
                        _clear(reads, first, count * each)
                        if by_warp:
                            for granule in range(first, first + count * each):
                                writes[granule] = result
                        elif each == 1:
                            _fill(writes, first, count, number << 5 | base)
                        else:
                            for granule in range(first, first + count * each):
                                writes[granule] = number << 5 | (base + (granule - first) // each)
                        continue
                    steps, width = count * each, integer(1)
                    even = each == 1 and not by_warp
                    if even and (_all_old(reads, first, count, old) or _in_step(reads, first, count)):
                        steps, width = integer(1), count
                    place = integer(0)
                    for step in range(steps):
                        granule = first + step
                        slot = integer(reads[granule])
                        if slot < old:
                            slot = integer(0)
                        at = base + place
                        if mask != seen_mask or slot >> 5 != seen or (slot != 0 and (slot - at) & _LANE != turned):
                            room = nodes.shape[0] - state[NEXT_NODE] - (total - begin) * each
                            seen, turned, seen_mask = slot >> 5, (slot - at) & _LANE, mask
                            result = _joined(
                                rows, spans, maps, records, nodes, state, views, kept,
                                slot, lane, unit, warp, flags, number, mask, at, room, longest,
                            )  # fmt: skip
                            result = (result & ~_LANE) | ((result - at) & _LANE)
                        slot = (result & ~_LANE) | ((result + at) & _LANE)
                        if width == 1:
                            reads[granule] = slot
                        else:
                            _fill(reads, first, width, slot)
                        if not by_warp and (step + 1) % each == 0:
                            place += 1
                begin = end
        return True

    return borrowing(pass_warps)


def _stamp() -> int:
    """A number that stands for the text of what is compiled: numba's cache watches this file alone."""
    text = Path(core.__file__ or "").read_bytes() + Path(__file__).read_bytes()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "little") | 1


STAMP = _stamp()
pass_warps = _made(STAMP)
