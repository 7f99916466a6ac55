"""Loads and stores of a turn's lanes, with every check on the address and on what was written there.

The first lane's address says which array of bytes the step goes to; a lane that leaves it, like any that fails another
check, gets a legal place instead, and the step is handed back: the reference engine makes the finding, or splits the
access. Nothing is changed before all checks have passed, except the results of a load, which it writes anew.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.asking import FOLDED_CALL, count_from, number, passes
from tileproof.simulators.ptx.fast.layout import (
    ASKED,
    ASKED_ALLOCATION,
    ASKED_SPACE,
    BLOCK_LANES,
    CHANGES,
    FOLDED,
    GLOBAL,
    GLOBAL_READ,
    GLOBAL_WRITTEN,
    K0,
    LOCAL,
    ORDERED,
    PASSED,
    RESULT,
    RESULTS,
    SHARED,
    SHARED_READ,
    SHARED_WRITTEN,
    SIGN,
    SLOT,
    SOURCE,
    SOURCES,
    WIDE,
)
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.places import ANY, NBYTES, ZERO, find, place, touches_object
from tileproof.simulators.ptx.fast.pointers import bytes_at, halves_at, longs_at, offsets_at, words_at

# The constants of a memory step: the space; bytes of an element; what is added to the address; bytes of the access;
# the bits of an address that count; whether all lanes have one address in one array;
# what the order calls such accesses; the step.
_SIZE, _OFFSET, _CUT, _UNIFORM = K0 + 1, K0 + 2, K0 + 4, K0 + 5
_ACCESS, _STEP = K0 + 6, K0 + 7

_ALL, _ONE, _TWO, _THREE = (
    np.uint64(0xFFFF_FFFF_FFFF_FFFF),
    np.uint64(1),
    np.uint64(2),
    np.uint64(3),
)
_WORD, _BYTE = np.uint32(0xFFFF_FFFF), np.uint8(0xFF)
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 divided by the golden ratio: multiplying by it spreads keys


@inlined
def _element(data: Any, size: Any, offset: Any) -> Any:
    """The element of `size` bytes at an aligned byte offset."""
    if size == 4:
        return np.uint64(words_at(data, ANY)[offset >> _TWO])
    if size == 8:
        return longs_at(data, ANY)[offset >> _THREE]
    if size == 2:
        return np.uint64(halves_at(data, ANY)[offset >> _ONE])
    return np.uint64(bytes_at(data, ANY)[offset])


@part
def _gather(data: Any, size: Any, found: Any, n: Any, target: Any) -> None:
    """Elements of `size` bytes at aligned byte offsets to the row at `target`; returns the bits that all have."""
    offsets, out = longs_at(found, n), longs_at(target, n)
    if size == 4:
        words = words_at(data, ANY)
        for i in range(n):
            out[i] = words[offsets[i] >> _TWO]
    elif size == 8:
        longs = longs_at(data, ANY)
        for i in range(n):
            out[i] = longs[offsets[i] >> _THREE]
    elif size == 2:
        halves = halves_at(data, ANY)
        for i in range(n):
            out[i] = halves[offsets[i] >> _ONE]
    else:
        octets = bytes_at(data, ANY)
        for i in range(n):
            out[i] = octets[offsets[i]]


@part
def _scatter(data: Any, size: Any, found: Any, n: Any, source: Any, fill: Any) -> None:
    """Elements of the row at `source`, with the bits of `fill` set, to aligned byte offsets."""
    offsets, values = longs_at(found, n), longs_at(source, n)
    if size == 4:
        words = words_at(data, ANY)
        for i in range(n):
            words[offsets[i] >> _TWO] = np.uint32(values[i] | fill)
    elif size == 8:
        longs = longs_at(data, ANY)
        for i in range(n):
            longs[offsets[i] >> _THREE] = values[i] | fill
    elif size == 2:
        halves = halves_at(data, ANY)
        for i in range(n):
            halves[offsets[i] >> _ONE] = np.uint16(values[i] | fill)
    else:
        octets = bytes_at(data, ANY)
        for i in range(n):
            octets[offsets[i]] = np.uint8(values[i] | fill)


@part
def _all_written(written: Any, nbytes: Any, found: Any, n: Any) -> Any:
    """Whether something wrote every bit of `nbytes` bytes at each offset.

    The loops end at the first that was not, also because that keeps the compiler from the processor's gathering loads,
    which are several times slower than single ones on many machines.
    """
    offsets = longs_at(found, n)
    if nbytes == 4:
        words = words_at(written, ANY)
        for i in range(n):
            if words[offsets[i] >> _TWO] != _WORD:
                return False
        return True
    if nbytes >= 8:
        longs = longs_at(written, ANY)
        for index in range(nbytes >> 3):
            for i in range(n):
                if longs[(offsets[i] >> _THREE) + np.uint64(index)] != _ALL:
                    return False
        return True
    octets = bytes_at(written, ANY)
    for index in range(nbytes):
        for i in range(n):
            if octets[offsets[i] + np.uint64(index)] != _BYTE:
                return False
    return True


@part
def _extend(target: Any, n: Any, sign: Any, wide: Any) -> None:
    out = longs_at(target, n)
    for i in range(n):
        out[i] = ((out[i] ^ sign) - sign) & wide


# Lanes whose offsets stay in the processor's nearest cache while they are used.
_CHUNK, _WARP = 512, 32


@part
def _load_run(
    row: Any, operands: Any, registers: Any, lanes: Any, first: Any, last: Any, where: Any, found: Any
) -> Any:
    """Load by neighbouring lanes; whether all was legal and written. `where` is what `place` gave."""
    _, data, written, least, limit, starts, life, _ = where
    low, size = np.uint64(row[NBYTES] - 1), row[_SIZE]
    base = registers + operands[row[SOURCE], SLOT] * lanes * 8
    for start in range(first, last, _CHUNK):
        n = min(_CHUNK, last - start)
        own = starts + start * 8 if starts != 0 else 0
        if not find(base + start * 8, n, own, np.uint64(row[_OFFSET]), np.uint64(row[_CUT]), low, least, limit, found):
            return False
        if life != 0 and touches_object(life, row[NBYTES], found, n):
            return False
        if written != 0 and not _all_written(written, row[NBYTES], found, n):
            return False
        for index in range(row[RESULTS]):
            result = row[RESULT] + index
            slot = operands[result, SLOT]
            if slot >= 0:
                target = registers + (slot * lanes + start) * 8
                _gather(data + index * size, size, found, n, target)
                if operands[result, SIGN]:
                    _extend(target, n, np.uint64(operands[result, SIGN]), np.uint64(operands[result, WIDE]))
    return True


@part
def _passes_folded(
    row: Any, registers: Any, base: Any, lanes: Any, active: Any, where: Any, found: Any, frame: Any
) -> Any:
    """Whether all blocks of the wave access the same of their shared memories, and the order notes it for the first."""
    block = frame[BLOCK_LANES]
    if block == 0 or active != lanes or offsets_at(frame[FOLDED], 1)[0] == 0:
        return False
    addresses, other = longs_at(registers + base * lanes * 8, lanes), ZERO
    for i in range(np.uint64(lanes - block)):
        other |= addresses[i + np.uint64(block)] ^ addresses[i]
    if other != ZERO:
        return False
    _, _, _, least, limit, starts, life, _ = where
    low, offset, cut = np.uint64(row[NBYTES] - 1), np.uint64(row[_OFFSET]), np.uint64(row[_CUT])
    if life != 0 or not find(registers + base * lanes * 8, block, starts, offset, cut, low, least, limit, found):
        return False
    who = found + lanes * 8
    count_from(0, who, block)
    return passes(frame, SHARED, where[7], who, found, block, (row[NBYTES], row[_ACCESS], row[_STEP], FOLDED_CALL, 0))


@part
def _load_ordered(
    row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, r: Any, where: Any, found: Any, frame: Any
) -> Any:
    """Load by neighbouring lanes whose order is checked too, chunk by chunk; 0, 1 or 2 as of `load`."""
    _, data, written, least, limit, starts, life, _ = where
    low, size = np.uint64(row[NBYTES] - 1), row[_SIZE]
    base = registers + operands[row[SOURCE], SLOT] * lanes * 8
    access, who = (row[NBYTES], row[_ACCESS], row[_STEP], 0, 0), found + lanes * 8
    start, last = runs[r, 0], runs[r, 1]
    while start < last:
        n = min(_CHUNK - (start & (_WARP - 1)), last - start)  # whole warps
        own = starts + start * 8 if starts != 0 else 0
        if not find(base + start * 8, n, own, np.uint64(row[_OFFSET]), np.uint64(row[_CUT]), low, least, limit, found):
            return 1
        if life != 0 and touches_object(life, row[NBYTES], found, n):
            return 1
        if written != 0 and not _all_written(written, row[NBYTES], found, n):
            return 1
        count_from(start, who, n)
        if not passes(frame, where[0], where[7], who, found, n, access):
            count = _find_all(row, base, runs, where, found)  # what is asked now must not be handed back later
            if count == 0 or (written != 0 and not _all_written(written, row[NBYTES], found, count)):
                return 1
            frame[ASKED], frame[ASKED_SPACE], frame[ASKED_ALLOCATION] = count, where[0], where[7]
            return 2
        for index in range(row[RESULTS]):
            result = row[RESULT] + index
            slot = operands[result, SLOT]
            if slot >= 0:
                target = registers + (slot * lanes + start) * 8
                _gather(data + index * size, size, found, n, target)
                if operands[result, SIGN]:
                    _extend(target, n, np.uint64(operands[result, SIGN]), np.uint64(operands[result, WIDE]))
        start += n
    return 0


@part
def _spread(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, where: Any, address: Any) -> Any:
    """Load by all lanes from one place: a parameter or constant."""
    _, data, written, least, limit, _, _, _ = where
    offset, size = address - least, row[_SIZE]
    if offset > limit or address & np.uint64(row[NBYTES] - 1):
        return False
    for index in range(row[RESULTS] if written != 0 else 0):
        if ~_element(written + index * size, size, offset) << np.uint64(64 - 8 * size):
            return False
    for index in range(row[RESULTS]):
        result = row[RESULT] + index
        slot, sign, wide = operands[result, SLOT], operands[result, SIGN], operands[result, WIDE]
        value = _element(data + index * size, size, offset)
        if sign:
            value = ((value ^ np.uint64(sign)) - np.uint64(sign)) & np.uint64(wide)
        for r in range(len(runs) if slot >= 0 else 0):
            out = longs_at(registers + (slot * lanes + runs[r, 0]) * 8, runs[r, 1] - runs[r, 0])
            for i in range(len(out)):
                out[i] = value
    return True


@part
def load(
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
    """`ld` by lanes whose address is defined; 0, 1 for handed back, or 2 where its order is to be checked first.

    Args:
        row, operands: the step.
        registers: address of the register file.
        lanes: lanes of the wave.
        runs: the lanes that load.
        active: how many they are.
        spaces, allocations, counters: the tables.
        found: address of room for `layout.ROOM` numbers a lane.
        frame: what the loop and its caller tell each other.
    """
    base = operands[row[SOURCE], SLOT]
    address = longs_at(registers + base * lanes * 8, lanes)[runs[0, 0]]
    address = (address + np.uint64(row[_OFFSET])) & np.uint64(row[_CUT])
    where = place(row, address, spaces, allocations)
    if where[0] < 0:
        return 1
    if row[_UNIFORM]:
        if not _spread(row, operands, registers, lanes, runs, where, address):
            return 1
    else:
        ordered = frame[ORDERED] != 0 and frame[PASSED] == 0 and where[0] <= SHARED
        together = not ordered or active >= _WARP * len(runs)
        for index in range(row[RESULTS]):  # a result in the address register must not be seen before all is checked
            together &= operands[row[RESULT] + index, SLOT] != base
        if not together:
            return _load_checked(row, operands, registers, lanes, runs, where, counters, found, frame)
        if ordered and where[0] == SHARED and _passes_folded(row, registers, base, lanes, active, where, found, frame):
            ordered = False
        for r in range(len(runs)):
            if ordered:
                answer = _load_ordered(row, operands, registers, lanes, runs, r, where, found, frame)
                if answer:
                    return answer
                continue
            if not _load_run(row, operands, registers, lanes, runs[r, 0], runs[r, 1], where, found):
                return 1
    _count_read(counters, where[0], active * row[NBYTES])
    return 0


@part
def _count_read(counters: Any, space: Any, nbytes: Any) -> None:
    if space == GLOBAL:
        counters[GLOBAL_READ] += nbytes
    elif space == SHARED:
        counters[SHARED_READ] += nbytes


@part
def _find_all(row: Any, base: Any, runs: Any, where: Any, found: Any) -> Any:
    """Offsets of all runs, one after the other; how many, 0 if one is not legal."""
    _, _, _, least, limit, starts, life, _ = where
    low, place_ = np.uint64(row[NBYTES] - 1), 0
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        own = starts + first * 8 if starts != 0 else 0
        target = found + place_ * 8
        if not find(base + first * 8, n, own, np.uint64(row[_OFFSET]), np.uint64(row[_CUT]), low, least, limit, target):
            return 0
        if life != 0 and touches_object(life, row[NBYTES], target, n):
            return 0
        place_ += n
    return place_


@part
def _asks(row: Any, where: Any, lanes: Any, runs: Any, found: Any, count: Any, frame: Any) -> Any:
    """Whether the order of an access is to be checked before it is made; then the frame says where it goes."""
    if frame[ORDERED] == 0 or frame[PASSED] != 0 or where[0] > SHARED:
        return False
    access, who = (row[NBYTES], row[_ACCESS], row[_STEP], 0, 0), found + lanes * 8
    number(runs, who, count)
    if passes(frame, where[0], where[7], who, found, count, access):
        return False
    frame[ASKED], frame[ASKED_SPACE], frame[ASKED_ALLOCATION] = count, where[0], where[7]
    return True


@part
def _load_checked(
    row: Any,
    operands: Any,
    registers: Any,
    lanes: Any,
    runs: Any,
    where: Any,
    counters: Any,
    found: Any,
    frame: Any,
) -> Any:
    """Load with all checks first: where the order is checked too, or a result stands in the address register."""
    count = _find_all(row, registers + operands[row[SOURCE], SLOT] * lanes * 8, runs, where, found)
    if count == 0 or (where[2] != 0 and not _all_written(where[2], row[NBYTES], found, count)):
        return 1
    if _asks(row, where, lanes, runs, found, count, frame):
        return 2
    size = row[_SIZE]
    for index in range(row[RESULTS]):
        result, place_ = row[RESULT] + index, 0
        slot = operands[result, SLOT]
        for r in range(len(runs) if slot >= 0 else 0):
            first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
            target = registers + (slot * lanes + first) * 8
            _gather(where[1] + index * size, size, found + place_ * 8, n, target)
            if operands[result, SIGN]:
                _extend(target, n, np.uint64(operands[result, SIGN]), np.uint64(operands[result, WIDE]))
            place_ += n
    _count_read(counters, where[0], count * row[NBYTES])
    return 0


@part
def _distinct(found: Any, n: Any, keys: Any, stamps: Any) -> Any:
    """Whether all offsets differ.

    Args:
        found: address of the offsets.
        n: how many.
        keys, stamps: an open hash table of a power of two places; a place is taken if its stamp is that of the present
            table, which the last stamp counts.
    """
    offsets = longs_at(found, n)
    falling = ZERO
    for i in range(1, n):
        falling |= np.uint64(offsets[i] <= offsets[i - 1])
    if falling == ZERO:
        return True
    places = np.uint64(len(keys) - 1)
    stamps[-1] += 1
    stamp = stamps[-1]
    for i in range(n):
        spot = ((offsets[i] * _GOLDEN) >> np.uint64(32)) & places
        while stamps[spot] == stamp:
            if keys[spot] == offsets[i]:
                return False
            spot = (spot + _ONE) & places
        stamps[spot] = stamp
        keys[spot] = offsets[i]
    return True


@part
def store(
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
    keys: Any,
    stamps: Any,
    frame: Any,
) -> Any:
    """`st` of defined values by lanes whose address is defined. Arguments and result as those of `load`.

    Two lanes at one place are handed back: see `_distinct` for `keys` and `stamps`.
    """
    base = registers + operands[row[SOURCE], SLOT] * lanes * 8
    address = (longs_at(base, lanes)[runs[0, 0]] + np.uint64(row[_OFFSET])) & np.uint64(row[_CUT])
    where = place(row, address, spaces, allocations)
    space, data, written, _, _, _, _, _ = where
    if space < 0 or space > LOCAL:
        return 1
    count = _find_all(row, base, runs, where, found)
    if count == 0 or not _distinct(found, count, keys, stamps):
        return 1
    ordered = space != SHARED or frame[ORDERED] == 0 or frame[PASSED] != 0
    if not ordered:
        slot = operands[row[SOURCE], SLOT]
        ordered = _passes_folded(row, registers, slot, lanes, active, where, found + lanes * 16, frame)
    if (not ordered or space != SHARED) and _asks(row, where, lanes, runs, found, count, frame):
        return 2
    size = row[_SIZE]
    for index in range(row[SOURCES] - 1):
        slot = operands[row[SOURCE] + 1 + index, SLOT]
        place_ = 0
        for r in range(len(runs)):
            first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
            source = registers + (slot * lanes + first) * 8
            _scatter(data + index * size, size, found + place_ * 8, n, source, ZERO)
            if written != 0:
                _scatter(written + index * size, size, found + place_ * 8, n, source, _ALL)
            place_ += n
    if space == GLOBAL:
        counters[GLOBAL_WRITTEN] += active * row[NBYTES]
    elif space == SHARED:
        counters[SHARED_WRITTEN] += active * row[NBYTES]
    counters[CHANGES] += 1
    return 0
