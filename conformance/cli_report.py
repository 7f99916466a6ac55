"""`tileproof report`: what a run's event file says, as JUnit XML, Markdown or one HTML page."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.cli_history import Db, since
from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.crash import DEFAULT_FOLDER
from tileproof.conformance.registry import registered
from tileproof.conformance.reports.junit import junit
from tileproof.conformance.reports.markdown import markdown
from tileproof.conformance.reports.page import page
from tileproof.conformance.reports.run_report import Outcome, RunReport, read_run
from tileproof.conformance.saying import say, write_file

Writer = Callable[[RunReport, Path], str]


def report(
    events: Annotated[Path, typer.Argument(metavar="EVENTS", help="Event file of a run: `check --events EVENTS`.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one self-contained page.")] = None,
    junit_xml: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a summary for a CI job.")
    ] = None,
    crash_dir: Annotated[
        Path, typer.Option(help="Folder of the run's crash files, for replay commands.", metavar="DIR")
    ] = DEFAULT_FOLDER,
    pages: Annotated[
        list[Path] | None, typer.Option("--page", metavar="FILE", help="Run this page, which has the run's contracts.")
    ] = None,
    db: Db = None,
) -> None:
    """Write reports of a run; without a file to write, print the summary."""
    run = read_run(events)
    html_page = partial(page, stretches=since(db, {row.case for row in run.rows if row.outcome is Outcome.FAILED}))
    wanted: list[tuple[Path | None, Writer]] = [(html, html_page), (junit_xml, junit), (markdown_file, markdown)]
    with registered(contracts_of(pages or (), run.started.page)):
        for path, writer in wanted:
            if path is not None:
                write_file(path, writer(run, crash_dir))
        if html is junit_xml is markdown_file is None:
            say(markdown(run, crash_dir).removesuffix("\n"))
