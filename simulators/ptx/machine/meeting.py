"""Where the lanes of a warp meet: collectives wait until every member that has not exited has come.

All members must come to the same instruction with the same member mask; a lane that comes with another mask is not the
one that is waited for (PTX ISA, "shfl.sync": "the same qualifiers and same membermask value"). Matrix instructions have
no member mask: all lanes of the warp, and for `wgmma` of the four warps of a warpgroup, must come, and none may have
exited.
"""

from collections.abc import Callable

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine import block_barrier, cluster_barrier, register_count, warp_barrier, warpgroup
from tileproof.simulators.ptx.machine.asynchronous import tensor_map_memory
from tileproof.simulators.ptx.machine.collective import COLLECTIVES, lane_bits, present_bits
from tileproof.simulators.ptx.machine.matrix import MATRIX_HANDLERS
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask
from tileproof.simulators.ptx.machine.registers import Selection, as_selection
from tileproof.simulators.ptx.machine.warp import ALL_LANES, WARP, WARP_SHIFT, distinct
from tileproof.simulators.ptx.machine.wave import Status, Wave
from tileproof.simulators.ptx.program import MATRIX_KINDS, Kind, Step

#: Instructions that a whole warp executes together, but of whose threads some may have exited.
ALIGNED = {
    Kind.BARRIER_ARRIVE: block_barrier.arrive,
    Kind.CLUSTER_ARRIVE: cluster_barrier.arrive,
    Kind.REGISTER_COUNT: register_count.change,
}


def meet(wave: Wave, step: Step, pc: int, active: Selection) -> bool:
    """Lanes come to a collective; whether it is done, for exactly these lanes.

    Lanes that must wait are left `AT_COLLECTIVE` at `pc`; lanes that waited for them go on behind it.
    """
    if step.kind is Kind.WARP_BARRIER:
        return warp_barrier.wait(wave, step, pc, active)
    wave.changes += 1
    if _whole(wave, active, warpgroup.LANES if step.kind is Kind.WGMMA else WARP):
        if step.kind in MATRIX_KINDS:
            _whole_warps(step)(wave, step, pc, active)
            return True
        members = wave.registers.read(step.sources[-1], active)
        if (members == members[0]).all():
            _perform(wave, step, pc, members, active)
            return True
    wave.pc[active] = pc
    wave.status[active] = Status.AT_COLLECTIVE
    lanes = wave.ids(active)
    ready = _gathered(wave, pc, lanes) if step.kind is Kind.WGMMA else None
    if ready is None:
        ready = _ready(wave, step, pc, lanes)
    if not ready.size:
        return False
    if step.kind in MATRIX_KINDS:
        _perform_matrix(wave, step, pc, ready)
    else:
        _perform(wave, step, pc, wave.registers.read(step.sources[-1], ready), as_selection(ready))
    wave.status[ready] = Status.RUNNING
    wave.pc[ready] = pc + 1
    return np.array_equal(ready, lanes)


def _whole_warps(step: Step) -> Callable[[Wave, Step, int, Selection], None]:
    """What executes an instruction of `MATRIX_KINDS`."""
    return tensor_map_memory.copy_maps if step.kind is Kind.MAP_COPY else MATRIX_HANDLERS[step.kind]


def _whole(wave: Wave, selection: Selection, together: int) -> bool:
    """Whether the lanes are neighbours that fill warps, or warpgroups."""
    if not isinstance(selection, slice) or wave.geometry.lanes_per_block % together:
        return False
    return bool(selection.start % together == 0 and selection.stop % together == 0)


def _gathered(wave: Wave, pc: int, lanes: Lanes) -> Lanes | None:
    """Of one warpgroup, some of whose lanes come to `pc`: all lanes, or none if some are missing.

    None where that is not so simple: more warpgroups than one, or lanes that have exited.
    """
    first, last = int(lanes[0]) // warpgroup.LANES, int(lanes[-1]) // warpgroup.LANES
    if first != last or wave.geometry.lanes_per_block % warpgroup.LANES:
        return None
    group = slice(first * warpgroup.LANES, (first + 1) * warpgroup.LANES)
    status = wave.status[group]
    if (status == Status.EXITED).any():
        return None
    missing = (status != Status.AT_COLLECTIVE) | (wave.pc[group] != pc)
    return lanes[:0] if missing.any() else wave.ids(group)


def _ready(wave: Wave, step: Step, pc: int, lanes: Lanes) -> Lanes:
    """The lanes that wait at `pc`, of the warps or warpgroups of `lanes`, and miss nobody."""
    warps = distinct(lanes >> WARP_SHIFT)
    arrived = _arrived(wave, pc, warpgroup.peers(wave, warps) if step.kind is Kind.WGMMA else warps)
    members = wave.registers.read(step.sources[-1], arrived)
    ready = arrived[_complete(wave, members, arrived)]
    return ready[warpgroup.complete(wave, ready)] if step.kind is Kind.WGMMA else ready


def _arrived(wave: Wave, pc: int, warps: Lanes) -> Lanes:
    """The lanes of the warps that wait at `pc`."""
    lanes = (warps[:, None] * WARP + np.arange(WARP)).reshape(-1)
    arrived: Lanes = lanes[(wave.status[lanes] == Status.AT_COLLECTIVE) & (wave.pc[lanes] == pc)]
    return arrived


def _complete(wave: Wave, members: Bits, lanes: Lanes) -> Mask:
    """Which lanes find all of their members that have not exited beside them, with the same member mask."""
    ready = np.zeros(lanes.size, np.bool_)
    for mask in np.unique(members):
        same = members == mask
        warps = lanes[same] >> WARP_SHIFT
        here = present_bits(wave, lanes[same])[warps]
        ready[same] = mask & wave.alive[warps] & ~here == 0
    return ready


def _perform(wave: Wave, step: Step, pc: int, members: Bits, selection: Selection) -> None:
    _check_members(wave, step, members, selection)
    if step.kind in ALIGNED:
        ALIGNED[step.kind](wave, step, pc, selection)
    else:
        COLLECTIVES[step.kind](wave, step, selection)


def _perform_matrix(wave: Wave, step: Step, pc: int, lanes: Lanes) -> None:
    """A matrix instruction of lanes of which some have exited is undefined: its results are zero after the finding."""
    if wave.compiled is not None and wave.compiled(wave, pc, lanes):
        return
    full = present_bits(wave, lanes) == ALL_LANES
    if step.kind is Kind.WGMMA:
        full = warpgroup.full(wave, full)
    whole = full[lanes >> WARP_SHIFT]
    if not whole.all():
        who = "the warpgroup" if step.kind is Kind.WGMMA else "the warp"
        message = f"{step.opcode} is executed without all threads of {who}: some have exited or do not exist"
        wave.report(FindingKind.DIVERGENCE, message, step.where, lanes[~whole])
        for slot in step.destinations:
            wave.registers.write(slot, lanes[~whole], np.zeros(int((~whole).sum()), np.uint64), None)
    if whole.any():
        _whole_warps(step)(wave, step, pc, as_selection(lanes[whole]))


def _check_members(wave: Wave, step: Step, members: Bits, selection: Selection) -> None:
    """A mask that leaves out the lane that executes (undefined, PTX ISA on membermask), or that nothing wrote."""
    lanes = wave.ids(selection)
    undefined = wave.registers.undefined(step.sources[-1:], selection)
    if undefined is not None:
        message = f"a value that nothing wrote decides the member mask of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
        return
    outside = members & lane_bits(lanes) == 0
    if outside.any():
        message = f"{step.opcode} is executed by a thread that its member mask leaves out"
        detail = f" (mask 0x{int(members[outside][0]):08x})"
        wave.report(FindingKind.DIVERGENCE, message, step.where, lanes[outside], detail)


def look_again(wave: Wave, warps: Lanes) -> None:
    """Lanes of these warps that wait at a collective run it again: a lane that they waited for has exited."""
    if wave.program.has_warpgroups:
        warps = warpgroup.peers(wave, warps)
    status = wave.status.reshape(-1, WARP)
    rows = status[warps]
    rows[rows == Status.AT_COLLECTIVE] = Status.RUNNING
    status[warps] = rows
    wave.warp_barrier_mask.reshape(-1, WARP)[warps] = 0


def report_missing(wave: Wave, lanes: Lanes) -> None:
    """Lanes that wait at collectives for ever.

    Raises:
        NotModelled: lanes of one warp wait at different instructions that may be meant to meet.
    """
    for pc in np.unique(wave.pc[lanes]):
        here = lanes[wave.pc[lanes] == pc]
        step = wave.program.steps[pc]
        elsewhere = lanes[np.isin(lanes >> WARP_SHIFT, here >> WARP_SHIFT) & (wave.pc[lanes] != pc)]
        matrix = step.kind in MATRIX_KINDS or step.kind in ALIGNED
        if (
            not matrix
            and step.kind is not Kind.WARP_BARRIER
            and any(wave.program.steps[other].opcode == step.opcode for other in np.unique(wave.pc[elsewhere]))
        ):
            raise NotModelled(
                f"{step.opcode} at {step.where}: lanes of one warp come to it through different instructions",
                hint="meeting of different instructions belongs to a later version",
            )
        members = wave.registers.read(step.sources[-1], here)
        first = here[members == members[0]]
        present = int(present_bits(wave, first[first >> WARP_SHIFT == first[0] >> WARP_SHIFT])[first[0] >> WARP_SHIFT])
        others = " come with another mask" if (members != members[0]).any() else " never come"
        detail = f" (member mask 0x{int(members[0]):08x}, present 0x{present:08x})"
        if matrix:
            detail = f" (of its first warp here: 0x{present:08x})"
        whom = {Kind.WGMMA: "warpgroup"}.get(step.kind, "warp") if matrix else "member mask"
        message = f"{step.opcode} waits for threads of its {whom} that{others}"
        wave.report(FindingKind.DIVERGENCE, message, step.where, here, detail)
