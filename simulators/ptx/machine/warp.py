"""The warp: 32 lanes, of one block, numbered within it."""

import numpy as np
from numpy.typing import NDArray

WARP = 32
WARP_SHIFT = 5
ALL_LANES = np.uint32(0xFFFF_FFFF)


def distinct(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each of some ascending numbers once."""
    first = np.ones(ascending.size, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]
