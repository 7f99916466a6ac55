"""One round of a search: Hypothesis draws trials of one contract, and shrinks those that show something new.

A finding's signature becomes the type of the exception that Hypothesis sees, so that it keeps findings of several
signatures apart and shrinks each to a trial that shows the same one. The round itself remembers the smallest trial of
each signature: whatever ends it early, what was shrunk so far is not lost.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException, Unsatisfiable

from tileproof.conformance.fuzz.judge import Judge, Judged
from tileproof.conformance.fuzz.strategy import Scope, trials
from tileproof.conformance.fuzz.trial import Trial

SHRINK_RUNS = 120
"""Trials that Hypothesis may run once a round has found something."""


LEAST_DRAWN = 20
"""Trials to ask for before a space counts as one from which nothing can be drawn; each is drawn anew ten times."""


class Stop(BaseException):
    """Ends a round from within: no `Exception`, which Hypothesis would take for a finding."""


@dataclass(frozen=True)
class Allowance:
    """How long a round may go on.

    Args:
        examples: trials to draw.
        until: `time.monotonic` at which exploring ends; None for no such time.
        shrink_s: seconds for shrinking, where there is such a time.
    """

    examples: int
    until: float | None = None
    shrink_s: float = 30.0


@dataclass
class Explored:
    """What a round came to.

    Attributes:
        judged: trials in the order in which they ran, up to the first that shows something new.
        smallest: by signature that is new, the smallest trial with it.
        shrinking: trials that ran after that.
        is_barren: nothing that can run could be drawn.
    """

    judged: list[Judged] = field(default_factory=list)
    smallest: dict[str, Judged] = field(default_factory=dict)
    shrinking: int = 0
    is_barren: bool = False


@dataclass
class Round:
    """Draws and judges.

    Args:
        scope: what it is about.
        judge: runs trials.
        known: signatures that are no news.
        seed: of all draws.
        allowance: its end.
        tell: is told of each trial that was explored.
    """

    scope: Scope
    judge: Judge
    known: frozenset[str]
    seed: int
    allowance: Allowance
    tell: Callable[[Judged], None] = lambda judged: None
    result: Explored = field(default_factory=Explored)
    _memory: dict[Trial, Judged] = field(default_factory=dict)
    _shrink_until: float | None = None

    def run(self) -> Explored:
        """Draw, judge and shrink, until the allowance is used up."""
        examples = self.allowance.examples
        self._search(examples)
        if self.result.is_barren and examples < LEAST_DRAWN:  # so few draws may all have been such as cannot run
            self._search(LEAST_DRAWN)
        return self.result

    def _search(self, examples: int) -> None:
        @seeded(self.seed)
        @settings(
            max_examples=examples,
            phases=(Phase.generate, Phase.shrink),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            derandomize=False,
            print_blob=False,
        )
        @given(trials(self.scope))
        def search(trial: Trial) -> None:
            self._one(trial)

        self.result.is_barren = False
        try:
            search()
        except* Unsatisfiable:
            self.result.is_barren = not self._memory
        except* (Stop, Shown, HypothesisException):
            pass  # what it found stands in the result

    def _one(self, trial: Trial) -> None:
        judged = self._memory.get(trial)
        if judged is None:
            self._check_end()
            judged = self._memory[trial] = self.judge.run(trial)
            self._count(judged)
        news = [signature for signature in judged.signatures if signature not in self.known]
        for signature in news:
            best = self.result.smallest.get(signature)
            if best is None or size(trial) < size(best.trial):
                self.result.smallest[signature] = judged
        if news:
            raise _shown(news[0])

    def _count(self, judged: Judged) -> None:
        if self.result.smallest:
            self.result.shrinking += 1
        else:
            self.result.judged.append(judged)
            self.tell(judged)

    def _check_end(self) -> None:
        now, until = time.monotonic(), self.allowance.until
        if not self.result.smallest:
            if len(self._memory) >= self.allowance.examples or (until is not None and now >= until):
                raise Stop
            return
        if self._shrink_until is None:
            self._shrink_until = now + self.allowance.shrink_s
        if self.result.shrinking >= SHRINK_RUNS or (until is not None and now >= self._shrink_until):
            raise Stop


def size(trial: Trial) -> tuple[int, ...]:
    """What makes one trial smaller than another: elements, edits, views, then seeds."""
    views = sum(view.pad + view.offset for view in trial.case.shape.views)
    return (trial.elements(), len(trial.edits), views, trial.case.seed + trial.place.seed)


class Shown(Exception):
    """A trial showed something new; each signature has a type of its own."""


_TYPES: dict[str, type[Shown]] = {}


def _shown(signature: str) -> Shown:
    return _TYPES.setdefault(signature, type("Shown", (Shown,), {}))(signature)
