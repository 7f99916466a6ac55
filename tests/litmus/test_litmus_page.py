from pathlib import Path

import litmus_page
import pytest
from axioms import verdict
from litmus_page import asked, cell, counts, rows
from litmus_table import CHECKED_SEEDS, INSTANCES, TESTS, digest
from reach import reachable
from record_litmus import row

MP = "MP, weak data, relaxed flag, gpu, blocks"


def test_every_test_of_today_is_recorded_with_ten_thousand_schedules() -> None:
    record = rows()
    assert set(record) == set(TESTS)
    assert all(sum(count for _, count in each["outcomes"]) >= INSTANCES >= 10_000 for each in record.values())


def test_the_record_has_no_outcome_that_the_model_forbids() -> None:
    for name, each in rows().items():
        assert {tuple(outcome) for outcome, _ in each["outcomes"]} <= verdict(TESTS[name]).outcomes, name


def test_every_outcome_within_reach_is_in_the_record() -> None:
    for name, each in rows().items():
        if any(map(TESTS[name].asks_for, reachable(TESTS[name]))):
            assert asked(TESTS[name], each), name


def test_every_launch_of_a_racy_test_was_reported_and_of_no_other() -> None:
    for name, each in rows().items():
        kinds = each["kinds"]
        reported = kinds.get("race", 0) + kinds.get("scope", 0)
        assert reported >= each["checked"] if verdict(TESTS[name]).racy else not kinds, name


def test_a_row_of_a_record_is_of_its_test() -> None:
    test = TESTS[MP]
    made = row(test, 1)
    assert made["digest"] == digest(test)
    assert made["checked"] == 1 < CHECKED_SEEDS
    assert made["kinds"] == {"race": 1}


@pytest.mark.parametrize(
    ("outcomes", "kinds", "expected"),
    [
        ([[[1, 0, 1, 1], 1234], [[0, 0, 1, 1], 8]], {"race": 2}, "allowed, 1,234; race"),
        ([[[0, 0, 1, 1], 8]], {}, "allowed, 0"),
    ],
)
def test_a_cell_says_verdict_count_and_race(outcomes: list[object], kinds: dict[str, int], expected: str) -> None:
    assert cell(MP, {MP: {"outcomes": outcomes, "kinds": kinds}}) == expected


def test_a_cell_of_a_test_that_was_not_run_says_so_and_one_out_of_reach_too() -> None:
    buffering = "LB, relaxed, gpu, blocks"
    assert cell(MP, {}) == "not run"
    assert cell(buffering, {buffering: {"outcomes": [], "kinds": {}}}) == "allowed, out of reach"
    forbidden = "MP, weak data, release and acquire, gpu, blocks"
    assert cell(forbidden, {forbidden: {"outcomes": [], "kinds": {"race": 1}}}) == "forbidden, 0; race"


def test_what_was_seen_is_counted_apart_from_what_is_in_reach() -> None:
    forbidden, allowed, reached, seen = counts({})
    assert forbidden + allowed == len(TESTS)
    assert 0 < reached < allowed
    assert seen == 0


def test_a_record_of_other_tests_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = tmp_path / "litmus.json"
    record.write_text('{"rows": [{"name": "' + MP + '", "digest": "of another"}]}')
    monkeypatch.setattr(litmus_page, "RECORD", record)
    assert rows() == {}
