"""What happens beside threads and is put off: such a search finds what one without finds, and is the definition's."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from random_rings import random_ring

from tileproof.simulators.protocols.asking import Watched
from tileproof.simulators.protocols.definition import Reductions, explore
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models.cp_async_ring import CpAsyncRing
from tileproof.simulators.protocols.put_off import PutOff
from tileproof.simulators.protocols.search import Search, search

# Drawn rings that a search gets wrong which does not know what things beside threads touch.
SHARED_TELLS = (17, 31, 43)
OWN_TELLS = (251, 719, 1073)
KINDS = (
    CpAsyncRing(2, 4, 2),
    CpAsyncRing(2, 4, 2, crosswise=True),
    CpAsyncRing(2, 4, 2, lean=True),
    CpAsyncRing(2, 4, 2, lean=True, drains=False),
)
SMALL = tuple(
    replace(kind, stages=stages, tiles=tiles, warps=warps)
    for stages, tiles, warps in ((2, 4, 2), (3, 4, 2), (2, 3, 3))
    for kind in KINDS
)


def _same(model: Model) -> None:
    for symmetry in (False, True):
        whole, reduced = (search(model, Reductions(symmetry, partial)) for partial in (False, True))
        assert reduced.is_right == whole.is_right, (model.name, whole.wrong, reduced.wrong)
        assert not whole.is_right or (reduced.ends == whole.ends and reduced.states <= whole.states), model.name


def _as_defined(model: Model) -> None:
    searched = Search(model, Reductions())
    verdict = searched.run(progress=True)
    seen = explore(model, symmetry=True, left_out=searched.left_out)
    if verdict.is_right:
        assert (verdict.states, verdict.steps, verdict.ends) == (seen.states, seen.steps, seen.ends), model.name
    else:
        assert seen.broken or seen.stuck, model.name


def test_drawn_rings_get_the_verdict_that_they_get_without() -> None:
    for seed in (*range(40), *SHARED_TELLS, *OWN_TELLS):
        _same(random_ring(seed))


@pytest.mark.slow
def test_so_do_many_more() -> None:
    for seed in range(40, 2000):
        _same(random_ring(seed))


def test_the_compiled_search_puts_off_what_the_definition_does() -> None:
    for seed in range(25):
        _as_defined(random_ring(seed))


def _forgets(which: int) -> Callable[[PutOff], Any]:
    footprints = PutOff.footprints

    def forgetful(self: PutOff) -> Any:
        found = footprints(self)
        return found and tuple(part * (number != which) for number, part in enumerate(found))

    return forgetful


@pytest.mark.parametrize(
    ("which", "seed"), [*((0, seed) for seed in SHARED_TELLS), *((1, seed) for seed in OWN_TELLS)], ids=str
)
def test_a_search_that_does_not_know_what_things_touch_is_seen_to_be_wrong(
    which: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PutOff, "footprints", _forgets(which))
    with pytest.raises(AssertionError):
        _same(random_ring(seed))


@pytest.mark.parametrize("ring", SMALL, ids=lambda ring: ring.name)
def test_rings_of_copies_are_decided_as_without_and_as_defined(ring: CpAsyncRing) -> None:
    _same(ring.model())
    _as_defined(ring.model())


def test_a_landing_that_nobody_waits_for_is_put_off() -> None:
    """Else every subset of the copies on their way would be looked at: a stage more, twice as many for each warp."""
    states = [search(CpAsyncRing(stages, 6, 2).model()).states for stages in (2, 3, 4, 5)]
    assert all(more < 1.5 * less for less, more in itertools.pairwise(states)), states


def test_adding_is_not_looking_until_one_looks() -> None:
    row = Watched((5, 6, 7))
    row.add(1, 2)
    row.add(2, -1)
    assert row[2] == 6
    row[0] = 1
    row.add(0, 1)
    assert (row.added, row.seen, row.after()) == ({1}, {0: 5, 1: 6, 2: 7}, (2, 8, 6))
