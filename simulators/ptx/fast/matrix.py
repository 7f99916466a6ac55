"""Matrix instructions in the fast engine: from a row of the bytecode to the compiled code of its form."""

from typing import Any

import numba
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
from tileproof.simulators.ptx.fast.parts import inlined
from tileproof.simulators.ptx.fast.pointers import bytes_at, longs_at, offsets_at
from tileproof.simulators.ptx.fast.stamp import MATRIX_SOURCES as _STAMP

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
def _warpgroup_product(
    row: Any,
    record: Any,
    sources: Any,
    results: Any,
    values: Any,
    runs: Any,
    memory: Any,
    products: Any,
    counters: Any,
) -> int:
    if products[PRODUCTS_READY] == 0 or not warpgroups.whole(runs):
        return BACK
    warps = values.shape[1] // _WARP
    tables = (products[STANDINGS], products[STANDING_ROWS], products[WARPS], warps)
    if not warpgroups.may_issue(record, sources, row[SHAPE], runs, tables):
        return BACK
    count = 0
    for operand in (A, B):
        if record[record[operand] + IN_MEMORY]:
            count += chunks(record, record[operand], record[DEPTH])
    groups = _lanes(runs) // record[LANES]
    places = np.empty((groups, count), np.int64)
    if not matrix_product.check(record, sources, values, runs, memory, places):
        return BACK
    matrix_product.multiply(record, sources, results, values, runs, memory, places)
    warpgroups.issue(record, sources, row[SHAPE], row[STEP], runs, tables)
    counters[layout.SHARED_READ] += groups * count * _ROW_BYTES
    return DONE


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


def _made(stamp: int) -> Any:
    """The entry, compiled apart from the loop; `stamp` is part of what numba's cache knows it by."""

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def matrix(row: Any, operands: Any, values: Any, runs: Any, spaces: Any, counters: Any) -> int:
        """One step of a matrix instruction; whether it is done or handed back with nothing changed.

        Args:
            row: the step's line of the bytecode.
            operands: operands of the program.
            values: the register file, [slots, lanes].
            runs: lane ranges that execute, whole warps or warpgroups.
            spaces: memories, see `layout`.
            counters: see `layout`.
        """
        if stamp == 0:
            return BACK
        operation = row[layout.OP]
        record = offsets_at(row[RECORD], row[RECORD_WORDS])
        sources, results = operands[row[SOURCE] :], operands[row[RESULT] :]
        if operation == layout.MATRIX_TRANSPOSE:
            matrix_transfer.transpose(record, sources, results, values, runs)
            return DONE
        if operation == layout.DOUBLE_PRODUCT:
            matrix_product.multiply_doubles(record, sources, results, values, runs)
            return DONE
        memory = _memory(spaces, values.shape[1])
        if operation == layout.PRODUCT:
            matrix_product.multiply(record, sources, results, values, runs, memory, np.empty((0, 0), np.int64))
            return DONE
        if operation == layout.WARPGROUP_PRODUCT:
            return _warpgroup_product(row, record, sources, results, values, runs, memory, spaces[PRODUCTS], counters)
        return _transfer(row, record, sources, results, values, runs, memory, counters)

    return matrix


matrix = _made(_STAMP)
