"""Loads and stores of a turn's lanes: every check first, then the bytes.

Nothing is changed before all checks have passed. A step that fails one is handed back: the reference engine makes the
finding.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import (
    BASE,
    BYTES,
    CHANGES,
    DATA,
    GENERIC,
    GLOBAL,
    GLOBAL_READ,
    GLOBAL_WRITTEN,
    LOCAL,
    RESULT,
    RESULTS,
    SHARED,
    SHARED_READ,
    SHARED_WRITTEN,
    SIGN,
    SLOT,
    SOURCE,
    SOURCES,
    STARTS,
    WIDE,
    WRITTEN,
)
from tileproof.simulators.ptx.fast.layout import K0 as _SPACE
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import bytes_at, halves_at, longs_at, offsets_at, words_at
from tileproof.simulators.ptx.layout import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES

# The constants of a memory step.
_SIZE, _OFFSET, _BYTES, _CUT, _UNIFORM = _SPACE + 1, _SPACE + 2, _SPACE + 3, _SPACE + 4, _SPACE + 5

_ANY = 1 << 40  # elements of an array whose length nobody asks for
_WINDOW = np.uint64(WINDOW_BYTES)
_FIRST_WINDOW, _LAST_WINDOW = np.uint64(SHARED_WINDOW), np.uint64(PARAM_WINDOW)
_WINDOW_STEP = np.uint64(LOCAL_WINDOW - SHARED_WINDOW)
_ALL, _ZERO, _ONE, _THREE = np.uint64(0xFFFF_FFFF_FFFF_FFFF), np.uint64(0), np.uint64(1), np.uint64(3)
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 divided by the golden ratio: multiplying by it spreads keys


@part
def _addresses(base: Any, runs: Any, offset: Any, cut: Any, found: Any) -> Any:
    """Each lane's address, one after the other; the lowest, the highest, and the bits that any of them has."""
    place, lowest, highest, union = 0, _ALL, _ZERO, _ZERO
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        source, target = longs_at(base + first * 8, n), found[place:]
        for i in range(n):
            address = (source[i] + offset) & cut
            target[i] = address
            lowest = min(lowest, address)
            highest = max(highest, address)
            union |= address
        place += n
    return place, lowest, highest, union


@part
def _allocation(allocations: Any, address: Any) -> Any:
    """The line of the last allocation that starts at or below an address; -1 if there is none."""
    low, high = 0, len(allocations)
    while low < high:
        middle = (low + high) >> 1
        if np.uint64(allocations[middle, BASE]) <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1


@part
def _window(space: Any, lowest: Any) -> Any:
    """Of a generic address: the space that it lies in and where that space's window starts."""
    if space != GENERIC:
        return space, _ZERO
    if lowest < _FIRST_WINDOW or lowest >= _LAST_WINDOW + _WINDOW:
        return GLOBAL, _ZERO
    index = (lowest - _FIRST_WINDOW) // _WINDOW_STEP
    start = _FIRST_WINDOW + index * _WINDOW_STEP
    return (SHARED + np.int64(index), start) if lowest - start < _WINDOW else (-1, _ZERO)


@part
def locate(row: Any, base: Any, lanes: Any, runs: Any, spaces: Any, allocations: Any, offsets: Any) -> Any:
    """Byte offsets of every lane's access in one array of bytes.

    Args:
        row: the step.
        base: address of the row of addresses.
        lanes: lanes of the wave.
        runs: the lanes.
        spaces, allocations: the tables.
        offsets: where to put them, one after the other.

    Returns:
        number of accesses, space, address of the bytes, address of their definedness, whether all are at one place;
        the number is 0 if an access is misaligned or outside, or if they fall into several arrays.
    """
    failed = (0, 0, 0, 0, False)
    nbytes = np.uint64(row[_BYTES])
    offset, cut = np.uint64(row[_OFFSET]), np.uint64(row[_CUT])
    if row[_UNIFORM]:
        address = (longs_at(base, lanes)[runs[0, 0]] + offset) & cut
        offsets[0] = address
        count, lowest, highest, union = 1, address, address, address
    else:
        count, lowest, highest, union = _addresses(base, runs, offset, cut, offsets)
    if union & (nbytes - _ONE):
        return failed
    space, start = _window(row[_SPACE], lowest)
    if space < 0:
        return failed
    if space == GLOBAL:
        index = _allocation(allocations, lowest)
        if index < 0:
            return failed
        line = allocations[index]
        starts = 0
    else:
        line = spaces[space]
        starts = line[STARTS]
    least, piece = np.uint64(line[BASE]) + start, np.uint64(line[BYTES])
    if lowest < least or piece < nbytes or highest - least > piece - nbytes:
        return failed
    _relative(offsets, count, least, starts, runs)
    return count, space, line[DATA], line[WRITTEN], lowest == highest and starts == 0


@part
def _relative(offsets: Any, count: Any, least: Any, starts: Any, runs: Any) -> None:
    if starts == 0:
        for i in range(count):
            offsets[i] -= least
        return
    place = 0
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        own, target = offsets_at(starts + first * 8, n), offsets[place:]
        for i in range(n):
            target[i] += np.uint64(own[i]) - least
        place += n


@part
def _gather(data: Any, size: Any, offsets: Any, n: Any, target: Any) -> None:
    """Elements of `size` bytes at aligned byte offsets to the row at `target`."""
    out = longs_at(target, n)
    if size == 4:
        words = words_at(data, _ANY)
        for i in range(n):
            out[i] = words[offsets[i] >> np.uint64(2)]
    elif size == 8:
        longs = longs_at(data, _ANY)
        for i in range(n):
            out[i] = longs[offsets[i] >> _THREE]
    elif size == 2:
        halves = halves_at(data, _ANY)
        for i in range(n):
            out[i] = halves[offsets[i] >> _ONE]
    else:
        octets = bytes_at(data, _ANY)
        for i in range(n):
            out[i] = octets[offsets[i]]


@part
def _scatter(data: Any, size: Any, offsets: Any, n: Any, source: Any, fill: Any) -> None:
    """Elements of the row at `source`, or `fill` where there is none, to aligned byte offsets."""
    values = longs_at(source, n)
    if size == 4:
        words = words_at(data, _ANY)
        for i in range(n):
            words[offsets[i] >> np.uint64(2)] = np.uint32(values[i] | fill)
    elif size == 8:
        longs = longs_at(data, _ANY)
        for i in range(n):
            longs[offsets[i] >> _THREE] = values[i] | fill
    elif size == 2:
        halves = halves_at(data, _ANY)
        for i in range(n):
            halves[offsets[i] >> _ONE] = np.uint16(values[i] | fill)
    else:
        octets = bytes_at(data, _ANY)
        for i in range(n):
            octets[offsets[i]] = np.uint8(values[i] | fill)


@part
def _all_written(written: Any, nbytes: Any, offsets: Any, n: Any) -> Any:
    """Whether something wrote every bit of `nbytes` bytes at each offset."""
    if nbytes == 4:
        words, missing = words_at(written, _ANY), np.uint32(0)
        for i in range(n):
            missing |= ~words[offsets[i] >> np.uint64(2)]
        return missing == 0
    if nbytes >= 8:
        longs, lacking = longs_at(written, _ANY), _ZERO
        for part in range(nbytes >> 3):
            for i in range(n):
                lacking |= ~longs[(offsets[i] >> _THREE) + np.uint64(part)]
        return lacking == _ZERO
    octets, absent = bytes_at(written, _ANY), np.uint8(0)
    for part in range(nbytes):
        for i in range(n):
            absent |= ~octets[offsets[i] + np.uint64(part)]
    return absent == 0


@part
def _distinct(offsets: Any, n: Any, keys: Any, stamps: Any) -> Any:
    """Whether all offsets differ.

    Args:
        offsets: of the accesses.
        n: how many.
        keys, stamps: an open hash table of a power of two places; a place is taken if its stamp is the last one's,
            which counts the tables so far.
    """
    rising = True
    for i in range(1, n):
        rising &= offsets[i] > offsets[i - 1]
    if rising:
        return True
    places = np.uint64(len(keys) - 1)
    stamps[-1] += 1
    stamp = stamps[-1]
    for i in range(n):
        place = ((offsets[i] * _GOLDEN) >> np.uint64(32)) & places
        while stamps[place] == stamp:
            if keys[place] == offsets[i]:
                return False
            place = (place + _ONE) & places
        stamps[place] = stamp
        keys[place] = offsets[i]
    return True


@part
def _spread(data: Any, size: Any, offset: Any, target: Any, n: Any) -> None:
    """The one element that all lanes load."""
    _gather(data, size, offset, 1, target)
    out = longs_at(target, n)
    value = out[0]
    for i in range(n):
        out[i] = value


@part
def _extend(target: Any, n: Any, sign: Any, wide: Any) -> None:
    out = longs_at(target, n)
    for i in range(n):
        out[i] = ((out[i] ^ sign) - sign) & wide


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
    offsets: Any,
) -> Any:
    """`ld` by lanes whose address is defined; 0, or 1 for handed back.

    Args:
        row, operands: the step.
        registers: address of the register file.
        lanes: lanes of the wave.
        runs: the lanes that load.
        active: how many they are.
        spaces, allocations, counters: the tables.
        offsets: room for one number a lane.
    """
    base = registers + operands[row[SOURCE], SLOT] * lanes * 8
    count, space, data, written, uniform = locate(row, base, lanes, runs, spaces, allocations, offsets)
    if count == 0:
        return 1
    if written != 0 and not _all_written(written, row[_BYTES], offsets, 1 if uniform else count):
        return 1
    size = row[_SIZE]
    for index in range(row[RESULTS]):
        result = row[RESULT] + index
        slot = operands[result, SLOT]
        place = 0
        for r in range(len(runs) if slot >= 0 else 0):
            first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
            target = registers + (slot * lanes + first) * 8
            if uniform:
                _spread(data + index * size, size, offsets, target, n)
            else:
                _gather(data + index * size, size, offsets[place:], n, target)
            if operands[result, SIGN]:
                _extend(target, n, np.uint64(operands[result, SIGN]), np.uint64(operands[result, WIDE]))
            place += n
    if space == GLOBAL:
        counters[GLOBAL_READ] += active * row[_BYTES]
    elif space == SHARED:
        counters[SHARED_READ] += active * row[_BYTES]
    return 0


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
    offsets: Any,
    keys: Any,
    stamps: Any,
) -> Any:
    """`st` of defined values by lanes whose address is defined; 0, or 1 for handed back. Arguments as those of `load`.

    Two lanes at one place are handed back: see `_distinct` for `keys` and `stamps`.
    """
    base = registers + operands[row[SOURCE], SLOT] * lanes * 8
    count, space, data, written, uniform = locate(row, base, lanes, runs, spaces, allocations, offsets)
    if count == 0 or space > LOCAL or not _distinct(offsets, count, keys, stamps):
        return 1
    size = row[_SIZE]
    for index in range(row[SOURCES] - 1):
        slot = operands[row[SOURCE] + 1 + index, SLOT]
        place = 0
        for r in range(len(runs)):
            first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
            source = registers + (slot * lanes + first) * 8
            _scatter(data + index * size, size, offsets[place:], n, source, _ZERO)
            if written != 0:
                _scatter(written + index * size, size, offsets[place:], n, source, _ALL)
            place += n
    if space == GLOBAL:
        counters[GLOBAL_WRITTEN] += active * row[_BYTES]
    elif space == SHARED:
        counters[SHARED_WRITTEN] += active * row[_BYTES]
    counters[CHANGES] += 1
    return 0
