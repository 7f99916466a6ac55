"""Integer matrix instructions: the exact sum of all products and C, wrapped to 32 bits or clamped once at the end.

PTX ISA 9.1, "mma" and "wgmma.mma_async": with `.satfinite` the result is clamped to [-2^31, 2^31 - 1], without it the
accumulator wraps. Whether hardware clamps once or after each internal step is not published; it matters only where a
partial sum leaves the range and comes back, and the text speaks of the result.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.units.unit import IntegerSum

_MIN, _MAX = -(2**31), 2**31 - 1


def integer_sum(unit: IntegerSum, a: Sequence[int], b: Sequence[int], c: int) -> int:
    """The definition for one element, in Python integers."""
    total = sum(x * y for x, y in zip(a, b, strict=True)) + c
    if unit.saturates:
        return min(max(total, _MIN), _MAX)
    return (total - _MIN) % 2**32 + _MIN


def integer_sums(
    unit: IntegerSum, a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """The array twin: a [..., M, K], b [..., N, K], c [..., M, N].

    Products are at most 2^16 and K at most 64, so every partial sum is below 2^24 and exact even in float32; a matrix
    product of floats is fast.
    """
    products = np.matmul(a.astype(np.float32), np.swapaxes(b, -1, -2).astype(np.float32)).astype(np.int64)
    total = products + c
    return np.asarray(np.clip(total, _MIN, _MAX) if unit.saturates else total).astype(np.int32)
