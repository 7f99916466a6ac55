"""The checker of the memory model against verdicts that are known.

Sources: the litmus tests in the chapter "Memory Consistency Model" of the PTX ISA, and verdicts of the published formal
models of PTX (Lustig et al., ASPLOS 2019; Goens et al., PLDI 2023) for the classic shapes.
"""

import pytest
from axioms import verdict
from litmus_program import BulkLoad, Exchange, Fence, Litmus, Order, ProxyFence, Read, Thread, Write
from litmus_table import TESTS

ALLOWED, FORBIDDEN = True, False
WELL_KNOWN = {
    # Message passing needs both sides, and a scope that reaches.
    "MP, weak, blocks": ALLOWED,
    "MP, relaxed, gpu, blocks": ALLOWED,
    "MP, volatile, blocks": ALLOWED,
    "MP, weak data, relaxed flag, gpu, blocks": ALLOWED,
    "MP, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "MP, weak data, release and acquire, sys, blocks": FORBIDDEN,
    "MP, weak data, release and acquire, cta, blocks": ALLOWED,
    "MP, weak data, release and acquire, cta, one block": FORBIDDEN,
    "MP, weak data, relaxed flag, fence.acq_rel, gpu, blocks": FORBIDDEN,
    "MP, weak data, relaxed flag, fence.acq_rel, cta, blocks": ALLOWED,
    # Store buffering needs fence.sc.
    "SB, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "SB, weak data, release and acquire, gpu, blocks": ALLOWED,
    "SB, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    "SB, relaxed, fence.sc, cta, blocks": ALLOWED,
    "SB, relaxed, fence.sc, cta, one block": FORBIDDEN,
    # Load buffering.
    "LB, relaxed, gpu, blocks": ALLOWED,
    "LB, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "LB, relaxed, fence.acq_rel, gpu, blocks": FORBIDDEN,
    "load buffering with data dependencies": FORBIDDEN,
    # One place: strong accesses are coherent, racing weak ones are not, one thread's own always are.
    "CoRR, relaxed, gpu, blocks": FORBIDDEN,
    "CoRR, relaxed, cta, blocks": ALLOWED,
    "CoRR, weak, blocks": ALLOWED,
    "CoWW, weak, blocks": FORBIDDEN,
    "CoRW, relaxed, gpu, blocks": FORBIDDEN,
    "CoWR, relaxed, gpu, blocks": FORBIDDEN,
    # PTX is not multi-copy atomic: acquire and release leave IRIW open.
    "IRIW, weak data, release and acquire, gpu, blocks": ALLOWED,
    "IRIW, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "IRIW, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    # Causality is cumulative.
    "WRC, relaxed data, release and acquire, gpu, blocks": FORBIDDEN,
    "WRC, relaxed, fence.acq_rel, gpu, blocks": FORBIDDEN,
    "WRC, relaxed, gpu, blocks": ALLOWED,
    "ISA2, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "RWC, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "RWC, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    "R, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "R, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    "S, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "2+2W, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "2+2W, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    # Patterns.
    "release, relaxed atomic, acquire": FORBIDDEN,
    "release, relaxed atomic of the block's scope, acquire": ALLOWED,
    "release, then a relaxed store to the same place": FORBIDDEN,
    "a relaxed read, then an acquire of the same place": FORBIDDEN,
    "two exchanges of one place": FORBIDDEN,
    "two exchanges of the block's scope in two blocks": ALLOWED,
    # Barriers: cumulative on both sides of a fence.
    "bar.sync, then a fence and the flag": FORBIDDEN,
    "a fence before bar.sync, then the flag": ALLOWED,
    "the flag, a fence, then bar.sync": FORBIDDEN,
    "the flag, then bar.sync and the reader's fence": ALLOWED,
    # Proxies: the fence stands in the block of the asynchronous access, and cp.async needs none.
    "write, cp.async": FORBIDDEN,
    "write, bulk load": ALLOWED,
    "write, proxy fence, bulk load": FORBIDDEN,
    "release, acquire, proxy fence, bulk load": FORBIDDEN,
    "proxy fence, release, acquire, bulk load": ALLOWED,
    "bulk store, release, acquire, read": FORBIDDEN,
}


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
