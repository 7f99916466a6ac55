"""Reports of a run: every reader says what the event file says, whatever letters are in it."""

import base64
import json
import random
import re
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from runner_fakes import GPU, SIM, FakeRunner, right, wrong

from tileproof.conformance.cli import main
from tileproof.conformance.contract import Tier
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import CaseErrored, CaseStarted, CrashFileFailed, Event, EventFile, FindingFound
from tileproof.conformance.finding import UnitMap, Units
from tileproof.conformance.registry import contracts
from tileproof.conformance.reports.junit import junit
from tileproof.conformance.reports.markdown import markdown
from tileproof.conformance.reports.page import MAX_MAPS, MAX_UNIT_MAPS, page
from tileproof.conformance.reports.run_report import Outcome, RunReport, run_report
from tileproof.conformance.run_case import CaseResult
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target
from tileproof.conformance.worker import Job
from tileproof.oracle.refusal import Refusal

CASES = contracts()["ninfer_quantize"].cases(Tier.SMOKE)
SOME = tuple(
    case for case in CASES if case.route in ("vector", "scalar") and case.shape.size("T") * case.shape.size("K") < 200
)[:6]
CRASHES = Path("crashes")
HOSTILE = "<script>alert(1)</script> & \x00\x1b[31m ``` | \ud800 </script>"


def _mixed(job: Job) -> CaseResult:
    if job.case == SOME[0]:
        raise Refusal(HOSTILE)
    return wrong(job) if job.case in SOME[1:3] else right(job)


@cache
def events(folder: Path) -> tuple[Event, ...]:
    runners = {Target.SIM: FakeRunner(_mixed), Target.GPU: FakeRunner(right, missing="no driver")}
    return tuple(Session(Plan(SOME, (SIM, GPU)), CrashFolder(folder), runners).events())


@pytest.fixture
def run(tmp_path: Path) -> RunReport:
    return run_report(events(tmp_path), "a run")


def inflated(html: str, name: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', html)
    assert found is not None
    return json.loads(zlib.decompress(base64.b64decode(found.group(1))))


def test_a_run_is_counted_by_target_and_outcome(run: RunReport) -> None:
    assert [run.count(outcome) for outcome in run.outcomes] == [3, 2, 1, 6]
    assert Outcome.WAIVED not in run.outcomes
    assert run.verdict == "3 passed, 2 failed, 1 without a verdict, 6 not run"
    assert len(run.failures) == 1, "two cases with one signature"


def test_junit_opens_in_a_standard_parser_with_every_case_and_verdict(run: RunReport) -> None:
    root = ElementTree.fromstring(junit(run, CRASHES))
    counts = {name: int(root.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 12, "failures": 2, "errors": 1, "skipped": 6}
    cases = root.findall("testsuite/testcase")
    assert [len(root.findall(f"testsuite/testcase/{name}")) for name in ("failure", "error", "skipped")] == [2, 1, 6]
    assert {case.attrib["name"] for case in cases} == set(map(str, SOME))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.attrib["type"] == "mismatch"
    assert "Reproduce with: tileproof replay" in (failure.text or "")
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert error.attrib["message"] == "<script>alert(1)</script> & \\x00\\x1b[31m ``` | \\ud800 </script>"


def test_the_summary_has_the_table_and_the_failures_as_the_console_tells_them(run: RunReport) -> None:
    text = markdown(run, CRASHES)
    assert text.startswith("## tileproof: 3 passed, 2 failed, 1 without a verdict, 6 not run\n")
    assert "| `ninfer_quantize` | sim | 3 | 2 | 1 | 0 |" in text
    assert "| `ninfer_quantize` | gpu | 0 | 0 | 0 | 6 |" in text
    assert "FAIL  ninfer_quantize  mismatch in codes" in text
    assert "\\<script\\>" in text
    assert "2 cases fail alike" in text


def test_the_page_holds_every_failure_and_case_and_no_letter_of_a_message_as_markup(run: RunReport) -> None:
    html = page(run, CRASHES)
    assert html.count("<script") == 3, "two of data, one of ours"
    assert not re.search(r"(src|href)\s*=", html), "it loads nothing"
    (failure,) = inflated(html, "data")
    assert failure["kind"] == "mismatch"
    assert failure["count"] == 2
    assert failure["mismatch"]["expected"]["raw"] != failure["mismatch"]["observed"]["raw"]
    assert failure["replay"].endswith("--crash-dir crashes")
    rows = inflated(html, "rows")
    assert len(rows) == 12
    assert sum(row[2] == "passed" for row in rows) == 3


def test_a_run_without_a_failure_says_so(tmp_path: Path) -> None:
    clean = Session(Plan(SOME, (SIM,)), CrashFolder(tmp_path), {Target.SIM: FakeRunner(right)})
    html = page(run_report(clean.events(), "a run"), CRASHES)
    assert '<h1 class="good">6 passed</h1>' in html
    assert inflated(html, "data") == []


def test_ten_thousand_failures_fit_into_five_megabytes(tmp_path: Path) -> None:
    told = events(tmp_path)
    found = next(event for event in told if isinstance(event, FindingFound))
    mismatch = found.finding.mismatch
    assert mismatch is not None
    marks = random.Random(0)
    drawn = ("rows", *("".join("..+#"[(7 * row * column + row) % 13 % 4] for column in range(64)) for row in range(16)))
    unit_maps = tuple(
        UnitMap(f"{rows} x {columns}", tuple("".join(marks.choices(" .123456789#", k=columns)) for _ in range(rows)))
        for rows, columns in ((16, 64), (8, 1), (64, 32))
    )
    units = Units("tiles of 128 x 256", "all 64 lie in lane 3", unit_maps)
    many = [
        replace(
            found,
            case=f"ninfer_quantize/fp8_quantize_rows/scalar/T{number}.K9.bf16/ties/0",
            crash=f"{number:07d}",
            finding=replace(
                found.finding,
                signature=f"s{number}",
                tensor=f"codes{number}",
                mismatch=replace(
                    mismatch, map=drawn, count=number, units=_turned(units, number) if number <= MAX_MAPS else units
                ),
            ),
        )
        for number in range(1, 10_001)
    ]
    html = page(run_report([told[0], *many, told[-1]], "a run"), CRASHES)
    assert len(html) < 5_000_000
    failures = inflated(html, "data")
    assert len(failures) == 10_000
    assert [bool(one["mismatch"]["map"]) for one in (failures[0], failures[MAX_MAPS])] == [True, False]
    shown = [one["mismatch"]["units"] for one in (failures[0], failures[MAX_UNIT_MAPS])]
    assert [bool(one["maps"]) for one in shown] == [True, False]
    assert shown[1]["where"] == "all 64 lie in lane 3", "the words stay"


def _turned(units: Units, by: int) -> Units:
    """Other maps of the same marks, so that they do not deflate as one."""
    maps = (UnitMap(one.head, tuple(_from(row, by) for row in _from(one.rows, by))) for one in units.maps)
    return replace(units, maps=tuple(maps))


def _from(items: Any, by: int) -> Any:
    return items[by % len(items) :] + items[: by % len(items)]


def test_a_finding_whose_crash_file_is_lost_names_none(tmp_path: Path) -> None:
    told = list(events(tmp_path))
    found = next(event for event in told if isinstance(event, FindingFound))
    lost = [*told[:-1], CrashFileFailed(found.case, found.crash, "disk full"), told[-1]]
    assert "no crash file could be kept" in markdown(run_report(lost, "a run"), CRASHES)


def test_a_run_that_was_cut_short_is_told_as_such(tmp_path: Path) -> None:
    told = events(tmp_path)[:8]
    assert any(isinstance(event, CaseErrored | CaseStarted) for event in told)
    assert run_report(told, "a run").verdict.endswith("; the run was cut short")


def test_the_command_writes_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.ndjson"
    with EventFile(file) as sink:
        for event in events(tmp_path):
            sink.receive(event)
    wanted = {option: tmp_path / f"report{option}" for option in ("--html", "--junit", "--markdown")}
    assert main(["report", str(file), *(str(part) for pair in wanted.items() for part in pair)]) == 0
    assert all(path.stat().st_size > 500 for path in wanted.values())
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr().out.startswith("## tileproof: 3 passed")


@pytest.mark.parametrize("text", ["", "{}", "not json\n", '{"event": "run-finished"}\n', "\x00\xff"])
def test_a_file_that_is_no_run_is_refused_in_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.ndjson"
    file.write_text(text)
    assert main(["report", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
