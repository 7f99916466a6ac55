"""Every rule of order, twice: the kernel with its edge is silent, the one without is found, whatever the schedule."""

import order_pairs_async
import order_pairs_checks
import order_pairs_cluster
import order_pairs_memory
import order_pairs_waves
import order_pairs_wgmma
import pytest
from order_pair import Pair, launch

from tileproof.simulators.ptx.findings import FindingKind

GATE = [("friendly", 0), ("adversarial", 0), ("adversarial", 1)]
SLOW = [pytest.param("adversarial", seed, marks=pytest.mark.slow) for seed in range(2, 20)]
on_schedules = pytest.mark.parametrize(("schedule", "seed"), [*GATE, *SLOW])

PAIRS: dict[str, Pair] = {
    **order_pairs_memory.PAIRS,
    **order_pairs_checks.PAIRS,
    **order_pairs_async.PAIRS,
    **order_pairs_cluster.PAIRS,
    **order_pairs_wgmma.PAIRS,
    **order_pairs_waves.PAIRS,
}


@on_schedules
@pytest.mark.parametrize("name", PAIRS)
def test_the_kernel_with_its_edge_is_silent(name: str, schedule: str, seed: int) -> None:
    assert launch(PAIRS[name], True, schedule, seed) == []


@on_schedules
@pytest.mark.parametrize("name", PAIRS)
def test_the_kernel_without_it_is_found(name: str, schedule: str, seed: int) -> None:
    pair = PAIRS[name]
    if pair.seed is not None:
        schedule, seed = "adversarial", pair.seed
    kinds = {pair.kind}
    if schedule != "friendly" and pair.kind is FindingKind.SCOPE:  # of several missing edges another may be told
        kinds.add(FindingKind.RACE)
    findings = [finding for finding in launch(pair, False, schedule, seed) if finding.kind in kinds]
    assert findings
    if schedule == "friendly" or pair.seed is not None:  # which of two accesses comes first is the schedule's
        assert any(pair.said in finding.message for finding in findings), [finding.message for finding in findings]
