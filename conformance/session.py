"""A run: cases times targets become a stream of events. Knows no console and no file but the crash files.

For each case the inputs are made once and hashed; then each target runs it, its crash file written first; then the
outputs of all targets are held against each other. A difference between targets is a finding even where the contract
would allow both outputs: one kernel from one source gave two answers. Only elements that have several right values by
definition, such as those behind an approximate function, may differ.
"""

import hashlib
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tileproof.conformance.case import Case
from tileproof.conformance.compare import compare_bits, raw_bits
from tileproof.conformance.contract import Arrays
from tileproof.conformance.crash import FORMAT, CrashFolder, CrashRecord, Status, hash_inputs
from tileproof.conformance.environment import capture
from tileproof.conformance.events import (
    CaseErrored,
    CaseExplained,
    CaseFinished,
    CaseNotRun,
    CaseStarted,
    CrashFileFailed,
    Event,
    FindingFound,
    RunStarted,
    TargetsCompared,
    TargetUnavailable,
)
from tileproof.conformance.faults import fault as find_fault
from tileproof.conformance.finding import Finding, Why
from tileproof.conformance.registry import contract_of
from tileproof.conformance.run_case import CaseResult, case_inputs
from tileproof.conformance.sanitizer import SLOWER, Sanitizer, Tool
from tileproof.conformance.tally import Tally
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.waivers.applying import Applying
from tileproof.conformance.waivers.waiver import Waiver
from tileproof.conformance.worker import CASE_DEADLINE_S, DeviceLost, InProcess, InternalError, Job, Runner, Worker
from tileproof.oracle.refusal import Refusal

if TYPE_CHECKING:
    from tileproof.conformance.triage.first import Reasons

FIRST_FAILURE = "stopped at the first failure"


@dataclass(frozen=True)
class GivenInputs:
    """A user's own tensors for one case, and where they came from."""

    arrays: Arrays
    origin: str


@dataclass(frozen=True)
class Plan:
    """What to run.

    Args:
        cases: in order.
        coordinates: where, one for each target.
        tier: name of the tier, or "selected".
        fault: the deliberate defect to put in, if one is.
        given: inputs that no generator makes, by case.
        first_failure: stop after the first case with a finding.
        require_device: a target that cannot run is an error even beside one that can.
        budget_s: seconds after which no further case begins; None for no limit.
        page: the file of a user's page that the cases come from, if they do.
        waivers: findings that are tolerated.
        probes: of the cases, those that run for the waivers alone.
        before: events of cases that an interrupted run has decided; they are told again, and the cases do not run.
    """

    cases: tuple[Case, ...]
    coordinates: tuple[Coordinates, ...]
    tier: str = "selected"
    fault: str | None = None
    given: Mapping[Case, GivenInputs] = field(default_factory=dict)
    first_failure: bool = False
    require_device: bool = False
    budget_s: float | None = None
    page: str = ""
    waivers: tuple[Waiver, ...] = ()
    probes: tuple[Case, ...] = ()
    before: tuple[Event, ...] = ()

    @property
    def left(self) -> tuple[Case, ...]:
        """The cases that are to be run."""
        decided = {event.case for event in self.before if isinstance(event, CaseFinished)}
        return tuple(case for case in self.cases if str(case) not in decided)

    def applying(self) -> Applying:
        """Its waivers as of today, before any event."""
        asked = frozenset(str(case) for case in self.cases if case not in self.probes)
        return Applying(self.waivers, asked, [place.target for place in self.coordinates], date.today())

    @property
    def start(self) -> RunStarted:
        """The first event of the run."""
        ids = (f"{case} {self.given[case].origin}" if case in self.given else str(case) for case in self.cases)
        selection = hashlib.sha256("\n".join(sorted(ids)).encode(errors="backslashreplace")).hexdigest()[:16]
        return RunStarted(self.tier, len(self.cases), self.coordinates, self.fault, capture(), self.page, selection)


def runner_for(
    target: Target, *, deadline_s: float | None, pages: Sequence[Path] = (), tool: Tool | None = None
) -> Runner:
    """The runner that suits a target: the simulator in this process, others in a worker, which loads `pages` itself.

    Raises:
        Refusal: a GPU's worker is to start under a tool of compute-sanitizer, which is missing.
    """
    if target is Target.SIM:
        return InProcess(deadline_s=deadline_s)
    sanitizer = Sanitizer(tool) if tool is not None and target is Target.GPU else None
    usual = CASE_DEADLINE_S * (SLOWER if sanitizer else 1)
    return Worker(deadline_s=usual if deadline_s is None else deadline_s, pages=pages, sanitizer=sanitizer)


class Run(ABC):
    """A run of a plan as a stream of events, in one process or several: its end, its verdict, what was left out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tally = Tally(
            [place.target for place in plan.coordinates],
            require_device=plan.require_device,
            fault=None if plan.fault is None else find_fault(plan.fault),
        )
        self._waivers = plan.applying()
        self._ended: set[tuple[str, Target]] = set()
        self._started = time.monotonic()

    def events(self) -> Iterator[Event]:
        """Run everything; the last event is RunFinished."""
        plan = self.plan
        yield from self._counted(chain([plan.start], plan.before, self.all_cases()))
        yield from self._closing(f"the budget of {plan.budget_s:g} s was spent" if self.spent else FIRST_FAILURE)

    def interrupted(self) -> Iterator[Event]:
        """After KeyboardInterrupt in `events`: what was left out, and the end."""
        yield from self._closing("interrupted", interrupted=True)

    @property
    def spent(self) -> bool:
        """Whether the time for this run is over."""
        budget = self.plan.budget_s
        return budget is not None and self.seconds >= budget

    @property
    def seconds(self) -> float:
        """Since the run was made."""
        return time.monotonic() - self._started

    @property
    def goes_on(self) -> bool:
        """Whether a further case may begin."""
        return not self.spent and not (self.plan.first_failure and self.tally.found)

    @abstractmethod
    def all_cases(self) -> Iterator[Event]:
        """What happens to the cases, while `goes_on`."""

    @abstractmethod
    def close(self) -> None:
        """Let all devices and processes go."""

    def _counted(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in map(self._waivers.seen, events):
            self.tally.receive(event)
            if isinstance(event, CaseFinished | CaseErrored | CaseNotRun):
                self._ended.add((event.case, event.target))
            yield event

    def _closing(self, reason: str, *, interrupted: bool = False) -> Iterator[Event]:
        yield from self._counted(self._leave_out(reason))
        yield from self._counted(self._waivers.failures())
        yield self.tally.finish(interrupted=interrupted)

    def _leave_out(self, reason: str) -> Iterator[Event]:
        for case in self.plan.cases:
            for place in self.plan.coordinates:
                if (str(case), place.target) not in self._ended:
                    yield CaseNotRun(str(case), place.target, reason)


class Session(Run):
    """One run of a plan in this process.

    Args:
        plan: what to run.
        crashes: where crash files go.
        runners: one for each target of the plan; closed by `close`.
    """

    def __init__(self, plan: Plan, crashes: CrashFolder, runners: Mapping[Target, Runner]) -> None:
        super().__init__(plan)
        self._plan = plan
        self._crashes = crashes
        self._runners = runners
        self._unavailable: dict[Target, str] = {}
        self._reasons: Reasons | None = None

    def all_cases(self) -> Iterator[Event]:
        """One case after another."""
        yield from self.open()
        for case in self._plan.left:
            if not self.goes_on:
                return
            yield from self.run_case(case)

    def open(self) -> Iterator[Event]:
        """Open all devices; a target without one is said."""
        for place in self._plan.coordinates:
            try:
                self._runners[place.target].open(place)
            except Refusal as refusal:
                yield self._give_up(place.target, _describe(refusal))

    def close(self) -> None:
        """Let all devices go."""
        for runner in self._runners.values():
            runner.close()

    def _give_up(self, target: Target, reason: str) -> TargetUnavailable:
        self._unavailable[target] = reason
        return TargetUnavailable(target, reason)

    def run_case(self, case: Case) -> Iterator[Event]:
        """One case on every target."""
        given = self._plan.given.get(case)
        usable = [place for place in self._plan.coordinates if place.target not in self._unavailable]
        try:
            inputs = (given.arrays if given else case_inputs(case)) if usable else {}
        except Exception as error:  # a broken generator takes its case with it, not the run
            for place in usable:
                yield _error(case, place.target, "", error)
            return
        attempt = _Attempt(case, inputs, given.origin if given else "", self._plan.fault, self._plan.page)
        results: dict[Coordinates, CaseResult] = {}
        for place in self._plan.coordinates:
            yield from self._run_on(place, attempt, results)
        if len(results) > 1:
            yield from self._compare(attempt, results)

    def _run_on(
        self, place: Coordinates, attempt: "_Attempt", results: dict[Coordinates, CaseResult]
    ) -> Iterator[Event]:
        case, target = attempt.case, place.target
        if target in self._unavailable:
            yield CaseNotRun(str(case), target, self._unavailable[target])
            return
        if (obstacle := contract_of(case).obstacle(case, place.arch)) is not None:
            yield CaseNotRun(str(case), target, obstacle)
            return
        record = attempt.record(place)
        keep = attempt.inputs if attempt.origin else None  # nothing else could make them again
        yield from self._keep(record, keep)
        yield CaseStarted(str(case), target, record.short_id, attempt.origin)
        try:
            result = self._runners[target].run(Job(case, place, attempt.inputs, attempt.fault))
        except DeviceLost as lost:
            yield from self._discard(record)
            yield self._give_up(target, str(lost))
            yield CaseNotRun(str(case), target, str(lost))
        except Exception as error:  # no verdict for this case; the others still get theirs
            yield _error(case, target, record.short_id, error)
            yield from self._keep(replace(record, status=Status.ERROR, error=_describe(error)), attempt.inputs)
        else:
            results[place] = result
            yield from self._judge(record, attempt, result, target)

    def _judge(self, record: CrashRecord, attempt: "_Attempt", result: CaseResult, target: Target) -> Iterator[Event]:
        why = partial(self._why, record, attempt, result)
        yield from self._settle(record, attempt, (target,), result.findings, why)
        yield CaseFinished(
            case=record.case,
            target=target,
            passed=not result.findings,
            route=result.route,
            seconds=result.seconds,
            output_digest=result.output_digest,
            notes=result.notes,
            kernels=result.kernels,
        )

    def _compare(self, attempt: "_Attempt", results: Mapping[Coordinates, CaseResult]) -> Iterator[Event]:
        if not all(result.outputs for result in results.values()):
            return  # a target that crashed or refused has its own finding
        findings = tuple(differences(attempt.case, results))
        record = attempt.record(*results)
        targets = tuple(place.target for place in results)
        why = partial(self._why_differing, attempt, results, findings)
        yield from self._settle(record, attempt, targets, findings, why)
        yield TargetsCompared(record.case, targets, not findings)

    def _settle(
        self,
        record: CrashRecord,
        attempt: "_Attempt",
        targets: tuple[Target, ...],
        findings: tuple[Finding, ...],
        explain: Callable[[], Why | None],
    ) -> Iterator[Event]:
        """The findings, then why, then the crash file: what was found must not depend on a disk."""
        for finding in findings:
            yield FindingFound(record.case, targets, record.short_id, finding, attempt.origin)
        if not findings:
            yield from self._discard(record)
            return
        why = None
        try:
            if (why := explain()) is not None:
                yield CaseExplained(record.case, targets[0], why, *targets[1:2])
        finally:  # Ctrl-C in the middle of an explanation takes no finding with it
            failed = replace(record, status=Status.FAILED, findings=findings, why=why)
            yield from self._keep(failed, attempt.inputs)

    def _why(self, record: CrashRecord, attempt: "_Attempt", result: CaseResult) -> Why | None:
        return self._reasons_for(attempt).of(result, attempt.inputs, record.coordinates[0].arch)

    def _why_differing(
        self, attempt: "_Attempt", results: Mapping[Coordinates, CaseResult], findings: tuple[Finding, ...]
    ) -> Why | None:
        return self._reasons_for(attempt).of_difference(results, findings, attempt.inputs) if findings else None

    def _reasons_for(self, attempt: "_Attempt") -> "Reasons":
        from tileproof.conformance.triage.first import Reasons  # here: it loads slowly, and most runs need none

        if self._reasons is None:
            self._reasons = Reasons(find_fault(attempt.fault) if attempt.fault else None)
        return self._reasons

    def _keep(self, record: CrashRecord, inputs: Arrays | None) -> Iterator[Event]:
        try:
            self._crashes.write(record, inputs)
        except Refusal as refusal:
            yield CrashFileFailed(record.case, record.short_id, refusal.message)

    def _discard(self, record: CrashRecord) -> Iterator[Event]:
        try:
            self._crashes.discard(record)
        except Refusal as refusal:
            yield CrashFileFailed(record.case, record.short_id, refusal.message)


@dataclass(frozen=True)
class _Attempt:
    """One case with its inputs at hand, about to run on each target."""

    case: Case
    inputs: Arrays
    origin: str
    fault: str | None
    page: str

    def record(self, *coordinates: Coordinates) -> CrashRecord:
        """The crash record to write before the launch."""
        return CrashRecord(
            format=FORMAT,
            case=str(self.case),
            generator_version=contract_of(self.case).generator_version,
            inputs_sha256=hash_inputs(self.inputs),
            coordinates=coordinates,
            fault=self.fault,
            origin=self.origin,
            environment=capture(),
            page=self.page,
        )


def differences(case: Case, results: Mapping[Coordinates, CaseResult]) -> Iterator[Finding]:
    """Findings where the outputs of the second and further results differ from those of the first."""
    (first, reference), *others = results.items()
    contract = contract_of(case)
    divisions = contract.divisions(case)
    specs = [spec for spec in contract.tensors(case.shape) if spec.role.is_written]
    for place, result in others:
        for spec in specs:
            ours, theirs = (raw_bits(one.outputs[spec.name]) for one in (reference, result))
            skip = reference.undecided.get(spec.name)
            found = compare_bits(spec, ours, theirs, skip=skip, division=divisions.get(spec.name))
            if found is not None:
                pair = f"{first.target} and {place.target}"
                yield replace(
                    found,
                    message=f"{pair} differ (expected is what {first.target} gave): {found.message}",
                    signature=f"{pair} differ/{found.signature}",
                )


def _error(case: Case, target: Target, crash: str, error: Exception) -> CaseErrored:
    if isinstance(error, Refusal | MemoryError):
        return CaseErrored(str(case), target, crash, _describe(error))
    trace = error.trace if isinstance(error, InternalError) else "".join(traceback.format_exception(error))
    return CaseErrored(str(case), target, crash, _describe(error), trace)


def _describe(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"more memory than this machine gives: {error} (hint: choose a smaller shape)"
    if isinstance(error, Refusal):
        return f"{error.message} (hint: {error.hint})" if error.hint else error.message
    return str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"


def runners_for(
    coordinates: Sequence[Coordinates],
    *,
    deadline_s: float | None,
    pages: Sequence[Path] = (),
    tool: Tool | None = None,
) -> dict[Target, Runner]:
    """A runner for each target."""
    return {
        place.target: runner_for(place.target, deadline_s=deadline_s, pages=pages, tool=tool) for place in coordinates
    }
