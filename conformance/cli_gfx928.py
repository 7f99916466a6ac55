"""`tileproof gfx928`: what can be asked about the wave64 machine."""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.saying import say_lines
from tileproof.kernels.given_file import read_given_text
from tileproof.simulators.gfx928.isa.check import IsaReport, Requirement, check_listing
from tileproof.simulators.gfx928.isa.listing import TEXT_LIMIT
from tileproof.simulators.gfx928.isa.stage_order import Sites

gfx928 = typer.Typer(help="Judge assembly of the wave64 machine gfx928.", no_args_is_help=True)

_Count = Annotated[int | None, typer.Option(min=1, help="Required in every stage; any number where not given.")]
_Figure = Annotated[int | None, typer.Option(min=0, help="Required of the metadata; any where not given.")]


@gfx928.callback()
def _room() -> None:
    """Keeps `isa` a command of its own."""


@gfx928.command()
def isa(
    file: Annotated[Path, typer.Argument(help="A listing by clang -S, or by llvm-objdump -d with its metadata.")],
    symbol: Annotated[str | None, typer.Option(help="Part of the kernel's name, where the file has several.")] = None,
    loads: _Count = None,
    products: _Count = None,
    stores: _Count = None,
    vgprs: _Figure = None,
    sgprs: _Figure = None,
    lds: _Figure = None,
) -> None:
    """Prove or refute the order of the pipelined stage; exit code 0 proved, 1 refuted, 2 not judged."""
    sites = Sites(loads=loads, products=products, stores=stores)
    report = check_listing(_text(file), Requirement(sites=sites, vgprs=vgprs, sgprs=sgprs, lds_bytes=lds), symbol)
    say_lines(isa_lines(report))
    raise typer.Exit(0 if report.proved else 1)


def isa_lines(report: IsaReport) -> list[str]:
    """The judgement in words."""
    loop, count = report.loop, len(report.loop.stages)
    lines = [
        f"kernel   {report.figures.name}",
        f"loop     lines {loop.first_line} to {loop.last_line}, {count} stage{'s' * (count > 1)} a turn",
        f"sites    {', '.join(f'{number} {name}' for name, number in report.sites.items())}",
        f"figures  {report.figures}",
    ]
    if report.proved:
        return [*lines, "order    proved"]
    return [*lines, "order    refuted", *(f"  {v.rule}: {v.message}" for v in report.violations)]


def _text(file: Path) -> str:
    return read_given_text(file, TEXT_LIMIT, no_text="give the listing, not the code object")
