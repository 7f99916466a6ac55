"""A wave of 64 lanes: the numbers that its lanes go by, and the one way in which they exchange values.

Lane l has r = l % 16 and q = l / 16: 16 rows of a tile, and four quarters of K or of a row's columns.

    shfl_xor(x, 16)[l] = x[l ^ 16]      the lane of the same row in the neighbouring quarter: q ^ 1

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad section 3 (wave of 64, l & 15, l >> 4).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import whole
from tileproof.oracle.maps.dumma_fragments import LANES
from tileproof.oracle.refusal import Refusal

__all__ = ["LANE", "LANES", "QUARTER", "ROW", "shfl_xor"]

LANE = np.arange(LANES, dtype=np.int64)
#: r of every lane.
ROW = LANE % 16
#: q of every lane.
QUARTER = LANE // 16


def shfl_xor(values: npt.NDArray[Any], mask: int) -> npt.NDArray[Any]:
    """What every lane receives from the lane whose number differs in the bits of `mask`.

    Args:
        values: [..., 64], one value a lane.
        mask: 0 .. 63.

    Raises:
        Refusal: another number of lanes, or a mask that leaves the wave.
    """
    if values.shape[-1:] != (LANES,) or not 0 <= whole("mask", mask) < LANES:
        raise Refusal(f"shfl_xor of shape {values.shape} with mask {mask}", hint="[..., 64] and a mask below 64")
    return values[..., LANE ^ mask]
