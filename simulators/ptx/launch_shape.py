"""What a launch asks for."""

from dataclasses import dataclass

from tileproof.simulators.ptx.findings import Index3


@dataclass(frozen=True)
class LaunchShape:
    """Grid, block, dynamic shared memory and cluster of one launch."""

    grid: Index3
    block: Index3
    shared_bytes: int
    cluster: Index3 = (1, 1, 1)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks_per_cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]
