from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import runner_fakes as fakes
from runner_fakes import GPU, SIM, SMALL, FakeRunner, small_case

from tileproof.conformance.crash import CrashFolder, Status, read_crash
from tileproof.conformance.events import CaseFinished, CaseNotRun, Event, FindingFound, RunFinished, TargetUnavailable
from tileproof.conformance.fault import Edit, Fault
from tileproof.conformance.finding import FindingKind
from tileproof.conformance.registry import find_case
from tileproof.conformance.replay import Outcome, replay
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import DeviceFactory, Target
from tileproof.conformance.worker import InProcess, InternalError, Job, Worker, step_budget
from tileproof.kernels.fp8_quantize_rows import SOURCE
from tileproof.oracle.refusal import Refusal


def job() -> Job:
    return Job(small_case(), GPU, case_inputs(small_case()))


def run_in_worker(make_device: DeviceFactory, deadline_s: float = 60) -> FindingKind:
    worker = Worker(make_device, deadline_s=deadline_s)
    worker.open(GPU)
    try:
        (finding,) = worker.run(job()).findings
        return finding.kind
    finally:
        worker.close()


def test_a_worker_gives_the_result_of_the_process_itself() -> None:
    worker = Worker(fakes.simulated)
    worker.open(GPU)
    try:
        result = worker.run(job())
    finally:
        worker.close()
    assert result.findings == ()
    assert (result.outputs["codes"] == fakes.right(job()).outputs["codes"]).all()


def test_a_process_that_dies_is_a_crash_of_its_case() -> None:
    assert run_in_worker(fakes.exits) is FindingKind.CRASH


def test_a_device_that_hangs_is_a_timeout_of_its_case() -> None:
    assert run_in_worker(fakes.hangs, deadline_s=4) is FindingKind.TIMEOUT


def test_a_sticky_error_of_the_device_is_a_crash_named_by_the_error() -> None:
    worker = Worker(fakes.faults)
    worker.open(GPU)
    (finding,) = worker.run(job()).findings
    worker.close()
    assert finding.kind is FindingKind.CRASH
    assert finding.signature == "crash/CUDA_ERROR_ILLEGAL_ADDRESS"


def test_an_error_of_our_own_in_a_worker_is_no_finding() -> None:
    worker = Worker(fakes.buggy)
    worker.open(GPU)
    with pytest.raises(InternalError, match="ZeroDivisionError") as error:
        worker.run(job())
    worker.close()
    assert "runner_fakes.py" in error.value.trace


def test_a_missing_device_is_a_refusal_with_its_reason() -> None:
    with pytest.raises(Refusal, match="no GPU in this machine"):
        Worker(fakes.absent).open(GPU)
    with pytest.raises(Refusal, match="exited with 9"):
        Worker(fakes.unstartable).open(GPU)


def run_two_cases(folder: Path, make_device: DeviceFactory) -> list[Event]:
    plan = Plan((small_case(), find_case(fakes.OTHER)), (GPU,))
    session = Session(plan, CrashFolder(folder), {Target.GPU: Worker(make_device)})
    try:
        return list(session.events())
    finally:
        session.close()


def test_after_a_crash_the_rest_goes_on_in_a_fresh_worker(tmp_path: Path) -> None:
    events = run_two_cases(tmp_path / "crashes", partial(fakes.exits_once, tmp_path / "flag"))
    found = [event for event in events if isinstance(event, FindingFound)]
    ended = [event for event in events if isinstance(event, CaseFinished)]
    assert [(event.case, event.finding.kind) for event in found] == [(SMALL, FindingKind.CRASH)]
    assert [event.passed for event in ended] == [False, True]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 1

    record, inputs = read_crash(CrashFolder(tmp_path / "crashes").find(found[0].crash))
    assert record.status is Status.FAILED
    assert inputs is not None
    fixed = replay(tmp_path / "crashes" / f"{found[0].crash}.json", {Target.GPU: FakeRunner(fakes.right)})
    assert fixed.outcome is Outcome.FIXED


def test_a_device_that_does_not_come_back_leaves_the_rest_not_run(tmp_path: Path) -> None:
    events = run_two_cases(tmp_path, partial(fakes.lost_after_first, tmp_path / "flag"))
    assert [type(event) for event in events if isinstance(event, TargetUnavailable | CaseNotRun)] == [
        TargetUnavailable,
        CaseNotRun,
    ]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].exit_code == 1


def test_a_kernel_that_spins_and_counts_is_a_timeout_of_its_case_on_the_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = Edit(
        "    __syncthreads();\n",
        '    __syncthreads();\n    for (unsigned n = 1; n != 0; ++n) asm volatile("" : "+r"(n));\n',
    )
    spinning = Fault("spins", "ninfer_quantize", "spins and counts", "none", frozenset(), edits=(counts,))
    monkeypatch.setattr("tileproof.conformance.worker.find_fault", {"spins": spinning}.get)
    (finding,) = InProcess().run(replace(job(), coordinates=SIM, fault="spins")).findings
    assert finding.kind is FindingKind.TIMEOUT
    loop = 2 + SOURCE[: SOURCE.index("    __syncthreads();")].count("\n")
    assert f"fp8_quantize_rows.cu:{loop}" in finding.message


@pytest.mark.parametrize("deadline_s", [None, 3.0])
def test_a_timeout_on_the_simulator_keeps_what_was_found_before_it(
    monkeypatch: pytest.MonkeyPatch, deadline_s: float | None
) -> None:
    races = Edit(
        "    __syncthreads();\n",
        "    __shared__ unsigned z; const unsigned at = (unsigned)__cvta_generic_to_shared(&z);\n"
        '    asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(threadIdx.x));\n    __syncthreads();\n'
        '    for (unsigned n = 1; n != 0; ++n) asm volatile("" : "+r"(n));\n',
    )
    spinning = Fault("spins", "ninfer_quantize", "races, then spins", "none", frozenset(), edits=(races,))
    monkeypatch.setattr("tileproof.conformance.worker.find_fault", {"spins": spinning}.get)
    if deadline_s is not None:
        monkeypatch.setattr("tileproof.conformance.worker.step_budget", lambda case: 1 << 40)
    runner = InProcess(deadline_s=deadline_s)
    findings = runner.run(replace(job(), coordinates=SIM, fault="spins")).findings
    assert [finding.kind for finding in findings] == [FindingKind.TIMEOUT, FindingKind.RACE]
    assert ("steps" if deadline_s is None else "3 s") in findings[0].message


def test_the_simulators_patience_is_far_beyond_what_a_right_kernel_takes() -> None:
    worst = "ninfer_quantize/fp8_quantize_rows/vector/T2.K17408.bf16/subnormals/0"  # of the smoke tier: 8,756 steps
    assert step_budget(find_case(worst)) > 20 * 8756
    assert step_budget(small_case()) > 20 * 2989
