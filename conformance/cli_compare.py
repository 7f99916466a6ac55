"""`tileproof compare` and `tileproof bisect`: what changed between runs, and a check that git can search by."""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.cli_history import Db, since
from tileproof.conformance.history import NO_HISTORY, Stretches
from tileproof.conformance.reports.comparison import Change, Changed, Comparison, common_form, compare_runs
from tileproof.conformance.reports.run_report import read_run
from tileproof.conformance.saying import say_lines
from tileproof.conformance.tally import AGREE, ERROR, FINDING
from tileproof.oracle.refusal import Refusal

MAX_SHOWN = 20
GIT_SKIP = 125
"""What `git bisect run` takes for a commit that cannot be judged (git-bisect(1))."""


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="EVENTS...", help="Event files, the run in question last.")],
    db: Db = None,
) -> None:
    """Say what fails anew, is fixed or changes from run to run; exit code 1 where anything is worse."""
    if len(runs) < 2:
        raise Refusal(f"{len(runs)} run is given", hint="compare takes two or more: tileproof compare OLD NEW")
    comparison = compare_runs([read_run(path) for path in runs])
    say_lines(told(comparison, since(db, {one.case for one in comparison.changed})))
    raise typer.Exit(FINDING if comparison.is_regression else AGREE)


def told(comparison: Comparison, stretches: Stretches = NO_HISTORY) -> list[str]:
    """The comparison in lines: each kind of change with its cases, worst first, and since when, where that is known."""
    lines = [f"run {at}: {run.verdict}, {run.started.tier}" for at, run in enumerate(comparison.runs, 1)]
    for change in Change:
        cases = comparison.of(change)
        if cases:
            lines += ["", *_block(change, cases, stretches)]
    return [*lines, "", "nothing is worse" if not comparison.is_regression else "something is worse"]


def _block(change: Change, cases: tuple[Changed, ...], stretches: Stretches) -> list[str]:
    counted = "1 case" if len(cases) == 1 else f"{len(cases)} cases"
    form = common_form(one.case for one in cases)
    lines = [f"{change}: {counted}" + (f"; all have {form}" if form else "")]
    for one in cases[:MAX_SHOWN]:
        verdicts = ", ".join(str(state.outcome) if state else "absent" for state in one.states)
        lines.append(f"      {one.case} on {one.target}: {verdicts}")
        stretch = stretches.get((one.case, str(one.target)))
        if stretch is not None:
            lines.append(f"        history: {stretch}")
    left = len(cases) - MAX_SHOWN
    return [*lines, f"      and {left} more"] if left > 0 else lines


def bisect_code(code: int) -> int:
    """An exit code of `check` as `git bisect run` reads it: a check that gave no verdict skips the commit."""
    return GIT_SKIP if code == ERROR else code
