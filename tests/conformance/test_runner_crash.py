import base64
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
import pytest
import runner_fakes as fakes
from numpy.typing import NDArray
from runner_fakes import GPU, SIM, FakeRunner, small_case

from tileproof.conformance import cli, registry
from tileproof.conformance.case import Case
from tileproof.conformance.crash import FORMAT, CrashFolder, CrashRecord, Status, hash_inputs, read_crash, seal
from tileproof.conformance.environment import capture
from tileproof.conformance.events import CaseExplained, CaseFinished, CrashFileFailed, Event, FindingFound, RunFinished
from tileproof.conformance.replay import Outcome, replay
from tileproof.conformance.run_case import CaseResult, case_inputs
from tileproof.conformance.session import GivenInputs, Plan, Session
from tileproof.conformance.target import Target
from tileproof.conformance.worker import InProcess, Job
from tileproof.oracle.refusal import Refusal


def record(inputs: dict[str, NDArray[Any]]) -> CrashRecord:
    return CrashRecord(
        format=FORMAT,
        case=str(small_case()),
        generator_version=1,
        inputs_sha256=hash_inputs(inputs),
        coordinates=(SIM,),
        fault=None,
        origin="",
        environment=capture(),
        status=Status.FAILED,
    )


def run(folder: Path, runner: FakeRunner, *, plan: Plan | None = None) -> list[Path]:
    session = Session(plan or Plan((small_case(),), (SIM,)), CrashFolder(folder), {Target.SIM: runner})
    list(session.events())
    return sorted(folder.glob("*.json"))


def test_the_file_is_there_before_the_launch_and_gone_after_a_pass(tmp_path: Path) -> None:
    seen: list[CrashRecord] = []

    def look(job: Job) -> CaseResult:
        (path,) = tmp_path.glob("*.json")
        seen.append(read_crash(path)[0])
        return fakes.right(job)

    assert run(tmp_path, FakeRunner(look)) == []
    (before,) = seen
    assert before.status is Status.LAUNCHED
    assert before.inputs_sha256 == hash_inputs(case_inputs(small_case()))
    assert before.inputs == ()


def test_a_failure_completes_the_file_with_findings_and_bits(tmp_path: Path) -> None:
    (path,) = run(tmp_path, FakeRunner(fakes.wrong))
    failed, inputs = read_crash(path)
    assert failed.status is Status.FAILED
    assert failed.findings[0].mismatch is not None
    assert inputs is not None
    assert inputs["x"].tobytes() == case_inputs(small_case())["x"].tobytes()
    assert path.stem == failed.short_id


def test_a_case_that_passes_again_removes_its_old_file(tmp_path: Path) -> None:
    assert len(run(tmp_path, FakeRunner(fakes.wrong))) == 1
    assert run(tmp_path, FakeRunner(fakes.right)) == []


def test_a_case_without_a_verdict_keeps_its_file(tmp_path: Path) -> None:
    (path,) = run(tmp_path, FakeRunner(fakes.refusing))
    assert read_crash(path)[0].status is Status.ERROR
    assert "not modelled" in read_crash(path)[0].error


def test_the_file_outlives_a_process_that_is_killed_in_the_launch(tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import runner_fakes as f\n"
        "from pathlib import Path\n"
        "from tileproof.conformance.crash import CrashFolder\n"
        "from tileproof.conformance.session import Plan, Session\n"
        "from tileproof.conformance.worker import InProcess\n"
        "from tileproof.conformance.target import Target\n"
        f"plan, folder = Plan((f.small_case(),), (f.SIM,)), CrashFolder(Path({str(tmp_path)!r}))\n"
        "list(Session(plan, folder, {Target.SIM: InProcess(f.exits)}).events())\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7
    (path,) = tmp_path.glob("*.json")
    assert read_crash(path)[0].status is Status.LAUNCHED
    assert replay(path, {Target.SIM: FakeRunner(fakes.right)}).outcome is Outcome.FIXED


def break_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_generator(case: Case) -> NoReturn:
        raise AssertionError("the generator was called")

    real = registry.contracts()["ninfer_quantize"]
    monkeypatch.setattr(registry, "contracts", lambda: {real.name: replace(real, inputs=no_generator)})


def test_replay_runs_the_stored_bits_without_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = case_inputs(small_case())["x"]
    (path,) = run(tmp_path, FakeRunner(fakes.wrong))
    break_generator(monkeypatch)
    runner = FakeRunner(fakes.wrong)
    again = replay(path, {Target.SIM: runner})
    assert again.outcome is Outcome.FAILED
    assert again.same_signature
    assert runner.jobs[0].inputs["x"].tobytes() == original.tobytes()
    assert runner.jobs[0].coordinates == SIM
    assert replay(path, {Target.SIM: FakeRunner(fakes.right)}).outcome is Outcome.FIXED


def test_replay_moves_to_another_target_on_request(tmp_path: Path) -> None:
    (path,) = run(tmp_path, FakeRunner(fakes.wrong))
    runners = {Target.GPU: FakeRunner(fakes.wrong), Target.SIM: FakeRunner(fakes.right)}
    assert replay(path, runners, target=Target.GPU).outcome is Outcome.FAILED
    assert replay(path, runners).outcome is Outcome.FIXED


def test_replay_of_a_difference_runs_both_targets_and_compares(tmp_path: Path) -> None:
    runners = {Target.SIM: FakeRunner(fakes.right), Target.GPU: FakeRunner(fakes.unnoticed)}
    list(Session(Plan((small_case(),), (SIM, GPU)), CrashFolder(tmp_path), runners).events())
    (path,) = tmp_path.glob("*.json")
    again = replay(path, runners)
    assert again.outcome is Outcome.FAILED
    assert again.same_signature
    assert "sim and gpu differ" in again.findings[0].message


def test_a_replay_without_a_device_is_an_error(tmp_path: Path) -> None:
    (path,) = run(tmp_path, FakeRunner(fakes.wrong))
    outcome = replay(path, {Target.SIM: FakeRunner(fakes.right, missing="no GPU")})
    assert outcome.outcome is Outcome.ERROR
    assert outcome.outcome.exit_code == 2


def test_a_launched_file_of_another_generator_does_not_replay(tmp_path: Path) -> None:
    old = replace(record(dict(case_inputs(small_case()))), generator_version=0, status=Status.LAUNCHED)
    outcome = replay(CrashFolder(tmp_path).write(old), {Target.SIM: FakeRunner(fakes.right)})
    assert outcome.outcome is Outcome.ERROR
    assert "generator version 0" in outcome.reason


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([[np.nan, -0.0, np.inf]], ml_dtypes.bfloat16),
        np.zeros((0, 4), np.float16),
        np.arange(1 << 19, dtype=np.float32).reshape(512, 1024),
    ],
    ids=["inline", "bfloat16", "empty", "sidecar"],
)
def test_inputs_come_back_bit_for_bit(tmp_path: Path, array: NDArray[Any]) -> None:
    path = CrashFolder(tmp_path).write(record({"x": array}), {"x": array})
    stored, inputs = read_crash(path)
    assert inputs is not None
    assert inputs["x"].dtype == array.dtype
    assert inputs["x"].shape == array.shape
    assert inputs["x"].tobytes() == array.tobytes()
    assert (stored.sidecar is not None) == (array.nbytes > 1 << 20)
    CrashFolder(tmp_path).discard(stored)
    assert list(tmp_path.iterdir()) == []


def test_a_users_own_inputs_are_stored_before_the_launch(tmp_path: Path) -> None:
    case = registry.find_case("ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.f32/file/0")
    given = {case: GivenInputs({"x": np.ones((2, 9), np.float32)}, "w.npy:w")}

    def look(job: Job) -> CaseResult:
        (path,) = tmp_path.glob("*.json")
        stored, inputs = read_crash(path)
        assert stored.status is Status.LAUNCHED
        assert stored.origin == "w.npy:w"
        assert inputs is not None
        return fakes.right(job)

    runner = FakeRunner(look)
    assert run(tmp_path, runner, plan=Plan((case,), (SIM,), given=given)) == []
    assert len(runner.jobs) == 1


def test_the_short_id_tells_places_faults_and_inputs_apart() -> None:
    inputs = {"x": np.zeros((2, 9), np.float32)}
    one = record(inputs)
    others = [
        replace(one, coordinates=(GPU,)),
        replace(one, coordinates=(replace(SIM, seed=1),)),
        replace(one, fault="divide"),
        replace(one, inputs_sha256="0"),
    ]
    assert len({one.short_id, *(other.short_id for other in others)}) == 5
    assert replace(one, status=Status.ERROR, error="x").short_id == one.short_id


def test_find_takes_paths_ids_in_any_case_and_names_near_ones(tmp_path: Path) -> None:
    folder = CrashFolder(tmp_path)
    path = folder.write(record({"x": np.zeros((2, 9), np.float32)}))
    assert folder.find(str(path)) == path
    assert folder.find(path.stem.lower()) == path
    with pytest.raises(Refusal) as refusal:
        folder.find(path.stem[:-1] + "0")
    assert path.stem in str(refusal.value) or path.stem.endswith("0")
    with pytest.raises(Refusal, match="no crash file"):
        folder.find("no/such/file")


BAD_EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "another form": ({"format": 99}, "form 99"),
    "unknown field": ({"shell": "rm"}, "no such field"),
    "status": ({"status": "great"}, "is not one of launched, failed, error"),
    "no target": ({"coordinates": []}, "names no target"),
    "sidecar elsewhere": ({"sidecar": "../x.npz"}, "is not a file beside it"),
    "sidecar of another": ({"sidecar": "gone.npz"}, "is not a file beside it"),
    "sidecar nameless": ({"sidecar": ""}, "is not a file beside it"),
    "sidecar upward": ({"sidecar": ".."}, "is not a file beside it"),
    "sidecar with NUL": ({"sidecar": "x\0.npz"}, "is not a file beside it"),
    "sidecar of no letters": ({"sidecar": "\ud800"}, "is not a file beside it"),
    "hash": ({"inputs_sha256": "00"}, "do not have the recorded hash"),
    "case": ({"case": 5}, "is not a text"),
    "case of no letters": ({"case": "\ud800"}, "has 1 part, not 6"),
    "case beyond memory": (
        {"case": "ninfer_quantize/fp8_quantize_rows/vector/T1.K900000000000000000.f32/ties/0", "inputs": []},
        "its inputs cannot be made",
    ),
    "seed": ({"coordinates": [{"target": "sim", "arch": "sm_90a", "schedule": "friendly", "seed": -1}]}, "seed -1"),
    "fault": ({"fault": "no-such"}, "unknown fault"),
    "input name of no letters": (
        {"inputs": [{"name": "\ud800", "dtype": "float32", "shape": [1], "base64": "AAAAAA=="}]},
        "do not have the recorded hash",
    ),
}


def edit_crash(path: Path, edit: Mapping[str, Any], *, sealed: bool = True) -> None:
    """Change a crash file, with the checksum to match as somebody who knows the form would."""
    data = json.loads(path.read_text())
    del data["checksum"]
    path.write_text(json.dumps(seal({**data, **edit}) if sealed else {**json.loads(path.read_text()), **edit}))


@pytest.mark.parametrize(
    "edit", [{"fault": "divide"}, {"case": fakes.OTHER}, {"error": "x"}, {"generator_version": 2}, {"checksum": ""}]
)
def test_no_field_of_a_crash_file_can_be_changed_unnoticed(
    tmp_path: Path, edit: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = run(tmp_path, FakeRunner(fakes.wrong))
    edit_crash(path, edit, sealed=False)
    assert cli.main(["replay", str(path)]) == 2
    outcome, reason = capsys.readouterr().out.splitlines()[:2]
    assert outcome.startswith("ERROR")
    assert "does not have the recorded checksum" in reason


def test_letters_that_no_terminal_can_show_do_not_end_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = CrashFolder(tmp_path).write(replace(record({}), case="\ud800"))
    assert cli.main(["replay", str(path)]) == 2
    assert capsys.readouterr().out.startswith(f"ERROR  {path.stem}  \\ud800\n")


@pytest.mark.parametrize("name", BAD_EDITS)
def test_a_crash_file_that_was_tampered_with_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    edit, message = BAD_EDITS[name]
    inputs = {"x": np.zeros((2, 9), np.float32)}
    path = CrashFolder(tmp_path).write(record(inputs), inputs)
    edit_crash(path, edit)
    outcome = replay(path, {Target.SIM: InProcess()})
    assert outcome.outcome is Outcome.ERROR
    assert message in outcome.reason


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("base64", "!!!", "not base64"),
        ("base64", base64.b64encode(b"12").decode(), "2 bytes do not make"),
        ("dtype", "object", "unknown type 'object'"),
        ("shape", [-2, -9], "do not make"),
        ("shape", [1 << 62, 1 << 62], "do not make"),
    ],
)
def test_stored_bits_that_do_not_fit_are_refused(tmp_path: Path, field: str, value: object, message: str) -> None:
    inputs = {"x": np.zeros((2, 9), np.float32)}
    path = CrashFolder(tmp_path).write(record(inputs), inputs)
    (stored,) = json.loads(path.read_text())["inputs"]
    edit_crash(path, {"inputs": [{**stored, field: value}]})
    with pytest.raises(Refusal) as refusal:
        read_crash(path)
    assert message in str(refusal.value)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="cannot be written"):
        CrashFolder(tmp_path / "file").write(record({}))


def events_without_a_folder(folder: Path, behaviour: fakes.Behaviour) -> list[Event]:
    """The events of a run that loses its crash folder in the launch."""

    def lose(job: Job) -> CaseResult:
        shutil.rmtree(folder)
        folder.touch()
        return behaviour(job)

    session = Session(Plan((small_case(),), (SIM,)), CrashFolder(folder), {Target.SIM: FakeRunner(lose)})
    return list(session.events())[2:]


def test_a_finding_does_not_depend_on_its_crash_file(tmp_path: Path) -> None:
    found, why, failed, ended, last = events_without_a_folder(tmp_path / "crashes", fakes.wrong)
    assert isinstance(found, FindingFound)
    assert isinstance(why, CaseExplained)
    assert isinstance(failed, CrashFileFailed)
    assert failed.crash == found.crash
    assert isinstance(ended, CaseFinished)
    assert isinstance(last, RunFinished)
    assert last.exit_code == 1


def test_an_error_does_not_depend_on_its_crash_file(tmp_path: Path) -> None:
    *_, last = events_without_a_folder(tmp_path / "crashes", fakes.broken)
    assert isinstance(last, RunFinished)
    assert (last.counts[0].errors, last.exit_code) == (1, 2)


def test_a_pass_does_not_depend_on_its_crash_file(tmp_path: Path) -> None:
    *_, last = events_without_a_folder(tmp_path / "crashes", fakes.right)
    assert isinstance(last, RunFinished)
    assert last.exit_code == 0


def test_a_crash_file_that_cannot_be_removed_is_told_and_the_case_passes(tmp_path: Path) -> None:
    def occupy(job: Job) -> CaseResult:
        (path,) = tmp_path.glob("*.json")
        path.unlink()
        path.mkdir()
        return fakes.right(job)

    session = Session(Plan((small_case(),), (SIM,)), CrashFolder(tmp_path), {Target.SIM: FakeRunner(occupy)})
    *_, failed, ended, last = session.events()
    assert isinstance(failed, CrashFileFailed)
    assert "cannot be removed" in failed.reason
    assert isinstance(ended, CaseFinished)
    assert ended.passed
    assert isinstance(last, RunFinished)
    assert last.exit_code == 0


def test_several_runs_share_a_folder(tmp_path: Path) -> None:
    program = (
        "import sys; import numpy as np\n"
        "from dataclasses import replace; from pathlib import Path\n"
        "from test_runner_crash import record, Status, CrashFolder\n"
        f"folder, inputs = CrashFolder(Path({str(tmp_path)!r})), {{'x': np.zeros((512, 1024), np.float32)}}\n"
        "failed = record(inputs)\n"
        "for turn in range(40):\n"
        "    folder.write(replace(failed, status=Status.LAUNCHED))\n"
        "    folder.discard(failed) if turn % 4 == 3 else folder.write(failed, inputs)\n"
        "folder.write(failed, inputs)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", program]
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(run.communicate()[1], run.returncode) for run in runs] == [("", 0)] * 4
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".npz"]
    (path,) = tmp_path.glob("*.json")
    stored, inputs = read_crash(path)
    assert stored.sidecar is not None
    assert inputs is not None


def test_what_was_half_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refusal, match="No space left"):
        CrashFolder(tmp_path).write(record({}))
    assert list(tmp_path.iterdir()) == []


def test_a_replay_leaves_the_file_and_the_next_pass_removes_it(tmp_path: Path) -> None:
    (path,) = run(tmp_path, FakeRunner(fakes.wrong))
    before = path.read_bytes()
    assert replay(path, {Target.SIM: FakeRunner(fakes.right)}).outcome is Outcome.FIXED
    assert path.read_bytes() == before
    assert run(tmp_path, FakeRunner(fakes.right)) == []
