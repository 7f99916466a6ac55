"""`tileproof history`: runs in one file, and what only many of them can tell."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tileproof.conformance.columns import aligned
from tileproof.conformance.history import NO_HISTORY, History, Stretches
from tileproof.conformance.saying import say
from tileproof.oracle.refusal import Refusal

DEFAULT = Path(".tileproof") / "history.duckdb"

Db = Annotated[Path | None, typer.Option("--db", metavar="FILE", help="Say since when, from this history of runs.")]
"""Of the commands that only ask it."""

history = typer.Typer(help="Keep runs, and ask what changed over them.", no_args_is_help=True, rich_markup_mode=None)

_Db = Annotated[Path, typer.Option(metavar="FILE", help="The file of runs.")]
_Glob = Annotated[str, typer.Argument(metavar="[GLOB]", help="Which case ids; all if not given.")]


@history.command()
def add(
    runs: Annotated[list[Path], typer.Argument(metavar="EVENTS...", help="Event files: `check --events FILE`.")],
    db: _Db = DEFAULT,
) -> None:
    """Take runs in, in the order given."""
    with History(db) as kept:
        for path in runs:
            say(f"{path}: {'added' if kept.add(path) else 'is there already'}")


@history.command("list")
def list_(db: _Db = DEFAULT) -> None:
    """All runs."""
    with History(db) as kept:
        _table(("run", "file", "tier", "where", "fault", "cases", "failed"), kept.runs())


@history.command()
def trends(glob: _Glob = "*", db: _Db = DEFAULT) -> None:
    """Cases, failures and seconds of each kernel and route, run by run; GLOB is of contracts here."""
    with History(db) as kept:
        titles = ("kernel", "route", "target", "run", "cases", "failed", "open", "seconds")
        _table(titles, kept.trends(glob))


@history.command()
def changes(glob: _Glob = "*", db: _Db = DEFAULT) -> None:
    """The runs in which cases changed their verdict or their bytes."""
    with History(db) as kept:
        rows = [(*row[:5], str(row[5]).replace("\n", "; ")) for row in kept.changes(glob)]
        _table(("case", "target", "run", "before", "after", "signatures"), rows)


@history.command()
def unstable(glob: _Glob = "*", db: _Db = DEFAULT) -> None:
    """Cases that changed between runs that are alike, or changed back."""
    with History(db) as kept:
        _table(("case", "target", "verdicts", "changes"), kept.unstable(glob))


@history.command()
def slowest(
    glob: _Glob = "*",
    count: Annotated[int, typer.Option(help="How many.", min=1, max=100_000)] = 20,
    db: _Db = DEFAULT,
) -> None:
    """Cases by their median time."""
    with History(db) as kept:
        _table(("case", "target", "runs", "median s", "longest s"), kept.slowest(glob, count))


def since(db: Path | None, cases: Iterable[str]) -> Stretches:
    """Since when cases have their last verdict, by case and target; nothing without a history.

    Raises:
        Refusal: there is no such file.
    """
    if db is None:
        return NO_HISTORY
    if not db.is_file():
        raise Refusal(f"{db}: no such history of runs", hint="`tileproof history add EVENTS --db FILE` makes it")
    with History(db) as kept:
        return kept.since(cases)


def _table(titles: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        say("nothing")
        return
    words = [tuple("" if value is None else str(value) for value in row) for row in rows]
    texts = [at for at, value in enumerate(rows[0]) if not isinstance(value, int | float)]
    for line in aligned([tuple(titles), *words], tuple(texts)):
        say(line)
