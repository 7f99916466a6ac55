"""Who takes which case: every case once, and neighbours with one process."""

import random
from itertools import pairwise

from tileproof.conformance.contract import Tier
from tileproof.conformance.registry import contracts
from tileproof.conformance.shares import Shares

CASES = contracts()["ninfer_quantize"].cases(Tier.FULL)[:200]


def taken(shares: Shares, asking: list[int]) -> dict[int, list[int]]:
    """The places in the list of the cases that each process got; processes ask in this order, again and again."""
    got: dict[int, list[int]] = {process: [] for process in asking}
    while shares:
        for process in asking:
            if shares:
                got[process].append(CASES.index(shares.take(process)))
    return got


def test_every_case_is_taken_once_whoever_asks() -> None:
    for seed in range(20):
        asking = [random.Random(seed).randrange(5) for _ in range(17)]
        for apart in (True, False):
            got = taken(Shares(CASES, apart=apart), asking)
            assert sorted(place for places in got.values() for place in places) == list(range(len(CASES)))


def test_two_processes_that_stay_apart_each_go_through_neighbours() -> None:
    got = taken(Shares(CASES, apart=True), [0, 1])
    jumps = sum(after != before + 1 for places in got.values() for before, after in pairwise(places))
    assert got[0][0] == 0
    assert jumps <= 2
    assert not set(got[0][:50]) & set(got[1][:50])


def test_a_slow_process_s_share_is_divided_again_and_again() -> None:
    got = taken(Shares(CASES, apart=True), [0] + [1] * 20)
    assert len(got[1]) > 15 * len(got[0])


def test_a_process_that_died_leaves_its_share_to_the_others() -> None:
    shares = Shares(CASES, apart=True)
    before = [shares.take(0), shares.take(1), shares.take(0)]
    after = [shares.take(2) for _ in range(len(shares))]
    assert sorted(map(str, before + after)) == sorted(map(str, CASES))


def test_within_a_budget_cases_are_taken_in_their_order() -> None:
    shares = Shares(CASES, apart=False)
    assert [shares.take(process) for process in (0, 1, 1, 2, 0)] == list(CASES[:5])
