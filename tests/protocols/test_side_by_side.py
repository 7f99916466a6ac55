"""Several threads: the same states in the same order as one thread finds, and the same faults."""

import numpy as np
import pytest
from random_models import random_model

from tileproof.simulators.protocols import side_by_side
from tileproof.simulators.protocols.definition import ALL_REDUCTIONS, NOTHING_LEFT_OUT, Reductions
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models.election import Election
from tileproof.simulators.protocols.models.election import Fault as ElectionFault
from tileproof.simulators.protocols.models.tma_ring import Fault, TmaRing
from tileproof.simulators.protocols.search import Search, Verdict

SEARCHES = (
    (Election(3).model(), NOTHING_LEFT_OUT),
    (Election(5).model(), ALL_REDUCTIONS),
    (TmaRing(4, 12, 2).model(), ALL_REDUCTIONS),
    (TmaRing(4, 12, 2, fault=Fault.TOO_FEW_BYTES).model(), Reductions(partial_order=False)),
    (Election(3, fault=ElectionFault.NO_ACQUIRE).model(), Reductions(partial_order=False)),
)


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "LARGE", 32)


def _found(model: Model, reductions: Reductions, threads: int) -> tuple[Search, Verdict]:
    search = Search(model, reductions, threads=threads)
    return search, search.run(progress=True)


def _same(model: Model, reductions: Reductions, threads: int) -> None:
    (one, verdict), (more, found) = (_found(model, reductions, count) for count in (1, threads))
    assert (found.wrong, found.trace, found.depth) == (verdict.wrong, verdict.trace, verdict.depth)
    if verdict.is_right:  # else how many have been found by then hangs on the pieces
        assert (found.states, found.steps, found.ends) == (verdict.states, verdict.steps, verdict.ends)
    known = slice(min(found.states, verdict.states))
    assert np.array_equal(one.queue.states[known], more.queue.states[known])
    assert np.array_equal(one.queue.parents[known], more.queue.parents[known])


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(("model", "reductions"), SEARCHES, ids=lambda value: getattr(value, "name", str(value)))
def test_threads_find_what_one_finds_in_the_same_order(model: Model, reductions: Reductions, threads: int) -> None:
    _same(model, reductions, threads)


@pytest.mark.usefixtures("_small_pieces")
def test_so_they_do_in_drawn_models() -> None:
    for seed in range(30):
        _same(random_model(seed), Reductions(False, False), 2)


@pytest.mark.usefixtures("_small_pieces")
def test_pieces_were_looked_at_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would compare one thread with itself."""
    pieces: list[int] = []
    balance = side_by_side.Team._balance

    def counted(team: side_by_side.Team, shares: list[side_by_side._Share], entering: float) -> None:
        pieces.append(len(shares))
        balance(team, shares, entering)

    monkeypatch.setattr(side_by_side.Team, "_balance", counted)
    _found(TmaRing(4, 12, 2).model(), ALL_REDUCTIONS, 2)
    assert len(pieces) > 10
    assert set(pieces) == {2}
