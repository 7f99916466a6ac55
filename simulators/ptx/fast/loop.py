"""The loop: steps of one turn, from its program counter until one is not for machine code.

A step is handed back, with nothing of it done, when it is cold, when lanes would part, when a source has bits that
nothing wrote, or when a check on memory fails.
"""

from typing import Any

import numba
import numpy as np

from tileproof.simulators.ptx.fast.layout import (
    ACTIVE,
    ASKED,
    ASKED_RUNS,
    BARRIER,
    BRACKETS,
    BRANCH,
    CHANGES,
    CHOSEN,
    CODE,
    COLD,
    COLUMNS,
    COMPARE_FIRST,
    COMPARE_LAST,
    COUNTER_TABLE,
    COUNTERS,
    DEFINED,
    FLAGS,
    FLOAT_FIRST,
    FRAME,
    FUNCTIONS,
    GUARD,
    HERE,
    HERE_COUNT,
    INTEGER_FIRST,
    K0,
    LANES,
    LINE,
    LIVE,
    MADE,
    MASK,
    MASKS,
    MATRIX_FIRST,
    MOST,
    NEGATED,
    NEVER,
    NEVER_ROW,
    NOTHING,
    OP,
    OPEN,
    OPERAND_COLUMNS,
    OPERAND_TABLE,
    OPERATIONS,
    PARTLY,
    PASSED,
    PC,
    REGISTERS,
    RESULT,
    RESULTS,
    RUN_COUNT,
    RUNS,
    SCRATCH,
    SIGN,
    SLOT,
    SLOTS,
    SOURCE,
    SOURCES,
    STOP,
    TARGET,
    TOGETHER,
    WIDE,
    WIDTH,
)
from tileproof.simulators.ptx.fast.parts import part
from tileproof.simulators.ptx.fast.pointers import bytes_at, call, longs_at, offsets_at, table_at
from tileproof.simulators.ptx.fast.rows import copy_row, extend_row
from tileproof.simulators.ptx.fast.stamp import SOURCES as _STAMP
from tileproof.simulators.ptx.fast.warp import whole

_ANY = 1 << 40  # lines of a table whose length nobody asks for
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@part
def _undefined(slot: Any, mask: Any, lanes: Any, flags: Any, masks: Any, runs: Any) -> Any:
    """Whether a register has bits under the mask that nothing wrote, in any of the lanes."""
    if flags[slot] == DEFINED:
        return False
    if flags[slot] == NEVER:
        return True
    found, row = _ZERO, longs_at(masks + slot * lanes * 8, lanes)
    for r in range(len(runs)):
        for lane in range(runs[r, 0], runs[r, 1]):
            found |= row[lane]
    return found & mask != _ZERO


@part
def _sources_undefined(row: Any, operands: Any, lanes: Any, flags: Any, masks: Any, runs: Any) -> Any:
    for source in range(row[SOURCE], row[SOURCE] + row[SOURCES]):
        slot = operands[source, SLOT]
        if flags[slot] != DEFINED and _undefined(slot, np.uint64(operands[source, MASK]), lanes, flags, masks, runs):
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
def _prepare(row: Any, operands: Any, values: Any, lanes: Any, flags: Any, masks: Any, never: Any) -> None:
    """Before some of the lanes write registers that nothing has written: zeros with masks of their own."""
    for result in range(row[RESULT], row[RESULT] + row[RESULTS]):
        slot = operands[result, SLOT]
        if slot >= 0 and flags[slot] == NEVER:
            value, mask = longs_at(values + slot * lanes * 8, lanes), longs_at(masks + slot * lanes * 8, lanes)
            for lane in range(lanes):
                value[lane], mask[lane] = _ZERO, never[lane]
            flags[slot] = PARTLY


@part
def _define(row: Any, operands: Any, lanes: Any, flags: Any, masks: Any, runs: Any, all_lanes: Any) -> None:
    """The lanes' results are defined now."""
    for result in range(row[RESULT], row[RESULT] + row[RESULTS]):
        slot = operands[result, SLOT]
        if slot < 0 or flags[slot] == DEFINED:
            continue
        if all_lanes:
            flags[slot] = DEFINED
            continue
        mask = longs_at(masks + slot * lanes * 8, lanes)
        for r in range(len(runs)):
            for lane in range(runs[r, 0], runs[r, 1]):
                mask[lane] = _ZERO


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
def _arithmetic(frame: Any, row: Any, operands: Any, registers: Any, lanes: Any, runs: Any, scratch: Any) -> Any:
    """An operation with one result and up to four sources; 1 for handed back.

    Results go to a spare row first where the result's register is also a source, or where the step may yet be handed
    back.
    """
    op, s, result = row[OP], row[SOURCE], row[RESULT]
    function, k = longs_at(frame[FUNCTIONS], OPERATIONS)[op], frame[LINE] + K0 * 8
    count = row[SOURCES]
    a, ma = operands[s, SLOT], np.uint64(operands[s, MASK])
    b, mb = (operands[s + 1, SLOT], np.uint64(operands[s + 1, MASK])) if count > 1 else (a, ma)
    c, mc = (operands[s + 2, SLOT], np.uint64(operands[s + 2, MASK])) if count > 2 else (a, ma)
    d, md = (operands[s + 3, SLOT], np.uint64(operands[s + 3, MASK])) if count > 3 else (a, ma)
    slot, keep = operands[result, SLOT], np.uint64(operands[result, MASK])
    spare = slot < 0 or slot == a or slot == b or slot == c or slot == d or (op >= FLOAT_FIRST and row[K0] != 0)
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        pa, pb = registers + (a * lanes + first) * 8, registers + (b * lanes + first) * 8
        pc, pd = registers + (c * lanes + first) * 8, registers + (d * lanes + first) * 8
        out = scratch + first * 8 if spare else registers + (slot * lanes + first) * 8
        if call(function, (op, pa, pb, pc, pd, out, n, ma, mb, mc, md, keep, k)):
            return 1
    if slot < 0:
        return 0
    sign, wide = np.uint64(operands[result, SIGN]), np.uint64(operands[result, WIDE])
    for r in range(len(runs)):
        first, n = runs[r, 0], runs[r, 1] - runs[r, 0]
        target = registers + (slot * lanes + first) * 8
        if spare:
            copy_row(scratch + first * 8, target, n)
        if sign:
            extend_row(target, n, sign, wide)
    return 0


def _made(stamp: int) -> Any:
    """The loop; `stamp` is part of what numba's cache knows it by."""

    @numba.njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    def run(state: Any) -> Any:
        if stamp == 0:
            return 0
        frame = offsets_at(state, FRAME)
        lanes, registers, scratch = frame[WIDTH], frame[REGISTERS], frame[SCRATCH]
        operands = table_at(frame[OPERAND_TABLE], _ANY, OPERAND_COLUMNS)
        flags, masks, never = bytes_at(frame[FLAGS], frame[SLOTS]), frame[MASKS], longs_at(frame[NEVER_ROW], lanes)
        brackets, functions = bytes_at(frame[BRACKETS], frame[SLOTS]), longs_at(frame[FUNCTIONS], OPERATIONS)
        runs, chosen = table_at(frame[RUNS], frame[RUN_COUNT], 2), table_at(frame[CHOSEN], _ANY, 2)
        counters = offsets_at(frame[COUNTER_TABLE], COUNTERS)
        pc, stop, most, made, total = frame[PC], frame[STOP], frame[MOST], 0, frame[LANES]
        frame[ACTIVE] = total
        while pc < stop and made < most:
            frame[LINE] = frame[CODE] + pc * COLUMNS * 8
            row = offsets_at(frame[LINE], COLUMNS)
            op = row[OP]
            if op == COLD:
                break
            if frame[OPEN] and _is_open(row, operands, brackets):
                break
            active, here = total, runs
            frame[HERE], frame[HERE_COUNT], frame[ACTIVE] = frame[RUNS], frame[RUN_COUNT], total
            guard = row[GUARD]
            if guard >= 0:
                if flags[guard] != DEFINED and _undefined(guard, _ONE, lanes, flags, masks, runs):
                    break
                active, count = _split(registers + guard * lanes * 8, row[NEGATED] != 0, runs, total, chosen)
                if active == 0:
                    pc += 1
                    made += 1
                    continue
                if active != total:
                    if op == BRANCH:
                        break
                    here = table_at(frame[CHOSEN], count, 2)
                    frame[HERE], frame[HERE_COUNT], frame[ACTIVE] = frame[CHOSEN], count, active
            if op == BRANCH:
                pc = row[TARGET]
                made += 1
                continue
            if _sources_undefined(row, operands, lanes, flags, masks, here):
                break
            all_lanes = active == frame[LIVE]
            if not all_lanes:
                _prepare(row, operands, registers, lanes, flags, masks, never)
            if op == BARRIER:
                if not frame[TOGETHER] or active != total:
                    break
                counters[CHANGES] += 2
            elif op >= MATRIX_FIRST:
                if not whole(here) or call(functions[op], (state,)):
                    break
                counters[CHANGES] += 1
            elif op >= INTEGER_FIRST and (op < COMPARE_FIRST or op > COMPARE_LAST):
                if _arithmetic(frame, row, operands, registers, lanes, here, scratch):
                    break
            elif op != NOTHING and call(functions[op], (state,)):
                break
            if row[RESULTS] > 0:
                _define(row, operands, lanes, flags, masks, here, all_lanes)
            pc += 1
            made += 1
            frame[PASSED] = 0
        frame[MADE] = made
        if frame[ASKED] != 0:
            frame[ASKED_RUNS] = frame[HERE_COUNT] if frame[ACTIVE] != total else 0
        return pc

    return run


run = _made(_STAMP)
