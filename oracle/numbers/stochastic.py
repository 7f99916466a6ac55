"""Stochastic rounding with given random bits: the discarded part plus the random bits decides by carry.

A magnitude lies f steps above a code, 0 <= f < 1. With r the n random bits as an integer, it goes to the next code
where f + r / 2^n >= 1, so with probability f when the bits are uniform. Bits of f below 2^-n cannot change the outcome,
because 1 - r / 2^n is a multiple of 2^-n: hardware that drops them agrees. An exact value never moves, a zero keeps its
sign, and what lies beyond the largest finite value after rounding saturates, as in `.satfinite`.

Example, E4M3FN, n = 4: 17.0 lies half a step above 16 (0x58), so r >= 8 gives 18 and r < 8 gives 16.

Source: PTX ISA 9.1, `cvt.rs.satfinite` (sm_100a and sm_103a), evidence INFERRED: how the 32-bit operand is dealt out
to the elements of a vector is not modelled; give the bits of each element.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FLOAT32, FloatFormat
from tileproof.oracle.numbers.convert import with_sign
from tileproof.oracle.numbers.convert_array import Parts, split_codes
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

#: The most random bits an element can have: a float32 has 24 significant bits and the target keeps at least one.
MAX_RANDOM_BITS = 32


def round_stochastic(record: FloatFormat, number: Number, random: int, random_bits: int) -> int:
    """The definition: the code of one exact number.

    Args:
        record: a signed format of at most 8 bits.
        number: any exact number; NaN becomes `record.nan_code`.
        random: 0 .. 2^random_bits - 1.
        random_bits: 1 .. 32.

    Raises:
        Refusal: another format, or random bits outside.
    """
    _require(record, random, random, random_bits)
    below = record.round(number, Rounding.TOWARD_ZERO, Overflow.SATURATE)
    code = below & record.magnitude_mask
    if not number.is_finite or code == record.max_code:
        return below
    low, high = record.number(code).magnitude, record.number(code + 1).magnitude
    fraction = (number.magnitude - low) / (high - low)
    carries = fraction * 2**random_bits + random >= 2**random_bits
    return with_sign(record, code + carries, number.negative)


def encode_stochastic(
    record: FloatFormat, values: npt.NDArray[np.float32], random: npt.NDArray[Any], *, random_bits: int
) -> npt.NDArray[np.uint8]:
    """The codes of float32 values; held to `round_stochastic`.

    Args:
        record: a signed format of at most 8 bits.
        values: float32, any shape.
        random: unsigned integers below 2^random_bits, the same shape.
        random_bits: 1 .. 32.

    Raises:
        Refusal: another format or type, shapes that differ, or random bits outside.
    """
    array, bits = np.asarray(values), np.asarray(random)
    if array.dtype != np.float32 or bits.dtype.kind not in "iu" or array.shape != bits.shape:
        raise Refusal(
            f"values are {array.dtype} {array.shape}, random bits {bits.dtype} {bits.shape}",
            hint="values are float32, random bits integers, and the shapes are equal",
        )
    _require(record, int(bits.min(initial=0)), int(bits.max(initial=0)), random_bits)
    parts = split_codes(FLOAT32, array.view(np.uint32))
    below = record.encode(array, rounding="toward-zero")
    moves = _carries(record, parts, bits.astype(np.uint64), random_bits)
    moves &= ~parts.nan & ~parts.infinite & ((below & record.magnitude_mask) < record.max_code)
    signed = parts.negative & ((below != 0) | moves | record.has_negative_zero)
    codes = (below & np.uint8(record.magnitude_mask)) + moves.astype(np.uint8)
    return np.where(parts.nan, below, codes | np.where(signed, record.sign_bit, 0)).astype(np.uint8)


def _carries(
    record: FloatFormat, parts: Parts, random: npt.NDArray[np.uint64], random_bits: int
) -> npt.NDArray[np.bool_]:
    """Whether the discarded bits, as a fraction of the target's step, carry out when the random bits are added."""
    # A source significand has 24 bits with the top one at 23 unless the value is subnormal, far below every step.
    top = parts.exponent + 23
    step = np.maximum(top, record.min_exponent) - record.mantissa_bits
    cut = np.clip(step - parts.exponent, 0, 60)  # bits below the step; beyond 60 the discarded part is below 2^-32
    discarded = parts.significand & ((np.uint64(1) << cut.astype(np.uint64)) - np.uint64(1))
    shift = cut - random_bits
    fraction = np.where(
        shift >= 0,
        discarded >> np.maximum(shift, 0).astype(np.uint64),
        discarded << np.maximum(-shift, 0).astype(np.uint64),
    )
    return np.asarray(fraction + random >= np.uint64(1 << random_bits))


def _require(record: FloatFormat, least: int, most: int, random_bits: int) -> None:
    if not record.signed or record.bits > 8:
        raise Refusal(f"{record.name} has no stochastic rounding", hint="signed formats of at most 8 bits have")
    if not 1 <= random_bits <= MAX_RANDOM_BITS:
        raise Refusal(f"{random_bits} random bits an element are outside 1..{MAX_RANDOM_BITS}")
    if least < 0 or most >= 1 << random_bits:
        raise Refusal(f"random bits {least}..{most} do not fit {random_bits} bits", hint="mask them first")
