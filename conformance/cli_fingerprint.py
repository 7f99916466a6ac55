"""`tileproof fingerprint`: the accumulator of a route of ours, of a matrix instruction, or of a Python callable."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.fingerprint.box import Box
from tileproof.conformance.saying import say, say_lines, write_file
from tileproof.oracle.refusal import Refusal


class Where(StrEnum):
    """What computes a route of ours."""

    ORACLE = "oracle"
    SIM = "sim"
    GPU = "gpu"


def fingerprint(
    boxes: Annotated[
        list[str] | None,
        typer.Argument(metavar="BOX...", help="A route, a matrix instruction, or module:function.", show_default=False),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the routes.")] = False,
    target: Annotated[Where, typer.Option(help="Where a route of ours runs.")] = Where.ORACLE,
    arch: Annotated[str, typer.Option(help="Architecture of the oracle, or to simulate.")] = "sm_90a",
    assembler: Annotated[str, typer.Option(help="CUDA release of ptxas, for an instruction.")] = "13.0",
    operand: Annotated[str, typer.Option("--format", help="Of a callable: e4m3, e5m2, f16, bf16 or s8.")] = "e4m3",
    multiple: Annotated[int, typer.Option(help="Of a callable: M and N are multiples of it.", min=1)] = 16,
    k: Annotated[int, typer.Option("--k", help="K of the probes; twice as much is asked for too.")] = 256,
    probes: Annotated[bool, typer.Option("--probes/--no-probes", help="Print the probes as proof.")] = True,
    record: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything here.")] = None,
) -> None:
    """Tell from outputs alone how a product adds up: fused group, bits, rounding, k order, promotion, split, C, bias.

    Exit codes: 0 every accumulator is named, 1 one is unknown, 2 usage.
    """
    from tileproof.conformance.fingerprint.fingerprint import fingerprint as find
    from tileproof.conformance.fingerprint.record import to_record
    from tileproof.conformance.fingerprint.report import lines

    routes = _routes(target, arch)
    if list_:
        say_lines(routes)
        return
    if not boxes:
        raise Refusal("nothing to fingerprint was named", hint="`tileproof fingerprint --list` lists routes")
    if operand == "s8":
        raise typer.Exit(_integers(boxes, k))
    found = []
    for name in boxes:
        found.append(find(_box(name, routes, arch, assembler, operand, multiple), k))
        say_lines(lines(found[-1], probes=probes))
    if record is not None:
        write_file(record, json.dumps([to_record(one) for one in found], indent=1, default=str) + "\n")
    raise typer.Exit(0 if all(one.is_known for one in found) else 1)


def _routes(target: Where, arch: str) -> Mapping[str, Callable[[], Box]]:
    from tileproof.conformance.fingerprint.kernel_boxes import kernel_boxes
    from tileproof.conformance.fingerprint.oracle_boxes import oracle_boxes
    from tileproof.conformance.target import Coordinates, Schedule, Target, open_device

    if target is Where.ORACLE:
        return oracle_boxes(arch)
    return kernel_boxes(open_device(Coordinates(Target(target.value), arch, Schedule.FRIENDLY)))


def _box(
    name: str, routes: Mapping[str, Callable[[], Box]], arch: str, assembler: str, operand: str, multiple: int
) -> Box:
    from tileproof.conformance.fingerprint.oracle_boxes import instruction_box
    from tileproof.conformance.fingerprint.user_box import user_box

    if name in routes:
        return routes[name]()
    if ":" in name and "kind::" not in name:
        return user_box(name, operand, multiple=multiple)
    if name.split(".")[0] in ("mma", "wgmma", "tcgen05", "mfma"):
        return instruction_box(name, arch, assembler)
    raise Refusal(f"{name!r} is no route, no instruction and no module:function", hint="--list lists routes")


def _integers(boxes: list[str], k: int) -> int:
    from tileproof.conformance.fingerprint.evidence import Unexplained
    from tileproof.conformance.fingerprint.integers import examine
    from tileproof.conformance.fingerprint.user_box import function_of

    known = True
    for name in boxes:
        try:
            say(f"{name}: s8 · s8, {examine(name, function_of(name), k)}")
        except Unexplained as why:
            known = False
            say(f"{name}: unknown\n  {why.probe}\n  observed {why.observed}; {why.model}")
    return 0 if known else 1
