"""What the waves of a launch remember of their accesses to global memory, or to shared memory."""

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order import compiled_warps
from tileproof.simulators.ptx.machine.order.touched import Touched


class Memory:
    """Tables of one kind of memory, and what makes it quick to use them.

    Attributes:
        touched: the tables.
        last: int32 [steps, warps], see `compiled_order`.
        patterns: int64 [steps, 132], see `compiled_warps`.
        longest: sets of accesses may grow to this.
        planes: int64 [2, 4]: for accesses by the generic and by the async proxy, see `find_conflicts`.
    """

    def __init__(self, touched: Touched, warps: int, steps: int, longest: int, planes: Lanes) -> None:
        self.touched = touched
        self.last = np.zeros((steps, warps), np.int32)
        self.patterns = np.zeros((steps, compiled_warps.PATTERN), np.int64)
        self.longest = longest
        self.planes = planes
