"""Matrix instructions in the fast engine: from a row of the bytecode to the compiled code of its form."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast import layout, matrix_product, matrix_transfer, warpgroups
from tileproof.simulators.ptx.fast.layout import (
    BASE,
    BYTES,
    DATA,
    K0,
    LIFE,
    PRODUCTS,
    PRODUCTS_READY,
    RESULT,
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

#: A step's constants: address and length of its form's array; where shared memory starts in the generic address space
#: or 0; what is added to the address.
RECORD, RECORD_WORDS, WINDOW, OFFSET = K0, K0 + 1, K0 + 2, K0 + 3
#: Of `wgmma`: the number of its shape, and the step.
SHAPE, STEP = K0 + 2, K0 + 3

DONE, BACK = 0, 1
_WARP, _ROW_BYTES = 32, 16


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
    row: Any, record: Any, sources: Any, results: Any, values: Any, runs: Any, memory: Any, counters: Any
) -> int:
    loads = row[layout.OP] == layout.MATRIX_LOAD
    count = _lanes(runs) // _WARP * record[TRANSFER_ROWS]
    places = np.empty(count, np.int64)
    if not matrix_transfer.locate(record, sources, values, runs, memory, row[WINDOW], row[OFFSET], loads, places):
        return BACK
    if loads:
        matrix_transfer.load(record, results, values, runs, memory, places)
        counters[layout.SHARED_READ] += count * _ROW_BYTES
        return DONE
    if matrix_transfer.overlaps(memory, places):
        return BACK
    matrix_transfer.store(record, sources, values, runs, memory, places)
    counters[layout.SHARED_WRITTEN] += count * _ROW_BYTES
    counters[layout.CHANGES] += 1
    return DONE


@inlined
def _lanes(runs: Any) -> Any:
    total = 0
    for run in range(len(runs)):
        total += runs[run, 1] - runs[run, 0]
    return total


# One step of a matrix instruction; 0, or 1 for handed back with nothing changed. Arguments: its line of the bytecode;
# operands of the program; the register file, [slots, lanes]; lane ranges that execute, whole warps or warpgroups;
# memories and counters, see `layout`.


@inlined
def _operands(row: Any, operands: Any) -> Any:
    """The record of the step's form; its sources and results."""
    return offsets_at(row[RECORD], row[RECORD_WORDS]), operands[row[SOURCE] :], operands[row[RESULT] :]


@part
def transpose(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any) -> int:
    """`movmatrix`."""
    record, sources, results = _operands(row, operands)
    matrix_transfer.transpose(record, sources, results, values, runs)
    return DONE


@part
def transfer(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any) -> int:
    """`ldmatrix` and `stmatrix`."""
    record, sources, results = _operands(row, operands)
    return _transfer(row, record, sources, results, values, runs, _memory(spaces, values.shape[1]), counters)


@part
def product(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any) -> int:
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
    matrix_product.multiply(record, sources, results, values, runs, memory, places)
    if warpgroup:
        warpgroups.issue(record, sources, row[SHAPE], row[STEP], runs, tables)
        counters[layout.SHARED_READ] += groups * count * _ROW_BYTES
    return DONE


@part
def double_product(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any) -> int:
    """`mma` with doubles."""
    record, sources, results = _operands(row, operands)
    matrix_product.multiply_doubles(record, sources, results, values, runs)
    return DONE
