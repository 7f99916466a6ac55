"""The proof itself: walks until nothing more has to be given up."""

import time

from tileproof.conformance.mutation.lockstep.fact import Fact
from tileproof.conformance.mutation.lockstep.flow import Flow, NoOrder, flow_of
from tileproof.conformance.mutation.lockstep.given import Given
from tileproof.conformance.mutation.lockstep.pair import Pair, pair
from tileproof.conformance.mutation.lockstep.walk import Assumed, GivenUp, NotShown, Walk
from tileproof.simulators.ptx.program import Kind, Program

_REFUSED = frozenset({Kind.CLOCK, Kind.FRESH})
_MOST_WALKS = 40
MILLISECONDS = 3000
"""The solver's time for one question; what it does not answer in that is not shown."""


SECONDS = 40.0
"""Of processor time for one mutant."""


def difference(changed: Program, original: Program, premises: tuple[Fact, ...]) -> str:
    """What could not be shown to be the same of a mutant and its kernel; "" where everything could."""
    both = pair(original, changed)
    if both is None:
        return "more than one step is different"
    if any(step.kind in _REFUSED for step in (*both.ours, *original.steps)):
        return "a kernel that reads a clock"
    try:
        flow = flow_of(original.steps, both.ours)
    except NoOrder as error:
        return str(error)
    given = Given(original, flow, premises)
    # NOTE: claims about loops take most of the time, and most mutants need none.
    end = time.process_time() + SECONDS
    for claims in (False, True):
        reason = _walked(both, flow, given, Assumed(claims=claims), end)
        if not reason or not flow.loops:
            break
    return reason


def _walked(both: Pair, flow: Flow, given: Given, assumed: Assumed, end: float) -> str:
    """Walks until nothing more has to be given up."""
    for _ in range(_MOST_WALKS):
        try:
            Walk(both, flow, given, assumed, MILLISECONDS, end).run()
        except GivenUp:
            continue
        except NotShown as error:
            return str(error)
        return ""
    return "too much had to be given up"
