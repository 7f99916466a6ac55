"""Where arithmetic is probed: a few elements of K whose sums are known to meet in every way that the plan has.

One element of a chain's first group (the running total), several of its second (the fused sum), one of each of the
next two (what comes after), and one of each of the next chains (the promoted sums).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tileproof.conformance.fingerprint.operands import Values
from tileproof.conformance.fingerprint.plan import Chain, Plan, Sums, restricted

_INSIDE, _AFTER, _CHAINS = 5, 2, 3


@dataclass(frozen=True)
class Bench:
    """Elements of K by what they do in the plan.

    Args:
        plan: of the whole K.
        before: in a group before `inside`; empty where a chain has one group.
        inside: of one group.
        after: in later groups of the same chain.
        beyond: in later chains.
    """

    plan: Plan
    before: tuple[int, ...]
    inside: tuple[int, ...]
    after: tuple[int, ...]
    beyond: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """All of them, in the order of addition."""
        return (*self.before, *self.inside, *self.after, *self.beyond)

    @cached_property
    def small_plan(self) -> Plan:
        """The plan of the places alone, each by its index in `places`."""
        kept = restricted(self.plan, frozenset(self.places), idle=2)
        assert kept is not None, "there is a place"
        return _renumbered(kept, {k: i for i, k in enumerate(self.places)})

    @property
    def last(self) -> int | None:
        """Where a large term can be cancelled after the fused sum was converted; None if nothing comes after it."""
        return next(iter((*self.after, *self.beyond)), None)

    def spread(self, values: Values, k: int) -> Values:
        """Products [P, K] of values at the places [P, places]."""
        products = np.zeros((len(values), k))
        products[:, list(self.places)] = values
        return products


def bench_of(plan: Plan) -> Bench:
    """Places in a plan."""
    first, *others = _chains(plan)
    beyond = tuple(chain.groups[0][0] for chain in others[:_CHAINS])
    groups = first.groups
    if len(groups) == 1:
        return Bench(plan, (), groups[0][:_INSIDE], (), beyond)
    after = tuple(group[0] for group in groups[2 : 2 + (_AFTER if len(groups[1]) > 1 else 2 * _AFTER)])
    return Bench(plan, groups[0][:1], groups[1][:_INSIDE], after, beyond)


def _chains(plan: Plan) -> list[Chain]:
    if isinstance(plan, Chain):
        return [plan]
    return [chain for part in plan.parts for chain in _chains(part)]


def _renumbered(plan: Plan, index: dict[int, int]) -> Plan:
    if isinstance(plan, Chain):
        return Chain(tuple(tuple(index[k] for k in group) for group in plan.groups))
    return Sums(tuple(_renumbered(part, index) for part in plan.parts), plan.pairwise)
