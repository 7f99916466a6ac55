"""`mma` and `wgmma`, compiled: from registers and shared memory to registers, with the units' own sums.

Everything is checked for all warps or warpgroups before the first register changes: what looks wrong is the reference
handler's, which executes the step from the start.
"""

from typing import Any

import numpy as np

from tileproof.oracle.units.fma_chain_array import fused_multiply_add
from tileproof.oracle.units.unit_kernels import fused_tile, no_terms, padded, sum_work
from tileproof.simulators.ptx.fast.matrix_layout import (
    COLUMNS,
    DEPTH,
    FUSED,
    GROUP,
    HAS_SCALE,
    IN_MEMORY,
    LANES,
    MAP,
    PARAMETERS,
    REGISTERS,
    ROWS,
    SCALE_NEGATED,
    UNIT,
    A,
    B,
    C,
)
from tileproof.simulators.ptx.fast.matrix_operand import (
    chunk_address,
    chunk_terms,
    chunks,
    register_codes,
    register_terms,
    write_codes,
)
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.machine.asynchronous.barriers import Life

_RESERVED = 0x3FF1_C000_C000_C000
_ALL_DEFINED = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
#: The state of a word in which an mbarrier stands.
_LIVE = np.uint8(Life.LIVE)
_NAN_64 = 0x7FFF_FFFF_FFFF_FFFF


@part
def check(record: Any, sources: Any, values: Any, runs: Any, memory: Any, places: Any) -> bool:
    """Whether nothing about a product is suspicious.

    Args:
        record: of `matrix_record.product_record`.
        sources: operands of the step, slots in their first column.
        values: the register file.
        runs: lanes that execute, whole warps or warpgroups.
        memory: shared memory, see `memory_of`.
        places: int64 [warpgroups, chunks of A and B], filled with the places of chunks in shared memory as numbers of
            8-byte words.
    """
    lanes, group = record[LANES], 0
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], lanes):
            slot, filled = 0, 0
            for operand in (A, B):
                at = record[operand]
                if record[at + IN_MEMORY]:
                    if not _uniform(values, sources[slot, 0], first, lanes):
                        return False
                    descriptor = np.int64(values[sources[slot, 0], first])
                    count = chunks(record, at, record[DEPTH])
                    if not _check_chunks(record, at, descriptor, count, first, memory, places[group], filled):
                        return False
                    filled += count
                slot += record[at + REGISTERS]
            if record[HAS_SCALE]:
                scale = sources[slot + record[record[C] + REGISTERS], 0]
                if not _uniform(values, scale, first, lanes):
                    return False
            group += 1
    return True


@inlined
def _uniform(values: Any, slot: Any, first: Any, lanes: Any) -> bool:
    equal = True
    for lane in range(first + 1, first + lanes):
        equal &= values[slot, lane] == values[slot, first]
    return equal


@inlined
def _check_chunks(
    record: Any, at: Any, descriptor: Any, count: Any, lane: Any, memory: Any, places: Any, filled: Any
) -> bool:
    _, written, life, base, nbytes, starts = memory
    if descriptor & _RESERVED or ((descriptor >> 62) & 3 == 0 and (descriptor >> 49) & 7 != 0):
        return False
    for chunk in range(count):
        offset = chunk_address(record, at, descriptor, chunk) - base
        if offset < 0 or offset + 16 > nbytes:
            return False
        place = (offset + starts[lane]) >> 3
        if len(written) and (written[place] != _ALL_DEFINED or written[place + 1] != _ALL_DEFINED):
            return False
        if len(life) and (life[place] == _LIVE or life[place + 1] == _LIVE):
            return False
        places[filled + chunk] = place
    return True


@part
def multiply(record: Any, sources: Any, results: Any, values: Any, runs: Any, memory: Any, places: Any) -> None:
    """The products of all warps or warpgroups; `check` was true.

    Args:
        record: as `check`.
        sources: as `check`.
        results: operands of the accumulators that are written.
        values: as `check`.
        runs: as `check`.
        memory: as `check`.
        places: as `check` left it.
    """
    lanes, group = record[LANES], 0
    rows, columns, depth = np.uint64(record[ROWS]), np.uint64(record[COLUMNS]), np.uint64(record[DEPTH])
    a, b = no_terms(padded(rows) * depth), no_terms(columns * depth)
    codes, work = np.empty(rows * columns, np.int64), sum_work(rows)
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], lanes):
            slot = _terms(record, record[A], sources, 0, values, first, lanes, memory, places[group], 0, a)
            filled = chunks(record, record[A], record[DEPTH]) if record[record[A] + IN_MEMORY] else 0
            slot = _terms(record, record[B], sources, slot, values, first, lanes, memory, places[group], filled, b)
            scale = sources[slot + record[record[C] + REGISTERS], 0]
            if record[HAS_SCALE] and (values[scale, first] != 0) == (record[SCALE_NEGATED] != 0):
                codes[:] = 0
            else:
                register_codes(record, record[C], sources[slot:], values, first, lanes, codes)
            _sum(record, a, b, codes, work)
            write_codes(record, record[C], results, values, first, lanes, codes)
            group += 1


@inlined
def _terms(
    record: Any,
    at: Any,
    sources: Any,
    slot: Any,
    values: Any,
    first: Any,
    lanes: Any,
    memory: Any,
    places: Any,
    filled: Any,
    terms: Any,
) -> Any:
    """The terms of an operand; the number of the next source."""
    if record[at + IN_MEMORY]:
        words = memory[0]
        for chunk in range(chunks(record, at, record[DEPTH])):
            place = places[filled + chunk]
            halves = (np.int64(words[place]), np.int64(words[place + 1]))
            chunk_terms(record, at, halves, chunk, terms)
    else:
        register_terms(record, at, sources[slot:], values, first, lanes, terms)
    return slot + record[at + REGISTERS]


@part
def _sum(record: Any, a: Any, b: Any, codes: Any, work: Any) -> None:
    """D in place of C: codes [rows, columns], flat."""
    rows, columns, depth = np.uint64(record[ROWS]), np.uint64(record[COLUMNS]), np.uint64(record[DEPTH])
    if record[UNIT] == FUSED:
        at = PARAMETERS
        parameters = (record[at], record[at + 1], record[at + 2], record[at + 3], record[at + 4], record[at + 5])
        extents, first = (rows, columns, depth, np.uint64(record[GROUP])), np.uint64(0)
        fused_tile(a, b, codes, first, codes, first, extents, parameters, work)
        return
    total, stride = work[0], padded(rows)
    for column in range(columns):
        for row in range(rows):
            total[row] = np.int64(np.int32(codes[row * columns + column]))
        for k in range(depth):
            factor = np.int64(b[0][column * depth + k])
            for row in range(rows):
                total[row] += a[0][k * stride + row] * factor
        for row in range(rows):
            result = total[row]
            if record[PARAMETERS]:
                result = min(max(result, -(1 << 31)), (1 << 31) - 1)
            codes[row * columns + column] = result


@part
def multiply_doubles(record: Any, sources: Any, results: Any, values: Any, runs: Any) -> None:
    """The products of `mma` with doubles, of all warps."""
    rows, columns, depth = record[ROWS], record[COLUMNS], record[DEPTH]
    stride = np.int64(padded(np.uint64(rows)))
    a, b, c = np.empty(stride * depth), np.empty(columns * depth), np.empty(rows * columns)
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], record[LANES]):
            slot = 0
            for operand, matrix in ((A, a), (B, b), (C, c)):
                at = record[operand]
                for register in range(record[at + REGISTERS]):
                    place = record[at + MAP] + register * record[LANES]
                    for lane in range(record[LANES]):
                        bits = values[sources[slot, 0], first + lane]
                        matrix.view(np.uint64)[record[place + lane]] = bits
                    slot += 1
            for row in range(rows):
                for column in range(columns):
                    total = c[row * columns + column]
                    for k in range(depth):
                        total = fused_multiply_add(a[k * stride + row], b[column * depth + k], total)
                    c[row * columns + column] = total
            at = record[C]
            for register in range(record[at + REGISTERS]):
                place = record[at + MAP] + register * record[LANES]
                for lane in range(record[LANES]):
                    total = c[record[place + lane]]
                    bits = np.float64(total).view(np.uint64) if total == total else np.uint64(_NAN_64)
                    if results[register, 0] >= 0:
                        values[results[register, 0], first + lane] = bits
