"""`tileproof show`: what is to be seen of a kernel, or of the wave64 machine, without running anything."""

import sys
from typing import Annotated

import typer

from tileproof.conformance.show import BlockSize, resource_rows, table
from tileproof.conformance.show_gfx928 import MACHINE, occupancy_lines, stride_lines
from tileproof.conformance.show_variant import variant_of
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.occupancy import predicted_blocks


def show(
    kernel: Annotated[str, typer.Argument(help="A shipped kernel by name, a .cu file, or gfx928.")],
    resources: Annotated[bool, typer.Option("--resources", help="Registers, spills, shared memory, blocks.")] = False,
    arch: Annotated[list[str] | None, typer.Option(help="Architecture; may be given several times.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of a block, where the code does not say.", min=1)] = None,
    shared: Annotated[int, typer.Option(help="Dynamic shared memory of a block, in bytes.", min=0)] = 0,
    define: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Macro of the kernel's variant; may be repeated.")
    ] = None,
    lds: Annotated[bool, typer.Option("--lds", help="Of gfx928: bank conflicts of every row stride.")] = False,
    occupancy: Annotated[
        bool, typer.Option("--occupancy", help="Of gfx928: two published laws against every accepted kernel.")
    ] = False,
) -> None:
    """Show a kernel's resources for each architecture, or tables of gfx928."""
    if kernel == MACHINE:
        if arch or define or shared or threads is not None:
            raise Refusal(f"{MACHINE} takes --lds and --occupancy", hint="its tables are of the accepted kernels")
        sys.stdout.write("\n".join(_machine(resources, lds, occupancy)) + "\n")
        return
    if lds or occupancy:
        raise Refusal(f"--lds and --occupancy are no views of {kernel!r}", hint=f"tileproof show {MACHINE} --lds")
    if not resources:
        raise Refusal("nothing to show was asked for", hint="give --resources")
    variant = variant_of(kernel, define or ())
    rows = resource_rows(kernel, arch or ["sm_90a"], BlockSize(threads, shared), variant)
    sys.stdout.write("\n".join([*table(rows), *(f"with {macro}" for macro in variant)]) + "\n")


def _machine(resources: bool, lds: bool, occupancy: bool) -> list[str]:
    if resources:
        predicted_blocks()
    if not lds and not occupancy:
        raise Refusal("nothing to show was asked for", hint="give --lds or --occupancy")
    tables = [stride_lines()] * lds + [occupancy_lines()] * occupancy
    return [line for lines in tables for line in (*lines, "")][:-1]
