"""The reference engine: executes a program's steps in numpy over the lanes of one wave.

One turn runs a group of lanes from its program counter until it reaches the turn's stop, diverges, waits or exits. A
step works on all lanes of the group at once: a block in lock step costs one numpy call an instruction, whatever its
size.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx import access, collective
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.memory import Bits, Lanes
from tileproof.simulators.ptx.operation import NotModelled
from tileproof.simulators.ptx.order import WARP
from tileproof.simulators.ptx.program import NO_GUARD, Kind, Step
from tileproof.simulators.ptx.registers import EVERY_LANE, Selection
from tileproof.simulators.ptx.schedule import Schedule, Turn
from tileproof.simulators.ptx.wave import Status, Wave

_DONE = -1
_COLLECTIVES = frozenset({Kind.SHUFFLE, Kind.VOTE, Kind.WARP_BARRIER})


class StepBudgetExceeded(Refusal):
    """A launch made more steps than it was given."""


class Engine:
    """Runs one wave to its end.

    Args:
        wave: the machine state.
        schedule: who runs next.
        step_budget: steps of all turns before the launch is given up.
    """

    def __init__(self, wave: Wave, schedule: Schedule, step_budget: int) -> None:
        self._wave = wave
        self._schedule = schedule
        self._budget = step_budget
        self._steps = wave.program.steps
        self._handlers = [_handler(wave, step, pc) for pc, step in enumerate(self._steps)]

    def run(self) -> int:
        """Run until all lanes have exited or nobody can step; the steps left of the budget.

        Raises:
            StepBudgetExceeded: the budget ran out.
            NotModelled: the kernel did something that the device does not model.
        """
        wave = self._wave
        while True:
            running = np.flatnonzero(wave.status == Status.RUNNING)
            if running.size:
                self._run_turn(self._schedule.next_turn(wave.pc, running))
            elif not self._resolve_stall():
                return self._budget

    def _run_turn(self, turn: Turn) -> None:
        everyone = turn.lanes.size == self._wave.geometry.lanes
        selection: Selection = EVERY_LANE if everyone else turn.lanes
        pc, left = turn.pc, min(turn.steps, self._budget)
        made = 0
        while pc != _DONE and pc < turn.stop and made < left:
            made += 1
            pc, selection = self._step(pc, selection)
        self._budget -= made
        self._wave.counters.thread_instructions += made * turn.lanes.size
        if pc == _DONE or made < turn.steps:
            self._schedule.progress()
        if pc != _DONE:
            self._wave.pc[selection] = pc
        if self._budget <= 0:
            raise StepBudgetExceeded(
                f"kernel {self._wave.program.name}: the budget of steps ran out at {self._steps[turn.pc].where}",
                hint="an endless loop, or raise Device(step_budget=...)",
            )

    def _step(self, pc: int, selection: Selection) -> tuple[int, Selection]:
        """Execute one step; the next pc (or _DONE when the group no longer runs as one) and the group's lanes."""
        step = self._steps[pc]
        active = selection if step.guard == NO_GUARD else self._guarded(step, selection)
        match step.kind:
            case Kind.BRANCH:
                return self._branch(step, pc, selection, active)
            case Kind.EXIT:
                return self._exit(pc, selection, active)
            case Kind.BARRIER:
                return self._barrier(step, pc, selection, active)
            case kind if kind in _COLLECTIVES:
                return self._collective(step, pc, selection, active)
        if active is not None:
            self._handlers[pc](active)
        return pc + 1, selection

    def _guarded(self, step: Step, selection: Selection) -> Selection | None:
        """The lanes whose guard holds; None if there are none."""
        registers = self._wave.registers
        holds = (registers.read(step.guard, selection) != 0) != step.guard_negated
        if not registers.all_defined((step.guard,)):
            self._check_guard(step, selection)
        if holds.all():
            return selection
        if not holds.any():
            return None
        lanes: Lanes = self._wave.ids(selection)[holds]
        return lanes

    def _check_guard(self, step: Step, selection: Selection) -> None:
        undefined = self._wave.registers.undefined(step.guard, selection) != 0
        if undefined.any():
            message = "a value that nothing wrote decides a branch"
            self._wave.report(FindingKind.UNINITIALISED, message, step.where, self._wave.ids(selection)[undefined])

    def _branch(self, step: Step, pc: int, selection: Selection, taken: Selection | None) -> tuple[int, Selection]:
        if taken is None:
            return pc + 1, selection
        if taken is selection:
            return step.target, selection
        self._wave.pc[selection] = pc + 1
        self._wave.pc[taken] = step.target
        return _DONE, selection

    def _exit(self, pc: int, selection: Selection, leaving: Selection | None) -> tuple[int, Selection]:
        if leaving is None:
            return pc + 1, selection
        wave = self._wave
        wave.pc[selection] = pc + 1
        wave.status[leaving] = Status.EXITED
        left = wave.ids(leaving)
        self._wake_collectives(left // WARP)
        self._release_barriers(np.unique(left // wave.geometry.lanes_per_block))
        return _DONE, selection

    def _wake_collectives(self, warps: Lanes) -> None:
        """Lanes that wait for an exited lane look again."""
        status = self._wave.status.reshape(-1, WARP)
        touched = np.unique(warps)
        rows = status[touched]
        rows[rows == Status.AT_COLLECTIVE] = Status.RUNNING
        status[touched] = rows

    def _barrier(self, step: Step, pc: int, selection: Selection, active: Selection | None) -> tuple[int, Selection]:
        wave = self._wave
        wave.pc[selection] = pc + 1
        if active is not None:
            self._check_barrier(step, active)
            wave.pc[active] = pc
            wave.status[active] = Status.AT_BARRIER
            self._release_barriers(np.unique(wave.ids(active) // wave.geometry.lanes_per_block))
        return _DONE, selection

    def _check_barrier(self, step: Step, active: Selection) -> None:
        number = self._wave.registers.read(step.sources[0], active) if step.sources else np.zeros(1, np.uint64)
        if (number >= 16).any():
            message = f"{step.opcode} uses barrier {int(number.max())}: a block has barriers 0 to 15"
            self._wave.report(FindingKind.BARRIER, message, step.where, self._wave.ids(active))
        if len(step.sources) == 2:
            count = self._wave.registers.read(step.sources[1], active)
            if (count != self._wave.geometry.lanes_per_block).any():
                raise NotModelled(
                    f"{step.opcode} at {step.where}: a barrier of {int(count.min())} threads in a block of "
                    f"{self._wave.geometry.threads} is not modelled",
                    hint="barriers of part of a block belong to a later version",
                )

    def _release_barriers(self, blocks: Lanes) -> None:
        """Let the blocks go on whose remaining lanes all wait at one barrier."""
        wave = self._wave
        status = wave.status.reshape(-1, wave.geometry.lanes_per_block)
        for block in blocks:
            waiting = status[block] == Status.AT_BARRIER
            if not waiting.any() or not (waiting | (status[block] == Status.EXITED)).all():
                continue
            lanes = np.flatnonzero(waiting) + block * wave.geometry.lanes_per_block
            if len(self._barrier_numbers(lanes)) == 1:
                self._check_aligned(lanes)
                wave.order.barrier(lanes)
                wave.status[lanes] = Status.RUNNING
                wave.pc[lanes] += 1

    def _barrier_numbers(self, lanes: Lanes) -> set[int]:
        numbers: set[int] = set()
        for pc in np.unique(self._wave.pc[lanes]):
            here = lanes[self._wave.pc[lanes] == pc]
            sources = self._steps[pc].sources
            numbers |= set(self._wave.registers.read(sources[0], here).tolist()) if sources else {0}
        return numbers

    def _check_aligned(self, lanes: Lanes) -> None:
        """`bar.sync` is `.aligned`: all lanes of a warp must wait at the same instruction."""
        places = self._wave.pc[lanes]
        if (places == places[0]).all():
            return
        for warp in np.unique(lanes // WARP):
            here = lanes[lanes // WARP == warp]
            if (self._wave.pc[here] != self._wave.pc[here[0]]).any():
                step = self._steps[self._wave.pc[here[0]]]
                message = f"threads of one warp meet at different {step.opcode} instructions, which must be one"
                self._wave.report(FindingKind.DIVERGENCE, message, step.where, here)

    def _collective(self, step: Step, pc: int, selection: Selection, active: Selection | None) -> tuple[int, Selection]:
        wave = self._wave
        if active is None:
            return pc + 1, selection
        if isinstance(active, slice):
            self._finish_collective(step, active)
            return pc + 1, selection
        wave.pc[selection] = pc + 1
        wave.pc[active] = pc
        wave.status[active] = Status.AT_COLLECTIVE
        arrived = np.flatnonzero((wave.status == Status.AT_COLLECTIVE) & (wave.pc == pc))
        arrived = arrived[np.isin(arrived // WARP, active // WARP)]
        members = wave.registers.read(step.sources[-1], arrived)
        ready = arrived[collective.complete(wave, members, arrived)]
        if ready.size:
            self._finish_collective(step, ready)
            wave.status[ready] = Status.RUNNING
            wave.pc[ready] = pc + 1
            if ready.size == wave.ids(selection).size:
                return pc + 1, selection
        return _DONE, selection

    def _finish_collective(self, step: Step, selection: Selection) -> None:
        wave = self._wave
        lanes = wave.ids(selection)
        members = wave.registers.read(step.sources[-1], selection)
        collective.report_outsiders(wave, step, members, lanes)
        match step.kind:
            case Kind.SHUFFLE:
                collective.shuffle(wave, step, selection)
            case Kind.VOTE:
                collective.vote(wave, step, selection)
            case _:
                self._warp_barrier(step, members, lanes)

    def _warp_barrier(self, step: Step, members: Bits, lanes: Lanes) -> None:
        alive = collective.present_bits(self._wave, np.flatnonzero(self._wave.status != Status.EXITED))
        if (alive[lanes // WARP] & ~members).any():
            raise NotModelled(
                f"{step.opcode} at {step.where}: a member mask that leaves out threads of the warp is not modelled",
                hint="its order belongs to a later version; use the full mask",
            )
        self._wave.order.warp_sync(np.unique(lanes // WARP))

    def _resolve_stall(self) -> bool:
        """Nobody runs. Everything has exited, or the wait that cannot end is reported; whether to go on."""
        wave = self._wave
        waiting = np.flatnonzero(wave.status != Status.EXITED)
        if not waiting.size:
            return False
        at_barrier = waiting[wave.status[waiting] == Status.AT_BARRIER]
        at_collective = waiting[wave.status[waiting] == Status.AT_COLLECTIVE]
        if at_collective.size:
            self._report_collective(at_collective)
        if at_barrier.size:
            self._report_deadlock(at_barrier, at_collective)
        return False

    def _report_collective(self, lanes: Lanes) -> None:
        for pc in np.unique(self._wave.pc[lanes]):
            here = lanes[self._wave.pc[lanes] == pc]
            step = self._steps[pc]
            members = self._wave.registers.read(step.sources[-1], here)
            present = collective.present_bits(self._wave, here)[here // WARP]
            elsewhere = lanes[np.isin(lanes // WARP, here // WARP) & (self._wave.pc[lanes] != pc)]
            if any(self._steps[other].opcode == step.opcode for other in np.unique(self._wave.pc[elsewhere])):
                raise NotModelled(
                    f"{step.opcode} at {step.where}: lanes of one warp come to it through different instructions",
                    hint="meeting of different instructions belongs to a later version",
                )
            message = (
                f"{step.opcode} waits for threads that never come: member mask 0x{int(members[0]):08x}, "
                f"present 0x{int(present[0]):08x}"
            )
            self._wave.report(FindingKind.DIVERGENCE, message, step.where, here)

    def _report_deadlock(self, lanes: Lanes, at_collective: Lanes) -> None:
        places = []
        for pc in np.unique(self._wave.pc[lanes]):
            here = lanes[self._wave.pc[lanes] == pc]
            numbers = sorted(self._barrier_numbers(here))
            places.append(f"{here.size} threads wait at barrier {numbers[0]} ({self._steps[pc].where})")
        if at_collective.size:
            places.append(f"{at_collective.size} threads wait in warp collectives")
        where = self._steps[self._wave.pc[lanes[0]]].where
        self._wave.report(FindingKind.DEADLOCK, "nobody can step: " + "; ".join(places), where, lanes)


def _handler(wave: Wave, step: Step, pc: int) -> Callable[[Selection], None]:
    """The function that executes a step which does not change who runs."""
    match step.kind:
        case Kind.ARITHMETIC:
            return partial(_arithmetic, wave, step)
        case Kind.PACK:
            return partial(_pack, wave, step)
        case Kind.UNPACK:
            return partial(_unpack, wave, step)
        case Kind.LOAD:
            return partial(access.load, wave, step, pc)
        case Kind.STORE:
            return partial(access.store, wave, step, pc)
        case Kind.ATOMIC:
            return partial(access.atomic, wave, step, pc)
        case Kind.ACTIVE_MASK:
            return partial(collective.active_mask, wave, step)
    return _nothing


def _nothing(selection: Selection) -> None:
    """Fences and hints: they change no value."""


def _arithmetic(wave: Wave, step: Step, selection: Selection) -> None:
    registers, operation = wave.registers, step.operation
    assert operation is not None
    values = [registers.read(s, selection, n) for s, n in zip(step.sources, step.narrow, strict=True)]
    results = operation.compute(values)
    masks: tuple[Bits | None, ...] = (None,) * len(results)
    if not registers.all_defined(step.sources):
        undefined = [registers.undefined(s, selection, n) for s, n in zip(step.sources, step.narrow, strict=True)]
        masks = operation.undefined(values, undefined)
    for slot, result, mask, sign in zip(step.destinations, results, masks, step.sign_from, strict=True):
        registers.write(slot, selection, result, mask if mask is not None and mask.any() else None, sign)


def _pack(wave: Wave, step: Step, selection: Selection) -> None:
    registers = wave.registers
    values = [registers.read(s, selection, n) for s, n in zip(step.sources, step.narrow, strict=True)]
    mask = None
    if not registers.all_defined(step.sources):
        undefined = [registers.undefined(s, selection, n) for s, n in zip(step.sources, step.narrow, strict=True)]
        mask = _join(undefined, step.element_bits)
    registers.write(step.destinations[0], selection, _join(values, step.element_bits), mask)


def _join(elements: list[Bits], bits: int) -> Bits:
    word = elements[0]
    for index, element in enumerate(elements[1:], start=1):
        word = word | (element << np.uint64(index * bits))
    return word


def _unpack(wave: Wave, step: Step, selection: Selection) -> None:
    registers = wave.registers
    value = registers.read(step.sources[0], selection)
    defined = registers.all_defined(step.sources)
    undefined = None if defined else registers.undefined(step.sources[0], selection)
    field = np.uint64((1 << step.element_bits) - 1)
    for index, slot in enumerate(step.destinations):
        shift = np.uint64(index * step.element_bits)
        mask = None if undefined is None else (undefined >> shift) & field
        registers.write(slot, selection, (value >> shift) & field, mask)
