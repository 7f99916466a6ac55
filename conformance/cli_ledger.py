"""`tileproof ledger`: measured facts, who measured them, and what they are worth."""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.ledger import Role
from tileproof.conformance.ledger_file import read_ledger
from tileproof.conformance.ledger_rules import Standing
from tileproof.conformance.ledger_table import Query, best_lines, row_lines
from tileproof.conformance.saying import say_lines


def ledger(
    shapes: Annotated[list[str] | None, typer.Argument(metavar="[SHAPE]...", help="Globs; all if not given.")] = None,
    role: Annotated[Role | None, typer.Option(help="Only rows of this role.")] = None,
    worth: Annotated[Standing | None, typer.Option(help="Only rows that are worth this.")] = None,
    best: Annotated[bool, typer.Option("--best", help="What is accepted for each shape, over its baseline.")] = False,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Another ledger than the shipped one.")] = None,
) -> None:
    """Print measured facts with their evidence."""
    query = Query(tuple(shapes or ()), role, worth)
    book = read_ledger(file)
    say_lines((best_lines if best else row_lines)(book, query))
