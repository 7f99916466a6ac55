"""Lanes of the resident blocks: who they are, and what their special registers hold.

Blocks are resident in waves. Lane numbers run through the wave: block after block, every block padded to whole warps,
so lane // 32 is the warp and lane // lanes_per_block the block. The blocks of a cluster stand together, by rank: with
clusters of 4, block 6 of the wave is the one of rank 2 in the second cluster.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tileproof.simulators.ptx.findings import Index3, Thread
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.warp import WARP, distinct


@dataclass(frozen=True)
class Geometry:
    """One launch's grid and block, and which blocks are resident.

    Attributes:
        grid: blocks along x, y, z.
        block: threads along x, y, z.
        resident: linear block indices, x fastest; cluster after cluster.
        dynamic_shared_bytes: of the launch.
        total_shared_bytes: static and dynamic, that the block may touch.
        blocks_left: blocks that start when the resident ones have ended.
        cluster: blocks of a cluster along x, y, z.
        explicit_cluster: the launch or the kernel says so.
    """

    grid: Index3
    block: Index3
    resident: Lanes
    dynamic_shared_bytes: int
    total_shared_bytes: int
    blocks_left: int
    cluster: Index3 = (1, 1, 1)
    explicit_cluster: bool = False

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

    @property
    def blocks_per_cluster(self) -> int:
        """Blocks of one cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def lanes_per_cluster(self) -> int:
        """Lanes of one cluster, padding included."""
        return self.lanes_per_block * self.blocks_per_cluster

    @property
    def clusters(self) -> int:
        """Resident clusters."""
        return self.resident.size // self.blocks_per_cluster

    @cached_property
    def rank(self) -> Lanes:
        """Each lane's block's rank in its cluster."""
        return np.arange(self.lanes) // self.lanes_per_block % self.blocks_per_cluster

    @cached_property
    def local(self) -> Lanes:
        """Each lane's linear index in its block."""
        return _local(self.resident.size, self.lanes_per_block)

    def live(self) -> Lanes:
        """Lanes that are threads of the launch."""
        return _live(self.resident.size, self.lanes_per_block, self.threads)

    def blocks_of(self, lanes: Lanes) -> Lanes:
        """Resident blocks, as indices, that ascending lanes belong to; each once."""
        return distinct(lanes // self.lanes_per_block)

    def thread(self, lane: int) -> Thread:
        """Block and thread index of a lane."""
        block, local = divmod(lane, self.lanes_per_block)
        return self.thread_of(int(self.resident[block]), local)

    def thread_of(self, block: int, local: int) -> Thread:
        """Block and thread index of a linear block of the grid, resident or not, and a linear thread of it."""
        return Thread(_unravel(block, self.grid), _unravel(local, self.block))

    def special(self, name: str) -> Bits:
        """A special register's value in every lane (PTX ISA, "Special Registers")."""
        if "." in name:
            return self._index(name)
        local = self.local
        lane = (local % WARP).astype(np.uint64)
        bit = np.uint64(1) << lane
        everywhere = np.uint64(0xFFFF_FFFF)
        match name:
            case "%laneid":
                return lane
            case "%warpid":
                return (local // WARP).astype(np.uint64)
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
            case "%cluster_ctarank":
                return self.rank.astype(np.uint64)
            case "%cluster_nctarank":
                return np.full(self.lanes, self.blocks_per_cluster, np.uint64)
            case "%is_explicit_cluster":
                return np.full(self.lanes, self.explicit_cluster, np.uint64)
        raise AssertionError(name)

    def _index(self, name: str) -> Bits:
        register, axis = name[1:].split(".")
        dimension = "xyz".index(axis)
        extents = {
            "ntid": self.block,
            "nctaid": self.grid,
            "cluster_nctaid": self.cluster,
            "nclusterid": cluster_grid(self.grid, self.cluster),
        }
        if register in extents:
            return np.full(self.lanes, extents[register][dimension], np.uint64)
        if register == "tid":
            return _coordinate(self.local, self.block, dimension)
        if register == "cluster_ctaid":
            return _coordinate(self.rank, self.cluster, dimension)
        index = np.repeat(_coordinate(self.resident, self.grid, dimension), self.lanes_per_block)
        return index if register == "ctaid" else index // np.uint64(self.cluster[dimension])


@lru_cache(maxsize=16)
def _local(blocks: int, lanes_per_block: int) -> Lanes:
    return np.tile(np.arange(lanes_per_block), blocks)


@lru_cache(maxsize=16)
def _live(blocks: int, lanes_per_block: int, threads: int) -> Lanes:
    return np.flatnonzero(_local(blocks, lanes_per_block) < threads)


def cluster_grid(grid: Index3, cluster: Index3) -> Index3:
    """Clusters of a grid along x, y, z."""
    return grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2]


def blocks_of_clusters(clusters: Lanes, grid: Index3, cluster: Index3) -> Lanes:
    """Linear block indices of the clusters with these linear indices, cluster after cluster, by rank."""
    if cluster == (1, 1, 1):
        return clusters
    ranks = np.arange(cluster[0] * cluster[1] * cluster[2])
    counts = cluster_grid(grid, cluster)
    linear, stride = np.zeros((clusters.size, ranks.size), np.int64), 1
    for dimension in range(3):
        place = _coordinate(clusters, counts, dimension).astype(np.int64)[:, np.newaxis] * cluster[dimension]
        linear += (place + _coordinate(ranks, cluster, dimension).astype(np.int64)) * stride
        stride *= grid[dimension]
    return linear.reshape(-1)


def _coordinate(linear: Lanes, extent: Index3, dimension: int) -> Bits:
    stride = (1, extent[0], extent[0] * extent[1])[dimension]
    index: Bits = (linear // stride % extent[dimension]).astype(np.uint64)
    return index


def _unravel(linear: int, extent: Index3) -> Index3:
    return linear % extent[0], linear // extent[0] % extent[1], linear // (extent[0] * extent[1])
