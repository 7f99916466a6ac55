import numpy as np
import pytest
from launch import launch
from pair import Pair, input_words
from table import PAIRS

#: A kernel takes 5 to 150 ms a seed, so all seeds take about eleven minutes: the gate has a sample of them.
WRONG_SEEDS, RIGHT_SEEDS = 50, 200
GATE_SEEDS = 6
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name.replace(" ", "-"))


def places(seeds: int) -> list[tuple[str, int]]:
    return [("friendly", 0), *(("adversarial", seed) for seed in range(seeds))]


def assert_silent_and_right(pair: Pair, seeds: int) -> None:
    expected = pair.expected(input_words())
    for schedule, seed in places(seeds):
        shown = launch(pair, "right", schedule, seed)
        assert shown.report.findings == [], (schedule, seed)
        np.testing.assert_array_equal(shown.out, expected, err_msg=f"{schedule} {seed}")


def assert_found(pair: Pair, seeds: int) -> None:
    for schedule, seed in places(seeds):
        kinds = {finding.kind.value for finding in launch(pair, "wrong", schedule, seed).report.findings}
        assert kinds & set(pair.kinds), (schedule, seed, kinds)


def test_the_table_has_at_least_forty_rows_with_names_of_their_own() -> None:
    assert len(PAIRS) >= 40
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)


@EVERY_PAIR
def test_a_right_kernel_is_silent_and_right(pair: Pair) -> None:
    assert_silent_and_right(pair, GATE_SEEDS)


@EVERY_PAIR
def test_a_wrong_kernel_is_found(pair: Pair) -> None:
    assert_found(pair, GATE_SEEDS)


@pytest.mark.slow
@EVERY_PAIR
def test_a_right_kernel_is_silent_and_right_on_every_seed(pair: Pair) -> None:
    assert_silent_and_right(pair, RIGHT_SEEDS)


@pytest.mark.slow
@EVERY_PAIR
def test_a_wrong_kernel_is_found_on_every_seed(pair: Pair) -> None:
    assert_found(pair, WRONG_SEEDS)
