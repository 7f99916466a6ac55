"""Who touched which bytes: a line of what wrote and what read, for every 16 granules of one backing array.

A granule has as many bytes as the smallest access so far, at first 16; accesses are aligned to their size, so each
covers whole granules, and nothing is lost against slots for each byte. A line whose granules neighbouring lanes touched
in step is two numbers; others have leaves, which hold a slot for each granule and belong to `Touched`.

Example: with accesses of 4 and 16 bytes granules have 4 bytes and lines 64; a warp that stores 4 bytes a lane is noted
in two lines, and 16 bytes stored at byte 32 in a quarter of the first line's leaf.
"""

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.order import compiled_order as core

Lines = NDArray[np.uint32]
COARSEST_SHIFT = 4


class Shadow:
    """The lines of one backing array.

    Attributes:
        nbytes: of the backing array.
        lines: see `compiled_order`.
        shift: log2 of a granule's bytes.

    Args:
        nbytes: of the backing array.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.shift = COARSEST_SHIFT
        self.lines = self.empty_lines(self.shift)

    def empty_lines(self, shift: int) -> Lines:
        """Lines of granules of this size, that nobody has touched."""
        return np.zeros((-(-self.nbytes >> (shift + core.LINE_SHIFT)), 2), np.uint32)
