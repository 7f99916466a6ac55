"""`tileproof triage`: why did the case of a crash file fail?"""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.cli_history import Db, since
from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.crash import DEFAULT_FOLDER, CrashFolder
from tileproof.conformance.registry import registered
from tileproof.conformance.saying import say

MOST_TOLD = 4


def triage(
    crashes: Annotated[list[str], typer.Argument(metavar="CRASH...", help="Short ids or paths of crash files.")],
    page: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Run this page, which has the cases' contract.")
    ] = None,
    crash_dir: Annotated[Path, typer.Option(help="Folder of crash files.", metavar="DIR")] = DEFAULT_FOLDER,
    db: Db = None,
) -> None:
    """Run the cases of crash files on the simulator and say what is wrong, the strongest explanation first.

    Exit codes: 0 nothing is found today, 1 something is, 2 usage.
    """
    from tileproof.conformance.triage.crashes import explain

    found = False
    folder = CrashFolder(crash_dir)
    for path in [folder.find(name) for name in crashes]:
        with registered(contracts_of(page or ())):
            answer = explain(path, pages=page or ())
        say(f"{path.stem}  {answer.record.case}")
        for place, one in enumerate(answer.explanations[:MOST_TOLD], 1):
            say(f"  {place}. {one}")
        left = len(answer.explanations) - MOST_TOLD
        if left > 0:
            say(f"     and {left} more")
        if not answer.explanations:
            say("  nothing is found today")
        for (_, target), stretch in sorted(since(db, [answer.record.case]).items()):
            say(f"  history: on {target} {stretch}")
        found |= bool(answer.explanations)
    raise typer.Exit(1 if found else 0)
