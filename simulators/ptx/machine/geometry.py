"""Lanes of the resident blocks: who they are, and what their special registers hold.

Blocks are resident in waves. Lane numbers run through the wave: block after block, every block padded to whole warps,
so lane // 32 is the warp and lane // lanes_per_block the block.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tileproof.simulators.ptx.findings import Index3, Thread
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.warp import WARP


@dataclass(frozen=True)
class Geometry:
    """One launch's grid and block, and which blocks are resident.

    Attributes:
        grid: blocks along x, y, z.
        block: threads along x, y, z.
        resident: linear block indices, x fastest.
        dynamic_shared_bytes: of the launch.
        total_shared_bytes: static and dynamic.
        blocks_left: blocks that start when the resident ones have ended.
    """

    grid: Index3
    block: Index3
    resident: Lanes
    dynamic_shared_bytes: int
    total_shared_bytes: int
    blocks_left: int

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        """Warps of one block, the last one padded."""
        return -(-self.threads // WARP)

    @property
    def lanes_per_block(self) -> int:
        """Lanes of one block, padding included."""
        return self.warps_per_block * WARP

    @property
    def lanes(self) -> int:
        """Lanes of all resident blocks."""
        return self.lanes_per_block * self.resident.size

    @cached_property
    def local(self) -> Lanes:
        """Each lane's linear index in its block."""
        return np.arange(self.lanes) % self.lanes_per_block

    def live(self) -> Lanes:
        """Lanes that are threads of the launch."""
        return np.flatnonzero(self.local < self.threads)

    def blocks_of(self, lanes: Lanes) -> Lanes:
        """Resident blocks, as indices, that the lanes belong to; each once."""
        return np.unique(lanes // self.lanes_per_block)

    def thread(self, lane: int) -> Thread:
        """Block and thread index of a lane."""
        block, local = divmod(lane, self.lanes_per_block)
        return Thread(_unravel(int(self.resident[block]), self.grid), _unravel(local, self.block))

    def special(self, name: str) -> Bits:
        """A special register's value in every lane (PTX ISA, "Special Registers")."""
        local = self.local
        lane = (local % WARP).astype(np.uint64)
        bit = np.uint64(1) << lane
        everywhere = np.uint64(0xFFFF_FFFF)
        match name:
            case "%laneid":
                return lane
            case "%warpid":
                return (local // WARP).astype(np.uint64)
            case "%nwarpid":
                return np.full(self.lanes, self.warps_per_block, np.uint64)
            case "%lanemask_eq":
                return bit
            case "%lanemask_lt":
                return bit - np.uint64(1)
            case "%lanemask_le":
                return bit | (bit - np.uint64(1))
            case "%lanemask_gt":
                return everywhere & ~(bit | (bit - np.uint64(1)))
            case "%lanemask_ge":
                return everywhere & ~(bit - np.uint64(1))
            case "%dynamic_smem_size":
                return np.full(self.lanes, self.dynamic_shared_bytes, np.uint64)
            case "%total_smem_size":
                return np.full(self.lanes, self.total_shared_bytes, np.uint64)
        return self._index(name)

    def _index(self, name: str) -> Bits:
        register, axis = name[1:].split(".")
        dimension = "xyz".index(axis)
        if register == "ntid":
            return np.full(self.lanes, self.block[dimension], np.uint64)
        if register == "nctaid":
            return np.full(self.lanes, self.grid[dimension], np.uint64)
        if register == "tid":
            linear, extent = self.local, self.block
        else:
            linear, extent = np.repeat(self.resident, self.lanes_per_block), self.grid
        stride = (1, extent[0], extent[0] * extent[1])[dimension]
        index: Bits = (linear // stride % extent[dimension]).astype(np.uint64)
        return index


def _unravel(linear: int, extent: Index3) -> Index3:
    return linear % extent[0], linear // extent[0] % extent[1], linear // (extent[0] * extent[1])
