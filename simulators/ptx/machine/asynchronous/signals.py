"""What moves mbarriers on: arrivals, expected and completed bytes, and the phases that they complete."""

from collections.abc import Callable, Iterator

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous.barriers import COUNT_LIMIT, OBJECT_BYTES, WORD_SHIFT, Life
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.order.kinds import AccessKind, Engine
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Scope, StateSpace, Step

Publish = Callable[[Lanes, Lanes], None]
"""Tells the order core that lanes arrive on the mbarriers at byte offsets of the wave's shared memory."""


def arrive(wave: Wave, step: Step, lanes: Lanes, words: Lanes, counts: Lanes, publish: Publish) -> Bits:
    """Arrivals of lanes on live objects, in the order that the schedule gives; each lane's state before it."""
    together = _arrive_together(wave, step, lanes, words, counts, publish)
    if together is not None:
        return together
    barriers = wave.asynchronous.barriers
    states = np.zeros(lanes.size, np.uint64)
    for turn in turns(wave, words):
        here, count = words[turn], counts[turn]
        pending = barriers.pending[here].astype(np.int64)
        states[turn] = barriers.states(here, pending)
        _check_arrivals(wave, step, lanes[turn], here, count)
        barriers.pending[here] = np.maximum(pending - count, 0)
        check_bytes(wave, step, lanes[turn], here)
        ascending = np.sort(turn)
        publish(lanes[ascending], words[ascending] << WORD_SHIFT)
        settle(wave, here)
    return states


def turns(wave: Wave, words: Lanes) -> Iterator[Lanes]:
    """Positions in an order that the schedule gives, each time such that no object comes twice."""
    drawn = wave.lane_order(words.size)
    left = np.arange(words.size) if drawn is None else drawn
    while left.size:
        wave.attend()
        _, first = np.unique(words[left], return_index=True)
        yield left[np.sort(first)]
        left = np.delete(left, first)


def expect(wave: Wave, step: Step, lanes: Lanes, words: Lanes, nbytes: Lanes) -> None:
    """The current phase of each object waits for that many more bytes; negative numbers complete them."""
    barriers = wave.asynchronous.barriers
    np.add.at(barriers.transactions, words, nbytes)
    np.add.at(barriers.asked, words, np.maximum(nbytes, 0))
    wave.changes += 1
    beyond = np.abs(barriers.transactions[words]) > COUNT_LIMIT
    if beyond.any():
        message = f"{step.opcode} takes the transaction count of an mbarrier out of its range of {COUNT_LIMIT} bytes"
        detail = f" ({int(barriers.transactions[words[beyond][0]])})"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[beyond], detail)


def complete_bytes(wave: Wave, step: Step, lanes: Lanes, words: Lanes, nbytes: Lanes) -> None:
    """Copies of that many bytes are complete; objects that are no longer live are reported."""
    live = usable(wave, step, lanes, words)
    expect(wave, step, lanes[live], words[live], -nbytes[live])
    settle(wave, words[live])


def settle(wave: Wave, words: Lanes) -> None:
    """Complete the phases that have nothing left to wait for."""
    barriers = wave.asynchronous.barriers
    wave.changes += 1
    done = np.unique(words[barriers.complete(words)])
    for word in done.tolist():
        left = wave.asynchronous.in_flight.left_behind(wave, word)
        wave.order.complete_phase(word << WORD_SHIFT, int(barriers.phase[word]))
        barriers.advance(np.array([word]))
        barriers.issued[word] = left


def check_bytes(wave: Wave, step: Step, lanes: Lanes, words: Lanes) -> None:
    """Report phases that all arrivals have come to and that more bytes are on their way to than they expect.

    Such a phase is complete as soon as the expected bytes have come, whichever copies bring them; what comes later
    counts for the next phase. Whether it goes well is a matter of which copy is the fastest.
    """
    barriers = wave.asynchronous.barriers
    short = (barriers.pending[words] == 0) & (barriers.issued[words] > barriers.asked[words])
    if short.any():
        word = int(words[short][0])
        message = (
            f"{step.opcode}: all arrivals of an mbarrier's phase have come and more bytes are on their way to it than "
            "it expects: it may complete without some of them"
        )
        detail = f" (shared 0x{barriers.address(word):x}: {barriers.issued[word]} of {barriers.asked[word]} expected)"
        wave.report(FindingKind.ASYNC, message, step.where, lanes[short], detail)


def make(wave: Wave, step: Step, pc: int, lanes: Lanes, words: Lanes) -> None:
    """Tell the order core of the `init` of objects, which is their first access to themselves and a weak write."""
    init, components = np.full(lanes.size, -1), wave.asynchronous.barriers.component[words].astype(np.int64)
    space, offsets = StateSpace.SHARED, words << WORD_SHIFT
    wave.order.async_access(
        Engine.BARRIER, init, step, pc, lanes, True, space, wave.shared, offsets, OBJECT_BYTES, components, generic=True
    )


def use(wave: Wave, step: Step, pc: int, lanes: Lanes, words: Lanes) -> None:
    """Tell the order core that lanes use objects: every use comes after the init, and uses need no order."""
    if lanes.size:
        kind, offsets = AccessKind(False, strong=True, scope=Scope.SYS), words << WORD_SHIFT
        wave.order.access(kind, step, pc, lanes, StateSpace.SHARED, wave.shared, offsets, OBJECT_BYTES)


def use_by_copy(wave: Wave, step: Step, pc: int, lanes: Lanes, words: Lanes) -> None:
    """Tell the order core that copies which lanes issue use objects: who sees the phase complete knows of it."""
    barriers = wave.asynchronous.barriers
    wave.order.async_access(
        Engine.BARRIER,
        barriers.phase[words].astype(np.int64),
        step,
        pc,
        lanes,
        False,
        StateSpace.SHARED,
        wave.shared,
        words << WORD_SHIFT,
        OBJECT_BYTES,
        barriers.component[words].astype(np.int64),
        generic=True,
    )


def usable(wave: Wave, step: Step, lanes: Lanes, words: Lanes) -> Lanes:
    """Positions whose object is live; reports the others."""
    life = wave.asynchronous.barriers.life[words]
    if (life == Life.LIVE).all():
        return wave.positions(words.size)
    for state, what in ((Life.NONE, "that nothing initialised"), (Life.INVALIDATED, "after mbarrier.inval")):
        wrong = np.flatnonzero(life == state)
        if wrong.size:
            address = wave.asynchronous.barriers.address(int(words[wrong[0]]))
            message = f"{step.opcode} uses an mbarrier {what}"
            wave.report(FindingKind.BARRIER, message, step.where, lanes[wrong], f" (shared 0x{address:x})")
    return np.flatnonzero(life == Life.LIVE)


def unseen(wave: Wave, step: Step, lanes: Lanes, words: Lanes) -> None:
    """Report arrivals in a phase although nobody has seen the one before complete.

    "For each phase of the mbarrier object, at least one test_wait or try_wait operation must be performed which returns
    True for waitComplete before an arrive-on operation in the subsequent phase" (PTX ISA, "Phases of the mbarrier
    object"). One arrival more than expected is of this kind.
    """
    barriers = wave.asynchronous.barriers
    early = barriers.observed[words] < barriers.phase[words]
    if early.any():
        word = int(words[early][0])
        message = (
            f"{step.opcode} arrives on an mbarrier whose last phase is complete and nobody has seen that: "
            f"an arrival more than it expects, or a wait is missing"
        )
        detail = (
            f" (shared 0x{barriers.address(word):x} expects {barriers.expected[word]}; "
            f"phase {barriers.phase[word] - 1} is complete)"
        )
        wave.report(FindingKind.BARRIER, message, step.where, lanes[early], detail)


def _arrive_together(
    wave: Wave, step: Step, lanes: Lanes, words: Lanes, counts: Lanes, publish: Publish
) -> Bits | None:
    """All arrivals at once, where no phase completes before the last one of its object; None elsewhere."""
    barriers = wave.asynchronous.barriers
    if (barriers.observed[words] < barriers.phase[words]).any():
        return None
    drawn = wave.lane_order(words.size)
    order = np.arange(words.size) if drawn is None else drawn
    order = order[np.argsort(words[order], kind="stable")]
    sorted_words, count = words[order], counts[order]
    first = np.concatenate(([True], sorted_words[1:] != sorted_words[:-1]))
    before = np.cumsum(count) - count
    before -= np.maximum.accumulate(np.where(first, before, 0))
    pending = barriers.pending[sorted_words].astype(np.int64) - before
    if (pending < count).any():
        return None
    states = np.zeros(words.size, np.uint64)
    states[order] = barriers.states(sorted_words, pending)
    np.subtract.at(barriers.pending, words, counts)
    check_bytes(wave, step, lanes, words)
    publish(lanes, words << WORD_SHIFT)
    settle(wave, words)
    return states


def _check_arrivals(wave: Wave, step: Step, lanes: Lanes, words: Lanes, counts: Lanes) -> None:
    unseen(wave, step, lanes, words)
    barriers = wave.asynchronous.barriers
    beyond = counts > barriers.pending[words]
    if beyond.any():
        word = int(words[beyond][0])
        message = f"{step.opcode} arrives on an mbarrier more often than its phase still waits for"
        detail = (
            f" (shared 0x{barriers.address(word):x} expects {barriers.expected[word]}; phase {barriers.phase[word]} "
            f"waits for {barriers.pending[word]}, {int(counts[beyond][0])} arrive)"
        )
        wave.report(FindingKind.BARRIER, message, step.where, lanes[beyond], detail)
