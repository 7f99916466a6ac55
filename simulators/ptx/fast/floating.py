"""f32 and f64 arithmetic to nearest of one run of lanes: the processor's own, which is IEEE 754's, and PTX's NaN.

With `.ftz` a result equal to the smallest normal number may have been rounded up from a tiny one, which PTX flushes:
the step is handed back and `alu` decides.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import (
    ABSOLUTE_DOUBLE,
    ABSOLUTE_SINGLE,
    ADD_DOUBLE,
    ADD_SINGLE,
    DIVIDE_DOUBLE,
    DIVIDE_SINGLE,
    FUSED_DOUBLE,
    FUSED_SINGLE,
    GREATER_SINGLE,
    LESSER_SINGLE,
    MULTIPLY_DOUBLE,
    MULTIPLY_SINGLE,
    NEGATE_DOUBLE,
    NEGATE_SINGLE,
    ROOT_DOUBLE,
    ROOT_SINGLE,
    SUBTRACT_DOUBLE,
    SUBTRACT_SINGLE,
)
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.pointers import (
    double,
    double_bits,
    fused,
    longs_at,
    root,
    single,
    single_bits,
)

_ZERO = np.uint64(0)
_SIGN32, _SIZE32, _NAN32 = np.uint64(0x8000_0000), np.uint64(0x7FFF_FFFF), np.uint64(0x7FFF_FFFF)
_INFINITY32, _NORMAL32, _ONE32 = np.uint64(0x7F80_0000), np.uint64(0x0080_0000), np.uint64(0x3F80_0000)
_SIGN64, _SIZE64 = np.uint64(1 << 63), np.uint64((1 << 63) - 1)
_INFINITY64, _QUIET64 = np.uint64(0x7FF0_0000_0000_0000), np.uint64(0x0008_0000_0000_0000)
_NAN64 = np.uint64(0xFFF8_0000_0000_0000)


@inlined
def _flushed(code: Any, tiny: Any) -> Any:
    """Numbers below `tiny`, as codes, to zero of their sign."""
    return code & _SIGN32 if code & _SIZE32 < tiny else code


@inlined
def _code(value: Any) -> Any:
    return single_bits(value) if value == value else _NAN32


@inlined
def _ordered(code: Any) -> Any:
    """Codes as unsigned integers in the order of their values; -0 comes before +0."""
    return _SIGN32 - (code & _SIZE32) - np.uint64(1) if code & _SIGN32 else code | _SIGN32


@inlined
def _number(first: Any, second: Any, chosen: Any, propagate: Any) -> Any:
    """The chosen of two operands, or what NaN makes of it."""
    first_nan, second_nan = first & _SIZE32 > _INFINITY32, second & _SIZE32 > _INFINITY32
    if (first_nan and second_nan) or (propagate and (first_nan or second_nan)):
        return _NAN32
    return second if first_nan else first if second_nan else chosen


@inlined
def _is_nan(code: Any) -> Any:
    return code & _SIZE64 > _INFINITY64


@inlined
def _double_code(value: Any, first: Any, second: Any, third: Any) -> Any:
    """Bits of a result; of a NaN the first operand, of those given, that is one, made quiet."""
    if value == value:
        return double_bits(value)
    nan = first if _is_nan(first) else second if _is_nan(second) else third if _is_nan(third) else _NAN64
    return nan | _QUIET64


@part
def floating(op: Any, pa: Any, pb: Any, pc: Any, p_out: Any, n: Any, ma: Any, mb: Any, mc: Any, k: Any) -> Any:
    """One operation.

    Args:
        op: its number.
        pa, pb, pc: addresses of the source rows; unused ones are any row.
        p_out: address of the result's row, none of the sources.
        n: length of the rows.
        ma, mb, mc: masks of the sources.
        k: least normal f32 where subnormals are flushed, else 0; 1 for `.sat`; 1 where one NaN makes the result NaN.

    Returns:
        0, or 1 for a result that only `alu` can decide; its row is then of no use.
    """
    a, b, c, out = longs_at(pa, n), longs_at(pb, n), longs_at(pc, n), longs_at(p_out, n)
    tiny, saturate, propagate = k[0], k[1], k[2]
    if op == ADD_SINGLE:
        for i in range(n):
            out[i] = _code(single(_flushed(a[i] & ma, tiny)) + single(_flushed(b[i] & mb, tiny)))
    elif op == SUBTRACT_SINGLE:
        for i in range(n):
            out[i] = _code(single(_flushed(a[i] & ma, tiny)) - single(_flushed(b[i] & mb, tiny)))
    elif op == MULTIPLY_SINGLE:
        for i in range(n):
            out[i] = _code(single(_flushed(a[i] & ma, tiny)) * single(_flushed(b[i] & mb, tiny)))
    elif op == FUSED_SINGLE:
        for i in range(n):
            x, y = single(_flushed(a[i] & ma, tiny)), single(_flushed(b[i] & mb, tiny))
            out[i] = _code(fused(x, y, single(_flushed(c[i] & mc, tiny))))
    elif op == DIVIDE_SINGLE:
        for i in range(n):
            out[i] = _code(single(_flushed(a[i] & ma, tiny)) / single(_flushed(b[i] & mb, tiny)))
    elif op == ROOT_SINGLE:
        for i in range(n):
            out[i] = _code(root(single(_flushed(a[i] & ma, tiny))))
    elif op == LESSER_SINGLE:
        for i in range(n):
            x, y = _flushed(a[i] & ma, tiny), _flushed(b[i] & mb, tiny)
            out[i] = _number(x, y, x if _ordered(x) < _ordered(y) else y, propagate)
        return 0
    elif op == GREATER_SINGLE:
        for i in range(n):
            x, y = _flushed(a[i] & ma, tiny), _flushed(b[i] & mb, tiny)
            out[i] = _number(x, y, y if _ordered(x) < _ordered(y) else x, propagate)
        return 0
    elif op == NEGATE_SINGLE:
        for i in range(n):
            x = _flushed(a[i] & ma, tiny)
            out[i] = _NAN32 if x & _SIZE32 > _INFINITY32 else x ^ _SIGN32
        return 0
    elif op == ABSOLUTE_SINGLE:
        for i in range(n):
            x = _flushed(a[i] & ma, tiny)
            out[i] = _NAN32 if x & _SIZE32 > _INFINITY32 else x & _SIZE32
        return 0
    elif op == ADD_DOUBLE:
        for i in range(n):
            out[i] = _double_code(double(a[i]) + double(b[i]), b[i], a[i], _ZERO)
    elif op == SUBTRACT_DOUBLE:
        for i in range(n):
            out[i] = _double_code(double(a[i]) - double(b[i]), b[i], a[i], _ZERO)
    elif op == MULTIPLY_DOUBLE:
        for i in range(n):
            out[i] = _double_code(double(a[i]) * double(b[i]), b[i], a[i], _ZERO)
    elif op == FUSED_DOUBLE:
        for i in range(n):
            out[i] = _double_code(fused(double(a[i]), double(b[i]), double(c[i])), b[i], c[i], a[i])
    elif op == DIVIDE_DOUBLE:
        for i in range(n):
            out[i] = _double_code(double(a[i]) / double(b[i]), a[i], b[i], _ZERO)
    elif op == ROOT_DOUBLE:
        for i in range(n):
            out[i] = _double_code(root(double(a[i])), a[i], _ZERO, _ZERO)
    elif op == NEGATE_DOUBLE:
        for i in range(n):
            out[i] = a[i] | _QUIET64 if _is_nan(a[i]) else a[i] ^ _SIGN64
    elif op == ABSOLUTE_DOUBLE:
        for i in range(n):
            out[i] = a[i] | _QUIET64 if _is_nan(a[i]) else a[i] & _SIZE64
    if tiny:
        doubtful = _ZERO
        for i in range(n):
            size = out[i] & _SIZE32
            doubtful |= np.uint64(size == _NORMAL32)
            out[i] = out[i] & _SIGN32 if size < _NORMAL32 else out[i]
        if doubtful:
            return 1
    if saturate:
        for i in range(n):
            code = out[i]
            code = _ZERO if code & _SIGN32 or code > _INFINITY32 else code
            out[i] = code if code < _ONE32 else _ONE32
    return 0
