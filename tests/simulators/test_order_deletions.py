"""Deleting one rule of the order core makes a pair of kernels fail: its right one is found, or its wrong one is not."""

from typing import Any

import pytest
from test_order_pairs import PAIRS, launch

from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge
from tileproof.simulators.ptx.machine.order.objects import Objects
from tileproof.simulators.ptx.machine.order.order import Order
from tileproof.simulators.ptx.machine.order.patterns import Patterns
from tileproof.simulators.ptx.program import Scope


def nothing(*_: Any, **__: Any) -> None:
    """The deleted rule."""


def every_plane(self: Any, _: Scope) -> list[int]:
    return list(range(len(self._knowledge.planes)))


KEEP = Patterns._keep


def keep_for_all(self: Patterns, lanes: Lanes, scope: Scope, sequential: bool) -> None:
    KEEP(self, lanes, Scope.GPU, sequential)


# An edge that is no longer there: (where it stands, its name, a pair whose right kernel needs it).
EDGES = (
    (Knowledge, "meet", "global memory needs barriers too"),
    (Knowledge, "meet", "part of a warp"),
    (Order, "block_arrive", "bar.arrive publishes"),
    (Order, "learn", "wait for cp.async"),
    (Order, "proxy_fence", "generic write, then a bulk store"),
    (Order, "proxy_fence", "generic reads, then a refill"),
    (Objects, "arrive", "read before the slot is released"),
    (Objects, "acquire", "wait for a bulk copy"),
    (Objects, "complete", "wait for a bulk copy"),
    (Objects, "cluster_wait", "cluster barrier"),
    (Patterns, "_keep", "fence before a flag"),
    (Patterns, "_learn_awaited", "fence behind a flag"),
    (Patterns, "_learn_seen", "all fence, one arrives"),
    (Patterns, "_take", "release and acquire"),
    (Patterns, "_put", "release and acquire"),
)

# A check that no longer refuses: (where it stands, its name, what stands there instead, a pair whose wrong kernel
# it finds).
CHECKS = (
    (Knowledge, "tick", nothing, "read before the slot is released"),
    (Patterns, "_keep", keep_for_all, "scope of a fence"),
    (Objects, "_crossing", every_plane, "data through a peer's mbarrier"),
)


@pytest.mark.parametrize(("owner", "name", "pair"), EDGES)
def test_without_an_edge_a_right_kernel_is_found(
    owner: type, name: str, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launch(PAIRS[pair], True, "friendly", 0) == []
    monkeypatch.setattr(owner, name, nothing)
    assert launch(PAIRS[pair], True, "friendly", 0)


@pytest.mark.parametrize(("owner", "name", "instead", "pair"), CHECKS)
def test_without_a_check_a_wrong_kernel_is_not_found(
    owner: type, name: str, instead: Any, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = PAIRS[pair].kind
    assert kind in {finding.kind for finding in launch(PAIRS[pair], False, "friendly", 0)}
    monkeypatch.setattr(owner, name, instead)
    assert kind not in {finding.kind for finding in launch(PAIRS[pair], False, "friendly", 0)}
