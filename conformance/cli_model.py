"""`tileproof model`: every interleaving of a small machine inside a kernel, proved right or shown wrong."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tileproof.conformance.saying import say_lines, write_file
from tileproof.oracle.refusal import Refusal

if TYPE_CHECKING:
    from tileproof.simulators.protocols.search import Verdict

_Extent = Annotated[int | None, typer.Option(min=0)]
_BROKEN = 1


def model(
    name: Annotated[str | None, typer.Argument(help="Of the model; all are listed if it is not given.")] = None,
    fault: Annotated[str | None, typer.Option(metavar="NAME", help="Put in a deliberate defect.")] = None,
    blocks: _Extent = None,
    across: _Extent = None,
    slots: _Extent = None,
    launches: _Extent = None,
    pairs: _Extent = None,
    parts: _Extent = None,
    stages: _Extent = None,
    tiles: _Extent = None,
    consumers: _Extent = None,
    warps: _Extent = None,
    whole: Annotated[bool, typer.Option("--whole", help="Leave nothing out: no reduction.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the trace here.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Follow the fault's shortest trace on the kernel, on the CPU device.")
    ] = False,
    states: Annotated[int, typer.Option(help="Give up after so many.", min=1)] = 50_000_000,
) -> None:
    """Decide a model: exit code 0 proved, 1 a shortest trace to what is wrong, 2 not decided."""
    from tileproof.conformance.protocol_progress import SearchProgress
    from tileproof.conformance.protocols import PROTOCOLS, protocol
    from tileproof.simulators.protocols.definition import NOTHING_LEFT_OUT
    from tileproof.simulators.protocols.search import decide, search

    if name is None:
        say_lines([f"{one.name}\t{one.what}\t{', '.join(one.kernels) or '-'}" for one in PROTOCOLS.values()])
        return
    extents = {
        "blocks": blocks,
        "across": across,
        "slots": slots,
        "launches": launches,
        "pairs": pairs,
        "parts": parts,
        "stages": stages,
        "tiles": tiles,
        "consumers": consumers,
        "warps": warps,
    }
    given = {key: value for key, value in extents.items() if value is not None}
    chosen = protocol(name).build(given, fault).model()
    with SearchProgress(sys.stderr) as watch:
        if whole:
            verdict = search(chosen, NOTHING_LEFT_OUT, most_states=states, watch=watch)
        else:
            verdict = decide(chosen, most_states=states, watch=watch)
    say_lines(verdict_lines(verdict))
    if svg is not None:
        _draw(svg, verdict)
    if replay:
        say_lines([_replayed(name, fault)])
    raise typer.Exit(0 if verdict.is_right else _BROKEN)


def verdict_lines(verdict: "Verdict") -> Iterator[str]:
    """The verdict in words, with the trace."""
    from tileproof.conformance.protocol_source import place_of
    from tileproof.simulators.protocols.trace import lines

    rate = verdict.states / max(verdict.seconds, 1e-9)
    yield f"model    {verdict.model.name}"
    yield f"states   {verdict.states:,}, steps {verdict.steps:,}, ends {verdict.ends:,}"
    yield f"time     {verdict.seconds:.3f} s, {rate:,.0f} states/s"
    yield f"verdict  {'proved' if verdict.is_right else verdict.wrong}"
    if verdict.trace is None:
        return
    places = [place_of(step.source) for step in verdict.trace.steps]
    wide = max(map(len, places), default=0)
    for place, line in zip(places, lines(verdict.trace), strict=True):
        yield f"{place:{wide}}  {line}"


def _replayed(name: str, fault: str | None) -> str:
    """What the CPU device finds along the trace of a fault, at the extents that the kernel's case has."""
    from tileproof.conformance.protocol_replay import REPLAYS, replay_trace

    one = next((one for one in REPLAYS.values() if (one.protocol, one.fault) == (name, fault)), None)
    if one is None:
        raise Refusal(f"--replay of {name} with fault {fault}: no kernel has this fault", hint="see docs/protocols.md")
    found = replay_trace(one)
    kinds = ", ".join(sorted(found.kinds)) or "nothing"
    return f"replay   {one.kernel_fault} on {one.kernel}: {kinds}; {found.made} of {found.moves} moves made"


def _draw(path: Path, verdict: "Verdict") -> None:
    from tileproof.simulators.protocols.swim_lanes import swim_lanes
    from tileproof.simulators.protocols.trace import process_names

    if verdict.trace is None:
        raise Refusal(f"--svg {path}: the model is proved, there is no trace to draw", hint="--fault NAME has one")
    drawing = swim_lanes(verdict.wrong, process_names(verdict.model), verdict.trace.steps)
    write_file(path, drawing, hint="give another --svg FILE")
