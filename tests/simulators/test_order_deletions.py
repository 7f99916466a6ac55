"""Deleting one rule of the order core makes a pair of kernels fail: its right one is found, or its wrong one is not."""

import order_deletions_async
import order_deletions_barriers
import order_deletions_checks
import order_deletions_memory
import order_deletions_wgmma
import order_pairs_wgmma
import pytest
from order_deletion import ROWS, Deletion
from order_edit import edited, uncompiled
from order_pair import Pair, launch
from test_order_pairs import PAIRS

from tileproof.simulators.ptx.findings import Finding

DELETIONS = (
    *order_deletions_checks.DELETIONS,
    *order_deletions_barriers.DELETIONS,
    *order_deletions_async.DELETIONS,
    *order_deletions_memory.DELETIONS,
    *order_deletions_wgmma.DELETIONS,
)
KERNELS: dict[str, Pair] = PAIRS | order_pairs_wgmma.REGISTERS


def findings(name: str, right: bool) -> list[Finding]:
    pair = KERNELS[name]
    schedule, seed = ("friendly", 0) if pair.seed is None else ("adversarial", pair.seed)
    found = launch(pair, right, schedule, seed, "reference")
    return [f for f in found if right or (f.kind is pair.kind and pair.said in f.message)]


@pytest.mark.parametrize("deletion", DELETIONS, ids=lambda d: f"{d.row}: {d.rule}".replace(" ", "-"))
def test_a_deleted_rule_is_missed(deletion: Deletion) -> None:
    with uncompiled():
        before = findings(deletion.pair, deletion.edge)
        with edited(deletion.place, deletion.old, deletion.new):
            after = findings(deletion.pair, deletion.edge)
    assert bool(after) is deletion.edge
    assert bool(before) is not deletion.edge


def test_every_row_of_the_table_has_deletions() -> None:
    assert {deletion.row for deletion in DELETIONS} == set(ROWS)
