"""The definition: one code to its exact number, one exact number to its code, in Python integers and Fractions.

`convert_array` does the same on arrays and is held to this file by the same tests.

Worked example, 0.0205 to E4M3FN by nearest-even. floor(log2) is -6, so the step is 2^(-6-3) = 2^-9; 0.0205 is 10.496
steps; 10 steps in the lowest normal binade are the code 0 + 10 = 0x0A; 0.496 is less than half a step, so 0x0A stays:
it is 2^-6 · (1 + 2/8) = 0.01953125.
"""

from fractions import Fraction

from tileproof.oracle.numbers.format_record import FormatRecord, Specials
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal


def decode_number(record: FormatRecord, code: int) -> Number:
    """The exact number of one code.

    Raises:
        Refusal: the code is wider than the format.
    """
    if not 0 <= code < 2**record.bits:
        raise Refusal(f"code {code} is outside 0..{2**record.bits - 1}, the codes of {record.name}")
    negative = bool(code & record.sign_bit)
    magnitude = code & record.magnitude_mask
    if record.has_infinity and magnitude == record.top_field:
        return Number(Kind.INFINITE, negative)
    if magnitude > record.max_code or (record.specials is Specials.NEGATIVE_ZERO_NAN and code == record.sign_bit):
        return Number(Kind.NAN, negative)
    field, mantissa = divmod(magnitude, 2**record.mantissa_bits)
    if field or not record.has_subnormals:
        mantissa += 2**record.mantissa_bits
    exponent = max(field - record.bias, record.min_exponent) - record.mantissa_bits
    return Number(Kind.FINITE, negative, Fraction(mantissa << max(exponent, 0), 1 << max(-exponent, 0)))


def encode_number(record: FormatRecord, number: Number, rounding: Rounding, overflow: Overflow) -> int:
    """The code of one number, rounded once.

    A NaN becomes `record.nan_code`. Where -0 has no code it becomes 0, and so does a negative value that rounds to
    zero. In a format without zero (E8M0) a value below the smallest becomes the smallest in every direction (as PTX
    `cvt.rz.ue8m0x2`), and zero and negative values are refused.

    Raises:
        Refusal: the format lacks the overflow mode, or has no code for the number.
    """
    beyond = record.overflow_code(overflow)
    if number.is_nan:
        return record.nan_code
    if not record.signed and (number.negative or number.is_zero):
        raise Refusal(f"{record.name} has no zero and no negative values", hint="clip them to the smallest value")
    if number.kind is Kind.INFINITE:
        return with_sign(record, beyond, number.negative)
    magnitude = _round_magnitude(record, number, rounding)
    if magnitude > record.max_code:
        magnitude = beyond if rounding.leaves_range(number.negative) else record.max_code
    return with_sign(record, magnitude, number.negative)


def _round_magnitude(record: FormatRecord, number: Number, rounding: Rounding) -> int:
    """The code that |number| has when the exponent field may grow without end."""
    exponent = max(floor_log2(number.magnitude), record.min_exponent) if number.magnitude else record.min_exponent
    step = exponent - record.mantissa_bits
    numerator, denominator = number.magnitude.as_integer_ratio()
    whole = denominator << max(step, 0)
    steps, rest = divmod(numerator << max(-step, 0), whole)
    # Codes count steps: 2^m a binade from the smallest normal on, and below it the subnormals' 0 .. 2^m - 1. Without
    # subnormals the count starts one binade later.
    code = ((exponent - record.min_exponent) << record.mantissa_bits) + steps
    if not record.has_subnormals:
        code -= 2**record.mantissa_bits
    if _rounds_away(rounding, number.negative, code, rest, whole):
        code += 1
    return max(code, 0)


def _rounds_away(rounding: Rounding, negative: bool, code: int, rest: int, whole: int) -> bool:
    """Whether a value rest / whole of a step above `code` goes to the next code in magnitude."""
    match rounding:
        case Rounding.NEAREST_EVEN:
            return 2 * rest > whole or (2 * rest == whole and code % 2 == 1)
        case Rounding.TOWARD_ZERO:
            return False
        case Rounding.UP:
            return rest > 0 and not negative
        case Rounding.DOWN:
            return rest > 0 and negative


def with_sign(record: FormatRecord, magnitude: int, negative: bool) -> int:
    """The code of a magnitude and a sign; -0 is 0 where it has no code."""
    if not negative or (magnitude == 0 and not record.has_negative_zero):
        return magnitude
    return magnitude | record.sign_bit


def floor_log2(value: Fraction) -> int:
    """The exponent of the largest power of two not above a positive value."""
    numerator, denominator = value.as_integer_ratio()
    guess = numerator.bit_length() - denominator.bit_length()
    return guess if numerator << max(-guess, 0) >= denominator << max(guess, 0) else guess - 1
