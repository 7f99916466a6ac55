"""One addend inside a matrix unit: a significand that is not normalised, with the exponent it is aligned by.

A unit decodes an operand and never touches it again: a normal value is 1.xxx · 2^e, a subnormal keeps its format's
least exponent and is 0.xxx · 2^e, and a product is the product of the significands, in [0, 4), with the sum of the
exponents. Example, e4m3 0x3C · 0x3C = 1.5 · 1.5: significands 12/8 and 12/8, product 144/64 = 2.25 with exponent 0, not
1.125 with exponent 1. Terms are aligned by these exponents, so it matters.

Sources: MMA-Sim, arXiv 2511.10909v2, and Khattak and Mikaitis, arXiv 2512.07004; reproduced on recordings of V100,
A100, H100, H200, B200 and others (see `nvidia_units`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tileproof.oracle.numbers.format_record import FormatRecord, Specials
from tileproof.oracle.numbers.number import Kind
from tileproof.oracle.units.operand import OperandType


@dataclass(frozen=True)
class Term:
    """(-1)^negative · significand · 2^(exponent - fraction_bits), or an infinity or NaN."""

    kind: Kind
    negative: bool = False
    significand: int = 0
    exponent: int = 0
    #: Fraction bits of the significand, so that `exponent` is that of its unit bit.
    fraction_bits: int = 0

    @property
    def is_zero(self) -> bool:
        """Whether this is +0 or -0."""
        return self.kind is Kind.FINITE and self.significand == 0

    @property
    def value(self) -> Fraction:
        """The exact value of a finite term."""
        magnitude = self.significand * Fraction(2) ** (self.exponent - self.fraction_bits)
        return -magnitude if self.negative else magnitude

    def __mul__(self, other: "Term") -> "Term":
        """The exact product, not normalised; 0 · ∞ is NaN."""
        negative = self.negative != other.negative
        if self.kind is not Kind.FINITE or other.kind is not Kind.FINITE:
            lost = Kind.NAN in (self.kind, other.kind) or self.is_zero or other.is_zero
            return Term(Kind.NAN) if lost else Term(Kind.INFINITE, negative)
        return Term(
            Kind.FINITE,
            negative,
            self.significand * other.significand,
            self.exponent + other.exponent,
            self.fraction_bits + other.fraction_bits,
        )

    def scaled(self, factor: "Term") -> "Term":
        """This term times a power of two, which moves the exponent alone; a NaN factor gives NaN."""
        if self.kind is not Kind.FINITE or factor.kind is not Kind.FINITE:
            return Term(Kind.NAN) if Kind.NAN in (self.kind, factor.kind) else self
        return Term(self.kind, self.negative, self.significand, self.exponent + factor.exponent, self.fraction_bits)

    def cut(self, step: int) -> int:
        """The term in units of 2^step, cut toward zero: the magnitude is shifted, then the sign applied."""
        magnitude = shifted(self.significand, self.exponent - self.fraction_bits - step)
        return -magnitude if self.negative else magnitude

    def floored(self, step: int) -> int:
        """The term in units of 2^step, rounded down."""
        signed = -self.significand if self.negative else self.significand
        return shifted(signed, self.exponent - self.fraction_bits - step)


def shifted(value: int, places: int) -> int:
    """value · 2^places, rounded down; a negative `places` shifts right."""
    return value << places if places >= 0 else value >> -places


def decode_operand(operand: OperandType, code: int) -> Term:
    """The term of one raw code of A, B or a scale factor; an integer type has none."""
    assert operand.record is not None, "an integer operand is its own value"
    return decode_term(operand.record, code >> operand.ignored_bits)


@lru_cache(maxsize=1 << 16)
def decode_term(record: FormatRecord, code: int) -> Term:
    """The term of one code: its fields as they stand."""
    negative = bool(code & record.sign_bit)
    magnitude = code & record.magnitude_mask
    if record.has_infinity and magnitude == record.top_field:
        return Term(Kind.INFINITE, negative)
    if magnitude > record.max_code or (record.specials is Specials.NEGATIVE_ZERO_NAN and code == record.sign_bit):
        return Term(Kind.NAN)
    field, significand = divmod(magnitude, 1 << record.mantissa_bits)
    if field or not record.has_subnormals:
        significand += 1 << record.mantissa_bits
    exponent = max(field - record.bias, record.min_exponent)
    return Term(Kind.FINITE, negative, significand, exponent, record.mantissa_bits)


def special_sum(terms: Sequence[Term]) -> Term | None:
    """The sum where it is not finite: NaN if a term is NaN or infinities of both signs meet; None if all are finite."""
    infinite = {term.negative for term in terms if term.kind is Kind.INFINITE}
    if any(term.kind is Kind.NAN for term in terms) or len(infinite) == 2:
        return Term(Kind.NAN)
    return Term(Kind.INFINITE, infinite.pop()) if infinite else None
