"""The ring that cp.async fills: right with a slot more and lean, congruous and crosswise; each fault by its rule."""

from dataclasses import replace

import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.definition import explore
from tileproof.simulators.protocols.models.cp_async_ring import CpAsyncRing, Fault
from tileproof.simulators.protocols.search import decide

KINDS = (
    CpAsyncRing(2, 4, 2),
    CpAsyncRing(2, 4, 2, crosswise=True),
    CpAsyncRing(2, 4, 2, lean=True),
    CpAsyncRing(2, 4, 2, lean=True, drains=False),
)
RIGHT = (
    *(replace(kind, stages=stages, tiles=tiles) for stages in (2, 3) for tiles in (1, 4, 6) for kind in KINDS),
    *(replace(kind, warps=warps) for warps in (1, 3) for kind in KINDS),
    CpAsyncRing(1, 3, 2),
)
SIZES = tuple((stages, 3 * stages, warps) for stages in range(2, 9) for warps in range(1, 9))
LARGE = tuple(
    replace(kind, stages=stages, tiles=tiles, warps=warps) for stages, tiles, warps in SIZES for kind in KINDS
)
READ = "a warp multiplies a slot that does not hold its tile whole"
FAULTS = {
    Fault.WAITS_FOR_TOO_FEW: (CpAsyncRing(2, 4, 2), READ),
    Fault.EMPTY_NOT_COMMITTED: (CpAsyncRing(2, 4, 2), READ),
    Fault.NO_BARRIER: (CpAsyncRing(2, 4, 2), READ),
    Fault.NO_SECOND_BARRIER: (CpAsyncRing(2, 4, 2, lean=True), READ),
    Fault.SLOT_SHORT: (CpAsyncRing(2, 4, 2, crosswise=True), READ),
    Fault.NO_DRAIN: (CpAsyncRing(2, 4, 2), READ),
    Fault.NO_LAST_BARRIER: (CpAsyncRing(2, 4, 2, lean=True, drains=False), READ),
    Fault.WRITTEN_EARLY: (CpAsyncRing(2, 4, 2), "a warp writes outputs that others have not staged"),
}


@pytest.mark.parametrize("ring", RIGHT, ids=lambda ring: ring.name)
def test_a_right_ring_is_proved(ring: CpAsyncRing) -> None:
    verdict = decide(ring.model())
    assert verdict.is_right, verdict.wrong
    assert verdict.ends == 1


@pytest.mark.slow
@pytest.mark.parametrize("ring", LARGE, ids=lambda ring: ring.name)
def test_so_is_a_larger_one(ring: CpAsyncRing) -> None:
    verdict = decide(ring.model())
    assert verdict.is_right, verdict.wrong


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_breaks_its_rule_by_a_shortest_trace(fault: Fault) -> None:
    right, wrong = FAULTS[fault]
    assert decide(right.model()).is_right
    model = right.with_fault(fault).model()
    verdict = decide(model)
    assert verdict.wrong == wrong
    assert verdict.trace is not None
    assert len(verdict.trace.steps) == explore(model, symmetry=True).depth


def test_every_fault_is_tested() -> None:
    assert set(FAULTS) == set(Fault) - {Fault.NONE}


def test_one_warp_needs_no_barrier_and_one_tile_no_second_one() -> None:
    """What a barrier is for: others. A model in which its absence always hurt would be wrong."""
    assert decide(CpAsyncRing(2, 4, 1, fault=Fault.NO_BARRIER).model()).is_right
    assert decide(CpAsyncRing(2, 1, 2, lean=True, fault=Fault.NO_SECOND_BARRIER).model()).is_right


def test_parameters_without_meaning_are_refused() -> None:
    with pytest.raises(Refusal, match="a lean ring for a crosswise operand"):
        CpAsyncRing(2, 4, 2, lean=True, crosswise=True).model()
    with pytest.raises(Refusal, match="fault NO_SECOND_BARRIER has no meaning"):
        CpAsyncRing(2, 4, 2, fault=Fault.NO_SECOND_BARRIER).model()
