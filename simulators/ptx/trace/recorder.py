"""What a run did, step by step, so that it can be followed backwards.

The recorder watches the reference engine: which step runs, what stood in a register before it was written, and which
bytes an instruction touched. Going back, the old values are put back one after the other, so that every instruction is
seen with the operands that it had.

Copies count as done where they were issued. In a program without races nobody can tell the difference: a read or write
of the bytes between issue and landing would be one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.machine.asynchronous.in_flight import Flight
from tileproof.simulators.ptx.machine.asynchronous.small_flights import SmallCopy
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Backing, Bits, Fault, Lanes, Piece, Space
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace

#: Registers written and addresses touched, summed over lanes: a few hundred megabytes.
MOST_LANE_EVENTS = 1 << 25


@dataclass(frozen=True)
class Written:
    """A register that a step wrote.

    Attributes:
        slot: the register.
        lanes: whose.
        before: what stood in it.
    """

    slot: int
    lanes: Lanes
    before: Bits


@dataclass(frozen=True)
class Touched:
    """Bytes that a step found by address.

    Attributes:
        call: how many address vectors of the step came before this one.
        space: of the address.
        backing: where they lie.
        lanes: whose address each is.
        positions: of each in the step's address vector.
        offsets: byte offsets in the backing.
        nbytes: of each.
    """

    call: int
    space: StateSpace
    backing: Backing
    lanes: Lanes
    positions: Lanes
    offsets: Lanes
    nbytes: int


@dataclass
class Event:
    """One step of a group of lanes.

    Attributes:
        pc: the step.
        written: registers, in order.
        touched: bytes.
        flights: copies that were issued.
        calls: address vectors so far.
    """

    pc: int
    written: list[Written] = field(default_factory=list)
    touched: list[Touched] = field(default_factory=list)
    flights: list[Flight | SmallCopy] = field(default_factory=list)
    calls: int = 0


@dataclass
class WaveLog:
    """One wave.

    Attributes:
        geometry: who was resident.
        shared: its shared memory.
        stride: bytes of it a block.
        base: address of its first byte.
        parameters: the parameter area.
        constants: the module's.
        values: registers [slots, lanes] at the end.
        events: in order.
    """

    geometry: Geometry
    shared: Backing
    stride: int
    base: int
    parameters: Backing
    constants: Backing
    values: Bits
    events: list[Event] = field(default_factory=list)


class Recorder:
    """Records the waves of one launch.

    Attributes:
        waves: in the order in which they ran.

    Args:
        limit: lane events that are kept at most.
    """

    def __init__(self, limit: int = MOST_LANE_EVENTS) -> None:
        self.waves: list[WaveLog] = []
        self._limit = limit
        self._count = 0

    def begin(self, wave: Wave) -> None:
        """Watch a wave."""
        spaces, geometry = wave.spaces, wave.geometry
        parameters, constants = spaces[StateSpace.PARAM], spaces[StateSpace.CONST]
        assert isinstance(parameters, Backing)
        assert isinstance(constants, Backing)
        values = wave.registers.values
        self.waves.append(
            WaveLog(geometry, wave.shared, wave.shared.stride, wave.shared.base, parameters, constants, values)
        )
        for space, memory in spaces.items():
            spaces[space] = _WatchedSpace(self, space, memory)
        wave.registers.before_write = lambda slot, selection: self._write(wave, slot, selection)
        if wave.program.has_asynchronous:
            wave.asynchronous.in_flight.on_issue = lambda flight: self._event.flights.append(flight)

    def end(self, wave: Wave) -> None:
        """The wave has ended."""
        self.waves[-1].values = wave.registers.values.copy()

    def step(self, pc: int) -> None:
        """Lanes execute a step."""
        self.waves[-1].events.append(Event(pc))

    @property
    def _event(self) -> Event:
        return self.waves[-1].events[-1]

    def _write(self, wave: Wave, slot: int, selection: Selection) -> None:
        lanes = wave.ids(selection)
        self._room(lanes.size)
        self._event.written.append(Written(slot, lanes, wave.registers.values[slot][selection].copy()))

    def touch(self, space: StateSpace, pieces: Sequence[Piece], lanes: Lanes, nbytes: int) -> None:
        """A step looked for addresses."""
        event = self._event
        for piece in pieces:
            self._room(piece.offsets.size)
            positions = np.arange(lanes.size)[piece.positions]
            event.touched.append(
                Touched(event.calls, space, piece.backing, lanes[positions], positions, piece.offsets, nbytes)
            )
        event.calls += 1

    def _room(self, lanes: int) -> None:
        self._count += lanes
        if self._count > self._limit:
            raise Refusal(
                f"the launch does more than the {self._limit:,} register writes and accesses that a trace keeps",
                hint="trace a smaller problem, or launch fewer blocks: those that make the element",
            )


class _WatchedSpace:
    """A memory whose accesses are recorded; see `Space`."""

    def __init__(self, recorder: Recorder, space: StateSpace, memory: Space) -> None:
        self._recorder = recorder
        self._space = space
        self._memory = memory

    def locate(self, addresses: Bits, lanes: Lanes, size: int) -> tuple[list[Piece], list[Fault]]:
        """See `Space.locate`."""
        pieces, faults = self._memory.locate(addresses, lanes, size)
        self._recorder.touch(self._space, pieces, lanes, size)
        return pieces, faults
