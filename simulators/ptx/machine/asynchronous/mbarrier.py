"""`mbarrier` instructions, over the lanes that execute them together."""

from collections.abc import Callable, Mapping

import numpy as np

from tileproof.simulators.ptx.async_form import MbarrierAction, MbarrierForm
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous import signals, small_copy
from tileproof.simulators.ptx.machine.asynchronous.barriers import (
    COUNT_LIMIT,
    OBJECT_BYTES,
    WORD_SHIFT,
    Life,
    pending_of,
)
from tileproof.simulators.ptx.machine.asynchronous.places import find_shared
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection, as_selection
from tileproof.simulators.ptx.machine.schedule import PATIENCE_POLLS
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NONE, Step


def mbarrier(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Execute an MBARRIER step."""
    form = step.asynchronous
    assert isinstance(form, MbarrierForm)
    _ACTIONS[form.action](wave, step, form, pc, wave.ids(selection))


def _init(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    lanes, words = _objects(wave, step, form, lanes)
    counts = _count(wave, step, form.count, lanes, "the count")
    barriers = wave.asynchronous.barriers
    for turn in signals.turns(wave, words):
        here = words[turn]
        live = barriers.life[here] == Life.LIVE
        if live.any():
            message = f"{step.opcode} initialises a live mbarrier: mbarrier.inval must come first"
            detail = f" (shared 0x{barriers.address(int(here[live][0])):x})"
            wave.report(FindingKind.BARRIER, message, step.where, lanes[turn][live], detail)
        barriers.init(here, counts[turn])
        for lane, word in zip(lanes[turn].tolist(), here.tolist(), strict=True):
            barriers.component[word] = wave.order.object_init(lane, word << WORD_SHIFT)
    signals.make(wave, step, pc, lanes, words)
    wave.changes += 1


def _invalidate(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    lanes, words = _live_objects(wave, step, form, lanes)
    barriers = wave.asynchronous.barriers
    # Its order after the last uses is not checked: between the two the standard library's pipeline has only a match of
    # the warp's lanes, which orders no memory.
    signals.use(wave, step, pc, lanes, words)
    for turn in signals.turns(wave, words):
        good = signals.usable(wave, step, lanes[turn], words[turn])
        barriers.life[words[turn][good]] = Life.INVALIDATED
    wave.changes += 1


def _arrive(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    everyone = lanes
    lanes, words = _live_objects(wave, step, form, lanes)
    signals.use(wave, step, pc, lanes, words)
    counts = _count(wave, step, form.count, lanes, "the count")
    if form.bytes != NONE:
        signals.expect(wave, step, lanes, words, _count(wave, step, form.bytes, lanes, "the bytes", least=0))
    if form.drops:
        _drop(wave, step, lanes, words, counts)
    phases = wave.asynchronous.barriers.phase[words]

    def publish(arriving: Lanes, keys: Lanes) -> None:
        if form.orders:
            wave.release(arriving, form.scope)
        wave.order.arrive(arriving, keys, form.orders, form.scope)

    states = signals.arrive(wave, step, lanes, words, counts, publish)
    completed = wave.asynchronous.barriers.phase[words] != phases
    if form.no_complete and completed.any():
        message = f"{step.opcode} completes a phase, which .noComplete must not"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[completed])
    _write(wave, step, everyone, lanes, states)


def _drop(wave: Wave, step: Step, lanes: Lanes, words: Lanes, counts: Lanes) -> None:
    expected = wave.asynchronous.barriers.expected
    np.subtract.at(expected, words, counts)
    gone = expected[words] <= 0
    if gone.any():
        message = f"{step.opcode} drops the last arrival that an mbarrier expects"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[gone])
        expected[words[gone]] = 0


def _expect(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    lanes, words = _live_objects(wave, step, form, lanes)
    signals.use(wave, step, pc, lanes, words)
    sign = 1 if form.action is MbarrierAction.EXPECT else -1
    nbytes = sign * _count(wave, step, form.bytes, lanes, "the bytes", least=0)
    signals.expect(wave, step, lanes, words, nbytes)
    signals.settle(wave, words)


def _wait(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    everyone = lanes
    lanes, words = _live_objects(wave, step, form, lanes)
    barriers, waits = wave.asynchronous.barriers, wave.asynchronous.waits
    operand = wave.registers.read(form.phase, lanes)
    _check_phase(wave, step, form, lanes)
    current = barriers.phase[words].astype(np.int64)
    if form.parity:
        _check_parity(wave, step, operand)
        phase = current - ((current ^ operand.astype(np.int64)) & 1)
    else:
        phase, fits = barriers.state_phases(words, operand)
        _check_states(wave, step, lanes, words, fits)
    done = phase < current
    if form.may_fail:
        done &= ~waits.refused(wave, lanes, done)
    waits.remember(lanes, words, phase, pc, done)
    if done.any():
        seen = words[done]
        barriers.observed[seen] = current[done]
        signals.use(wave, step, pc, lanes[done], seen)
        wave.order.acquire_phase(lanes[done], seen << WORD_SHIFT, phase[done], form.orders, form.scope)
        if form.orders:
            wave.acquire(lanes[done], form.scope)
    if not done.all():
        # Nothing that these lanes do makes the wait come true: if all of them wait, others go on at once.
        wave.polls += 1 if done.any() else PATIENCE_POLLS
        wave.asynchronous.in_flight.poll(wave, words[~done])
    # An object that is not there has its finding: the wait is over, so that one cause does not also hang.
    results = np.ones(everyone.size, np.uint64)
    results[slice(None) if lanes.size == everyone.size else np.searchsorted(everyone, lanes)] = done
    wave.registers.write(step.destinations[0], as_selection(everyone), results, None)


def _check_phase(wave: Wave, step: Step, form: MbarrierForm, lanes: Lanes) -> None:
    undefined = wave.registers.undefined((form.phase,), lanes)
    if undefined is not None:
        what = "parity" if form.parity else "state"
        message = f"a value that nothing wrote decides the {what} of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])


def _check_parity(wave: Wave, step: Step, parities: Bits) -> None:
    """The PTX ISA allows 0 and 1; hardware looks at the lowest bit, so that a plain phase counter happens to work."""
    beyond = int(np.count_nonzero(parities > 1))
    if beyond:
        wave.note(f"{step.opcode} has a parity that is neither 0 nor 1; its lowest bit counts", step.where, beyond)


def _check_states(wave: Wave, step: Step, lanes: Lanes, words: Lanes, fits: Mask) -> None:
    if not fits.all():
        word = int(words[~fits][0])
        barriers = wave.asynchronous.barriers
        message = f"{step.opcode} tests a state that is not of the mbarrier's current phase or the one before"
        detail = f" (shared 0x{barriers.address(word):x} is in phase {barriers.phase[word]})"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[~fits], detail)


def _pending_count(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    states = wave.registers.read(form.phase, lanes)
    undefined = wave.registers.undefined((form.phase,), lanes)
    mask = None if undefined is None else np.where(undefined[0] != 0, EVERY_BIT, np.uint64(0))
    wave.registers.write(step.destinations[0], lanes, pending_of(states), mask)


def _copies_arrive(wave: Wave, step: Step, form: MbarrierForm, pc: int, lanes: Lanes) -> None:
    """`cp.async.mbarrier.arrive`: the arrival comes when the lane's earlier copies have landed."""
    lanes, words = _live_objects(wave, step, form, lanes)
    barriers = wave.asynchronous.barriers
    signals.use(wave, step, pc, lanes, words)
    signals.unseen(wave, step, lanes, words)
    if not form.no_increment:
        np.add.at(barriers.pending, words, 1)
        beyond = barriers.pending[words] > COUNT_LIMIT
        if beyond.any():
            message = f"{step.opcode} takes the pending count of an mbarrier beyond {COUNT_LIMIT}"
            wave.report(FindingKind.BARRIER, message, step.where, lanes[beyond])
    barriers.promised[words] = barriers.phase[words] + 1
    barriers.promised_at[words] = pc
    small_copy.signal(wave, step, pc, lanes, words)


def _objects(wave: Wave, step: Step, form: MbarrierForm, lanes: Lanes) -> tuple[Lanes, Lanes]:
    """The lanes whose address is legal, and the words that they name."""
    assert form.object is not None
    found = find_shared(wave, step, form.object, lanes, OBJECT_BYTES, OBJECT_BYTES, "finds its mbarrier in")
    whole = found.positions.size == lanes.size
    return lanes if whole else lanes[found.positions], found.offsets >> WORD_SHIFT


def _live_objects(wave: Wave, step: Step, form: MbarrierForm, lanes: Lanes) -> tuple[Lanes, Lanes]:
    lanes, words = _objects(wave, step, form, lanes)
    live = signals.usable(wave, step, lanes, words)
    return (lanes, words) if live.size == lanes.size else (lanes[live], words[live])


def _count(wave: Wave, step: Step, slot: int, lanes: Lanes, what: str, *, least: int = 1) -> Lanes:
    """A count operand, made legal after a finding."""
    if slot == NONE:
        return np.ones(lanes.size, np.int64)
    undefined = wave.registers.undefined((slot,), lanes)
    if undefined is not None:
        message = f"a value that nothing wrote decides {what} of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
    counts = wave.registers.read(slot, lanes, 32).astype(np.int64)
    wrong = (counts < least) | (counts > COUNT_LIMIT)
    if wrong.any():
        message = f"{step.opcode}: {what} is outside {least} to {COUNT_LIMIT}"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[wrong], f" ({int(counts[wrong][0])})")
    return np.clip(counts, least, COUNT_LIMIT)


def _write(wave: Wave, step: Step, everyone: Lanes, lanes: Lanes, values: Bits) -> None:
    """A result of some of the lanes; the others, which have their finding, get zero."""
    results = np.zeros(everyone.size, np.uint64)
    results[np.searchsorted(everyone, lanes)] = values
    wave.registers.write(step.destinations[0], everyone, results, None)


_Action = Callable[[Wave, Step, MbarrierForm, int, Lanes], None]
_ACTIONS: Mapping[MbarrierAction, _Action] = {
    MbarrierAction.INIT: _init,
    MbarrierAction.INVALIDATE: _invalidate,
    MbarrierAction.ARRIVE: _arrive,
    MbarrierAction.EXPECT: _expect,
    MbarrierAction.COMPLETE: _expect,
    MbarrierAction.WAIT: _wait,
    MbarrierAction.PENDING_COUNT: _pending_count,
    MbarrierAction.COPIES_ARRIVE: _copies_arrive,
}
