"""Per-row (per-token) FP8 quantisation as ninfer defines it: one float32 scale a row, E4M3FN codes.

For one row x of K elements (bf16, fp16 or float32; exact in float32), every operation one float32 operation rounded to
nearest even with subnormals kept:

    amax    = max |x[k]|, NaN dropped (CUDA fmaxf), 0 for a row of NaN
    scale   = amax / 448           0 where amax = 0
    inverse = 1 / scale            0 where scale = 0
    code[k] = E4M3FN(x[k] · inverse), nearest even, saturating, NaN -> 0x7F (PTX cvt.rn.satfinite.e4m3x2.f32)

Example: x = [1, 3]. scale = 3/448 is 0x1.b6db6ep-8, inverse is 0x1.2aaaaap+7 (149.333328), the products are 149.333328
and 448 (a tie, 0x1.bfffffp+8, to even), the codes 0x71 (144) and 0x7E (448).

What the formula gives at its edges, declared here and covered by tests:

    all zero, or zero and NaN    scale 0, inverse 0: zeros keep their sign, NaN is 0x7F
    amax = Inf                   scale Inf, inverse 0: finite elements become ±0, infinite ones 0x7F (Inf · 0)
    amax <= 224 · 2^-149         the scale rounds to 0, so inverse 0: every finite element becomes ±0
    scale <= 2^-128              inverse Inf (amax below about 1.3e-36): nonzero elements saturate to ±448, and ±0 is
                                 0x7F (0 · Inf)

A multiplication by the rounded inverse is not a division by the scale: codes differ by one where the two round apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.number import Number
from tileproof.oracle.scaling.blocks import PER_ROW, quantize_block, quantize_blocks, require_matrix
from tileproof.oracle.scaling.scale_rule import NINFER_ROW

#: The divisor of amax: the largest finite E4M3FN value, 448.
MAX_NORM = NINFER_ROW.max_norm


@dataclass(frozen=True, eq=False)
class QuantizedRows:
    """The result of `quantize_rows`."""

    #: E4M3FN codes, uint8 [T, K].
    codes: npt.NDArray[np.uint8]
    #: float32 [T].
    scales: npt.NDArray[np.float32]


def quantize_row(row: Sequence[Number]) -> tuple[list[int], int]:
    """The definition, on one row of exact numbers that float32 can hold.

    Returns:
        The E4M3FN codes of the row, and the float32 bit pattern of its scale.
    """
    return quantize_block(row, NINFER_ROW)


def quantize_rows(x: npt.NDArray[np.generic]) -> QuantizedRows:
    """Quantises each row of x; held to `quantize_row` bit for bit.

    Args:
        x: bfloat16, float16 or float32 [T, K], T >= 0, K >= 1.

    Raises:
        Refusal: another type or rank, K = 0, or a process that flushes subnormals.
    """
    blocks = quantize_blocks(require_matrix(x, "quantize_rows"), NINFER_ROW, PER_ROW)
    return QuantizedRows(blocks.codes, blocks.scales[:, 0])
