"""The scripts of volume runs: what is sampled of false alarms, and how results of mutants are joined."""

import importlib
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tileproof.conformance.mutation.result import Outcome, Result, read_results, write_results
from tileproof.conformance.registry import contracts

SCRIPTS = Path(__file__).parents[1] / "h200"
RESULT = Result("k/drop/bar/0", "k", "k", "drop-barrier", "k.cu", 3, 7, "abc", Outcome.SURVIVED)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """The script that the test names."""
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    return importlib.import_module(request.param)


@pytest.mark.parametrize("script", ["false_alarms"], indirect=True)
def test_a_round_takes_every_case_once_and_all_seeds_about_as_often(script: ModuleType) -> None:
    every = script.cases()
    first, second = script.pairs(every, 0, len(every)), script.pairs(every, 1, len(every))
    assert {pair.case for pair in first} == {pair.case for pair in second} == set(every)
    assert all(one.seed != other.seed for one, other in zip(first, second, strict=True))
    counts = Counter(pair.seed for pair in first)
    assert len(counts) == script.SEEDS
    assert max(counts.values()) < 2 * len(every) / script.SEEDS


@pytest.mark.parametrize("script", ["false_alarms"], indirect=True)
def test_the_beginning_of_a_round_has_every_contract(script: ModuleType) -> None:
    begun = script.pairs(script.cases(), 0, 500)
    assert {pair.case.contract for pair in begun} == set(contracts())


@pytest.mark.slow
@pytest.mark.parametrize("script", ["false_alarms"], indirect=True)
@pytest.mark.parametrize("number", range(8))
def test_unedited_kernels_have_no_finding_under_hostile_schedules(script: ModuleType, number: int) -> None:
    wrong = [one for one in map(script.look, script.pairs(script.cases(), 10 + number, 60)) if one.findings]
    assert not wrong


@pytest.mark.parametrize("script", ["merge_mutants"], indirect=True)
def test_a_proof_and_a_decision_stay_where_the_newer_run_has_none(script: ModuleType, tmp_path: Path) -> None:
    equivalent = replace(RESULT, outcome=Outcome.EQUIVALENT, reason="same machine code")
    killed = replace(RESULT, outcome=Outcome.KILLED, case="c")
    unfinished = replace(RESULT, outcome=Outcome.UNFINISHED)
    assert script.joined(equivalent, RESULT) is equivalent
    assert script.joined(killed, unfinished) is killed
    assert script.joined(RESULT, killed) is killed
    assert script.joined(equivalent, replace(RESULT, ptx="def")).outcome is Outcome.SURVIVED
    known, more = tmp_path / "known", tmp_path / "more"
    write_results(known / "k.ndjson", [RESULT, replace(killed, id="k/other")])
    write_results(more / "k.ndjson", [killed])
    script.merge(more, known)
    assert {one.outcome for one in read_results(known / "k.ndjson").values()} == {Outcome.KILLED}
