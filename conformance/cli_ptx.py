"""`tileproof ptx`: the CPU device for a bare kernel file, without a contract or a case."""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.launch_argument import parse_argument
from tileproof.conformance.saying import say_lines
from tileproof.conformance.target import Schedule
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.findings import Index3

ptx = typer.Typer(help="Run a bare .ptx or .cu file on the CPU device.", no_args_is_help=True)


@ptx.callback()
def _room() -> None:
    """Keeps `run` a command of its own."""


@ptx.command()
def run(
    file: Annotated[Path, typer.Argument(help="A .ptx file, or a .cu file that is compiled first.")],
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="In order: number f32:1.5; unwritten f32[1024]; u8[64,32]:ramp|random|zeros|ones|7; @x.npy.",
        ),
    ] = None,
    entry: Annotated[str | None, typer.Option(help="The kernel, where the file has several.")] = None,
    grid: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Blocks.")] = "1",
    block: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Threads of a block.")] = "32",
    cluster: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Blocks of a cluster.")] = "1",
    shared: Annotated[int, typer.Option(help="Dynamic shared memory of a block, in bytes.", min=0)] = 0,
    arch: Annotated[str | None, typer.Option(help="Architecture; the file's own where not given.")] = None,
    schedule: Annotated[
        Schedule, typer.Option(help="How the device orders what may be reordered.")
    ] = Schedule.FRIENDLY,
    seed: Annotated[int, typer.Option(help="Seed of the schedule and of random arguments.", min=0)] = 0,
    save_: Annotated[
        list[str] | None, typer.Option("--save", metavar="N=FILE.npy", help="Write argument N, counted from 0.")
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="N[I,J]", help="Tell where an element came from: argument N, element [I, J].")
    ] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="Count instructions by opcode, and bank conflicts by line; slower.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(help="Give the launch up after so many steps of a wave; the same everywhere.", min=1)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Give it up after so many seconds.", min=0.01)] = None,
    memory: Annotated[
        int | None, typer.Option(metavar="MIB", help="Refuse what needs more memory, arguments included.", min=1)
    ] = None,
) -> None:
    """Run one launch; exit code 1 where the device has a finding, or gives it up."""
    from tileproof.conformance.ptx_run import KernelLaunch, describe, run_kernel, save  # here: the device loads slowly
    from tileproof.conformance.ptx_trace import parse_element

    places = [_place(text) for text in save_ or ()]
    launch = KernelLaunch(
        file=file,
        entry=entry,
        grid=_extent("--grid", grid),
        block=_extent("--block", block),
        cluster=_extent("--cluster", cluster),
        shared_bytes=shared,
        arguments=tuple(parse_argument(text, seed) for text in arg or ()),
        arch=arch,
        schedule=schedule,
        seed=seed,
        element=None if trace is None else parse_element(trace),
        counters=counters,
        steps=steps,
        seconds=seconds,
        memory_bytes=None if memory is None else memory << 20,
    )
    result = run_kernel(launch)
    save(result, places)
    say_lines(describe(launch, result))
    raise typer.Exit(1 if result.count else 0)


def _extent(option: str, text: str) -> Index3:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() for part in parts):
        raise Refusal(f"{option} {text!r} is no extent", hint="one to three numbers with commas, e.g. 64,2")
    x, y, z = (*map(int, parts), *(1,) * (3 - len(parts)))
    return x, y, z


def _place(text: str) -> tuple[int, Path]:
    number, equals, path = text.partition("=")
    if not equals or not number.isdecimal() or not path:
        raise Refusal(f"--save {text!r} is no place", hint="e.g. --save 1=out.npy")
    return int(number), Path(path)
