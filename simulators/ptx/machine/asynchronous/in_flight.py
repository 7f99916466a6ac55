"""Copies between issue and landing.

The schedule says when a copy lands. `Friendly` lands it at issue. `Adversarial` draws a moment; until then the bytes
that it will write are undefined. Whatever must be complete by then is landed by who asks for it: a wait for a group
lands the group, polls of an mbarrier land what it waits for after a bounded number of failures, a launch's end lands
all. So a landing comes at the latest at the last legal moment.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous.small_flights import NUMBER, SmallCopy, SmallFlights
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.schedule import Schedule
from tileproof.simulators.ptx.program import Step

if TYPE_CHECKING:
    from tileproof.simulators.ptx.machine.wave import Wave

# Polls of one mbarrier after which everything that it waits for lands.
MOST_POLLS = 8


class Flight(Protocol):
    """Something in flight.

    Attributes:
        step: the instruction that issued it.
        words: the mbarriers that its landing signals.
        phase: of them, to which it is bound.
        nbytes: that they are told of.
    """

    step: Step
    words: tuple[int, ...]
    phase: int
    nbytes: int

    def hide(self) -> None:
        """It is in flight from now on."""
        ...

    def advance(self, wave: "Wave") -> bool:
        """Make the next of its moments come; whether it has landed."""
        ...

    def issuers(self) -> Lanes:
        """The lanes that issued it, for messages."""
        ...


class InFlight:
    """All copies of the resident blocks that have not landed.

    Attributes:
        on_issue: called with every copy before it is issued.
        small: those of `cp.async`.

    Args:
        schedule: draws the moments.
        small: none yet.
    """

    def __init__(self, schedule: Schedule, small: SmallFlights) -> None:
        self.on_issue: Callable[[Flight | SmallCopy], None] | None = None
        self.small = small
        self._schedule = schedule
        self._turn = 0
        self._issued = 0
        self._flights: dict[int, Flight] = {}
        self._due: list[tuple[int, int]] = []
        self._polls: dict[int, int] = {}

    def issue(self, wave: "Wave", flight: Flight) -> None:
        """A copy is issued: it lands now, or is in flight."""
        if self.on_issue is not None:
            self.on_issue(flight)
        delay = self._schedule.landing_delay()
        if delay == 0:
            while not flight.advance(wave):
                pass
            return
        flight.hide()
        self._issued += 1
        self._flights[self._issued] = flight
        self._schedule_next(self._issued, delay)

    def send(self, copies: list[SmallCopy]) -> None:
        """The copies of one `cp.async` are issued."""
        if self.on_issue is not None:
            for copy in copies:
                self.on_issue(copy)
        if copies:
            self.small.send(copies, self._schedule.landing_delay())

    def _schedule_next(self, number: int, delay: int | None) -> None:
        if delay is not None:
            heappush(self._due, (self._turn + delay, number))

    def tick(self, wave: "Wave") -> None:
        """A turn begins: what is due advances."""
        self._turn += 1
        wave.changes += self.small.begin_turn(self._turn)
        while self._due and self._due[0][0] <= self._turn:
            _, number = heappop(self._due)
            if number in self._flights and not self._advance(wave, number):
                self._schedule_next(number, self._schedule.landing_delay())

    def _advance(self, wave: "Wave", number: int) -> bool:
        flight = self._flights.pop(number)  # a copy that completes its own phase is not left behind by it
        landed = flight.advance(wave)
        if not landed:
            self._flights[number] = flight
        wave.changes += 1
        return landed

    def land(self, wave: "Wave", flights: Sequence[Flight]) -> None:
        """These land now, in an order that the schedule draws."""
        chosen = {id(flight) for flight in flights}
        numbers = [number for number, flight in self._flights.items() if id(flight) in chosen]
        drawn = self._schedule.lane_order(len(numbers))
        for position in range(len(numbers)) if drawn is None else drawn.tolist():
            while numbers[position] in self._flights and not self._advance(wave, numbers[position]):
                pass

    def all(self) -> list[Flight]:
        """Everything in flight but `cp.async`, in the order of issue."""
        return list(self._flights.values())

    def drain(self, wave: "Wave") -> bool:
        """Everything lands; whether there was anything."""
        found = self._drain_small(wave) or bool(self._flights)
        self.land(wave, self.all())
        return found

    def _drain_small(self, wave: "Wave") -> bool:
        rows = self.small.rows
        numbers, instruction = np.unique(rows[:, NUMBER], return_inverse=True)
        drawn = self._schedule.lane_order(numbers.size)
        order = None if drawn is None else np.argsort(drawn[instruction], kind="stable")
        landed = self.small.land(np.ones(len(rows), np.bool_), order)
        wave.changes += landed
        return landed

    def poll(self, wave: "Wave", words: Lanes) -> None:
        """Waits for these mbarriers failed: sooner or later what they wait for lands."""
        if not self._flights:
            return
        for word in np.unique(words).tolist():
            bound = [flight for flight in self._flights.values() if word in flight.words]
            if not bound:
                continue
            self._polls[word] = self._polls.get(word, 0) + 1
            if self._polls[word] >= MOST_POLLS:
                self._polls[word] = 0
                self.land(wave, bound)
            else:
                self.land(wave, [flight for flight in bound if self._schedule.lands_at_poll()])

    def left_behind(self, wave: "Wave", word: int) -> int:
        """A phase of an mbarrier completes: copies bound to it that are still in flight are left behind, so many bytes.

        They are bound to the next phase.
        """
        left = 0
        phase = int(wave.asynchronous.barriers.phase[word])
        for flight in self._flights.values():
            if word in flight.words and flight.phase == phase:
                address = wave.asynchronous.barriers.address(word)
                message = (
                    f"a phase of an mbarrier is complete while {flight.step.opcode}, which was issued in it, is in "
                    "flight: other bytes or arrivals came in its place"
                )
                detail = f" (shared 0x{address:x}, phase {phase})"
                wave.report(FindingKind.ASYNC, message, flight.step.where, flight.issuers(), detail)
                flight.phase += 1
                left += flight.nbytes
        return left
