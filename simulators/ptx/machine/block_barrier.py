"""Block barriers: `bar.sync`, `barrier.sync` and their reducing forms, over all threads of the block.

A barrier is complete when all threads of the block that have not exited wait at it.
"""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.registers import EVERY_BIT, Selection
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Status, Wave
from tileproof.simulators.ptx.program import NONE, BarrierForm, CollectiveMode, Step

_BARRIERS = 16  # PTX ISA, "bar": barriers 0 to 15


def arrive(wave: Wave, step: Step, pc: int, active: Selection) -> None:
    """Lanes come to a barrier and wait; complete barriers let their lanes go."""
    _check_operands(wave, step, active)
    wave.changes += 1
    wave.pc[active] = pc
    wave.status[active] = Status.AT_BARRIER
    release(wave, wave.geometry.blocks_of(wave.ids(active)))


def release(wave: Wave, blocks: Lanes) -> None:
    """Let the blocks go on whose remaining lanes all wait at one barrier."""
    per_block = wave.geometry.lanes_per_block
    status = wave.status.reshape(-1, per_block)[blocks]
    waiting = status == Status.AT_BARRIER
    ready = waiting.any(axis=1) & (waiting | (status == Status.EXITED)).all(axis=1)
    if not ready.any():
        return
    lanes = (blocks[ready][:, None] * per_block + np.arange(per_block))[waiting[ready]]
    if np.unique(wave.pc[lanes]).size == 1 and _form(wave, lanes[0]).number in wave.program.constants:
        _complete(wave, lanes)
        return
    for block in blocks[ready]:
        here = lanes[lanes // per_block == block]
        if len(numbers(wave, here)) == 1:
            _check_meeting(wave, here)
            _complete(wave, here)


def numbers(wave: Wave, lanes: Lanes) -> set[int]:
    """The barriers that the lanes wait at."""
    found: set[int] = set()
    for pc in np.unique(wave.pc[lanes]):
        here = lanes[wave.pc[lanes] == pc]
        found |= set(wave.registers.read(_form(wave, here[0]).number, here).tolist())
    return found


def _form(wave: Wave, lane: int) -> BarrierForm:
    form = wave.program.steps[int(wave.pc[lane])].barrier
    assert form is not None
    return form


def _check_operands(wave: Wave, step: Step, active: Selection) -> None:
    form, lanes = step.barrier, wave.ids(active)
    assert form is not None
    undefined = wave.registers.undefined((form.number,), active)
    if undefined is not None:
        message = f"a value that nothing wrote decides the barrier of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
    number = wave.registers.read(form.number, active)
    if (number >= _BARRIERS).any():
        message = f"{step.opcode} names a barrier beyond 0 to {_BARRIERS - 1}"
        wave.report(FindingKind.BARRIER, message, step.where, lanes, f" (barrier {int(number.max())})")
    if form.count == NONE:
        return
    count = wave.registers.read(form.count, active)
    wrong = count % np.uint64(WARP) != 0
    if wrong.any():
        message = f"{step.opcode} counts threads that are not a multiple of {WARP}"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[wrong], f" ({int(count[wrong][0])})")
    elif (count != wave.geometry.lanes_per_block).any():
        raise NotModelled(
            f"{step.opcode} at {step.where}: a barrier of {int(count.min())} threads in a block of "
            f"{wave.geometry.threads} is not modelled",
            hint="barriers of part of a block belong to a later version",
        )


def _check_meeting(wave: Wave, lanes: Lanes) -> None:
    """All lanes of a warp must wait at the same instruction of an aligned barrier; one barrier has one form."""
    places = wave.pc[lanes]
    for warp in np.unique(lanes >> WARP_SHIFT):
        here = lanes[lanes >> WARP_SHIFT == warp]
        if _form(wave, here[0]).aligned and (wave.pc[here] != wave.pc[here[0]]).any():
            step = wave.program.steps[wave.pc[here[0]]]
            message = f"threads of one warp meet at different {step.opcode} instructions, which must be one"
            wave.report(FindingKind.DIVERGENCE, message, step.where, here)
    modes = {wave.program.steps[pc].mode for pc in np.unique(places)}
    if len(modes) > 1:
        step = wave.program.steps[places[0]]
        message = f"{step.opcode} meets another form of barrier at the same barrier"
        wave.report(FindingKind.BARRIER, message, step.where, lanes)


def _complete(wave: Wave, lanes: Lanes) -> None:
    places = np.unique(wave.pc[lanes])
    steps = [wave.program.steps[pc] for pc in places]
    if all(step.sources for step in steps):
        _reduce(wave, lanes, steps, [lanes[wave.pc[lanes] == pc] for pc in places])
    wave.order.block_barrier(lanes)
    wave.changes += 1
    wave.status[lanes] = Status.RUNNING
    wave.pc[lanes] += 1


def _reduce(wave: Wave, lanes: Lanes, steps: Sequence[Step], groups: Sequence[Lanes]) -> None:
    """`bar.red`: and, or, or the count of the threads' predicates, over each block."""
    blocks = wave.geometry.resident.size
    total, true, unknown = (np.zeros(blocks, np.int64) for _ in range(3))
    for step, here in zip(steps, groups, strict=True):
        block = here // wave.geometry.lanes_per_block
        undefined = wave.registers.undefined(step.sources, here)
        np.add.at(total, block, 1)
        np.add.at(true, block, (wave.registers.read(step.sources[0], here) != 0) != step.negated)
        if undefined is not None:
            np.add.at(unknown, block, undefined[0] != 0)
    for step, here in zip(steps, groups, strict=True):
        block = here // wave.geometry.lanes_per_block
        mask = np.where(unknown[block] > 0, EVERY_BIT, np.uint64(0)) if unknown.any() else None
        wave.registers.write(step.destinations[0], here, _result(step.mode, true[block], total[block]), mask)


def _result(mode: CollectiveMode | None, true: Lanes, total: Lanes) -> Bits:
    results = {CollectiveMode.ALL: true == total, CollectiveMode.ANY: true > 0}
    chosen: Bits = results.get(mode, true).astype(np.uint64) if mode is not None else true.astype(np.uint64)
    return chosen
