import io
from dataclasses import replace
from pathlib import Path

import pytest
import runner_fakes as fakes
from runner_fakes import GPU, OTHER, SIM, SMALL, FakeRunner, small_case

from tileproof.conformance.console import MAX_FAILURES, MAX_NOTES, Console
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.environment import capture
from tileproof.conformance.events import CaseFinished, Event, FindingFound, RunFinished, RunStarted
from tileproof.conformance.faults import fault
from tileproof.conformance.finding import Finding, FindingKind, Place
from tileproof.conformance.gathering import gather
from tileproof.conformance.registry import find_case
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def events_of(tmp_path: Path) -> list[Event]:
    plan = Plan((small_case(), find_case(OTHER)), (SIM,), tier="smoke")
    session = Session(plan, CrashFolder(tmp_path), {Target.SIM: FakeRunner(fakes.wrong)})
    return [_steady(event) for event in session.events()]


def _steady(event: Event) -> Event:
    if isinstance(event, RunStarted):
        return replace(event, environment=replace(capture(), tileproof="9.9.9"))
    return replace(event, seconds=1.25) if isinstance(event, RunFinished) else event


def show(events: list[Event], out: io.StringIO | None = None, err: io.StringIO | None = None) -> str:
    out = out or io.StringIO()
    console = Console(out=out, err=err or io.StringIO())
    for event in events:
        console.receive(event)
    return out.getvalue()


def test_a_failure_is_told_in_a_block_that_ends_with_its_replay(tmp_path: Path) -> None:
    text = show(events_of(tmp_path))
    assert text == (Path(__file__).parent / "failing_case.txt").read_text()


def test_colour_changes_no_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    plain = show(events_of(tmp_path))
    coloured = show(events_of(tmp_path), out=Terminal())
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    assert _without_codes(coloured) == plain


def test_no_color_is_honoured_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in show(events_of(tmp_path), out=Terminal())


def test_progress_moves_only_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a wish for colour is not a terminal
    log, screen = io.StringIO(), Terminal()
    show(events_of(tmp_path), err=log)
    assert "\x1b" not in log.getvalue()
    show(events_of(tmp_path), err=screen)
    assert "\x1b[" in screen.getvalue()


def test_the_header_stands_before_the_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    console = Console(out=screen, err=screen)
    for event in events_of(tmp_path):
        console.receive(event)
    text = screen.getvalue()
    assert text.index("tileproof ") < text.index("0/")


def test_a_narrow_terminal_cuts_the_name_and_keeps_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = Terminal()
    console = Console(out=io.StringIO(), err=screen)
    for event in events_of(tmp_path)[:-1]:
        console.receive(event)
    console.receive(RunFinished((), (), 0, 0, (), False, 1.0, 1))
    last = [line for line in _without_codes(screen.getvalue()).replace("\r", "\n").splitlines() if line.strip()][-1]
    assert "2/2" in last
    assert "2 failed" in last
    assert "ninfer_" in last
    assert len(last) <= 60


def test_progress_in_a_log_is_a_plain_line_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileproof.conformance.progress.PLAIN_INTERVAL_S", 0.0)
    log = io.StringIO()
    show(events_of(tmp_path), err=log)
    assert log.getvalue() == "1 of 2 done, 1 failed\n2 of 2 done, 2 failed\n"


def device_finding(case: str, kind: FindingKind, signature: str) -> FindingFound:
    place = Place(12, "k.cu", 3, ("block (0,0,0) thread (1,0,0)",) * 3, 8)
    return FindingFound(case, (Target.SIM,), "ABCDEFG", Finding(kind, f"about {signature}", signature, place=place))


def test_equal_signatures_are_one_failure_told_by_the_smallest_case() -> None:
    (failure,) = gather([device_finding(name, FindingKind.RACE, "race/k.cu:3") for name in (OTHER, SMALL)])
    assert failure.head.smallest.case == SMALL
    assert failure.head.cases == {SMALL, OTHER}


def test_what_follows_from_a_cause_in_the_same_cases_is_folded_into_it() -> None:
    found = [device_finding(name, FindingKind.UNINITIALISED, "u") for name in (SMALL, OTHER)]
    found += [device_finding(name, FindingKind.OUT_OF_BOUNDS, "o") for name in (SMALL, OTHER)]
    (failure,) = gather(found)
    assert failure.head.smallest.finding.kind is FindingKind.OUT_OF_BOUNDS
    assert [group.smallest.finding.kind for group in failure.also] == [FindingKind.UNINITIALISED]
    assert len(gather([*found, device_finding(small_with_seed(3), FindingKind.UNINITIALISED, "u")])) == 2


def small_with_seed(seed: int) -> str:
    return f"{SMALL.rpartition('/')[0]}/{seed}"


def test_a_device_finding_names_source_lines_and_threads(tmp_path: Path) -> None:
    start, *_, end = events_of(tmp_path)
    text = show([start, device_finding(SMALL, FindingKind.RACE, "race/k.cu:3"), end])
    assert "at     k.cu:3, PTX line 12\n" in text
    assert "by     block (0,0,0) thread (1,0,0); block (0,0,0) thread (1,0,0); and 1 more\n" in text
    assert "seen 8 times" in text


def test_at_most_twenty_failures_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    start, *_, end = events_of(tmp_path)
    many: list[Event] = [device_finding(small_with_seed(n), FindingKind.RACE, f"race/{n}") for n in range(25)]
    text = show([start, *many, end])
    assert text.count("FAIL  ") == MAX_FAILURES
    assert "5 more failures are not shown" in text


def test_a_fault_is_introduced_and_judged(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(fault("divide"), out=out, err=io.StringIO())
    for event in events_of(tmp_path):
        console.receive(event)
    assert "fault divide: divides by the scale" in out.getvalue()
    assert "precedent: " in out.getvalue()
    assert out.getvalue().endswith("fault divide caught: found mismatch; expected mismatch\n")


def test_a_fault_that_nothing_finds_is_said_to_be_missed(tmp_path: Path) -> None:
    start, *_, end = events_of(tmp_path)
    out = io.StringIO()
    console = Console(fault("divide"), out=out, err=io.StringIO())
    for event in (start, end):
        console.receive(event)
    assert out.getvalue().endswith("fault divide was NOT caught by these cases; expected mismatch\n")


def test_both_targets_are_named_where_they_differ(tmp_path: Path) -> None:
    runners = {Target.SIM: FakeRunner(fakes.right), Target.GPU: FakeRunner(fakes.unnoticed)}
    session = Session(Plan((small_case(),), (SIM, GPU)), CrashFolder(tmp_path), runners)
    text = show(list(session.events()))
    assert "on     sim (sm_90a, schedule friendly, seed 0) and gpu\n" in text
    assert "outputs of the targets: 1 compared, 1 differ" in text


def _without_codes(text: str) -> str:
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])


def noting(events: list[Event], *notes: str) -> list[Event]:
    return [replace(one, notes=notes) if isinstance(one, CaseFinished) else one for one in events]


def test_what_the_device_notes_is_told_once_with_how_many_cases_and_not_without_end(tmp_path: Path) -> None:
    events = events_of(tmp_path)
    ended = sum(isinstance(one, CaseFinished) for one in events)
    assert f"sim: note in {ended} cases: equal values, at a.cu:1\n" in show(noting(events, "equal values, at a.cu:1"))
    assert "note" not in show(events)
    many = noting(events, *map(str, range(MAX_NOTES + 2)))
    told = show(many)
    assert told.count("sim: note in ") == MAX_NOTES
    assert "2 more notes are not shown; --events FILE holds all\n" in told
