"""The compiled functions of the operations, each compiled for itself and called by the loop through its address.

One is compiled, or found in numba's cache, when a program that needs it is first run: a process pays only for what its
kernels use, and none is compiled again as a part of another.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from tileproof.simulators.ptx.fast import copy, matrix, memory, rows, warp
from tileproof.simulators.ptx.fast import layout as op
from tileproof.simulators.ptx.fast.compare import compare
from tileproof.simulators.ptx.fast.convert import convert
from tileproof.simulators.ptx.fast.floating import floating
from tileproof.simulators.ptx.fast.integer import integer
from tileproof.simulators.ptx.fast.layout import (
    ACTIVE,
    ALLOCATION_TABLE,
    ALLOCATIONS,
    CHANGES,
    COLUMNS,
    CONSTANTS,
    COUNTER_TABLE,
    COUNTERS,
    FRAME,
    HERE,
    HERE_COUNT,
    K0,
    KEYS,
    LINE,
    OPERAND_COLUMNS,
    OPERAND_TABLE,
    PLACES,
    REGISTERS,
    SCRATCH,
    SLOTS,
    SPACE_COLUMNS,
    SPACE_TABLE,
    SPACES,
    STAMPS,
    WIDTH,
)
from tileproof.simulators.ptx.fast.parts import inlined
from tileproof.simulators.ptx.fast.pointers import longs_at, offsets_at, table_at, values_at
from tileproof.simulators.ptx.fast.stamp import MATRIX_SOURCES, SOURCES

_ANY = 1 << 40  # lines of a table whose length nobody asks for

#: Of an operation on rows: its number; addresses of four sources and the result; length; masks of the sources and the
#: result; address of the constants. Of any other step: address of the frame. All return 1 for handed back.
_ROWS = f"int64(int64, {'int64, ' * 6}{'uint64, ' * 5}int64)"
_STEP = "int64(int64)"
_gate = partial(numba.cfunc, cache=True, error_model="numpy")


@inlined
def _step(frame: Any) -> Any:
    """Of the present step: its line, operands, address of the registers, lanes of the wave, the lanes' runs."""
    here, row = table_at(frame[HERE], frame[HERE_COUNT], 2), offsets_at(frame[LINE], COLUMNS)
    return row, table_at(frame[OPERAND_TABLE], _ANY, OPERAND_COLUMNS), frame[REGISTERS], frame[WIDTH], here


@inlined
def _memories(frame: Any) -> Any:
    """How many lanes; memories, allocations, counters; address of room for `layout.ROOM` numbers a lane."""
    spaces = table_at(frame[SPACE_TABLE], SPACES, SPACE_COLUMNS)
    allocations = table_at(frame[ALLOCATION_TABLE], frame[ALLOCATIONS], SPACE_COLUMNS)
    counters = offsets_at(frame[COUNTER_TABLE], COUNTERS)
    return frame[ACTIVE], spaces, allocations, counters, frame[SCRATCH]


@inlined
def _matrix(frame: Any) -> Any:
    """Arguments of matrix instructions: line, operands, registers [slots, lanes], runs, memories, counters, frame."""
    row, operands, registers, lanes, here = _step(frame)
    _, spaces, _, counters, _ = _memories(frame)
    return row, operands, values_at(registers, frame[SLOTS], lanes), here, spaces, counters, frame


# NOTE: `stamp`, which each function holds, is part of what numba's cache knows it by.


def _integers(stamp: int) -> Any:
    @_gate(_ROWS)
    def gate(op, pa, pb, pc, pd, out, n, ma, mb, mc, md, keep, k):  # type: ignore[no-untyped-def]
        if stamp:
            integer(op, pa, pb, pc, pd, out, n, ma, mb, mc, md, keep, longs_at(k, CONSTANTS))
        return 0

    return gate


def _floats(stamp: int) -> Any:
    @_gate(_ROWS)
    def gate(op, pa, pb, pc, pd, out, n, ma, mb, mc, md, keep, k):  # type: ignore[no-untyped-def]
        return floating(op, pa, pb, pc, out, n, ma, mb, mc, longs_at(k, CONSTANTS)) if stamp else 1

    return gate


def _conversions(stamp: int) -> Any:
    @_gate(_ROWS)
    def gate(op, pa, pb, pc, pd, out, n, ma, mb, mc, md, keep, k):  # type: ignore[no-untyped-def]
        if stamp:
            convert(op, pa, pb, out, n, ma, mb, keep, longs_at(k, CONSTANTS))
        return 0

    return gate


def _comparisons(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        row, operands, registers, lanes, here = _step(frame)
        if stamp:
            compare(row, longs_at(frame[LINE] + K0 * 8, CONSTANTS), operands, registers, lanes, here, frame[SCRATCH])
        return 0

    return gate


def _loads(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        return memory.load(*_step(frame), *_memories(frame), frame) if stamp else 1  # type: ignore[call-arg]

    return gate


def _stores(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        keys, stamps = longs_at(frame[KEYS], frame[PLACES]), offsets_at(frame[STAMPS], frame[PLACES] + 1)
        return memory.store(*_step(frame), *_memories(frame), keys, stamps, frame) if stamp else 1  # type: ignore[call-arg]

    return gate


def _packs(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        row, operands, registers, lanes, here = _step(frame)
        if row[op.OP] == op.PACK and stamp:
            rows.pack(row, operands, registers, lanes, here, frame[SCRATCH])
        else:
            rows.unpack(row, operands, registers, lanes, here, frame[SCRATCH])
        return 0

    return gate


def _warps(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        row, operands, registers, lanes, here = _step(frame)
        members = operands[row[op.SOURCE] + row[op.SOURCES] - 1, op.SLOT]
        if not warp.whole(here) or not warp.everyone(registers + members * lanes * 8, here):
            return 1
        scratch = longs_at(frame[SCRATCH], 2 * lanes)
        if row[op.OP] == op.SHUFFLE and stamp:
            warp.shuffle(row, operands, registers, lanes, here, scratch)
        else:
            warp.vote(row, operands, registers, lanes, here, scratch)
        offsets_at(frame[COUNTER_TABLE], COUNTERS)[CHANGES] += 1
        return 0

    return gate


def _copies(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        return copy.copy(*_step(frame), *_memories(frame), frame) if stamp else 1  # type: ignore[call-arg]

    return gate


def _groups(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        frame = offsets_at(state, FRAME)
        row, _, _, lanes, here = _step(frame)
        _, spaces, allocations, counters, _ = _memories(frame)
        return copy.group(row, here, lanes, spaces, allocations, counters, frame) if stamp else 1

    return gate


def _transposes(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        return matrix.transpose(*_matrix(offsets_at(state, FRAME))) if stamp else 1

    return gate


def _transfers(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        return matrix.transfer(*_matrix(offsets_at(state, FRAME))) if stamp else 1

    return gate


def _products(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        return matrix.product(*_matrix(offsets_at(state, FRAME))) if stamp else 1

    return gate


def _double_products(stamp: int) -> Any:
    @_gate(_STEP)
    def gate(state):  # type: ignore[no-untyped-def]
        return matrix.double_product(*_matrix(offsets_at(state, FRAME))) if stamp else 1

    return gate


#: First and last operation, and how their function is made.
_GATES: tuple[tuple[int, int, Callable[[int], Any], int], ...] = (
    (op.LOAD, op.LOAD, _loads, SOURCES),
    (op.STORE, op.STORE, _stores, SOURCES),
    (op.PACK, op.UNPACK, _packs, SOURCES),
    (op.SHUFFLE, op.VOTE, _warps, SOURCES),
    (op.COPY, op.COPY, _copies, SOURCES),
    (op.COPY_GROUP, op.COPY_GROUP, _groups, SOURCES),
    (op.INTEGER_FIRST, op.INTEGER_LAST, _integers, SOURCES),
    (op.COMPARE_FIRST, op.COMPARE_LAST, _comparisons, SOURCES),
    (op.FLOAT_FIRST, op.FLOAT_LAST, _floats, SOURCES),
    (op.CONVERT_FIRST, op.CONVERT_LAST, _conversions, SOURCES),
    (op.MATRIX_LOAD, op.MATRIX_STORE, _transfers, MATRIX_SOURCES),
    (op.MATRIX_TRANSPOSE, op.MATRIX_TRANSPOSE, _transposes, MATRIX_SOURCES),
    (op.PRODUCT, op.PRODUCT, _products, MATRIX_SOURCES),
    (op.DOUBLE_PRODUCT, op.DOUBLE_PRODUCT, _double_products, MATRIX_SOURCES),
    (op.WARPGROUP_PRODUCT, op.WARPGROUP_PRODUCT, _products, MATRIX_SOURCES),
)

#: The addresses, by operation; 0 where no program has needed one yet.
FUNCTIONS: npt.NDArray[np.int64] = np.zeros(op.OPERATIONS, np.int64)


@cache
def _made(make: Callable[[int], Any], stamp: int) -> Any:
    """The compiled function, which lives as long as the process."""
    return make(stamp)


def provide(operations: Iterable[int]) -> None:
    """See to it that the functions of some operations have addresses."""
    for first, last, make, stamp in _GATES:
        if any(first <= operation <= last for operation in operations):
            FUNCTIONS[first : last + 1] = _made(make, stamp).address
