"""The fast twin of `convert`: compiled loops that encode into, and decode from, arrays that the caller owns.

One integer formula serves every signed target from float32, float16 and bfloat16, by nearest-even. With m target
mantissa bits, a source mantissa of s bits and e0 the source's exponent field of the target's smallest normal value:

    field    = max(exponent field, 1)                   subnormals lie in the binade of field 1
    shift    = s - m + max(e0 - field, 0)               bits cut off: more of them below the smallest normal value
    steps    = (significand + half - 1 + odd) >> shift  half = 2^(shift - 1), odd = the lowest bit kept
    code     = (max(field - e0, 0) << m) + steps        a carry out of the mantissa is the next binade

Example, 17.0 to E4M3FN (s = 23, m = 3, e0 = 121): field 131, significand 0x880000, shift 20: 8 steps and a half,
8 is even, so 8 stay; (10 << 3) + 8 = 0x58, the code of 16.

All arithmetic is on int32, where nothing overflows: significands have at most 24 bits, and a shift of 30 or more, which
is cut to 30, leaves 0 as it should. `sweep` compares every float32 pattern with the table form, and the tests hold the
twin to the definition.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.compiled import compiled
from tileproof.oracle.numbers.format_record import FormatRecord
from tileproof.oracle.numbers.rounding import Overflow

Codes = npt.NDArray[Any]


class EncodePlan(NamedTuple):
    """The numbers of one conversion, each int32."""

    target_mantissa: np.int32
    source_mantissa: np.int32
    #: The source's exponent field of the target's smallest normal value.
    smallest_normal: np.int32
    source_magnitude: np.int32
    #: The magnitude of the source's infinity; more is NaN.
    source_infinity: np.int32
    #: How far the source's sign bit lies above the target's.
    sign_shift: np.int32
    sign_bit: np.int32
    max_code: np.int32
    #: What a magnitude beyond `max_code` becomes.
    beyond: np.int32
    nan_code: np.int32
    #: The sign bit of a zero result: 0 where -0 has no code.
    zero_sign: np.int32


def can_encode(target: FormatRecord, source: FormatRecord) -> bool:
    """Whether the formula holds: a signed target with a shorter mantissa and no finer subnormals than the source."""
    return (
        target.signed
        and source.bits in (16, 32)
        and target.bits <= 16
        and target.mantissa_bits < source.mantissa_bits
        and target.min_exponent >= source.min_exponent
    )


def plan_encode(target: FormatRecord, source: FormatRecord, overflow: Overflow) -> EncodePlan:
    """The numbers for one pair of formats; `can_encode` must hold.

    Raises:
        Refusal: the target lacks the overflow mode.
    """
    numbers = (
        target.mantissa_bits,
        source.mantissa_bits,
        target.min_exponent + source.bias,
        source.magnitude_mask,
        source.top_field,
        source.bits - target.bits,
        target.sign_bit,
        target.max_code,
        target.overflow_code(overflow),
        target.nan_code,
        target.sign_bit if target.has_negative_zero else 0,
    )
    return EncodePlan(*(np.int32(number) for number in numbers))


@compiled
def encode_bits(bits: Codes, codes: Codes, plan: EncodePlan) -> None:
    """Encodes source patterns.

    Args:
        bits: int32 [n] or int16 [n], the source's bit patterns.
        codes: uint8 [n] or uint16 [n], written.
        plan: of the two formats.
    """
    one, zero = np.int32(1), np.int32(0)
    for i in range(bits.size):
        pattern = np.int32(bits[i])
        magnitude = pattern & plan.source_magnitude
        field = magnitude >> plan.source_mantissa
        binade = max(field, one)
        hidden = np.int32(field > zero) << plan.source_mantissa
        significand = (magnitude & np.int32((one << plan.source_mantissa) - one)) | hidden
        below = max(np.int32(plan.smallest_normal - binade), zero)
        shift = min(np.int32(plan.source_mantissa - plan.target_mantissa + below), np.int32(30))
        half = np.int32((one << np.int32(shift - one)) - one)
        steps = np.int32(significand + half + ((significand >> shift) & one)) >> shift
        code = np.int32((max(np.int32(binade - plan.smallest_normal), zero) << plan.target_mantissa) + steps)
        code = plan.beyond if code > plan.max_code else code
        sign = (pattern >> plan.sign_shift) & plan.sign_bit
        code |= (sign & plan.zero_sign) if code == zero else sign
        codes[i] = plan.nan_code if magnitude > plan.source_infinity else code


@compiled
def look_up(codes: Codes, out: Codes, values: Codes) -> None:
    """Decodes: `out[i] = values[codes[i]]`.

    Args:
        codes: uint8 [n] or uint16 [n].
        out: float32 [n] or float64 [n], written.
        values: the value of each code, of the type of `out`.
    """
    for i in range(codes.size):
        out[i] = values[codes[i]]
