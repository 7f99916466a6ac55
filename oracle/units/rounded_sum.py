"""Exact sums rounded once to nearest even: an IEEE addition, a fused multiply-add, an exact accumulator."""

from collections.abc import Sequence
from fractions import Fraction

from tileproof.oracle.formats import FloatFormat
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.units.term import Term, decode_term, special_sum


def rounded_sum(record: FloatFormat, terms: Sequence[Term]) -> int:
    """The code of the exact sum, rounded once; an overflow is an infinity, a NaN the canonical one.

    IEEE 754-2019, 6.3: an exact zero is +0 unless every term is -0.
    """
    if special := special_sum(terms):
        return special_code(record, special)
    total = sum((term.value for term in terms), Fraction(0))
    if total == 0:
        return record.sign_bit if all(term.negative for term in terms) else 0
    return record.round(Number.of(total), Rounding.NEAREST_EVEN, Overflow.INF)


def add(record: FloatFormat, x: int, y: int) -> int:
    """The code of x + y, both codes of the format."""
    return rounded_sum(record, [decode_term(record, code) for code in (x, y)])


def special_code(record: FloatFormat, special: Term) -> int:
    """The code of an infinity or NaN."""
    if special.kind is Kind.NAN:
        return record.nan_code
    return record.top_field | (record.sign_bit if special.negative else 0)
