import numpy as np
import pytest
from launch import Shown, launch
from order_page import EVIDENCE, rows_of
from pair import Pair, input_words
from record_device import RIGHT_SEEDS, WRONG_SEEDS, kinds, row, schedules, silent_and_right
from table import PAIRS

from tileproof.simulators.ptx.findings import Report

#: A kernel takes 5 to 150 ms a seed, so all seeds take about eleven minutes: the gate has a sample of them.
GATE_SEEDS = 6
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name.replace(" ", "-"))
RECORDED = rows_of(EVIDENCE / "cpu_device" / "order_table.json", PAIRS)


def assert_silent_and_right(pair: Pair, seeds: int) -> None:
    expected = pair.expected(input_words())
    for schedule, seed in schedules(seeds):
        shown = launch(pair, "right", schedule, seed)
        assert shown.report.findings == [], (schedule, seed)
        np.testing.assert_array_equal(shown.out, expected, err_msg=f"{schedule} {seed}")


def assert_found(pair: Pair, seeds: int) -> None:
    for schedule, seed in schedules(seeds):
        found = kinds(pair, schedule, seed)
        assert set(found) & set(pair.kinds), (schedule, seed, found)


def test_the_table_has_at_least_forty_rows_with_names_of_their_own() -> None:
    assert len(PAIRS) >= 40
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)


@EVERY_PAIR
def test_a_right_kernel_is_silent_and_right(pair: Pair) -> None:
    assert_silent_and_right(pair, GATE_SEEDS)


@EVERY_PAIR
def test_a_wrong_kernel_is_found(pair: Pair) -> None:
    assert_found(pair, GATE_SEEDS)


@EVERY_PAIR
def test_a_wrong_kernel_has_the_recorded_kinds_of_findings(pair: Pair) -> None:
    assert kinds(pair) == RECORDED[pair.name]["wrong"]["kinds"]


def test_a_record_counts_what_is_not_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("record_device.WRONG_SEEDS", 1)
    monkeypatch.setattr("record_device.RIGHT_SEEDS", 1)
    monkeypatch.setattr(
        "record_device.kinds", lambda pair, schedule="friendly", seed=0: ["race"][: schedule == "friendly"]
    )
    monkeypatch.setattr("record_device.silent_and_right", lambda pair, schedule, seed: schedule == "friendly")
    made = row(PAIRS[0])
    assert made["wrong"] == {"kinds": ["race"], "as_expected": 1, "launches": 2}
    assert made["right"] == {"as_expected": 1, "launches": 2}


def test_a_finding_or_a_wrong_word_is_not_silent_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = PAIRS[0]
    expected = pair.expected(input_words())
    found = launch(pair, "wrong", "friendly", 0).report
    for shown, answer in (
        (Shown(Report(), expected), True),
        (Shown(Report(), expected + np.uint32(1)), False),
        (Shown(found, expected), False),
    ):
        monkeypatch.setattr("record_device.launch", lambda *_, shown=shown: shown)
        assert silent_and_right(pair, "friendly", 0) is answer


@pytest.mark.slow
@EVERY_PAIR
def test_a_right_kernel_is_silent_and_right_on_every_seed(pair: Pair) -> None:
    assert_silent_and_right(pair, RIGHT_SEEDS)


@pytest.mark.slow
@EVERY_PAIR
def test_a_wrong_kernel_is_found_on_every_seed(pair: Pair) -> None:
    assert_found(pair, WRONG_SEEDS)
