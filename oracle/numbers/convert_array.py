"""The array twin of `convert`: the same conversions on whole arrays, integer operations on uint64 bit patterns only.

A value is taken apart into `Parts`, significand · 2^exponent, and put together again as a code of another format; so
decoding is a conversion to FLOAT64, encoding one from a source format, and an integer is its own significand.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.format_record import FormatRecord, Specials
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[Any]

_ONE = np.uint64(1)
#: Elements converted at a time.
_CHUNK = 2**15


@dataclass(frozen=True)
class Parts:
    """Numbers taken apart, one array of the same shape for each part."""

    negative: Flags
    #: |value| = significand · 2^exponent where finite; the significand is any uint64, not normalised.
    significand: Bits
    exponent: npt.NDArray[np.int64]
    infinite: Flags
    nan: Flags


def in_chunks(convert: Callable[[Codes], Codes], array: Codes, dtype: np.dtype[Any]) -> Codes:
    """Applies an elementwise conversion a piece at a time, so that what it computes in between stays in the cache."""
    flat = array.reshape(-1)
    results = np.empty(flat.shape, dtype)
    for start in range(0, flat.size, _CHUNK):
        results[start : start + _CHUNK] = convert(flat[start : start + _CHUNK])
    return results.reshape(array.shape)


def split_codes(record: FormatRecord, codes: Codes) -> Parts:
    """Takes codes of one format apart; the codes must not be wider than the format."""
    bits = codes.astype(np.uint64)
    magnitude = bits & np.uint64(record.magnitude_mask)
    infinite = magnitude == record.top_field if record.has_infinity else np.zeros(bits.shape, np.bool_)
    nan = (magnitude > record.max_code) & ~infinite
    if record.specials is Specials.NEGATIVE_ZERO_NAN:
        nan |= bits == record.sign_bit
    field = (magnitude >> np.uint64(record.mantissa_bits)).astype(np.int64)
    hidden = ((field > 0) | (not record.has_subnormals)).astype(np.uint64) << np.uint64(record.mantissa_bits)
    return Parts(
        negative=(bits & np.uint64(record.sign_bit)) != 0,
        significand=(magnitude & np.uint64(2**record.mantissa_bits - 1)) | hidden,
        exponent=np.maximum(field - record.bias, record.min_exponent) - record.mantissa_bits,
        infinite=infinite,
        nan=nan,
    )


def split_integers(values: npt.NDArray[np.integer[Any]]) -> Parts:
    """Takes integers of any width apart, exactly; the smallest int64 included."""
    negative = values < 0
    bits = values.astype(np.uint64)  # wraps below zero: 2^64 - |value|
    never = np.zeros(values.shape, np.bool_)
    return Parts(negative, np.where(negative, ~bits + _ONE, bits), np.zeros(values.shape, np.int64), never, never)


def join_parts(record: FormatRecord, parts: Parts, rounding: Rounding, overflow: Overflow) -> Codes:
    """Puts parts together as codes of `record`, rounded once; the rules are those of `convert.encode_number`.

    Raises:
        Refusal: the format lacks the overflow mode, or has no code for one of the values.
    """
    beyond = record.overflow_code(overflow)
    if not record.signed:
        _require_positive(record, parts)
    magnitude = _round_magnitude(record, parts, rounding)
    leaves = np.where(parts.negative, rounding.leaves_range(True), rounding.leaves_range(False))
    magnitude = np.where(magnitude > record.max_code, np.where(leaves, beyond, record.max_code), magnitude)
    magnitude = np.where(parts.infinite, beyond, magnitude)
    signed = parts.negative & ((magnitude != 0) | record.has_negative_zero)
    codes = magnitude.astype(np.uint64) | np.where(signed, np.uint64(record.sign_bit), np.uint64(0))
    return np.asarray(np.where(parts.nan, np.uint64(record.nan_code), codes).astype(record.code_dtype))


def _round_magnitude(record: FormatRecord, parts: Parts, rounding: Rounding) -> npt.NDArray[np.int64]:
    """The code that |value| has when the exponent field may grow without end; anything where not finite."""
    top = parts.exponent + (_bit_length(parts.significand) - 1)
    binade = np.where(parts.significand == 0, record.min_exponent, np.maximum(top, record.min_exponent))
    steps, half, sticky = _shift_right(parts.significand, binade - record.mantissa_bits - parts.exponent)
    code = ((binade - record.min_exponent) << record.mantissa_bits) + steps.astype(np.int64)
    if not record.has_subnormals:
        code -= 2**record.mantissa_bits
    code += _rounds_away(rounding, parts.negative, (code & 1) == 1, half, sticky)
    return np.asarray(np.maximum(code, 0))


def _rounds_away(rounding: Rounding, negative: Flags, odd: Flags, half: Flags, sticky: Flags) -> Flags:
    match rounding:
        case Rounding.NEAREST_EVEN:
            return half & (sticky | odd)
        case Rounding.TOWARD_ZERO:
            return np.zeros(negative.shape, np.bool_)
        case Rounding.UP:
            return (half | sticky) & ~negative
        case Rounding.DOWN:
            return (half | sticky) & negative


def _shift_right(significand: Bits, places: npt.NDArray[np.int64]) -> tuple[Bits, Flags, Flags]:
    """Shifts right by `places` (left where negative): what is kept, the first bit cut off, whether any other was set.

    A left shift loses nothing: a significand that short has its top bit at `mantissa_bits` afterwards.
    """
    left = significand << np.clip(-places, 0, 63).astype(np.uint64)
    # Shifting by 64 is undefined for uint64, so one place fewer is shifted out and the last bit taken afterwards.
    all_but_one = np.clip(places - 1, 0, 63).astype(np.uint64)
    doubled = np.where(places > 64, np.uint64(0), significand >> all_but_one)
    cut = np.where(places > 64, significand, significand & ((_ONE << all_but_one) - _ONE))
    right = places > 0
    return np.where(right, doubled >> _ONE, left), right & ((doubled & _ONE) != 0), right & (cut != 0)


def _bit_length(values: Bits) -> npt.NDArray[np.int64]:
    """Position of the highest set bit, counted from 1; 0 for 0."""
    length = np.zeros(values.shape, np.int64)
    rest = values
    for width in (32, 16, 8, 4, 2, 1):
        large = (rest >> np.uint64(width)) != 0
        length += np.where(large, width, 0)
        rest = np.where(large, rest >> np.uint64(width), rest)
    return length + rest.astype(np.int64)


def _require_positive(record: FormatRecord, parts: Parts) -> None:
    zero = (parts.significand == 0) & ~parts.infinite
    refused = (parts.negative | zero) & ~parts.nan
    if refused.any():
        count, zeros = int(refused.sum()), int((refused & zero).sum())
        raise Refusal(
            f"{record.name} has no zero and no negative values; among the values are {zeros} zeros and "
            f"{count - zeros} negative ones",
            hint="clip them to the smallest value",
        )
