"""The ring of a cluster whose tiles come by multicast: right at small sizes, each fault by its rule."""

import pytest

from tileproof.simulators.protocols.definition import explore
from tileproof.simulators.protocols.models.multicast_ring import Fault, MulticastRing
from tileproof.simulators.protocols.search import decide

RIGHT = (MulticastRing(1, 2, 4, 1), MulticastRing(2, 1, 2, 1), MulticastRing(2, 1, 3, 1), MulticastRing(2, 1, 2, 2))
LARGE = (MulticastRing(2, 2, 2, 1), MulticastRing(2, 2, 3, 1), MulticastRing(2, 1, 3, 2))
READ = "a consumer reads a slot that does not hold its tile"
FAULTS = {
    Fault.RELEASES_OWN_BLOCK: READ,
    Fault.COUNTS_OWN_BLOCK: "a barrier gets more bytes than its phase has",
    Fault.RELEASED_EARLY: READ,
    Fault.ANNOUNCES_OWN_PART: READ,
    Fault.NOT_INITIALISED: "a copy reaches a block whose barriers are not initialised",
    Fault.LEAVES_EARLY: "something reaches the shared memory of a block that has left",
    Fault.EMPTY_PARITY: "nobody can go on: producer 0 waits for an empty slot",
}


@pytest.mark.parametrize("ring", RIGHT, ids=lambda ring: ring.name)
def test_a_right_ring_is_proved(ring: MulticastRing) -> None:
    verdict = decide(ring.model())
    assert verdict.is_right, verdict.wrong
    assert verdict.ends == 1


@pytest.mark.slow
@pytest.mark.parametrize("ring", LARGE, ids=lambda ring: ring.name)
def test_so_is_a_larger_one(ring: MulticastRing) -> None:
    verdict = decide(ring.model())
    assert verdict.is_right, verdict.wrong


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_breaks_its_rule_by_a_shortest_trace(fault: Fault) -> None:
    model = MulticastRing(2, 1, 2, 1, fault=fault).model()
    verdict = decide(model)
    assert verdict.wrong.startswith(FAULTS[fault])
    assert verdict.trace is not None
    assert len(verdict.trace.steps) == explore(model, symmetry=True).depth


def test_every_fault_is_tested() -> None:
    assert set(FAULTS) == set(Fault) - {Fault.NONE}
