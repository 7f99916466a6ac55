"""A run in several processes: one case at a time goes to each, and its events come back.

Without a budget each process keeps to neighbouring cases (see `shares`); within one, cases go out in their order.

Each process has its own simulator, and its own worker for the GPU where that is a target; no case depends on which
process ran it, since every case has a fresh device. All come to life at once, but one goes first until its first case
has ended: on a machine without a cache of compiled code the others would compile the same engine beside it.

A process that dies takes no case with it: the case that it was running has no verdict, which is said with the cause,
and a fresh process takes the others. Events of a case follow each other in the stream; cases come as they end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tileproof.conformance.case import Case
from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import (
    CaseErrored,
    CaseFinished,
    CaseNotRun,
    CaseStarted,
    Event,
    TargetUnavailable,
)
from tileproof.conformance.processes import MAX_DEATHS, Died, Free, Process, Processes, Send, Told
from tileproof.conformance.registry import registered
from tileproof.conformance.sanitizer import Tool
from tileproof.conformance.session import Plan, Run, Session, runners_for
from tileproof.conformance.shares import Shares
from tileproof.conformance.target import Target


@dataclass(frozen=True)
class Helpers:
    """How the processes are set up.

    Args:
        jobs: how many.
        crashes: folder of crash files, shared by all.
        deadline_s: of a case on the GPU or a launch on the simulator; None for the usual.
        tool: of compute-sanitizer, under which workers for the GPU start; None for none.
    """

    jobs: int
    crashes: Path
    deadline_s: float | None = None
    tool: Tool | None = None


class SideBySide(Run):
    """One run of a plan in several processes.

    Args:
        plan: what to run.
        helpers: the processes.
    """

    def __init__(self, plan: Plan, helpers: Helpers) -> None:
        super().__init__(plan)
        self._jobs = helpers.jobs
        self._left = Shares(plan.left, apart=plan.budget_s is None)
        bare = replace(plan, cases=(), before=(), budget_s=None, first_failure=False)
        self._processes: Processes[Case] = Processes(partial(_running, bare, helpers))
        self._waiting: list[Process[Case]] = []
        """Free ones, until the first has ended a case."""
        self._is_warm = False
        self._told: dict[int, list[Event]] = defaultdict(list)
        """By process: of the case that it is at."""
        self._unavailable: set[Target] = set()

    def all_cases(self) -> Iterator[Event]:
        """Hand cases out, and pass on what comes back, until none is left or running."""
        for _ in range(min(self._jobs, len(self._left))):
            self._processes.start()
        while self._processes:
            for heard in self._processes.hear():
                match heard:
                    case Free():
                        yield from self._ended_case(heard)
                    case Told(_, TargetUnavailable() as said):
                        yield from self._gone(said)
                    case Told(process, event):
                        self._told[process.number].append(event)
                    case Died():
                        yield from self._died(heard)

    def close(self) -> None:
        """Kill every process that is left."""
        self._processes.close()

    def _gone(self, said: TargetUnavailable) -> Iterator[Event]:
        """A target without a device, said once for all processes."""
        if said.target not in self._unavailable:
            self._unavailable.add(said.target)
            yield said

    def _ended_case(self, free: Free[Case]) -> Iterator[Event]:
        if free.ended is not None:
            yield from self._told.pop(free.process.number, [])
            self._is_warm = True
            missing = self._jobs - len(self._processes)
            for _ in range(min(missing, len(self._left) - 1)):
                self._processes.start()
        self._waiting.append(free.process)
        self._go_on()

    def _go_on(self) -> None:
        """Free processes get cases; as long as none has ended one, only one is at one."""
        while self._waiting and (self._is_warm or not any(one.task for one in self._processes)):
            self._hand_out(self._waiting.pop())

    def _hand_out(self, process: Process[Case]) -> None:
        """The next case, or the end."""
        if self._left and self.goes_on:
            self._processes.give(process, self._left.take(process.number))
        else:
            self._processes.let_go(process)

    def _died(self, dead: Died[Case]) -> Iterator[Event]:
        told = self._told.pop(dead.process.number, [])
        self._waiting = [one for one in self._waiting if one is not dead.process]
        if dead.process.task is not None:
            yield from told
            yield from _without_verdict(dead, told, self.plan)
        if self._left and self.goes_on:
            if self._processes.deaths < MAX_DEATHS:
                self._processes.start()
            elif not self._processes:
                yield from self._give_up()
        self._go_on()

    def _give_up(self) -> Iterator[Event]:
        """No process lives long enough to end a case."""
        reason = f"{self._processes.deaths} processes died one after another; try --jobs 1"
        while self._left:
            case = self._left.take(0)
            for place in self.plan.coordinates:
                yield CaseErrored(str(case), place.target, "", reason)


def _without_verdict(dead: Died[Case], told: list[Event], plan: Plan) -> Iterator[Event]:
    """That a case was lost with its process, for each target that had not ended."""
    ended = {event.target for event in told if isinstance(event, CaseFinished | CaseErrored | CaseNotRun)}
    crashes = {event.target: event.crash for event in told if isinstance(event, CaseStarted)}
    for place in plan.coordinates:
        if place.target not in ended:
            crash = crashes.get(place.target, "")
            yield CaseErrored(str(dead.process.task), place.target, crash, f"the process that ran it {dead.how}")


@contextmanager
def _running(plan: Plan, setup: Helpers, tell: Send) -> Iterator[Callable[[Case], None]]:
    """In a process: its devices, opened once, and what runs a case on them and tells its events."""
    pages = [Path(plan.page)] if plan.page else []
    with registered(contracts_of(pages)):
        runners = runners_for(plan.coordinates, deadline_s=setup.deadline_s, pages=pages, tool=setup.tool)
        session = Session(plan, CrashFolder(setup.crashes), runners)

        def run(case: Case) -> None:
            for event in session.run_case(case):
                tell(event)

        try:
            for event in session.open():
                tell(event)
            yield run
        finally:
            session.close()
