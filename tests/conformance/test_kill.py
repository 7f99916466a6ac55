"""Whatever ends a run, kills a part of it or takes its memory or its disk: no case is lost and nothing ends in a trace.

Lost is a case that was selected and stands in the events neither as passed nor failed, without a verdict or not run.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import runner_fakes
from runner_fakes import GPU

from tileproof.conformance.cli import main
from tileproof.conformance.contract import Tier
from tileproof.conformance.crash import CrashFolder, Status, read_crash
from tileproof.conformance.events import (
    CaseErrored,
    CaseFinished,
    CaseNotRun,
    Event,
    FindingFound,
    RunFinished,
    RunStarted,
    event_line,
    read_events,
)
from tileproof.conformance.history import History
from tileproof.conformance.registry import contracts
from tileproof.conformance.replay import Outcome, replay
from tileproof.conformance.resume import read_before
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target
from tileproof.conformance.worker import InProcess, Worker

SMOKE = tuple(contracts()["ninfer_quantize"].cases(Tier.SMOKE))
SMALL = tuple(case for case in SMOKE if case.shape.size("T") * case.shape.size("K") < 200)[:16]
IDS = tuple(map(str, SMALL))
PATIENCE_S = 120.0
"""For a process to come to what a test waits for; a loaded machine takes its time."""


def start(folder: Path, *arguments: str, limit: Callable[[], None] | None = None) -> "subprocess.Popen[str]":
    """The command line as a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-m", "tileproof.conformance", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    )


def wait_for(path: Path, word: str, times: int, process: "subprocess.Popen[str]") -> None:
    """Until a file has a word so often."""
    end = time.monotonic() + PATIENCE_S
    while not path.exists() or path.read_text().count(word) < times:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def interrupt(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Ctrl-C, which reaches the whole group: exit code, stdout, stderr."""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    end = time.monotonic() + PATIENCE_S
    while _lives(process.pid):
        assert time.monotonic() < end, "a process of the group outlives the run"
        time.sleep(0.05)
    return process.returncode, out, err


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def endings(events: Sequence[Event]) -> Counter[str]:
    return Counter(event.case for event in events if isinstance(event, CaseFinished | CaseErrored | CaseNotRun))


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_ctrl_c_ends_a_run_and_leaves_no_case_out(tmp_path: Path, jobs: str) -> None:
    path = tmp_path / "run.ndjson"
    process = start(tmp_path, "check", *IDS, "--jobs", jobs, "--events", str(path))
    wait_for(path, '"case-finished"', 2, process)
    code, out, err = interrupt(process)
    events = list(read_events(path))
    assert code == 2
    assert "Traceback" not in out + err
    assert endings(events) == Counter(IDS)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].interrupted
    assert "interrupted" in out
    assert not list(tmp_path.glob(".tileproof/crashes/*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_a_search_with_what_it_has_found(tmp_path: Path, jobs: str) -> None:
    path = tmp_path / "run.ndjson"
    process = start(tmp_path, "fuzz", "metainfer_pack", "--seconds", "100", "--jobs", jobs, "--events", str(path))
    wait_for(path, '"case-finished"', 1, process)
    code, out, err = interrupt(process)
    events = list(read_events(path))
    assert code == 2
    assert "Traceback" not in out + err
    assert isinstance(events[-1], RunFinished)
    assert events[-1].interrupted
    assert not list((tmp_path / ".tileproof").glob("crashes/*")), "no trial's crash file is left behind"


@pytest.mark.slow
def test_ctrl_c_ends_a_campaign_of_mutants_which_then_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.ndjson"
    arguments = ("mutate", "int8_pack", "--sample", "8", "--jobs", "2", "--results", str(path), "--deeper", "0")
    process = start(tmp_path, *arguments)
    wait_for(path, "\n", 1, process)
    code, out, err = interrupt(process)
    assert code != 0
    assert "Traceback" not in out + err, err
    before = path.read_text().count("\n")
    process = start(tmp_path, *arguments)
    out, err = process.communicate(timeout=2 * PATIENCE_S)
    assert "Traceback" not in out + err
    assert 1 <= before <= path.read_text().count("\n") == 8


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.ndjson"
    arguments = ["check", *IDS, "--events", str(path), "--crash-dir", str(tmp_path / "crashes")]
    process = start(tmp_path, *arguments)
    wait_for(path, '"case-finished"', 3, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(read_before(path).cases) >= 3
    assert main(["check", *IDS, "--resume", str(path), "--crash-dir", str(tmp_path / "crashes")]) == 0
    events = list(read_events(path))
    assert endings(events) == Counter(IDS)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].counts[0].passed == len(IDS)
    assert not list((tmp_path / "crashes").glob("*.json")), "the case that was running passed in the end"
    capsys.readouterr()


@pytest.mark.slow
def test_kernels_that_crash_hang_corrupt_or_exhaust_take_no_other_case_with_them(tmp_path: Path) -> None:
    troubles = len(runner_fakes.TROUBLES)
    cases = SMALL[:troubles]
    worker = Worker(partial(runner_fakes.troubled, tmp_path), deadline_s=4.0)
    session = Session(Plan(cases, (GPU,)), CrashFolder(tmp_path / "crashes"), {Target.GPU: worker})
    try:
        events = list(session.events())
    finally:
        session.close()
    assert endings(events) == Counter(map(str, cases))
    kinds = {event.case: event.finding.signature for event in events if isinstance(event, FindingFound)}
    errors = {event.case for event in events if isinstance(event, CaseErrored)}
    named = dict(zip(runner_fakes.TROUBLES, map(str, cases), strict=True))
    assert "7" in kinds[named["exits"]]
    assert kinds[named["hangs"]] == "timeout"
    assert kinds[named["corrupts"]] == "crash/CUDA_ERROR_ILLEGAL_ADDRESS"
    assert "Killed" in kinds[named["is killed"]]
    assert errors == {named["exhausts memory"]}
    assert named["runs"] not in kinds
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 1
    for path in (tmp_path / "crashes").glob("*.json"):
        again = replay(path, {Target.GPU: InProcess(runner_fakes.simulated)})
        assert again.outcome is Outcome.FIXED, again.reason


def _no_more_than(kind: int, amount: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (amount, amount))


def test_a_full_disk_under_everything_leaves_the_verdict_and_no_half_file(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    some = [one for one in IDS if "/T2.K9." in one or "/T2.K7." in one]
    fault = ["--fault", "tail-not-written"]
    limit = _no_more_than(resource.RLIMIT_FSIZE, 1500)
    process = start(tmp_path, "check", *some, *fault, "--events", str(path), limit=limit)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "fault tail-not-written caught" in out
    assert "Traceback" not in out + err
    assert f"error: {path}: cannot be written: File too large" in err
    assert "warning: crash file" in err
    assert path.stat().st_size <= 1500
    left = list(tmp_path.glob(".tileproof/crashes/*"))
    assert {file.suffix for file in left} <= {".json"}, "what could not be written whole is not there"
    assert {read_crash(file)[0].status for file in left} <= {Status.LAUNCHED}, "what was there before stays"
    assert read_before(path).start.cases == len(some), "what fitted can be read, and gone on with"


@pytest.mark.parametrize(
    "option", ["--junit", *(pytest.param(one, marks=pytest.mark.slow) for one in ("--html", "--markdown"))]
)
def test_a_full_disk_under_a_report_is_one_line(tmp_path: Path, option: str) -> None:
    path = tmp_path / "run.ndjson"
    cases = [str(case) for case in SMOKE]
    events: list[Event] = [
        Plan(SMOKE, (runner_fakes.SIM,)).start,
        *(CaseErrored(case, Target.SIM, "", f"no verdict {case}") for case in cases),
    ]
    path.write_text("".join(map(event_line, events)))
    process = start(tmp_path, "report", str(path), option, "out", limit=_no_more_than(resource.RLIMIT_FSIZE, 1000))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "Traceback" not in out + err
    assert err.startswith("error: out")


@pytest.mark.parametrize(
    ("limit", "begun"),
    [(1000, True), *(pytest.param(one, False, marks=pytest.mark.slow) for one in (1000, 20_000))],
)
def test_a_full_disk_under_the_history_is_one_line_and_takes_nothing_in(
    tmp_path: Path, limit: int, begun: bool
) -> None:
    path, db = tmp_path / "run.ndjson", tmp_path / "history.duckdb"
    told: list[Event] = [Plan(SMOKE, (runner_fakes.SIM,)).start]
    told += (CaseErrored(str(case), Target.SIM, "", f"no verdict {case}" * 20) for case in SMOKE)
    path.write_text("".join(map(event_line, told)))
    if begun:
        with History(db) as history:
            assert not history.runs()
    process = start(
        tmp_path, "history", "add", str(path), "--db", str(db), limit=_no_more_than(resource.RLIMIT_FSIZE, limit)
    )
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert not out
    assert err.startswith(f"error: {db}: cannot be ")
    assert "internal" not in err
    assert len(err.splitlines()) == 2
    with History(db) as history:
        assert not history.runs()
        assert history.add(path)


@pytest.mark.slow
def test_too_little_memory_for_one_case_leaves_the_others_their_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    vast = "ninfer_quantize/fp8_quantize_rows/vector/T4000.K400000.f32/random-bits/0"
    limit = _no_more_than(resource.RLIMIT_AS, 6 << 30)
    process = start(tmp_path, "check", vast, *IDS[:2], "--events", str(path), limit=limit)
    out, err = process.communicate(timeout=PATIENCE_S)
    events = list(read_events(path))
    assert endings(events) == Counter([vast, *IDS[:2]])
    (lost,) = (event for event in events if isinstance(event, CaseErrored))
    assert lost.case == vast
    assert "more memory than this machine gives" in lost.message
    assert sum(isinstance(event, CaseFinished) and event.passed for event in events) == 2
    assert process.returncode == 2
    assert "Traceback" not in out + err
    assert isinstance(events[0], RunStarted)
