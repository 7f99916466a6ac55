"""The loop: steps of one turn, from its program counter until one is not for machine code.

A step is handed back, with nothing of it done, when it is cold, when lanes would part, when a source has bits that
nothing wrote, or when a check on memory fails.
"""

from typing import Any

import numba
import numpy as np

from tileproof.simulators.ptx.fast import matrix
from tileproof.simulators.ptx.fast.compare import combine, compare
from tileproof.simulators.ptx.fast.convert import convert
from tileproof.simulators.ptx.fast.copy import copy, group
from tileproof.simulators.ptx.fast.floating import floating
from tileproof.simulators.ptx.fast.integer import integer
from tileproof.simulators.ptx.fast.layout import (
    ASKED,
    ASKED_RUNS,
    BARRIER,
    BRANCH,
    CHANGES,
    COLD,
    COMPARE_FIRST,
    COMPARE_LAST,
    COPY,
    COPY_GROUP,
    DEFINED,
    FLOAT_FIRST,
    FLOAT_LAST,
    GUARD,
    INTEGER_LAST,
    K0,
    LANES,
    LIVE,
    LOAD,
    MADE,
    MASK,
    MATRIX_FIRST,
    MATRIX_LOAD,
    MATRIX_STORE,
    MOST,
    NEGATED,
    NEVER,
    NOTHING,
    OP,
    OPEN,
    ORDERED,
    PACK,
    PARTLY,
    PASSED,
    PC,
    RESULT,
    RESULTS,
    SHUFFLE,
    SIGN,
    SLOT,
    SOURCE,
    SOURCES,
    STOP,
    STORE,
    TARGET,
    TOGETHER,
    UNPACK,
    VOTE,
    WIDE,
)
from tileproof.simulators.ptx.fast.memory import load, store
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import longs_at
from tileproof.simulators.ptx.fast.stamp import SOURCES as _STAMP
from tileproof.simulators.ptx.fast.warp import everyone, shuffle, vote, whole

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_SKIPPED, _DIVERGED = -1, -2


@part
def _undefined(slot: Any, mask: Any, flags: Any, masks: Any, runs: Any) -> Any:
    """Whether a register has bits under the mask that nothing wrote, in any of the lanes."""
    if flags[slot] == DEFINED:
        return False
    if flags[slot] == NEVER:
        return True
    found = _ZERO
    for r in range(len(runs)):
        row = masks[slot, runs[r, 0] : runs[r, 1]]
        for i in range(len(row)):
            found |= row[i]
    return found & mask != _ZERO


@part
def _sources_undefined(row: Any, operands: Any, flags: Any, masks: Any, runs: Any) -> Any:
    for source in range(row[SOURCE], row[SOURCE] + row[SOURCES]):
        slot = operands[source, SLOT]
        if flags[slot] != DEFINED and _undefined(slot, np.uint64(operands[source, MASK]), flags, masks, runs):
            return True
    return False


@part
def _is_open(row: Any, operands: Any, brackets: Any) -> Any:
    """Whether a register of the step may hold an interval instead of a value."""
    found = row[GUARD] >= 0 and brackets[row[GUARD]] != 0
    for source in range(row[SOURCE], row[SOURCE] + row[SOURCES]):
        found |= brackets[operands[source, SLOT]] != 0
    for result in range(row[RESULT], row[RESULT] + row[RESULTS]):
        found |= operands[result, SLOT] >= 0 and brackets[operands[result, SLOT]] != 0
    return found


@part
def _prepare(row: Any, operands: Any, values: Any, flags: Any, masks: Any, never: Any) -> None:
    """Before some of the lanes write registers that nothing has written: zeros with masks of their own."""
    for result in range(row[RESULT], row[RESULT] + row[RESULTS]):
        slot = operands[result, SLOT]
        if slot >= 0 and flags[slot] == NEVER:
            values[slot] = 0
            masks[slot] = never
            flags[slot] = PARTLY


@part
def _define(row: Any, operands: Any, flags: Any, masks: Any, runs: Any, all_lanes: Any) -> None:
    """The lanes' results are defined now."""
    for result in range(row[RESULT], row[RESULT] + row[RESULTS]):
        slot = operands[result, SLOT]
        if slot < 0 or flags[slot] == DEFINED:
            continue
        if all_lanes:
            flags[slot] = DEFINED
            continue
        for r in range(len(runs)):
            masks[slot, runs[r, 0] : runs[r, 1]] = 0


@part
def _split(guard: Any, negated: Any, runs: Any, total: Any, chosen: Any) -> Any:
    """The runs of lanes whose guard, the row at an address, holds.

    Returns:
        how many lanes they are, and how many runs stand in `chosen`; that is not filled where all or none hold.
    """
    holding = 0
    for r in range(len(runs)):
        n = runs[r, 1] - runs[r, 0]
        row = longs_at(guard + runs[r, 0] * 8, n)
        for i in range(n):
            holding += (row[i] != _ZERO) != negated
    if holding == 0 or holding == total:
        return holding, 0
    count, inside = 0, False
    for r in range(len(runs)):
        row = longs_at(guard, runs[r, 1])
        for i in range(runs[r, 0], runs[r, 1]):
            holds = (row[i] != _ZERO) != negated
            if holds and not inside:
                chosen[count, 0] = i
            if inside and not holds:
                chosen[count, 1] = i
                count += 1
            inside = holds
        if inside:
            chosen[count, 1] = runs[r, 1]
            count += 1
            inside = False
    return holding, count


@part
def _copy(source: Any, target: Any, n: Any) -> None:
    a, b = longs_at(source, n), longs_at(target, n)
    for i in range(n):
        b[i] = a[i]


@part
def _extend(target: Any, n: Any, sign: Any, wide: Any) -> None:
    out = longs_at(target, n)
    for i in range(n):
        out[i] = ((out[i] ^ sign) - sign) & wide


@part
def _arithmetic(row: Any, k: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> Any:
    """An operation with one result and up to four sources; 1 for handed back.

    Results go to a spare row first where the result's register is also a source, or where the step may yet be handed
    back.
    """
    op, s, result = row[OP], row[SOURCE], row[RESULT]
    count = row[SOURCES]
    a, ma = operands[s, SLOT], np.uint64(operands[s, MASK])
    b, mb = (operands[s + 1, SLOT], np.uint64(operands[s + 1, MASK])) if count > 1 else (a, ma)
    c, mc = (operands[s + 2, SLOT], np.uint64(operands[s + 2, MASK])) if count > 2 else (a, ma)
    d, md = (operands[s + 3, SLOT], np.uint64(operands[s + 3, MASK])) if count > 3 else (a, ma)
    slot, keep = operands[result, SLOT], np.uint64(operands[result, MASK])
    spare = slot < 0 or slot == a or slot == b or slot == c or slot == d or (op >= FLOAT_FIRST and k[0] != _ZERO)
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        pa, pb = registers + (a * lanes + first) * 8, registers + (b * lanes + first) * 8
        pc, pd = registers + (c * lanes + first) * 8, registers + (d * lanes + first) * 8
        out = scratch + first * 8 if spare else registers + (slot * lanes + first) * 8
        if op <= INTEGER_LAST:
            integer(op, pa, pb, pc, pd, out, n, ma, mb, mc, md, keep, k)
        elif op <= FLOAT_LAST:
            if floating(op, pa, pb, pc, out, n, ma, mb, mc, k):
                return 1
        else:
            convert(op, pa, pb, out, n, ma, mb, keep, k)
    if slot < 0:
        return 0
    sign, wide = np.uint64(operands[result, SIGN]), np.uint64(operands[result, WIDE])
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        target = registers + (slot * lanes + first) * 8
        if spare:
            _copy(scratch + first * 8, target, n)
        if sign:
            _extend(target, n, sign, wide)
    return 0


@part
def _compare(row: Any, k: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """A comparison, and its complement where there is a second result, each combined with a predicate if there is one.

    Constants 5 and 6 are the combination and whether the predicate is read inverted.
    """
    s, result = row[SOURCE], row[RESULT]
    a, ma = operands[s, SLOT], np.uint64(operands[s, MASK])
    b, mb = operands[s + 1, SLOT], np.uint64(operands[s + 1, MASK])
    c = operands[s + 2, SLOT] if row[SOURCES] > 2 else a
    p, q = operands[result, SLOT], operands[result + 1, SLOT]
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        pa, pb = registers + (a * lanes + first) * 8, registers + (b * lanes + first) * 8
        out, pc = scratch + first * 8, registers + (c * lanes + first) * 8
        compare(row[OP], pa, pb, out, n, ma, mb, k)
        if q >= 0:
            second = scratch + (lanes + first) * 8
            combine(k[5], out, pc, k[6], second, n, _ONE)
        if p >= 0:
            combine(k[5], out, pc, k[6], registers + (p * lanes + first) * 8, n, _ZERO)
        if q >= 0:
            _copy(second, registers + (q * lanes + first) * 8, n)


@part
def _pack(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """Elements of constant 0 bits, the first lowest, to one register."""
    width, slot = np.uint64(row[K0]), operands[row[RESULT], SLOT]
    if slot < 0:
        return
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        out = longs_at(scratch + first * 8, n)
        for index in range(row[SOURCES]):
            source = operands[row[SOURCE] + index, SLOT]
            mask, shift = np.uint64(operands[row[SOURCE] + index, MASK]), np.uint64(index) * width
            element = longs_at(registers + (source * lanes + first) * 8, n)
            if index == 0:
                for i in range(n):
                    out[i] = element[i] & mask
            else:
                for i in range(n):
                    out[i] |= (element[i] & mask) << shift
        _copy(scratch + first * 8, registers + (slot * lanes + first) * 8, n)


@part
def _unpack(row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> None:
    """One register to elements of constant 0 bits, the first from the lowest."""
    width = np.uint64(row[K0])
    field = (_ONE << width) - _ONE
    source = operands[row[SOURCE], SLOT]
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        _copy(registers + (source * lanes + first) * 8, scratch + first * 8, n)
        value = longs_at(scratch + first * 8, n)
        for index in range(row[RESULTS]):
            slot, shift = operands[row[RESULT] + index, SLOT], np.uint64(index) * width
            if slot >= 0:
                out = longs_at(registers + (slot * lanes + first) * 8, n)
                for i in range(n):
                    out[i] = (value[i] >> shift) & field


def _made(stamp: int) -> Any:
    """The loop; `stamp` is part of what numba's cache knows it by."""

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def run(
        code: Any,
        constants: Any,
        operands: Any,
        values: Any,
        masks: Any,
        flags: Any,
        never: Any,
        brackets: Any,
        runs: Any,
        chosen: Any,
        spaces: Any,
        allocations: Any,
        counters: Any,
        scratch: Any,
        keys: Any,
        stamps: Any,
        frame: Any,
    ) -> Any:
        if stamp == 0:
            return 0
        lanes, registers, spare = values.shape[1], values.ctypes.data, scratch.ctypes.data
        registers, spare = np.int64(registers), np.int64(spare)
        pc, stop, most, made, total = frame[PC], frame[STOP], frame[MOST], 0, frame[LANES]
        active, here = total, runs
        while pc < stop and made < most:
            row = code[pc]
            op = row[OP]
            if op == COLD:
                break
            if frame[OPEN] and _is_open(row, operands, brackets):
                break
            active, here = total, runs
            guard = row[GUARD]
            if guard >= 0:
                if flags[guard] != DEFINED and _undefined(guard, _ONE, flags, masks, runs):
                    break
                active, count = _split(registers + guard * lanes * 8, row[NEGATED] != 0, runs, total, chosen)
                if active == 0:
                    pc += 1
                    made += 1
                    continue
                if active != total:
                    if op == BRANCH:
                        break
                    here = chosen[:count]
            if op == BRANCH:
                pc = row[TARGET]
                made += 1
                continue
            if _sources_undefined(row, operands, flags, masks, here):
                break
            all_lanes = active == frame[LIVE]
            if not all_lanes:
                _prepare(row, operands, values, flags, masks, never)
            if op == LOAD:
                if load(row, operands, registers, lanes, here, active, spaces, allocations, counters, spare, frame):
                    break
            elif op == STORE:
                if store(
                    row,
                    operands,
                    registers,
                    lanes,
                    here,
                    active,
                    spaces,
                    allocations,
                    counters,
                    spare,
                    keys,
                    stamps,
                    frame,
                ):
                    break
            elif op == COPY:
                if copy(row, operands, registers, lanes, here, active, spaces, allocations, counters, spare):
                    break
            elif op == COPY_GROUP:
                if group(row, here, lanes, spaces):
                    break
            elif op == PACK:
                _pack(row, operands, registers, lanes, here, spare)
            elif op == UNPACK:
                _unpack(row, operands, registers, lanes, here, spare)
            elif op == BARRIER:
                if not frame[TOGETHER] or active != total:
                    break
                counters[CHANGES] += 2
            elif op == SHUFFLE or op == VOTE:
                members = operands[row[SOURCE] + row[SOURCES] - 1, SLOT]
                if not whole(here) or not everyone(registers + members * lanes * 8, here):
                    break
                if op == SHUFFLE:
                    shuffle(row, operands, registers, lanes, here, scratch)
                else:
                    vote(row, operands, registers, lanes, here, scratch)
                counters[CHANGES] += 1
            elif op >= MATRIX_FIRST:
                if frame[ORDERED] != 0 and (op == MATRIX_LOAD or op == MATRIX_STORE):
                    break  # their order is the reference engine's
                if not whole(here) or matrix.matrix(row, operands, values, here, spaces, counters):
                    break
                counters[CHANGES] += 1
            elif COMPARE_FIRST <= op <= COMPARE_LAST:
                _compare(row, constants[pc], operands, registers, lanes, here, spare)
            elif op != NOTHING and _arithmetic(row, constants[pc], operands, registers, lanes, here, spare):
                break
            if row[RESULTS] > 0:
                _define(row, operands, flags, masks, here, all_lanes)
            pc += 1
            made += 1
            frame[PASSED] = 0
        frame[MADE] = made
        if frame[ASKED] != 0:
            frame[ASKED_RUNS] = len(here) if active != total else 0
        return pc

    return run


run = _made(_STAMP)
