"""Threads that exit while copies of theirs, or to their block, may still be in flight.

What counts is what the threads know, not whether a copy has landed, so that every schedule finds it: a thread knows
its groups by its waits, and an mbarrier's copies are known once some wait has seen their phase complete. A copy into
the shared memory of a block that has ended is a finding; a bulk store that may not have read its source yet, which many
kernels leave to the end of the launch, is a note.
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.wave import Status, Wave


def leave(wave: Wave, lanes: Lanes) -> None:
    """The lanes have exited."""
    _small(wave, lanes)
    _bulk(wave, lanes)
    if wave.asynchronous.barriers.any_live:
        _blocks(wave, lanes)


def _small(wave: Wave, lanes: Lanes) -> None:
    groups = wave.asynchronous.small
    left = lanes[groups.used[lanes] > np.maximum(groups.complete[lanes], groups.signalled[lanes])]
    for pc in np.unique(groups.used_at[left]).tolist():
        step = wave.program.steps[pc]
        message = f"threads exit without a wait for their {step.opcode}, which writes to shared memory"
        wave.report(FindingKind.ASYNC, message, step.where, left[groups.used_at[left] == pc])


def _bulk(wave: Wave, lanes: Lanes) -> None:
    groups = wave.asynchronous.bulk
    left = lanes[groups.used[lanes] > groups.read[lanes]]
    for pc in np.unique(groups.used_at[left]).tolist():
        step = wave.program.steps[pc]
        count = int((groups.used_at[left] == pc).sum())
        wave.note(f"threads exit without a wait for their {step.opcode}, which reads shared memory", step.where, count)


def _blocks(wave: Wave, lanes: Lanes) -> None:
    barriers = wave.asynchronous.barriers
    per_block = wave.geometry.lanes_per_block
    for block in wave.geometry.blocks_of(lanes).tolist():
        if (wave.status[block * per_block : (block + 1) * per_block] != Status.EXITED).any():
            continue
        words = barriers.words_of(block)
        left = np.flatnonzero(barriers.promised[words] > barriers.observed[words]) + words.start
        for word in left.tolist():
            step = wave.program.steps[int(barriers.promised_at[word])]
            message = f"a block exits although nobody saw {step.opcode} into its shared memory complete"
            detail = f" (mbarrier shared 0x{barriers.address(word):x}, phase {int(barriers.promised[word]) - 1})"
            wave.report(FindingKind.ASYNC, message, step.where, lanes[lanes // per_block == block], detail)
