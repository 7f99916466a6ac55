"""Everything asynchronous of one wave."""

from tileproof.simulators.ptx.machine.asynchronous.barriers import Barriers
from tileproof.simulators.ptx.machine.asynchronous.groups import Groups
from tileproof.simulators.ptx.machine.asynchronous.in_flight import InFlight
from tileproof.simulators.ptx.machine.asynchronous.tensor_fence import MapFences
from tileproof.simulators.ptx.machine.asynchronous.waits import Waits
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
        window_bytes: shared memory of all resident blocks.
        stride: bytes from one block's shared memory to the next one's.
        base: shared address of a block's first byte.
        schedule: draws when copies land.
    """

    def __init__(self, lanes: int, window_bytes: int, stride: int, base: int, schedule: Schedule) -> None:
        self.barriers = Barriers(window_bytes, stride, base)
        self.small = Groups.of(lanes)
        self.bulk = Groups.of(lanes)
        self.in_flight = InFlight(schedule)
        self.waits = Waits(lanes)
        self.maps = MapFences()
