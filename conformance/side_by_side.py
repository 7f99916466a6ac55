"""A run in several processes: one case at a time goes to each, and its events come back.

Without a budget each process keeps to neighbouring cases (see `shares`); within one, cases go out in their order.

Each process has its own simulator, and its own worker for the GPU where that is a target; no case depends on which
process ran it, since every case has a fresh device. One process goes first, alone, until its first case has ended:
on a machine without a cache of compiled code the others would compile the same engine beside it.

A process that dies takes no case with it: the case that it was running has no verdict, which is said with the cause,
and a fresh process takes the others. Events of a case follow each other in the stream; cases come as they end.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
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
from tileproof.conformance.registry import registered
from tileproof.conformance.sanitizer import Tool
from tileproof.conformance.session import Plan, Run, Session, runners_for
from tileproof.conformance.shares import Shares
from tileproof.conformance.target import Target
from tileproof.conformance.unheard import unheard

MAX_JOBS = 256
MAX_DEATHS = 3
"""Of processes, one after another without a case ended between them: what kills them is not the cases."""


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


@dataclass(frozen=True)
class _CaseEnded:
    """A process asks for the next case."""


@dataclass
class _Helper:
    """A process, and what it has told of the case that it is running."""

    number: int
    process: SpawnProcess
    connection: Connection
    case: Case | None = None
    told: list[Event] = field(default_factory=list)


class SideBySide(Run):
    """One run of a plan in several processes.

    Args:
        plan: what to run.
        helpers: the processes.
    """

    def __init__(self, plan: Plan, helpers: Helpers) -> None:
        super().__init__(plan)
        self._setup = helpers
        self._left = Shares(plan.left, apart=plan.budget_s is None)
        self._numbers = count()
        self._helpers: list[_Helper] = []
        self._unavailable: set[Target] = set()
        self._deaths = 0

    def all_cases(self) -> Iterator[Event]:
        """Hand cases out, and pass on what comes back, until none is left or running."""
        if self._left:
            self._start()
        while self._helpers:
            by_connection = {helper.connection: helper for helper in self._helpers}
            for ready in wait(list(by_connection)):
                assert isinstance(ready, Connection)
                yield from self._hear(by_connection[ready])

    def close(self) -> None:
        """Kill every process that is left."""
        for helper in self._helpers:
            _end(helper)
        self._helpers.clear()

    def _start(self) -> None:
        """One more process; it asks for its first case once its devices are open."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        bare = replace(self.plan, cases=(), before=(), budget_s=None, first_failure=False)
        process = context.Process(target=_serve, args=(theirs, bare, self._setup))
        with unheard():
            process.start()
        theirs.close()
        self._helpers.append(_Helper(next(self._numbers), process, ours))

    def _hear(self, helper: _Helper) -> Iterator[Event]:
        try:
            said = helper.connection.recv()
        except (EOFError, OSError):
            yield from self._died(helper)
            return
        if isinstance(said, TargetUnavailable):
            yield from self._gone(said)
        elif isinstance(said, _CaseEnded):
            yield from self._ended_case(helper)
        else:
            helper.told.append(said)

    def _gone(self, said: TargetUnavailable) -> Iterator[Event]:
        """A target without a device, said once for all processes."""
        if said.target not in self._unavailable:
            self._unavailable.add(said.target)
            yield said

    def _ended_case(self, helper: _Helper) -> Iterator[Event]:
        if helper.case is not None:
            self._deaths = 0
            yield from helper.told
            helper.told, helper.case = [], None
            missing = self._setup.jobs - len(self._helpers)
            for _ in range(min(missing, len(self._left) - 1)):
                self._start()
        self._hand_out(helper)

    def _hand_out(self, helper: _Helper) -> None:
        """The next case, or the end."""
        if not self._left or not self.goes_on:
            self._helpers.remove(helper)
            _end(helper)
            return
        helper.case = self._left.take(helper.number)
        with suppress(OSError):  # it has died: the next `recv` says so
            helper.connection.send(helper.case)

    def _died(self, helper: _Helper) -> Iterator[Event]:
        self._helpers.remove(helper)
        _end(helper)
        self._deaths += 1
        if helper.case is not None:
            yield from helper.told
            yield from _without_verdict(helper, self.plan)
        if self._left and self.goes_on:
            if self._deaths >= MAX_DEATHS and not self._helpers:
                yield from self._give_up()
            else:
                self._start()

    def _give_up(self) -> Iterator[Event]:
        """No process lives long enough to end a case."""
        reason = f"{self._deaths} processes died one after another; try --jobs 1"
        while self._left:
            case = self._left.take(0)
            for place in self.plan.coordinates:
                yield CaseErrored(str(case), place.target, "", reason)


def _without_verdict(helper: _Helper, plan: Plan) -> Iterator[Event]:
    """That a case was lost with its process, for each target that had not ended."""
    ended = {event.target for event in helper.told if isinstance(event, CaseFinished | CaseErrored | CaseNotRun)}
    crashes = {event.target: event.crash for event in helper.told if isinstance(event, CaseStarted)}
    code = helper.process.exitcode
    how = f"died: {signal.strsignal(-code)}" if code is not None and code < 0 else f"exited with {code}"
    for place in plan.coordinates:
        if place.target not in ended:
            crash = crashes.get(place.target, "")
            yield CaseErrored(str(helper.case), place.target, crash, f"the process that ran it {how}")


def _end(helper: _Helper) -> None:
    """Let a process go: it ends when its connection closes, and is killed if it is in the middle of a case."""
    helper.connection.close()
    if helper.case is not None:
        helper.process.terminate()
    helper.process.join(10)
    if helper.process.is_alive():
        helper.process.kill()
        helper.process.join(10)


def _serve(connection: Connection, plan: Plan, setup: Helpers) -> None:
    """A process's life: run each case that it is given, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, _leave)  # through `finally`, so that a worker for the GPU goes too
    os.dup2(2, 1)  # what a kernel prints is not the run's data
    pages = [Path(plan.page)] if plan.page else []
    with registered(contracts_of(pages)):
        runners = runners_for(plan.coordinates, deadline_s=setup.deadline_s, pages=pages, tool=setup.tool)
        session = Session(plan, CrashFolder(setup.crashes), runners)
        try:
            for event in session.open():
                connection.send(event)
            while True:
                connection.send(_CaseEnded())
                for event in session.run_case(connection.recv()):
                    connection.send(event)
        except (EOFError, OSError):
            pass  # the other end has closed
        finally:
            session.close()


def _leave(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)
