"""Exact products of integer matrices by float64 matrix multiplication, which is fast and here never rounds.

Each integer is split into limbs of w bits, with w chosen so that K products of two limbs stay within 2^53. Then every
partial sum is an integer that float64 holds, whatever order or fused multiply-add the library uses. Example: e5m2 codes
are integers of 32 bits; with K = 4,096 a limb has 20, two limbs an operand, four matrix products.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal

#: Integers up to this magnitude are float64 values, all of them.
FLOAT64_EXACT = 2**53
INT64_LARGEST = 2**63 - 1
#: Bits of the widest integer that is taken apart.
WIDEST_BITS = 62


def multiply_integers(
    a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], a_largest: int, b_largest: int
) -> npt.NDArray[Any]:
    """A·Bᵀ of a [..., M, K] and b [..., N, K] whose magnitudes are at most `a_largest` and `b_largest`.

    Returns:
        [..., M, N]: int64 where K · a_largest · b_largest fits it, otherwise Python integers (dtype object).
    """
    depth = a.shape[-1]
    width = _limb_bits(depth, a_largest, b_largest)
    fits = depth * a_largest * b_largest <= INT64_LARGEST
    total: npt.NDArray[Any] = np.zeros((), np.int64 if fits else object)
    for i, x in enumerate(_limbs(a, a_largest, width)):
        for j, y in enumerate(_limbs(b, b_largest, width)):
            partial = np.matmul(x, np.swapaxes(y, -1, -2)).astype(np.int64)
            weight = 1 << (width * (i + j))
            # A limb times its weight is at most its integer, so no partial sum leaves int64 where the total cannot.
            total = total + (partial * np.int64(weight) if fits else partial.astype(object) * weight)
    return np.asarray(total)


def _limb_bits(depth: int, a_largest: int, b_largest: int) -> int:
    """The most bits a limb may have so that `depth` products of two limbs stay within float64's integers."""
    for bits in range(WIDEST_BITS, 0, -1):
        most = (1 << bits) - 1
        if depth * min(a_largest, most) * min(b_largest, most) <= FLOAT64_EXACT:
            return bits
    raise Refusal(f"K = {depth} is more than 2^53", hint="split K")


def _limbs(integers: npt.NDArray[np.int64], largest: int, bits: int) -> list[npt.NDArray[np.float64]]:
    """The integers in base 2^bits, lowest first; each limb has the sign of its integer."""
    sign, magnitude = np.sign(integers), np.abs(integers)
    count = max(1, -(-largest.bit_length() // bits))
    mask = np.int64((1 << bits) - 1)
    return [(sign * ((magnitude >> np.int64(bits * i)) & mask)).astype(np.float64) for i in range(count)]
