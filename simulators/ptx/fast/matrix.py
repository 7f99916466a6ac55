"""Matrix instructions in the fast engine: from a row of the bytecode to the compiled code of its form."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast import layout, matrix_product, matrix_transfer
from tileproof.simulators.ptx.fast.layout import BASE, BYTES, DATA, K0, RESULT, SHARED, SOURCE, STARTS, WRITTEN
from tileproof.simulators.ptx.fast.matrix_layout import DEPTH, IN_MEMORY, LANES, TRANSFER_ROWS, A, B
from tileproof.simulators.ptx.fast.matrix_operand import chunks
from tileproof.simulators.ptx.fast.pointers import longs_at, offsets_at

#: A step's constants: address and length of its form's array; where shared memory starts in the generic address space
#: or 0; what is added to the address.
RECORD, RECORD_WORDS, WINDOW, OFFSET = K0, K0 + 1, K0 + 2, K0 + 3

DONE, BACK = 0, 1
_WARP, _ROW_BYTES = 32, 16


@part
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
        return _product(record, sources, results, values, runs, memory, counters)
    return _transfer(row, record, sources, results, values, runs, memory, counters)


@inlined
def _memory(spaces: Any, lanes: Any) -> Any:
    """Shared memory as words of 8 bytes."""
    line = spaces[SHARED]
    size = (line[BYTES] + 15) // 16 * 2 * lanes  # at least: every block has a lane
    written = longs_at(line[WRITTEN], size if line[WRITTEN] else 0)
    return longs_at(line[DATA], size), written, line[BASE], line[BYTES], offsets_at(line[STARTS], lanes)


@inlined
def _product(record: Any, sources: Any, results: Any, values: Any, runs: Any, memory: Any, counters: Any) -> int:
    count = 0
    for operand in (A, B):
        if record[record[operand] + IN_MEMORY]:
            count += chunks(record, record[operand], record[DEPTH])
    groups = _lanes(runs) // record[LANES]
    places = np.empty((groups, count), np.int64)
    if not matrix_product.check(record, sources, values, runs, memory, places):
        return BACK
    matrix_product.multiply(record, sources, results, values, runs, memory, places)
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
