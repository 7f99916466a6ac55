"""The checker of the memory model against verdicts that are known, and its single rules."""

import pytest
from axioms import verdict
from known_verdicts import WELL_KNOWN
from litmus_program import BulkLoad, Exchange, Fence, Litmus, Order, ProxyFence, Read, Thread, Write
from litmus_table import TESTS


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_the_checker_gives_the_verdict_that_is_known(name: str) -> None:
    test = TESTS[name]
    assert any(map(test.asks_for, verdict(test).outcomes)) is WELL_KNOWN[name]


def _two(first: tuple[object, ...], second: tuple[object, ...], block: int = 1) -> Litmus:
    return Litmus("two", (Thread(first), Thread(second, block)), {})  # type: ignore[arg-type]


def test_every_interleaving_is_allowed() -> None:
    test = _two((Write("x", 1), Write("y", 1)), (Read("y", 0), Read("x", 1)))
    assert {(0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)} <= verdict(test).outcomes


def test_strong_accesses_in_scope_do_not_race_and_others_do() -> None:
    relaxed = (Write("x", 1, Order.RELAXED),), (Read("x", 0, Order.RELAXED),)
    narrow = (Write("x", 1, Order.RELAXED, "cta"),), (Read("x", 0, Order.RELAXED),)
    assert not verdict(_two(*relaxed)).racy
    assert verdict(_two(*narrow)).racy
    assert not verdict(_two(*narrow, block=0)).racy
    assert verdict(_two((Write("x", 1),), (Read("x", 0),))).racy


def test_an_access_of_the_async_proxy_races_with_the_same_threads_store_without_a_proxy_fence() -> None:
    bare, fenced = (Write("x", 1), BulkLoad("x", 0)), (Write("x", 1), ProxyFence(), BulkLoad("x", 0))
    assert verdict(_two(bare, ())).racy
    assert not verdict(_two(fenced, ())).racy


def test_no_write_comes_between_the_two_halves_of_an_atomic() -> None:
    test = _two((Exchange("x", 1, 0),), (Write("x", 2, Order.RELAXED),))
    assert verdict(test).outcomes == {(0, 2), (2, 1)}


def test_fences_order_only_what_is_on_their_sides() -> None:
    test = _two(
        (Fence(), Write("x", 1), Write("y", 1, Order.RELAXED)), (Read("y", 0, Order.RELAXED), Fence(), Read("x", 1))
    )
    assert (1, 0, 1, 1) in verdict(test).outcomes
