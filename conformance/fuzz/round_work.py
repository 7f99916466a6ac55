"""The unit of work of a search: one round, from what it is to do to what it found, in whatever process it runs."""

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from tileproof.conformance.events import CaseErrored, CaseFinished, CaseStarted, CrashFileFailed, Event, FindingFound
from tileproof.conformance.fuzz.explore import Allowance, Explored, Round
from tileproof.conformance.fuzz.judge import Judge, Judged
from tileproof.conformance.fuzz.reach import reached
from tileproof.conformance.fuzz.shrink import Least, Shrinker
from tileproof.conformance.fuzz.strategy import Scope, space_of
from tileproof.conformance.fuzz.trial import Trial
from tileproof.conformance.registry import contracts
from tileproof.conformance.session import runners_for
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Runner

COUNTED_OF = 4
"""One explored trial in so many, by its id, is run again to see which lines it reaches."""

SHRINK_SHARE = 0.5
LEAST_SHRINK_S = 20.0
"""Of a search's seconds, what shrinking may take once they are over; and the least of it."""

Tell = Callable[[Judged], None]


@dataclass(frozen=True)
class Setup:
    """What all rounds of a search have in common.

    Args:
        targets: where each trial runs.
        archs: architectures to draw from.
        crashes: folder of crash files.
        fault: the deliberate defect to put in, if one is.
        page: the file of a user's page, if its contracts are searched.
        deadline_s: of a case on the GPU or a launch on the simulator; None for the usual.
        seconds: of the whole search; None where examples end it.
    """

    targets: tuple[Target, ...]
    archs: tuple[str, ...]
    crashes: Path
    fault: str | None = None
    page: str = ""
    deadline_s: float | None = None
    seconds: float | None = None

    @property
    def places(self) -> tuple[Coordinates, ...]:
        """The plainest place on each target."""
        return tuple(Coordinates(target, self.archs[0]) for target in self.targets)


@dataclass(frozen=True)
class Work:
    """One round.

    Args:
        contract: name of the contract.
        seed: of all draws.
        examples: trials to draw; none where only `again` runs.
        known: crash ids by the signatures that earlier rounds found.
        kept: trials to begin from.
        again: trials of an earlier search, to be run as they are.
        left_s: seconds left for exploring; None for no such time.
        turn: how many rounds the contract has had.
    """

    contract: str
    seed: int
    examples: int
    known: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[Trial, ...] = ()
    again: tuple[Trial, ...] = ()
    left_s: float | None = None
    turn: int = 0


@dataclass(frozen=True)
class Shows:
    """What one trial is worth keeping for: signatures and routes, and lines if they were counted."""

    trial: Trial
    failed: bool
    why: tuple[str, ...]
    lines: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Done:
    """What came of a round.

    Args:
        work: what was to be done.
        events: of all cases that count, those of shrunk trials first.
        shows: of each trial that counts.
        crashes: crash ids by signatures that are new.
        shrinking: further trials, which only served to shrink.
        is_barren: nothing that can run could be drawn.
    """

    work: Work
    events: tuple[Event, ...]
    shows: tuple[Shows, ...]
    crashes: Mapping[str, str]
    shrinking: int
    is_barren: bool = False


class Player:
    """Plays rounds in this process.

    Attributes:
        interrupted: Ctrl-C ended a round: what it had found is told as it is, and nothing more is to be played.
        scratch: folder of the crash files of trials that may not stay.

    Args:
        setup: of the search.
        tell: is told of each explored trial at once.
    """

    def __init__(self, setup: Setup, tell: Tell = lambda judged: None) -> None:
        self.setup = setup
        self.interrupted = False
        self._tell = tell
        self._runners: dict[Target, Runner] = runners_for(
            setup.places, deadline_s=setup.deadline_s, pages=[Path(setup.page)] if setup.page else ()
        )
        self.scratch = setup.crashes / f"fuzz-{uuid.uuid4().hex[:8]}"

    def judge(self, folder: Path | None = None, targets: tuple[Target, ...] | None = None) -> Judge:
        """What runs trials, its crash files in a folder of their own unless another is named."""
        setup = self.setup
        return Judge(targets or setup.targets, self._runners, folder or self.scratch, setup.fault, setup.page)

    def play(self, work: Work) -> Done:
        """Explore, shrink what is new, and gather what counts."""
        explored = self._explore(work)
        crashes: dict[str, str] = {}
        least: list[Judged] = []
        runs = 0
        until = self._shrink_until()
        for signature, found in explored.smallest.items():
            if signature not in crashes:
                shrunk, tried = self._shrunk(work, signature, found, until)
                runs += tried
                least.append(shrunk)
                crashes |= {name: crash for name, crash in _crashes(shrunk).items() if name not in crashes}
        known = {**work.known, **crashes}
        events = [event for one in least for event in one.events]
        events += [event for one in explored.judged for event in _counted(one, known)]
        shows = [Shows(one.trial, bool(one.signatures), _why(one), self._lines(one)) for one in explored.judged]
        shows += [Shows(one.trial, True, _why(one)) for one in least]
        return Done(work, tuple(events), tuple(shows), crashes, explored.shrinking + runs, explored.is_barren)

    def _shrunk(self, work: Work, signature: str, found: Judged, until: Callable[[], bool]) -> tuple[Judged, int]:
        """The least trial that shows a signature, and how many were tried; after Ctrl-C the one that was found."""
        if not self.interrupted:
            try:
                shrinker = Shrinker(self._scope(work), self._shrinking_judge(signature, found), signature, until)
                return self._finish(shrinker.shrink(found), signature, found), shrinker.runs
            except KeyboardInterrupt:
                self.interrupted = True
        return self.judge(self.setup.crashes).run(found.trial), 0

    def close(self) -> None:
        """Let all devices go, and the folder of trials that were not kept."""
        for runner in self._runners.values():
            runner.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _scope(self, work: Work) -> Scope:
        contract = contracts()[work.contract]
        return Scope(contract, space_of(contract), self.setup.targets, self.setup.archs, work.kept, work.turn)

    def _explore(self, work: Work) -> Explored:
        until = None if work.left_s is None else time.monotonic() + work.left_s
        known, result = frozenset(work.known), Explored()
        try:
            self._again(work, known, until, result)
            if work.examples:
                allowance = Allowance(work.examples, until, self._shrink_s())
                Round(self._scope(work), self.judge(), known, work.seed, allowance, self._tell, result).run()
        except KeyboardInterrupt:
            self.interrupted = True
            for judged in result.judged:
                for signature in (one for one in judged.signatures if one not in known):
                    result.smallest.setdefault(signature, judged)
        return result

    def _again(self, work: Work, known: frozenset[str], until: float | None, result: Explored) -> None:
        judge = self.judge()
        for trial in work.again:
            if until is not None and time.monotonic() >= until:
                break
            judged = judge.run(trial)
            result.judged.append(judged)
            self._tell(judged)
            for signature in judged.signatures:
                if signature not in known:
                    result.smallest.setdefault(signature, judged)

    def _shrink_s(self) -> float:
        return max(LEAST_SHRINK_S, SHRINK_SHARE * (self.setup.seconds or 0))

    def _shrink_until(self) -> Callable[[], bool]:
        """Whether shrinking may go on: by the clock only where the search itself goes by the clock."""
        if self.setup.seconds is None:
            return lambda: True
        until = time.monotonic() + self._shrink_s()
        return lambda: time.monotonic() < until

    def _shrinking_judge(self, signature: str, found: Judged) -> Judge:
        """The simulator alone where that shows the signature too."""
        if len(self.setup.targets) > 1 and Target.SIM in self.setup.targets:
            alone = self.judge(targets=(Target.SIM,))
            if signature in alone.run(found.trial).signatures:
                return alone
        return self.judge()

    def _finish(self, least: Least, signature: str, found: Judged) -> Judged:
        """Run the least trial once more, its crash file in the folder where it stays."""
        judge = replace(self.judge(self.setup.crashes), explains=True)
        shrunk = judge.run(least.trial, least.inputs, self._origin(least))
        return shrunk if signature in shrunk.signatures else judge.run(found.trial)

    def _origin(self, least: Least) -> str:
        """Where inputs come from, and the place where it is not the run's own."""
        place = least.trial.place
        elsewhere = () if place in self.setup.places else (f"on {place}",)
        return "; ".join((*filter(None, (least.origin or least.trial.origin,)), *elsewhere))

    def _lines(self, judged: Judged) -> frozenset[str]:
        chosen = crc32(str(judged.trial.case).encode()) % COUNTED_OF == 0
        counted = chosen and not self.interrupted and Target.SIM in self.setup.targets and judged.ran
        return reached(judged.trial, self.setup.fault) if counted else frozenset()


def _crashes(judged: Judged) -> dict[str, str]:
    found = {event.finding.signature: event.crash for event in judged.events if isinstance(event, FindingFound)}
    errors = [event.crash for event in judged.events if isinstance(event, CaseErrored)]
    return {signature: found.get(signature, errors[0] if errors else "") for signature in judged.signatures}


def _counted(judged: Judged, crashes: Mapping[str, str]) -> Iterator[Event]:
    """The events of an explored trial: its own crash files are gone, those of its signatures stay."""
    for event in judged.events:
        if isinstance(event, FindingFound):
            yield replace(event, crash=crashes.get(event.finding.signature, ""))
        elif isinstance(event, CaseErrored):
            yield replace(event, crash=crashes.get(judged.signatures[-1], ""))
        elif isinstance(event, CaseStarted):
            yield replace(event, crash="")
        elif not isinstance(event, CrashFileFailed):
            yield event


def _why(judged: Judged) -> tuple[str, ...]:
    case = judged.trial.case
    kernel = f"{case.contract}/{case.kernel}"
    routes = (f"{kernel}: route {event.route}" for event in judged.events if isinstance(event, CaseFinished))
    shown = (f"{kernel}: {signature}" for signature in judged.signatures)
    return tuple(dict.fromkeys((*routes, *shown)))
