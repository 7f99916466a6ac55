"""Integer, logic and bit operations of one run of lanes, on raw bits in 64-bit registers.

Operand masks cut a wider register to the operand's type; the result's mask cuts the 64-bit result to its type. A sign
bit `s` makes the value of a signed type: `(x ^ s) - s`, which is x itself where s is 0, for unsigned types. What each
operation means is defined in `alu`; only the form here is new.
"""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import (
    ABSOLUTE,
    ADD,
    AND,
    CLAMP,
    COUNT_ONES,
    COUNT_ZEROS,
    DIVIDE,
    DOT4,
    EXTEND,
    EXTRACT,
    EXTRACT_SIGNED,
    FIND,
    FUNNEL_LEFT,
    FUNNEL_RIGHT,
    INSERT,
    LOGIC3,
    MAXIMUM,
    MINIMUM,
    MOVE,
    MULTIPLY,
    MULTIPLY_ADD,
    MULTIPLY_ADD_SIGNED,
    MULTIPLY_HIGH,
    MULTIPLY_SIGNED,
    NEGATE,
    NOT,
    OR,
    PERMUTE,
    REMAINDER,
    REVERSE,
    SELECT,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    SHIFT_RIGHT_SIGNED,
    SUBTRACT,
    XOR,
)
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.pointers import count_ones, leading_zeros, longs_at, reverse_bits

_ZERO, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
_3, _4, _7, _8, _16, _24, _63, _64, _128, _255 = (np.uint64(n) for n in (3, 4, 7, 8, 16, 24, 63, 64, 128, 255))
_TOP = np.uint64(1 << 63)


@inlined
def _left(value: Any, amount: Any) -> Any:
    return value << amount if amount < _64 else _ZERO


@inlined
def _right(value: Any, amount: Any) -> Any:
    return value >> amount if amount < _64 else _ZERO


@inlined
def _high(a: Any, b: Any) -> Any:
    """The upper half of a 128-bit product."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    carry = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (carry >> _HALF)


@inlined
def _magnitude(value: Any) -> Any:
    return _ZERO - value if value & _TOP else value


@inlined
def _divided(x: Any, y: Any, signed: Any, remainder: Any) -> Any:
    """Toward zero; a remainder has the dividend's sign; a divisor of 0 gives all ones."""
    if y == _ZERO:
        return _ALL
    if not signed:
        return x % y if remainder else x // y
    u, v = _magnitude(x), _magnitude(y)
    result = u % v if remainder else u // v
    negative = (x if remainder else x ^ y) & _TOP
    return _ZERO - result if negative else result


@inlined
def _field(length: Any) -> Any:
    return ~_left(_ALL, length)


@inlined
def _extracted(a: Any, start: Any, length: Any, full: Any, bits: Any, signed: Any) -> Any:
    field = _field(length) & full
    value = _right(a, start) & field
    if not signed:
        return value
    last = start + length
    sign_position = (last if last < bits else bits) - _ONE
    inside = field & _right(full, start)
    negative = length != _ZERO and (_right(a, sign_position) & _ONE) != _ZERO
    return value | (~inside & full) if negative else value


@inlined
def _byte(source: Any, selector: Any) -> Any:
    value = (source >> ((selector & _7) * _8)) & _255
    if selector & _8:
        return _255 if value & _128 else _ZERO
    return value


@inlined
def _permuted(a: Any, b: Any, control: Any) -> Any:
    source = a | (b << _HALF)
    low = _byte(source, control) | (_byte(source, control >> _4) << _8)
    high = _byte(source, control >> _8) | (_byte(source, control >> np.uint64(12)) << _8)
    return low | (high << _16)


@inlined
def _element(value: Any, shift: Any, sign: Any) -> Any:
    return (((value >> shift) & _255) ^ sign) - sign


@inlined
def _dot4(a: Any, b: Any, c: Any, s: Any, t: Any) -> Any:
    total = c + _element(a, _ZERO, s) * _element(b, _ZERO, t) + _element(a, _8, s) * _element(b, _8, t)
    return total + _element(a, _16, s) * _element(b, _16, t) + _element(a, _24, s) * _element(b, _24, t)


@part
def integer(
    op: Any,
    pa: Any,
    pb: Any,
    pc: Any,
    pd: Any,
    p_out: Any,
    n: Any,
    ma: Any,
    mb: Any,
    mc: Any,
    md: Any,
    keep: Any,
    k: Any,
) -> None:
    """One operation on rows of equal length.

    Args:
        op: its number.
        pa, pb, pc, pd: addresses of the source rows; unused ones are any row.
        p_out: address of the result's row, none of the sources.
        n: length of the rows.
        ma, mb, mc, md: masks of the sources.
        keep: mask of the result.
        k: the operation's constants, uint64.
    """
    a, b, c, d, out = longs_at(pa, n), longs_at(pb, n), longs_at(pc, n), longs_at(pd, n), longs_at(p_out, n)
    k0, k1 = k[0], k[1]
    if op == MOVE:
        for i in range(n):
            out[i] = a[i] & ma & keep
    elif op == EXTEND:
        for i in range(n):
            out[i] = (((a[i] & ma) ^ k0) - k0) & keep
    elif op == ADD:
        for i in range(n):
            out[i] = ((a[i] & ma) + (b[i] & mb)) & keep
    elif op == SUBTRACT:
        for i in range(n):
            out[i] = ((a[i] & ma) - (b[i] & mb)) & keep
    elif op == MULTIPLY:
        for i in range(n):
            out[i] = ((a[i] & ma) * (b[i] & mb)) & keep
    elif op == MULTIPLY_SIGNED:
        for i in range(n):
            product = (((a[i] & ma) ^ k0) - k0) * (((b[i] & mb) ^ k0) - k0)
            out[i] = (product >> k1) & keep
    elif op == MULTIPLY_ADD:
        for i in range(n):
            out[i] = ((a[i] & ma) * (b[i] & mb) + (c[i] & mc)) & keep
    elif op == MULTIPLY_ADD_SIGNED:
        for i in range(n):
            product = (((a[i] & ma) ^ k0) - k0) * (((b[i] & mb) ^ k0) - k0)
            out[i] = ((product >> k1) + (c[i] & mc)) & keep
    elif op == MULTIPLY_HIGH:
        for i in range(n):
            x, y = a[i], b[i]
            product = _high(x, y)
            if k0:
                product = product - (x >> _63) * y - (y >> _63) * x
            out[i] = product
    elif op == AND:
        for i in range(n):
            out[i] = a[i] & b[i] & ma & mb
    elif op == OR:
        for i in range(n):
            out[i] = (a[i] & ma) | (b[i] & mb)
    elif op == XOR:
        for i in range(n):
            out[i] = (a[i] & ma) ^ (b[i] & mb)
    elif op == NOT:
        for i in range(n):
            out[i] = (a[i] & ma) ^ keep
    elif op == SHIFT_LEFT:
        for i in range(n):
            out[i] = _left(a[i] & ma, b[i] & mb) & keep
    elif op == SHIFT_RIGHT:
        for i in range(n):
            out[i] = _right(a[i] & ma, b[i] & mb)
    elif op == SHIFT_RIGHT_SIGNED:
        for i in range(n):
            amount = b[i] & mb
            value = np.int64(((a[i] & ma) ^ k0) - k0)
            out[i] = np.uint64(value >> np.int64(amount if amount < _63 else _63)) & keep
    elif op == MINIMUM:
        for i in range(n):
            x, y = a[i] & ma, b[i] & mb
            out[i] = x if (x ^ k0) < (y ^ k0) else y
    elif op == MAXIMUM:
        for i in range(n):
            x, y = a[i] & ma, b[i] & mb
            out[i] = y if (x ^ k0) < (y ^ k0) else x
    elif op == SELECT:
        for i in range(n):
            chosen = _ZERO - ((c[i] & _ONE) ^ k0)
            out[i] = (a[i] & ma & chosen) | (b[i] & mb & ~chosen)
    elif op == NEGATE:
        for i in range(n):
            out[i] = (_ZERO - (a[i] & ma)) & keep
    elif op == ABSOLUTE:
        for i in range(n):
            out[i] = _magnitude(((a[i] & ma) ^ k0) - k0) & keep
    elif op == LOGIC3:
        t0, t1, t2, t3 = k[0], k[1], k[2], k[3]
        t4, t5, t6, t7 = k[4], k[5], k[6], k[7]
        for i in range(n):
            x, y, z = a[i], b[i], c[i]
            zero = (~y & ((~z & t0) | (z & t1))) | (y & ((~z & t2) | (z & t3)))
            one = (~y & ((~z & t4) | (z & t5))) | (y & ((~z & t6) | (z & t7)))
            out[i] = ((~x & zero) | (x & one)) & keep
    elif op == DIVIDE or op == REMAINDER:
        for i in range(n):
            x, y = ((a[i] & ma) ^ k0) - k0, ((b[i] & mb) ^ k0) - k0
            out[i] = _divided(x, y, k0 != _ZERO, op == REMAINDER) & keep
    elif op == COUNT_ONES:
        for i in range(n):
            out[i] = count_ones(a[i] & ma)
    elif op == COUNT_ZEROS:
        for i in range(n):
            out[i] = leading_zeros(a[i] & ma) - k0
    elif op == FIND:
        for i in range(n):
            value = ((a[i] & ma) ^ k0) - k0
            value = ~value if k0 and value & _TOP else value
            length = _64 - leading_zeros(value)
            out[i] = _LOW if length == _ZERO else (k1 - length if k1 else length - _ONE)
    elif op == REVERSE:
        for i in range(n):
            out[i] = reverse_bits(a[i] & ma) >> k0
    elif op == EXTRACT or op == EXTRACT_SIGNED:
        for i in range(n):
            out[i] = _extracted(a[i] & ma, b[i] & mb, c[i] & mc, keep, k0, op == EXTRACT_SIGNED)
    elif op == INSERT:
        for i in range(n):
            start, length = c[i] & mc, d[i] & md
            field = _left(_field(length), start) & keep
            out[i] = (b[i] & mb & ~field) | (_left(a[i] & ma, start) & field)
    elif op == FUNNEL_LEFT:
        for i in range(n):
            joined = (a[i] & ma) | ((b[i] & mb) << _HALF)
            amount = c[i] & mc & k0
            out[i] = ((joined << (amount if amount < _HALF else _HALF)) >> _HALF) & _LOW
    elif op == FUNNEL_RIGHT:
        for i in range(n):
            joined = (a[i] & ma) | ((b[i] & mb) << _HALF)
            amount = c[i] & mc & k0
            out[i] = (joined >> (amount if amount < _HALF else _HALF)) & _LOW
    elif op == PERMUTE:
        for i in range(n):
            out[i] = _permuted(a[i] & ma, b[i] & mb, c[i] & mc)
    elif op == DOT4:
        for i in range(n):
            out[i] = _dot4(a[i] & ma, b[i] & mb, c[i] & mc, k0, k1) & keep
    elif op == CLAMP:
        low, high = np.int64(k[1]), np.int64(k[2])
        for i in range(n):
            value = np.int64(((a[i] & ma) ^ k0) - k0)
            value = low if value < low else high if value > high else value
            out[i] = np.uint64(value) & keep
