"""A run for the command line: its events to the console and to a file, and its exit code."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from tileproof.conformance.console import Console
from tileproof.conformance.events import Event, EventFile, RunFinished
from tileproof.conformance.resume import read_before, rewrite
from tileproof.conformance.session import Plan, Run
from tileproof.conformance.tally import ERROR
from tileproof.oracle.refusal import Refusal


def follow(run: Run, console: Console, path: Path | None, there: int = 0) -> int:
    """Pass the events of a run on; the exit code is the last event's.

    Args:
        run: whose events.
        console: shows them.
        path: of a file that takes them; None for none.
        there: how many of them the file holds already.
    """
    with ExitStack() as stack:
        stack.enter_context(closing(run))
        file = None if path is None else stack.enter_context(EventFile(path, there))
        readers: list[Console | EventFile] = [console] if file is None else [console, file]
        try:
            code = _publish(run.events(), readers)
        except KeyboardInterrupt:
            code = _publish(run.interrupted(), readers)
    if file is not None and file.failure:
        raise Refusal(file.failure, hint="the summary is whole, the event file is not")
    return code


Ids = Callable[[Plan, Iterable[str]], Iterable[str]]
"""A plan and the ids of decided cases to the ids of all cases that its run may decide."""


def ids_of_plan(plan: Plan, decided: Iterable[str]) -> Iterable[str]:
    """Those of its cases."""
    return map(str, plan.cases)


def resumed(plan: Plan, path: Path, events: Path | None, ids: Ids = ids_of_plan) -> tuple[Plan, Path, int]:
    """What is left of a plan after the run of an event file.

    Args:
        plan: of the whole run.
        path: of the file.
        events: where the new run's events go; None for the same file.
        ids: which cases the run may have decided.

    Returns:
        The plan with what was decided, the file for its events, and how many of them it holds already.

    Raises:
        Refusal: the file is of another run, or is damaged.
    """
    before = read_before(path)
    before.must_be(plan.start, ids(plan, before.cases))
    decided = tuple(map(plan.applying().seen, before.events))  # a waiver may have come, gone or expired since
    left = replace(plan, before=decided)
    if events is not None and not is_same(events, path):
        return left, events, 0
    rewrite(path, (plan.start, *decided))
    return left, path, 1 + len(decided)


def is_same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    return one.exists() and one.samefile(other)


def _publish(events: Iterator[Event], readers: Sequence[Console | EventFile]) -> int:
    code = ERROR
    for event in events:
        for reader in readers:
            reader.receive(event)
        if isinstance(event, RunFinished):
            code = event.exit_code
    return code
