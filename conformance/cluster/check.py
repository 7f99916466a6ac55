"""A run of `check` on a cluster: a case is a task."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from tileproof.conformance.case import Case
from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.cluster.actors import Actors, Answered, Cluster
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import CaseErrored, Event, TargetUnavailable
from tileproof.conformance.registry import registered
from tileproof.conformance.session import Plan, Run, Session, runners_for
from tileproof.conformance.side_by_side import Helpers
from tileproof.conformance.target import Target


class OnCluster(Run):
    """One run of a plan by the workers of a cluster.

    Args:
        plan: what to run.
        setup: crash folder, which all workers must see, and deadline.
        cluster: the workers.
    """

    def __init__(self, plan: Plan, setup: Helpers, cluster: Cluster) -> None:
        super().__init__(plan)
        bare = replace(plan, cases=(), before=(), budget_s=None, first_failure=False)
        self._workers: Actors[Case, tuple[Event, ...]] = Actors(partial(runner_of_cases, bare, setup), cluster)
        self._unavailable: set[Target] = set()

    def all_cases(self) -> Iterator[Event]:
        """Hand cases out, and pass on what comes back, until none is left or running."""
        left = iter(self.plan.left)
        case = next(left, None)
        while True:
            while case is not None and self.goes_on and self._workers.room:
                self._workers.hand_out(case)
                case = next(left, None)
            if not self._workers.is_working:
                return
            for ended in self._workers.take():
                if isinstance(ended, Answered):
                    yield from self._once(ended.answer)
                else:
                    for place in self.plan.coordinates:
                        yield CaseErrored(str(ended.task), place.target, "", ended.reason)

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def _once(self, events: tuple[Event, ...]) -> Iterator[Event]:
        """The events of a case; that a target is missing is said once for all workers."""
        for event in events:
            if not isinstance(event, TargetUnavailable):
                yield event
            elif event.target not in self._unavailable:
                self._unavailable.add(event.target)
                yield event


def runner_of_cases(plan: Plan, setup: Helpers) -> Callable[[Case], tuple[Event, ...]]:
    """On a worker: its devices, opened once, and what runs a case on them."""
    pages = [Path(plan.page)] if plan.page else []
    registered(contracts_of(pages)).__enter__()  # for as long as the worker lives
    runners = runners_for(plan.coordinates, deadline_s=setup.deadline_s, pages=pages, tool=setup.tool)
    session = Session(plan, CrashFolder(setup.crashes), runners)
    missing = list(session.open())

    def run(case: Case) -> tuple[Event, ...]:
        said = (*missing, *session.run_case(case))
        missing.clear()
        return said

    return run
