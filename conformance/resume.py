"""Going on with a run that was interrupted: what its event file still says, and what is left to be done.

The file of a run that was killed is whole but for its last line, which may be torn. A case counts as decided where it
came to a verdict on every target; everything else, also what was left out or had an error, is run again. The new run
tells all that was decided before as its own, so that counts and verdict are those of one run.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.environment import Environment
from tileproof.conformance.events import (
    EVENTS_HINT,
    MAX_LINE_BYTES,
    CaseExplained,
    CaseFinished,
    CaseStarted,
    CrashFileFailed,
    Event,
    FindingFound,
    RunFinished,
    RunStarted,
    TargetsCompared,
    event_line,
    hold,
    read_event,
)
from tileproof.conformance.records import shorten
from tileproof.kernels.given_file import opened
from tileproof.oracle.refusal import Refusal

OfCase = CaseStarted | FindingFound | CaseExplained | CaseFinished | TargetsCompared | CrashFileFailed
STANDS_ON = ("tileproof", "git", "nvrtc", "numpy", "ml_dtypes", "driver", "gpu")
"""Of the environment, what a verdict may depend on."""


@dataclass(frozen=True)
class Before:
    """What an event file says of a run that did not end.

    Args:
        path: of the file.
        start: of the run.
        events: of the cases that were decided, in order.
        cases: ids of these.
    """

    path: Path
    start: RunStarted
    events: tuple[Event, ...] = ()
    cases: frozenset[str] = frozenset()

    def must_be(self, start: RunStarted, cases: Iterable[str]) -> None:
        """Refuse to go on with another run than the one that begins so and has these cases.

        Raises:
            Refusal: naming what differs, then and now.
        """
        hint = "give the selection and options of that run, or start anew with --events"
        differing = list(_differences(self.start, start))
        for what, then, now in differing:
            one = _of_git(then, now) if [what for what, *_ in differing] == ["git"] else hint
            raise Refusal(f"{self.path}: its run has {what} {shorten(then)}, this one {shorten(now)}", hint=one)
        if not self.start.selection:
            raise Refusal(f"{self.path}: does not say which cases its run selected", hint="start anew with --events")
        if self.start.selection != start.selection:
            message = f"{self.path}: its run selected {self.start.cases} other cases than the {start.cases} of this one"
            raise Refusal(message, hint=hint)
        strange = sorted(self.cases.difference(cases))
        if strange:
            message = f"{self.path}: tells of {shorten(strange[0])}, which its run did not select"
            raise Refusal(message, hint="start anew with --events")


def read_before(path: Path) -> Before:
    """What is decided in an event file.

    Raises:
        Refusal: it cannot be read, does not begin as a run does, has a line within it that is no event, or holds more
            than one run.
    """
    events = list(_events(path))
    if not events or not isinstance(events[0], RunStarted):
        raise Refusal(f"{path}: does not begin with a run's start", hint="--resume takes a file that --events wrote")
    _must_be_one_run(path, events)
    start, rest = events[0], events[1:]
    whole = isinstance(rest[-1], RunFinished) if rest else False
    by_case: dict[str, list[OfCase]] = {}
    for event in rest:
        if isinstance(event, OfCase):
            by_case.setdefault(event.case, []).append(event)
    last = next(reversed(by_case), "")
    asked = {place.target for place in start.targets}
    decided = {
        case: told
        for case, told in by_case.items()
        if {event.target for event in told if isinstance(event, CaseFinished)} == asked
        and (whole or len(asked) == 1 or case != last)  # targets of the last case may not have been compared
    }
    return Before(path, start, tuple(event for told in decided.values() for event in told), frozenset(decided))


def _must_be_one_run(path: Path, events: Iterable[Event]) -> None:
    """Raises: Refusal where a second run begins, or a case comes to a second verdict on a target."""
    ended: set[object] = set()
    for event in events:
        match event:
            case RunStarted():
                key: object = RunStarted
                again = "a second run begins in it"
            case CaseFinished(case, target):
                key, again = (case, target), f"{shorten(case)} ends twice on {target}"
            case _:
                continue
        if key in ended:
            raise Refusal(f"{path}: {again}", hint="start anew with --events")
        ended.add(key)


def rewrite(path: Path, events: Iterable[Event]) -> None:
    """Put these events in the place of a file's, so that it has the old or the new ones whatever happens.

    Raises:
        Refusal: the folder cannot be written, or the file's run still goes on.
    """
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with path.open("rb") as old:
            hold(old, path)
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.writelines(map(event_line, events))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise Refusal(f"{path}: cannot be written: {error.strerror}", hint="give --events FILE") from None


def _events(path: Path) -> Iterator[Event]:
    """The events of a file; a last line without its end, which a kill has torn, is none."""
    with opened(path, hint=EVENTS_HINT) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
            if not line.endswith(b"\n") and not file.read(1):
                return
            yield read_event(line, f"{path}:{number}")


def _of_git(then: object, now: object) -> str:
    """The hint where the checkout alone has changed meanwhile."""
    commits = [str(state).partition(" ")[0] for state in (then, now)]
    what = "files without a commit" if commits[0] == commits[1] else "the commit"
    back = f"git checkout {commits[0]}" if what == "the commit" else "git stash"
    return f"only {what} changed, and a verdict may depend on it: go back ({back}), or start anew with --events"


def _differences(then: RunStarted, now: RunStarted) -> Iterator[tuple[str, object, object]]:
    pairs: list[tuple[str, object, object]] = [
        ("the targets", " and ".join(map(str, then.targets)), " and ".join(map(str, now.targets))),
        ("the fault", then.fault or "none", now.fault or "none"),
        ("the page", then.page or "none", now.page or "none"),
        *((name, _of(then.environment, name), _of(now.environment, name)) for name in STANDS_ON),
        ("the tier", then.tier, now.tier),
    ]
    yield from (pair for pair in pairs if pair[1] != pair[2])


def _of(environment: Environment, name: str) -> str:
    return str(getattr(environment, name))
