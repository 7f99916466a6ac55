"""A search in several processes: it finds what one finds, and what a process that dies or Ctrl-C takes is told."""

from pathlib import Path

import pytest
from runner_fakes import die_at_once, told_by

from tileproof.conformance import processes
from tileproof.conformance.cli import main
from tileproof.conformance.crash import Status, read_crash
from tileproof.conformance.events import CaseFinished, FindingFound, RunFinished, read_events
from tileproof.conformance.fuzz.campaign import MAX_LOST, ROUND, Campaign, Search
from tileproof.conformance.fuzz.round_work import Setup
from tileproof.conformance.fuzz.side_by_side import LocalCrew, Tell
from tileproof.conformance.target import Target

QUANTIZE = "ninfer_quantize"


def campaign(folder: Path, examples: int, tell: Tell, fault: str | None = None) -> tuple[Campaign, LocalCrew]:
    setup = Setup((Target.SIM,), ("sm_90a",), folder / "crashes", fault)
    crew = LocalCrew(setup, 2, tell)
    return Campaign(Search((QUANTIZE,), setup, folder / "corpus", 3, examples), crew), crew


@pytest.mark.slow
def test_a_planted_fault_is_found_by_two_processes_and_nothing_else_is_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--corpus", str(tmp_path / "corpus"), "--crash-dir", str(tmp_path / "crashes")]
    events = tmp_path / "run.ndjson"
    search = ["fuzz", QUANTIZE, "--fault", "tail-not-written", "--examples", "24", "--seed", "3", "--jobs", "2"]
    assert main([*search, *folders, "--events", str(events)]) == 1
    told = list(read_events(events))
    found = [event for event in told if isinstance(event, FindingFound)]
    assert any("/T1.K1." in event.case for event in found)
    crashes = {event.crash for event in found}
    assert {path.stem for path in (tmp_path / "crashes").iterdir()} == crashes
    assert "ninfer_quantize" in capsys.readouterr().out.partition("reached")[2]
    assert main(["replay", *sorted(crashes), *folders[2:]]) == 1


def test_a_process_that_is_killed_takes_its_round_which_is_said_with_the_trial_that_it_was_at(tmp_path: Path) -> None:
    def tell(case: str, failed: bool) -> None:
        if not run.lost and not killed:
            for one in crew._processes:
                killed.append(one.number)
                one.process.kill()

    killed: list[int] = []
    run, crew = campaign(tmp_path, ROUND + 2, tell)
    told = told_by(run)
    assert len(run.lost) == 1
    assert run.lost[0].reason.startswith("the process that played it died: Killed")
    ended = [event for event in told if isinstance(event, CaseFinished)]
    assert len(ended) == 2, "the other round is played"
    assert isinstance(told[-1], RunFinished)
    assert told[-1].exit_code == 2
    left = list((tmp_path / "crashes").iterdir())
    assert {read_crash(path)[0].status for path in left} <= {Status.LAUNCHED}
    assert all(path.stem in run.lost[0].reason for path in left)


def test_processes_that_all_die_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "live", die_at_once)
    run, _ = campaign(tmp_path, 1000, lambda case, failed: None)
    told = told_by(run)
    assert [one.reason for one in run.lost] == ["the process that played it exited with 3"] * MAX_LOST
    assert isinstance(told[-1], RunFinished)
    assert told[-1].exit_code == 2


@pytest.mark.slow
def test_on_ctrl_c_each_process_tells_what_its_round_had_found(tmp_path: Path) -> None:
    def tell(case: str, failed: bool) -> None:
        if failed:
            raise KeyboardInterrupt

    run, _ = campaign(tmp_path, 200, tell, "tail-not-written")
    told = told_by(run)
    found = [event for event in told if isinstance(event, FindingFound)]
    assert {path.stem for path in (tmp_path / "crashes").iterdir()} == {event.crash for event in found} != set()
    assert run.kept
    assert not run.lost
    assert isinstance(told[-1], RunFinished)
    assert told[-1].interrupted
