"""Steps taken alone: which may not be, and that a search which takes them so finds what one without them finds."""

import itertools

import pytest
from random_models import random_model
from small_models import beside_a_circle, disturbed, forgetful

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.asking import Watched
from tileproof.simulators.protocols.definition import Reductions
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models import cp_async_ring, election, multicast_ring, split_k, tma_ring
from tileproof.simulators.protocols.movers import Movers
from tileproof.simulators.protocols.search import Search, decide, search

# Drawn models that a search gets wrong which does not watch what steps hold.
TELLING = (329, 344, 353)
WRONG = (
    *(election.Election(2, fault=fault).model() for fault in election.Fault if fault not in (4, 9)),
    election.Election(4, across=2, fault=election.Fault.WRONG_EXTENT).model(),
    *(split_k.SplitK(2, fault=fault).model() for fault in split_k.Fault if fault not in (5, 8)),
    *(tma_ring.TmaRing(2, 3, 2, fault=fault).model() for fault in tma_ring.Fault),
    *(
        cp_async_ring.CpAsyncRing(2, 4, 2, lean=fault is cp_async_ring.Fault.NO_SECOND_BARRIER, fault=fault).model()
        for fault in cp_async_ring.Fault
        if fault is not cp_async_ring.Fault.NO_LAST_BARRIER
    ),
    cp_async_ring.CpAsyncRing(2, 4, 2, lean=True, drains=False, fault=cp_async_ring.Fault.NO_LAST_BARRIER).model(),
    *(multicast_ring.MulticastRing(2, 1, 2, 1, fault=fault).model() for fault in multicast_ring.Fault),
    *(tma_ring.TmaRing(2, 3, 2, lag=1, overlays=False, fault=fault).model() for fault in list(tma_ring.Fault)[:11]),
)


def _same(model: Model) -> None:
    for symmetry in (False, True):
        whole, reduced = (search(model, Reductions(symmetry, partial)) for partial in (False, True))
        assert reduced.is_right == whole.is_right, (model.name, whole.wrong, reduced.wrong)
        assert not whole.is_right or (reduced.ends == whole.ends and reduced.states <= whole.states), model.name


def test_drawn_models_get_the_verdict_that_they_get_without() -> None:
    for seed in (*range(40), *TELLING):
        _same(random_model(seed))


@pytest.mark.slow
def test_so_do_many_more() -> None:
    for seed in range(40, 2000):
        _same(random_model(seed))


@pytest.mark.parametrize("seed", TELLING)
def test_a_search_that_does_not_watch_what_is_held_is_seen_to_be_wrong(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Movers, "_link", lambda *_: None)
    with pytest.raises(AssertionError):
        _same(random_model(seed))


@pytest.mark.parametrize("model", WRONG, ids=lambda model: model.name)
def test_every_fault_of_a_model_is_found_with_it(model: Model) -> None:
    whole, reduced = (search(model, Reductions(partial_order=partial)) for partial in (False, True))
    assert reduced.is_right == whole.is_right, (whole.wrong, reduced.wrong)


def test_what_another_changes_under_a_step_is_not_taken_alone() -> None:
    for order in itertools.permutations(range(2)):
        searched = Search(disturbed(order), Reductions())
        assert searched.run(progress=True).wrong == "found another number than before"
        assert "looks" in searched.not_alone


def test_what_can_go_round_and_round_is_not_taken_alone() -> None:
    searched = Search(beside_a_circle(), Reductions())
    assert searched.run(progress=True).wrong == "the other has come"
    assert "goes round" in searched.not_alone


def test_a_ring_takes_looks_and_reads_alone_and_nothing_that_others_wait_for() -> None:
    searched = Search(tma_ring.TmaRing(3, 9, 2).model(), Reductions())
    searched.run(progress=True)
    assert searched.not_alone >= {"releases the slot", "orders its first box", "{} lands last"}
    assert not searched.not_alone & {"finds the slot empty", "finds the slot full", "reads the slot", "{} lands"}


def test_an_action_that_hangs_on_something_else_is_refused() -> None:
    with pytest.raises(Refusal, match="hangs on more than the numbers that it looks at"):
        decide(forgetful())


def test_a_watched_row_is_looked_at_one_number_at_a_time() -> None:
    row = Watched((5, 6, 7))
    assert row[1] == 6
    row[2] = row[2] + 1
    assert (row.seen, row.changed, row.after()) == ({1: 6, 2: 7}, {2: 8}, (5, 6, 8))
    with pytest.raises(IndexError):
        row[-1]
    with pytest.raises(TypeError):
        row[0:2]  # type: ignore[index]
