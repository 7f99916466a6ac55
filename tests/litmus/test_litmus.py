"""Litmus tests on the CPU device: nothing that the model forbids, and what is in reach of the machine.

The verdicts come from the model's axioms (`axioms`, held by `test_axioms`), what is in reach from a small machine of
the same rules that is explored completely (`reach`).
"""

from collections import Counter

import pytest
from axioms import verdict
from litmus_program import Litmus
from litmus_run import GROUPS, run
from litmus_table import INSTANCES, TESTS, run_all_seeds
from reach import reachable

#: Run in the gate, each on some seeds.
QUICK = (
    "MP, weak data, relaxed flag, gpu, blocks",
    "MP, weak data, release and acquire, gpu, blocks",
    "MP, weak data, relaxed flag, fence.acq_rel, gpu, blocks",
    "MP, weak data, relaxed flag, fence.acq_rel, cta, blocks",
    "SB, weak, blocks",
    "SB, weak, fence.sc, gpu, blocks",
    "2+2W, weak, blocks",
    "R, weak data, release and acquire, gpu, blocks",
    "CoRR, relaxed, gpu, blocks",
    "IRIW, relaxed, fence.sc, gpu, blocks",
    "ISA2, weak data, release and acquire, gpu, blocks",
    "bar.sync, then a fence and the flag",
    "bar.sync, then the flag without a fence",
    "two writers of one block, one of which releases",
    "no barrier between lanes",
    "write, bulk load",
    "write, proxy fence, bulk load",
)
QUICK_SEEDS = 8
BOTH_ENGINES = (
    "MP, weak data, release and acquire, gpu, blocks",
    "2+2W, weak, blocks",
    "bar.sync, then the flag without a fence",
    "release, acquire, bulk load",
)


def assert_as_the_model_says(test: Litmus, outcomes: Counter[tuple[int, ...]]) -> None:
    """Only what is allowed comes; the outcome that the test asks for comes if it is in reach."""
    assert set(outcomes) <= verdict(test).outcomes
    if any(map(test.asks_for, reachable(test))):
        assert any(map(test.asks_for, outcomes))


@pytest.mark.parametrize("name", TESTS)
def test_whatever_the_rules_of_late_stores_and_stale_loads_reach_is_allowed(name: str) -> None:
    assert reachable(TESTS[name]) <= verdict(TESTS[name]).outcomes


@pytest.mark.parametrize("name", QUICK)
def test_some_schedules_show_what_is_in_reach_and_nothing_that_is_forbidden(name: str) -> None:
    shown = run(TESTS[name], range(QUICK_SEEDS))
    assert_as_the_model_says(TESTS[name], shown.outcomes)
    reported = shown.kinds["race"] + shown.kinds["scope"]
    assert reported >= QUICK_SEEDS if verdict(TESTS[name]).racy else not shown.kinds


@pytest.mark.parametrize("name", BOTH_ENGINES)
def test_both_engines_give_equal_outcomes_on_equal_seeds(name: str) -> None:
    fast, reference = (run(TESTS[name], range(3), engine=engine) for engine in ("fast", "reference"))
    assert fast == reference


def test_a_forbidden_outcome_and_a_missing_one_are_both_found() -> None:
    forbidden, weak = TESTS["MP, weak data, release and acquire, gpu, blocks"], TESTS["SB, weak, blocks"]
    with pytest.raises(AssertionError):
        assert_as_the_model_says(forbidden, Counter({(1, 0, 1, 1): 1}))
    with pytest.raises(AssertionError):
        assert_as_the_model_says(weak, Counter({(1, 1, 1, 1): INSTANCES}))


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_ten_thousand_schedules_show_what_is_in_reach_and_nothing_that_is_forbidden(name: str) -> None:
    shown = run_all_seeds(TESTS[name])
    assert shown.outcomes.total() >= INSTANCES
    assert_as_the_model_says(TESTS[name], shown.outcomes)


#: What a rule of the weak behaviour must prevent: forbidden outcomes of weak data.
PREVENTED = [
    name
    for name, test in TESTS.items()
    if "weak" in name and name.endswith("gpu, blocks") and not any(map(test.asks_for, verdict(test).outcomes))
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PREVENTED)
def test_ten_thousand_orders_of_single_threads_show_nothing_that_is_forbidden(name: str) -> None:
    shown = run(TESTS[name], range(1000, 1000 + INSTANCES // GROUPS), lanes=1)
    assert shown.outcomes.total() >= 10_000
    assert set(shown.outcomes) <= verdict(TESTS[name]).outcomes
