"""What a caller lets a launch use up: steps, seconds, memory; and the end of a launch that wants more.

Steps are the same on every machine, so a verdict may depend on them; seconds are for a caller who waits. Memory is
asked for before it is taken: the device's allocations and what the next wave needs, together.

Example: an endless loop whose end a count decides ends with `StepBudgetExceeded` after `Device(step_budget=...)` steps,
or with `TimeBudgetExceeded` after `Device(time_budget_s=...)`; `error.report` holds what was found until then.
"""

import time
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.findings import Report, Where

# With a budget of seconds, compiled code returns after so many steps of lanes together (steps times lanes) to look at
# the clock: even of products, which cost most, that is a fraction of a second.
_LANE_STEPS = 1 << 17


def unwatched() -> None:
    """What takes long attends to nothing."""


class Late(Exception):
    """The time is over, in the middle of a step; the engine says which one."""


class BudgetExceeded(Refusal):
    """A launch used up what it was given.

    Attributes:
        report: what the launch had found and counted until then.
    """

    report: Report = Report()


class StepBudgetExceeded(BudgetExceeded):
    """A wave made more steps than it was given."""


class TimeBudgetExceeded(BudgetExceeded):
    """A launch took more seconds than it was given."""


@dataclass(frozen=True)
class Budget:
    """What one launch may use.

    Attributes:
        steps: of one wave of resident blocks, whatever number of lanes makes them together.
        seconds: of the whole launch, without what it takes to compile the fast engine's code; None for no limit.

    Raises:
        Refusal: not positive.
    """

    steps: int
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not self.steps > 0:
            raise Refusal(f"step_budget = {self.steps}: a launch makes at least one step")
        if self.seconds is not None and not self.seconds > 0:
            raise Refusal(f"time_budget_s = {self.seconds}: a launch takes some time", hint="None for no limit")


class Watch:
    """Looks at the clock during one launch."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._ends: float | None = None

    def start(self) -> None:
        """A wave begins; the launch's time begins with its first wave."""
        if self._ends is None and self.budget.seconds is not None:
            self._ends = time.monotonic() + self.budget.seconds

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self._ends is not None and time.monotonic() > self._ends

    def attend(self) -> None:
        """Called by what goes on for long within one step, such as an atomic of thousands of lanes.

        Raises:
            Late: the time is over.
        """
        if self.late:
            raise Late

    def most(self, steps: int, lanes: int) -> int:
        """How many of so many steps may pass until the next look at the clock."""
        return steps if self._ends is None else min(steps, max(1, _LANE_STEPS // lanes))

    def out_of_time(self, kernel: str, where: Where) -> TimeBudgetExceeded:
        """The error of a launch whose time is over."""
        return TimeBudgetExceeded(
            f"kernel {kernel}: {self.budget.seconds:g} s were not enough; the next step is at {where}",
            hint="an endless loop, or raise the budget: Device(time_budget_s=...)",
        )

    def out_of_steps(self, kernel: str, where: Where) -> StepBudgetExceeded:
        """The error of a wave that made all its steps."""
        return StepBudgetExceeded(
            f"kernel {kernel}: {self.budget.steps} steps were not enough; the next one is at {where}",
            hint="an endless loop, or raise Device(step_budget=...)",
        )
