"""Which sums meet where, as a tree without order: what the probes see, and what two plans are compared by."""

from dataclasses import dataclass, field
from functools import reduce

from tileproof.conformance.fingerprint.plan import Chain, Plan


@dataclass(frozen=True)
class Node:
    """A sum of elements of K and of other sums; `wide` if a small term survives beside a large one in it."""

    children: tuple["int | Node", ...]
    wide: bool = False


Tree = int | Node


@dataclass
class Forest:
    """Gives equal trees equal numbers: an element of K is its own, a sum has one below zero."""

    _known: dict[frozenset[int], int] = field(default_factory=dict)

    def number(self, tree: Tree) -> int:
        """Of an observed tree."""
        return tree if isinstance(tree, int) else self._sum(*map(self.number, tree.children))

    def number_of_plan(self, plan: Plan) -> int:
        """Of a plan."""
        if isinstance(plan, Chain):
            first, *rest = plan.groups
            return reduce(lambda total, group: self._sum(total, *group), rest, self._sum(*first))
        parts = [self.number_of_plan(part) for part in plan.parts]
        while plan.pairwise and len(parts) > 1:
            parts = [self._sum(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return reduce(self._sum, parts)

    def _sum(self, *children: int) -> int:
        if len(children) == 1:
            return children[0]
        return self._known.setdefault(frozenset(children), -1 - len(self._known))
