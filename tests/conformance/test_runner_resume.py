"""A run that was interrupted goes on where it ended, and comes to the verdict of one run."""

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from runner_fakes import GPU, SIM, FakeRunner, wrong_on

from tileproof.conformance import environment
from tileproof.conformance.cli import main
from tileproof.conformance.cli_run import follow, resumed
from tileproof.conformance.console import Console
from tileproof.conformance.contract import Tier
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import (
    CaseExplained,
    CaseFinished,
    Event,
    EventFile,
    FindingFound,
    RunFinished,
    RunStarted,
    event_line,
    read_events,
)
from tileproof.conformance.registry import contracts
from tileproof.conformance.resume import read_before
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.side_by_side import Helpers, SideBySide
from tileproof.conformance.target import Target
from tileproof.conformance.waivers.waiver import Waiver
from tileproof.oracle.refusal import Refusal

SMOKE = tuple(contracts()["ninfer_quantize"].cases(Tier.SMOKE))
CASES = SMOKE[:6]
SMALL = tuple(case for case in SMOKE if case.shape.size("T") * case.shape.size("K") < 100)[:4]
BAD = str(CASES[1])


def run(plan: Plan, folder: Path, path: Path, there: int = 0) -> tuple[int, FakeRunner]:
    runner = FakeRunner(wrong_on(BAD))
    session = Session(plan, CrashFolder(folder), {Target.SIM: runner})
    return follow(session, Console(crashes=folder), path, there), runner


def told(path: Path) -> list[Event]:
    return list(read_events(path))


def outline(events: list[Event]) -> list[object]:
    """What one run and two in a row must have in common: all but times, and why, which is told once a process."""
    kept: list[object] = []
    for event in events:
        if isinstance(event, RunFinished | CaseFinished):
            kept.append(replace(event, seconds=0.0))
        elif not isinstance(event, CaseExplained):
            kept.append(event)
    return kept


@pytest.mark.parametrize("torn", [0, 1, 40])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95, 1.0])
def test_wherever_a_file_ends_the_run_that_goes_on_is_as_one_run(tmp_path: Path, share: float, torn: int) -> None:
    plan = Plan(CASES, (SIM,))
    whole, cut = tmp_path / "whole.ndjson", tmp_path / "cut.ndjson"
    code, _ = run(plan, tmp_path / "a", whole)
    lines = whole.read_text().splitlines(keepends=True)
    kept = max(1, int(len(lines) * share))
    rest = lines[kept][:torn] if kept < len(lines) else ""
    cut.write_text("".join(lines[:kept]) + rest)
    left, path, there = resumed(plan, cut, None)
    again, runner = run(left, tmp_path / "b", path, there)
    assert again == code == 1
    assert outline(told(cut)) == outline(told(whole))
    decided = {event.case for event in map(_event, lines[:kept]) if isinstance(event, CaseFinished)}
    assert {str(job.case) for job in runner.jobs} == set(map(str, CASES)) - decided


def test_the_file_has_the_marks_of_the_waivers_that_hold_today(tmp_path: Path) -> None:
    plan, path = Plan(CASES, (SIM,)), tmp_path / "run.ndjson"
    known = Waiver(1, BAD, "known", date.today(), CASES[1])
    for waivers, code in (((), 1), ((known,), 0), ((), 1)):
        left, file, there = resumed(replace(plan, waivers=waivers), path, None) if path.exists() else (plan, path, 0)
        assert run(left, tmp_path, file, there)[0] == code
        ends = {event.case: event.waived for event in told(path) if isinstance(event, CaseFinished)}
        assert ends == {str(case): str(case) == BAD and code == 0 for case in CASES}


def test_what_was_decided_is_told_in_a_new_file_where_one_is_named(tmp_path: Path) -> None:
    plan = Plan(CASES, (SIM,))
    old, new = tmp_path / "old.ndjson", tmp_path / "new.ndjson"
    run(plan, tmp_path / "a", old)
    before = old.read_bytes()
    left, path, there = resumed(plan, old, new)
    assert (path, there) == (new, 0)
    _, runner = run(left, tmp_path / "b", path, there)
    assert not runner.jobs
    assert old.read_bytes() == before
    assert outline(told(new)) == outline(told(old))


def test_a_case_that_did_not_run_on_every_target_is_run_again(tmp_path: Path) -> None:
    start = Plan(CASES, (SIM, GPU)).start
    path = tmp_path / "run.ndjson"
    one, two = map(str, CASES[:2])

    def ended(case: str, target: Target) -> CaseFinished:
        return CaseFinished(case, target, True, "vector", 0.1, "d")

    events: list[Event] = [start, ended(one, Target.SIM), ended(one, Target.GPU), ended(two, Target.SIM)]
    path.write_text("".join(map(event_line, events)))
    assert read_before(path).cases == {one}
    path.write_text("".join(map(event_line, events[:3])))
    assert read_before(path).cases == set(), "the file may have been torn before the targets were compared"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"fault": "divide"}, "the fault"),
        ({"tier": "full"}, "the tier"),
        ({"coordinates": (replace(SIM, seed=3),)}, "the targets"),
        ({"cases": CASES[:5]}, "other cases"),
        ({"page": "p.py"}, "the page"),
    ],
)
def test_another_run_is_refused_by_what_differs(tmp_path: Path, change: dict[str, object], what: str) -> None:
    plan = Plan(CASES, (SIM,))
    path = tmp_path / "run.ndjson"
    path.write_text(event_line(plan.start))
    with pytest.raises(Refusal, match=what):
        resumed(replace(plan, **change), path, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tileproof", "git", "nvrtc"])
def test_another_version_is_refused_by_name(tmp_path: Path, name: str) -> None:
    plan = Plan(CASES, (SIM,))
    start = plan.start
    path = tmp_path / "run.ndjson"
    path.write_text(event_line(replace(start, environment=replace(start.environment, **{name: "other"}))))
    with pytest.raises(Refusal, match=f"{name} 'other'"):
        resumed(plan, path, None)


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ("0123456789ab clean", "fedcba987654 clean", "only the commit changed.*git checkout 0123456789ab"),
        ("0123456789ab clean", "0123456789ab modified 01234567", "only files without a commit changed.*git stash"),
    ],
)
def test_where_the_checkout_alone_has_changed_the_hint_says_so(tmp_path: Path, then: str, now: str, words: str) -> None:
    start = Plan(CASES, (SIM,)).start
    before, after = (replace(start, environment=replace(start.environment, git=git)) for git in (then, now))
    path = tmp_path / "run.ndjson"
    path.write_text(event_line(before))
    with pytest.raises(Refusal) as caught:
        read_before(path).must_be(after, map(str, CASES))
    assert re.search(words, caught.value.hint)
    with pytest.raises(Refusal) as caught:
        read_before(path).must_be(replace(after, fault="divide"), map(str, CASES))
    assert "only" not in caught.value.hint, "the fault differs, too"


def test_an_old_or_damaged_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(CASES, (SIM,))
    path = tmp_path / "run.ndjson"
    line = json.loads(event_line(plan.start))
    del line["selection"]
    for text, message in (
        ("", "does not begin with a run's start"),
        (event_line(CaseFinished(BAD, Target.SIM, True, "vector", 0.1, "d")), "does not begin with a run's start"),
        (event_line(plan.start) + "\n" + event_line(plan.start), "2"),
        (json.dumps(line) + "\n", "does not say which cases"),
    ):
        path.write_text(text)
        with pytest.raises(Refusal, match=message):
            resumed(plan, path, None)
    assert main(["check", str(SMALL[0]), "--resume", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_command_goes_on_in_the_file_in_one_process_and_in_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = list(map(str, SMALL))
    path, crashes = tmp_path / "run.ndjson", ["--crash-dir", str(tmp_path / "crashes")]
    fault = ["--fault", "tail-not-written"]
    code = main(["check", *ids, *fault, "--events", str(path), *crashes])
    whole = outline(told(path))
    lines = path.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines[: len(lines) // 2]) if '"case-finished"' in line)
    path.write_text("".join(lines[: last + 1]))
    assert main(["check", *ids, *fault, "--resume", str(path), *crashes]) == code
    assert outline(told(path)) == whole
    path.write_text("".join(lines[: last + 1]))
    assert main(["check", *ids, *fault, "--resume", str(path), "--jobs", "2", *crashes]) == code
    assert Counter(map(str, _endings(outline(told(path))))) == Counter(map(str, _endings(whole)))
    capsys.readouterr()


def test_several_processes_that_have_nothing_left_to_do_start_none(tmp_path: Path) -> None:
    plan = Plan(CASES, (SIM,))
    done = tuple(CaseFinished(str(case), Target.SIM, True, "vector", 0.1, "d") for case in CASES)
    side = SideBySide(replace(plan, before=done), Helpers(2, tmp_path))
    events = list(side.events())
    assert not side._processes
    assert isinstance(events[-1], RunFinished)
    assert (events[-1].counts[0].passed, events[-1].exit_code) == (len(CASES), 0)


def _endings(events: list[object] | list[Event]) -> list[object]:
    return [event for event in events if isinstance(event, RunStarted | CaseFinished | FindingFound)]


def _event(line: str) -> Event:
    from tileproof.conformance.events import read_event

    return read_event(line.encode(), "here")


def test_a_file_that_tells_a_case_twice_or_one_of_another_run_is_refused(tmp_path: Path) -> None:
    plan = Plan(CASES, (SIM,))
    path = tmp_path / "run.ndjson"
    start = event_line(plan.start)
    ended = event_line(CaseFinished(BAD, Target.SIM, True, "vector", 0.1, "d"))
    for text, message in (
        (start + ended + ended, "ends twice on sim"),
        (start + ended + start, "a second run begins in it"),
        (start + ended.replace("/T", "/T9"), "which its run did not select"),
    ):
        path.write_text(text)
        with pytest.raises(Refusal, match=message):
            resumed(plan, path, None)
        assert path.read_text() == text


def test_two_states_of_a_checkout_that_is_modified_have_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "conformance" / "environment.py"
    package.parent.mkdir()
    package.write_text("one\n")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "m")):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.setattr(environment, "__file__", str(package))
    states = [environment._git_state()]
    for text in (b"two\n", b"three \xff\n"):
        package.write_bytes(text)
        states.append(environment._git_state())
    assert len(set(states)) == 3
    assert [state.split()[1] for state in states] == ["clean", "modified", "modified"]


def test_a_run_that_still_goes_on_is_not_taken_over(tmp_path: Path) -> None:
    plan = Plan(CASES, (SIM,))
    path = tmp_path / "run.ndjson"
    with EventFile(path) as going:
        going.receive(plan.start)
        with pytest.raises(Refusal, match="another run is writing it"):
            resumed(plan, path, None)
    assert told(path) == [plan.start]
    assert resumed(plan, path, None)[1:] == (path, 1)
