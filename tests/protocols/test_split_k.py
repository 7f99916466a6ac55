"""Split K with a last arrival that combines: right with both kinds of counters, each fault by its rule."""

import pytest
from split_k_by_hand import count_states

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.definition import NOTHING_LEFT_OUT, explore
from tileproof.simulators.protocols.models.split_k import Fault, SplitK
from tileproof.simulators.protocols.search import decide, search

RIGHT = (
    SplitK(4),
    SplitK(3, launches=3, start=5 * 3),
    SplitK(4, resets=True),
    SplitK(2, launches=4, wrap=6, start=4),
)
PLANE = "the last block adds a plane that its part has not stored, or not in this launch"
ONCE = "a launch ends without having added the planes exactly once"
FAULTS = {
    Fault.NO_RELEASE: (SplitK(2), PLANE),
    Fault.NO_ACQUIRE: (SplitK(2), PLANE),
    Fault.NO_BARRIER: (SplitK(2), PLANE),
    Fault.BEGINS_AT_ZERO: (SplitK(2), ONCE),
    Fault.FIRST_ARRIVAL: (SplitK(2), PLANE),
    Fault.ONE_PLANE: (SplitK(2), PLANE),
    Fault.NOT_RESET: (SplitK(2, resets=True), ONCE),
    Fault.TWO_STREAMS: (SplitK(2), PLANE),
}


@pytest.mark.parametrize("split", RIGHT, ids=lambda split: split.name)
def test_a_right_combine_is_proved(split: SplitK) -> None:
    verdict = decide(split.model())
    assert verdict.is_right, verdict.wrong


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_breaks_its_rule_by_a_shortest_trace(fault: Fault) -> None:
    right, wrong = FAULTS[fault]
    assert decide(right.model()).is_right
    verdict = decide(right.with_fault(fault).model())
    assert verdict.wrong == wrong
    assert verdict.trace is not None
    assert len(verdict.trace.steps) == explore(right.with_fault(fault).model(), symmetry=True).depth


def test_a_counter_that_wraps_within_a_launch_chooses_a_wrong_block() -> None:
    """2^32 stands as 16: neither is a multiple of three."""
    verdict = decide(SplitK(3, launches=2, wrap=16, start=15, fault=Fault.NARROW_COUNTER).model())
    assert verdict.wrong == ONCE
    with pytest.raises(Refusal, match="wraps at 16 with 3 parts"):
        SplitK(3, wrap=16).model()


def test_every_fault_is_tested() -> None:
    assert {*FAULTS, Fault.NARROW_COUNTER} == set(Fault) - {Fault.NONE}


@pytest.mark.slow
@pytest.mark.parametrize(
    "split", [SplitK(7), SplitK(8, launches=1), SplitK(6, launches=3, resets=True)], ids=lambda split: split.name
)
def test_so_are_more_launches(split: SplitK) -> None:
    verdict = decide(split.model())
    assert verdict.is_right, verdict.wrong


@pytest.mark.parametrize(("parts", "launches"), [(2, 2), (3, 1)])
def test_states_are_as_many_as_another_checker_counts(parts: int, launches: int) -> None:
    verdict = search(SplitK(parts, launches=launches).model(), NOTHING_LEFT_OUT)
    assert verdict.states == count_states(parts, launches)


@pytest.mark.slow
def test_so_they_are_of_two_launches_of_three() -> None:
    assert search(SplitK(3).model(), NOTHING_LEFT_OUT).states == count_states(3, 2)
