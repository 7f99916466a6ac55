"""Counts the events of a run and decides its exit code."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.conformance.case import parse_case
from tileproof.conformance.events import (
    CaseErrored,
    CaseFinished,
    CaseNotRun,
    Event,
    FindingFound,
    RouteCount,
    RunFinished,
    TargetCount,
    TargetsCompared,
    TargetUnavailable,
    WaiverFailed,
)
from tileproof.conformance.fault import Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.target import Target

AGREE = 0
FINDING = 1
ERROR = 2


@dataclass(frozen=True)
class _Ending:
    target: Target
    how: str


class Tally:
    """What a run has come to so far.

    Args:
        targets: those that were asked for.
        require_device: a target that ran nothing is an error even beside one that did.
        fault: the deliberate defect that is in, if one is: a run that does not catch it is an error.
    """

    def __init__(self, targets: Sequence[Target], *, require_device: bool = False, fault: Fault | None = None) -> None:
        self._targets = tuple(targets)
        self._require_device = require_device
        self._fault = fault
        self._start = time.perf_counter()
        self._endings: Counter[_Ending] = Counter()
        self._routes: Counter[tuple[Target, str, str]] = Counter()
        self._comparisons: Counter[bool] = Counter()
        self._unavailable: set[Target] = set()
        self._waivers_failed = False
        self.found: set[FindingKind] = set()

    def receive(self, event: Event) -> None:
        """Count one event."""
        match event:
            case CaseFinished():
                how = "passed" if event.passed else "waived" if event.waived else "failed"
                self._endings[_Ending(event.target, how)] += 1
                self._routes[event.target, parse_case(event.case).kernel, event.route] += bool(event.route)
            case CaseErrored():
                self._endings[_Ending(event.target, "errors")] += 1
            case CaseNotRun():
                self._endings[_Ending(event.target, "not_run")] += 1
            case FindingFound():
                if not event.waiver:
                    self.found.add(event.finding.kind)
            case WaiverFailed():
                self._waivers_failed = True
            case TargetUnavailable():
                self._unavailable.add(event.target)
            case TargetsCompared():
                self._comparisons[event.equal] += 1
            case _:
                pass

    def finish(self, *, interrupted: bool = False) -> RunFinished:
        """The closing event."""
        counts = tuple(map(self._count, self._targets))
        missing = tuple(
            c.target for c in counts if c.target in self._unavailable and not c.passed + c.failed + c.errors + c.waived
        )
        return RunFinished(
            counts=counts,
            routes=tuple(RouteCount(*key, cases) for key, cases in sorted(self._routes.items()) if cases),
            compared=self._comparisons.total(),
            differing=self._comparisons[False],
            missing=missing,
            interrupted=interrupted,
            seconds=time.perf_counter() - self._start,
            exit_code=self._exit_code(counts, missing, interrupted),
        )

    def _count(self, target: Target) -> TargetCount:
        def ended(how: str) -> int:
            return self._endings[_Ending(target, how)]

        return TargetCount(target, ended("passed"), ended("failed"), ended("errors"), ended("not_run"), ended("waived"))

    def _exit_code(self, counts: tuple[TargetCount, ...], missing: tuple[Target, ...], interrupted: bool) -> int:
        nothing_ran = not any(count.passed + count.failed + count.errors + count.waived for count in counts)
        if interrupted or nothing_ran or (missing and (self._require_device or len(missing) == len(counts))):
            return ERROR
        if self._fault is not None:
            return FINDING if self._fault.caught(self.found) else ERROR
        if self.found or self._waivers_failed:
            return FINDING
        return ERROR if any(count.errors for count in counts) else AGREE
