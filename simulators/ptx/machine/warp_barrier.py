"""`bar.warp.sync`: lanes of a warp wait for all members of their mask that have not exited.

Members may come by different instructions, as long as they name the same mask (PTX ISA, "bar.warp.sync"): the lanes of
two branches can meet. Groups with different masks in one warp are barriers of their own.
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.collective import lane_bits, present_bits
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Status, Wave
from tileproof.simulators.ptx.program import Step


def wait(wave: Wave, step: Step, pc: int, active: Selection) -> bool:
    """Lanes come and wait; complete groups go on. Whether exactly these lanes did."""
    lanes = wave.ids(active)
    members = _members(wave, step, active, lanes)
    wave.changes += 1
    if (members == members[0]).all() and _complete(wave, members, lanes).all():
        _meet(wave, lanes)
        return True
    wave.pc[active] = pc
    wave.status[active] = Status.AT_COLLECTIVE
    wave.warp_barrier_mask[active] = members
    waiting = _waiting(wave, np.unique(lanes >> WARP_SHIFT))
    masks = wave.warp_barrier_mask[waiting]
    gone = np.zeros(waiting.size, np.bool_)
    for mask in np.unique(masks):
        group = waiting[masks == mask]
        ready = _complete(wave, masks[masks == mask], group)
        gone[masks == mask] = ready
        _meet(wave, group[ready])
    ready_lanes = waiting[gone]
    wave.status[ready_lanes] = Status.RUNNING
    wave.pc[ready_lanes] += 1
    wave.warp_barrier_mask[ready_lanes] = 0
    return np.array_equal(ready_lanes, lanes)


def _members(wave: Wave, step: Step, active: Selection, lanes: Lanes) -> Bits:
    """The mask that each lane names; one that nothing wrote, or that leaves out the lane, is a finding."""
    members = wave.registers.read(step.sources[-1], active)
    undefined = wave.registers.undefined(step.sources[-1:], active)
    if undefined is not None:
        message = f"a value that nothing wrote decides the member mask of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
        return members | lane_bits(lanes)
    outside = members & lane_bits(lanes) == 0
    if outside.any():
        message = f"{step.opcode} is executed by a thread that its member mask leaves out"
        detail = f" (mask 0x{int(members[outside][0]):08x})"
        wave.report(FindingKind.DIVERGENCE, message, step.where, lanes[outside], detail)
    return members | lane_bits(lanes)


def _waiting(wave: Wave, warps: Lanes) -> Lanes:
    """The lanes of the warps that wait at any `bar.warp.sync`."""
    lanes = (warps[:, np.newaxis] * WARP + np.arange(WARP)).reshape(-1)
    waiting: Lanes = lanes[(wave.status[lanes] == Status.AT_COLLECTIVE) & (wave.warp_barrier_mask[lanes] != 0)]
    return waiting


def _complete(wave: Wave, members: Bits, lanes: Lanes) -> Lanes:
    """Which of the lanes, all with one mask, find all members of their warp that have not exited among them."""
    warps = lanes >> WARP_SHIFT
    missing = members & wave.alive[warps] & ~present_bits(wave, lanes)[warps]
    complete: Lanes = missing == 0
    return complete


def _meet(wave: Wave, lanes: Lanes) -> None:
    if lanes.size:
        wave.order.warp_barrier(lanes)
        wave.acquaintance.tell_warps(lanes)
