"""What a number format is: bit widths and rules, from which every limit follows.

A code is, from the top bit down: sign (where signed), exponent field, mantissa field. With bias b and m mantissa bits

    value = 2^(field - b) · (1 + mantissa / 2^m)      field > 0
    value = 2^(1 - b) · mantissa / 2^m                field = 0 (zero and subnormals)

Example, E4M3FN (4 exponent bits, 3 mantissa bits, b = 7): code 0x7E is 0 1111 110, 2^(15-7) · (1 + 6/8) = 448;
code 0x01 is 0 0000 001, 2^-6 · 1/8 = 2^-9.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tileproof.oracle.numbers.rounding import Overflow
from tileproof.oracle.refusal import Refusal


class Specials(Enum):
    """Which codes are not finite; the value says it in words."""

    IEEE = "top exponent field: infinity (mantissa 0) and NaN"
    ALL_ONES_NAN = "magnitude bits all ones: NaN"
    NEGATIVE_ZERO_NAN = "the code of -0: NaN"
    NONE = "every code is finite"


class NanRule(Enum):
    """Which code a NaN becomes, whatever its sign and payload; the value says it in words."""

    ALL_ONES = "positive NaN, magnitude bits all ones"
    QUIET = "positive NaN, only the top mantissa bit set"
    NEGATIVE_ZERO = "the only NaN code"
    LARGEST = "largest finite value, positive (the format has no NaN)"


@dataclass(frozen=True, kw_only=True)
class FormatRecord:
    """One number format."""

    name: str
    #: Width of the exponent field.
    exponent_bits: int
    #: Width of the stored mantissa field.
    mantissa_bits: int
    #: Which codes are infinities and NaN.
    specials: Specials
    #: What a NaN becomes in `encode`.
    nan_rule: NanRule
    #: Where the NaN rule comes from.
    nan_source: str
    #: Where the format comes from.
    source: str
    #: Whether the top bit is a sign.
    signed: bool = True
    #: Whether exponent field 0 holds zero and the subnormals; without them it is one more binade.
    has_subnormals: bool = True

    @property
    def bits(self) -> int:
        """Width of a code."""
        return self.signed + self.exponent_bits + self.mantissa_bits

    @property
    def code_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The numpy type of one right-aligned code."""
        return np.dtype(f"u{max(8, self.bits) // 8}")

    @property
    def bias(self) -> int:
        """Exponent bias: 2^(e-1) - 1, and one more where the code of -0 is NaN (FNUZ)."""
        half = 1 << (self.exponent_bits - 1)
        return half if self.specials is Specials.NEGATIVE_ZERO_NAN else half - 1

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value."""
        return self.has_subnormals - self.bias

    @property
    def sign_bit(self) -> int:
        """The sign bit of a code; 0 for an unsigned format."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def magnitude_mask(self) -> int:
        """All bits of a code but the sign: exponent and mantissa field."""
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def top_field(self) -> int:
        """The code with exponent field all ones and mantissa 0: +infinity in an IEEE format."""
        return self.magnitude_mask - ((1 << self.mantissa_bits) - 1)

    @property
    def max_code(self) -> int:
        """The code of the largest finite value; a larger magnitude is infinite or NaN."""
        match self.specials:
            case Specials.IEEE:
                return self.top_field - 1
            case Specials.ALL_ONES_NAN:
                return self.magnitude_mask - 1
            case Specials.NEGATIVE_ZERO_NAN | Specials.NONE:
                return self.magnitude_mask

    @property
    def has_infinity(self) -> bool:
        """Whether some code is infinite."""
        return self.specials is Specials.IEEE

    @property
    def has_nan(self) -> bool:
        """Whether some code is NaN."""
        return self.specials is not Specials.NONE

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 has a code of its own."""
        return self.signed and self.has_subnormals and self.specials is not Specials.NEGATIVE_ZERO_NAN

    @property
    def nan_code(self) -> int:
        """The code that a NaN becomes."""
        match self.nan_rule:
            case NanRule.ALL_ONES:
                return self.magnitude_mask
            case NanRule.QUIET:
                return self.top_field | 1 << (self.mantissa_bits - 1)
            case NanRule.NEGATIVE_ZERO:
                return self.sign_bit
            case NanRule.LARGEST:
                return self.max_code

    def overflow_code(self, overflow: Overflow) -> int:
        """The code of a positive value beyond the largest finite one.

        Raises:
            Refusal: the format lacks what `overflow` asks for.
        """
        match overflow:
            case Overflow.SATURATE:
                return self.max_code
            case Overflow.NAN if self.has_nan:
                return self.nan_code
            case Overflow.INF if self.has_infinity:
                return self.top_field
        has = [mode.value for mode, there in self._overflow_modes() if there]
        raise Refusal(
            f"{self.name} has no code for overflow {overflow.value!r}: {self.specials.value}",
            hint=f"overflow modes of {self.name}: {', '.join(has)}",
        )

    def _overflow_modes(self) -> tuple[tuple[Overflow, bool], ...]:
        return (Overflow.SATURATE, True), (Overflow.NAN, self.has_nan), (Overflow.INF, self.has_infinity)
