"""The command line: `tileproof check | list | try | replay | report | mutate | show | fingerprint | ptx` and others.

`python -m tileproof.conformance` is the same.

Exit codes: 0 all agree, 1 a finding, 2 usage, configuration or internal error; of `check --fault`: 1 the fault was
caught by the kinds of findings that it must give, 2 it was not; of `bisect`: as git takes them. Data goes to stdout;
progress, `error:` and `hint:` lines go to stderr.
"""

import os
import sys
import traceback as tracebacks
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.cli_compare import GIT_SKIP, bisect_code, compare
from tileproof.conformance.cli_coverage import coverage
from tileproof.conformance.cli_fingerprint import fingerprint
from tileproof.conformance.cli_fuzz import fuzz
from tileproof.conformance.cli_gfx928 import gfx928
from tileproof.conformance.cli_history import history
from tileproof.conformance.cli_ledger import ledger
from tileproof.conformance.cli_model import model
from tileproof.conformance.cli_mutate import mutate
from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.cli_ptx import ptx
from tileproof.conformance.cli_report import report
from tileproof.conformance.cli_run import follow, ids_of_plan, resumed
from tileproof.conformance.cli_show import show
from tileproof.conformance.cli_triage import triage
from tileproof.conformance.cli_try import try_
from tileproof.conformance.console import Console, open_console
from tileproof.conformance.contract import Tier
from tileproof.conformance.crash import DEFAULT_FOLDER, CrashFolder
from tileproof.conformance.environment import capture, describe
from tileproof.conformance.faults import fault as find_fault
from tileproof.conformance.faults import faults
from tileproof.conformance.input_file import InputFile, read_input
from tileproof.conformance.part import Part, in_turns
from tileproof.conformance.processes import MAX_JOBS
from tileproof.conformance.records import to_json
from tileproof.conformance.registry import registered
from tileproof.conformance.replay import Replay, replay
from tileproof.conformance.sanitizer import Tool, find_program
from tileproof.conformance.saying import remark, say
from tileproof.conformance.selection import cases_for_file, select
from tileproof.conformance.session import Plan, Run, Session, runners_for
from tileproof.conformance.side_by_side import Helpers, SideBySide
from tileproof.conformance.soak import Soak, ids_of_passes
from tileproof.conformance.tally import AGREE, ERROR, FINDING
from tileproof.conformance.target import Coordinates, Schedule, Target, parse_targets
from tileproof.conformance.visible import visible_text
from tileproof.conformance.waivers.applying import with_probes
from tileproof.conformance.waivers.waiver import Waiver, read_waivers
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.limits import Limits

app = typer.Typer(
    name="tileproof",
    help="Prove a quantised GPU kernel right to the bit, on a CPU and on the GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

MAX_SKIPPED_SHOWN = 10

_Selectors = Annotated[list[str] | None, typer.Argument(metavar="[SELECTOR]...", help="Exact case ids or globs.")]
_CrashDir = Annotated[Path, typer.Option(help="Folder of crash files.", metavar="DIR")]
_Deadline = Annotated[
    float | None,
    typer.Option(
        help="Seconds that a case on the GPU (60 if not given) or a launch on the simulator (any number) may take.",
        min=0.1,
    ),
]


@app.callback()
def common(
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an internal error arose.")] = False,
) -> None:
    """Options before the command."""  # --traceback is read by main(), which also sees what typer itself raises


@app.command()
def check(
    selectors: _Selectors = None,
    target: Annotated[str, typer.Option(help="sim, gpu, or sim,gpu to run both and compare them.")] = "sim",
    tier: Annotated[
        Tier | None, typer.Option(help="Which cases; smoke unless selectors are given. Soak: without an end.")
    ] = None,
    fault: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Put in a deliberate defect.")] = None,
    input: Annotated[
        list[str] | None, typer.Option(metavar="FILE[:NAME]", help="Your own tensors: .npy, .npz, .safetensors.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Of each tensor of --input, only so many rows.", min=1)] = None,
    schedule: Annotated[
        Schedule, typer.Option(help="How the simulator orders what may be reordered.")
    ] = Schedule.ADVERSARIAL,
    seed: Annotated[int, typer.Option(help="Seed of the simulator's schedule.", min=0)] = 0,
    arch: Annotated[str, typer.Option(help="Architecture to compile for and to simulate.")] = "sm_90a",
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every event here, as NDJSON.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on with the run of this event file, and in it.")
    ] = None,
    crash_dir: _CrashDir = DEFAULT_FOLDER,
    waivers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Findings that are tolerated for a while, as TOML.")
    ] = None,
    deadline: _Deadline = None,
    require_device: Annotated[
        bool, typer.Option("--require-device", help="A target that cannot run is an error.")
    ] = False,
    first_failure: Annotated[bool, typer.Option("--first-failure", help="Stop after the first failing case.")] = False,
    sanitize: Annotated[
        Tool | None, typer.Option(help="Run the GPU's cases under this tool of compute-sanitizer.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes that share the cases.", min=1, max=MAX_JOBS)] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Hand cases out on a Ray cluster: its address, auto or local."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Only the I-th of N like parts of the cases, 1 to N.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Seconds after which no case begins; routes then come in turns.", min=1.0),
    ] = None,
) -> None:
    """Run cases and say whether oracle, simulator and GPU agree."""
    fault_name, input_name = _only("--fault", fault), _only("--input", input)
    if rows is not None and input_name is None:
        raise Refusal("--rows is given without --input", hint="it cuts a user's own tensors only")
    if tier is not None and input_name is not None:
        raise Refusal(f"--tier {tier} is given with --input", hint="a user's own tensors are cases of no tier")
    coordinates = tuple(Coordinates(name, arch, schedule, seed) for name in parse_targets(target))
    if Target.SIM in {place.target for place in coordinates}:
        Limits.of(arch)
    if sanitize is not None:
        _must_have_tool(coordinates)
    chosen = find_fault(fault_name) if fault_name is not None else None
    if input_name is not None:
        file = read_input(input_name, rows=rows)
        given = cases_for_file(file, selectors or (), contract=chosen.contract if chosen else None)
        _say_skipped(file)
    else:
        given = {}
    cases = tuple(given) or select(selectors or (), tier, contract=chosen.contract if chosen else None)
    part = Part() if shard is None else Part.parse(shard)
    cases = part.of(cases if budget is None else in_turns(cases))
    known = _waivers(waivers, fault_name)
    selected = cases
    cases = with_probes(cases, known, [place.target for place in coordinates])
    is_soak = tier is Tier.SOAK
    named = "file" if given else "selected" if selectors and not is_soak else str(tier or Tier.SMOKE)
    plan = Plan(
        cases=cases,
        coordinates=coordinates,
        tier=named if shard is None else f"{named}, part {part}",
        fault=fault_name,
        given=given,
        first_failure=first_failure,
        require_device=require_device,
        budget_s=budget,
        waivers=known,
        probes=tuple(case for case in cases if case not in selected),
    )
    if resume is not None:
        plan, events, there = resumed(plan, resume, events, ids_of_passes if is_soak else ids_of_plan)
    else:
        there = 0
    make = partial(_run, Helpers(jobs, crash_dir, deadline, sanitize), cluster)
    run = Soak(plan, make) if is_soak else make(plan)
    raise typer.Exit(follow(run, Console(chosen, crashes=crash_dir), events, there))


@app.command("list")
def list_(
    selectors: _Selectors = None,
    tier: Annotated[Tier | None, typer.Option(help="Only cases of this tier.")] = None,
    show_faults: Annotated[
        bool, typer.Option("--faults", help="List the faults instead, as `list faults` does.")
    ] = False,
) -> None:
    """List case ids with tier and route, or the faults."""
    if show_faults or selectors == ["faults"]:
        if tier is not None or selectors not in (None, ["faults"]):
            raise Refusal(
                "no selector and no --tier may be given with --faults", hint="`tileproof list --faults` lists all"
            )
        for fault in faults().values():
            say(
                f"{fault.name}\t{fault.contract}\t{', '.join(sorted(fault.expected))}\t{fault.what} ({fault.precedent})"
            )
        return
    first = {case: of for of in reversed(Tier) for case in select((), of)}
    for case in select(selectors or ("*",), tier or Tier.SOAK):
        say(f"{case}\t{first.get(case, Tier.FULL)}\t{case.route}")


@app.command("replay")
def replay_(
    crashes: Annotated[list[str], typer.Argument(metavar="CRASH...", help="Short ids or paths of crash files.")],
    target: Annotated[Target | None, typer.Option(help="Run there instead of where the case ran.")] = None,
    page: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Run this page, which has the case's contract.")
    ] = None,
    crash_dir: _CrashDir = DEFAULT_FOLDER,
    deadline: _Deadline = None,
) -> None:
    """Run the cases of crash files again, from the input bits they hold."""
    folder = CrashFolder(crash_dir)
    paths = [folder.find(name) for name in crashes]
    runners = runners_for([Coordinates(name) for name in Target], deadline_s=deadline, pages=page or ())
    with ExitStack() as stack:
        stack.enter_context(registered(contracts_of(page or ())))
        for runner in runners.values():
            stack.callback(runner.close)
        replays = [replay(path, runners, target=target) for path in paths]
    for one in replays:
        _say_replay(one)
    raise typer.Exit(max(one.outcome.exit_code for one in replays))


app.command("try")(try_)
app.command()(report)
app.command()(compare)
app.command()(coverage)
app.command()(show)
app.command()(ledger)
app.command()(model)
app.command()(mutate)
app.command()(fingerprint)
app.command()(fuzz)
app.command()(triage)
app.add_typer(history, name="history")
app.add_typer(ptx, name="ptx")
app.add_typer(gfx928, name="gfx928")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bisect(context: typer.Context) -> None:
    """`check` for `git bisect run`: 0 good, 1 bad, 125 where there is no verdict."""
    raise typer.Exit(bisect_code(main(["check", *context.args])))


@app.command()
def env() -> None:
    """Print the environment that runs and crash files record."""
    say(describe(to_json(capture())))


# With which typer leaves on Ctrl-C, without a word.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        arguments: without the program's name; those of the process where None.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name may hold letters that the terminal's encoding lacks
    try:
        app(given, prog_name="tileproof")
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:
            _complain("interrupted", "")
        return leaving.code if leaving.code in (AGREE, FINDING, ERROR, GIT_SKIP) else ERROR
    except Refusal as refusal:
        _complain(refusal.message, refusal.hint)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains once more when it flushes at exit
    except Exception as error:
        if "--traceback" in given:
            tracebacks.print_exc()
        hint = f"`tileproof --traceback {' '.join(given)}` shows where" if "--traceback" not in given else ""
        _complain(f"internal: {type(error).__name__}: {error}", hint)
    return ERROR


def _only(option: str, values: Sequence[str] | None) -> str | None:
    """The value of an option that may be given once; typer would silently keep the last of several."""
    if values and len(values) > 1:
        raise Refusal(f"{option} is given {len(values)} times: {', '.join(values)}", hint="run one at a time")
    return values[0] if values else None


def _waivers(path: Path | None, fault: str | None) -> tuple[Waiver, ...]:
    """The waivers of a file, if one is given."""
    if path is None:
        return ()
    if fault is not None:
        raise Refusal(f"--waivers is given with --fault {fault}", hint="what a fault does must be found, not tolerated")
    return read_waivers(path)


def _run(setup: Helpers, cluster: str | None, plan: Plan) -> Run:
    """Of a plan: on a cluster, in several processes, or in this one."""
    if cluster is not None:
        return _on_cluster(plan, setup, cluster)
    return SideBySide(plan, setup) if setup.jobs > 1 else _alone(plan, setup)


def _alone(plan: Plan, setup: Helpers) -> Session:
    runners = runners_for(plan.coordinates, deadline_s=setup.deadline_s, tool=setup.tool)
    return Session(plan, CrashFolder(setup.crashes), runners)


def _on_cluster(plan: Plan, setup: Helpers, address: str) -> Run:
    from tileproof.conformance.cluster.actors import Cluster
    from tileproof.conformance.cluster.check import OnCluster

    gpus = int(Target.GPU in {place.target for place in plan.coordinates})
    return OnCluster(
        plan,
        replace(setup, crashes=setup.crashes.resolve()),
        Cluster(address, setup.jobs if setup.jobs > 1 else 0, gpus),
    )


def _must_have_tool(places: Sequence[Coordinates]) -> None:
    if Target.GPU not in {place.target for place in places}:
        raise Refusal("--sanitize is given without the target gpu", hint="the simulator finds such things by itself")
    find_program()


def _say_replay(one: Replay) -> None:
    case = f"  {one.record.case}" if one.record else ""
    say(f"{one.outcome}  {one.path.stem}{case}")
    if one.reason:
        say(f"      {one.reason}")
    if one.findings and one.record and one.record.findings:
        say("      as recorded" if one.same_signature else "      but not as recorded")
    for finding in one.findings:
        say(f"      {finding.kind}: " + finding.message.replace("\n", "\n        "))
    if one.same_signature and one.record and one.record.why:
        say(f"      why, as recorded: {one.record.why}")


def _say_skipped(file: InputFile) -> None:
    for skipped in file.skipped[:MAX_SKIPPED_SHOWN]:
        remark(f"skipped {skipped.name}: {skipped.reason}")
    left = len(file.skipped) - MAX_SKIPPED_SHOWN
    if left > 0:
        remark(f"skipped {left} more")


def _complain(message: str, hint: str) -> None:
    console = open_console(sys.stderr)
    console.print(visible_text(f"error: {message}"), style="bold red")
    if hint:
        console.print(visible_text(f"hint: {hint}"))
