"""The definitions of AMD's matrix units, CDNA1 to CDNA3: three generations, three designs, C and D float32.

* CDNA1, `exact_sum`: groups of products and the accumulator are added exactly and rounded once.
* CDNA2, `flushed_pairs`: subnormals of A, B and C become +0, products are rounded to float32 and added pairwise, a
  subnormal result of any step becomes zero of its sign.
* CDNA3, `floored_sum`: products are aligned and cut toward zero to 24 fraction bits and added; the accumulator joins
  afterwards, where both are rounded *down*, and the sum is rounded to nearest even.

K longer than a group is a chain through the accumulator. Worked example, CDNA3: C = 1 and one product -2^-40. The
accumulator's exponent is the larger, the dot sum is rounded down to a multiple of 2^-32, so it counts as -2^-32; the
float32 result is 1. With C = 0 the same product gives -2^-40.

Source: MMA-Sim, arXiv 2511.10909v2, "E-FDPA", "FTZ mul add", "TR-FDPA", "GTR-FDPA", with the widths of package mmasim
2.1.1. One publication, no recording. It leaves two things open, which are choices here: a NaN is 0x7FFFFFFF, and an
exact zero is +0 (CDNA2: as IEEE 754-2019, 6.3).
"""

from collections.abc import Sequence

from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.number import Kind
from tileproof.oracle.units.rounded_sum import add, rounded_sum, special_code
from tileproof.oracle.units.term import Term, decode_term, shifted, special_sum
from tileproof.oracle.units.unit import ExactSum, FlooredSum, FlushedPairs

#: CDNA3: fraction bits of a product and of C below the largest exponent.
TERM_BITS = 24
#: CDNA3: fraction bits of the dot sum when C joins.
DOT_BITS = 32
#: CDNA3: fraction bits of the normalised sum before it is rounded to float32.
SUM_BITS = 31
#: CDNA3's 8-bit forms: a C this far below the largest exponent is dropped (rounding it down would borrow from the sum).
DROPPED_BELOW = TERM_BITS + 1


def exact_sum(unit: ExactSum, products: Sequence[Term], c: int) -> int:
    """CDNA1: the code of all products and C."""
    for group in _groups(products, unit.group):
        terms = [*group, decode_term(FLOAT32, c)]
        cancels = special_sum(terms) is None and sum(term.value for term in terms) == 0
        c = 0 if cancels else rounded_sum(FLOAT32, terms)
    return c


def flushed_pairs(unit: FlushedPairs, a: Sequence[Term], b: Sequence[Term], c: int) -> int:
    """CDNA2: the code of all products and C."""
    products = [_flushed(rounded_sum(FLOAT32, [_normal(x) * _normal(y)])) for x, y in zip(a, b, strict=True)]
    c = c if c & FLOAT32.top_field else 0
    for start in range(0, len(products), unit.group):
        c = _flushed_add(c, _pairwise(products[start : start + unit.group]))
    return c


def _normal(term: Term) -> Term:
    """The operand, a zero or subnormal as +0: a significand without its leading bit."""
    subnormal = term.kind is Kind.FINITE and term.significand >> term.fraction_bits == 0
    return Term(Kind.FINITE) if subnormal else term


def _flushed(code: int) -> int:
    """A subnormal float32 as zero of its sign."""
    return code if code & FLOAT32.top_field else code & FLOAT32.sign_bit


def _flushed_add(x: int, y: int) -> int:
    return _flushed(add(FLOAT32, x, y))


def _pairwise(codes: Sequence[int]) -> int:
    if len(codes) == 1:
        return codes[0]
    half = len(codes) // 2
    return _flushed_add(_pairwise(codes[:half]), _pairwise(codes[half:]))


def floored_sum(unit: FlooredSum, products: Sequence[Term], c: int) -> int:
    """CDNA3: the code of all products and C."""
    for group in _groups(products, unit.group):
        c = _floored_group(unit, [_overflowed(product) for product in group], c)
    return c


def _floored_group(unit: FlooredSum, products: Sequence[Term], code: int) -> int:
    c = decode_term(FLOAT32, code)
    if special := special_sum([*products, c]):
        return special_code(FLOAT32, special)
    dot = _interleaved_dot(products) if unit.interleaved else _dot(products)
    largest = max(dot.exponent, c.exponent)
    dropped = unit.interleaved and c.exponent < largest - DROPPED_BELOW
    step = largest - DOT_BITS
    total = dot.floored(step)
    if not dropped:
        total += c.floored(largest - TERM_BITS) << (DOT_BITS - TERM_BITS)
    return _rounded(total, step)


def _rounded(total: int, step: int) -> int:
    """total · 2^step rounded down to `SUM_BITS` fraction bits, then to float32."""
    exponent = max(abs(total).bit_length() - 1 + step, FLOAT32.min_exponent)
    last = exponent - SUM_BITS
    kept = shifted(total, step - last)
    return rounded_sum(FLOAT32, [_term(kept, last)]) if kept else 0


def _dot(products: Sequence[Term]) -> Term:
    """The products aligned to their largest exponent, cut toward zero and added; it keeps that exponent."""
    exponents = [product.exponent for product in products if not product.is_zero]
    if not exponents:
        return Term(Kind.FINITE, exponent=_LEAST)
    step = max(exponents) - TERM_BITS
    total = sum(product.cut(step) for product in products)
    return Term(Kind.FINITE, total < 0, abs(total), max(exponents), TERM_BITS)


def _interleaved_dot(products: Sequence[Term]) -> Term:
    """Even and odd k apart, then both rounded down to the larger exponent."""
    halves = [_dot(products[0::2]), _dot(products[1::2])]
    largest = max(half.exponent for half in halves)
    total = sum(half.floored(largest - TERM_BITS) for half in halves)
    return Term(Kind.FINITE, total < 0, abs(total), largest, TERM_BITS)


#: An exponent below that of any product and any C.
_LEAST = -999


def _overflowed(product: Term) -> Term:
    """A product of magnitude 2^128 or more as an infinity."""
    if product.kind is Kind.FINITE and abs(product.value) >= 2**128:
        return Term(Kind.INFINITE, product.negative)
    return product


def _term(value: int, step: int) -> Term:
    return Term(Kind.FINITE, value < 0, abs(value), step)


def _groups(products: Sequence[Term], size: int) -> list[Sequence[Term]]:
    return [products[start : start + size] for start in range(0, len(products), size)]
