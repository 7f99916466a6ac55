"""The ring that tensor copies fill: right at every small size, each fault by its rule."""

import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.definition import explore
from tileproof.simulators.protocols.models.tma_ring import Fault, TmaRing
from tileproof.simulators.protocols.search import decide

RIGHT = (
    *(TmaRing(stages, tiles, consumers) for stages in (2, 3) for tiles in (4, 5, 6) for consumers in (1, 2)),
    *(TmaRing(2, tiles, 2) for tiles in (0, 1, 2, 3)),
    TmaRing(1, 3, 2),
    TmaRing(2, 4, 2, overlays=False),
    *(TmaRing(stages, 5, 2, lag=1, overlays=False) for stages in (2, 3)),
)
LARGE = (
    *(TmaRing(stages, 3 * stages, consumers) for consumers in (1, 2, 4, 8) for stages in range(2, 9)),
    *(TmaRing(stages, 3 * stages, consumers, lag=1, overlays=False) for consumers in (1, 2) for stages in range(2, 7)),
    *(TmaRing(3, 9, consumers) for consumers in (3, 5, 6, 7)),
    *(TmaRing(stages, tiles, 2) for stages in (6, 7, 8) for tiles in (4, 2 * stages)),
)
READ = "a consumer reads a slot that does not hold its tile"
STUCK = "nobody can go on: producer waits for an empty slot"
FAULTS = {
    Fault.RELEASED_EARLY: READ,
    Fault.NOT_FENCED: READ,
    Fault.NO_SYNCWARP: READ,
    Fault.FULL_PARITY: READ,
    Fault.EMPTY_PARITY: STUCK,
    Fault.TOO_FEW_BYTES: READ,
    Fault.TOO_MANY_BYTES: STUCK,
    Fault.ONE_RELEASES: READ,
    Fault.TOO_MANY_RELEASE: STUCK,
    Fault.NOT_INITIALISED: "a consumer waits at a barrier that is not initialised",
    Fault.STAGED_EARLY: READ,
    Fault.WRITTEN_EARLY: "a consumer writes outputs that others have not staged",
    Fault.TRIES_ONCE: READ,
}


@pytest.mark.parametrize("ring", RIGHT, ids=lambda ring: ring.name)
def test_a_right_ring_is_proved(ring: TmaRing) -> None:
    verdict = decide(ring.model())
    assert verdict.is_right, verdict.wrong
    assert verdict.ends == 1


@pytest.mark.slow
@pytest.mark.parametrize("ring", LARGE, ids=lambda ring: ring.name)
def test_so_is_a_larger_one(ring: TmaRing) -> None:
    verdict = decide(ring.model())
    assert verdict.is_right, verdict.wrong


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_breaks_its_rule_by_a_shortest_trace(fault: Fault) -> None:
    model = TmaRing(2, 3, 2, fault=fault).model()
    verdict = decide(model)
    assert verdict.wrong.startswith(FAULTS[fault])
    assert verdict.trace is not None
    assert len(verdict.trace.steps) == explore(model, symmetry=True).depth


def test_every_fault_is_tested() -> None:
    assert set(FAULTS) == set(Fault) - {Fault.NONE}


def test_products_that_last_on_need_a_later_release_and_two_slots() -> None:
    """A release that comes a tile later can never come in a ring of one slot."""
    assert decide(TmaRing(1, 2, 1, lag=1, overlays=False).model()).wrong.startswith(STUCK)
    wrong = TmaRing(2, 4, 1, lag=1, overlays=False, fault=Fault.NOT_FENCED).model()
    assert decide(wrong).is_right, "the lag is what orders them"


def test_parameters_without_meaning_are_refused() -> None:
    with pytest.raises(Refusal, match=r"9 stages; it must lie in 1\.\.8"):
        TmaRing(9, 4, 1).model()
