"""The search: what it finds, that it finds it by the shortest way, and that it is the search of the definition."""

import pytest
from small_models import counter, dishonest, locks, roundabout

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.definition import NOTHING_LEFT_OUT, Reductions, explore
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.models.election import Election
from tileproof.simulators.protocols.models.election import Fault as ElectionFault
from tileproof.simulators.protocols.search import Search, decide, search
from tileproof.simulators.protocols.trace import lines

REDUCTIONS = tuple(Reductions(symmetry, partial) for symmetry in (False, True) for partial in (False, True))
MODELS = (
    locks(crosswise=False),
    Election(2, launches=3).model(),
    Election(2, slots=2, pairs=1, host_clears=True).model(),
    Election(3).model(),
)
# Of the largest one only what is reduced: plain Python takes seconds for the rest.
GATE = tuple((model, reductions) for model in MODELS for reductions in REDUCTIONS[2 * (model is MODELS[-1]) :])


def test_a_lost_addition_is_found_by_the_shortest_way() -> None:
    verdict = decide(counter(2))
    assert verdict.wrong == "an addition is lost"
    assert verdict.trace is not None
    assert [step.words for step in verdict.trace.steps] == ["loads", "loads", "stores", "stores"]
    assert lines(verdict.trace)[-1].split(maxsplit=1)[0] == "4"


def test_one_adder_loses_nothing() -> None:
    assert decide(counter(1)).is_right


def test_locks_in_opposite_orders_end_with_nobody_able_to_go_on() -> None:
    assert decide(locks(crosswise=False)).is_right
    verdict = decide(locks(crosswise=True))
    assert verdict.wrong == "nobody can go on: taker 0 wants another, taker 1 wants another"
    assert verdict.trace is not None
    assert len(verdict.trace.steps) == 2


def test_a_state_without_a_way_to_the_end_is_found_though_something_can_always_happen() -> None:
    assert decide(roundabout(exits=True)).is_right
    assert decide(roundabout(exits=False)).wrong == "no way to the end any more: driver drives"


def test_a_number_out_of_its_range_is_refused() -> None:
    with pytest.raises(Refusal, match=r"stored became 2; it must lie in 0..1"):
        decide(counter(3, most=1))


def test_an_action_that_waits_and_changes_something_is_refused() -> None:
    with pytest.raises(Refusal, match="'lies' may not act and changed the state"):
        decide(dishonest())


def test_a_model_with_too_many_states_is_refused() -> None:
    with pytest.raises(Refusal, match="a search has room for 2147483646 at most"):
        search(Election(4).model(), most_states=1 << 31)
    with pytest.raises(Refusal, match="more than 20000 states"):
        search(Election(4).model(), NOTHING_LEFT_OUT, most_states=20_000)


@pytest.mark.parametrize(("model", "reductions"), GATE, ids=lambda value: getattr(value, "name", str(value)))
def test_the_compiled_search_sees_what_the_definition_sees(model: Model, reductions: Reductions) -> None:
    _same(model, reductions)


@pytest.mark.slow
@pytest.mark.parametrize("reductions", REDUCTIONS, ids=str)
@pytest.mark.parametrize("model", [Election(3).model(), Election(3, slots=2).model()], ids=lambda model: model.name)
def test_so_it_does_on_larger_ones(model: Model, reductions: Reductions) -> None:
    _same(model, reductions)


def _same(model: Model, reductions: Reductions) -> None:
    searched = Search(model, reductions)
    verdict = searched.run(progress=True)
    left_out = searched.left_out if reductions.partial_order else None
    seen = explore(model, symmetry=reductions.symmetry, left_out=left_out)
    assert verdict.is_right
    assert (verdict.states, verdict.steps, verdict.ends) == (seen.states, seen.steps, seen.ends)


@pytest.mark.parametrize("fault", [ElectionFault.NO_RELEASE, ElectionFault.NO_ACQUIRE, ElectionFault.NOT_REARMED])
def test_reductions_change_no_verdict_and_no_length_without_partial_order(fault: ElectionFault) -> None:
    model = Election(2, fault=fault).model()
    whole = search(model, NOTHING_LEFT_OUT)
    assert whole.trace is not None
    for reductions in REDUCTIONS[1:]:
        reduced = search(model, reductions)
        assert reduced.wrong == whole.wrong
        assert reduced.trace is not None
        if not reductions.partial_order:
            assert len(reduced.trace.steps) == len(whole.trace.steps)
            assert reduced.states < whole.states


@pytest.mark.parametrize("model", [Election(3).model(), Election(3, slots=2).model()], ids=lambda model: model.name)
def test_reductions_leave_out_states_and_no_end(model: Model) -> None:
    whole, *reduced = (search(model, reductions) for reductions in REDUCTIONS)
    assert all(one.is_right and one.ends >= 1 and one.states < whole.states for one in (*reduced[1:],))
    assert whole.is_right
