"""Conversions between floating-point formats and integers of one run of lanes, to nearest where they round."""

from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast.layout import (
    BFLOAT_TO_SINGLE,
    BYTES_TO_HALVES,
    DOUBLE_TO_INTEGER,
    DOUBLE_TO_SINGLE,
    HALF_TO_SINGLE,
    HALVES_TO_BYTES,
    INTEGER_TO_DOUBLE,
    INTEGER_TO_SINGLE,
    PAIR_TO_BFLOATS,
    PAIR_TO_BYTES,
    PAIR_TO_HALVES,
    SINGLE_TO_BFLOAT,
    SINGLE_TO_DOUBLE,
    SINGLE_TO_HALF,
    SINGLE_TO_INTEGER,
    SINGLE_TO_INTEGRAL,
)
from tileproof.simulators.ptx.fast.parts import inlined, part
from tileproof.simulators.ptx.fast.pointers import (
    double,
    double_bits,
    down,
    longs_at,
    nearest,
    single,
    single_bits,
    toward_zero,
    up,
)

_ZERO, _ONE, _BYTE, _HALF = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(16)
_SIGN32, _SIZE32, _NAN32, _INFINITY32 = (np.uint64(n) for n in (1 << 31, 0x7FFF_FFFF, 0x7FFF_FFFF, 0x7F80_0000))
_SIGN64, _SIZE64 = np.uint64(1 << 63), np.uint64((1 << 63) - 1)
_INFINITY64, _QUIET64 = np.uint64(0x7FF0_0000_0000_0000), np.uint64(0x0008_0000_0000_0000)
_QUIET32 = np.uint64(0x0040_0000)
_SIGN16, _SIZE16, _NAN16, _INFINITY16 = (np.uint64(n) for n in (0x8000, 0x7FFF, 0x7FFF, 0x7C00))
_FRACTION32, _BIAS32 = np.uint64(23), np.uint64(127)
# Beyond every narrow format, and small enough to be scaled: 2^17.
_LARGE32 = np.uint64((127 + 17) << 23)
_FROM_HALF, _FROM_E4M3 = np.float32(2.0**112), np.float32(2.0**120)


@inlined
def _narrowed(size: Any, fraction: Any, least: Any, top: Any) -> Any:
    """Code, without sign, of an f32 number's magnitude in a narrower format.

    Args:
        size: the magnitude's f32 code, no NaN.
        fraction: stored bits of the significand.
        least: the f32 exponent field of the smallest normal number.
        top: the largest code; what lies above becomes it.
    """
    size = size if size < _LARGE32 else _LARGE32
    exponent = size >> _FRACTION32
    exponent = exponent if exponent > least else least
    # In units of the last place; a significand that rounds up to the next power of two carries into the exponent.
    scale = single((_BIAS32 + _BIAS32 + fraction - exponent) << _FRACTION32)
    code = np.uint64(nearest(single(size) * scale)) + ((exponent - least) << fraction)
    return code if code < top else top


@inlined
def _half(code: Any, top: Any, relu: Any) -> Any:
    """f32 to f16; `top` is infinity, or the largest finite number for `.satfinite`."""
    size = code & _SIZE32
    if size > _INFINITY32:
        return _NAN16
    if relu and code & _SIGN32:
        return _ZERO
    return _narrowed(size, np.uint64(10), np.uint64(113), top) | ((code & _SIGN32) >> _HALF)


@inlined
def _bfloat(code: Any, top: Any, relu: Any) -> Any:
    """f32 to bf16: the upper half, rounded."""
    size = code & _SIZE32
    if size > _INFINITY32:
        return _NAN16
    if relu and code & _SIGN32:
        return _ZERO
    rounded = (size + np.uint64(0x7FFF) + ((size >> _HALF) & _ONE)) >> _HALF
    return (rounded if rounded < top else top) | ((code & _SIGN32) >> _HALF)


@inlined
def _byte(code: Any, fraction: Any, least: Any, top: Any, relu: Any) -> Any:
    """f32 to an 8-bit float, saturating; NaN is 0x7F."""
    size = code & _SIZE32
    if size > _INFINITY32:
        return np.uint64(0x7F)
    if relu and code & _SIGN32:
        return _ZERO
    return _narrowed(size, fraction, least, top) | ((code & _SIGN32) >> np.uint64(24))


@inlined
def _from_half(code: Any) -> Any:
    """f16 to f32."""
    size, sign = code & _SIZE16, (code & _SIGN16) << _HALF
    if size > _INFINITY16:
        return _NAN32
    if size == _INFINITY16:
        return _INFINITY32 | sign
    return single_bits(single(size << np.uint64(13)) * _FROM_HALF) | sign


@inlined
def _half_from_byte(code: Any, e4m3: Any) -> Any:
    """e4m3 or e5m2 to f16."""
    size, sign = code & np.uint64(0x7F), (code & np.uint64(0x80)) << _BYTE
    if not e4m3:
        return _NAN16 if size > np.uint64(0x7C) else (size << _BYTE) | sign
    if size == np.uint64(0x7F):
        return _NAN16
    value = single_bits(single(size << np.uint64(20)) * _FROM_E4M3)
    return _narrowed(value, np.uint64(10), np.uint64(113), _INFINITY16) | sign


@inlined
def _integral(value: Any, rounding: Any) -> Any:
    """Rounded to an integral value: 0 to nearest even, 1 toward zero, 2 down, 3 up."""
    if rounding == _ZERO:
        return nearest(value)
    if rounding == _ONE:
        return toward_zero(value)
    return down(value) if rounding == np.uint64(2) else up(value)


@inlined
def _integer(value: Any, k: Any) -> Any:
    """A double to an integer that saturates; constants as in `convert`."""
    if value != value:
        return k[4]
    whole = _integral(value, k[0])
    if whole >= double(k[5]):
        return k[2]
    if whole < double(k[6]):
        return k[3]
    return np.uint64(np.int64(whole)) if whole < 0.0 else np.uint64(whole)


@part
def convert(op: Any, pa: Any, pb: Any, p_out: Any, n: Any, ma: Any, mb: Any, keep: Any, k: Any) -> None:
    """One conversion.

    Args:
        op: its number.
        pa, pb: addresses of the source rows; unused ones are any row.
        p_out: address of the result's row, none of the sources.
        n: length of the rows.
        ma, mb: masks of the sources.
        keep: mask of the result.
        k: to 16 bits: top code, relu. To 8 bits: top code, relu, fraction bits, least exponent. From integers: sign
            bit. To integers: rounding, least normal number where subnormals are flushed, largest, smallest, result of
            a NaN, and as doubles: first number above the largest, smallest.
    """
    a, b, out = longs_at(pa, n), longs_at(pb, n), longs_at(p_out, n)
    k0, k1, k2, k3 = k[0], k[1], k[2], k[3]
    if op == SINGLE_TO_HALF:
        for i in range(n):
            out[i] = _half(a[i] & ma, k0, k1)
    elif op == SINGLE_TO_BFLOAT:
        for i in range(n):
            out[i] = _bfloat(a[i] & ma, k0, k1)
    elif op == HALF_TO_SINGLE:
        for i in range(n):
            out[i] = _from_half(a[i] & ma)
    elif op == BFLOAT_TO_SINGLE:
        for i in range(n):
            out[i] = (a[i] & ma) << _HALF
    elif op == PAIR_TO_HALVES:
        for i in range(n):
            out[i] = (_half(a[i] & ma, k0, k1) << _HALF) | _half(b[i] & mb, k0, k1)
    elif op == PAIR_TO_BFLOATS:
        for i in range(n):
            out[i] = (_bfloat(a[i] & ma, k0, k1) << _HALF) | _bfloat(b[i] & mb, k0, k1)
    elif op == PAIR_TO_BYTES:
        for i in range(n):
            upper, lower = _byte(a[i] & ma, k2, k3, k0, k1), _byte(b[i] & mb, k2, k3, k0, k1)
            out[i] = (upper << _BYTE) | lower
    elif op == HALVES_TO_BYTES:
        for i in range(n):
            upper, lower = _from_half((a[i] & ma) >> _HALF), _from_half(a[i] & np.uint64(0xFFFF))
            out[i] = (_byte(upper, k2, k3, k0, k1) << _BYTE) | _byte(lower, k2, k3, k0, k1)
    elif op == BYTES_TO_HALVES:
        for i in range(n):
            upper, lower = (a[i] >> _BYTE) & np.uint64(0xFF), a[i] & np.uint64(0xFF)
            out[i] = (_half_from_byte(upper, k0) << _HALF) | _half_from_byte(lower, k0)
    elif op == INTEGER_TO_SINGLE:
        if k0:
            for i in range(n):
                out[i] = single_bits(np.float32(np.int64(((a[i] & ma) ^ k0) - k0)))
        else:
            for i in range(n):
                out[i] = single_bits(np.float32(a[i] & ma))
    elif op == INTEGER_TO_DOUBLE:
        if k0:
            for i in range(n):
                out[i] = double_bits(np.float64(np.int64(((a[i] & ma) ^ k0) - k0)))
        else:
            for i in range(n):
                out[i] = double_bits(np.float64(a[i] & ma))
    elif op == SINGLE_TO_INTEGER:
        for i in range(n):
            code = a[i] & ma
            code = code & _SIGN32 if code & _SIZE32 < k1 else code
            out[i] = _integer(np.float64(single(code)), k) & keep
    elif op == DOUBLE_TO_INTEGER:
        for i in range(n):
            out[i] = _integer(double(a[i]), k) & keep
    elif op == SINGLE_TO_DOUBLE:
        for i in range(n):
            code = a[i] & ma
            sign, size = (code & _SIGN32) << np.uint64(32), code & _SIZE32
            nan = sign | (size << np.uint64(29)) | _INFINITY64 | _QUIET64
            out[i] = nan if size > _INFINITY32 else double_bits(np.float64(single(code)))
    elif op == DOUBLE_TO_SINGLE:
        for i in range(n):
            code = a[i]
            sign, payload = (code & _SIGN64) >> np.uint64(32), (code >> np.uint64(29)) & np.uint64(0x007F_FFFF)
            nan = sign | payload | _INFINITY32 | _QUIET32
            out[i] = nan if code & _SIZE64 > _INFINITY64 else single_bits(np.float32(double(code)))
    elif op == SINGLE_TO_INTEGRAL:
        for i in range(n):
            code = a[i] & ma
            code = code & _SIGN32 if code & _SIZE32 < k1 else code
            value = single_bits(_integral(single(code), k0))
            out[i] = _NAN32 if code & _SIZE32 > _INFINITY32 else value
