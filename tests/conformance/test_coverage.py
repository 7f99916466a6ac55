"""What `tileproof coverage` counts, what it calls a hole, and its exit codes."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.contract import Contract
from tileproof.conformance.coverage.coverage import Coverage, Hole, Sources, coverage, kernel_stems
from tileproof.conformance.coverage.ran import Ran, read_ran
from tileproof.conformance.coverage.tables import lines, page
from tileproof.conformance.events import CaseFinished, CaseNotRun, EventFile, event_line
from tileproof.conformance.evidence.dry_device import DryDevice
from tileproof.conformance.evidence.kernel_file import FILE, read_modules
from tileproof.conformance.evidence.launched import launches
from tileproof.conformance.evidence.recordings import Confirmation
from tileproof.conformance.evidence.standing import Standing
from tileproof.conformance.fault import Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.registry import built_in, find_case
from tileproof.conformance.session import Plan
from tileproof.conformance.target import Coordinates, Target

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
PREFIX = "ninfer_quantize/fp8_quantize_rows/"
CASES = tuple(
    find_case(PREFIX + name)
    for name in ("vector/T1.K64.f32/ties/0", "scalar/T2.K9.bf16.xpad1/on-grid/0", "refused/T3.K0.f32/on-grid/0")
)


@cache
def known() -> DryDevice:
    return DryDevice(read_modules(EVIDENCE / FILE))


def few(*, cases: int = len(CASES)) -> Contract:
    """ninfer_quantize with few cases."""
    return replace(built_in()["ninfer_quantize"], cases=lambda tier: CASES[:cases])


def of(contract: Contract, **more: object) -> Coverage:
    device = DryDevice(read_modules(EVIDENCE / FILE))
    plain = Sources(contracts=[contract], device=device, recordings={}, faults=(), explained={})
    return coverage(replace(plain, **more))  # type: ignore[arg-type]


def test_what_no_case_reaches_is_a_hole() -> None:
    holes = of(few(), kernels=("fp8_quantize_rows", "int8_pack")).holes
    assert Hole("route", f"{PREFIX}empty") in holes
    assert Hole("kernel", "int8_pack") in holes
    assert Hole("kernel", "fp8_quantize_rows") not in holes
    instances = {hole.name.rpartition("/")[2] for hole in holes if hole.kind == "instance"}
    assert instances == {
        f"fp8_quantize_rows_{name}" for name in ("bf16_vector", "f16_scalar", "f16_vector", "f32_scalar")
    }
    assert Hole("property", "ninfer_quantize P4") in holes
    assert Hole("property", "ninfer_quantize P2") not in holes
    assert Hole("contract", "ninfer_quantize") in of(few(cases=0)).holes


def test_a_hole_with_a_reason_is_explained() -> None:
    explained = {("route", f"{PREFIX}empty"): "for this test"}
    found = of(few(), explained=explained)
    assert Hole("route", f"{PREFIX}empty", "for this test") in found.holes
    assert Hole("route", f"{PREFIX}empty") not in found.unexplained
    assert len(found.unexplained) == len(found.holes) - 1


def test_a_fault_without_a_case_of_its_route_or_file_is_a_hole() -> None:
    edit = (Edit("a", "b"),)
    plain = Fault("plain", "ninfer_quantize", "w", "p", frozenset({FindingKind.MISMATCH}), edits=edit)
    faults = (plain, replace(plain, name="elsewhere", route="empty"), replace(plain, name="foreign", file="int8_pack"))
    holes = of(few(), faults=faults).holes
    assert [hole.name for hole in holes if hole.kind == "fault"] == ["elsewhere", "foreign"]


def test_cells_count_the_cases_that_are_there_for_a_property() -> None:
    cells = {cell.property: cell for cell in of(few()).cells}
    assert (cells["P2"].cases, cells["P9"].cases, cells["P10"].cases, cells["P19"].cases) == (1, 1, 2, 3)
    assert (cells["P6"].said, cells["P6"].cases) == ("absent", 0)
    assert cells["P14"].probes == 2
    assert cells["P17"].gpu == {}, "a GPU sees no order"
    assert cells["P10"].gpu == {"never": 2}


def test_a_mark_of_the_gpu_stands_or_is_lost_by_the_ptx() -> None:
    keys = launches(CASES, known())
    ran = {key.instance: key.digest for key in keys[CASES[0]]}
    recordings = {
        str(CASES[0]): (Confirmation("NVIDIA H200", "a", ran),),
        str(CASES[1]): (Confirmation("NVIDIA H200", "a", ran),),
    }
    found = of(few(), recordings=recordings)
    assert found.devices == ("NVIDIA H200",)
    (mark,) = found.marks
    assert mark.cases == {Standing.CONFIRMED: 1, Standing.LOST: 1, Standing.NEVER: 1}
    assert mark.lost == ("fp8_quantize_rows/fp8_quantize_rows_bf16_scalar",)
    assert "1/2" in page(found)


VECTOR = "fp8_quantize_rows/fp8_quantize_rows_f32_vector"


def write_run(path: Path, collected: int, tier: str = "full", cases: int | None = None) -> Path:
    """A run of the first so many cases, of which the first alone came to a verdict."""
    plan = Plan(CASES[:collected], (Coordinates(Target.SIM),), tier)
    with EventFile(path) as file:
        file.receive(replace(plan.start, cases=collected if cases is None else cases))
        file.receive(CaseFinished(str(CASES[0]), Target.SIM, True, "vector", 0.1, "d", (), (f"{VECTOR}@12",)))
        for case in CASES[1:collected]:
            file.receive(CaseNotRun(str(case), Target.SIM, "the budget was spent"))
    return path


def test_a_run_that_reaches_less_than_it_was_to_has_holes(tmp_path: Path) -> None:
    ran = read_ran(write_run(tmp_path / "run.ndjson", 3))
    assert ran == Ran(
        "full", {str(CASES[0])}, {("ninfer_quantize", "fp8_quantize_rows", "vector")}, {VECTOR}, {*map(str, CASES)}
    )
    found = of(few(), ran=ran)
    assert Hole("run", f"route {PREFIX}scalar") in found.holes
    assert Hole("run", "instance fp8_quantize_rows/fp8_quantize_rows_bf16_scalar") in found.holes
    assert Hole("run", f"route {PREFIX}vector") not in found.holes
    assert next(cell for cell in found.cells if cell.property == "P10").ran == 1
    assert "1/2" in "\n".join(lines(found))
    assert not found.part


def test_a_run_of_a_selection_is_held_to_what_it_selected_and_says_so(tmp_path: Path) -> None:
    found = of(few(), ran=read_ran(write_run(tmp_path / "run.ndjson", 1, "selected")))
    assert not [hole for hole in found.holes if hole.kind == "run"]
    assert found.part == "the run (selected) had 1 of 3 cases, and is held to what these reach"
    assert found.part in lines(found)
    lacking = of(few(), ran=read_ran(write_run(tmp_path / "run.ndjson", 2, "selected")))
    assert Hole("run", f"route {PREFIX}scalar") in lacking.holes


def test_a_run_that_was_cut_short_is_not_taken_for_a_selection(tmp_path: Path) -> None:
    found = of(few(), ran=read_ran(write_run(tmp_path / "run.ndjson", 1, cases=3)))
    assert [hole.name for hole in found.unexplained if hole.kind == "run"] == [
        "2 cases of which its file says nothing: it was cut short"
    ]


def test_the_command_prints_writes_and_says_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coverage", "ninfer_quantize"]) == 0
    out = capsys.readouterr().out
    assert "P14 indices of 64 bits" in out
    assert "0 holes, 0 of them unexplained" in out
    markdown, ndjson = tmp_path / "c.md", tmp_path / "c.ndjson"
    assert main(["coverage", "ninfer_q*", "--markdown", str(markdown), "--ndjson", str(ndjson)]) == 0
    assert markdown.read_text().startswith("# What is covered")
    records = [json.loads(line) for line in ndjson.read_text().splitlines()]
    assert [record["record"] for record in records].count("cell") == 24
    assert records[-1]["unexplained"] == 0
    run = write_run(tmp_path / "run.ndjson", 3)
    assert main(["coverage", "ninfer_quantize", "--run", str(run)]) == 1
    assert "NOT EXPLAINED" in capsys.readouterr().out
    assert main(["coverage", "ninfer_quantize", "--run", str(write_run(run, 1, "selected"))]) == 0
    assert "is held to what these reach" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ninfer_quantise"], "no contract matches 'ninfer_quantise'"),
        (["ninfer_quantize", "--run", "nowhere.ndjson"], "cannot be read"),
        (["ninfer_quantize", "--markdown", "/nowhere/c.md"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_two(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coverage", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), (None, "does not begin with a run's start")])
def test_a_file_that_holds_no_run_is_one_line(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.ndjson"
    path.write_text(event_line(CaseNotRun(str(CASES[0]), Target.SIM, "r")) if text is None else text)
    assert main(["coverage", "ninfer_quantize", "--run", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: {message}")


def test_there_is_a_stem_for_every_kernel() -> None:
    stems = list(kernel_stems())
    assert {"fp8_quantize_rows", "mm_fp8", "reference/e4m3_gemm"} <= set(stems)
    assert len(stems) == len(set(stems))
