"""Commit and wait of `cp.async` and bulk copies: each thread's own groups."""

import numpy as np

from tileproof.simulators.ptx.async_form import GroupAction, GroupForm
from tileproof.simulators.ptx.machine.asynchronous import bulk, small_copy
from tileproof.simulators.ptx.machine.memory import Lanes
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
        _wait_bulk(wave, form, lanes, complete)
    else:
        _force(wave, lanes, complete, form)
        wave.order.learn(Engine.CP_ASYNC, lanes, complete)
        groups.complete[lanes] = np.maximum(groups.complete[lanes], complete)


def _wait_bulk(wave: Wave, form: GroupForm, lanes: Lanes, complete: Lanes) -> None:
    groups = wave.asynchronous.bulk
    _force(wave, lanes, complete, form)
    wave.order.learn(Engine.BULK_READ, lanes, complete)
    groups.read[lanes] = np.maximum(groups.read[lanes], complete)
    if not form.reads_only:
        wave.order.learn(Engine.BULK_WRITE, lanes, complete)
        groups.complete[lanes] = np.maximum(groups.complete[lanes], complete)


def _force(wave: Wave, lanes: Lanes, complete: Lanes, form: GroupForm) -> None:
    if not wave.asynchronous.in_flight.all():
        return
    bounds = np.zeros(wave.geometry.lanes, np.int64)
    bounds[lanes] = complete
    if form.bulk:
        bulk.finish(wave, bounds, reads_only=form.reads_only)
    else:
        small_copy.finish(wave, bounds)
