"""A run without an end: pass after pass over the same cases, each with seeds that no pass before it had.

The first pass has the cases and the schedule's seed as they are. Each further one adds 1 to the seed of the schedule,
and to the seed of every case as much as makes new ids, so that values are new, too:

    pass 0   ninfer_quantize/.../ties/0      ninfer_quantize/.../ties/2      --seed 7
    pass 1   ninfer_quantize/.../ties/3      ninfer_quantize/.../ties/5      --seed 8

An id thus says which pass it is of, and with it the seed of the schedule. The run ends by its budget, at the first
failure if that is asked for, or by Ctrl-C, which is no interruption of it once every case has run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from tileproof.conformance.case import Case
from tileproof.conformance.events import (
    CaseFinished,
    Event,
    FindingFound,
    PassStarted,
    RunFinished,
    TargetUnavailable,
)
from tileproof.conformance.session import Plan, Run
from tileproof.conformance.target import Target

Make = Callable[[Plan], Run]
"""Makes the run of one pass: in this process, in several, or on a cluster."""


class Soak(Run):
    """Passes of a plan without end.

    Attributes:
        passes: that are whole.

    Args:
        plan: of the first pass.
        make: makes the run of a pass.
    """

    def __init__(self, plan: Plan, make: Make) -> None:
        super().__init__(plan)
        self._make = make
        self._run: Run | None = None
        self._unavailable: set[Target] = set()
        self._finished = 0
        self.passes = 0

    def all_cases(self) -> Iterator[Event]:
        """One pass after another; of those that an event file has decided, nothing runs."""
        for number in count():
            plan = pass_of(self.plan, number)
            finished = self._finished
            if plan.left:
                yield from self._one(number, plan)
                if self._finished == finished:
                    return  # no case comes to a verdict, nor would it in another pass
            if not self.goes_on:
                return
            self.passes += 1

    def interrupted(self) -> Iterator[Event]:
        """After Ctrl-C: the end, which is a verdict if the first pass is whole."""
        for event in super().interrupted():
            if isinstance(event, RunFinished) and self.passes:
                yield self.tally.finish()
            else:
                yield event

    def close(self) -> None:
        """Let go what the pass at hand has."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def _one(self, number: int, plan: Plan) -> Iterator[Event]:
        if number:
            yield PassStarted(number, len(plan.left), plan.coordinates)
        if plan.budget_s is not None:
            plan = replace(plan, budget_s=max(0.0, plan.budget_s - self.seconds))
        self._run = self._make(plan)
        self._run.tally = self.tally  # by which it knows of a first failure
        for event in self._run.all_cases():
            match event:
                case FindingFound() if number:
                    yield replace(event, places=plan.coordinates)
                case TargetUnavailable():
                    if event.target not in self._unavailable:
                        self._unavailable.add(event.target)
                        yield event
                case _:
                    self._finished += isinstance(event, CaseFinished)
                    yield event
        self.close()


def pass_of(plan: Plan, number: int) -> Plan:
    """The plan of one pass; probes of waivers run in the first alone."""
    if not number:
        return plan
    cases = [case for case in plan.cases if case not in plan.probes]
    places = tuple(replace(place, seed=place.seed + number) for place in plan.coordinates)
    return replace(plan, cases=tuple(_moved(cases, number)), coordinates=places, probes=())


def ids_of_passes(plan: Plan, decided: Iterable[str]) -> Iterator[str]:
    """The ids of all passes up to the last one of which anything is decided."""
    left = set(decided)
    for number in count():
        ids = set(map(str, pass_of(plan, number).cases))
        yield from ids
        if not ids & left:
            return
        left -= ids


def _moved(cases: Sequence[Case], number: int) -> Iterator[Case]:
    """The cases with seeds that no pass before has: all of one pass lie within a span of their own."""
    span = max((case.seed for case in cases), default=0) + 1
    yield from (replace(case, seed=case.seed + number * span) for case in cases)
