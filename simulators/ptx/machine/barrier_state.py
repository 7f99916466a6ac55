"""What barriers, and `setmaxnreg`, remember of the resident warps."""

from dataclasses import dataclass

import numpy as np

from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Lanes, Mask

BARRIERS = 16  # PTX ISA, "bar": barriers 0 to 15
# Of `BlockBarriers.waits_at`: a lane that waits at none.
NOWHERE = -1
# Of `BlockBarriers.expected`: nobody has come; all threads of the block take part.
FREE = 0
WHOLE_BLOCK = -1


@dataclass(frozen=True)
class Round:
    """A completed round of a barrier at which some warps arrived without waiting.

    Attributes:
        came: lanes that came.
        came_at: their epochs then.
        waited: those of them that waited.
        went_on_at: the epochs in which these went on.
    """

    came: Lanes
    came_at: Lanes
    waited: Lanes
    went_on_at: Lanes


class BlockBarriers:
    """The barriers of the resident blocks.

    Attributes:
        here: [barrier, lane], whether the lane has come to the barrier in its present round.
        place: [barrier, lane], the instruction by which it came.
        waits_at: for every lane, the barrier that it waits at.
        expected: [block, barrier], the warps of a round: free, the whole block, or how many.
        active: how many barriers somebody has come to.
        came_at: [barrier, lane], the epoch in which the lane came, where order is checked.
        rounds: by barrier (16 * block + number) and warp, the last round at which the warp did not wait.
    """

    def __init__(self, blocks: int, lanes: int) -> None:
        self.here: Mask = np.zeros((BARRIERS, lanes), np.bool_)
        self.place: Lanes = np.zeros((BARRIERS, lanes), np.int64)
        self.waits_at: Lanes = np.full(lanes, NOWHERE, np.int64)
        self.expected: Lanes = np.full((blocks, BARRIERS), FREE, np.int64)
        self.active = 0
        self.came_at: Lanes = np.zeros((BARRIERS, lanes), np.int64)
        self.rounds: dict[tuple[int, int], Round] = {}


class ClusterBarriers:
    """Arrivals of the resident clusters.

    Attributes:
        arrived: for every lane, how often it has arrived.
        waited: for every lane, for how many of these arrivals it has waited.
        relaxed: for every lane, whether its last arrival was relaxed.
        completed: for every cluster, how often its barrier was complete.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.arrived: Lanes = np.zeros(geometry.lanes, np.int64)
        self.waited: Lanes = np.zeros(geometry.lanes, np.int64)
        self.relaxed: Mask = np.zeros(geometry.lanes, np.bool_)
        self.completed: Lanes = np.zeros(geometry.clusters, np.int64)


class RegisterCounts:
    """How many registers warps have, where that is known, and which `setmaxnreg` they have executed.

    Attributes:
        count: for every warp, registers of each of its threads; 0 while unknown.
        places: for every warp, the instructions that changed it, in order.
    """

    def __init__(self, at_launch: int | None, warps: int) -> None:
        self.count: Lanes = np.full(warps, at_launch or 0)
        self.places: list[list[int]] = [[] for _ in range(warps)]
