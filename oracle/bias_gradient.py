"""The gradient of a bias: the sums of the columns of g [M, N] in bfloat16, in an order that is declared.

    strand i     rows i, i + 16, i + 32, ..., added one after the other from +0
    sum          ((strand 0 + strand 1) + strand 2) + ... + strand 15
    output       bfloat16 of the sum, NaN 0x7FFF

Every addition is one float32 addition to nearest even. Example, one column of 17 rows: 2^24, then fifteen times 1, then
-2^24. Rows 0 and 16 are of one strand and cancel, so the sum is 15; row by row each 1 would have been a tie to 2^24 and
lost, and the sum 0.

AstrAI leaves this sum to a library whose order is not declared; the order here is that of fp8_bias_gradient.cu.
"""

from collections.abc import Sequence
from functools import reduce

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import BFLOAT16
from tileproof.oracle.numbers.float32 import add
from tileproof.oracle.numbers.float32_array import require_subnormals, round_bfloat16, widen
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

#: Strands that a column is dealt out to.
STRANDS = 16

_ZERO = Number.of(0)


def column_sum(column: Sequence[Number]) -> int:
    """The definition: the bfloat16 pattern of the sum of one column."""
    strands = [reduce(add, column[first::STRANDS], _ZERO) for first in range(STRANDS)]
    return BFLOAT16.round(reduce(add, strands), Rounding.NEAREST_EVEN, Overflow.INF)


def bias_gradient(g: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """The sums of all columns; held to `column_sum` bit for bit.

    Args:
        g: bfloat16 [M, N].

    Returns:
        bfloat16 [N].

    Raises:
        Refusal: another type or number of dimensions, or a process that flushes subnormals.
    """
    if g.dtype != ml_dtypes.bfloat16 or g.ndim != 2:
        raise Refusal(f"g is {g.dtype} {g.shape}; it must be bfloat16 [M, N]")
    require_subnormals()
    rows = widen(g, "g of bias_gradient")
    strands = np.zeros((STRANDS, g.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for first in range(0, len(rows), STRANDS):
            some = rows[first : first + STRANDS]
            strands[: len(some)] += some
        return round_bfloat16(np.asarray(reduce(np.add, strands)))
