"""What numba lacks: arrays at known addresses, and the processor's instructions on bits and floats.

All are used inside compiled functions only. The array at an address is not kept alive by its view: whoever hands out an
address keeps the array for as long as compiled code may use it.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tileproof.simulators.ptx.fast.parts import inlined

Emit = Callable[..., Any]


def _instruction(emit: Emit, result: Any = None) -> Any:
    """A compiled function whose body is LLVM's: `emit(builder, values)`; the result's type, or the first operand's."""

    def typed(context: Any, *arguments: Any) -> tuple[Any, Emit]:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, *values)

        return (result or arguments[0])(*arguments), generate

    return typed


def _unary(emit: Emit, result: Any = None) -> Any:
    typed = _instruction(emit, result)

    def one(context: Any, a: Any) -> tuple[Any, Emit]:
        pair: tuple[Any, Emit] = typed(context, a)
        return pair

    return intrinsic(one)


def _ternary(emit: Emit) -> Any:
    typed = _instruction(emit)

    def three(context: Any, a: Any, b: Any, c: Any) -> tuple[Any, Emit]:
        pair: tuple[Any, Emit] = typed(context, a, b, c)
        return pair

    return intrinsic(three)


def _library(name: str) -> Any:
    """LLVM's function of this name on f32 and f64."""

    def call(builder: Any, value: Any) -> Any:
        full = f"llvm.{name}.{'f32' if value.type == ir.FloatType() else 'f64'}"
        function = builder.module.globals.get(full) or ir.Function(
            builder.module, ir.FunctionType(value.type, (value.type,)), full
        )
        return builder.call(function, (value,))

    return _unary(call)


_WORD, _LONG, _SINGLE, _DOUBLE = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()

as_pointer = _unary(lambda builder, address: builder.inttoptr(address, cgutils.voidptr_t), types.voidptr)
#: f32 and f64 of raw bits, and back.
single = _unary(lambda builder, bits: builder.bitcast(builder.trunc(bits, _WORD), _SINGLE), types.float32)
double = _unary(lambda builder, bits: builder.bitcast(bits, _DOUBLE), types.float64)
single_bits = _unary(lambda builder, value: builder.zext(builder.bitcast(value, _WORD), _LONG), types.uint64)
double_bits = _unary(lambda builder, value: builder.bitcast(value, _LONG), types.uint64)
#: x · y + z with one rounding.
fused = _ternary(lambda builder, x, y, z: builder.fma(x, y, z))
#: The correctly rounded square root.
root = _library("sqrt")
#: To an integral value: to nearest even, toward zero, down, up.
nearest, toward_zero, down, up = _library("rint"), _library("trunc"), _library("floor"), _library("ceil")
count_ones = _unary(lambda builder, bits: builder.ctpop(bits))
#: Of 0 this is 64.
leading_zeros = _unary(lambda builder, bits: builder.ctlz(bits, ir.Constant(ir.IntType(1), 0)))
reverse_bits = _unary(lambda builder, bits: builder.bitreverse(bits))


def _typed_call(context: Any, address: Any, arguments: Any) -> tuple[Any, Emit]:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.unpack_tuple(builder, values[1])
        kind = ir.FunctionType(_LONG, [_LONG] * len(given))
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)

    return types.int64(address, arguments), generate


#: The function at an address, called with a tuple of 64-bit numbers.
call = intrinsic(_typed_call)


@inlined
def table_at(address: Any, rows: Any, columns: Any) -> Any:
    """The int64 table [rows, columns] at an address."""
    return numba.carray(as_pointer(address), (rows, columns), np.int64)


@inlined
def values_at(address: Any, rows: Any, columns: Any) -> Any:
    """The rows of 64-bit words [rows, columns] at an address."""
    return numba.carray(as_pointer(address), (rows, columns), np.uint64)


@inlined
def bytes_at(address: Any, count: Any) -> Any:
    """The `count` bytes at an address."""
    return numba.carray(as_pointer(address), (count,), np.uint8)


@inlined
def halves_at(address: Any, count: Any) -> Any:
    """The `count` 16-bit words at an address."""
    return numba.carray(as_pointer(address), (count,), np.uint16)


@inlined
def words_at(address: Any, count: Any) -> Any:
    """The `count` 32-bit words at an address."""
    return numba.carray(as_pointer(address), (count,), np.uint32)


@inlined
def longs_at(address: Any, count: Any) -> Any:
    """The `count` 64-bit words at an address."""
    return numba.carray(as_pointer(address), (count,), np.uint64)


@inlined
def offsets_at(address: Any, count: Any) -> Any:
    """The `count` signed 64-bit words at an address."""
    return numba.carray(as_pointer(address), (count,), np.int64)


@numba.njit(inline="always")
def counts_at(address: Any, count: Any) -> Any:
    """The `count` signed 32-bit words at an address."""
    return numba.carray(as_pointer(address), (count,), np.int32)
