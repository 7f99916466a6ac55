"""Commit and wait of `cp.async` and bulk copies: each thread's own groups."""

import numpy as np

from tileproof.simulators.ptx.async_form import GroupAction, GroupForm
from tileproof.simulators.ptx.machine.asynchronous import bulk, small_copy
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Step


def group(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Execute a COPY_GROUP step. `cp.async.wait_all` commits first (PTX ISA, "cp.async.wait_all")."""
    form = step.asynchronous
    assert isinstance(form, GroupForm)
    groups = wave.asynchronous.bulk if form.bulk else wave.asynchronous.small
    if form.action is not GroupAction.WAIT:
        groups.open[selection] += 1
    if form.action is GroupAction.COMMIT:
        return
    lanes = wave.ids(selection)
    complete = np.maximum(groups.open[selection] - form.most_pending, 0).astype(np.int64)
    if form.bulk:
        if wave.asynchronous.in_flight.all():
            bulk.finish(wave, lanes, complete, reads_only=form.reads_only)
        wave.order.learn(Engine.BULK_READ, lanes, complete)
        groups.read[lanes] = np.maximum(groups.read[lanes], complete)
        if form.reads_only:
            return
    else:
        small_copy.finish(wave, lanes, complete)
    wave.order.learn(Engine.BULK_WRITE if form.bulk else Engine.CP_ASYNC, lanes, complete)
    groups.complete[lanes] = np.maximum(groups.complete[lanes], complete)
