"""`cp.async` of 4, 8 or 16 bytes: a whole group of lanes at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileproof.simulators.ptx.async_form import CopyForm
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous import signals
from tileproof.simulators.ptx.machine.asynchronous.places import Found, check_objects, find, find_shared
from tileproof.simulators.ptx.machine.asynchronous.small_flights import GROUP, ISSUED, LANE, NUMBER, SmallCopy
from tileproof.simulators.ptx.machine.memory import Backing, Lanes
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NONE, StateSpace, Step

_NO_SOURCE = Backing(0, defined=True)


def copy(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Execute a COPY step: what is not legal is reported; a wrong source reads as zeros, a wrong target is dropped."""
    form = step.asynchronous
    assert isinstance(form, CopyForm)
    lanes = wave.ids(selection)
    target = find_shared(wave, step, form.target, lanes, form.nbytes, form.nbytes, "writes")
    check_objects(wave, step, lanes, target, form.nbytes, "writes")
    groups = wave.asynchronous.small
    groups.used[selection], groups.used_at[selection] = groups.open[selection] + 1, pc
    owners = lanes if target.positions.size == lanes.size else lanes[target.positions]
    taken = _source_bytes(wave, step, form, owners)
    copies: list[SmallCopy] = []
    if taken is None:
        copies += _issue_all(wave, step, pc, form, owners, target.offsets, form.nbytes)
    else:
        for nbytes in np.unique(taken).tolist():
            here = np.flatnonzero(taken == nbytes)
            copies += _issue_all(wave, step, pc, form, owners[here], target.offsets[here], nbytes)
    wave.asynchronous.in_flight.send(copies)
    ticks = groups.open[owners].astype(np.int64)
    wave.order.async_access(
        Engine.CP_ASYNC, ticks, step, pc, owners, True, StateSpace.SHARED, wave.shared, target.offsets, form.nbytes
    )
    wave.count_written(StateSpace.SHARED, form.nbytes * owners.size)


def _source_bytes(wave: Wave, step: Step, form: CopyForm, lanes: Lanes) -> Lanes | None:
    """How many bytes each lane reads; None where all read as many as they write."""
    slots = [slot for slot in (form.source_bytes, form.ignore) if slot != NONE]
    if not slots:
        return None
    taken = np.full(lanes.size, form.nbytes)
    undefined = wave.registers.undefined(slots, lanes)
    if undefined is not None:
        message = f"a value that nothing wrote decides how many bytes {step.opcode} reads"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[np.bitwise_or.reduce(undefined) != 0])
    if form.ignore != NONE:
        taken[(wave.registers.read(form.ignore, lanes) != 0) != form.ignore_negated] = 0
        return taken
    asked = wave.registers.read(form.source_bytes, lanes, 32).astype(np.int64)
    beyond = asked > form.nbytes
    if beyond.any():
        message = f"{step.opcode} reads more bytes than the {form.nbytes} that it writes"
        wave.report(FindingKind.ASYNC, message, step.where, lanes[beyond], f" ({int(asked[beyond][0])})")
    taken[:] = np.minimum(asked, taken)
    return taken


def _issue_all(
    wave: Wave, step: Step, pc: int, form: CopyForm, lanes: Lanes, offsets: Lanes, nbytes: int
) -> Iterator[SmallCopy]:
    """Copies of lanes that read the same number of bytes, one for each allocation that they read."""
    found = find(wave, step, form.source, lanes, nbytes, form.nbytes, "reads") if nbytes else []
    if len(found) == 1 and found[0].positions.size == lanes.size:
        yield _issue(wave, step, pc, form, lanes, offsets, nbytes, found[0])
        return
    left = np.ones(lanes.size, np.bool_)
    for each in found:
        left[each.positions] = False
        yield _issue(wave, step, pc, form, lanes[each.positions], offsets[each.positions], nbytes, each)
    rest = np.flatnonzero(left)
    if rest.size:
        nothing = Found(StateSpace.GLOBAL, _NO_SOURCE, rest, np.zeros(rest.size, np.int64))
        yield _issue(wave, step, pc, form, lanes[rest], offsets[rest], 0, nothing)


def _issue(
    wave: Wave, step: Step, pc: int, form: CopyForm, lanes: Lanes, offsets: Lanes, nbytes: int, source: Found
) -> SmallCopy:
    """Copies of one allocation's bytes, or of zeros."""
    groups = wave.asynchronous.small.open[lanes].astype(np.int64)
    if nbytes:
        if wave.weak is not None:
            wave.weak.touch(source.backing, source.offsets, nbytes, lanes, writes=False)
        wave.order.async_access(
            Engine.CP_ASYNC, groups, step, pc, lanes, False, source.space, source.backing, source.offsets, nbytes
        )
        wave.count_read(source.space, nbytes * lanes.size)
    return SmallCopy(step, lanes, groups, wave.shared, offsets, source.backing, source.offsets, form.nbytes, nbytes)


def signal(wave: Wave, step: Step, pc: int, lanes: Lanes, words: Lanes) -> None:
    """`cp.async.mbarrier.arrive` by lanes on live objects: each arrives when its earlier copies have landed."""
    groups = wave.asynchronous.small
    groups.signalled[lanes] = groups.open[lanes] + 1
    bounds = groups.open[lanes].astype(np.int64) + 1
    for word in np.unique(words).tolist():
        here = words == word
        phase = int(wave.asynchronous.barriers.phase[word])
        earlier = int(wave.asynchronous.in_flight.small.state[ISSUED])
        flight = Signal(step, lanes[here], bounds[here], earlier, (word,), phase)
        wave.asynchronous.in_flight.issue(wave, flight)


@dataclass(eq=False)
class Signal:
    """Arrivals that come when their lanes' copies have landed.

    Attributes:
        step: `cp.async.mbarrier.arrive`.
        lanes: whose arrivals.
        bounds: for each, one more than its open group at the instruction.
        earlier: number of the last copy that was issued before.
        words: the mbarrier.
        phase: to which the arrivals are bound.
        nbytes: none: it is told of arrivals.
    """

    step: Step
    lanes: Lanes
    bounds: Lanes
    earlier: int
    words: tuple[int, ...]
    phase: int
    nbytes: int = 0

    def hide(self) -> None:
        """See `Flight`: nothing is overwritten."""

    def advance(self, wave: Wave) -> bool:
        """See `Flight`."""
        flights = wave.asynchronous.in_flight.small
        flights.land((flights.rows[:, NUMBER] <= self.earlier) & np.isin(flights.rows[:, LANE], self.lanes))
        words = np.full(self.lanes.size, self.words[0])
        live = signals.usable(wave, self.step, self.lanes, words)
        bounds = self.bounds

        def publish(arriving: Lanes, keys: Lanes) -> None:
            wave.order.cp_async_arrive(arriving, keys, bounds[np.searchsorted(self.lanes, arriving)])

        signals.arrive(wave, self.step, self.lanes[live], words[live], np.ones(live.size, np.int64), publish)
        return True

    def issuers(self) -> Lanes:
        """See `Flight`."""
        return self.lanes


def finish(wave: Wave, lanes: Lanes, bounds: Lanes) -> None:
    """Land the copies of these lanes that are of groups below each lane's bound."""
    flights, bound = wave.asynchronous.in_flight.small, np.zeros(wave.geometry.lanes, np.int64)
    bound[lanes] = bounds
    wave.changes += flights.land(flights.rows[:, GROUP] < bound[flights.rows[:, LANE]])
