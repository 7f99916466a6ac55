"""Runs without an end: other seeds in every pass, each failure with a command of its own, and ends that are no loss."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runner_fakes import OTHER, SIM, SMALL, FakeRunner, broken, right, told_by, wrong

from tileproof.conformance.cli import main
from tileproof.conformance.cli_run import follow, resumed
from tileproof.conformance.console import Console
from tileproof.conformance.crash import CrashFolder, read_crash
from tileproof.conformance.events import (
    CaseFinished,
    CaseNotRun,
    FindingFound,
    PassStarted,
    RunFinished,
    RunStarted,
    read_events,
)
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import CaseResult
from tileproof.conformance.session import Plan, Run, Session
from tileproof.conformance.soak import Soak, ids_of_passes, pass_of
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Job

CASES = (find_case(SMALL), find_case(OTHER), replace(find_case(OTHER), seed=2))
PLAN = Plan(CASES, (replace(SIM, seed=7),), "soak")


class Until:
    """Behaves until so many jobs have run; then Ctrl-C."""

    def __init__(self, jobs: int, behaviour: Any = right) -> None:
        self.left = jobs
        self.behaviour = behaviour
        self.jobs: list[Job] = []

    def __call__(self, job: Job) -> CaseResult:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.jobs.append(job)
        result: CaseResult = self.behaviour(job)
        return result


def soak(folder: Path, behaviour: Any, plan: Plan = PLAN) -> Soak:
    def make(one: Plan) -> Run:
        return Session(one, CrashFolder(folder), {Target.SIM: FakeRunner(behaviour)})

    return Soak(plan, make)


def test_no_pass_has_a_seed_of_another_whatever_seeds_its_cases_have(tmp_path: Path) -> None:
    runs = Until(12)
    told_by(soak(tmp_path, runs))
    assert len({str(job.case) for job in runs.jobs}) == 12
    assert [job.coordinates.seed for job in runs.jobs] == [7] * 3 + [8] * 3 + [9] * 3 + [10] * 3
    assert [job.case.seed for job in runs.jobs] == [0, 0, 2, 3, 3, 5, 6, 6, 8, 9, 9, 11]


def test_a_pass_is_told_and_the_first_one_is_the_run_as_it_stands(tmp_path: Path) -> None:
    told = told_by(soak(tmp_path, Until(7)))
    assert isinstance(told[0], RunStarted)
    assert told[0].targets == PLAN.coordinates
    passes = [event for event in told if isinstance(event, PassStarted)]
    assert [(one.number, one.cases, one.targets[0].seed) for one in passes] == [(1, 3, 8), (2, 3, 9)]


@pytest.mark.parametrize(
    ("jobs", "behaviour", "code", "is_interrupted"),
    [(2, right, 2, True), (4, right, 0, False), (4, wrong, 1, False), (3, right, 0, False)],
)
def test_ctrl_c_ends_it_with_a_verdict_once_every_case_has_run(
    jobs: int, behaviour: Any, code: int, is_interrupted: bool, tmp_path: Path
) -> None:
    told = told_by(soak(tmp_path, Until(jobs, behaviour)))
    end = told[-1]
    assert isinstance(end, RunFinished)
    assert (end.exit_code, end.interrupted) == (code, is_interrupted)
    left = [event for event in told if isinstance(event, CaseNotRun)]
    assert len(left) == max(0, len(CASES) - jobs)


def test_a_failure_of_a_later_pass_says_where_and_how_to_run_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = str(pass_of(PLAN, 2).cases[1])
    runs = Until(9, lambda job: wrong(job) if str(job.case) == late else right(job))
    run = soak(tmp_path, runs)
    assert follow(run, Console(crashes=tmp_path), None) == 1
    out = capsys.readouterr().out
    assert "on     sim (sm_90a, schedule friendly, seed 9)" in out
    assert f"tileproof check {late} --target sim --arch sm_90a --schedule friendly --seed 9" in out
    assert "4 passes begun, each with other seeds" in out
    crash = re.search(r"tileproof replay (\w+)", out)
    assert crash is not None
    record, _ = read_crash(tmp_path / f"{crash[1]}.json")
    assert (record.case, record.coordinates[0].seed) == (late, 9)


def test_a_soak_that_ended_goes_on_where_it_was_and_runs_nothing_twice(tmp_path: Path) -> None:
    path, crashes = tmp_path / "run.ndjson", tmp_path / "crashes"
    first = Until(5)
    assert follow(soak(crashes, first), Console(), path) == 0
    plan, events, there = resumed(PLAN, path, None, ids_of_passes)
    second = Until(6)
    assert follow(soak(crashes, second, plan), Console(), events, there) == 0
    ran = Counter(str(job.case) for job in (*first.jobs, *second.jobs))
    assert ran == Counter(str(case) for number in range(4) for case in pass_of(PLAN, number).cases[: 3 - (number == 3)])
    told = list(read_events(path))
    assert Counter(event.case for event in told if isinstance(event, CaseFinished)) == ran
    assert isinstance(told[-1], RunFinished)
    assert told[-1].counts[0].passed == 11


def test_the_first_failure_ends_it_in_any_pass(tmp_path: Path) -> None:
    late = str(pass_of(PLAN, 1).cases[0])
    plan = replace(PLAN, first_failure=True)
    told = told_by(soak(tmp_path, lambda job: wrong(job) if str(job.case) == late else right(job), plan))
    assert sum(isinstance(event, CaseFinished) for event in told) == 4
    assert [event.places[0].seed for event in told if isinstance(event, FindingFound)] == [8]


@pytest.mark.parametrize("missing", ["no device", ""])
def test_where_no_case_comes_to_a_verdict_it_ends_after_one_pass(missing: str, tmp_path: Path) -> None:
    run = Soak(
        PLAN, lambda plan: Session(plan, CrashFolder(tmp_path), {Target.SIM: FakeRunner(broken, missing=missing)})
    )
    told = told_by(run)
    assert isinstance(told[-1], RunFinished)
    assert told[-1].exit_code == 2
    assert not any(isinstance(event, PassStarted) for event in told)


@pytest.mark.slow
def test_the_command_goes_on_until_its_budget_is_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.ndjson"
    arguments = ["check", "--tier", "soak", SMALL, "--events", str(path), "--crash-dir", str(tmp_path / "crashes")]
    assert main([*arguments, "--budget", "2"]) == 0
    first = sum(isinstance(event, CaseFinished) for event in read_events(path))
    assert first > 2
    arguments[arguments.index("--events")] = "--resume"
    assert main([*arguments, "--budget", "1"]) == 0
    told = list(read_events(path))
    ended = [event.case for event in told if isinstance(event, CaseFinished)]
    assert len(ended) > first
    assert len(set(ended)) == len(ended)
    assert "passes begun" in capsys.readouterr().out
    last = next(event for event in reversed(told) if isinstance(event, PassStarted))
    assert last.targets == (Coordinates(Target.SIM, seed=last.number),)
