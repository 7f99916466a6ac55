"""Exact numbers with what a float can hold besides a value: a signed zero, infinities, NaN.

The scalar definitions compute on these, so no rounding happens but the one that a definition asks for. Example:
Number.of(5) / Number.of(448) is exactly 5/448; FLOAT32.round() of it is the float32 that an IEEE division gives.
"""

from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction


class Kind(Enum):
    """What a number is."""

    FINITE = auto()
    INFINITE = auto()
    NAN = auto()


@dataclass(frozen=True)
class Number:
    """One exact number: sign and magnitude, so that -0 is not 0. A NaN keeps its sign bit, never a payload."""

    kind: Kind
    negative: bool = False
    #: The exact magnitude; 0 unless finite.
    magnitude: Fraction = Fraction(0)

    @classmethod
    def of(cls, value: int | Fraction) -> "Number":
        """The finite number `value`; 0 is +0."""
        return cls(Kind.FINITE, value < 0, abs(Fraction(value)))

    @property
    def is_nan(self) -> bool:
        """Whether this is a NaN."""
        return self.kind is Kind.NAN

    @property
    def is_finite(self) -> bool:
        """Whether this is neither infinite nor NaN."""
        return self.kind is Kind.FINITE

    @property
    def is_zero(self) -> bool:
        """Whether this is +0 or -0."""
        return self.kind is Kind.FINITE and self.magnitude == 0

    @property
    def value(self) -> Fraction:
        """The signed value of a finite number."""
        return -self.magnitude if self.negative else self.magnitude

    def __abs__(self) -> "Number":
        return Number(self.kind, False, self.magnitude)

    def __neg__(self) -> "Number":
        return Number(self.kind, not self.negative, self.magnitude)

    def __add__(self, other: "Number") -> "Number":
        """The exact sum; ∞ - ∞ is NaN, and an exact zero is +0 unless both terms are negative (IEEE 754-2019, 6.3).

        That zero is the one of every rounding direction but down.
        """
        if self.is_nan or other.is_nan:
            return Number(Kind.NAN)
        if not (self.is_finite and other.is_finite):
            infinite = other if self.is_finite else self
            opposed = not other.is_finite and not self.is_finite and self.negative != other.negative
            return Number(Kind.NAN) if opposed else infinite
        total = self.value + other.value
        return Number(Kind.FINITE, total < 0 or (total == 0 and self.negative and other.negative), abs(total))

    def __mul__(self, other: "Number") -> "Number":
        """The exact product; 0 · ∞ is NaN (IEEE 754-2019, 6.1, 6.3, 7.2)."""
        negative = self.negative != other.negative
        if self.is_nan or other.is_nan:
            return Number(Kind.NAN)
        if Kind.INFINITE in (self.kind, other.kind):
            return Number(Kind.NAN if self.is_zero or other.is_zero else Kind.INFINITE, negative)
        return Number(Kind.FINITE, negative, self.magnitude * other.magnitude)

    def __truediv__(self, other: "Number") -> "Number":
        """The exact quotient; 0 / 0 and ∞ / ∞ are NaN, x / 0 is infinite (IEEE 754-2019, 6.1, 6.3, 7.2, 7.3)."""
        return self * other._reciprocal()

    def _reciprocal(self) -> "Number":
        if self.is_zero:
            return Number(Kind.INFINITE, self.negative)
        if self.kind is Kind.INFINITE:
            return Number(Kind.FINITE, self.negative)
        return Number(self.kind, self.negative, 1 / self.magnitude if self.magnitude else Fraction(0))
