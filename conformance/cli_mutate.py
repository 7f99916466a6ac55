"""`tileproof mutate KERNEL`: small defects of the compiled kernel, and which of them the cases find."""

from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.contract import Tier
from tileproof.conformance.saying import remark, say, write_file
from tileproof.conformance.target import Coordinates, Schedule, Target

ALIVE = 1
"""Exit code where a mutant survived."""


def mutate(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="Stem of a kernel's file, as fp8_quantize_rows.")],
    operator: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only mutants of this operator.")] = None,
    order: Annotated[bool, typer.Option("--order", help="Only mutants of barriers, fences, waits, atomics.")] = False,
    mutant: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this one; a beginning will do.")] = None,
    sample: Annotated[int | None, typer.Option(help="At most so many, the same each time.", min=1)] = None,
    tier: Annotated[Tier, typer.Option(help="Whose cases run.")] = Tier.SMOKE,
    case: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Only these cases.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    seconds: Annotated[float, typer.Option(help="Processor time of one mutant.", min=0.1)] = 60.0,
    deeper: Annotated[
        float, typer.Option(help="Seconds for further cases of the full tier, where a mutant survives.", min=0.0)
    ] = 10.0,
    minutes: Annotated[float | None, typer.Option(help="Begin no further mutant after so long.", min=0.01)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the hostile schedule.", min=0)] = 0,
    arch: Annotated[str, typer.Option(help="Architecture to compile for and to simulate.")] = "sm_90a",
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where results are kept, mutants/KERNEL.ndjson if not given.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report of the source lines.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run survivors again; with --prove, prove again.")] = False,
    prove: Annotated[
        bool, typer.Option("--prove", help="Only put survivors of earlier runs to proof, without their cases.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the mutants; run none.")] = False,
) -> None:
    """Change one instruction of a kernel's PTX at a time and run the cases that reach it; go on where a run ended."""
    from tileproof.conformance.mutation.campaign import Campaign, Selection  # here: the device loads slowly
    from tileproof.conformance.mutation.operator import Group
    from tileproof.conformance.mutation.page import page
    from tileproof.conformance.mutation.rendering import render
    from tileproof.conformance.mutation.result import Outcome
    from tileproof.conformance.mutation.summary import describe, survivors
    from tileproof.conformance.mutation.trial import Budget

    place = Coordinates(Target.SIM, arch, Schedule.FRIENDLY, seed)
    path = results or Path("mutants") / f"{kernel}.ndjson"
    if prove:
        raise typer.Exit(_prove(path, place, tuple(mutant or ()), again=again))
    selection = Selection(
        operators=tuple(operator or ()),
        group=Group.ORDER if order else None,
        ids=tuple(mutant or ()),
        sample=sample,
        tier=tier,
        cases=tuple(case or ()),
    )
    campaign = Campaign(kernel, selection, place)
    if list_:
        for one in campaign.mutants:
            change = " ".join(map(render, one.patch.instructions)) or "dropped"
            say(f"{one.id}\t{one.place}\t{render(one.original)}\t{change}")
        return
    for result in campaign.run(path, jobs=jobs, budget=Budget(seconds, deeper), minutes=minutes, again=again):
        if result.outcome is not Outcome.KILLED:
            remark(f"{result.outcome}  {result.id}  {result.file}:{result.line}")
    decided = campaign.done(path)
    say(f"{kernel}: {len(campaign.mutants)} mutants selected of {campaign.reached} on instructions that cases reach")
    say(f"({campaign.unreached} more on instructions that none does), {len(decided)} decided, in {path}")
    say("")
    for line in describe(tuple(decided.values())):
        say(line)
    if html is not None:
        write_file(html, page(kernel, tuple(decided.values())), hint="give another --html FILE")
    raise typer.Exit(ALIVE if survivors(decided.values()) else 0)


def _prove(path: Path, place: Coordinates, ids: tuple[str, ...], *, again: bool) -> int:
    """Put the survivors in a file to proof, and `again` what is proved, and write down what is known now."""
    from tileproof.conformance.mutation.reproof import reproved
    from tileproof.conformance.mutation.result import read_results, write_results
    from tileproof.conformance.mutation.summary import survivors

    known = read_results(path)
    for result in reproved(list(known.values()), place, ids=ids, again=again):
        known[result.id] = result
        remark(f"{result.outcome}  {result.id}  {result.file}:{result.line}  {result.reason}")
    write_results(path, known.values())
    left = survivors(known.values())
    say(f"{path}: {len(left)} of {len(known)} survive")
    return ALIVE if left else 0
