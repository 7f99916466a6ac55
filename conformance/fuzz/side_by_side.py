"""A search in several processes of this machine: a round is a task.

One process goes first, alone, until its first trial has ended, so that the engine is compiled once. A process that dies
takes its round with it, which is said with the trial that it was at: that one's crash file stays and can be replayed.
On Ctrl-C each round that runs ends with what it has found.
"""

import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.crash import Status, read_crash
from tileproof.conformance.fuzz.campaign import LostRound
from tileproof.conformance.fuzz.round_work import Done, Player, Setup, Work
from tileproof.conformance.processes import Died, Free, Process, Processes, Send, Told
from tileproof.conformance.registry import registered
from tileproof.oracle.refusal import Refusal

STOP_S = 30.0
"""After Ctrl-C, for rounds that run: one simulated launch, and the trials that found something once more."""

Tell = Callable[[str, bool], None]
"""A trial's id, and whether it failed."""


@dataclass(frozen=True)
class _Tried:
    """A trial ended in a process."""

    case: str
    failed: bool


@dataclass(frozen=True)
class _Scratch:
    """Where a process puts crash files of trials that may not stay."""

    folder: Path


class LocalCrew:
    """Plays the rounds of a search in processes of this machine; see `campaign.Crew`.

    Args:
        setup: of the search.
        jobs: how many processes.
        tell: is told of each trial that ended.
    """

    def __init__(self, setup: Setup, jobs: int, tell: Tell = lambda case, failed: None) -> None:
        self._setup = setup
        self._jobs = jobs
        self._tell = tell
        self._processes: Processes[Work] = Processes(partial(_playing, setup))
        self._free: list[Process[Work]] = []
        self._waiting: deque[Work] = deque()
        self._running: dict[int, Work] = {}
        self._scratch: dict[int, Path] = {}
        self._is_warm = False

    @property
    def width(self) -> int:
        """See `Crew`."""
        return self._jobs

    @property
    def room(self) -> bool:
        """See `Crew`."""
        return len(self._running) + len(self._waiting) < (self._jobs if self._is_warm else 1)

    @property
    def is_working(self) -> bool:
        """See `Crew`."""
        return bool(self._running or self._waiting)

    def hand_out(self, work: Work) -> None:
        """See `Crew`."""
        self._waiting.append(work)
        if self._free:
            self._give(self._free.pop())
        else:
            self._processes.start()

    def take(self) -> Iterator[Done | LostRound]:
        """See `Crew`."""
        had_room = self.room
        while self.is_working and (had_room or not self.room):
            ended = [one for heard in self._processes.hear() for one in self._heard(heard)]
            yield from ended
            if ended:
                return

    def stop(self) -> Iterator[Done | LostRound]:
        """See `Crew`. Rounds that have not begun are left out."""
        self._waiting.clear()
        self._processes.stop()
        end = time.monotonic() + STOP_S
        while self._running and (left := end - time.monotonic()) > 0:
            for heard in self._processes.hear(left):
                yield from self._heard(heard)
        for work in self._running.values():
            yield LostRound(work, f"it did not end within {STOP_S:.0f} s of Ctrl-C")

    def close(self) -> None:
        """See `Crew`."""
        self._processes.close()
        for folder in self._scratch.values():
            shutil.rmtree(folder, ignore_errors=True)

    def _give(self, process: Process[Work]) -> None:
        work = self._running[process.number] = self._waiting.popleft()
        self._processes.give(process, work)

    def _heard(self, heard: Free[Work] | Told[Work] | Died[Work]) -> Iterator[Done | LostRound]:
        match heard:
            case Free(process) if self._waiting:
                self._give(process)
            case Free(process):
                self._free.append(process)
            case Told(process, _Scratch(folder)):
                self._scratch[process.number] = folder
            case Told(_, _Tried(case, failed)):
                self._is_warm = True
                self._tell(case, failed)
            case Told(process, Done() as done):
                del self._running[process.number]
                yield done
            case Died():
                yield from self._died(heard)

    def _died(self, dead: Died[Work]) -> Iterator[LostRound]:
        number = dead.process.number
        if dead.process in self._free:
            self._free.remove(dead.process)
        work = self._running.pop(number, None) or (self._waiting.popleft() if self._waiting else None)
        if work is not None:
            yield LostRound(work, f"the process that played it {dead.how}{self._last_trial(number)}")
        if self._waiting:
            self._processes.start()

    def _last_trial(self, number: int) -> str:
        """What a process that died was at; its crash file goes where it stays."""
        for path in sorted(self._scratch.get(number, Path("nowhere")).glob("*.json")):
            try:
                record, _ = read_crash(path)
                if record.status is Status.LAUNCHED:
                    os.replace(path, self._setup.crashes / path.name)
                    return f", at {record.case}: tileproof replay {path.stem}"
            except (Refusal, OSError):
                continue
        return ""


@contextmanager
def _playing(setup: Setup, tell: Send) -> Iterator[Callable[[Work], None]]:
    """In a process: what plays rounds, and tells of their trials as they end."""
    signal.signal(signal.SIGTERM, _interrupt)
    with registered(contracts_of([Path(setup.page)] if setup.page else [])):
        player = Player(setup, lambda judged: tell(_Tried(str(judged.trial.case), bool(judged.signatures))))
        tell(_Scratch(player.scratch))
        try:
            yield lambda work: tell(player.play(work))
        finally:
            player.close()


def _interrupt(signum: int, frame: object) -> None:
    """The first time a round ends with what it has; the second time the process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt
