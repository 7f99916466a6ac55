"""Cases in several processes, in parts, and within a budget: the verdicts of one process, and no case lost."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from runner_fakes import SIM, FakeRunner, die_at_once, right, wrong

from tileproof.conformance import processes
from tileproof.conformance.cli import main
from tileproof.conformance.contract import Tier
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import CaseErrored, CaseFinished, CaseNotRun, CaseStarted, Event, RunFinished
from tileproof.conformance.part import Part, in_turns
from tileproof.conformance.processes import MAX_DEATHS
from tileproof.conformance.registry import contracts
from tileproof.conformance.selection import select
from tileproof.conformance.session import Plan, Session, runners_for
from tileproof.conformance.side_by_side import Helpers, SideBySide
from tileproof.conformance.target import Target
from tileproof.oracle.refusal import Refusal

CASES = contracts()["ninfer_quantize"].cases(Tier.SMOKE)
SOME = tuple(case for case in CASES if case.shape.size("T") * case.shape.size("K") < 100)[:5]


def verdicts(events: list[Event]) -> dict[str, tuple[bool, str, str]]:
    return {e.case: (e.passed, e.route, e.output_digest) for e in events if isinstance(e, CaseFinished)}


def test_several_processes_give_the_verdicts_of_one_and_keep_the_events_of_a_case_together(tmp_path: Path) -> None:
    plan = Plan(SOME, (SIM,))
    alone = list(Session(plan, CrashFolder(tmp_path), runners_for(plan.coordinates, deadline_s=None)).events())
    run = SideBySide(plan, Helpers(3, tmp_path))
    together = list(run.events())
    run.close()
    assert verdicts(together) == verdicts(alone)
    assert len(verdicts(alone)) == len(SOME)
    told = [event.case for event in together if isinstance(event, CaseStarted | CaseFinished)]
    assert [len(list(same)) for _, same in itertools.groupby(told)] == [2] * len(SOME)
    assert isinstance(together[-1], RunFinished)
    assert together[-1].exit_code == 0


def test_a_process_that_is_killed_takes_only_the_verdict_of_its_case(tmp_path: Path) -> None:
    run = SideBySide(Plan(SOME, (SIM,)), Helpers(2, tmp_path))
    events: list[Event] = []
    killed = False
    for event in run.events():
        events.append(event)
        if isinstance(event, CaseFinished) and not killed:
            killed = True
            for helper in run._processes:
                helper.process.kill()
    run.close()
    ends = Counter(e.case for e in events if isinstance(e, CaseFinished | CaseErrored | CaseNotRun))
    assert ends == Counter(map(str, SOME)), "every case ends, and once"
    lost = [event for event in events if isinstance(event, CaseErrored)]
    assert lost
    assert {event.message for event in lost} == {"the process that ran it died: Killed"}
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 2


def test_processes_that_all_die_end_the_run_with_every_case_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "live", die_at_once)
    run = SideBySide(Plan(SOME, (SIM,)), Helpers(2, tmp_path))
    events = list(run.events())
    lost = [event for event in events if isinstance(event, CaseErrored)]
    assert {event.case for event in lost} == set(map(str, SOME))
    assert lost[0].message == f"{MAX_DEATHS + 1} processes died one after another; try --jobs 1"
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 2


def test_a_run_of_several_processes_stops_at_the_first_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "--fault", "e4m3-wraps", "--jobs", "2", "--first-failure", "--crash-dir", str(tmp_path)]
    assert main([*arguments, "astrai_quantize/*/vector/R1.C1.*", "astrai_quantize/*/vector/R8.C6.*"]) == 1
    out = capsys.readouterr().out
    assert "fault e4m3-wraps caught" in out
    assert "stopped at the first failure" in out


def test_parts_are_alike_disjoint_and_together_everything() -> None:
    whole = select((), Tier.SMOKE)
    parts = [Part(number, 7).of(whole) for number in range(1, 8)]
    assert sorted(map(str, itertools.chain(*parts))) == sorted(map(str, whole))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert Part().of(whole) == whole


@pytest.mark.parametrize("text", ["", "3", "0/2", "3/2", "1/0", "1/99999", "-1/2", "1/2/3", "a/b", "١/٢"])
def test_what_names_no_part_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match=r"no part|no such part"):
        Part.parse(text)


def test_an_empty_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(SOME[0]), "--shard", "2/3"]) == 2
    assert "part 2/3 of 1 cases is empty" in capsys.readouterr().err


def test_routes_come_in_turns_under_a_budget() -> None:
    whole = select((), Tier.SMOKE)
    routes = {(case.contract, case.kernel, case.route) for case in whole}
    ordered = in_turns(whole)
    assert {(case.contract, case.kernel, case.route) for case in ordered[: len(routes)]} == routes
    assert sorted(map(str, ordered)) == sorted(map(str, whole))


class Clock:
    """Seconds that pass by one with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    perf_counter = monotonic


@pytest.mark.parametrize(("behaviour", "code"), [(right, 0), (wrong, 1)])
def test_cases_beyond_the_budget_are_counted_as_not_run(
    behaviour: Any, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileproof.conformance.session.time", Clock())
    plan = Plan(SOME, (SIM,), budget_s=2.5)
    events = list(Session(plan, CrashFolder(tmp_path), {Target.SIM: FakeRunner(behaviour)}).events())
    left = [event for event in events if isinstance(event, CaseNotRun)]
    assert [event.case for event in left] == [str(case) for case in SOME[2:]]
    assert {event.reason for event in left} == {"the budget of 2.5 s was spent"}
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == code
