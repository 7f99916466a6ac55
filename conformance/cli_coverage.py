"""`tileproof coverage`: properties by contract and target, and what nothing has reached."""

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.faults import faults
from tileproof.conformance.registry import built_in
from tileproof.conformance.saying import say_lines, write_file
from tileproof.conformance.selection import near_matches
from tileproof.conformance.tally import AGREE, FINDING
from tileproof.conformance.visible import visible_text
from tileproof.oracle.refusal import Refusal

EVIDENCE = Path(__file__).resolve().parents[1] / "docs" / "evidence"
"""Of a checkout; an installed package has none, so that nothing counts as confirmed."""


def coverage(
    contracts: Annotated[list[str] | None, typer.Argument(metavar="[CONTRACT]...", help="Names or globs.")] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Events of a run: also say what it did not reach.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page instead.")] = None,
    ndjson: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a line for each record instead.")] = None,
    evidence: Annotated[Path, typer.Option(metavar="DIR", help="Folder of recordings of a GPU.")] = EVIDENCE,
) -> None:
    """Print which cases are there for each property of each contract, and list what nothing reaches.

    Exit code 1 where a hole is not explained.
    """
    from tileproof.conformance.coverage.coverage import Sources, kernel_stems  # here: the device loads slowly
    from tileproof.conformance.coverage.coverage import coverage as cover
    from tileproof.conformance.coverage.ran import read_ran
    from tileproof.conformance.coverage.records import records
    from tileproof.conformance.coverage.tables import lines, page
    from tileproof.conformance.evidence.dry_device import DryDevice
    from tileproof.conformance.evidence.kernel_file import FILE, read_modules
    from tileproof.conformance.evidence.launch_file import FILE as LAUNCHES
    from tileproof.conformance.evidence.launch_file import read_forms
    from tileproof.conformance.evidence.recordings import recordings

    names = _selected(contracts or ["*"])
    found = cover(
        Sources(
            contracts=[built_in()[name] for name in names],
            device=DryDevice(read_modules(evidence / FILE)),
            recordings=recordings(evidence),
            forms=read_forms(evidence / LAUNCHES),
            faults=[fault for fault in faults().values() if fault.contract in names],
            ran=None if run is None else read_ran(run),
            kernels=tuple(kernel_stems()) if len(names) == len(built_in()) else (),
        )
    )
    if markdown is not None:
        write_file(markdown, visible_text(page(found)))
    if ndjson is not None:
        write_file(ndjson, "".join(json.dumps(record) + "\n" for record in records(found)))
    if markdown is ndjson is None:
        say_lines(lines(found))
    raise typer.Exit(FINDING if found.unexplained else AGREE)


def _selected(globs: list[str]) -> list[str]:
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in built_in()):
            raise Refusal(f"no contract matches {glob!r}", hint=near_matches(glob, built_in()))
    return [name for name in built_in() if any(fnmatchcase(name, glob) for glob in globs)]
