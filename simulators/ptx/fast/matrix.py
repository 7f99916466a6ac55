"""Matrix instructions in the fast engine: from a row of the bytecode to the compiled code of its form."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast import layout, matrix_product, matrix_transfer, warpgroups
from tileproof.simulators.ptx.fast.asking import passes
from tileproof.simulators.ptx.fast.layout import (
    BASE,
    BYTES,
    DATA,
    K0,
    LIFE,
    ORDERED,
    PRODUCTS,
    PRODUCTS_READY,
    RESULT,
    SCRATCH,
    SHARED,
    SOURCE,
    STANDING_ROWS,
    STANDINGS,
    STARTS,
    WARPS,
    WRITTEN,
)
from tileproof.simulators.ptx.fast.matrix_layout import DEPTH, IN_MEMORY, LANES, TRANSFER_ROWS, A, B
from tileproof.simulators.ptx.fast.matrix_operand import chunks
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.pointers import bytes_at, longs_at, offsets_at

#: A step's constants: address and length of its form's array.
RECORD, RECORD_WORDS = K0, K0 + 1
#: Of a transfer: where shared memory starts in the generic address space or 0; what is added to the address; what the
#: order calls its accesses; the step.
WINDOW, OFFSET, TRANSFER_ACCESS, TRANSFER_STEP = K0 + 2, K0 + 3, K0 + 4, K0 + 5
#: Of `wgmma`: the number of its shape; the step; what the order calls its accesses.
SHAPE, STEP, ACCESS = K0 + 2, K0 + 3, K0 + 4

DONE, BACK = 0, 1
_WARP, _WARPGROUP, _ROW_BYTES = 32, 128, 16


@inlined
def _memory(spaces: Any, lanes: Any) -> Any:
    """Shared memory: 8-byte words, their definedness, states of mbarriers, lowest address, bytes, blocks' offsets."""
    line = spaces[SHARED]
    size = (line[BYTES] + 15) // 16 * 2 * lanes  # at least: every block has a lane
    written, life = (
        longs_at(line[WRITTEN], size if line[WRITTEN] else 0),
        bytes_at(line[LIFE], size if line[LIFE] else 0),
    )
    return longs_at(line[DATA], size), written, life, line[BASE], line[BYTES], offsets_at(line[STARTS], lanes)


@inlined
def _transfer(
    row: Any,
    record: Any,
    sources: Any,
    results: Any,
    values: Any,
    runs: Any,
    memory: Any,
    counters: Any,
    frame: Any,
) -> int:
    loads = row[layout.OP] == layout.MATRIX_LOAD
    count = _lanes(runs) // _WARP * record[TRANSFER_ROWS]
    places = np.empty(count, np.int64)
    if not matrix_transfer.locate(record, sources, values, runs, memory, row[WINDOW], row[OFFSET], loads, places):
        return BACK
    if not loads and matrix_transfer.overlaps(memory, places):
        return BACK
    if frame[ORDERED] != 0 and not _transfer_in_order(row, record, runs, places, frame):
        return BACK
    if loads:
        matrix_transfer.load(record, results, values, runs, memory, places)
        counters[layout.SHARED_READ] += count * _ROW_BYTES
        return DONE
    matrix_transfer.store(record, sources, values, runs, memory, places)
    counters[layout.SHARED_WRITTEN] += count * _ROW_BYTES
    counters[layout.CHANGES] += 1
    return DONE


@inlined
def _transfer_in_order(row: Any, record: Any, runs: Any, places: Any, frame: Any) -> Any:
    """Whether the order has nothing against the rows at `places`."""
    count, filled = len(places), 0
    found, who = frame[SCRATCH], frame[SCRATCH] + count * 8
    offsets, lanes = offsets_at(found, count), offsets_at(who, count)
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], _WARP):
            for lane in range(first, first + record[TRANSFER_ROWS]):
                offsets[filled], lanes[filled] = places[filled] << 3, lane
                filled += 1
    return passes(frame, SHARED, -1, who, found, count, (_ROW_BYTES, row[TRANSFER_ACCESS], row[TRANSFER_STEP], 1, 0))


@inlined
def _product_in_order(row: Any, record: Any, runs: Any, places: Any, committed: Any, frame: Any) -> Any:
    """Whether the order has nothing against the chunks at `places` [warpgroups, chunks], so many of which at a time."""
    size, group = _WARPGROUP * 8, 0
    found, who, at = frame[SCRATCH], frame[SCRATCH] + size, frame[SCRATCH] + 2 * size
    offsets, lanes, ticks = offsets_at(found, _WARPGROUP), offsets_at(who, _WARPGROUP), offsets_at(at, _WARPGROUP)
    access = (_ROW_BYTES, row[ACCESS], row[STEP], 1, at)
    for run in range(len(runs)):
        for first in range(runs[run, 0], runs[run, 1], record[LANES]):
            for chunk in range(_WARPGROUP):
                lanes[chunk], ticks[chunk] = first, committed[first // _WARP]
            for begin in range(0, places.shape[1], _WARPGROUP):
                count = min(_WARPGROUP, places.shape[1] - begin)
                for chunk in range(count):
                    offsets[chunk] = places[group, begin + chunk] << 3
                if not passes(frame, SHARED, -1, who, found, count, access):
                    return False
            group += 1
    return True


@inlined
def _lanes(runs: Any) -> Any:
    total = 0
    for run in range(len(runs)):
        total += runs[run, 1] - runs[run, 0]
    return total


# One step of a matrix instruction; 0, or 1 for handed back with nothing changed. Arguments: its line of the bytecode;
# operands of the program; the register file, [slots, lanes]; lane ranges that execute, whole warps or warpgroups;
# memories, counters and the frame, see `layout`.


@inlined
def _operands(row: Any, operands: Any) -> Any:
    """The record of the step's form; its sources and results."""
    return offsets_at(row[RECORD], row[RECORD_WORDS]), operands[row[SOURCE] :], operands[row[RESULT] :]


@part
def transpose(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any, frame: Any) -> int:
    """`movmatrix`."""
    record, sources, results = _operands(row, operands)
    matrix_transfer.transpose(record, sources, results, values, runs)
    return DONE


@part
def transfer(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any, frame: Any) -> int:
    """`ldmatrix` and `stmatrix`."""
    record, sources, results = _operands(row, operands)
    return _transfer(row, record, sources, results, values, runs, _memory(spaces, values.shape[1]), counters, frame)


@part
def product(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any, frame: Any) -> int:
    """`mma` and `wgmma`."""
    record, sources, results = _operands(row, operands)
    memory, products = _memory(spaces, values.shape[1]), spaces[PRODUCTS]
    groups, count = 0, 0
    tables = (products[STANDINGS], products[STANDING_ROWS], products[WARPS], values.shape[1] // _WARP)
    warpgroup = row[layout.OP] == layout.WARPGROUP_PRODUCT
    if warpgroup:
        if products[PRODUCTS_READY] == 0 or not warpgroups.whole(runs):
            return BACK
        if not warpgroups.may_issue(record, sources, row[SHAPE], runs, tables):
            return BACK
        for operand in (A, B):
            if record[record[operand] + IN_MEMORY]:
                count += chunks(record, record[operand], record[DEPTH])
        groups = _lanes(runs) // record[LANES]
    places = np.empty((groups, count), np.int64)
    if warpgroup and not matrix_product.check(record, sources, values, runs, memory, places):
        return BACK
    if warpgroup and frame[ORDERED] != 0:
        committed = warpgroups.committed(tables)
        if not _product_in_order(row, record, runs, places, committed, frame):
            return BACK
    matrix_product.multiply(record, sources, results, values, runs, memory, places)
    if warpgroup:
        warpgroups.issue(record, sources, row[SHAPE], row[STEP], runs, tables)
        counters[layout.SHARED_READ] += groups * count * _ROW_BYTES
    return DONE


@part
def double_product(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any, frame: Any) -> int:
    """`mma` with doubles."""
    record, sources, results = _operands(row, operands)
    matrix_product.multiply_doubles(record, sources, results, values, runs)
    return DONE
