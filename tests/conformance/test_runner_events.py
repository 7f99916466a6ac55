import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from runner_fakes import GPU, SIM, SMALL, small_case, wrong

from tileproof.conformance.contract import Tier
from tileproof.conformance.environment import capture
from tileproof.conformance.events import (
    CaseErrored,
    CaseExplained,
    CaseFinished,
    CaseNotRun,
    CaseStarted,
    CrashFileFailed,
    Event,
    EventFile,
    FindingFound,
    PassStarted,
    RouteCount,
    RunFinished,
    RunStarted,
    TargetCount,
    TargetsCompared,
    TargetUnavailable,
    WaiverFailed,
    event_name,
    read_events,
)
from tileproof.conformance.finding import Proof, Why
from tileproof.conformance.records import from_json, to_json
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.target import Target
from tileproof.conformance.worker import Job
from tileproof.oracle.refusal import Refusal


def all_events() -> list[Event]:
    finding = wrong(Job(small_case(), SIM, case_inputs(small_case()))).findings[0]
    return [
        RunStarted("smoke", 2, (SIM, GPU), None, capture()),
        PassStarted(1, 2, (replace(SIM, seed=1),)),
        TargetUnavailable(Target.GPU, "no GPU — none at all"),
        CrashFileFailed(SMALL, "ABCDEFG", "cannot be written: No space left on device"),
        CaseStarted(SMALL, Target.SIM, "ABCDEFG", "w.npy:w\udcff"),
        FindingFound(SMALL, (Target.SIM,), "ABCDEFG", finding),
        CaseExplained(SMALL, Target.SIM, Why(Proof.GUESS, "another rounding", "no proof: explains 1 of 2")),
        CaseFinished(SMALL, Target.SIM, False, "scalar", 0.5, "d", ("a note",), ("kernel/entry@0a",)),
        CaseErrored(SMALL, Target.SIM, "ABCDEFG", "not modelled", "Traceback ..."),
        CaseNotRun(SMALL, Target.GPU, "no GPU"),
        TargetsCompared(SMALL, (Target.SIM, Target.GPU), True),
        WaiverFailed("waiver 1", "it expired", "known"),
        RunFinished(
            (TargetCount(Target.SIM, 1, 2, 3, 4),), (RouteCount(Target.SIM, "k", "r", 1),), 1, 0, (), False, 1.5, 1
        ),
    ]


def test_every_kind_of_event_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    with EventFile(path) as file:
        for event in all_events():
            file.receive(event)
    assert list(read_events(path)) == all_events()
    assert {type(event) for event in all_events()} == set(Event.__args__), "an event type is not tried here"


def test_each_line_is_one_object_that_names_its_event(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    with EventFile(path) as file:
        for event in all_events():
            file.receive(event)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == [event_name(type(event)) for event in all_events()]
    assert event_name(CaseNotRun) == "case-not-run"


def test_an_event_is_in_the_file_before_the_next_one_happens(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    with EventFile(path) as file:
        file.receive(all_events()[0])
        assert list(read_events(path)) == all_events()[:1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":1 is not readable JSON"),
        ("[" * 100_000, ":1 is not readable JSON"),
        ("[]", ":1: not an event"),
        ('{"event": "no-such"}', ":1: not an event"),
        ('{"event": "case-not-run"}', "case-not-run: case: missing"),
        ('{"event": "case-not-run", "case": 1, "target": "sim", "reason": ""}', "case: 1 is not a text"),
        (
            '{"event": "case-not-run", "case": "", "target": "tpu", "reason": ""}',
            "target: 'tpu' is not one of sim, gpu",
        ),
        ('{"event": "case-not-run", "case": "", "target": "sim", "reason": "", "x": 1}', "x: no such field"),
        ('{"event": "targets-compared", "case": "", "targets": ["sim", 3], "equal": true}', "targets[1]: 3 is not"),
        ('{"event": "targets-compared", "case": "", "targets": [], "equal": 1}', "equal: 1 is not true or false"),
    ],
)
def test_a_damaged_event_file_is_refused_with_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "events.ndjson"
    path.write_text(line + "\n")
    with pytest.raises(Refusal) as refusal:
        list(read_events(path))
    assert message in str(refusal.value)


def test_an_event_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be written"):
        EventFile(tmp_path / "no" / "such" / "folder.ndjson")


@dataclass(frozen=True)
class Mixed:
    pair: tuple[int, str]
    tier: Tier | None
    number: float


def test_records_keep_types_apart() -> None:
    record = Mixed((1, "a"), None, 2.0)
    assert from_json(Mixed, to_json(record)) == record
    with pytest.raises(Refusal, match=r"pair: 3 items, not 2"):
        from_json(Mixed, {"pair": [1, "a", 2], "tier": None, "number": 0})
    with pytest.raises(Refusal, match=r"pair\[0\]: True is not an integer"):
        from_json(Mixed, {"pair": [True, "a"], "tier": None, "number": 0})


def test_the_environment_names_versions_and_no_machine() -> None:
    environment = capture()
    assert environment.tileproof != "none"
    assert environment.nvrtc.startswith("13.0")


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    event = CaseNotRun("a/b", Target.SIM, "why")
    with EventFile(path) as first:
        first.receive(event)
        with pytest.raises(Refusal, match="another run is writing it"):
            EventFile(path)
    assert list(read_events(path)) == [event]
    with EventFile(path):
        pass
    assert path.read_bytes() == b""
