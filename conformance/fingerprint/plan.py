"""The order of a sum as a plan: chains of groups, and sums of chains. From an `Order` and K, or from an observed tree.

Example, K = 64, groups of 16 and a promotion every 32 elements: `Sums((Chain((0..15), (16..31)), Chain((32..47),
(48..63))))`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tileproof.conformance.fingerprint.accumulator import Order
from tileproof.oracle.products.accumulation_order import Combination, KOrder, Partition

Group: TypeAlias = tuple[int, ...]
"""Elements of K in one fused sum."""


@dataclass(frozen=True)
class Chain:
    """Groups, each added to the last one's result; the first starts from zero."""

    groups: tuple[Group, ...]

    def __len__(self) -> int:
        return sum(map(len, self.groups))


@dataclass(frozen=True)
class Sums:
    """Results added to each other, one after the other or in pairs of neighbours."""

    parts: tuple["Plan", ...]
    pairwise: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.parts))


Plan: TypeAlias = Chain | Sums
_Item = TypeVar("_Item", Group, Plan)


def plan_of(order: Order, k: int) -> Plan:
    """The plan of an order for K = k."""
    groups = list(_groups(order, k))
    parts = [_promoted(order.promotions, part) for part in _dealt(order, groups) if part]
    if order.split_k is None or len(parts) == 1:
        return parts[0]
    if order.split_k.combination is Combination.DESCENDING:
        parts = parts[::-1]
    return Sums(tuple(parts), pairwise=order.split_k.combination is Combination.PAIRWISE)


def elements(plan: Plan) -> tuple[int, ...]:
    """Elements of K in the order in which they are added."""
    if isinstance(plan, Chain):
        return tuple(k for group in plan.groups for k in group)
    return tuple(k for part in plan.parts for k in elements(part))


def restricted(plan: Plan, kept: frozenset[int], idle: int = 0) -> Plan | None:
    """The plan of a sum in which every other product is zero; None if nothing is left.

    Args:
        plan: of the whole K.
        kept: elements whose products are not zero.
        idle: how many groups without any are kept one after the other, because they may cut the total all the same.
    """
    if isinstance(plan, Chain):
        groups = [tuple(k for k in group if k in kept) for group in plan.groups]
        left = tuple(group for i, group in enumerate(groups) if group or any(groups[max(i - idle, 0) : i]))
        return Chain(left) if any(left) else None
    parts = tuple(part for part in (restricted(part, kept, idle) for part in plan.parts) if part is not None)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Sums(parts, plan.pairwise)


def _groups(order: Order, k: int) -> Iterator[Group]:
    """In the order of addition, but for the split."""
    ways = order.period // order.group
    found = [
        tuple(base + j for j in range(min(order.period, k - base)) if j // order.run % ways == way)
        for base in range(0, k, order.period)
        for way in range(ways)
    ]
    whole = [group for group in found if group]
    if order.k_order is KOrder.DESCENDING:
        whole.sort(key=lambda group: -(group[0] // order.step))
    yield from whole


def _dealt(order: Order, groups: Sequence[Group]) -> list[list[Group]]:
    """The groups of each part, in the order of addition."""
    if order.split_k is None:
        return [list(groups)]
    split, count = order.split_k, max(max(group) for group in groups) + 1
    tiles = -(-count // split.tile)
    share = -(-tiles // split.parts)

    def part_of(group: Group) -> int:
        tile = group[0] // split.tile
        return tile // share if split.partition is Partition.CONTIGUOUS else tile % split.parts

    return [[group for group in groups if part_of(group) == part] for part in range(split.parts)]


def _promoted(promotions: Sequence[int], groups: Sequence[Group]) -> Plan:
    """Chains of the first promotion, sums of those of the second, and so on."""
    if not promotions:
        return Chain(tuple(groups))
    plans: list[Plan] = [Chain(tuple(chunk)) for chunk in _chunks(groups, promotions[0])]
    for extent in promotions[1:]:
        plans = [_summed(chunk) for chunk in _chunks(plans, extent)]
    return _summed(plans)


def _summed(plans: Sequence[Plan]) -> Plan:
    return plans[0] if len(plans) == 1 else Sums(tuple(plans))


def _chunks(items: Sequence[_Item], extent: int) -> Iterator[list[_Item]]:
    """Items that together have `extent` elements; the last chunk may be short."""
    chunk: list[_Item] = []
    for item in items:
        chunk.append(item)
        if sum(map(len, chunk)) >= extent:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
