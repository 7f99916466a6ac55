"""Shuffles and votes of whole warps whose member mask is all lanes, none of which has exited."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import K0 as _MODE
from tileproof.simulators.ptx.fast.layout import MASK, RESULT, SLOT, SOURCE
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.pointers import longs_at

_NEGATED = _MODE + 1
_WARP, _LAST = 32, np.int64(31)
_FULL, _ONE = np.uint64(0xFFFF_FFFF), np.uint64(1)

# How a shuffle finds its source, and what a vote returns.
UP, DOWN, BUTTERFLY, INDEX = 0, 1, 2, 3
ALL, ANY, UNIFORM, BALLOT = 0, 1, 2, 3


@part
def whole(runs: Any) -> Any:
    """Whether the lanes are whole warps."""
    rest = 0
    for r in range(len(runs)):
        rest |= runs[r, 0] | runs[r, 1]
    return rest & _LAST == 0


@part
def everyone(members: Any, runs: Any) -> Any:
    """Whether the member mask at address `members` of every lane is all lanes."""
    missing = np.uint64(0)
    for r in range(len(runs)):
        n = runs[r, 1] - runs[r, 0]
        masks = longs_at(members + runs[r, 0] * 8, n)
        for i in range(n):
            missing |= ~masks[i] & _FULL
    return missing == 0


@inlined
def _source(mode: Any, lane: Any, offset: Any, clamp: Any) -> Any:
    """The lane to read from, or -1 where it lies outside the segment."""
    segment = (clamp >> 8) & _LAST
    first = lane & segment
    last = first | (clamp & _LAST & ~segment)
    if mode == UP:
        source = lane - offset
        return source if source >= last else -1
    source = lane + offset if mode == DOWN else lane ^ offset if mode == BUTTERFLY else first | (offset & ~segment)
    return source if source <= last else -1


@part
def shuffle(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """`shfl.sync`; `scratch` is room for two numbers a lane."""
    s, d = row[SOURCE], row[RESULT]
    values = longs_at(registers + operands[s, SLOT] * lanes * 8, lanes)
    offsets = longs_at(registers + operands[s + 1, SLOT] * lanes * 8, lanes)
    clamps = longs_at(registers + operands[s + 2, SLOT] * lanes * 8, lanes)
    cut = np.uint64(operands[s, MASK])
    for r in range(len(runs)):
        for i in range(runs[r, 0], runs[r, 1]):
            lane = i & _LAST
            source = _source(row[_MODE], lane, np.int64(offsets[i]) & _LAST, np.int64(clamps[i]))
            scratch[i] = values[i - lane + source if source >= 0 else i] & cut
            scratch[lanes + i] = _ONE if source >= 0 else np.uint64(0)
    _write(registers, operands[d, SLOT], lanes, runs, scratch)
    _write(registers, operands[d + 1, SLOT], lanes, runs, scratch[lanes:])


@part
def _write(registers: Any, slot: Any, lanes: Any, runs: Any, row: Any) -> None:
    if slot < 0:
        return
    target = longs_at(registers + slot * lanes * 8, lanes)
    for r in range(len(runs)):
        for i in range(runs[r, 0], runs[r, 1]):
            target[i] = row[i]


@part
def vote(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """`vote.sync`; `scratch` is room for one number a lane."""
    s = row[SOURCE]
    predicates = longs_at(registers + operands[s, SLOT] * lanes * 8, lanes)
    for r in range(len(runs)):
        for warp in range(runs[r, 0], runs[r, 1], _WARP):
            ballot = np.uint64(0)
            for i in range(_WARP):
                ballot |= np.uint64((predicates[warp + i] != 0) != (row[_NEGATED] != 0)) << np.uint64(i)
            result = ballot
            if row[_MODE] != BALLOT:
                holds = ballot != 0 if row[_MODE] == ANY else ballot == _FULL
                result = np.uint64(holds or (row[_MODE] == UNIFORM and ballot == 0))
            scratch[warp : warp + _WARP] = result
    _write(registers, operands[row[RESULT], SLOT], lanes, runs, scratch)
