"""What a launch asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.findings import Index3


@dataclass(frozen=True)
class LaunchShape:
    """Grid, block, dynamic shared memory and cluster of one launch.

    Raises:
        Refusal: an extent is no sequence, or something in it is no whole number; limits are checked at the launch.
    """

    grid: Index3
    block: Index3
    shared_bytes: int
    cluster: Index3 = (1, 1, 1)

    def __post_init__(self) -> None:
        for name, extent in (("grid", self.grid), ("block", self.block), ("cluster", self.cluster)):
            if not isinstance(extent, Sequence):
                raise Refusal(f"{name} = {extent!r}", hint="three numbers: x, y, z")
            lengths = tuple(whole(f"{name}[{index}]", length) for index, length in enumerate(extent))
            object.__setattr__(self, name, lengths)  # numpy's integers lack methods of Python's
        object.__setattr__(self, "shared_bytes", whole("shared_bytes", self.shared_bytes))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks_per_cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]
