"""The definition of NVIDIA's matrix unit: a truncated fused dot-product-add, in exact integers.

For a group of products and the accumulator:

1. every product is exact and keeps the sum of its operands' exponents (`term`);
2. the largest exponent of the non-zero terms, but not less than `least_exponent`, is the one to align to;
3. each term, the accumulator included, is cut toward zero to a multiple of 2^(largest - fraction_bits);
4. these integers are added exactly;
5. the sum is converted once (`Conversion`): cut to float32, cut to 13 fraction bits, or rounded to float16.

Groups follow each other in the order of k, each starting from the last one's converted result.

Worked example, Hopper's 8-bit `wgmma` (13 fraction bits): C = 1 and one product 2^-14. The largest exponent is 0, so
terms are multiples of 2^-13; the product is cut to 0 and the result is 1. Two such products are lost the same way,
where a float32 accumulation would give 1 + 2^-13.

Cutting is by magnitude: -2^-28 beside 1 becomes 0. An arithmetic right shift would make it -2^-13.

Sources: MMA-Sim, arXiv 2511.10909v2, "T-FDPA"; Khattak and Mikaitis, arXiv 2512.07004; see `nvidia_units` for what
was compared with hardware.
"""

from collections.abc import Sequence
from fractions import Fraction

from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.units.rounded_sum import add, special_code
from tileproof.oracle.units.term import Term, decode_term, shifted, special_sum
from tileproof.oracle.units.unit import Conversion, FusedSum, LateSum


def fused_sum(unit: FusedSum, products: Sequence[Term], c: int) -> int:
    """The code of all products and C: a chain of groups.

    Args:
        unit: the parameters.
        products: exact products in the order of k.
        c: code of C in the format of the unit's conversion.
    """
    for start in range(0, len(products), unit.group):
        c = _group_sum(unit, products[start : start + unit.group], c)
    return c


def late_sum(unit: LateSum, products: Sequence[Term], c: int) -> int:
    """The code of an 8-bit instruction that is expanded to f16 ones (machine code of ptxas 12.4 to 13.0, sm_90a).

    8-bit codes are unpacked to f16 (`unpacked`). The registers' low byte pairs are one f16 operand and the high byte
    pairs the other, so the halves are k mod 4 in {0, 1} and k mod 4 in {2, 3}; C comes last, by an ordinary addition to
    nearest.

    Args:
        unit: the parameters.
        products: exact products of unpacked operands in the order of k.
        c: code of C.
    """
    low = [product for k, product in enumerate(products) if k % 4 < 2]
    high = [product for k, product in enumerate(products) if k % 4 >= 2]
    total = fused_sum(unit.unit, low, 0)
    if unit.chained:
        total = fused_sum(unit.unit, high, total)
    else:
        total = add(unit.unit.conversion.format, total, fused_sum(unit.unit, high, 0))
    return add(unit.unit.conversion.format, c, total)


def _group_sum(unit: FusedSum, products: Sequence[Term], c: int) -> int:
    terms = [*products, decode_term(unit.conversion.format, c)]
    if special := special_sum(terms):
        return special_code(unit.conversion.format, special)
    largest = max([unit.least_exponent, *(term.exponent for term in terms if not term.is_zero)])
    step = largest - unit.fraction_bits
    return convert(unit.conversion, sum(term.cut(step) for term in terms), step)


def convert(conversion: Conversion, total: int, step: int) -> int:
    """The code of total · 2^step."""
    if not conversion.nearest:
        total, step = _cut_significand(conversion, total, step)
    exact = Number.of(total * Fraction(2) ** step)
    code = conversion.format.round(exact, Rounding.NEAREST_EVEN, Overflow.INF)
    return code if code & conversion.format.magnitude_mask else 0


def _cut_significand(conversion: Conversion, total: int, step: int) -> tuple[int, int]:
    """The same sum with only the bits that the result keeps, so that the rounding after it changes nothing."""
    exponent = max(abs(total).bit_length() - 1 + step, conversion.format.min_exponent)
    last = exponent - conversion.kept_bits
    kept = shifted(abs(total), step - last)
    return (-kept if total < 0 else kept), last
