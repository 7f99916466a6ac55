"""Compiled helpers on one accumulator value: codes of float32 and float16 as integers, taken apart and put together.

Everything is int64. A sum is total · 2^step with |total| < 2^53. `half` chooses float16; otherwise float32.
"""

import numpy as np

from tileproof.oracle.compiled import inlined
from tileproof.oracle.term_array import INFINITE, NAN, ZERO

# Written out, because compiled code takes integers of a module as constants, and no records.
_NAN_32, _INFINITY_32, _SIGN_32 = 0x7FFFFFFF, 0x7F800000, 0x80000000
_NAN_16, _INFINITY_16, _SIGN_16 = 0x7FFF, 0x7C00, 0x8000

#: Two 24-bit significands with these, added, stay below 2^53.
_GUARD_BITS = 27


@inlined
def bit_length(magnitude: int) -> int:
    """Bits of an integer from 1 to 2^53 - 1: the exponent field of the float64 that it is exactly."""
    return int((np.float64(magnitude).view(np.int64) >> 52) - 1022)


@inlined
def shifted_magnitude(magnitude: int, places: int) -> int:
    """magnitude · 2^places, cut; the result must fit."""
    return magnitude << places if places >= 0 else magnitude >> min(-places, 63)


@inlined
def aligned(significand: int, exponent: int, largest: int, left: int) -> int:
    """A signed significand moved left by `left` and right by what its exponent is below the largest, cut."""
    magnitude = shifted_magnitude(abs(significand), max(left - (largest - exponent), -63))
    return -magnitude if significand < 0 else magnitude


@inlined
def split(code: int, half: bool) -> tuple[int, int]:
    """Signed significand and exponent of one code, as `term_array` has them."""
    mantissa_bits, bias, infinity = (10, 15, _INFINITY_16) if half else (23, 127, _INFINITY_32)
    sign = _SIGN_16 if half else _SIGN_32
    magnitude = code & (sign - 1)
    if magnitude > infinity:
        return 0, NAN
    negative = code & sign != 0
    if magnitude == infinity:
        return (-1 if negative else 1), INFINITE
    if magnitude == 0:
        return 0, ZERO
    field = magnitude >> mantissa_bits
    significand = magnitude & ((1 << mantissa_bits) - 1)
    if field > 0:
        significand |= 1 << mantissa_bits
    return (-significand if negative else significand), max(field, 1) - bias


@inlined
def join(total: int, step: int, half: bool, kept_bits: int) -> int:
    """The code of total · 2^step: float16 to nearest even, float32 cut to `kept_bits`; a zero is +0."""
    magnitude = abs(total)
    if magnitude == 0:
        return 0
    code = _nearest(magnitude, step, half) if half else _cut(magnitude, step, kept_bits)
    if code == 0 or total > 0:
        return code
    return code | (_SIGN_16 if half else _SIGN_32)


@inlined
def _cut(magnitude: int, step: int, kept_bits: int) -> int:
    """float32, toward zero; from 2^128 on infinity."""
    top = bit_length(magnitude) - 1 + step
    if top > 127:
        return _INFINITY_32
    binade = max(top, -126)
    kept = shifted_magnitude(magnitude, step - (binade - kept_bits))
    # The leading bit of a normal significand adds one to the exponent field.
    return ((binade + 126) << 23) + (kept << (23 - kept_bits))


@inlined
def _nearest(magnitude: int, step: int, half: bool) -> int:
    """float16 or float32, to nearest even."""
    mantissa_bits, least, most, infinity = (10, -14, 15, _INFINITY_16) if half else (23, -126, 127, _INFINITY_32)
    top = bit_length(magnitude) - 1 + step
    if top > most:
        return infinity
    binade = max(top, least)
    places = binade - mantissa_bits - step
    kept = shifted_magnitude(magnitude, -places)
    if places > 62:
        kept = 0
    elif places > 0:
        rest, tie = magnitude - (kept << places), 1 << (places - 1)
        if rest > tie or (rest == tie and kept & 1):
            kept += 1
    return min(((binade - least) << mantissa_bits) + kept, infinity)


@inlined
def add(x: int, y: int, half: bool) -> int:
    """The code of x + y, to nearest even, as `rounded_sum.add`."""
    sign = _SIGN_16 if half else _SIGN_32
    x_significand, x_exponent = split(x, half)
    y_significand, y_exponent = split(y, half)
    if max(x_exponent, y_exponent) >= INFINITE:
        infinities = infinity_of(x_significand, x_exponent) | infinity_of(y_significand, y_exponent)
        return special(infinities, max(x_exponent, y_exponent) >= NAN, half)
    if x_significand == 0 and y_significand == 0:
        return x & y & sign
    largest = max(x_exponent, y_exponent)
    total = _guarded(x_significand, largest - x_exponent) + _guarded(y_significand, largest - y_exponent)
    magnitude = abs(total)
    if magnitude == 0:
        return 0
    code = _nearest(magnitude, largest - (10 if half else 23) - _GUARD_BITS, half)
    return code | sign if total < 0 else code


@inlined
def _guarded(significand: int, places: int) -> int:
    """A significand moved right with `_GUARD_BITS` more bits, the last of which says whether anything was lost.

    Nothing is lost within that many places. Beyond, the other addend is normal and its leading bit moves by one place
    at most, so that the last guard bit stays far below the rounding.
    """
    magnitude = abs(significand) << _GUARD_BITS
    places = min(places, 62)
    moved = magnitude >> places
    if moved << places != magnitude:
        moved |= 1
    return -moved if significand < 0 else moved


@inlined
def infinity_of(significand: int, exponent: int) -> int:
    """Bit 0 for +∞, bit 1 for -∞, 0 for anything else."""
    if exponent != INFINITE:
        return 0
    return 1 if significand > 0 else 2


@inlined
def special(infinities: int, nan: bool, half: bool) -> int:
    """The code of a sum that is not finite, of the infinities in it (as `infinity_of`, joined) and whether NaN is."""
    if nan or infinities == 3:
        return _NAN_16 if half else _NAN_32
    code = _INFINITY_16 if half else _INFINITY_32
    return code if infinities == 1 else code | (_SIGN_16 if half else _SIGN_32)
