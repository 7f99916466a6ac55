"""`tileproof show`: what is to be seen of a kernel, of the wave64 machine, or of a map, without running anything."""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.cli_draw import DRAWINGS, Drawing, draw
from tileproof.conformance.columns import aligned
from tileproof.conformance.saying import say_lines
from tileproof.conformance.show import HEADINGS, LEFT, BlockSize, resource_rows
from tileproof.conformance.show_gfx928 import MACHINE, occupancy_lines, stride_lines
from tileproof.conformance.show_variant import variant_of
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.occupancy import predicted_blocks


def show(
    kernel: Annotated[
        str, typer.Argument(help="A shipped kernel by name, a .cu file, gfx928; or swizzle, fragment, pack, banks.")
    ],
    of: Annotated[
        str | None, typer.Argument(help="A swizzle's span, an instruction, a pack's name, or addresses by lane.")
    ] = None,
    resources: Annotated[bool, typer.Option("--resources", help="Registers, spills, shared memory, blocks.")] = False,
    arch: Annotated[list[str] | None, typer.Option(help="Architecture; may be given several times.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of a block, where the code does not say.", min=1)] = None,
    shared: Annotated[int, typer.Option(help="Dynamic shared memory of a block, in bytes.", min=0)] = 0,
    define: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Macro of the kernel's variant; may be repeated.")
    ] = None,
    lds: Annotated[
        bool, typer.Option("--lds", help="Of gfx928: bank conflicts of every row stride; of banks: LDS, waves of 64.")
    ] = False,
    occupancy: Annotated[
        bool, typer.Option("--occupancy", help="Of gfx928: two published laws against every accepted kernel.")
    ] = False,
    operand: Annotated[str, typer.Option(help="Of a fragment: a, b or c.")] = "c",
    k: Annotated[int | None, typer.Option("-k", help="Of a pack: K.", min=1)] = None,
    n: Annotated[int | None, typer.Option("-n", help="Of a pack: N.", min=1)] = None,
    width: Annotated[int, typer.Option(help="Of banks: bytes that a lane moves.")] = 4,
    store: Annotated[bool, typer.Option("--store", help="Of banks: a store instead of a load.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write a drawing there as SVG.", metavar="FILE")] = None,
) -> None:
    """Show a kernel's resources for each architecture, tables of gfx928, or a drawing of a map."""
    if kernel in DRAWINGS:
        draw(kernel, of, Drawing(operand, k, n, width, store, lds), svg)
        return
    if of is not None or svg is not None:
        raise Refusal(f"{kernel!r} is no drawing", hint=f"drawings are {', '.join(DRAWINGS)}")
    if kernel == MACHINE:
        if arch or define or shared or threads is not None:
            raise Refusal(f"{MACHINE} takes --lds and --occupancy", hint="its tables are of the accepted kernels")
        say_lines(_machine(resources, lds, occupancy))
        return
    if lds or occupancy:
        raise Refusal(f"--lds and --occupancy are no views of {kernel!r}", hint=f"tileproof show {MACHINE} --lds")
    if not resources:
        raise Refusal("nothing to show was asked for", hint="give --resources")
    variant = variant_of(kernel, define or ())
    rows = resource_rows(kernel, arch or ["sm_90a"], BlockSize(threads, shared), variant)
    table = aligned([HEADINGS, *rows], LEFT)
    say_lines([*table, *(f"with {macro}" for macro in variant)])


def _machine(resources: bool, lds: bool, occupancy: bool) -> list[str]:
    if resources:
        predicted_blocks()
    if not lds and not occupancy:
        raise Refusal("nothing to show was asked for", hint="give --lds or --occupancy")
    tables = [stride_lines()] * lds + [occupancy_lines()] * occupancy
    return [line for lines in tables for line in (*lines, "")][:-1]
