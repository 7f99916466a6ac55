"""Block barriers: the sixteen named barriers of a block, with `bar.sync`, `bar.arrive` and `bar.red`.

A barrier counts warps. A warp has come when all of its threads that have not exited have executed an instruction on
the barrier; threads that `sync` or `red` wait, threads that `arrive` go on (PTX ISA, "barrier{.cta}": "causes executing
thread to wait for all non-exited threads from its warp and marks warps' arrival"). With a count of n threads it is
complete when n / 32 warps have come, without a count when all warps of the block have, or only exited threads are
missing (PTX ISA, "exit": barriers that wait for all threads of the block). A count is never met by a warp that has
exited: a barrier of the whole block's 288 threads, with the count in a register, hangs where one of nine warps has
left (measured on H200, mutants.json, fp8_a8_gemm_tma/count/bar.sync: 7 of 7 launches).

Example: warp 0 executes `bar.arrive 1, 64` and goes on, warp 1 executes `bar.sync 1, 64` later: two warps have come,
the barrier is complete and free again, and warp 1 goes on with all that warp 0 had done before it arrived.
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine import barrier_reuse
from tileproof.simulators.ptx.machine.barrier_reduction import reduce
from tileproof.simulators.ptx.machine.barrier_state import BARRIERS, FREE, NOWHERE, WHOLE_BLOCK
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Status, Wave
from tileproof.simulators.ptx.program import NONE, BarrierForm, Step


def wait(wave: Wave, step: Step, pc: int, active: Selection) -> bool:
    """Lanes come to a barrier and wait; a complete barrier lets its lanes go. Whether exactly these went on at once."""
    wave.changes += 1
    lanes = wave.ids(active)
    if _everybody(wave, step, active):
        if step.sources:
            reduce(wave, [step], [lanes])
        wave.order.block_barrier(lanes)
        wave.acquaintance.tell_blocks(lanes)
        wave.pc[active] = pc + 1
        return True
    wave.pc[active] = pc
    wave.status[active] = Status.AT_BARRIER
    if _come_plainly(wave, step, pc, active):
        return False
    numbers = _numbers(wave, step, active)
    wave.block_barriers.waits_at[active] = numbers
    _come(wave, step, pc, lanes, numbers, _warps(wave, step, active), waits=True)
    return False


def arrive(wave: Wave, step: Step, pc: int, selection: Selection) -> None:
    """Lanes come to a barrier and go on."""
    wave.changes += 1
    lanes, numbers = wave.ids(selection), _numbers(wave, step, selection)
    _come(wave, step, pc, lanes, numbers, _warps(wave, step, selection), waits=False)


def release_after_exit(wave: Wave, blocks: Lanes) -> None:
    """Barriers of these blocks may have missed only threads that have exited now."""
    if wave.block_barriers.active:
        row, number = np.nonzero(wave.block_barriers.expected[blocks] != FREE)
        _release(wave, blocks[row] * BARRIERS + number)


def _everybody(wave: Wave, step: Step, active: Selection) -> bool:
    """The common case: all threads of some blocks come at once to a barrier that is known and free."""
    form = _form(step)
    constants, per_block = wave.program.constants, wave.geometry.lanes_per_block
    if wave.block_barriers.active or not isinstance(active, slice):
        return False
    if active.start % per_block or active.stop % per_block:
        return False
    whole = form.count == NONE or constants.get(form.count) == per_block
    return whole and constants.get(form.number, BARRIERS) < BARRIERS


def _come_plainly(wave: Wave, step: Step, pc: int, active: Selection) -> bool:
    """The frequent case: threads of one block wait at a barrier of all of it that the program names, as others may
    before them. False, with nothing done, for any other."""
    form, table, lanes = _form(step), wave.block_barriers, wave.ids(active)
    constants, per_block = wave.program.constants, wave.geometry.lanes_per_block
    number, block = constants.get(form.number, BARRIERS), int(lanes[0]) // per_block
    if number >= BARRIERS or table.rounds or int(lanes[-1]) // per_block != block:
        return False
    warps = WHOLE_BLOCK if form.count == NONE else per_block // WARP
    whole = form.count == NONE or constants.get(form.count) == per_block
    if not whole or table.expected[block, number] not in (FREE, warps) or table.here[number, active].any():
        return False
    table.active += table.expected[block, number] == FREE
    table.expected[block, number] = warps
    table.here[number, active], table.place[number, active], table.waits_at[active] = True, pc, number
    if wave.order.enabled:
        table.came_at[number, active] = wave.order.epochs(lanes)
    members = slice(block * per_block, (block + 1) * per_block)
    here = table.here[number, members]
    nobody_absent = bool((here | (wave.status[members] == Status.EXITED)).all())
    if nobody_absent and (form.count == NONE or bool(here.reshape(-1, WARP).any(axis=1).all())):
        came = np.flatnonzero(here) + members.start
        table.here[number, members] = False
        table.expected[block, number] = FREE
        table.active -= 1
        _complete(wave, number, came)
    return True


def _form(step: Step) -> BarrierForm:
    assert step.barrier is not None
    return step.barrier


def _numbers(wave: Wave, step: Step, active: Selection) -> Lanes:
    """The barrier that each lane names."""
    form, lanes = _form(step), wave.ids(active)
    undefined = wave.registers.undefined((form.number,), active)
    if undefined is not None:
        message = f"a value that nothing wrote decides the barrier of {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
    numbers = wave.registers.read(form.number, active)
    beyond = numbers >= BARRIERS
    if beyond.any():
        message = f"{step.opcode} names a barrier beyond 0 to {BARRIERS - 1}"
        wave.report(FindingKind.BARRIER, message, step.where, lanes, f" (barrier {int(numbers.max())})")
    return numbers.astype(np.int64) % BARRIERS


def _warps(wave: Wave, step: Step, active: Selection) -> Lanes:
    """How many warps each lane says to take part; a count that is none stands for the whole block."""
    form, lanes = _form(step), wave.ids(active)
    if form.count == NONE:
        return np.full(lanes.size, WHOLE_BLOCK)
    undefined = wave.registers.undefined((form.count,), active)
    if undefined is not None:
        message = f"a value that nothing wrote decides how many threads take part in {step.opcode}"
        wave.report(FindingKind.UNINITIALISED, message, step.where, lanes[undefined[0] != 0])
    counts = wave.registers.read(form.count, active).astype(np.int64)
    wrong = (counts % WARP != 0) | (counts == 0)
    if wrong.any():
        message = f"{step.opcode} counts threads that are not a multiple of {WARP}"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[wrong], f" ({int(counts[wrong][0])})")
    return np.where(wrong, WHOLE_BLOCK, counts // WARP)


def _come(wave: Wave, step: Step, pc: int, lanes: Lanes, numbers: Lanes, warps: Lanes, *, waits: bool) -> None:
    """Enter the lanes at their barriers, and complete those that miss nobody now."""
    table, blocks = wave.block_barriers, lanes // wave.geometry.lanes_per_block
    again = table.here[numbers, lanes] | np.isin(lanes, barrier_reuse.unaware(wave, lanes, numbers))
    if again.any():
        message = f"{step.opcode} comes to a barrier a second time and cannot know that its last round is complete"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[again], f" (barrier {int(numbers[again][0])})")
    keys, first, inverse = np.unique(blocks * BARRIERS + numbers, return_index=True, return_inverse=True)
    expected = table.expected.reshape(-1)
    fresh = expected[keys] == FREE
    expected[keys[fresh]] = warps[first[fresh]]
    table.active += int(fresh.sum())
    differs = warps != expected[keys][inverse]
    if differs.any():
        one = int(np.flatnonzero(differs)[0])
        message = f"{step.opcode} counts other threads than those that have come to the barrier before"
        detail = f" (barrier {numbers[one]}: {_said(warps[one])} here, {_said(expected[keys][inverse][one])} before)"
        wave.report(FindingKind.BARRIER, message, step.where, lanes[differs], detail)
    table.here[numbers, lanes] = True
    table.place[numbers, lanes] = pc
    if wave.order.enabled:
        table.came_at[numbers, lanes] = wave.order.epochs(lanes)
    if not waits:
        wave.order.block_arrive(lanes, blocks * BARRIERS + numbers)
    _release(wave, keys)


def _said(warps: int) -> str:
    return "all threads" if warps == WHOLE_BLOCK else f"{warps * WARP} threads"


def _release(wave: Wave, keys: Lanes) -> None:
    """Complete those of the barriers (block * 16 + number) that miss nobody."""
    if not keys.size:
        return
    table, per_block = wave.block_barriers, wave.geometry.lanes_per_block
    blocks, numbers = np.divmod(keys, BARRIERS)
    here = table.here.reshape(BARRIERS, -1, per_block)[numbers, blocks]
    alive = wave.status.reshape(-1, per_block)[blocks] != Status.EXITED
    touched, live = _by_warp(here).any(axis=2), _by_warp(alive).any(axis=2)
    come = (touched & _by_warp(here | ~alive).all(axis=2)).sum(axis=1)
    exited = (~touched & ~live).sum(axis=1)
    nobody_absent = ~(alive & ~here).any(axis=1)
    expected = table.expected[blocks, numbers]
    whole = expected == WHOLE_BLOCK
    complete = np.where(whole, nobody_absent & (come + exited >= expected), come >= expected)
    for number in np.unique(numbers[complete]):
        done = complete & (numbers == number)
        lanes = (blocks[done][:, np.newaxis] * per_block + np.arange(per_block))[here[done]]
        table.here[number, lanes] = False
        table.expected[blocks[done], number] = FREE
        table.active -= int(done.sum())
        _complete(wave, int(number), lanes)


def _by_warp(lanes: Mask) -> Mask:
    return lanes.reshape(lanes.shape[0], -1, WARP)


def _complete(wave: Wave, number: int, lanes: Lanes) -> None:
    """A barrier of one or more blocks is complete: `lanes` are all who came."""
    table = wave.block_barriers
    places = np.unique(table.place[number, lanes])
    if places.size > 1:
        _check_meeting(wave, number, lanes)
    waiting = lanes[(wave.status[lanes] == Status.AT_BARRIER) & (table.waits_at[lanes] == number)]
    groups = [waiting[wave.pc[waiting] == pc] for pc in places]
    steps = [wave.program.steps[pc] for pc in places]
    if all(step.mode is not None for step in steps):
        reduce(wave, steps, groups)
    keys = None
    if waiting.size < lanes.size:
        keys = np.unique(lanes // wave.geometry.lanes_per_block) * BARRIERS + number
    wave.order.block_barrier(waiting, keys)
    barrier_reuse.remember(wave, number, lanes, waiting)
    wave.acquaintance.tell_blocks(waiting)
    wave.changes += 1
    wave.status[waiting] = Status.RUNNING
    wave.pc[waiting] += 1
    table.waits_at[waiting] = NOWHERE


def _check_meeting(wave: Wave, number: int, lanes: Lanes) -> None:
    """All lanes of a warp must come by the same instruction of an aligned barrier; one round has one form."""
    places = wave.block_barriers.place[number, lanes]
    for warp in np.unique(lanes >> WARP_SHIFT):
        mine = lanes >> WARP_SHIFT == warp
        here = lanes[mine]
        step = wave.program.steps[places[mine][0]]
        if _form(step).aligned and (places[mine] != places[mine][0]).any():
            message = f"threads of one warp meet at different {step.opcode} instructions, which must be one"
            wave.report(FindingKind.DIVERGENCE, message, step.where, here)
    modes = {wave.program.steps[pc].mode for pc in np.unique(places)}
    if len(modes) > 1:
        step = wave.program.steps[places[0]]
        message = f"{step.opcode} meets another form of barrier at the same barrier"
        wave.report(FindingKind.BARRIER, message, step.where, lanes)


def report_missing(wave: Wave, lanes: Lanes) -> None:
    """Lanes that wait at barriers for ever, told by the first block: who waits where, and how many are missing."""
    table, per_block = wave.block_barriers, wave.geometry.lanes_per_block
    block = int(lanes[0]) // per_block
    here = lanes[lanes // per_block == block]
    numbers = np.unique(table.waits_at[here])
    told = []
    for number in numbers:
        waiting = here[table.waits_at[here] == number]
        where = wave.program.steps[wave.pc[waiting[0]]].where
        told.append(f"{waiting.size} threads at barrier {number} ({where}), {_missing(wave, block, int(number))}")
    if numbers.size > 1:
        message = "threads of a block wait for each other at different barriers"
    else:
        message = "threads wait at a barrier that others do not come to"
    where = wave.program.steps[wave.pc[here[0]]].where
    wave.report(FindingKind.DEADLOCK, message, where, lanes, f": {'; '.join(told)}")


def _missing(wave: Wave, block: int, number: int) -> str:
    per_block = wave.geometry.lanes_per_block
    members = slice(block * per_block, (block + 1) * per_block)
    here = wave.block_barriers.here[number, members]
    expected = int(wave.block_barriers.expected[block, number])
    if expected == WHOLE_BLOCK:
        return f"{int((~here & (wave.status[members] != Status.EXITED)).sum())} are missing"
    come = int(here.reshape(-1, WARP).any(axis=1).sum()) * WARP
    return f"{expected * WARP - come} of {expected * WARP} are missing"
