"""What a run reached, from its file of events: cases with a verdict, routes that were taken, kernels that ran."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.case import parse_case
from tileproof.conformance.events import CaseFinished, read_events
from tileproof.conformance.evidence.kernel_key import parse_key


@dataclass(frozen=True)
class Ran:
    """What a run reached.

    Args:
        cases: ids that came to a verdict.
        routes: contract, kernel and route that was taken.
        instances: compiled kernels that ran.
    """

    cases: AbstractSet[str]
    routes: AbstractSet[tuple[str, str, str]]
    instances: AbstractSet[str]


def read_ran(path: Path) -> Ran:
    """What the run of a file reached. Raises: Refusal, as `read_events`."""
    ended = [event for event in read_events(path) if isinstance(event, CaseFinished)]
    taken = ((parse_case(event.case), event.route) for event in ended)
    return Ran(
        cases={event.case for event in ended},
        routes={(case.contract, case.kernel, route) for case, route in taken if route},
        instances={parse_key(key).instance for event in ended for key in event.kernels},
    )
