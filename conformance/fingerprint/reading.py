"""An observed tree read as a plan, and a plan as the orders that could have made it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product

from tileproof.conformance.fingerprint.accumulator import Order
from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.plan import Chain, Group, Plan, Sums, elements, plan_of
from tileproof.conformance.fingerprint.tree import Forest, Node, Tree
from tileproof.oracle.products.accumulation_order import Combination, KOrder, Partition, SplitK
from tileproof.oracle.refusal import Refusal

_DIRECTIONS = ((KOrder.ASCENDING, 1), *((KOrder.DESCENDING, steps) for steps in (1, 2, 4)))
"""Directions of k, with how many periods of groups a step has."""


def orders_of(tree: Tree, k: int) -> list[Order]:
    """Every order that gives just this tree for K = k, the simplest first and those without a split before others.

    Raises:
        Unexplained: there is none.
    """
    plan = read(tree)
    forest = Forest()
    wanted = forest.number(tree)
    found = [
        order for order in dict.fromkeys(_candidates(plan, k)) if forest.number_of_plan(plan_of(order, k)) == wanted
    ]
    if not found:
        raise Unexplained(
            "large terms at every pair of elements, a tiny one at every third",
            f"sums that meet as in {_outline(plan)}",
            "no group length, k order, promotion and split gives that tree",
        )
    return sorted(found, key=lambda order: order.split_k is not None)


def read(tree: Tree) -> Plan:
    """A tree as chains and sums.

    Raises:
        Unexplained: a fused sum takes two sums of others, or an addition takes more than two.
    """
    groups: list[Group] = []
    while isinstance(tree, Node):
        leaves = tuple(child for child in tree.children if isinstance(child, int))
        sums = [child for child in tree.children if isinstance(child, Node)]
        if not leaves:
            if groups:
                raise _unreadable(f"the sum of {len(sums)} sums is what a group starts from")
            return _addition(sums)
        groups.append(leaves)
        if len(sums) > 1:
            raise _unreadable(f"{len(sums)} sums and {len(leaves)} products meet in one sum")
        if not sums:
            break
        tree = sums[0]
    else:
        groups.append((tree,))
    return Chain(_multiply_adds(tuple(tuple(sorted(group)) for group in groups[::-1])))


def _multiply_adds(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """A chain of multiply-adds: the first product starts from zero, so the tree shows it beside the second."""
    first, *rest = groups
    if len(first) == 2 and rest and all(len(group) == 1 for group in rest):
        low, high = first
        return ((low,), (high,), *rest) if rest[0][0] > high else ((high,), (low,), *rest)
    return groups


def _addition(sums: list[Node]) -> Plan:
    if len(sums) != 2:
        raise _unreadable(f"{len(sums)} sums meet in one")
    larger, smaller = sorted(map(read, sums), key=lambda plan: (-len(plan), min(elements(plan))))
    if isinstance(larger, Sums) and len(larger) > len(smaller) and len(larger.parts[0]) >= len(smaller):
        parts = larger.parts
        if len(parts) == 2 and min(elements(parts[0])) < min(elements(parts[1])) > min(elements(smaller)):
            parts = parts[::-1]  # the first two may stand either way; the third tells the direction
        return Sums((*parts, smaller))
    return Sums((larger, smaller))


def _candidates(plan: Plan, k: int) -> Iterator[Order]:
    """Orders to try: what the bottom chains say of groups, each level as a promotion or as part of the split."""
    levels = list(_levels(plan))
    sizes = [size for size, _ in levels]
    counts = [count for _, count in levels]
    for shape, (k_order, steps) in product(_groupings(plan), _DIRECTIONS):
        base = Order(group=shape[0], period=shape[1], run=shape[2], k_order=k_order, step=shape[1] * steps)
        yield replace(base, promotions=tuple(sizes))
        yield replace(base, promotions=(*sizes, k))  # shows itself only where K is more than that
        for outer in range(1, len(levels) + 1):
            parts = 1
            for count in counts[-outer:]:
                parts *= count
            for split in _splits(plan, parts, k, outer):
                yield replace(base, promotions=tuple(sizes[:-outer]), split_k=split)


def _splits(plan: Plan, parts: int, k: int, outer: int) -> Iterator[SplitK]:
    combinations = (Combination.ASCENDING, Combination.DESCENDING) if outer == 1 else (Combination.PAIRWISE,)
    first = sorted(elements(_first_of(plan, outer)))
    run = next((i + 1 for i, (x, y) in enumerate(pairwise(first)) if y != x + 1), len(first))
    for partition, combination in product(Partition, combinations):
        tile = run if partition is Partition.INTERLEAVED else k // parts
        try:
            yield SplitK(parts=parts, tile=max(tile, 1), partition=partition, combination=combination)
        except Refusal:
            return


def _first_of(plan: Plan, depth: int) -> Plan:
    for _ in range(depth):
        if isinstance(plan, Sums):
            plan = min(plan.parts, key=lambda part: min(elements(part)))
    return plan


def _levels(plan: Plan) -> Iterator[tuple[int, int]]:
    """Elements of a part and how many parts, innermost sums first."""
    if isinstance(plan, Sums):
        yield from _levels(plan.parts[0])
        yield max(map(len, plan.parts)), len(plan.parts)


def _groupings(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """(group, period, run) of the groups in the chains."""
    groups = sorted((group for chain in _chains(plan) for group in chain.groups), key=min)
    first = groups[0]
    size = len(first)
    if first == tuple(range(first[0], first[0] + size)):
        yield size, size, size
        return
    run = next((i + 1 for i, (x, y) in enumerate(pairwise(first)) if y != x + 1), size)
    period = first[-1] + run - first[0]
    for ways in (-(-period // size), -(-period // size) + 1, first[run] - first[0] if run < size else 0):
        if ways > 1:
            yield size, size * ways, run


def _chains(plan: Plan) -> Iterator[Chain]:
    if isinstance(plan, Chain):
        yield plan
    else:
        for part in plan.parts:
            yield from _chains(part)


def _outline(plan: Plan) -> str:
    if isinstance(plan, Chain):
        sizes = [len(group) for group in plan.groups]
        return f"a chain of {len(sizes)} groups of {', '.join(map(str, sizes[:4]))}{', ...' if len(sizes) > 4 else ''}"
    return f"{len(plan.parts)} sums of {', '.join(str(len(part)) for part in plan.parts[:4])} elements"


def _unreadable(why: str) -> Unexplained:
    return Unexplained("large terms at every pair of elements, a tiny one at every third", why, "no order does that")
