"""`tileproof fuzz`: a search for cases that nobody wrote down."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.crash import DEFAULT_FOLDER
from tileproof.conformance.target import Target, parse_targets
from tileproof.oracle.refusal import Refusal

if TYPE_CHECKING:
    from tileproof.conformance.fuzz.campaign import Crew, Search
    from tileproof.conformance.fuzz.console import FuzzConsole
    from tileproof.conformance.fuzz.round_work import Setup

USUAL_SECONDS = 60.0
CORPUS = Path(".tileproof") / "corpus"


def fuzz(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CONTRACT]...", help="Names of contracts or globs.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Draw for so long; 60 if nothing is said.", min=1.0)] = None,
    examples: Annotated[int | None, typer.Option(help="Draw so many trials.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of all draws: the same seed draws the same trials.", min=0)] = 0,
    corpus: Annotated[Path, typer.Option(metavar="DIR", help="Folder of kept trials, run again first.")] = CORPUS,
    target: Annotated[
        str, typer.Option(help="sim, gpu, or sim,gpu to compare them; host for Python functions.")
    ] = "sim",
    arch: Annotated[list[str] | None, typer.Option(help="Architecture; several to draw from.")] = None,
    fault: Annotated[str | None, typer.Option(metavar="NAME", help="Put in a deliberate defect.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Search the contracts of this page.")] = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every event here, as NDJSON.")] = None,
    crash_dir: Annotated[Path, typer.Option(help="Folder of crash files.", metavar="DIR")] = DEFAULT_FOLDER,
    deadline: Annotated[float | None, typer.Option(help="Seconds for a case or a launch.", min=0.1)] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Play on a Ray cluster: its address, auto or local.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Processes that share the rounds; workers of a cluster, 0 for all.", min=0, max=1024)
    ] = 0,
) -> None:
    """Search for cases that fail: shapes, views, routes, schedules and bits of inputs, drawn and shrunk."""
    from tileproof.conformance.cli_run import follow
    from tileproof.conformance.fuzz.campaign import Campaign, Search
    from tileproof.conformance.fuzz.console import FuzzConsole
    from tileproof.conformance.fuzz.round_work import Setup
    from tileproof.conformance.registry import registered

    made = contracts_of([page] if page else [])
    archs = _archs(arch or ["sm_90a"])
    with registered(made):
        chosen = _chosen(names or [], [one.name for one in made], fault)
        limit = seconds if seconds is not None or examples is not None else USUAL_SECONDS
        where = str(page) if page else ""
        setup = Setup(parse_targets(target), archs, crash_dir, fault, where, deadline, limit)
        _must_be_affordable(chosen)
        if cluster is None:
            _must_be_there(setup.targets, setup.archs)
        console = FuzzConsole(crashes=crash_dir, page=where, err=sys.stderr)
        search = Search(chosen, setup, corpus, seed, examples, limit)
        campaign = Campaign(search, _crew(search, cluster, jobs, console))
        console.campaign = campaign
        code = follow(campaign, console, events)
    raise typer.Exit(code)


def _crew(search: "Search", address: str | None, jobs: int, console: "FuzzConsole") -> "Crew":
    """Who plays: this process, several, or a cluster."""
    from tileproof.conformance.fuzz.campaign import Alone
    from tileproof.conformance.fuzz.round_work import Player
    from tileproof.conformance.fuzz.side_by_side import LocalCrew
    from tileproof.conformance.processes import MAX_JOBS

    setup = search.setup
    if address is not None:
        return _on_cluster(setup, address, jobs, console)
    if jobs > MAX_JOBS:
        raise Refusal(f"--jobs {jobs}: one machine takes at most {MAX_JOBS} processes", hint="give fewer")
    return LocalCrew(setup, jobs, console.tried) if jobs > 1 else Alone(Player(setup, console.tell))


def _on_cluster(setup: "Setup", address: str, jobs: int, console: "FuzzConsole") -> "Crew":
    from tileproof.conformance.cluster.actors import Cluster
    from tileproof.conformance.cluster.fuzz import ClusterCrew

    return ClusterCrew(absolute(setup), Cluster(address, jobs, int(Target.GPU in setup.targets)), console.done)


def absolute(setup: "Setup") -> "Setup":
    """With paths that a process in another folder understands."""
    page = str(Path(setup.page).resolve()) if setup.page else ""
    return replace(setup, crashes=setup.crashes.resolve(), page=page)


def _archs(names: Sequence[str]) -> tuple[str, ...]:
    from tileproof.simulators.ptx.limits import Limits

    for name in names:
        Limits.of(name)
    return tuple(dict.fromkeys(names))


def _chosen(patterns: Sequence[str], of_page: Sequence[str], fault: str | None) -> tuple[str, ...]:
    """The contracts that are named, or those of the page, or that of the fault, or all."""
    from tileproof.conformance.faults import fault as find_fault
    from tileproof.conformance.registry import contracts
    from tileproof.conformance.selection import near_matches

    known = list(contracts())
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise Refusal(f"no contract matches {pattern!r}", hint=near_matches(pattern, known))
    named = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    owner = find_fault(fault).contract if fault is not None else None
    chosen = named or list(of_page) or known
    chosen = [name for name in chosen if owner in (None, name)]
    if not chosen:
        raise Refusal(f"fault {fault} is one of {owner}", hint=f"search that, `tileproof fuzz {owner}`")
    return tuple(chosen)


def _must_be_affordable(names: Sequence[str]) -> None:
    """Raises: Refusal where even the least sizes of a contract are more work than a search affords."""
    from tileproof.conformance.fuzz.strategy import space_of
    from tileproof.conformance.registry import contracts

    for name in names:
        space = space_of(contracts()[name])
        if space.least_work > space.work:
            work = f"{' * '.join(space.counted)} = {Decimal(space.least_work):.3g}"
            raise Refusal(
                f"{name}: its least shape has {work}, and a search affords at most {space.work}",
                hint=f"list smaller sizes of {', '.join(space.counted)} for it",
            )


def _must_be_there(targets: Sequence[Target], archs: Sequence[str]) -> None:
    """A target that cannot run is refused before anything is drawn. Raises: Refusal, saying what is missing."""
    from tileproof.conformance.session import runner_for
    from tileproof.conformance.target import Coordinates

    for target in targets:
        runner = runner_for(target, deadline_s=None)
        try:
            runner.open(Coordinates(target, archs[0]))
        finally:
            runner.close()
