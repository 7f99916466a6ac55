"""Threads that wait for ever at mbarriers: for which phase, and what it misses."""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.asynchronous.waits import NOWHERE
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.wave import Status, Wave

# Objects that a finding describes: a pipeline has two for each stage, and those of one block tell the story.
SHOWN_OBJECTS = 4


def report(wave: Wave, spinning: Lanes) -> bool:
    """Report the waits at mbarriers among lanes that spin for ever; false if there are none.

    An mbarrier is only ever moved on by threads and copies of its own cluster, so blocks that have not started do not
    matter, unless a thread of the same cluster spins on memory that they may change.
    """
    at_objects = spinning[_waits(wave, spinning)]
    if not at_objects.size:
        return False
    others = np.setdiff1d(spinning, at_objects)
    if wave.geometry.blocks_left and others.size:
        return False
    waits = wave.asynchronous.waits
    clusters = at_objects // wave.geometry.lanes_per_cluster
    first = at_objects[clusters == clusters[0]]
    words = np.unique(waits.word[first]).tolist()
    told = [_describe(wave, word, first[waits.word[first] == word]) for word in words[:SHOWN_OBJECTS]]
    if len(words) > SHOWN_OBJECTS:
        told.append(f"{len(words) - SHOWN_OBJECTS} more mbarriers")
    told += _elsewhere(wave, others)
    where = wave.program.steps[int(waits.pc[at_objects[0]])].where
    message = "threads wait at mbarriers for phases that nothing is left to complete"
    wave.report(FindingKind.DEADLOCK, message, where, at_objects, f": {'; '.join(told)}")
    return True


def _waits(wave: Wave, spinning: Lanes) -> Mask:
    """Which lanes spin at an mbarrier: their last wait failed and is in the loop that they are in."""
    waits = wave.asynchronous.waits
    places = np.stack((wave.pc[spinning], waits.pc[spinning]), axis=1)
    pairs, inverse = np.unique(places, axis=0, return_inverse=True)
    together = np.array([wave.loops.same(int(pc), int(wait)) for pc, wait in pairs], np.bool_)
    at_object: Mask = together[inverse.reshape(-1)] & (waits.word[spinning] != NOWHERE)
    return at_object


def _describe(wave: Wave, word: int, lanes: Lanes) -> str:
    """One object: its address and phase, what the phase misses, and who waits for it where."""
    barriers, waits = wave.asynchronous.barriers, wave.asynchronous.waits
    phase = int(barriers.phase[word])
    block = wave.geometry.thread(barriers.block(word) * wave.geometry.lanes_per_block).block
    lines = ", ".join(wave.program.steps[int(pc)].where.place for pc in np.unique(waits.pc[lanes]))
    count = f"{lanes.size} thread" + ("s wait" if lanes.size > 1 else " waits")
    return (
        f"mbarrier shared 0x{barriers.address(word):x} of block {block} is in phase {phase} (parity {phase & 1}), "
        f"which misses {_missing(wave, word)}; {count} at {lines}"
    )


def _missing(wave: Wave, word: int) -> str:
    barriers = wave.asynchronous.barriers
    pending, expected = int(barriers.pending[word]), int(barriers.expected[word])
    nbytes = int(barriers.transactions[word])
    missing = [f"{pending} of {expected} arrivals"] if pending else []
    if nbytes > 0:
        missing.append(f"{nbytes} bytes")
    if nbytes < 0:
        missing.append(f"the expectation of {-nbytes} bytes that came")
    nothing_came = pending == expected and not nbytes and barriers.phase[word] > 0
    return " and ".join(missing) + (
        ", so nothing has come in it: is the phase before it meant?" if nothing_came else ""
    )


def _elsewhere(wave: Wave, others: Lanes) -> Sequence[str]:
    """What the threads do that are not at an mbarrier."""
    parked = int(np.isin(wave.status, (Status.AT_BARRIER, Status.AT_COLLECTIVE, Status.AT_CLUSTER)).sum())
    told = [f"{others.size} other threads spin on values in memory"] if others.size else []
    return [*told, f"{parked} other threads wait at barriers or collectives"] if parked else told
