"""The compiled twin of `block_scaled_sum` for the 4-bit kinds; `fused_sum_array` has the other.

A group's sum has at most 12 bits, two factors 8 and C 24, so no term has more than 12 + 8 + 27 bits.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.accumulator import ANY_NAN, aligned, join, rounded, special, split, what
from tileproof.oracle.compiled import compiled, inlined
from tileproof.oracle.fused_sum_array import Coded, Side
from tileproof.oracle.term_array import INFINITE, SPECIAL, ZERO
from tileproof.oracle.unit import GroupScaledSum


def group_scaled_sums(
    unit: GroupScaledSum, a: Side, b: Side, c: npt.NDArray[np.int64], index: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Codes of D, [output tiles, M, N]; arguments as `fused_sum_array.fused_sums`, formats without infinity and NaN."""
    assert a.factors is not None, "a scaled instruction has factors"
    assert b.factors is not None, "a scaled instruction has factors"
    d = np.empty((len(index), a.codes.index.shape[1], b.codes.index.shape[1]), np.int64)
    coded = (a.codes, b.codes, a.factors, b.factors)
    left = unit.fraction_bits - sum(part.table.fraction_bits for part in coded)
    _group_scaled_tiles(
        _fixed_point(a.codes),
        _fixed_point(b.codes),
        a.factors.significand,
        b.factors.significand,
        a.factors.exponent,
        b.factors.exponent,
        c,
        index,
        d,
        np.array([unit.group, left, unit.fraction_bits, unit.least_exponent, unit.conversion.kept_bits]),
    )
    return d


def _fixed_point(codes: Coded) -> npt.NDArray[np.int64]:
    """Values in units of the last fraction bit: e2m1 has exponents 0 to 2, so nothing is lost."""
    return np.asarray((codes.table.significand << np.maximum(codes.table.exponent, 0))[codes.index])


@compiled
def _group_scaled_tiles(
    a: Any,
    b: Any,
    a_factor: Any,
    b_factor: Any,
    a_exponent: Any,
    b_exponent: Any,
    c: Any,
    index: Any,
    d: Any,
    unit: Any,
) -> None:
    group, left, bits, least, kept_bits = unit
    groups, blocks = a.shape[2] // group, a_factor.shape[2]
    sums, exponents = np.empty(groups, np.int64), np.empty(groups, np.int64)
    for tile in range(len(index)):
        i, j, n = index[tile]
        for row in range(a.shape[1]):
            for column in range(b.shape[1]):
                start, start_exponent = split(c[n, row, column], False)
                largest = max(start_exponent, least)
                for g in range(groups):
                    block = g * blocks // groups
                    exponent = a_exponent[i, row, block] + b_exponent[j, column, block]
                    total, zero = _exact(a[i, row], b[j, column], g * group, group)
                    if exponent < ZERO // 2 or (zero and exponent < SPECIAL):
                        exponent = least
                    sums[g] = total * a_factor[i, row, block] * b_factor[j, column, block]
                    exponents[g] = exponent
                    largest = max(largest, exponent)
                if largest > SPECIAL:
                    # NOTE: scale factors have no infinity, so what is not an infinite C is a NaN.
                    value, exponent = special(what(start, start_exponent) if largest == INFINITE else ANY_NAN)
                    d[tile, row, column] = join(value, exponent, False)
                    continue
                total = aligned(start, start_exponent, largest, bits - 23)
                for g in range(groups):
                    total += aligned(sums[g], exponents[g], largest, left)
                value, exponent = rounded(total, largest - bits, False, kept_bits)
                d[tile, row, column] = join(value, exponent, False)


@inlined
def _exact(a: Any, b: Any, start: int, group: int) -> tuple[int, bool]:
    """The sum of a group's products, and whether every product is zero."""
    total, zero = 0, True
    for k in range(start, start + group):
        product = a[k] * b[k]
        total += product
        zero &= product == 0
    return total, zero
