"""Everything asynchronous of one wave."""

from tileproof.simulators.ptx.machine.asynchronous.barriers import Barriers
from tileproof.simulators.ptx.machine.asynchronous.groups import Groups
from tileproof.simulators.ptx.machine.asynchronous.in_flight import InFlight
from tileproof.simulators.ptx.machine.asynchronous.small_flights import SmallFlights
from tileproof.simulators.ptx.machine.asynchronous.tensor_fence import MapFences
from tileproof.simulators.ptx.machine.asynchronous.waits import Waits
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Window
from tileproof.simulators.ptx.machine.schedule import Schedule


class Asynchronous:
    """Objects, groups and copies in flight of the resident blocks.

    Attributes:
        barriers: the mbarrier objects.
        small: groups of `cp.async`.
        bulk: groups of bulk copies.
        in_flight: copies that have not landed.
        waits: what threads wait for.
        maps: tensor maps in global memory that blocks fenced.

    Args:
        lanes: of the wave.
        shared: shared memory of all resident blocks.
        memory: global memory.
        base: shared address of a block's first byte.
        schedule: draws when copies land.
    """

    def __init__(self, lanes: int, shared: Window, memory: GlobalMemory, base: int, schedule: Schedule) -> None:
        self.barriers = Barriers(shared.nbytes, shared.stride, base)
        self.small = Groups.of(lanes)
        self.bulk = Groups.of(lanes)
        self.in_flight = InFlight(schedule, SmallFlights(shared, memory))
        self.waits = Waits(lanes)
        self.maps = MapFences()
