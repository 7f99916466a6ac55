"""`cp.async`, its groups and waits, where copies land at issue: compiled.

Copies under another schedule, and what looks wrong, are the reference engine's.
"""

from typing import Any

import numpy as np

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
    OPEN_GROUP,
    ORDERED,
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
from tileproof.simulators.ptx.fast.places import find, place, touches_object
from tileproof.simulators.ptx.fast.pointers import counts_at, longs_at, offsets_at, words_at

#: The constants of a copy are those of a load of its source, then of its target: where shared memory starts in the
#: address's space, what is added to it, and its bits that count; the step; what the order calls its reads and its
#: writes. Those of a group: whether it commits, and how many groups a wait leaves open, or -1 for no wait.
_NBYTES, _OFFSET, _CUT = K0 + 3, K0 + 2, K0 + 4
_WINDOW, _TARGET_OFFSET, _TARGET_CUT, _STEP = K0 + 6, K0 + 7, K0 + 8, K0 + 9
_READS, _WRITES = K0 + 10, K0 + 11
_COMMITS, _PENDING = K0, K0 + 1
_ANY = 1 << 40


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

    The operands are the target and the source; arguments as those of `memory.load`.
    """
    groups, shared = spaces[COPIES], spaces[SHARED]
    if groups[COPIES_READY] == 0 or shared[BYTES] < row[_NBYTES]:
        return 1
    target = registers + operands[row[SOURCE], SLOT] * lanes * 8
    source = registers + operands[row[SOURCE] + 1, SLOT] * lanes * 8
    address = (longs_at(source, lanes)[runs[0, 0]] + np.uint64(row[_OFFSET])) & np.uint64(row[_CUT])
    where = place(row, address, spaces, allocations)
    if where[0] != GLOBAL:
        return 1
    low, to = np.uint64(row[_NBYTES] - 1), found + active * 8
    if not _positions(source, runs, 0, np.uint64(row[_OFFSET]), np.uint64(row[_CUT]), low, where[3], where[4], found):
        return 1
    offset, cut = np.uint64(row[_TARGET_OFFSET]), np.uint64(row[_TARGET_CUT])
    least, limit = np.uint64(shared[BASE] + row[_WINDOW]), np.uint64(shared[BYTES] - row[_NBYTES])
    if not _positions(target, runs, shared[STARTS], offset, cut, low, least, limit, to):
        return 1
    if shared[LIFE] != 0 and touches_object(shared[LIFE], row[_NBYTES], to, active):
        return 1
    if frame[ORDERED] != 0 and not _in_order(row, groups, lanes, runs, active, where[7], found, frame):
        return 1
    _move(where[1], found, shared[DATA], to, active, row[_NBYTES])
    if shared[WRITTEN] != 0:
        _move(where[2], found, shared[WRITTEN], to, active, row[_NBYTES])
    _join(groups, runs, lanes, row[_STEP])
    counters[GLOBAL_READ] += active * row[_NBYTES]
    counters[SHARED_WRITTEN] += active * row[_NBYTES]
    counters[CHANGES] += 1
    return 0


@part
def _in_order(
    row: Any, groups: Any, lanes: Any, runs: Any, active: Any, allocation: Any, found: Any, frame: Any
) -> Any:
    """Whether the order has nothing against the reads and the writes, whose offsets stand in `found`."""
    size = active * 8
    to, who, at = found + size, found + 2 * size, found + 3 * size
    number(runs, who, active)
    ticks, numbers, open_ = offsets_at(at, active), offsets_at(who, active), counts_at(groups[OPEN_GROUP], lanes)
    for i in range(active):
        ticks[i] = open_[numbers[i]]
    if not passes(frame, GLOBAL, allocation, who, found, active, (row[_NBYTES], row[_READS], row[_STEP], 0, at)):
        return False
    return passes(frame, SHARED, -1, who, to, active, (row[_NBYTES], row[_WRITES], row[_STEP], 0, at))


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
def group(row: Any, runs: Any, lanes: Any, spaces: Any, frame: Any) -> Any:
    """`cp.async.commit_group`, `wait_group` and `wait_all`; 0, or 1 for handed back."""
    groups = spaces[COPIES]
    if groups[COPIES_READY] == 0:
        return 1
    open_, complete = counts_at(groups[OPEN_GROUP], lanes), counts_at(groups[COMPLETE], lanes)
    for r in range(len(runs)):
        for lane in range(runs[r, 0], runs[r, 1]):
            open_[lane] += row[_COMMITS]
            if row[_PENDING] >= 0:
                complete[lane] = max(complete[lane], open_[lane] - row[_PENDING])
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
