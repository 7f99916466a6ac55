"""Deleting one rule of the order core makes a pair of kernels fail: its right one is found, or its wrong one is not."""

import order_deletions_async
import order_deletions_barriers
import order_deletions_checks
import order_deletions_doors
import order_deletions_memory
import order_deletions_wgmma
import order_pairs_wgmma
import pytest
from order_deletion import ROWS, Deletion
from order_edit import edited, uncompiled
from order_mutants import places
from order_pair import Pair, launch
from test_order_pairs import PAIRS

from tileproof.simulators.ptx.findings import Finding

DELETIONS = (
    *order_deletions_checks.DELETIONS,
    *order_deletions_barriers.DELETIONS,
    *order_deletions_async.DELETIONS,
    *order_deletions_memory.DELETIONS,
    *order_deletions_wgmma.DELETIONS,
    *order_deletions_doors.DELETIONS,
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


#: Functions of the rule files that bear no rule: they name, number, hold or pass on. Mutants try their faults.
BOOKKEEPING = {
    "order.order": (
        "Order.epochs", "Order.know", "Order.knows_any", "Order._foreign_rows", "Order.object_init", "_uses",
        "_orders_by_memory",
    ),
    "order.knowledge": (
        "Knowledge.__init__", "Knowledge.own_planes", "Knowledge.nothing", "Knowledge.with_nothing", "Knowledge._hold",
        "Knowledge.first_component", "Knowledge.units", "Knowledge.blocks", "Knowledge.snapshot", "Knowledge._replace",
        "Knowledge.forget_minds", "_nobody_asks", "hold_views",
    ),
    "order.objects": (
        "Object.snapshots", "Objects.__init__", "Objects._hold", "Objects._unit_of_block",
    ),
    "order.patterns": (
        "Place.snapshots", "Places.__init__", "Places.__bool__", "Places.find", "Places.begin", "Places.hold",
        "Patterns._hold", "Patterns.kept", "Patterns.awaited", "Patterns._make_room", "Patterns._publishes",
        "Patterns._party", "Patterns._lane_number", "Patterns._snapshot",
    ),
    "order.checks": (
        "Checks.__init__", "Checks.tell_what_is_left_out", "Checks.unfold", "Checks.memory", "Checks.shadow",
        "Checks._pass", "Checks._find", "Checks._record", "Checks._last_is_weak", "_chosen",
    ),
    "order.kinds": ("AccessKind.flags", "Engine.flags", "Engine.proxy_flags"),
}  # fmt: skip


def test_every_function_of_the_rule_files_has_a_deletion_or_bears_no_rule() -> None:
    quiet = {f"{file}:{name}" for file, names in BOOKKEEPING.items() for name in names}
    deleted = {deletion.place for deletion in DELETIONS}
    assert set(places()) == quiet | deleted & set(places())
    assert not quiet & deleted


def test_every_row_of_the_table_has_deletions() -> None:
    assert {deletion.row for deletion in DELETIONS} == set(ROWS)
