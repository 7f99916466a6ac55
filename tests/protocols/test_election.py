"""The scale ring's election: right in every form, each fault by its rule, and as many states as counted by hand."""

import pytest
from election_by_hand import count_states

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.definition import NOTHING_LEFT_OUT, explore
from tileproof.simulators.protocols.models.election import Election, Fault
from tileproof.simulators.protocols.search import decide, search

RIGHT = (
    Election(4),
    Election(4, across=2, slots=2),
    Election(4, pairs=1),
    Election(4, pairs=1, host_clears=True),
    Election(2, launches=4),
)
LARGE = (
    *(Election(blocks) for blocks in range(6, 10)),
    Election(5, slots=2),
    Election(6, across=2, slots=2),
    Election(6, pairs=1),
)

CASTS = "a block casts with the scale of another launch"
LOST = "the last block publishes without the maximum of some block, or with one of another launch"
FAULTS = {
    Fault.NO_RELEASE: (Election(2), LOST),
    Fault.NO_ACQUIRE: (Election(2), LOST),
    Fault.NO_SYNCWARP: (Election(2, slots=2), LOST),
    Fault.WRONG_EXTENT: (Election(4, across=2), LOST),
    Fault.NOT_REARMED: (Election(2), "a launch ends and leaves the counter at another number than 0"),
    Fault.NOT_CLEANED: (Election(2), "a launch ends and leaves maxima behind"),
    Fault.READS_LATE: (Election(2, pairs=1), CASTS),
    Fault.TWO_STREAMS: (Election(2), LOST),
    Fault.PRODUCT_BEHIND_ONE_PAIR: (
        Election(2, pairs=1),
        "a product multiplies with another scale than its codes were cast with",
    ),
    Fault.ONE_GRAPH: (Election(2), CASTS),
}


@pytest.mark.parametrize("election", RIGHT, ids=lambda election: election.name)
def test_a_right_election_is_proved(election: Election) -> None:
    verdict = decide(election.model())
    assert verdict.is_right, verdict.wrong
    assert verdict.ends == 1


@pytest.mark.slow
@pytest.mark.parametrize("election", LARGE, ids=lambda election: election.name)
def test_so_is_a_larger_one(election: Election) -> None:
    verdict = decide(election.model())
    assert verdict.is_right, verdict.wrong


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_breaks_its_rule_by_a_shortest_trace(fault: Fault) -> None:
    right, wrong = FAULTS[fault]
    assert decide(right.model()).is_right
    verdict = decide(right.with_fault(fault).model())
    assert verdict.wrong == wrong
    assert verdict.trace is not None
    assert len(verdict.trace.steps) == explore(right.with_fault(fault).model(), symmetry=True).depth


def test_every_fault_is_tested() -> None:
    assert set(FAULTS) == set(Fault) - {Fault.NONE}


@pytest.mark.parametrize(("blocks", "slots", "launches"), [(2, 1, 2), (2, 2, 3), (3, 1, 1)])
def test_states_are_as_many_as_another_checker_counts(blocks: int, slots: int, launches: int) -> None:
    verdict = search(Election(blocks, slots=slots, launches=launches).model(), NOTHING_LEFT_OUT)
    assert verdict.states == count_states(blocks, slots, launches)


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "slots", "launches"), [(3, 1, 2), (3, 2, 2)])
def test_so_they_are_of_three_blocks(blocks: int, slots: int, launches: int) -> None:
    verdict = search(Election(blocks, slots=slots, launches=launches).model(), NOTHING_LEFT_OUT)
    assert verdict.states == count_states(blocks, slots, launches)


def test_parameters_without_meaning_are_refused() -> None:
    with pytest.raises(Refusal, match=r"5 slots; it must lie in 1\.\.4"):
        Election(2, slots=5).model()
    with pytest.raises(Refusal, match="2 pairs with the fault of one"):
        Election(2, fault=Fault.PRODUCT_BEHIND_ONE_PAIR).model()
