"""Runs held against each other: what fails anew, what is fixed, what changes from run to run.

Two runs are alike where environment, coordinates and deliberate fault are the same; between such runs nothing may
change, so a case that does is unstable. So is one that changes back: it failed, passed and failed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tileproof.conformance.case import Case, parse_case
from tileproof.conformance.reports.run_report import CaseRow, Outcome, RunReport
from tileproof.conformance.target import Target

Key = tuple[str, Target]


class Change(StrEnum):
    """What became of a case, from the earlier runs to the last one."""

    NEW = "fails anew"
    OTHER = "fails otherwise than before"
    UNSTABLE = "unstable"
    BYTES = "passes with other bytes"
    LOST = "has no verdict any more"
    FIXED = "fixed"
    SAME = "fails as before"
    ADDED = "fails, and no earlier run has it"
    REMOVED = "not in the last run"


REGRESSIONS = frozenset({Change.NEW, Change.OTHER, Change.UNSTABLE, Change.ADDED})
"""What makes the comparison itself a finding."""


@dataclass(frozen=True)
class State:
    """How a case ended in one run.

    Args:
        outcome: of the case.
        signatures: of its findings.
        digest: of its outputs.
    """

    outcome: Outcome
    signatures: frozenset[str]
    digest: str

    @property
    def is_decided(self) -> bool:
        """Whether there is a verdict."""
        return self.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.WAIVED)

    @property
    def verdict(self) -> tuple[Outcome, frozenset[str]]:
        """What has to stay the same between runs that are alike."""
        return self.outcome, self.signatures


@dataclass(frozen=True)
class Changed:
    """One case and what became of it.

    Args:
        case: its id.
        target: where.
        change: what.
        states: in each run; None where the run does not have it.
    """

    case: str
    target: Target
    change: Change
    states: tuple[State | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs, in order, and every case that did not pass alike in all of them."""

    runs: tuple[RunReport, ...]
    changed: tuple[Changed, ...]

    def of(self, change: Change) -> tuple[Changed, ...]:
        """The cases with one kind of change."""
        return tuple(one for one in self.changed if one.change is change)

    @property
    def is_regression(self) -> bool:
        """Whether anything is worse than before, or cannot be relied on."""
        return any(one.change in REGRESSIONS for one in self.changed)


def compare_runs(runs: Sequence[RunReport]) -> Comparison:
    """The comparison of two runs or more, the last of which is the one in question."""
    states = [_states(run) for run in runs]
    alike = [_is_alike(before, after) for before, after in pairwise(runs)]
    keys = dict.fromkeys(key for of_run in states for key in of_run)
    changed = []
    for case, target in keys:
        seen = tuple(of_run.get((case, target)) for of_run in states)
        if (change := _change(seen, alike)) is not None:
            changed.append(Changed(case, target, change, seen))
    return Comparison(tuple(runs), tuple(changed))


def common_form(cases: Iterable[str]) -> str:
    """What all cases have in common, in words; "" for a single one or where they share nothing."""
    forms = [_form(parse_case(case)) for case in cases]
    if len(forms) < 2:
        return ""
    shared = set.intersection(*(set(form.items()) for form in forms))
    return ", ".join(f"{name} {value}" for name, value in forms[0].items() if (name, value) in shared)


def _form(case: Case) -> dict[str, str]:
    parts = {"contract": case.contract, "kernel": case.kernel, "route": case.route}
    extents = {dimension.name: str(dimension.size) for dimension in case.shape.dimensions}
    return parts | extents | {"type": case.shape.dtype, "inputs": case.family}


def _states(run: RunReport) -> Mapping[Key, State]:
    signatures: dict[Key, set[str]] = {}
    for found in run.findings:
        for target in found.targets:
            signatures.setdefault((found.case, target), set()).add(found.finding.signature)
    return {(row.case, row.target): _state(row, signatures) for row in run.rows}


def _state(row: CaseRow, signatures: Mapping[Key, set[str]]) -> State:
    return State(row.outcome, frozenset(signatures.get((row.case, row.target), ())), row.digest)


def _is_alike(before: RunReport, after: RunReport) -> bool:
    one, other = before.started, after.started
    return (one.environment, one.targets, one.fault) == (other.environment, other.targets, other.fault)


def _change(seen: Sequence[State | None], alike: Sequence[bool]) -> Change | None:
    last = seen[-1]
    if last is None:
        return Change.REMOVED
    if _is_unstable(seen, alike):
        return Change.UNSTABLE
    before = [state for state in seen[:-1] if state is not None and state.is_decided]
    if not last.is_decided:
        return Change.LOST if before else None
    if not before:
        return Change.ADDED if last.outcome is not Outcome.PASSED else None
    return _step(before[-1], last)


def _step(before: State, last: State) -> Change | None:
    match before.outcome, last.outcome:
        case Outcome.PASSED, Outcome.PASSED:
            return Change.BYTES if before.digest != last.digest else None
        case Outcome.PASSED, _:
            return Change.NEW
        case _, Outcome.PASSED:
            return Change.FIXED
    return Change.SAME if before.signatures == last.signatures else Change.OTHER


def _is_unstable(seen: Sequence[State | None], alike: Sequence[bool]) -> bool:
    """Whether runs that are alike disagree, or a verdict came back after it had changed."""
    for (before, after), same in zip(pairwise(seen), alike, strict=True):
        if same and before and after and before.is_decided and after.is_decided and before != after:
            return True
    return len(list(_turns(seen))) > len({state.verdict for state in seen if state and state.is_decided})


def _turns(seen: Sequence[State | None]) -> Iterator[tuple[Outcome, frozenset[str]]]:
    """The verdicts, each told once while it stays the same."""
    told = None
    for state in seen:
        if state is not None and state.is_decided and state.verdict != told:
            told = state.verdict
            yield told
