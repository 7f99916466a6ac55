"""`tileproof show`: what is to be seen of a kernel without running it."""

import sys
from typing import Annotated

import typer

from tileproof.conformance.show import BlockSize, resource_rows, table
from tileproof.oracle.refusal import Refusal


def show(
    kernel: Annotated[str, typer.Argument(help="A shipped kernel by name, or a .cu file.")],
    resources: Annotated[bool, typer.Option("--resources", help="Registers, spills, shared memory, blocks.")] = False,
    arch: Annotated[list[str] | None, typer.Option(help="Architecture; may be given several times.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of a block, where the code does not say.", min=1)] = None,
    shared: Annotated[int, typer.Option(help="Dynamic shared memory of a block, in bytes.", min=0)] = 0,
) -> None:
    """Show a kernel's resources for each architecture."""
    if not resources:
        raise Refusal("nothing to show was asked for", hint="give --resources")
    rows = resource_rows(kernel, arch or ["sm_90a"], BlockSize(threads, shared))
    sys.stdout.write("\n".join(table(rows)) + "\n")
