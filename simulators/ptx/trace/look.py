"""One event while it is looked at backwards."""

from dataclasses import dataclass, field

import numpy as np

from tileproof.simulators.ptx.machine.memory import Backing, Bits, Lanes, Mask
from tileproof.simulators.ptx.program import Program, Step
from tileproof.simulators.ptx.trace.demand import Demand
from tileproof.simulators.ptx.trace.recorder import Event, WaveLog


@dataclass
class Look:
    """An event, with what is wanted of its results and the registers as they were before it.

    Attributes:
        program: the kernel.
        step: the instruction.
        event: what it did.
        log: of its wave.
        demand: what is wanted before the event: rules add to it.
        values: registers [slots, lanes] before the event.
        taken: for each register that it wrote, the wanted bits of every lane of the wave.
        lanes: whose execution counts, as rules find it.
        ranges: places that rules followed.
    """

    program: Program
    step: Step
    event: Event
    log: WaveLog
    demand: Demand
    values: Bits
    taken: dict[int, Bits]
    lanes: set[int] = field(default_factory=set)
    ranges: list[tuple[Backing, int, int]] = field(default_factory=list)

    def result(self, slot: int) -> Bits:
        """Wanted bits of a result, of every lane of the wave."""
        return self.taken.get(slot, np.zeros(self.values.shape[1], np.uint64))

    def results(self) -> Lanes:
        """The lanes of which a result is wanted."""
        wanted = np.zeros(self.values.shape[1], np.bool_)
        for bits in self.taken.values():
            wanted |= bits != 0
        return np.flatnonzero(wanted)

    def read(self, slot: int, lanes: Lanes, narrow: int = 0) -> Bits:
        """What the lanes read."""
        values: Bits = self.values[slot][lanes]
        return values & np.uint64((1 << narrow) - 1) if narrow else values

    def count(self, lanes: Lanes) -> None:
        """These lanes' executions made the element."""
        self.lanes.update(lanes.tolist())

    def follow(self, backing: Backing, offsets: Lanes, wanted: Mask) -> None:
        """The event read these bytes: [places, bytes] of those at the offsets."""
        self.demand.want_bytes(backing, offsets, wanted)
        self.note(backing, offsets, wanted)

    def note(self, backing: Backing, offsets: Lanes, wanted: Mask) -> None:
        """Where it was, for the report."""
        here = np.flatnonzero(wanted.any(axis=1))
        if here.size:
            first, last = int(offsets[here].min()), int(offsets[here].max()) + wanted.shape[1]
            self.ranges.append((backing, first, last))
