"""`cp.async.bulk` and `cp.reduce.async.bulk`: few lanes, many bytes each.

A copy that signals an mbarrier reads its source and writes its target at one moment, its landing. One that joins its
thread's bulk group has two: the source is read, and later the target is written. A multicast is one copy for each
target block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tileproof.simulators.ptx.async_form import BulkForm
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.layout import RANK_SHIFT
from tileproof.simulators.ptx.machine.asynchronous import signals
from tileproof.simulators.ptx.machine.asynchronous.barriers import WORD_SHIFT
from tileproof.simulators.ptx.machine.asynchronous.places import Found, find, find_shared
from tileproof.simulators.ptx.machine.asynchronous.region import Payload, Reduction, Region, Source, Target
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NONE, StateSpace, Step

ALIGNMENT = 16


def bulk(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Execute a BULK step; a copy with anything illegal is reported and dropped."""
    form = step.asynchronous
    assert isinstance(form, BulkForm)
    lanes, sizes = _sizes(wave, step, form, wave.ids(selection))
    twins = Twins()
    for nbytes in np.unique(sizes).tolist():
        here = lanes[sizes == nbytes]
        sources = by_lane(here, find(wave, step, form.source, here, nbytes, ALIGNMENT, "reads"))
        targets = by_lane(here, find(wave, step, form.target, here, nbytes, ALIGNMENT, "writes"))
        words = _barriers(wave, step, form, here)
        for lane in here.tolist():
            wave.attend()
            if lane in sources and lane in targets and (form.barrier is None or lane in words):
                _issue(wave, step, pc, form, lane, sources[lane], targets[lane], words.get(lane, NONE), nbytes, twins)


def _sizes(wave: Wave, step: Step, form: BulkForm, lanes: Lanes) -> tuple[Lanes, Lanes]:
    """The lanes that copy a legal number of bytes, and it."""
    undefined = wave.registers.undefined((form.nbytes,), lanes)
    if undefined is not None:
        message = f"a value that nothing wrote decides how many bytes {step.opcode} copies"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
        lanes = lanes[undefined[0] == 0]
    sizes = wave.registers.read(form.nbytes, lanes, 32).astype(np.int64)
    wrong = sizes % ALIGNMENT != 0
    if wrong.any():
        message = f"{step.opcode} copies a number of bytes that is not a multiple of {ALIGNMENT}"
        wave.report(FindingKind.MISALIGNED, message, step.where, lanes[wrong], f" ({int(sizes[wrong][0])})")
    # A copy of no bytes touches nothing, and nobody has to wait for it: ragged ends issue such.
    right = ~wrong & (sizes > 0)
    return lanes[right], sizes[right]


def by_lane(lanes: Lanes, found: Sequence[Found]) -> dict[int, tuple[Found, int]]:
    """For each lane where its access lies: in which backing, and at which byte."""
    places: dict[int, tuple[Found, int]] = {}
    for each in found:
        for position, offset in zip(each.positions.tolist(), each.offsets.tolist(), strict=True):
            places[int(lanes[position])] = (each, offset)
    return places


def _barriers(wave: Wave, step: Step, form: BulkForm, lanes: Lanes) -> dict[int, int]:
    """The word of each lane's mbarrier, where its address is legal."""
    if form.barrier is None:
        return {}
    found = find_shared(wave, step, form.barrier, lanes, 8, 8, "finds its mbarrier in")
    words = found.offsets >> WORD_SHIFT
    return dict(zip(lanes[found.positions].tolist(), words.tolist(), strict=True))


def _issue(
    wave: Wave,
    step: Step,
    pc: int,
    form: BulkForm,
    lane: int,
    source: tuple[Found, int],
    target: tuple[Found, int],
    word: int,
    nbytes: int,
    twins: "Twins",
) -> None:
    read = _region(wave, form, lane, *source, nbytes)
    write = _region(wave, form, lane, *target, nbytes)
    ends = [(write, word)]
    if form.blocks != NONE:
        ends = multicast(wave, step, form.blocks, lane, write, word)
    for region, signalled in ends:
        end: Target = region if form.operation is None else Reduction(region, form.operation, form.element_bytes)
        issue(wave, step, pc, lane, read, end, signalled, nbytes, twins=twins)


def _region(wave: Wave, form: BulkForm, lane: int, found: Found, offset: int, nbytes: int) -> Region:
    space = StateSpace.SHARED if found.space is StateSpace.CLUSTER else found.space
    if form.byte_mask == NONE:
        return Region(space, found.backing, np.array([offset]), nbytes)
    mask = int(wave.registers.read(form.byte_mask, np.array([lane]))[0])
    chosen = np.flatnonzero([mask >> (byte % ALIGNMENT) & 1 for byte in range(nbytes)])
    return Region(space, found.backing, offset + chosen, 1)


def multicast(wave: Wave, step: Step, blocks: int, lane: int, region: Region, word: int) -> list[tuple[Region, int]]:
    """The region and mbarrier at the same place of every block of the cluster that the mask names."""
    mask = int(wave.registers.read(blocks, np.array([lane]))[0])
    first, count = wave.cluster_of(lane)
    beyond = [rank for rank in range(16) if mask >> rank & 1 and rank >= count]
    if beyond:
        message = f"{step.opcode} copies to a block beyond the {count} of the cluster"
        detail = f" (mask 0x{mask:x}, rank {beyond[0]})"
        wave.report(FindingKind.OUT_OF_BOUNDS, message, step.where, np.array([lane]), detail)
    stride = wave.shared.stride
    ends = []
    for rank in range(count):
        if mask >> rank & 1 and _is_there(wave, step, lane, rank, int(region.offsets[0]) % stride):
            start = (first + rank) * stride
            place = Region(region.space, region.backing, region.offsets % stride + start, region.nbytes)
            key = (word << WORD_SHIFT) % stride + start
            ends.append((place, key >> WORD_SHIFT))
    return ends


def _is_there(wave: Wave, step: Step, lane: int, rank: int, offset: int) -> bool:
    """Whether a block of the cluster has started and not ended, as far as the lane knows; reports it if not."""
    lanes = np.array([lane])
    address = np.array([wave.asynchronous.barriers.base + offset | rank << RANK_SHIFT], np.uint64)
    pieces, faults = wave.spaces[StateSpace.CLUSTER].locate(address, lanes, 1)
    for fault in faults:
        wave.report(fault.kind, f"{step.opcode} writes {fault.message}", step.where, lanes, fault.detail)
    return bool(pieces)


def issue(
    wave: Wave,
    step: Step,
    pc: int,
    lane: int,
    source: Source,
    target: Target,
    word: int,
    nbytes: int,
    *,
    generic: bool = False,
    twins: "Twins | None" = None,
) -> None:
    """A lane issues a copy: what bulk copies, tensor copies and asynchronous stores share.

    Args:
        wave: the machine.
        step: the instruction.
        pc: its index.
        lane: who issues.
        source: where from; its region is what is read.
        target: where to.
        word: the mbarrier that is told (if it is not live, the copy is dropped); NONE for a copy that joins the lane's
            bulk group.
        nbytes: what the mbarrier is told.
        generic: it goes through the generic proxy.
        twins: the copies that this instruction has issued before.
    """
    barriers, groups, again = wave.asynchronous.barriers, wave.asynchronous.bulk, False
    if word == NONE:
        group = int(groups.open[lane])
        groups.used[lane], groups.used_at[lane] = group + 1, pc
        flight = BulkCopy(step, lane, source, target, nbytes, group)
        readers, writers = (Engine.BULK_READ, group), (Engine.BULK_WRITE, group)
        again = twins is not None and twins.has(flight)
    elif signals.usable(wave, step, np.array([lane]), np.array([word])).size:
        phase = int(barriers.phase[word])
        barriers.promised[word], barriers.promised_at[word] = phase + 1, pc
        barriers.issued[word] += nbytes
        signals.check_bytes(wave, step, np.array([lane]), np.array([word]))
        signals.use_by_copy(wave, step, pc, np.array([lane]), np.array([word]))
        _check_block(wave, step, lane, target.region, word)
        flight = BulkCopy(step, lane, source, target, nbytes, NONE, (word,), phase)
        readers = writers = (Engine.BARRIER, phase)
    else:
        return
    for region, written, (engine, tick) in ((source.region, False, readers), (target.region, True, writers)):
        if region is None or not region.offsets.size or (again and written):
            continue
        _check_objects(wave, step, lane, region, "writes" if written else "reads")
        count = region.offsets.size
        races = wave.order.async_access(
            engine,
            np.full(count, tick),
            step,
            pc,
            np.full(count, lane),
            written,
            region.space,
            region.backing,
            region.offsets,
            region.nbytes,
            None if word == NONE else np.full(count, barriers.component[word], np.int64),
            generic=generic,
            reduces=written and isinstance(target, Reduction),
        )
        if races and not generic and wave.weak is not None:
            if written and isinstance(target, Region):
                flight.later = wave.weak.overtakes(region)
            elif not written:
                flight.races = True
        (wave.count_written if written else wave.count_read)(region.space, region.nbytes * count)
    if again:
        wave.note(f"threads of a warp copy the same bytes to one place by one {step.opcode}", step.where, 1)
    else:
        wave.asynchronous.in_flight.issue(wave, flight)


class Twins:
    """Copies to one place that threads of a warp issue by one instruction: of equal ones, the first writes.

    Like stores of equal values by one instruction, they are a note and no race. CUTLASS issues its tensor stores so;
    ptxas 13.0 makes one copy a warp of them, where the operands are uniform. Every thread still reads the source, and
    must wait before it writes there.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[object, ...]] = set()

    def has(self, flight: "BulkCopy") -> bool:
        """Whether an equal copy came before; from now on, this one did."""
        source, target = flight.source.region, flight.target
        if source is None or not isinstance(target, Region):
            return False
        ends = [(id(end.backing), end.nbytes, end.offsets.tobytes()) for end in (source, target)]
        key = (flight.lane >> WARP_SHIFT, *ends)
        seen = key in self._seen
        self._seen.add(key)
        return seen


def _check_block(wave: Wave, step: Step, lane: int, region: Region, word: int) -> None:
    """The mbarrier lies in the shared memory of the same block as the target (PTX ISA, "cp.async.bulk")."""
    if region.space is StateSpace.SHARED and region.offsets.size:
        block = wave.asynchronous.barriers.block(word)
        if int(region.offsets[0]) // wave.shared.stride != block:
            message = f"{step.opcode} signals an mbarrier that is not in the block that it writes to"
            wave.report(FindingKind.BARRIER, message, step.where, np.array([lane]))


def _check_objects(wave: Wave, step: Step, lane: int, region: Region, verb: str) -> None:
    if region.space is StateSpace.SHARED and wave.asynchronous.barriers.any_live and _touches_object(wave, region):
        message = f"{step.opcode} {verb} the bytes of a live mbarrier"
        wave.report(FindingKind.BARRIER, message, step.where, np.array([lane]))


def _touches_object(wave: Wave, region: Region) -> bool:
    barriers, nbytes = wave.asynchronous.barriers, region.nbytes
    if nbytes <= ALIGNMENT:  # the many chunks of a tensor copy, at once
        return bool(barriers.touched(region.offsets, nbytes).any())
    return any(barriers.inside(start, start + nbytes) for start in region.offsets.tolist())


@dataclass(eq=False)
class BulkCopy:
    """One bulk copy in flight.

    Attributes:
        step: the instruction.
        lane: who issued it.
        source: where from.
        target: where to.
        nbytes: what the mbarrier is told.
        group: of the lane's bulk groups; NONE where an mbarrier is told.
        words: that mbarrier.
        phase: to which it is bound.
        payload: what was read, once it was.
        races: its read races with an earlier generic store.
        later: generic stores that race with its write and come after it.
    """

    step: Step
    lane: int
    source: Source
    target: Target
    nbytes: int
    group: int
    words: tuple[int, ...] = ()
    phase: int = 0
    payload: Payload | None = field(default=None, init=False)
    races: bool = field(default=False, init=False)
    later: Payload | None = field(default=None, init=False)

    def hide(self) -> None:
        """See `Flight`."""
        self.target.poison()

    def read(self, wave: Wave) -> Payload:
        """The source is read, if it was not."""
        if self.payload is None:
            self.payload = self.source.load()
            if wave.weak is not None and isinstance(self.source, Region):
                self.payload = wave.weak.read_async(self.source, self.lane, self.payload, races=self.races)
            if not isinstance(self.target, Reduction):
                self._check_output(wave, self.payload)
        return self.payload

    def _check_output(self, wave: Wave, payload: Payload) -> None:
        if self.target.region.space is not StateSpace.GLOBAL:
            return
        if payload.held is not None:
            wave.counters.global_bytes_undecided += payload.held.open_bytes
        if payload.written is not None:
            message = f"{self.step.opcode} puts a value that nothing wrote into global memory"
            wave.report(FindingKind.UNINITIALISED, message, self.step.where, self.issuers())

    def advance(self, wave: Wave) -> bool:
        """See `Flight`: the two moments of a copy of a bulk group are apart."""
        if self.payload is None and not self.words:
            self.read(wave)
            return False
        payload = self.read(wave)
        if wave.weak is not None:
            wave.weak.write_async(self.target.region, self.lane, payload)
        self.target.store(payload if self.later is None else self.later.over(payload))
        if isinstance(self.target, Reduction):
            self._check_output(wave, self.target.region.load())
        if self.words:
            words = np.array(self.words)
            signals.complete_bytes(wave, self.step, self.issuers(), words, np.array([self.nbytes]))
        return True

    def issuers(self) -> Lanes:
        """See `Flight`."""
        return np.array([self.lane])


def finish(wave: Wave, lanes: Lanes, bounds: Lanes, *, reads_only: bool) -> None:
    """Let the copies of these lanes of groups below each lane's bound read their sources, or land."""
    bound = dict(zip(lanes.tolist(), bounds.tolist(), strict=True))
    due = [
        flight
        for flight in wave.asynchronous.in_flight.all()
        if isinstance(flight, BulkCopy) and not flight.words and flight.group < bound.get(flight.lane, 0)
    ]
    if reads_only:
        for flight in due:
            flight.read(wave)
    else:
        wave.asynchronous.in_flight.land(wave, due)
