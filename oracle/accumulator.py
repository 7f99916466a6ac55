"""Compiled helpers on one accumulator value: float32 or float16 taken apart, rounded, added and put together.

A value is a pair: signed significand with the format's mantissa bits, and exponent, as `term_array` has terms; zero has
no sign, which loses nothing, because every sum here that is zero is +0. Everything is int64. A sum is total · 2^step,
|total| < 2^53. `half` chooses float16; otherwise float32.
"""

import numpy as np

from tileproof.oracle.compiled import inlined
from tileproof.oracle.term_array import INFINITE, NAN, ZERO

# Written out, because compiled code takes integers of a module as constants, and no records.
_NAN_32, _INFINITY_32, _SIGN_32 = 0x7FFFFFFF, 0x7F800000, 0x80000000
_NAN_16, _INFINITY_16, _SIGN_16 = 0x7FFF, 0x7C00, 0x8000

#: Two 24-bit significands with these, added, stay below 2^53.
_GUARD_BITS = 27

#: What takes part in a sum that is not finite, as bits.
POSITIVE_INFINITY, NEGATIVE_INFINITY, ANY_NAN = 1, 2, 4


@inlined
def bit_length(magnitude: int) -> int:
    """Bits of an integer from 1 to 2^53 - 1: the exponent field of the float64 that it is exactly."""
    return int((np.float64(magnitude).view(np.int64) >> 52) - 1022)


@inlined
def shifted(magnitude: int, places: int) -> int:
    """magnitude · 2^places, cut; the result must fit."""
    return (magnitude << max(places, 0)) >> min(max(-places, 0), 63)


@inlined
def aligned(significand: int, exponent: int, largest: int, left: int) -> int:
    """A signed significand moved left by `left` and right by what its exponent is below the largest, cut."""
    sign = significand >> 63
    return (shifted((significand ^ sign) - sign, left - (largest - exponent)) ^ sign) - sign


@inlined
def split(code: int, half: bool) -> tuple[int, int]:
    """The value of a code."""
    mantissa_bits, bias, infinity = (10, 15, _INFINITY_16) if half else (23, 127, _INFINITY_32)
    sign = _SIGN_16 if half else _SIGN_32
    magnitude = code & (sign - 1)
    negative = code & sign != 0
    if magnitude >= infinity:
        return (0, NAN) if magnitude > infinity else (-1 if negative else 1, INFINITE)
    if magnitude == 0:
        return 0, ZERO
    field = magnitude >> mantissa_bits
    significand = magnitude & ((1 << mantissa_bits) - 1)
    if field > 0:
        significand |= 1 << mantissa_bits
    return (-significand if negative else significand), max(field, 1) - bias


@inlined
def join(significand: int, exponent: int, half: bool) -> int:
    """The code of a value."""
    mantissa_bits, least = (10, -14) if half else (23, -126)
    if exponent >= INFINITE:
        nan, infinity = (_NAN_16, _INFINITY_16) if half else (_NAN_32, _INFINITY_32)
        code = nan if exponent >= NAN else infinity
    elif significand == 0:
        code = 0
    else:
        # The leading bit of a normal significand adds one to the exponent field.
        code = ((exponent - least) << mantissa_bits) + abs(significand)
    return code | (_SIGN_16 if half else _SIGN_32) if significand < 0 else code


@inlined
def rounded(total: int, step: int, half: bool, kept_bits: int) -> tuple[int, int]:
    """The value of a sum: float16 to nearest even, float32 cut to `kept_bits`."""
    return nearest(total, step, True) if half else _cut(total, step, kept_bits)


@inlined
def _cut(total: int, step: int, kept_bits: int) -> tuple[int, int]:
    """float32, toward zero; from 2^128 on infinity."""
    sign = total >> 63
    magnitude = (total ^ sign) - sign
    if magnitude == 0:
        return 0, ZERO
    exponent = max(bit_length(magnitude) - 1 + step, -126)
    if exponent > 127:
        return sign | 1, INFINITE
    kept = shifted(magnitude, step - (exponent - kept_bits)) << (23 - kept_bits)
    return (kept ^ sign) - sign, exponent if kept else ZERO


@inlined
def nearest(total: int, step: int, half: bool) -> tuple[int, int]:
    """float16 or float32, to nearest even."""
    mantissa_bits, least, most = (10, -14, 15) if half else (23, -126, 127)
    sign = total >> 63
    magnitude = (total ^ sign) - sign
    if magnitude == 0:
        return 0, ZERO
    exponent = max(bit_length(magnitude) - 1 + step, least)
    places = min(exponent - mantissa_bits - step, 60)
    right = max(places, 0)
    magnitude <<= max(-places, 0)
    kept = magnitude >> right
    # Up where the rest is more than half a step, or half a step and the last bit kept is odd.
    kept += int((magnitude - (kept << right)) * 2 + (kept & 1) > 1 << right)
    carry = kept >> (mantissa_bits + 1)
    exponent += carry
    if exponent > most:
        return sign | 1, INFINITE
    kept >>= carry
    return (kept ^ sign) - sign, exponent if kept else ZERO


@inlined
def add(x_significand: int, x_exponent: int, y_significand: int, y_exponent: int, half: bool) -> tuple[int, int]:
    """x + y to nearest even, as `rounded_sum.add`."""
    largest = max(x_exponent, y_exponent)
    if largest >= INFINITE:
        return special(what(x_significand, x_exponent) | what(y_significand, y_exponent))
    total = _guarded(x_significand, largest - x_exponent) + _guarded(y_significand, largest - y_exponent)
    return nearest(total, largest - (10 if half else 23) - _GUARD_BITS, half)


@inlined
def _guarded(significand: int, places: int) -> int:
    """A significand moved right with `_GUARD_BITS` more bits, the last of which says whether anything was lost.

    Nothing is lost within that many places. Beyond, the other addend is normal and its leading bit moves by one place
    at most, so that the last guard bit stays far below the rounding.
    """
    sign = significand >> 63
    magnitude = ((significand ^ sign) - sign) << _GUARD_BITS
    places = min(places, 62)
    moved = magnitude >> places
    moved |= int(moved << places != magnitude)
    return (moved ^ sign) - sign


@inlined
def what(significand: int, exponent: int) -> int:
    """Which infinity or NaN a value is; 0 for a finite one."""
    if exponent < INFINITE:
        return 0
    if exponent >= NAN:
        return ANY_NAN
    return POSITIVE_INFINITY if significand > 0 else NEGATIVE_INFINITY


@inlined
def special(parts: int) -> tuple[int, int]:
    """The value of a sum in which these take part."""
    if parts == POSITIVE_INFINITY:
        return 1, INFINITE
    if parts == NEGATIVE_INFINITY:
        return -1, INFINITE
    return 0, NAN
