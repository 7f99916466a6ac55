"""What a run reached, from its file of events: cases with a verdict, routes that were taken, kernels that ran.

And what it was to reach: the cases that it collected. A run of a selection is not held to the others.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.case import parse_case
from tileproof.conformance.events import CaseErrored, CaseFinished, CaseNotRun, RunStarted, read_events
from tileproof.conformance.evidence.kernel_key import parse_key
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Ran:
    """What a run reached.

    Args:
        tier: name of the tier, or "selected", as the run's start has it.
        cases: ids that came to a verdict.
        routes: contract, kernel and route that was taken.
        instances: compiled kernels that ran.
        collected: ids of the cases that the run was to reach, whatever became of them.
        cut: how many more it was to reach, of which the file says nothing: the run was cut short.
    """

    tier: str
    cases: AbstractSet[str]
    routes: AbstractSet[tuple[str, str, str]]
    instances: AbstractSet[str]
    collected: AbstractSet[str]
    cut: int = 0


def read_ran(path: Path) -> Ran:
    """What the run of a file reached. Raises: Refusal, as `read_events`, or where the file holds no run."""
    events = list(read_events(path))
    if not events or not isinstance(events[0], RunStarted):
        what = "does not begin with a run's start" if events else "is empty"
        raise Refusal(f"{path}: {what}", hint="give the file of one run: check --events FILE")
    ended = [event for event in events if isinstance(event, CaseFinished)]
    taken = ((parse_case(event.case), event.route) for event in ended)
    collected = {event.case for event in events if isinstance(event, CaseFinished | CaseErrored | CaseNotRun)}
    return Ran(
        tier=events[0].tier,
        cases={event.case for event in ended},
        routes={(case.contract, case.kernel, route) for case, route in taken if route},
        instances={parse_key(key).instance for event in ended for key in event.kernels},
        collected=collected,
        cut=max(0, events[0].cases - len(collected)),
    )
