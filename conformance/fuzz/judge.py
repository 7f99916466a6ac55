"""One trial to its verdict: by the session that `check` uses, with its crash file written before the launch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays
from tileproof.conformance.crash import CrashFolder, CrashRecord
from tileproof.conformance.events import CaseErrored, CaseFinished, CaseNotRun, Event, FindingFound, TargetUnavailable
from tileproof.conformance.finding import Finding, Why
from tileproof.conformance.fuzz.trial import Trial
from tileproof.conformance.run_case import CaseResult
from tileproof.conformance.session import GivenInputs, Plan, Session
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Runner


@dataclass(frozen=True)
class Judged:
    """A trial and what became of it.

    Args:
        trial: what ran.
        events: of its case, in order.
    """

    trial: Trial
    events: tuple[Event, ...]

    @property
    def signatures(self) -> tuple[str, ...]:
        """Of its findings, and of an error in place of a verdict; each once, in order."""
        found = [event.finding.signature for event in self.events if isinstance(event, FindingFound)]
        errors = [f"error/{event.message[:80]}" for event in self.events if isinstance(event, CaseErrored)]
        return tuple(dict.fromkeys((*found, *errors)))

    @property
    def ran(self) -> bool:
        """Whether it came to a verdict anywhere."""
        return any(isinstance(event, CaseFinished) for event in self.events)

    @property
    def routes(self) -> tuple[str, ...]:
        """That launchers recorded."""
        return tuple(dict.fromkeys(event.route for event in self.events if isinstance(event, CaseFinished)))

    @property
    def not_run(self) -> tuple[str, ...]:
        """Why it did not run."""
        return tuple(event.reason for event in self.events if isinstance(event, CaseNotRun))


@dataclass
class Judge:
    """Runs trials, one after another.

    Args:
        targets: where each runs.
        runners: one for each target; whoever made them closes them.
        folder: of crash files.
        fault: the deliberate defect to put in, if one is.
        page: the file of a user's page, if the cases come from one.
        explains: whether a failure is explained, which takes longer than finding it.
    """

    targets: Sequence[Target]
    runners: Mapping[Target, Runner]
    folder: Path
    fault: str | None = None
    page: str = ""
    explains: bool = False
    _given: dict[Case, GivenInputs] = field(default_factory=dict)

    def open(self, places: Iterable[Coordinates]) -> list[TargetUnavailable]:
        """Open all devices; what cannot be used."""
        session = self._session(tuple(places))
        return [event for event in session.open() if isinstance(event, TargetUnavailable)]

    def run(self, trial: Trial, inputs: Arrays | None = None, origin: str = "") -> Judged:
        """The verdict on a trial, or on other inputs for its case."""
        case = trial.case
        given = inputs if inputs is not None else trial.inputs() if trial.edits else None
        self._given.clear()
        if given is not None:
            self._given[case] = GivenInputs(given, origin or trial.origin)
        session = self._session(tuple(replace(trial.place, target=target) for target in self.targets))
        return Judged(trial, tuple(session.run_case(case)))

    def _session(self, places: tuple[Coordinates, ...]) -> Session:
        plan = Plan((), places, fault=self.fault, given=self._given, page=self.page)
        kind = Session if self.explains else _Plain
        return kind(plan, CrashFolder(self.folder), self.runners)


class _Plain(Session):
    """A session that does not ask why."""

    def _why(self, record: CrashRecord, attempt: object, result: CaseResult) -> Why | None:
        return None

    def _why_differing(self, attempt: object, results: object, findings: tuple[Finding, ...]) -> Why | None:
        return None
