"""The warp: 32 lanes, of one block, numbered within it."""

import numpy as np

WARP = 32
WARP_SHIFT = 5
ALL_LANES = np.uint32(0xFFFF_FFFF)
