"""Where a turn's accesses go: the array of bytes by the first lane's address, every lane's offset in it, and whether
all of them are legal.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import BASE, BYTES, DATA, GENERIC, GLOBAL, K0, LIFE, SHARED, STARTS, WRITTEN
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import bytes_at, longs_at
from tileproof.simulators.ptx.layout import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from tileproof.simulators.ptx.machine.asynchronous.barriers import Life

# Constants of a memory step that `place` reads: the space, and the bytes of the access; `memory` has the others.
SPACE, NBYTES = K0, K0 + 3
#: Elements of an array whose length nobody asks for.
ANY = 1 << 40
ZERO = np.uint64(0)
_WINDOW = np.uint64(WINDOW_BYTES)
_FIRST_WINDOW, _LAST_WINDOW = np.uint64(SHARED_WINDOW), np.uint64(PARAM_WINDOW)
_WINDOW_STEP = np.uint64(LOCAL_WINDOW - SHARED_WINDOW)
_THREE, _LIVE = np.uint64(3), np.uint8(Life.LIVE)


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
def _window(space: Any, address: Any) -> Any:
    """Of a generic address: the space that it lies in and where that space's window starts."""
    if space != GENERIC:
        return space, ZERO
    if address < _FIRST_WINDOW or address >= _LAST_WINDOW + _WINDOW:
        return GLOBAL, ZERO
    index = (address - _FIRST_WINDOW) // _WINDOW_STEP
    start = _FIRST_WINDOW + index * _WINDOW_STEP
    return (SHARED + np.int64(index), start) if address - start < _WINDOW else (-1, ZERO)


@part
def place(row: Any, address: Any, spaces: Any, allocations: Any) -> Any:
    """Where an access goes whose first address this is.

    Returns:
        space, -1 for nowhere; addresses of the bytes and of their definedness; first legal address; how far above it
        the last one lies; address of the lanes' offsets to their owners' pieces, 0 if there is one owner; address of
        the states of mbarriers there, 0 if there are none; of global memory the allocation.
    """
    nowhere = (-1, 0, 0, ZERO, ZERO, 0, 0, -1)
    space, start = _window(row[SPACE], address)
    if space < 0:
        return nowhere
    starts, life, index = 0, 0, -1
    if space == GLOBAL:
        index = _allocation(allocations, address)
        if index < 0:
            return nowhere
        line = allocations[index]
    else:
        line = spaces[space]
        starts, life = line[STARTS], line[LIFE]
    if line[BYTES] < row[NBYTES]:
        return nowhere
    least = np.uint64(line[BASE]) + start
    return space, line[DATA], line[WRITTEN], least, np.uint64(line[BYTES] - row[NBYTES]), starts, life, index


@part
def find(base: Any, n: Any, starts: Any, offset: Any, cut: Any, low: Any, least: Any, limit: Any, found: Any) -> Any:
    """Byte offsets of a run's accesses in the array of bytes; whether all are legal.

    Args:
        base: address of the run's row of addresses.
        n: its length.
        starts: address of the lanes' offsets, 0 for none.
        offset, cut: what is added to an address, and its bits that count.
        low: bits that an aligned address does not have.
        least, limit: first legal address, and how far above it the last one lies.
        found: address of the row to fill.
    """
    addresses, out = longs_at(base, n), longs_at(found, n)
    wrong = ZERO
    for i in range(n):
        relative = ((addresses[i] + offset) & cut) - least
        outside = np.uint64(relative > limit)
        wrong |= outside | ((relative + least) & low)
        out[i] = relative if relative <= limit else ZERO
    if starts != 0:
        own = longs_at(starts, n)
        for i in range(n):
            out[i] += own[i]
    return wrong == ZERO


@part
def touches_object(life: Any, nbytes: Any, found: Any, n: Any) -> Any:
    """Whether a live mbarrier stands in the bytes."""
    offsets, states = longs_at(found, n), bytes_at(life, ANY)
    for index in range((nbytes + 7) >> 3):
        for i in range(n):
            if states[(offsets[i] >> _THREE) + np.uint64(index)] == _LIVE:
                return True
    return False
