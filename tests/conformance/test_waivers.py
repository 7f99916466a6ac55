"""Waivers: what they tolerate is counted apart and never passes; once they hold no longer they fail the run."""

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from runner_fakes import OTHER, SIM, SMALL, Behaviour, FakeRunner, right, wrong, wrong_on

from tileproof.conformance import cli
from tileproof.conformance.cli import main
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import Event, FindingFound, RunFinished, WaiverFailed
from tileproof.conformance.registry import find_case
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target
from tileproof.conformance.waivers.applying import with_probes
from tileproof.conformance.waivers.waiver import Waiver, read_waivers
from tileproof.oracle.refusal import Refusal

TODAY = date.today()
THIRD = "ninfer_quantize/fp8_quantize_rows/scalar/T3.K9.bf16/ties/0"
KNOWN = Waiver(1, "*/T2.K9.*", "the first code is one too large", TODAY, find_case(SMALL))


def run(folder: Path, behaviour: Behaviour, *waivers: Waiver, cases: tuple[str, ...] = (SMALL, OTHER)) -> list[Event]:
    asked = tuple(map(find_case, cases))
    every = with_probes(asked, waivers, [Target.SIM])
    probes = tuple(case for case in every if case not in asked)
    plan = Plan(every, (SIM,), waivers=waivers, probes=probes)
    return list(Session(plan, CrashFolder(folder), {Target.SIM: FakeRunner(behaviour)}).events())


def end(events: list[Event]) -> tuple[int, int, int, int]:
    """Exit code, and how many cases passed, failed and were waived."""
    last = events[-1]
    assert isinstance(last, RunFinished)
    (count,) = last.counts
    return last.exit_code, count.passed, count.failed, count.waived


def problems(events: list[Event]) -> list[str]:
    return [event.problem for event in events if isinstance(event, WaiverFailed)]


def test_a_waived_case_is_counted_apart_and_does_not_fail_the_run(tmp_path: Path) -> None:
    events = run(tmp_path, wrong_on(SMALL), KNOWN)
    assert end(events) == (0, 1, 0, 1)
    (found,) = [event for event in events if isinstance(event, FindingFound)]
    assert found.waiver == f"waiver 1 (*/T2.K9.*), until {TODAY}: the first code is one too large"
    assert problems(events) == []


def test_what_no_waiver_takes_fails(tmp_path: Path) -> None:
    assert end(run(tmp_path, wrong, KNOWN)) == (1, 0, 1, 1)
    assert end(run(tmp_path, wrong_on(SMALL), replace(KNOWN, signature="race/*"))) == (1, 1, 1, 0)
    assert end(run(tmp_path, wrong_on(SMALL), replace(KNOWN, target=Target.GPU))) == (1, 1, 1, 0)
    assert end(run(tmp_path, wrong_on(SMALL))) == (1, 1, 1, 0)


def test_an_expired_waiver_tolerates_nothing_and_fails_the_run(tmp_path: Path) -> None:
    expired = replace(KNOWN, expires=TODAY - timedelta(1))
    events = run(tmp_path, wrong_on(SMALL), expired)
    assert end(events) == (1, 1, 1, 0)
    assert problems(events) == [f"it expired on {expired.expires}"]
    assert end(run(tmp_path, right, expired, cases=(OTHER,))) == (1, 1, 0, 0), "also where it concerns no case"


def test_a_waiver_whose_probe_passes_is_stale_and_fails_the_run(tmp_path: Path) -> None:
    events = run(tmp_path, right, KNOWN)
    assert end(events) == (1, 2, 0, 0)
    assert problems(events) == [f"it is stale: its probe {SMALL} no longer fails so"]
    other = run(tmp_path, wrong_on(SMALL), replace(KNOWN, signature="mismatch/scales/*"))
    assert problems(other) == [f"it is stale: its probe {SMALL} no longer fails so"], "fails, but otherwise"


def test_a_waiver_that_no_selected_case_needs_is_unused_and_fails_the_run(tmp_path: Path) -> None:
    wide = replace(KNOWN, cases="*/ties/*")
    events = run(tmp_path, wrong_on(SMALL), wide, cases=(OTHER, THIRD))
    assert end(events) == (1, 2, 0, 1), "the probe ran besides"
    assert problems(events) == ["it is unused: none of its 2 cases in this run fails so"]


def test_a_waiver_of_other_cases_is_not_asked(tmp_path: Path) -> None:
    events = run(tmp_path, right, KNOWN, cases=(OTHER,))
    assert end(events) == (0, 1, 0, 0)


def test_a_run_that_ends_early_calls_no_waiver_unused(tmp_path: Path) -> None:
    waiver = replace(KNOWN, cases="*/ties/*", signature="race")
    plan = Plan(tuple(map(find_case, (OTHER, THIRD, SMALL))), (SIM,), waivers=(waiver,))

    def problems_of(plan: Plan) -> list[str]:
        return problems(list(Session(plan, CrashFolder(tmp_path), {Target.SIM: FakeRunner(wrong_on(OTHER))}).events()))

    assert problems_of(replace(plan, first_failure=True)) == []
    assert problems_of(plan) == [f"it is stale: its probe {SMALL} no longer fails so"]


FILE = f"""
[[waiver]]
cases = "*/T2.K9.*"
reason = "the first code is one too large"
expires = {TODAY}
probe = "{SMALL}"
"""


def test_a_file_says_what_a_waiver_is(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(FILE)
    assert read_waivers(path) == (KNOWN,)
    path.write_text(FILE + 'target = "gpu"\nsignature = "mismatch/*"\n')
    assert read_waivers(path) == (replace(KNOWN, target=Target.GPU, signature="mismatch/*"),)
    path.write_text("")
    assert read_waivers(path) == ()


BAD = {
    "no TOML": ("[[waiver", "not readable TOML"),
    "another table": ("[waivers]\n", "'waivers' is unknown"),
    "no list": ("waiver = 3\n", "waiver is no list of tables"),
    "a list of numbers": ("waiver = [3]\n", "waiver is no list of tables"),
    "a field too many": (FILE + "ever = true\n", "waiver 1: 'ever': no such field"),
    "no reason": (FILE.replace("reason", "# reason"), "waiver 1: reason is missing"),
    "no end": (FILE.replace("expires", "# expires"), "waiver 1: expires is missing"),
    "no probe": (FILE.replace("probe", "# probe"), "waiver 1: probe is missing"),
    "a short reason": (FILE.replace("the first code is one too large", "flaky"), "says too little"),
    "a date in quotes": (FILE.replace(str(TODAY), f'"{TODAY}"'), "not a date"),
    "a time": (FILE.replace(str(TODAY), f"{TODAY}T10:00:00"), "not a date"),
    "a number for a glob": (FILE.replace('"*/T2.K9.*"', "9"), "cases is 9, not a text"),
    "another target": (FILE + 'target = "tpu"\n', "target is 'tpu'"),
    "a probe that is no case": (FILE.replace(SMALL, "a/b/c"), "waiver 1: probe: "),
    "a probe of other cases": (FILE.replace(SMALL, OTHER), "is none of its cases"),
    "no text at all": ("\ud800", "is no text"),
    "an absurd number": (f"waiver = {'9' * 5000}\n", "TOML"),
    "nested too deep": ("waiver = " + "[" * 5000, "TOML"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    path = tmp_path / "waivers.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(Refusal, match=re.escape(message)) as refusal:
        read_waivers(path)
    assert "\n" not in refusal.value.message


def test_a_bad_file_is_one_line_and_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text("[[waiver")
    assert main(["check", SMALL, "--waivers", str(path)]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "not readable TOML" in errors[0]


def test_a_file_that_cannot_be_read_or_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        read_waivers(tmp_path / "nowhere.toml")
    large = tmp_path / "large.toml"
    large.write_text("#" * (1 << 20) + "\n")
    with pytest.raises(Refusal, match="more than the 1048576 that are read"):
        read_waivers(large)


def test_waivers_beside_a_fault_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(FILE)
    assert main(["check", SMALL, "--fault", "ties-away", "--waivers", str(path)]) == 2
    assert "--waivers is given with --fault" in capsys.readouterr().err


def test_every_report_tells_what_is_waived_and_which_waiver_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "runners_for", lambda *_, **__: {Target.SIM: FakeRunner(wrong_on(SMALL))})
    stale = FILE.replace("T2.K9.", "T3.K17.").replace(SMALL, OTHER)
    Path("waivers.toml").write_text(FILE + stale)
    assert main(["check", SMALL, OTHER, "--waivers", "waivers.toml", "--events", "run.ndjson"]) == 1
    out = capsys.readouterr().out
    assert f"waived 1 case by waiver 1 (*/T2.K9.*), until {TODAY}: the first code is one too large" in out
    assert "WAIVER waiver 2 (*/T3.K17.*): it is stale" in out
    assert "sim: 1 passed, 0 failed, 1 waived, 0 not run" in out
    assert "FAIL" not in out
    told = [json.loads(line) for line in Path("run.ndjson").read_text().splitlines()]
    assert [event["waived"] for event in told if event["event"] == "case-finished"] == [True, False]
    assert [event["event"] for event in told].count("waiver-failed") == 1
    assert main(["report", "run.ndjson", "--html", "r.html", "--junit", "r.xml", "--markdown", "r.md"]) == 0
    assert "waiver 2" in Path("r.html").read_text()
    markdown = Path("r.md").read_text()
    assert "1 passed, 1 waived; 1 waivers failed" in markdown
    assert "it is stale" in markdown
    suites = ElementTree.parse("r.xml").getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("skipped")) == ("3", "1", "1")
    skipped = suites.find(".//skipped")
    assert skipped is not None
    assert "waived by waiver 1" in str(skipped.get("message"))
