"""A run as its event file tells it: how each case ended, and what failed, gathered by cause."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from tileproof.conformance.events import (
    CaseErrored,
    CaseExplained,
    CaseFinished,
    CaseNotRun,
    CrashFileFailed,
    Event,
    FindingFound,
    RunFinished,
    RunStarted,
    WaiverFailed,
    read_events,
)
from tileproof.conformance.gathering import Failure, gather
from tileproof.conformance.target import Target
from tileproof.oracle.refusal import Refusal


class Outcome(StrEnum):
    """How a case ended on a target."""

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    ERROR = "without a verdict"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class CaseRow:
    """One case on one target.

    Args:
        case: its id.
        target: where.
        outcome: how it ended.
        seconds: that it took; 0 where it did not run.
        route: that the kernel took; "" where it is not known.
        reason: why it did not run, has no verdict, or fails and is tolerated.
        digest: SHA-256 of the outputs; "" where there are none.
    """

    case: str
    target: Target
    outcome: Outcome
    seconds: float = 0.0
    route: str = ""
    reason: str = ""
    digest: str = ""


@dataclass(frozen=True)
class RunReport:
    """A run.

    Args:
        started: its first event.
        finished: its last; None where the run was cut short.
        rows: every case on every target, in the order in which they ended.
        findings: all, as they came; those that are waived say by what.
        reasons: why cases failed, of those that were explained.
        failures: the findings that are not waived, gathered by cause, causes first.
        waivers: those that hold no longer.
    """

    started: RunStarted
    finished: RunFinished | None
    rows: tuple[CaseRow, ...]
    findings: tuple[FindingFound, ...]
    reasons: tuple[CaseExplained, ...]
    failures: tuple[Failure, ...]
    waivers: tuple[WaiverFailed, ...] = ()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes to count: waived ones only where there are any."""
        return tuple(one for one in Outcome if one is not Outcome.WAIVED or self.count(one))

    @property
    def waived(self) -> tuple[FindingFound, ...]:
        """The findings that a waiver tolerates."""
        return tuple(found for found in self.findings if found.waiver)

    def count(self, outcome: Outcome) -> int:
        """How many cases ended so, each target counted."""
        return sum(row.outcome is outcome for row in self.rows)

    @property
    def size(self) -> str:
        """How many cases were to run, and which, in words."""
        cases = self.started.cases
        return f"{cases} {'case' if cases == 1 else 'cases'} ({self.started.tier})"

    @property
    def verdict(self) -> str:
        """In one line."""
        cut = "" if self.finished else "; the run was cut short"
        cut = "; interrupted" if self.finished and self.finished.interrupted else cut
        counted = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in Outcome if self.count(outcome))
        waivers = f"; {len(self.waivers)} waivers failed" if self.waivers else ""
        return (counted or "nothing ran") + waivers + cut


def read_run(path: Path) -> RunReport:
    """The run of an event file.

    Raises:
        Refusal: the file cannot be read, is no event file, or holds no run or more than one.
    """
    return run_report(read_events(path), str(path))


def read_start(path: Path) -> RunStarted:
    """The first event of an event file.

    Raises:
        Refusal: the file cannot be read, or begins otherwise.
    """
    first = next(iter(read_events(path)), None)
    if not isinstance(first, RunStarted):
        raise Refusal(f"{path}: no run begins in it", hint="give the file of one run: check --events FILE")
    return first


def run_report(events: Iterable[Event], name: str) -> RunReport:
    """The run of a stream of events.

    Args:
        events: of one run.
        name: of the stream, for messages.

    Raises:
        Refusal: there is no run, or there are several.
    """
    told = list(events)
    starts = [event for event in told if isinstance(event, RunStarted)]
    if len(starts) != 1 or not isinstance(told[0], RunStarted):
        raise Refusal(f"{name}: {len(starts)} runs begin in it", hint="give the file of one run: check --events FILE")
    findings = tuple(event for event in told if isinstance(event, FindingFound))
    reasons = tuple(event for event in told if isinstance(event, CaseExplained))
    return RunReport(
        started=starts[0],
        finished=next((event for event in told if isinstance(event, RunFinished)), None),
        rows=tuple(_rows(told)),
        findings=findings,
        reasons=reasons,
        failures=gather(_with_kept_crashes((one for one in findings if not one.waiver), told), reasons),
        waivers=tuple(event for event in told if isinstance(event, WaiverFailed)),
    )


def _rows(events: Iterable[Event]) -> Iterator[CaseRow]:
    waivers: dict[tuple[str, Target], str] = {}
    for event in events:
        match event:
            case FindingFound() if event.waiver:
                waivers.update(((event.case, target), event.waiver) for target in event.targets)
            case CaseFinished():
                yield _finished(event, waivers.get((event.case, event.target), ""))
            case CaseErrored():
                yield CaseRow(event.case, event.target, Outcome.ERROR, reason=event.message)
            case CaseNotRun():
                yield CaseRow(event.case, event.target, Outcome.NOT_RUN, reason=event.reason)
            case _:
                pass


def _finished(event: CaseFinished, waiver: str) -> CaseRow:
    outcome = Outcome.PASSED if event.passed else Outcome.WAIVED if event.waived else Outcome.FAILED
    return CaseRow(
        event.case,
        event.target,
        outcome,
        event.seconds,
        event.route,
        reason=waiver if event.waived else "",
        digest=event.output_digest,
    )


def _with_kept_crashes(findings: Iterable[FindingFound], events: Iterable[Event]) -> Iterator[FindingFound]:
    """Findings whose crash file could not be kept name none."""
    lost = {event.crash for event in events if isinstance(event, CrashFileFailed)}
    for found in findings:
        yield found if found.crash not in lost else replace(found, crash="")
