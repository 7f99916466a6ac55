"""What the console prints, as committed texts: with and without colour, wide and narrow."""

import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import snapshots
from runner_fakes import GPU, OTHER, SIM, FakeRunner, right, small_case, wrong
from snapshots import held

from tileproof.conformance.cli import main
from tileproof.conformance.compare import compare_bits
from tileproof.conformance.console import Console
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.division import Division
from tileproof.conformance.environment import capture
from tileproof.conformance.events import (
    CaseErrored,
    CaseExplained,
    CaseFinished,
    CaseNotRun,
    CaseStarted,
    Event,
    EventFile,
    FindingFound,
    RouteCount,
    RunFinished,
    RunStarted,
    TargetCount,
)
from tileproof.conformance.faults import fault
from tileproof.conformance.finding import Finding, FindingKind, Place, Proof, Why
from tileproof.conformance.our_divisions import MMA
from tileproof.conformance.registry import contract_of, find_case
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target

WIDTHS = (60, 80, 200)
PRODUCT = "astrai_mm_fp8/mm_fp8/64x64-s3-lean/Ba0.Bb0.M33.N40.K64.nte4m3/on-grid/0"
RACED = "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0"
FAR = "zz-größe/файл"


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a wish for colour nor a width comes from outside."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@cache
def events() -> tuple[Event, ...]:
    """A run with every kind of line: a failure by tile and lane, one by lines of code, an error, one not run."""
    start = RunStarted("smoke", 6, (SIM, GPU), None, replace(capture(), tileproof="9.9.9"))
    raced = Finding(
        FindingKind.RACE,
        "st.shared.f32 writes what another warp reads; __syncthreads() is missing",
        "race/k.cu:3",
        place=Place(12, "größe.cu", 3, ("block (0,0,0) thread (1,0,0)",) * 3, 8),
    )
    told: list[Event] = [start]
    for case, findings, why in (
        (PRODUCT, (_lane_three(),), Why(Proof.PROVED, "a part is lost: in lane 3", "proved: explains 3 of 3")),
        (RACED, (raced,), Why(Proof.SEEN, "two accesses without order between them", "seen")),
    ):
        told.append(CaseStarted(case, Target.SIM, "ABCDEFG", FAR))
        told += [FindingFound(case, (Target.SIM,), "ABCDEFG", one, FAR) for one in findings]
        told += [CaseExplained(case, Target.SIM, why), CaseFinished(case, Target.SIM, False, "r", 0.5, "d")]
    told += [CaseFinished(OTHER, Target.SIM, True, "scalar", 0.5, "d")]
    told += [CaseErrored(OTHER, Target.SIM, "HJKMNPQ", "PTX line 7: frobnicate.f32 is not modelled (hint: report it)")]
    told += [CaseNotRun(OTHER, Target.GPU, "no GPU in this machine")]
    counts = (TargetCount(Target.SIM, 1, 2, 1, 0), TargetCount(Target.GPU, 0, 0, 0, 6))
    routes = (RouteCount(Target.SIM, "mm_fp8", "64x64-s3-lean", 1), RouteCount(Target.SIM, "mm_fp8", "empty", 2))
    return (*told, RunFinished(counts, routes, 4, 1, (Target.GPU,), False, 1.25, 1))


def _lane_three() -> Finding:
    case = find_case(PRODUCT)
    spec = next(spec for spec in contract_of(case).tensors(case.shape) if spec.name == "out")
    expected = np.full(spec.shape, 0x3F80, np.uint16)
    observed = expected.copy()
    observed[[0, 16, 32], 7] = 0x4080
    found = compare_bits(spec, expected, observed, division=Division((64, 64), (32, 32), MMA))
    assert found is not None
    return found


def shown(told: tuple[Event, ...], *, out: io.StringIO | None = None, err: io.StringIO | None = None) -> str:
    out = out or io.StringIO()
    console = Console(fault("divide"), crashes=Path("a folder/crashes"), out=out, err=err or io.StringIO())
    for event in told:
        console.receive(event)
    return out.getvalue()


def test_a_run_without_colour() -> None:
    held("run_plain", shown(events()))


def test_a_run_in_colour() -> None:
    held("run_colour", shown(events(), out=_Screen()))


@pytest.mark.parametrize("width", WIDTHS)
def test_no_width_changes_a_letter_of_what_is_data(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are never wrapped or cut: what is copied out of a narrow terminal is whole."""
    monkeypatch.setenv("COLUMNS", str(width))
    held("run_plain", shown(events()))
    held("run_colour", shown(events(), out=_Screen()))


def test_no_color_on_a_terminal_and_force_color_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = shown(events(), out=_Screen())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown(events()) == coloured, "a file in colour is as a terminal"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(events(), out=_Screen())
    held("run_plain", shown(events()))


@pytest.mark.parametrize("width", WIDTHS)
def test_progress_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    screen = _Screen()
    shown(events(), err=screen)
    shots = _letters(screen.getvalue()).replace("\r", "\n").splitlines()
    frames = [line for line in shots if line.strip()]
    assert all(len(frame) <= width for frame in frames)
    held(f"progress_{width}", frames[-1].rstrip() + "\n")


def test_progress_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileproof.conformance.progress.PLAIN_INTERVAL_S", 0.0)
    log = io.StringIO()
    shown(events(), err=log)
    held("progress_log", log.getvalue())


def test_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with EventFile(Path("run.ndjson")) as file:
        for event in events():
            file.receive(event)
    assert main(["report", "run.ndjson"]) == 0
    held("report", capsys.readouterr().out)


def test_two_runs_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, behaviour in (("before.ndjson", right), ("after.ndjson", wrong)):
        plan = Plan((small_case(), find_case(OTHER)), (SIM,))
        with EventFile(Path(name)) as file:
            for event in Session(plan, CrashFolder(Path("c")), {Target.SIM: FakeRunner(behaviour)}).events():
                file.receive(event)
    assert main(["compare", "before.ndjson", "after.ndjson"]) == 1
    held("compare", capsys.readouterr().out)


def test_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", PRODUCT.replace("K64", "K1").replace("M33.N40", "M1.N1"), RACED]) == 0
    held("list", capsys.readouterr().out)


def test_a_crash_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["replay", "ABCDEFG"]) == 2
    held("no_crash_file", capsys.readouterr().err)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", ["check", "list", "report", "show", "try"])
def test_help_fits_the_width(
    command: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text changes with every option, so it is not kept."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERMINAL_WIDTH", str(width))
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= max(width, 80)
    assert "Usage: tileproof" in said


def test_every_snapshot_is_held_by_a_test() -> None:
    source = Path(__file__).read_text()
    unused = {name for name in snapshots.names() if name not in source and name.rpartition("_")[0] not in source}
    assert unused == set()


def _letters(text: str) -> str:
    """Without the codes of a terminal."""
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.lstrip("?0123456789;")[1:] for part in parts[1:])
