"""A judge for tests of the search itself: what fails is said by a function, and no kernel runs."""

from collections.abc import Callable
from typing import Any

from tileproof.conformance.contract import Arrays
from tileproof.conformance.events import CaseFinished, Event, FindingFound
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.fuzz.judge import Judged
from tileproof.conformance.fuzz.strategy import Scope, space_of
from tileproof.conformance.fuzz.trial import Trial
from tileproof.conformance.registry import contracts
from tileproof.conformance.target import Target

Shows = Callable[[Trial, Arrays], tuple[str, ...]]
"""A trial and its inputs to the signatures that it shows."""


class FakeJudge:
    """Judges by a function."""

    def __init__(self, shows: Shows) -> None:
        self._shows = shows
        self.trials: list[Trial] = []

    def run(self, trial: Trial, inputs: Arrays | None = None, origin: str = "") -> Judged:
        self.trials.append(trial)
        signatures = self._shows(trial, trial.inputs() if inputs is None else inputs)
        name, targets = str(trial.case), (Target.SIM,)
        events: list[Event] = [
            FindingFound(name, targets, "CRASH00", Finding(FindingKind.MISMATCH, "wrong", signature))
            for signature in signatures
        ]
        return Judged(trial, (*events, CaseFinished(name, Target.SIM, not signatures, trial.case.route, 0.0, "")))


def scope_of(contract: str, **changes: Any) -> Scope:
    known = contracts()[contract]
    return Scope(known, space_of(known), (Target.SIM,), ("sm_90a",), **changes)
