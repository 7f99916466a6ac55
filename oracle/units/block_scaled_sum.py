"""The definition of Blackwell's block-scaled sums: scale factors inside the unit, before anything is cut.

`kind::mxf8f6f4`: a ue8m0 factor is a power of two, so it moves the exponents of its products and the sum goes on as a
`FusedSum`. A NaN factor (0xFF) makes the result NaN.

`kind::mxf4` and `kind::mxf4nvf4`: sixteen e2m1 products are added exactly, then multiplied exactly by the significands
of the two factors (1 for ue8m0, 1.xxx for ue4m3). The group's exponent is the sum of the factors' exponents, whatever
the size of the sum; a group of which every product is zero, or one with a zero factor, counts with `least_exponent`.
The four group terms and C are aligned, cut, added and converted as in `fused_sum`.

Worked example: one product 6 · 6 = 36 and factors 1: the group is 36 · 2^0 with exponent 0, not 1.125 with exponent 5.

Source: MMA-Sim, arXiv 2511.10909v2, "ST-FDPA" and "GST-FDPA"; one publication, no recording.
"""

from collections.abc import Sequence

from tileproof.oracle.numbers.number import Kind
from tileproof.oracle.units.fused_sum import convert, fused_sum
from tileproof.oracle.units.rounded_sum import special_code
from tileproof.oracle.units.term import Term, decode_term, special_sum
from tileproof.oracle.units.unit import GroupScaledSum, ScaledSum


def scaled_sum(unit: ScaledSum, products: Sequence[Term], factors: Sequence[Term], c: int) -> int:
    """The code of all scaled products and C.

    Args:
        unit: the parameters.
        products: exact products in the order of k.
        factors: one product of the two scale factors for each block of K.
        c: code of C.
    """
    block = len(products) // len(factors)
    return fused_sum(unit.unit, [product.scaled(factors[k // block]) for k, product in enumerate(products)], c)


def group_scaled_sum(unit: GroupScaledSum, products: Sequence[Term], factors: Sequence[Term], c: int) -> int:
    """The code of all groups and C; arguments as `scaled_sum`."""
    block = len(products) // len(factors)
    groups = [
        _group(unit, products[start : start + unit.group], factors[start // block])
        for start in range(0, len(products), unit.group)
    ]
    terms = [*groups, decode_term(unit.conversion.format, c)]
    if special := special_sum(terms):
        return special_code(unit.conversion.format, special)
    # NOTE: a group that cancels keeps its exponent, unlike a zero term of a fused sum.
    largest = max([*(group.exponent for group in groups), unit.least_exponent, *_exponent(terms[-1])])
    step = largest - unit.fraction_bits
    return convert(unit.conversion, sum(term.cut(step) for term in terms), step)


def _group(unit: GroupScaledSum, products: Sequence[Term], factor: Term) -> Term:
    if factor.kind is Kind.NAN:
        return factor
    if factor.is_zero or all(product.is_zero for product in products):
        return Term(Kind.FINITE, exponent=unit.least_exponent)
    step = products[0].exponent - products[0].fraction_bits  # a common unit: the least that any product has
    step = min([step, *(product.exponent - product.fraction_bits for product in products)])
    total = sum(product.cut(step) for product in products)
    # total · 2^step with exponent 0 has -step fraction bits.
    return Term(Kind.FINITE, total < 0, abs(total) * factor.significand, factor.exponent, factor.fraction_bits - step)


def _exponent(term: Term) -> list[int]:
    return [] if term.is_zero else [term.exponent]
