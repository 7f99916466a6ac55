"""Every wrong kernel whose damage a value can show gives a wrong value on some seed, and again on the same seed."""

from dataclasses import replace

import numpy as np
import pytest
from launch import Shown, launch
from pair import Pair, input_words
from table import PAIRS
from unseen import UNSEEN

SEEDS = 50
SEEN = [pair for pair in PAIRS if pair.name not in UNSEEN]
HIDDEN = [pair for pair in PAIRS if pair.name in UNSEEN]


def is_wrong(pair: Pair, shown: Shown) -> bool:
    return not np.array_equal(shown.out, pair.expected(input_words()))


def first_wrong(pair: Pair) -> tuple[int, Shown] | None:
    """The first seed of the adversarial schedule that gives a wrong value, and what it showed."""
    shown = ((seed, launch(pair, "wrong", "adversarial", seed)) for seed in range(SEEDS + 1))
    return next(((seed, each) for seed, each in shown if is_wrong(pair, each)), None)


def _ids(pairs: list[Pair]) -> list[str]:
    return [pair.name.replace(" ", "-") for pair in pairs]


def test_the_reasons_are_of_rows_of_the_table_and_few() -> None:
    assert set(UNSEEN) <= {pair.name for pair in PAIRS}
    assert {pair.name for pair in PAIRS if not pair.visible} <= set(UNSEEN)
    assert len(SEEN) > 4 * len(HIDDEN)


@pytest.mark.parametrize("pair", SEEN, ids=_ids(SEEN))
def test_some_seed_gives_a_wrong_value_and_its_replay_gives_it_again(pair: Pair) -> None:
    found = first_wrong(pair)
    assert found is not None
    seed, shown = found
    again = launch(pair, "wrong", "adversarial", seed)
    np.testing.assert_array_equal(again.out, shown.out)
    assert again.report.findings == shown.report.findings
    assert shown.report.findings


@pytest.mark.slow
@pytest.mark.parametrize("pair", HIDDEN, ids=_ids(HIDDEN))
def test_no_seed_gives_a_wrong_value_where_a_reason_says_so(pair: Pair) -> None:
    assert first_wrong(pair) is None


def test_one_wrong_word_is_a_wrong_value_and_the_right_words_are_none() -> None:
    pair = SEEN[0]
    right = launch(pair, "right", "friendly", 0)
    assert not is_wrong(pair, right)
    assert is_wrong(pair, replace(right, out=right.out ^ (np.arange(right.out.size) == 7)))
