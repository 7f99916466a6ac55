"""A rule of order, where it stands, and which pair of kernels misses it."""

from dataclasses import dataclass

#: Rows of the edge table, and the rules of its checks.
ROWS = (
    "conflicts", "strong accesses", "records", "clocks", "proxies", "bar.sync, bar.red", "bar.arrive",
    "bar.warp.sync", "mbarrier arrive", "phase completion", "mbarrier wait", "cp.async wait_group",
    "cp.async.mbarrier.arrive", "bulk wait_group", "wgmma", "fence", "fence.sc", "strong store", "strong atomic",
    "strong load", "fence.proxy.async", "mbarrier init", "cluster barrier", "kernel edge", "block exit",
    "ld.global.nc", "same values",
)  # fmt: skip


@dataclass(frozen=True)
class Deletion:
    """One rule less.

    Attributes:
        row: of the table.
        rule: that does not hold any more.
        place: of the function that has it, see `order_edit`.
        old: its text there; empty for all of it.
        new: what stands there instead.
        pair: the kernels that miss it.
        edge: it is an edge, so the right kernel is found; if not a check, so the wrong one is lost.
    """

    row: str
    rule: str
    place: str
    old: str
    new: str
    pair: str
    edge: bool


def edge(row: str, rule: str, place: str, old: str, new: str, pair: str) -> Deletion:
    return Deletion(row, rule, place, old, new, pair, edge=True)


def check(row: str, rule: str, place: str, old: str, new: str, pair: str) -> Deletion:
    return Deletion(row, rule, place, old, new, pair, edge=False)


CORE = "order.compiled_order:"
ORDER = "order.order:Order."
KNOWLEDGE = "order.knowledge:Knowledge."
PATTERNS = "order.patterns:Patterns."
OBJECTS = "order.objects:Objects."
CHECKS = "order.checks:Checks."
SIGNALS = "asynchronous.signals:"
MBARRIER = "asynchronous.mbarrier:"
REGISTERS = "product_registers:ProductRegisters."
