"""What the waves of one launch share: clocks, places in global memory, and who has run so far.

A later wave is not ordered after an earlier one: blocks of one launch have no order. A new launch is after everything.
"""

from collections.abc import Callable

import numpy as np

from tileproof.simulators.ptx.findings import Thread
from tileproof.simulators.ptx.machine.budget import unwatched
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Lanes
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.clocks import Clocks
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge
from tileproof.simulators.ptx.machine.order.patterns import Places
from tileproof.simulators.ptx.machine.order.remembered import Memory
from tileproof.simulators.ptx.machine.order.touched import Touched


class LaunchOrder:
    """Order of one launch.

    Attributes:
        global_memory: records of accesses to it; of earlier launches they no longer count.
        places: in global memory.
        units: that have started.
        blocks: linear indices of the blocks that have started, in the order of the units.
        enabled: accesses are checked.
        knowledge: of the last wave, whose room the next one may use.
        memories: how waves use global and shared memory, once there was one.

    Args:
        global_memory: of the device.
        enabled: accesses are checked.
        attend: called by what takes long; it may raise.
    """

    def __init__(
        self, global_memory: GlobalMemory, enabled: bool = True, attend: Callable[[], None] = unwatched
    ) -> None:
        self.enabled = enabled
        self._attend = attend
        self.global_memory: Touched = global_memory.touched
        self.global_memory.begin()
        self.shared_memory = Touched()
        self.places = Places()
        self.units = 0
        self.blocks: Lanes = np.zeros(0, np.int64)
        self._clocks: Clocks | None = None
        self.knowledge: Knowledge | None = None
        self.memories: tuple[Memory, Memory] | None = None

    def begin_wave(self, geometry: Geometry) -> Clocks:
        """The blocks of a wave start; clocks that fit its units."""
        if self._clocks is None:
            lanes = geometry.lanes_per_cluster
            absent = np.arange(lanes) % geometry.lanes_per_block >= geometry.threads
            # What threads that do not exist did is known to all.
            self._clocks = Clocks(np.where(absent, core.EVER, 0).astype(np.int32), self._attend)
        # Waves come one after the other: those of an earlier one need its clocks no more.
        self._clocks.holders[:] = [self.places.hold]
        self.units += geometry.clusters
        self.blocks = np.concatenate([self.blocks, geometry.resident])
        self.shared_memory.restart()
        return self._clocks

    def thread(self, geometry: Geometry, warp: int, lane: int) -> Thread:
        """A thread by its warp, counted through the launch, and its lane there."""
        block, local = divmod(warp * 32 + lane, geometry.lanes_per_block)
        return geometry.thread_of(int(self.blocks[block]), local)
