"""Who touched which bytes: a slot for writes and one for reads, for every granule of one backing array.

A granule has as many bytes as the smallest access so far, at first 16; accesses are aligned to their size, so each
covers whole granules, and nothing is lost against slots for each byte. The arrays are zeros that the operating system
provides at first touch.

Example: with accesses of 4 and 16 bytes granules have 4 bytes; a 16-byte store at byte 32 is noted in granules 8 to 11.
"""

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.uint32]
COARSEST_SHIFT = 4


class Shadow:
    """The slots of one backing array.

    Attributes:
        writes: for every granule the slot of its last writes.
        reads: for every granule the slot of the reads since.
        shift: log2 of a granule's bytes.

    Args:
        nbytes: of the backing array.
    """

    def __init__(self, nbytes: int) -> None:
        granules = -(-nbytes // (1 << COARSEST_SHIFT))
        self.shift = COARSEST_SHIFT
        self.writes: Slots = np.zeros(granules, np.uint32)
        self.reads: Slots = np.zeros(granules, np.uint32)

    def refine(self, places: int) -> None:
        """Granules small enough for accesses whose sizes and offsets have these bits."""
        shift = (places & -places).bit_length() - 1
        if shift < self.shift:
            each = 1 << (self.shift - shift)
            self.writes, self.reads = np.repeat(self.writes, each), np.repeat(self.reads, each)
            self.shift = shift
