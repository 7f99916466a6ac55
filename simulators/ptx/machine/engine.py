"""The engine: executes a program's steps over the lanes of one wave.

One turn runs a group of lanes from its program counter until it reaches the turn's stop, diverges, waits or exits. A
step works on all lanes of the group at once: blocks in lock step cost one numpy call an instruction, whatever their
number. With the fast engine, compiled code makes the steps that it knows; all others are made here, by the same
functions as with the reference engine.
"""

from enum import StrEnum

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.fast.turn import FastTurns, runs_of
from tileproof.simulators.ptx.findings import FindingKind, Where
from tileproof.simulators.ptx.machine import (
    block_barrier,
    bracket,
    cluster_barrier,
    meeting,
    register_count,
    stall,
    trap,
)
from tileproof.simulators.ptx.machine.asynchronous import endings
from tileproof.simulators.ptx.machine.budget import Late, Watch
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.plan import plan_of
from tileproof.simulators.ptx.machine.profile import Profile
from tileproof.simulators.ptx.machine.registers import Selection, as_selection
from tileproof.simulators.ptx.machine.residency import Residency
from tileproof.simulators.ptx.machine.schedule import PATIENCE_POLLS, Schedule, Turn
from tileproof.simulators.ptx.machine.spin import SpinWatch
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT, distinct
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import NO_GUARD, NONE, Kind, Program, Step
from tileproof.simulators.ptx.trace.recorder import Recorder

# A program counter behind every stop: the group no longer runs as one.
_DONE = int(np.iinfo(np.int64).max)


class EngineName(StrEnum):
    """Names of the engines."""

    FAST = "fast"
    REFERENCE = "reference"

    @classmethod
    def parse(cls, name: str) -> "EngineName":
        """The engine of this name.

        Raises:
            Refusal: there is none.
        """
        try:
            return cls(name)
        except ValueError:
            raise Refusal(f"unknown engine {name!r}", hint=f"one of: {', '.join(cls)}") from None


class Engine:
    """Runs waves of one launch.

    Attributes:
        handed_back: steps that the fast engine left to the reference's functions.

    Args:
        program: the kernel.
        schedule: who runs next.
        watch: over what the launch may use up.
        name: which engine.
        arch: whose matrix unit computes.
        recorder: writes down what the waves do; with the reference engine only.
        profile: counts what is counted only when asked for.
        late: stores to global memory may come late.
    """

    def __init__(
        self,
        program: Program,
        schedule: Schedule,
        watch: Watch,
        name: EngineName,
        arch: str,
        recorder: Recorder | None = None,
        profile: Profile | None = None,
        *,
        late: bool = False,
    ) -> None:
        plan = plan_of(program)
        self._steps = program.steps
        self._handlers, self._alone, self._plain_barriers = plan.handlers, plan.alone, plan.plain_barriers
        self._has_warpgroups = program.has_warpgroups
        self._recorder = recorder
        self._profile = profile
        self._schedule = schedule
        self._watch = watch
        self._fast = FastTurns(program, arch, late=late) if name is EngineName.FAST else None
        self.handed_back = 0

    def run(self, wave: Wave) -> None:
        """Run a wave until all lanes have exited or nobody can step.

        Raises:
            BudgetExceeded: the budget ran out.
            NotModelled: the kernel did something that the device does not model.
        """
        if self._profile is not None:
            self._profile.begin(wave)
        if self._recorder is not None:
            self._recorder.begin(wave)
        if self._fast is not None:
            self._fast.begin(wave)
        try:
            self._run(wave)
        finally:
            if wave.weak is not None:
                wave.weak.end()
            if self._recorder is not None:
                self._recorder.end(wave)
            if self._fast is not None:
                self._fast.finish(wave)

    def _run(self, wave: Wave) -> None:
        left, asynchronous = self._watch.budget.steps, wave.program.has_asynchronous
        spin, residency = SpinWatch(wave), Residency(wave, self._schedule)
        self._watch.start()
        while (running := residency.running()).size:
            turn = self._schedule.next_turn(wave.pc, running)
            if asynchronous:
                wave.asynchronous.in_flight.tick(wave)
            if wave.weak is not None:
                wave.weak.tick()
            made = self._run_turn(wave, turn, left) if turn.ahead is None else self._run_apart(wave, turn, left)
            left -= made
            if spin.stuck(turn.lanes, made) and not self._helped(wave, residency):
                stall.report_spin(wave)
                return
            if left <= 0:
                raise self._watch.out_of_steps(wave.program.name, self._place(wave, turn))
            if self._watch.late:
                raise self._watch.out_of_time(wave.program.name, self._place(wave, turn))
        if wave.registers.present:
            stall.report_stall(wave)
        if asynchronous:
            wave.asynchronous.in_flight.drain(wave)
        if wave.program.has_register_counts:
            register_count.check_end(wave)

    @staticmethod
    def _helped(wave: Wave, residency: Residency) -> bool:
        """Whether something is left that may let spinning threads get on: copies, held stores, blocks not started."""
        return (
            (wave.program.has_asynchronous and wave.asynchronous.in_flight.drain(wave))
            or (wave.weak is not None and wave.weak.drain())
            or residency.admit()
        )

    def _run_apart(self, wave: Wave, turn: Turn, left: int) -> int:
        """Run a turn in which some lanes go ahead of the others; how many steps they made."""
        assert turn.ahead is not None
        ahead, behind = turn.lanes[turn.ahead], turn.lanes[~turn.ahead]
        # Fewer steps than polls that end a turn: both parts come to the same place.
        most = min(self._alone[turn.pc], turn.stop - turn.pc, turn.steps, PATIENCE_POLLS)
        if not (behind.size and ahead.size and most):
            return self._run_turn(wave, turn, left)
        parts = (Turn(lanes, turn.pc, turn.pc + most, most) for lanes in (ahead, behind))
        return sum(self._run_turn(wave, part, left) for part in parts)

    def _place(self, wave: Wave, turn: Turn) -> Where:
        """Where the first lane of a turn is after it."""
        return self._steps[min(int(wave.pc[turn.lanes[0]]), len(self._steps) - 1)].where

    def _run_turn(self, wave: Wave, turn: Turn, left: int) -> int:
        """Run a turn; how many steps it made."""
        selection = as_selection(turn.lanes)
        fast, runs = self._fast, None
        pc, most, made = turn.pc, min(turn.steps, left), 0
        wave.polls = 0
        while pc < turn.stop and made < most and wave.polls < PATIENCE_POLLS and not (made and self._watch.late):
            if fast is not None and fast.hot(pc):
                runs = runs_of(selection) if runs is None else runs
                first, whole = pc, most - made if self._profile is None else 1
                together = self._watch.most(whole, turn.lanes.size)
                pc, done = fast.run(wave, pc, turn.stop, together, runs, turn.lanes.size)
                made += done
                if self._profile is not None and done:
                    self._profile.count(first, turn.lanes.size)
                    continue
                if pc >= turn.stop or made >= most:
                    break
            self.handed_back += fast is not None
            made += 1
            if self._profile is not None:
                self._profile.count(pc, turn.lanes.size)
            try:
                pc = self._step(wave, pc, selection)
            except Late:
                raise self._watch.out_of_time(wave.program.name, self._steps[pc].where) from None
        wave.counters.thread_instructions += made * turn.lanes.size
        if pc >= turn.stop:
            self._schedule.progress()
        if pc != _DONE:
            wave.pc[selection] = pc
        return made

    def _step(self, wave: Wave, pc: int, selection: Selection) -> int:
        """Execute one step; the next pc, or _DONE with every lane's pc written."""
        step = self._steps[pc]
        active = selection if step.guard == NO_GUARD else _guarded(wave, step, selection)
        if active is None:
            return pc + 1
        if self._recorder is not None:
            self._recorder.step(pc)
        if wave.registers.brackets.live:
            bracket.check_operands(wave, step, active)
        if self._has_warpgroups and pc in wave.products.watched:
            wave.products.touch(step, wave.ids(active))
        handler = self._handlers[pc]
        if handler is not None:
            handler(wave, active)
            return pc + 1
        if step.kind is Kind.BRANCH and active is selection:
            return step.target
        if step.kind is Kind.BARRIER and active is selection and self._passes(wave, step, selection):
            return pc + 1
        wave.pc[selection] = pc + 1
        match step.kind:
            case Kind.BRANCH:
                wave.pc[active] = step.target
            case Kind.EXIT:
                _exit(wave, active)
            case Kind.TRAP:
                trap.report(wave, step, active)
                _exit(wave, active)
            case Kind.BARRIER:
                if block_barrier.wait(wave, step, pc, active) and active is selection:
                    return pc + 1
            case Kind.CLUSTER_WAIT:
                cluster_barrier.wait(wave, step, pc, active)
            case _:
                if meeting.meet(wave, step, pc, active) and active is selection:
                    return pc + 1
        return _DONE

    def _passes(self, wave: Wave, step: Step, selection: Selection) -> bool:
        """Whether a barrier is complete at once, because all threads of the wave come to it together."""
        lanes = wave.ids(selection)
        count = NONE if step.barrier is None else step.barrier.count
        # NOTE: threads that have exited are not waited for where there is no count, and for ever where there is one.
        everybody = wave.registers.present if count == NONE else wave.geometry.lanes
        whole = count == NONE or wave.program.constants.get(count) == wave.geometry.lanes_per_block
        if not self._plain_barriers or not whole or lanes.size != everybody:
            return False
        wave.order.block_barrier(lanes)
        wave.changes += 2  # they came, and they went on
        return True


def _guarded(wave: Wave, step: Step, selection: Selection) -> Selection | None:
    """The lanes whose guard holds; None if there are none."""
    holds = (wave.registers.read(step.guard, selection) != 0) != step.guard_negated
    undefined = wave.registers.undefined((step.guard,), selection)
    if undefined is not None:
        what = "which way a branch goes" if step.kind is Kind.BRANCH else f"whether {step.opcode} executes"
        lanes = wave.ids(selection)[undefined[0] != 0]
        wave.report(FindingKind.UNINITIALISED, f"a value that nothing wrote decides {what}", step.where, lanes)
    if wave.registers.brackets.live:
        bracket.check_guard(wave, step, selection)
    if holds.all():
        return selection
    if not holds.any():
        return None
    return as_selection(wave.ids(selection)[holds])


def _exit(wave: Wave, leaving: Selection) -> None:
    lanes: Lanes = wave.ids(leaving)
    wave.changes += 1
    wave.exit(lanes)
    if wave.program.has_asynchronous:
        endings.leave(wave, lanes)
    if wave.program.has_warpgroups:
        wave.products.leave(lanes)
    if wave.registers.present == 0:
        return  # nobody is left who might wait for them
    meeting.look_again(wave, distinct(lanes >> WARP_SHIFT))
    block_barrier.release_after_exit(wave, wave.geometry.blocks_of(lanes))
    cluster_barrier.release(wave, distinct(lanes // wave.geometry.lanes_per_cluster))
