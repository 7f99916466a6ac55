import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import runner_fakes as fakes
from runner_fakes import OTHER, SMALL, Behaviour, FakeRunner

from tileproof.conformance import cli
from tileproof.conformance.events import CaseFinished, CaseNotRun, FindingFound, RunFinished, RunStarted, read_events
from tileproof.conformance.sanitizer import Tool
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Runner

NO_GPU = "CuPy cannot be imported"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def use(monkeypatch: pytest.MonkeyPatch, sim: Behaviour, gpu: Behaviour | None = None) -> dict[Target, FakeRunner]:
    """Let the command line run on fakes; without `gpu` there is no GPU."""
    runners = {
        Target.SIM: FakeRunner(sim),
        Target.GPU: FakeRunner(gpu or fakes.right, missing="" if gpu else NO_GPU),
    }

    def chosen(
        coordinates: Sequence[Coordinates], *, deadline_s: float, pages: Sequence[Path] = (), tool: Tool | None = None
    ) -> dict[Target, Runner]:
        return {place.target: runners[place.target] for place in coordinates if place.target in runners}

    monkeypatch.setattr(cli, "runners_for", chosen)
    return runners


def check(*arguments: str) -> int:
    return cli.main(["check", *arguments])


@pytest.mark.parametrize(
    ("sim", "arguments", "code"),
    [
        (fakes.right, [SMALL], 0),
        (fakes.right, [], 0),
        (fakes.wrong, [SMALL], 1),
        (fakes.wrong_on(SMALL), [SMALL, OTHER], 1),
        (fakes.refusing, [SMALL], 2),
        (fakes.broken, [SMALL], 2),
        (fakes.interrupted, [SMALL], 2),
        (fakes.right, [SMALL, "--target", "gpu"], 2),
        (fakes.right, [SMALL, "--target", "sim,gpu"], 0),
        (fakes.wrong, [SMALL, "--target", "sim,gpu"], 1),
        (fakes.right, [SMALL, "--target", "sim,gpu", "--require-device"], 2),
        (fakes.wrong, [SMALL, "--target", "sim,gpu", "--require-device"], 2),
        (fakes.right, [SMALL, "--target", "tpu"], 2),
        (fakes.right, [SMALL, "--target", ""], 2),
        (fakes.right, [SMALL, "--schedule", "nasty"], 2),
        (fakes.right, [SMALL, "--seed", "-1"], 2),
        (fakes.right, [SMALL, "--no-such-option"], 2),
        (fakes.right, [SMALL, "--fault", "divid"], 2),
        (fakes.right, [SMALL, "--input", "gone.npy"], 2),
        (fakes.right, [SMALL, "--events", "no/such/folder"], 2),
        (fakes.right, ["no/such/case"], 2),
        (fakes.right, ["nothing*"], 2),
        (fakes.wrong, [SMALL, "--fault", "divide"], 1),
        (fakes.right, [SMALL, "--fault", "divide"], 2),  # not caught
        (fakes.wrong, [SMALL, "--fault", "missing-barrier"], 2),  # a mismatch, and no race
    ],
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, sim: Behaviour, arguments: list[str], code: int) -> None:
    use(monkeypatch, sim)
    assert check(*arguments) == code


def test_a_run_of_nothing_says_why_and_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, fakes.right)
    tensor_copies = "ninfer_linear/fp8_a8_gemm/tma/T9.N128.K128/normal/0"
    assert check(tensor_copies, "--arch", "sm_89") == 2
    assert "1 not run\nsim: not run 1: sm_89 has no tensor copies\n" in capsys.readouterr().out
    assert check(tensor_copies, SMALL, "--arch", "sm_89") == 0
    assert "sim: not run 1: sm_89 has no tensor copies\n" in capsys.readouterr().out


def test_a_difference_between_targets_is_a_finding_even_where_both_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fakes.right, fakes.unnoticed)
    assert check(SMALL, "--target", "sim,gpu") == 1
    use(monkeypatch, fakes.right, fakes.right)
    assert check(SMALL, "--target", "sim,gpu") == 0


def test_a_missing_gpu_is_counted_and_its_reason_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, fakes.right)
    assert check(SMALL, OTHER, "--target", "sim,gpu") == 0
    out = capsys.readouterr().out
    assert "sim: 2 passed, 0 failed, 0 not run" in out
    assert "gpu: 0 passed, 0 failed, 2 not run" in out
    assert f"gpu: {NO_GPU} (hint: get one)" in out


def test_the_event_file_is_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, fakes.wrong_on(OTHER))
    check(SMALL, OTHER, "--target", "sim,gpu", "--events", "e.ndjson")
    events = list(read_events(tmp_path / "e.ndjson"))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 1
    verdicts = {(e.case, e.target): e.passed for e in events if isinstance(e, CaseFinished)}
    assert verdicts == {(SMALL, Target.SIM): True, (OTHER, Target.SIM): False}
    assert {(e.case, e.target) for e in events if isinstance(e, CaseNotRun)} == {
        (SMALL, Target.GPU),
        (OTHER, Target.GPU),
    }
    (found,) = (e for e in events if isinstance(e, FindingFound))
    assert found.finding.mismatch is not None
    assert (tmp_path / ".tileproof" / "crashes" / f"{found.crash}.json").exists()


def test_the_first_failure_stops_and_counts_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runners = use(monkeypatch, fakes.wrong)
    assert check(SMALL, OTHER, "--first-failure") == 1
    assert len(runners[Target.SIM].jobs) == 1
    assert "sim: 0 passed, 1 failed, 1 not run" in capsys.readouterr().out


def test_ctrl_c_gives_the_summary_of_what_ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, lambda job: fakes.wrong(job) if str(job.case) == SMALL else fakes.interrupted(job))
    assert check(SMALL, OTHER) == 2
    out = capsys.readouterr().out
    assert "FAIL  ninfer_quantize" in out
    assert "sim: 0 passed, 1 failed, 1 not run" in out
    assert "interrupted" in out


def test_a_case_that_did_not_run_is_not_counted_as_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tileproof.conformance.progress.PLAIN_INTERVAL_S", 0.0)
    use(monkeypatch, lambda job: fakes.right(job) if str(job.case) == SMALL else fakes.interrupted(job))
    assert check(SMALL, OTHER) == 2
    captured = capsys.readouterr()
    assert captured.err == "1 of 2 done, 0 failed\n"
    assert "sim: 1 passed, 0 failed, 1 not run" in captured.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize(("sim", "summary"), [(fakes.right, "1 passed, 0 failed"), (fakes.wrong, "0 passed, 1 failed")])
def test_a_full_disk_under_the_event_file_is_an_error_after_the_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sim: Behaviour, summary: str
) -> None:
    use(monkeypatch, sim)
    assert check(SMALL, "--events", "/dev/full") == 2
    captured = capsys.readouterr()
    assert f"sim: {summary}, 0 not run" in captured.out
    assert captured.err.startswith("error: /dev/full: cannot be written: No space left on device\n")


def test_a_crash_folder_that_cannot_be_written_keeps_findings_and_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, fakes.wrong)
    Path("occupied").touch()
    assert check(SMALL, OTHER, "--crash-dir", "occupied") == 1
    captured = capsys.readouterr()
    assert "FAIL  ninfer_quantize  mismatch in codes" in captured.out
    assert "no crash file could be kept" in captured.out
    assert "tileproof replay" not in captured.out
    assert "sim: 0 passed, 2 failed, 0 not run" in captured.out
    assert captured.err.startswith("warning: crash file occupied/")
    assert captured.err.endswith("cannot be written: File exists (and 1 more like it)\n")


def test_a_name_that_is_no_unicode_is_shown_and_written(
    tmp_path: Path,
) -> None:
    name = os.fsdecode(b"w\xff.npy")
    np.save(name, np.linspace(-3, 3, 21, dtype=np.float32).reshape(3, 7))
    command = [sys.executable, "-m", "tileproof.conformance", "check", "--input", name, "--rows", "1"]
    options = ["--events", "e.ndjson", "--schedule", "friendly", "--fault", "truncates"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert "internal" not in ended.stderr
    assert "inputs from w\\udcff.npy:w\\udcff[:1]" in ended.stdout
    (found,) = (event for event in read_events(tmp_path / "e.ndjson") if isinstance(event, FindingFound))
    assert found.origin.startswith(name)


@pytest.mark.parametrize("arguments", [["replay"], ["check", "--input"], ["replay", "ABCDEFG", "--crash-dir"]])
def test_a_name_too_long_for_a_file_is_refused_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, "a" * 5000]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert "internal" not in error
    assert len(error) < 120
    assert hint.startswith("hint: ")


def test_seed_and_schedule_are_shown_also_when_green(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runners = use(monkeypatch, fakes.right)
    assert check(SMALL, "--seed", "7", "--schedule", "friendly", "--arch", "sm_100a") == 0
    assert "on sim (sm_100a, schedule friendly, seed 7)" in capsys.readouterr().out.splitlines()[-1]
    assert str(runners[Target.SIM].jobs[0].coordinates) == "sim (sm_100a, schedule friendly, seed 7)"


def test_an_unknown_id_gets_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(SMALL.replace("ninfer", "ninfr")) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: unknown case")
    assert "hint: did you mean ninfer_quantize/fp8_quantize_rows/" in err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ninfr_quantize", "did you mean the glob 'ninfer_quantize/*'"),
        ("fp8_quantize_row", "did you mean the glob '*/fp8_quantize_rows/*'"),
        ("nothing-like-it", "`tileproof list` shows what there is"),
    ],
)
def test_a_name_that_is_no_id_gets_the_glob_of_what_is_called_nearly_so(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(name) == 2
    assert capsys.readouterr().err == f"error: unknown case '{name}': has 1 part, not 6\nhint: {hint}\n"


def test_the_beginning_of_ids_gets_the_glob(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("ninfer_quantize/fp8_quantize_rows") == 2
    assert "hint: use the glob 'ninfer_quantize/fp8_quantize_rows/*'" in capsys.readouterr().err


def test_a_glob_takes_what_it_matches_and_an_id_needs_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    runners = use(monkeypatch, fakes.right)
    unlisted = f"{SMALL.rpartition('/')[0]}/123456"
    assert check("*/scalar/*.f16*/ties/*", unlisted) == 0
    ids = [str(job.case) for job in runners[Target.SIM].jobs]
    assert ids[-1] == unlisted
    assert len(ids) == len(set(ids)) > 1
    assert all("/scalar/" in name and ".f16" in name for name in ids[:-1])


def test_a_users_tensors_become_cases(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    runners = use(monkeypatch, fakes.wrong)
    matrix = np.linspace(-3, 3, 21, dtype=np.float32).reshape(3, 7)
    np.savez("w.npz", bias=matrix[0], weight=matrix)
    assert check("--input", "w.npz") == 1
    (job,) = runners[Target.SIM].jobs
    assert str(job.case) == "ninfer_quantize/fp8_quantize_rows/scalar/T3.K7.f32/file/1"
    assert job.inputs["x"].tobytes() == matrix.tobytes()
    captured = capsys.readouterr()
    assert "inputs from w.npz:weight" in captured.out
    assert "skipped bias: it has 1 dimensions, not 2" in captured.err


def test_rows_cut_a_users_tensor_and_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runners = use(monkeypatch, fakes.wrong)
    np.save("w.npy", np.linspace(-3, 3, 21, dtype=np.float32).reshape(3, 7))
    assert check("--input", "w.npy", "--rows", "2") == 1
    assert runners[Target.SIM].jobs[0].inputs["x"].shape == (2, 7)
    assert "inputs from w.npy:w[:2]" in capsys.readouterr().out
    assert check(SMALL, "--rows", "2") == 2


def test_a_failure_replays_by_the_id_it_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, fakes.wrong)
    check(SMALL)
    short_id = capsys.readouterr().out.partition("tileproof replay ")[2].split()[0]
    assert cli.main(["replay", short_id]) == 1
    assert capsys.readouterr().out.startswith(f"FAILED  {short_id}  {SMALL}\n      as recorded\n")
    assert cli.main(["replay", short_id, "--target", "gpu"]) == 2
    assert f"ERROR  {short_id}" in capsys.readouterr().out
    use(monkeypatch, fakes.right)
    assert cli.main(["replay", short_id.lower()]) == 0
    assert capsys.readouterr().out.startswith(f"FIXED  {short_id}")


def test_replay_of_nothing_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", "NOSUCH1"]) == 2
    assert "error: no crash file 'NOSUCH1'" in capsys.readouterr().err


def test_list_prints_ids_with_tier_and_route(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--tier", "smoke"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert len(rows) >= 60
    assert all(len(row) == 3 and row[1] == "smoke" and row[0].split("/")[2] == row[2] for row in rows)


def test_list_faults_prints_at_least_ten_with_their_precedent(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "faults"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 10
    assert cli.main(["list", "--faults"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_env_prints_one_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["env"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[:3] == ["tileproof", "git", "python"]
    assert {"nvrtc", "driver", "gpu"} <= set(names)


def test_an_error_of_our_own_is_one_line_with_a_pointer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "select", fakes.broken)
    assert check(SMALL) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert err.startswith("error: internal: TypeError")
    assert f"hint: `tileproof --traceback check {SMALL}` shows where" in err
    assert cli.main(["--traceback", "check", SMALL]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_the_module_runs_as_a_program_and_keeps_data_and_progress_apart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tileproof.conformance", "check", SMALL, "--schedule", "friendly"]
    ended = subprocess.run(
        [*command, "--events", "e.ndjson"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    assert ended.returncode == 0, ended.stderr
    assert "sim: 1 passed, 0 failed, 0 not run" in ended.stdout
    assert ended.stderr in ("", "1 of 1 done, 0 failed\n")  # progress, on a slow machine
    assert [json.loads(line)["event"] for line in (tmp_path / "e.ndjson").read_text().splitlines()] == [
        "run-started",
        "case-started",
        "case-finished",
        "run-finished",
    ]
