"""The console: a reader of events. Data goes to stdout, progress to stderr.

Progress moves only on a terminal, which the stream itself says (`isatty`), not an environment variable about colour;
elsewhere it is a plain line now and then. Colour follows NO_COLOR and FORCE_COLOR and carries no meaning of its own.
"""

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from rich.console import Console as RichConsole
from rich.text import Text

from tileproof.conformance.crash import DEFAULT_FOLDER
from tileproof.conformance.events import (
    CaseErrored,
    CaseExplained,
    CaseFinished,
    CaseNotRun,
    CaseStarted,
    CrashFileFailed,
    Event,
    FindingFound,
    PassStarted,
    RouteCount,
    RunFinished,
    RunStarted,
    TargetCount,
    TargetUnavailable,
    WaiverFailed,
)
from tileproof.conformance.failure import INDENT, describe_failure, replay_command
from tileproof.conformance.fault import Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.gathering import Failure, gather
from tileproof.conformance.progress import Listener, meter
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.visible import visible, visible_lines
from tileproof.conformance.waivers.telling import waiver_lines

MAX_FAILURES = 20
MAX_NOTES = 5

_STYLES = {"FAIL": "bold red", "ERROR": "bold red", "WAIVER": "bold red", "Reproduce": "bold", "passed": "green"}


def open_console(stream: TextIO) -> RichConsole:
    """A rich console on one stream that never wraps, guesses or moves the cursor off a terminal."""
    terminal = stream.isatty()
    colour = "NO_COLOR" not in os.environ and (terminal or "FORCE_COLOR" in os.environ)
    return RichConsole(
        file=stream,
        force_terminal=terminal,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


class Console:
    """Shows a run.

    Args:
        fault: the deliberate defect that is in, if one is; the run then shows whether it was caught.
        crashes: folder of the run's crash files, which the replay commands name where it is not the usual one.
        page: the file of a user's page, which they name too.
        out: for data: failures and the summary.
        err: for progress.
    """

    def __init__(
        self,
        fault: Fault | None = None,
        *,
        crashes: Path = DEFAULT_FOLDER,
        page: str = "",
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self._fault = fault
        self._crashes = crashes
        self._page = page
        self._out = open_console(out or sys.stdout)
        err = err or sys.stderr
        self._err = open_console(err)
        self._progress = meter(err, open_console(err))
        self._listener = Listener(self._progress)
        self._findings: list[FindingFound] = []
        self._waived: list[FindingFound] = []
        self._broken_waivers: list[WaiverFailed] = []
        self._explained: list[CaseExplained] = []
        self._errors: list[CaseErrored] = []
        self._places: tuple[Coordinates, ...] = ()
        self._reasons: list[TargetUnavailable] = []
        self._not_run: Counter[tuple[Target, str]] = Counter()
        self._lost: dict[str, CrashFileFailed] = {}
        self._notes: Counter[tuple[Target, str]] = Counter()
        self._passes = 1

    def receive(self, event: Event) -> None:
        """Show one event, or keep it for the end."""
        match event:
            case RunStarted():
                self._places = event.targets
                self._print(_header(event, self._fault))
                self._progress.start(event.cases * len(event.targets))
                self._listener.open()
            case PassStarted():
                self._passes = event.number + 1
                self._progress.more(event.number, event.cases * len(event.targets))
            case TargetUnavailable():
                self._reasons.append(event)
            case CrashFileFailed():
                self._lost[event.crash] = event
            case CaseStarted():
                self._progress.case(event.case)
            case FindingFound():
                (self._waived if event.waiver else self._findings).append(event)
            case WaiverFailed():
                self._broken_waivers.append(event)
            case CaseExplained():
                self._explained.append(event)
            case CaseFinished():
                self._notes.update((event.target, note) for note in event.notes)
                self._progress.step(failed=not event.passed and not event.waived)
            case CaseErrored():
                self._errors.append(event)
                self._progress.step(failed=True)
            case CaseNotRun():
                self._not_run[event.target, event.reason] += 1
                self._progress.skip()
            case RunFinished():
                self._listener.close()
                self._progress.stop()
                self._finish(event)
            case _:
                pass

    def _finish(self, event: RunFinished) -> None:
        kept = (found if found.crash not in self._lost else replace(found, crash="") for found in self._findings)
        failures = gather(kept, self._explained)
        for failure in failures[:MAX_FAILURES]:
            self._print(["", *describe_failure(failure, self._places, self._crashes, self._page)])
        self._print(_cut(failures))
        self._print(_error_lines(self._errors, self._lost.keys(), self._crashes, self._page))
        self._print(waiver_lines(self._waived, self._broken_waivers))
        self._print(["", *_summary(event, self._places, self._why_not(event))])
        self._print([f"{self._passes} passes begun, each with other seeds"] if self._passes > 1 else [])
        self._print(_note_lines(self._notes))
        if self._fault is not None:
            self._print(_caught(self._fault, {found.finding.kind for found in self._findings}))
        for line in _warnings(tuple(self._lost.values())):
            self._err.print(visible(line))

    def _why_not(self, event: RunFinished) -> list[str]:
        """Why targets, or single cases, did not run."""
        whole = [(reason.target, reason.reason) for reason in self._reasons]
        lines = [f"{target}: {reason}" for target, reason in whole]
        if not event.interrupted:
            alone = ((key, cases) for key, cases in self._not_run.items() if key not in whole)
            lines += [f"{target}: not run {cases}: {reason}" for (target, reason), cases in alone]
        return lines

    def _print(self, lines: Iterable[str]) -> None:
        for line in (shown for told in lines for shown in _shown(told)):
            self._out.print(Text(line, style=_style(line)))


def _shown(line: str) -> list[str]:
    """A line; of a message of several, such as a compiler's, the others are set in, so that none looks like ours."""
    first, *more = visible_lines(line)
    return [first, *(f"{INDENT}{one}" for one in more)]


def _header(event: RunStarted, fault: Fault | None) -> list[str]:
    cases = "1 case" if event.cases == 1 else f"{event.cases} cases"
    lines = [f"tileproof {event.environment.tileproof}: {cases} ({event.tier}) on {_places(event.targets)}"]
    if fault is not None:
        lines += [f"fault {fault.name}: {fault.what}", f"      precedent: {fault.precedent}"]
    return lines


def _caught(fault: Fault, found: set[FindingKind]) -> list[str]:
    expected = ", ".join(sorted(fault.expected))
    if not found:
        return [f"fault {fault.name} was NOT caught by these cases; expected {expected}"]
    verdict = "caught" if fault.caught(found) else "found, but not as expected"
    possible = f", possible {', '.join(sorted(fault.possible))}" if fault.possible else ""
    return [f"fault {fault.name} {verdict}: found {', '.join(sorted(found))}; expected {expected}{possible}"]


def _places(places: Iterable[Coordinates]) -> str:
    return " and ".join(map(str, places))


def _cut(failures: tuple[Failure, ...]) -> list[str]:
    left = len(failures) - MAX_FAILURES
    return ["", f"{left} more failures are not shown; --events FILE holds all findings"] if left > 0 else []


def _warnings(lost: Sequence[CrashFileFailed]) -> list[str]:
    more = f" (and {len(lost) - 1} more like it)" if len(lost) > 1 else ""
    return [f"warning: {lost[0].reason}{more}"] if lost else []


def _error_lines(errors: list[CaseErrored], lost: Collection[str], crashes: Path, page: str) -> list[str]:
    by_message: dict[str, list[CaseErrored]] = {}
    for error in errors:
        by_message.setdefault(error.message, []).append(error)
    lines = []
    for message, members in list(by_message.items())[:MAX_FAILURES]:
        lines += ["", f"ERROR {message}", f"      case   {members[0].case} on {members[0].target}"]
        if len(members) > 1:
            lines.append(f"      {len(members)} cases end so; this is the first")
        if members[0].crash and members[0].crash not in lost:
            lines.append(f"      Reproduce with:  {replay_command(members[0].crash, crashes, page)}")
    return lines


def _summary(event: RunFinished, places: tuple[Coordinates, ...], why_not: list[str]) -> list[str]:
    lines = [_count_line(count) for count in event.counts]
    lines += why_not
    lines += [line for place in places for line in _route_lines(event.routes, place.target)]
    if event.compared:
        lines.append(f"outputs of the targets: {event.compared} compared, {event.differing} differ")
    lines.append(f"{event.seconds:.1f} s on {_places(places)}" + ("; interrupted" if event.interrupted else ""))
    return lines


def _note_lines(notes: Counter[tuple[Target, str]]) -> list[str]:
    """What the device says without failing a case: races of equal values, how much an approximation leaves open."""
    lines = [
        f"{target}: note in {cases} {'case' if cases == 1 else 'cases'}: {text}"
        for (target, text), cases in notes.most_common(MAX_NOTES)
    ]
    left = len(notes) - MAX_NOTES
    return [*lines, f"{left} more notes are not shown; --events FILE holds all"] if left > 0 else lines


def _count_line(count: TargetCount) -> str:
    errors = f", {count.errors} without a verdict" if count.errors else ""
    waived = f"{count.waived} waived, " if count.waived else ""
    return f"{count.target}: {count.passed} passed, {count.failed} failed, {waived}{count.not_run} not run{errors}"


def _route_lines(routes: tuple[RouteCount, ...], target: Target) -> list[str]:
    taken: dict[str, list[str]] = {}
    for route in routes:
        if route.target is target:
            taken.setdefault(route.kernel, []).append(f"{route.route} {route.cases}")
    return [f"{target}: routes of {kernel}: {', '.join(counts)}" for kernel, counts in taken.items()]


def _style(line: str) -> str:
    first = line.split(" ", 1)[0] if line[:1].strip() else line.strip().split(" ", 1)[0]
    return _STYLES.get(first, "")
