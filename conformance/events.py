"""What happens in a run, as typed events, and the NDJSON file that holds all of them.

The session emits events and knows no reader; console, event file and later JUnit or HTML are readers and know no
session. One line of the file is one event: an object whose field "event" names the type, in kebab case.
"""

import fcntl
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tileproof.conformance.environment import Environment
from tileproof.conformance.finding import Finding, Why
from tileproof.conformance.records import from_json, parse_json, to_json
from tileproof.conformance.target import Coordinates, Target
from tileproof.kernels.given_file import opened
from tileproof.oracle.refusal import Refusal

MAX_LINE_BYTES = 1 << 24
EVENTS_HINT = "give a file that `check --events FILE` wrote"


@dataclass(frozen=True)
class RunStarted:
    """The first event: what will be run.

    Args:
        tier: name of the tier, or "selected" where selectors or a file chose the cases.
        cases: how many; each runs once on each target.
        targets: run coordinates of each target.
        fault: the deliberate defect that is in the kernel or the model, if one is.
        page: the file of a user's page that the cases come from; a reader runs no page that it was not given by hand.
        selection: a hash of the ids of all cases: which run it is that another one may go on with.
    """

    tier: str
    cases: int
    targets: tuple[Coordinates, ...]
    fault: str | None
    environment: Environment
    page: str = ""
    selection: str = ""


@dataclass(frozen=True)
class PassStarted:
    """A run without an end begins its cases anew, with other seeds; see `soak`.

    Args:
        number: of the pass; the first one, 0, begins with the run.
        cases: how many it runs.
        targets: run coordinates of each target, with the seed of this pass.
    """

    number: int
    cases: int
    targets: tuple[Coordinates, ...]


@dataclass(frozen=True)
class TargetUnavailable:
    """A target cannot be used, from the start or after a crash; its remaining cases are not run."""

    target: Target
    reason: str


@dataclass(frozen=True)
class CrashFileFailed:
    """A crash file could not be written or removed, and why; run and verdict do not depend on it."""

    case: str
    crash: str
    reason: str


@dataclass(frozen=True)
class CaseStarted:
    """Its crash file exists from here on, unless CrashFileFailed went before.

    `origin` is the file and tensor of a user's own inputs, else empty.
    """

    case: str
    target: Target
    crash: str
    origin: str = ""


@dataclass(frozen=True)
class FindingFound:
    """One finding; `targets` has two members where they differ from each other. `crash` is the id to replay.

    `waiver` says which waiver tolerates it, until when and why; "" where none does. `places` are the coordinates where
    they are others than the run's.
    """

    case: str
    targets: tuple[Target, ...]
    crash: str
    finding: Finding
    origin: str = ""
    waiver: str = ""
    places: tuple[Coordinates, ...] = ()


@dataclass(frozen=True)
class CaseExplained:
    """Why a case failed, as far as that could be told beside the run; not of cases like one that was explained.

    `against` is the other target, where it is their difference that is explained.
    """

    case: str
    target: Target
    why: Why
    against: Target | None = None

    @property
    def targets(self) -> tuple[Target, ...]:
        """Those of the findings that are explained."""
        return (self.target,) if self.against is None else (self.target, self.against)


@dataclass(frozen=True)
class CaseFinished:
    """The case ran to its verdict: passed without a finding, else failed.

    `kernels` are the keys of the kernels that it launched; see `evidence.kernel_key`. `waived`: it failed, and a waiver
    tolerates each of its findings.
    """

    case: str
    target: Target
    passed: bool
    route: str
    seconds: float
    output_digest: str
    notes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    waived: bool = False


@dataclass(frozen=True)
class CaseErrored:
    """No verdict: the run itself failed (an instruction outside the model, a broken generator)."""

    case: str
    target: Target
    crash: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class CaseNotRun:
    """The case was collected and did not run, and why."""

    case: str
    target: Target
    reason: str


@dataclass(frozen=True)
class TargetsCompared:
    """The outputs of a case that ran on several targets were held against each other."""

    case: str
    targets: tuple[Target, ...]
    equal: bool


@dataclass(frozen=True)
class WaiverFailed:
    """A waiver that holds no longer: it expired, its probe passes, or nothing needed it."""

    waiver: str
    problem: str
    reason: str


@dataclass(frozen=True)
class TargetCount:
    """How the cases of one target ended."""

    target: Target
    passed: int
    failed: int
    errors: int
    not_run: int
    waived: int = 0


@dataclass(frozen=True)
class RouteCount:
    """How many cases took one route of one kernel on one target."""

    target: Target
    kernel: str
    route: str
    cases: int


@dataclass(frozen=True)
class RunFinished:
    """The last event: how it all ended.

    Args:
        compared: cases whose outputs of several targets were compared.
        differing: those of them that differ.
        missing: targets that were asked for and ran nothing, because there is no such device.
        interrupted: by the user, before all had run.
        exit_code: 0 all agree, 1 a finding, 2 usage, configuration or internal error. With a fault: 1 where it was
            caught by the right kinds of findings, else 2.
    """

    counts: tuple[TargetCount, ...]
    routes: tuple[RouteCount, ...]
    compared: int
    differing: int
    missing: tuple[Target, ...]
    interrupted: bool
    seconds: float
    exit_code: int


Event = (
    RunStarted
    | PassStarted
    | TargetUnavailable
    | CrashFileFailed
    | CaseStarted
    | FindingFound
    | CaseExplained
    | CaseFinished
    | CaseErrored
    | CaseNotRun
    | TargetsCompared
    | WaiverFailed
    | RunFinished
)

_TYPES: tuple[type[Event], ...] = (
    RunStarted,
    PassStarted,
    TargetUnavailable,
    CrashFileFailed,
    CaseStarted,
    FindingFound,
    CaseExplained,
    CaseFinished,
    CaseErrored,
    CaseNotRun,
    TargetsCompared,
    WaiverFailed,
    RunFinished,
)


def event_name(cls: type) -> str:
    """The name of an event type in the file: CaseNotRun is "case-not-run"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


_BY_NAME = {event_name(cls): cls for cls in _TYPES}


class EventFile:
    """Writes each event as a line at once, so that the file of a run that was killed is whole up to there.

    A run does not end because its file cannot be written on, for a full disk say: `failure` then says why, and the
    file stays as it is.

    Args:
        path: of the file.
        there: how many events it holds already: it is then written on, and the first so many that come are those.

    Raises:
        Refusal: the file cannot be opened, or another run is writing it.
    """

    def __init__(self, path: Path, there: int = 0) -> None:
        self.failure = ""
        self._path = path
        self._there = there
        try:
            self._file = path.open("a", encoding="utf-8", buffering=1)
            if path.is_file():
                self._take(anew=not there)
        except OSError as error:
            raise Refusal(f"{path}: cannot be written: {error.strerror}", hint="give another --events FILE") from None

    def _take(self, *, anew: bool) -> None:
        """Keep the file from other runs until it is closed; one that begins anew is emptied only then."""
        try:
            hold(self._file, self._path)
        except Refusal:
            self._file.close()
            raise
        if anew:
            self._file.truncate(0)

    def receive(self, event: Event) -> None:
        """Append one event."""
        if self.failure:
            return
        if self._there:
            self._there -= 1
            return
        try:
            self._file.write(event_line(event))
        except OSError as error:
            self._fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._file.close()
        except OSError as error:  # what is still in the buffer
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = f"{self._path}: cannot be written: {error.strerror}"


def hold(file: IO[Any], path: Path) -> None:
    """Keep an open file from other runs until it is closed. Raises: Refusal where one has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refusal(f"{path}: another run is writing it", hint="give another --events FILE") from None


def event_line(event: Event) -> str:
    """The line of an event, ASCII: a file's name may not be Unicode."""
    return json.dumps({"event": event_name(type(event)), **to_json(event)}, allow_nan=False) + "\n"


def read_events(path: Path) -> Iterator[Event]:
    """The events of a file, in order.

    Raises:
        Refusal: the file cannot be read, or a line is not an event; the message has the line's number.
    """
    with opened(path, hint=EVENTS_HINT) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
            yield read_event(line, f"{path}:{number}")


def read_event(line: bytes, place: str) -> Event:
    """The event of a line. Raises: Refusal where it is none; `place` names the line."""
    data = parse_json(line, place)
    if not isinstance(data, dict) or data.get("event") not in _BY_NAME:
        raise Refusal(f"{place}: not an event", hint="known events are " + ", ".join(_BY_NAME))
    name = data.pop("event")
    try:
        event: Event = from_json(_BY_NAME[name], data)
    except Refusal as refusal:
        raise Refusal(f"{place}: {name}: {refusal.message}", hint=refusal.hint) from None
    return event
