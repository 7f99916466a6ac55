"""`v_mmac_i32_16x16x32_i8`: C + A · Bᵀ on the fragments of a wave, in exact integers.

A and B are int8, C and the result int32. A sum beyond int32 is refused: no source says whether the unit wraps or
saturates, and no kernel that follows its contract gets there (K · 127² < 2^31 up to K = 133,144).

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad section 3.
"""

import numpy as np
import numpy.typing as npt

from tileproof.oracle.maps.dumma_fragments import DUMMA_A, DUMMA_B, DUMMA_C
from tileproof.oracle.refusal import Refusal

Words = npt.NDArray[np.uint32]

_INT32 = np.iinfo(np.int32)


def mmac(a: Words, b: Words, c: Words) -> Words:
    """One instruction, for any number of waves.

    Args:
        a: uint32 [..., 64, 2].
        b: uint32 [..., 64, 2].
        c: uint32 [..., 64, 4], the bits of int32.

    Returns:
        uint32 [..., 64, 4].

    Raises:
        Refusal: a sum outside int32, or words of another shape.
    """
    x = DUMMA_A.scatter(a, np.int8).astype(np.float64)
    y = DUMMA_B.scatter(b, np.int8).astype(np.float64)
    # 32 products of at most 2^14 and an int32 stay far below 2^53: float64 holds every partial sum.
    total = x @ np.swapaxes(y, -1, -2) + DUMMA_C.scatter(c, np.int32)
    if np.any((total < _INT32.min) | (total > _INT32.max)):
        raise Refusal(
            "v_mmac_i32_16x16x32_i8: a sum leaves int32",
            hint="no source says whether the unit wraps or saturates; keep K · max|a| · max|b| below 2^31",
        )
    return DUMMA_C.gather(total.astype(np.int32)).astype(np.uint32, copy=False)
