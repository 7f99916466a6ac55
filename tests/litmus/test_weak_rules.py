"""Without any one of its rules the weak behaviour of the CPU device shows what the memory model forbids."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from axioms import verdict
from litmus_run import run
from litmus_table import TESTS

from tileproof.simulators.ptx.machine.order.order import Order
from tileproof.simulators.ptx.machine.weak.held import HeldStores
from tileproof.simulators.ptx.machine.weak.overlay import Overlay

SEEDS = range(4)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _knows_nobody(_: Order, lanes: Any, *__: Any) -> Any:
    return np.zeros(lanes.shape, np.bool_)


def _no_others(held: HeldStores, _: Any) -> Any:
    return np.zeros(held.rows.keys.size, np.bool_)


#: What is left out, what stands there instead, and a test that then shows a forbidden outcome.
DELETIONS: dict[str, tuple[type, str, Callable[..., Any], str]] = {
    "a release publishes": (Overlay, "release", _nothing, "MP, weak data, release and acquire, gpu, blocks"),
    "a load sees what its thread knows": (
        Order, "knows_any", _knows_nobody, "MP, weak data, relaxed flag, fence.acq_rel, gpu, blocks",
    ),
    "fence.sc publishes and ends what is stale": (Overlay, "sequential", _nothing, "SB, weak, fence.sc, gpu, blocks"),
    "a proxy fence publishes": (Overlay, "fence_async", _nothing, "write, proxy fence, bulk load"),
    "a copy comes after its block's stores": (Overlay, "touch", _nothing, "write, cp.async"),
    "a store that others know of is not replaced": (
        HeldStores, "others", _no_others, "two writers of one block, one of which releases",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", DELETIONS)
def test_without_the_rule_a_forbidden_outcome_comes_and_with_it_none(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, instead, test = DELETIONS[rule]
    allowed = verdict(TESTS[test]).outcomes
    assert set(run(TESTS[test], SEEDS, lanes=32).outcomes) <= allowed
    monkeypatch.setattr(where, name, instead)
    assert not set(run(TESTS[test], SEEDS, lanes=32).outcomes) <= allowed
