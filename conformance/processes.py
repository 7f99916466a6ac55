"""Processes of this machine that do one task at a time and tell what comes of it, and what is left of one that dies.

A process is spawned with a function that makes what does tasks; it says that it is free, gets a task, tells whatever it
has to tell of it, and is free again. Ctrl-C is the parent's affair: a process does not hear it, but is stopped.

    processes = Processes(partial(runner_of_cases, plan))
    processes.start()
    for heard in processes.hear():
        match heard:
            case Free(process, ended): processes.give(process, task)
            case Told(process, what): ...
            case Died(process, how): ...            # how: "died: Killed"
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from tileproof.conformance.unheard import unheard

Task = TypeVar("Task")

MAX_JOBS = 256
MAX_DEATHS = 3
"""Of processes, one after another without a task ended between them: what kills them is not the tasks."""

LAST_S = 10.0
"""Seconds that a process has to leave."""

Send = Callable[[Any], None]
Work = Callable[[Send], AbstractContextManager[Callable[[Task], None]]]
"""In a process: what it tells goes through the function given; within the context it does tasks by the one gotten."""


@dataclass(eq=False)
class Process(Generic[Task]):
    """One process, known by its number, and the task that it is at."""

    number: int
    process: SpawnProcess
    connection: Connection
    task: Task | None = None


@dataclass(frozen=True)
class Free(Generic[Task]):
    """A process asks for a task: it has ended one, or (`ended` is None) has just come to life."""

    process: Process[Task]
    ended: Task | None


@dataclass(frozen=True)
class Told(Generic[Task]):
    """What a process tells."""

    process: Process[Task]
    what: Any


@dataclass(frozen=True)
class Died(Generic[Task]):
    """A process is gone, with the task that it was at; `how` in words."""

    process: Process[Task]
    how: str


@dataclass(frozen=True)
class _Free:
    """On the wire."""


class Processes(Generic[Task]):
    """Those that live.

    Attributes:
        deaths: one after another, without a task ended between them.

    Args:
        work: what a process does; it must be importable where it is spawned.
    """

    def __init__(self, work: Work[Task]) -> None:
        self._work = work
        self._numbers = count()
        self._living: list[Process[Task]] = []
        self.deaths = 0

    def __len__(self) -> int:
        return len(self._living)

    def __iter__(self) -> Iterator[Process[Task]]:
        return iter(self._living)

    def start(self) -> None:
        """One more; it says when it is free."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=live, args=(theirs, self._work))
        with unheard():
            process.start()
        theirs.close()
        self._living.append(Process(next(self._numbers), process, ours))

    def hear(self, seconds: float | None = None) -> Iterator[Free[Task] | Told[Task] | Died[Task]]:
        """Wait until any of them says something or dies; nothing where none lives, or after so many seconds."""
        by_connection = {one.connection: one for one in self._living}
        for ready in wait(list(by_connection), seconds) if by_connection else ():
            assert isinstance(ready, Connection)
            yield self._heard(by_connection[ready])

    def give(self, process: Process[Task], task: Task) -> None:
        """Hand a free process a task."""
        process.task = task
        with suppress(OSError):  # it has died: `hear` says so next
            process.connection.send(task)

    def let_go(self, process: Process[Task]) -> None:
        """End a process: it goes when its connection closes, and is killed if it is in the middle of a task."""
        if process in self._living:
            self._living.remove(process)
        process.connection.close()
        if process.task is not None:
            process.process.terminate()
        process.process.join(LAST_S)
        if process.process.is_alive():
            process.process.kill()
            process.process.join(LAST_S)

    def stop(self) -> None:
        """Send SIGTERM to those that are at a task. It ends a process, unless its work takes the signal itself."""
        for one in self._living:
            if one.task is not None:
                one.process.terminate()

    def close(self) -> None:
        """End all."""
        for one in tuple(self._living):
            self.let_go(one)

    def _heard(self, one: Process[Task]) -> Free[Task] | Told[Task] | Died[Task]:
        try:
            said = one.connection.recv()
        except (EOFError, OSError):
            self.deaths += 1
            self._living.remove(one)
            self.let_go(one)
            code = one.process.exitcode
            how = f"died: {signal.strsignal(-code)}" if code is not None and code < 0 else f"exited with {code}"
            return Died(one, how)
        if not isinstance(said, _Free):
            return Told(one, said)
        ended, one.task = one.task, None
        if ended is not None:
            self.deaths = 0
        return Free(one, ended)


def live(connection: Connection, work: Work[Any]) -> None:
    """A process's life: do each task that it is given, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, _leave)  # through `finally`, so that a worker for the GPU goes too
    os.dup2(2, 1)  # what a kernel prints is not the run's data
    try:
        with work(connection.send) as do:
            while True:
                connection.send(_Free())
                do(connection.recv())
    except (EOFError, OSError, KeyboardInterrupt):
        pass  # the other end has closed, or the work is stopped between two tasks


def _leave(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)
