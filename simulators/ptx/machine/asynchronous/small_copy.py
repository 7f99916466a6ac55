"""`cp.async` of 4, 8 or 16 bytes: a whole group of lanes at once."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.async_form import CopyForm
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous import signals
from tileproof.simulators.ptx.machine.asynchronous.places import Found, check_objects, find, find_shared
from tileproof.simulators.ptx.machine.memory import Backing, Bytes, Lanes, Mask
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NONE, StateSpace, Step

_NO_SOURCE = Backing(0, defined=True)
_ALL_BITS = np.uint8(0xFF)


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
    if taken is None:
        _issue_all(wave, step, pc, form, owners, target.offsets, form.nbytes)
    else:
        for nbytes in np.unique(taken).tolist():
            here = np.flatnonzero(taken == nbytes)
            _issue_all(wave, step, pc, form, owners[here], target.offsets[here], nbytes)
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


def _issue_all(wave: Wave, step: Step, pc: int, form: CopyForm, lanes: Lanes, offsets: Lanes, nbytes: int) -> None:
    """Copies of lanes that read the same number of bytes, one flight for each allocation that they read."""
    found = find(wave, step, form.source, lanes, nbytes, form.nbytes, "reads") if nbytes else []
    if len(found) == 1 and found[0].positions.size == lanes.size:
        _issue(wave, step, pc, form, lanes, offsets, nbytes, found[0])
        return
    left = np.ones(lanes.size, np.bool_)
    for each in found:
        left[each.positions] = False
        _issue(wave, step, pc, form, lanes[each.positions], offsets[each.positions], nbytes, each)
    rest = np.flatnonzero(left)
    if rest.size:
        nothing = Found(StateSpace.GLOBAL, _NO_SOURCE, rest, np.zeros(rest.size, np.int64))
        _issue(wave, step, pc, form, lanes[rest], offsets[rest], 0, nothing)


def _issue(
    wave: Wave, step: Step, pc: int, form: CopyForm, lanes: Lanes, offsets: Lanes, nbytes: int, source: Found
) -> None:
    """Copies of one allocation's bytes, or of zeros."""
    groups = wave.asynchronous.small.open[lanes].astype(np.int64)
    shared, order = wave.shared, wave.order
    if nbytes:
        if wave.weak is not None and source.space is StateSpace.GLOBAL:
            wave.weak.touch(source.backing, source.offsets, nbytes, lanes, writes=False)
        order.async_access(
            Engine.CP_ASYNC, groups, step, pc, lanes, False, source.space, source.backing, source.offsets, nbytes
        )
        wave.count_read(source.space, nbytes * lanes.size)
    flight = SmallCopy(step, lanes, groups, shared, offsets, source.backing, source.offsets, form.nbytes, nbytes)
    wave.asynchronous.in_flight.issue(wave, flight)


@dataclass(eq=False)
class SmallCopy:
    """The copies of one instruction from one allocation.

    Attributes:
        step: the instruction.
        lanes: who issued them.
        groups: each lane's group.
        target: shared memory.
        target_offsets: where each lane writes.
        source: the allocation.
        source_offsets: where each lane reads.
        nbytes: written by each lane.
        source_bytes: of these, read from the source; the rest is zero.
        left: lanes whose copy has not landed.
        first_lane: the lowest of the lanes.
        last_lane: the highest.
    """

    step: Step
    lanes: Lanes
    groups: Lanes
    target: Backing
    target_offsets: Lanes
    source: Backing
    source_offsets: Lanes
    nbytes: int
    source_bytes: int
    words: tuple[int, ...] = ()
    phase: int = 0
    left: Mask = field(init=False)
    first_lane: int = field(init=False)
    last_lane: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.ones(self.lanes.size, np.bool_)
        self.first_lane, self.last_lane = int(self.lanes[0]), int(self.lanes[-1])

    def hide(self) -> None:
        """See `Flight`."""
        rows(self.target.track(), self.nbytes)[self.target_offsets // self.nbytes] = 0

    def advance(self, wave: Wave) -> bool:
        """See `Flight`."""
        self.land(wave, self.left)
        return True

    def issuers(self) -> Lanes:
        """See `Flight`."""
        return self.lanes

    def land(self, wave: Wave, chosen: Mask) -> None:
        """The copies of some lanes land."""
        here = slice(None) if chosen.all() else np.flatnonzero(chosen)
        self.left = self.left & ~chosen
        target, source = self.target_offsets[here], self.source_offsets[here]
        if self.source_bytes < self.nbytes:
            self._land_bytes(target, source)
        else:
            self._land_whole(target, source)
        if self.source.brackets is not None or self.target.brackets is not None:
            self._land_brackets(target, source)

    def _land_whole(self, target: Lanes, source: Lanes) -> None:
        put, get, nbytes = target // self.nbytes, source // self.nbytes, self.nbytes
        rows(self.target.data, nbytes)[put] = rows(self.source.data, nbytes)[get]
        written = rows(self.target.track(), nbytes)
        if self.source.written is None:
            written[put] = np.iinfo(written.dtype).max
        else:
            written[put] = rows(self.source.written, nbytes)[get]

    def _land_brackets(self, target: Lanes, source: Lanes) -> None:
        """What approximate functions left open of the bytes; what was filled with zeros is decided."""
        brackets = self.source.brackets
        held = None if brackets is None else brackets.take(source, self.source_bytes)
        self.target.put_brackets(target, self.nbytes, None)
        if held is not None:
            self.target.put_brackets(target, self.source_bytes, held)

    def _land_bytes(self, target: Lanes, source: Lanes) -> None:
        index = target[:, None] + np.arange(self.nbytes)
        self.target.data[index] = 0
        self.target.track()[index] = _ALL_BITS
        part, taken = index[:, : self.source_bytes], source[:, None] + np.arange(self.source_bytes)
        if self.source_bytes:
            self.target.data[part] = self.source.data[taken]
            if self.source.written is not None:
                self.target.track()[part] = self.source.written[taken]


def rows(array: Bytes, nbytes: int) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Bytes as rows of `nbytes`, in elements as large as numpy moves fast."""
    if nbytes == 4:
        return array.view(np.uint32)
    pairs = array.view(np.uint64)
    return pairs if nbytes == 8 else pairs[: pairs.size // 2 * 2].reshape(-1, 2)


def signal(wave: Wave, step: Step, pc: int, lanes: Lanes, words: Lanes) -> None:
    """`cp.async.mbarrier.arrive` by lanes on live objects: each arrives when its earlier copies have landed."""
    groups = wave.asynchronous.small
    groups.signalled[lanes] = groups.open[lanes] + 1
    bounds = groups.open[lanes].astype(np.int64) + 1
    for word in np.unique(words).tolist():
        here = words == word
        phase = int(wave.asynchronous.barriers.phase[word])
        flight = Signal(step, lanes[here], bounds[here], _flights(wave, lanes[here]), (word,), phase)
        wave.asynchronous.in_flight.issue(wave, flight)


@dataclass(eq=False)
class Signal:
    """Arrivals that come when their lanes' copies have landed.

    Attributes:
        step: `cp.async.mbarrier.arrive`.
        lanes: whose arrivals.
        bounds: for each, one more than its open group at the instruction.
        earlier: copies that were in flight.
        words: the mbarrier.
        phase: to which the arrivals are bound.
        nbytes: none: it is told of arrivals.
    """

    step: Step
    lanes: Lanes
    bounds: Lanes
    earlier: list[SmallCopy]
    words: tuple[int, ...]
    phase: int
    nbytes: int = 0

    def hide(self) -> None:
        """See `Flight`: nothing is overwritten."""

    def advance(self, wave: Wave) -> bool:
        """See `Flight`."""
        for flight in self.earlier:
            mine = flight.left & np.isin(flight.lanes, self.lanes)
            if mine.any():
                flight.land(wave, mine)
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
    every_bound = np.zeros(wave.geometry.lanes, np.int64)
    every_bound[lanes] = bounds
    landed: list[SmallCopy] = []
    for flight in _flights(wave, lanes):
        due = flight.left & (flight.groups < every_bound[flight.lanes])
        if due.any():
            flight.land(wave, due)
            wave.changes += 1
            if not flight.left.any():
                landed.append(flight)
    wave.asynchronous.in_flight.forget(landed)


def _flights(wave: Wave, lanes: Lanes) -> list[SmallCopy]:
    """The copies in flight of which some may belong to these lanes."""
    first, last = int(lanes[0]), int(lanes[-1])
    return [
        flight
        for flight in wave.asynchronous.in_flight.all()
        if isinstance(flight, SmallCopy) and flight.first_lane <= last and flight.last_lane >= first
    ]
