"""Why a case fails, told beside the failure: bounded in time, and never a proof that there is not."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from runner_fakes import SIM, FakeRunner, small_case, wrong
from triage_table import device

from tileproof.conformance.case import Case
from tileproof.conformance.cli import main
from tileproof.conformance.contract import Arrays
from tileproof.conformance.crash import CrashFolder, read_crash
from tileproof.conformance.events import CaseExplained, Event, FindingFound
from tileproof.conformance.failure import describe_failure
from tileproof.conformance.faults import fault
from tileproof.conformance.finding import Finding, FindingKind, Proof
from tileproof.conformance.gathering import gather
from tileproof.conformance.registry import contract_of, find_case
from tileproof.conformance.run_case import CaseResult, case_inputs, run_case
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Target
from tileproof.conformance.triage import first
from tileproof.conformance.triage.first import ELSEWHERE, Reasons

TIES = "ninfer_quantize/fp8_quantize_rows/vector/T1.K64.bf16/ties/0"
PRODUCT = "ninfer_linear/fp8_a8_gemm/fallback/T17.N9.K33/normal/0"


def failing(name: str, case: str) -> tuple[CaseResult, Arrays]:
    """A case with a fault of the repository in the kernel."""
    one = find_case(case)
    inputs = case_inputs(one)
    return run_case(one, device(name), kernel_source=fault(name).kernel_source(), inputs=inputs), inputs


def events(folder: Path) -> list[Event]:
    session = Session(Plan((small_case(),), (SIM,)), CrashFolder(folder), {Target.SIM: FakeRunner(wrong)})
    return list(session.events())


def test_what_was_seen_is_told_without_trying_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first, "triage", lambda *_: pytest.fail("a rule was tried"))
    why = Reasons(fault("missing-barrier")).of(*failing("missing-barrier", TIES), "sm_90a")
    assert why is not None
    assert str(why) == "two accesses without order between them (seen)"
    assert why.state is Proof.SEEN


def test_a_rule_that_predicts_every_bit_is_told_as_proved() -> None:
    why = Reasons(fault("ties-away")).of(*failing("ties-away", TIES), "sm_90a")
    assert why is not None
    assert why.state is Proof.PROVED
    expected = "another rounding: ties go away from zero (proved: explains 8 of 8 elements that differ, and every other"
    assert str(why).startswith(expected)


class _Clock:
    """A clock that a rule takes a second by."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


def test_what_there_was_no_time_to_hold_against_other_rules_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of rules the time is enough for."""
    result, inputs = failing("ties-away", TIES)
    states = []
    for seconds in (0.5, 2, 4, 8, 16, 32, 1000):
        monkeypatch.setattr("tileproof.conformance.triage.patience.time", _Clock())
        why = Reasons(fault("ties-away"), case_s=seconds, run_s=1e9).of(result, inputs, "sm_90a")
        assert why is not None
        states.append(why.state)
        if seconds < 1000 and why.text:
            assert why.proof.startswith("no proof: "), why
    assert states[0] is not Proof.PROVED
    assert states[-1] is Proof.PROVED
    assert states.count(Proof.PROVED) == 1


def test_nothing_found_in_the_time_is_not_called_unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    result, inputs = failing("ties-away", TIES)
    for one in ("moved", "state", "ratio", "tail"):
        monkeypatch.setattr(f"tileproof.conformance.triage.triage.{one}", lambda scene: iter(()))
    why = Reasons(fault("ties-away"), case_s=0).of(result, inputs, "sm_90a")
    assert str(why) == f"nothing that was tried in 0 s fits; {ELSEWHERE}"


def test_a_large_case_and_a_run_without_time_left_are_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    result, inputs = failing("ties-away", TIES)
    assert str(Reasons(run_s=0).of(result, inputs, "sm_90a")) == f"the time for this in a run is used up; {ELSEWHERE}"
    monkeypatch.setattr(first, "LARGEST", 63)
    assert "too large" in str(Reasons().of(result, inputs, "sm_90a"))


def test_trying_rules_ends_within_its_time() -> None:
    """Of a product with hundreds of rules, none of which fits."""
    case = find_case("ninfer_linear/fp8_a8_gemm/tma/T65.N256.K320/normal/0")
    inputs = case_inputs(case)
    result = wrong_output(case, inputs)
    began = time.monotonic()
    why = Reasons(case_s=0.5).of(result, inputs, "sm_90a")
    assert time.monotonic() - began < 2.5
    assert why is not None
    assert why.state in (Proof.GUESS, Proof.NONE)


def wrong_output(case: Case, inputs: Arrays) -> CaseResult:
    outputs = {name: np.array(value) for name, value in contract_of(case).expected(case, inputs, "sm_90a").items()}
    outputs["out"].view("u2")[0, 0] ^= 0x55
    finding = Finding(FindingKind.MISMATCH, "out: 1 of 16640 elements differ", "mismatch/out", "out")
    return CaseResult(case, (finding,), "tma", 1.0, outputs=outputs)


def test_a_signature_is_explained_once() -> None:
    result, inputs = failing("ties-away", TIES)
    reasons = Reasons(fault("ties-away"))
    assert reasons.of(result, inputs, "sm_90a") is not None
    assert reasons.of(result, inputs, "sm_90a") is None
    other = replace(result, findings=(*result.findings, replace(result.findings[0], signature="another")))
    assert reasons.of(other, inputs, "sm_90a") is not None


def test_an_error_of_triage_costs_the_reason_and_not_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Iterator[object]:
        raise ZeroDivisionError("of our own making")

    monkeypatch.setattr(first, "triage", broken)
    (why,) = [event.why for event in events(tmp_path) if isinstance(event, CaseExplained)]
    assert str(why) == "triage ended in ZeroDivisionError: of our own making"


def test_ctrl_c_in_an_explanation_takes_no_finding_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(first, "triage", interrupted)
    session = Session(Plan((small_case(),), (SIM,)), CrashFolder(tmp_path), {Target.SIM: FakeRunner(wrong)})
    heard: list[Event] = []
    stream = session.events()
    with suppress(KeyboardInterrupt):
        while True:
            heard.append(next(stream))
    assert not any(isinstance(event, CaseExplained) for event in heard)
    assert any(isinstance(event, FindingFound) for event in heard)
    (file,) = tmp_path.glob("*.json")
    record, inputs = read_crash(file)
    assert len(record.findings) == 1
    assert inputs is not None


def test_every_report_has_the_reason_and_so_has_the_crash_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--fault", "ties-away", "--events", "run.ndjson", TIES]) == 1
    assert main(["report", "run.ndjson", "--junit", "r.xml", "--html", "r.html", "--markdown", "r.md"]) == 0
    said = "another rounding: ties go away from zero (proved: explains 8 of 8 elements that differ, and every other"
    assert f"      why    {said}" in capsys.readouterr().out
    failure = ElementTree.parse("r.xml").getroot().find("testsuite/testcase/failure")
    assert failure is not None
    assert f"\nWhy: {said}" in (failure.text or "")
    assert f"      why    {said}" in Path("r.md").read_text()
    assert "state" in Path("r.html").read_text()
    (crash,) = Path(".tileproof/crashes").glob("*.json")
    assert json.loads(crash.read_text())["why"]["state"] == "proved"
    assert main(["replay", crash.stem]) == 1
    assert f"      why, as recorded: {said}" in capsys.readouterr().out


def test_a_reason_of_another_case_says_of_which(tmp_path: Path) -> None:
    every = events(tmp_path)
    found = next(event for event in every if isinstance(event, FindingFound))
    explained = next(event for event in every if isinstance(event, CaseExplained))
    larger = "ninfer_quantize/fp8_quantize_rows/scalar/T9.K99.bf16/ties/0"
    (failure,) = gather([found, replace(found, case=larger)], [replace(explained, case=larger)])
    lines = describe_failure(failure, (SIM,))
    assert f"      why    no explanation that is known fits; said of {larger}" in lines
