"""Runs held against each other: every kind of change is told apart, and only what is worse fails the comparison."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.cli_compare import told
from tileproof.conformance.environment import capture
from tileproof.conformance.events import (
    CaseErrored,
    CaseFinished,
    CaseNotRun,
    Event,
    EventFile,
    FindingFound,
    RunStarted,
)
from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.reports.comparison import Change, common_form, compare_runs
from tileproof.conformance.reports.run_report import RunReport, run_report
from tileproof.conformance.target import Coordinates, Target

CASES = [f"ninfer_quantize/fp8_quantize_rows/scalar/T{rows}.K9.bf16/ties/0" for rows in range(1, 9)]
HERE = capture()
SIM = Coordinates(Target.SIM)


def case_events(case: str, how: str) -> list[Event]:
    """`p`, `p2` passed with one of two digests, `f`, `g` failed with one of two signatures, `e` error, `n` not run."""
    if how in ("p", "p2"):
        return [CaseFinished(case, Target.SIM, True, "scalar", 0.1, f"digest of {how}")]
    if how in ("f", "g"):
        finding = Finding(FindingKind.MISMATCH, "codes differ", f"mismatch/{how}")
        found = FindingFound(case, (Target.SIM,), "ABC", finding)
        return [found, CaseFinished(case, Target.SIM, False, "scalar", 0.1, how)]
    if how == "e":
        return [CaseErrored(case, Target.SIM, "", "broken")]
    return [CaseNotRun(case, Target.SIM, "no device")] if how == "n" else []


def run(endings: Sequence[str], commit: str) -> tuple[Event, ...]:
    start = RunStarted("smoke", len(endings), (SIM,), None, replace(HERE, git=commit))
    return (start, *(event for case, how in zip(CASES, endings, strict=False) for event in case_events(case, how)))


def runs(*rows: tuple[str, Sequence[str]]) -> list[RunReport]:
    return [run_report(run(endings, commit), commit) for commit, endings in rows]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("p", "p", None),
        ("p", "f", Change.NEW),
        ("f", "p", Change.FIXED),
        ("f", "f", Change.SAME),
        ("f", "g", Change.OTHER),
        ("p", "p2", Change.BYTES),
        ("p", "e", Change.LOST),
        ("p", "n", Change.LOST),
        ("p", "", Change.REMOVED),
        ("", "f", Change.ADDED),
        ("n", "f", Change.ADDED),
        ("", "p", None),
        ("n", "e", None),
    ],
)
def test_a_change_between_two_commits_is_named(before: str, after: str, change: Change | None) -> None:
    comparison = compare_runs(runs(("old", [before]), ("new", [after])))
    assert [one.change for one in comparison.changed] == ([] if change is None else [change])
    assert comparison.is_regression == (change in (Change.NEW, Change.OTHER, Change.ADDED))


@pytest.mark.parametrize("pair", [("p", "f"), ("f", "p"), ("p", "p2"), ("f", "g")])
def test_a_difference_between_runs_of_one_commit_is_unstable(pair: tuple[str, str]) -> None:
    comparison = compare_runs(runs(*(("same", [how]) for how in pair)))
    assert [one.change for one in comparison.changed] == [Change.UNSTABLE]
    assert comparison.is_regression


def test_a_case_without_a_verdict_in_one_of_two_like_runs_is_not_unstable() -> None:
    assert [one.change for one in compare_runs(runs(("same", ["p"]), ("same", ["e"]))).changed] == [Change.LOST]


@pytest.mark.parametrize(("history", "unstable"), [("pfp", True), ("fpf", True), ("ppf", False), ("ffp", False)])
def test_a_verdict_that_comes_back_is_unstable(history: str, unstable: bool) -> None:
    comparison = compare_runs(runs(*((f"commit {at}", [how]) for at, how in enumerate(history))))
    assert [one.change is Change.UNSTABLE for one in comparison.changed] == [unstable]


def test_cases_that_change_alike_are_told_with_what_they_share() -> None:
    comparison = compare_runs(runs(("old", "pppp"), ("new", "fpff")))
    lines = told(comparison)
    form = "contract ninfer_quantize, kernel fp8_quantize_rows, route scalar, K 9, type bf16, inputs ties"
    assert f"fails anew: 3 cases; all have {form}" in lines
    assert f"      {CASES[0]} on sim: passed, failed" in lines
    assert common_form([CASES[0]]) == ""
    assert (
        common_form([CASES[0], "astrai_quantize/fp8_quantize_tensor/vector/R8.C6.B1.S4.W2.f32re4m3/specials/0"]) == ""
    )


def write(path: Path, events: Sequence[Event]) -> str:
    with EventFile(path) as file:
        for event in events:
            file.receive(event)
    return str(path)


def test_the_exit_code_is_1_only_where_something_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, bad = write(tmp_path / "old", run("pf", "old")), write(tmp_path / "bad", run("ff", "new"))
    good = write(tmp_path / "good", run("pp", "new"))
    assert main(["compare", old, bad]) == 1
    assert capsys.readouterr().out.endswith("something is worse\n")
    assert main(["compare", old, good]) == 0
    assert "fixed: 1 case" in capsys.readouterr().out
    assert main(["compare", old]) == 2
    assert main(["compare", old, str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0"], 0),
        (["--fault", "ties-away", "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0"], 1),
        (["no/such/case"], 125),
    ],
)
def test_a_check_that_git_searches_by_skips_a_commit_without_a_verdict(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bisect", "--schedule", "friendly", *arguments]) == code
