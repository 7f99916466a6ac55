"""The ways through a kernel: blocks, what dominates what, and its loops.

A kernel is taken apart at branches. A loop is an edge back to a block that dominates it; a way back to any other block
has no loop that an induction could follow, and is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tileproof.simulators.ptx.program import NO_GUARD, SINK, Kind, Step

ENDS = frozenset({Kind.EXIT, Kind.TRAP})
"""Kinds of steps behind which a thread does nothing."""


class NoOrder(Exception):
    """The branches of a kernel make no nest of loops."""


@dataclass(frozen=True)
class Loop:
    """One loop.

    Args:
        head: the block that every turn begins with.
        body: its blocks, the head included.
        writes: slots that some step of the body writes.
    """

    head: int
    body: frozenset[int]
    writes: frozenset[int]


@dataclass(frozen=True)
class Flow:
    """A kernel's blocks, which bear the number of their first step; the block behind all of them is the end.

    Args:
        steps: of the kernel.
        blocks: first step to the step behind the last.
        after: blocks that may follow a block: of a conditional branch first the taken one.
        before: the other way round.
        order: blocks, each behind all that lead to it but by a way back.
        dominator: of each block but the first, the last one that every way to it takes.
        inevitable: of each block those that every way from it takes.
        loops: by their heads.
        live: slots that are read behind the beginning of a block before they are written.
    """

    steps: Sequence[Step]
    blocks: Mapping[int, int]
    after: Mapping[int, tuple[int, ...]]
    before: Mapping[int, tuple[int, ...]]
    order: tuple[int, ...]
    dominator: Mapping[int, int]
    inevitable: Mapping[int, frozenset[int]]
    loops: Mapping[int, Loop]
    live: Mapping[int, frozenset[int]]


def flow_of(steps: Sequence[Step], other: Sequence[Step]) -> Flow:
    """Of a kernel's steps; `other` are a mutant's, on the same places, whose reads and writes count as well.

    Raises:
        NoOrder: see the module's docstring.
    """
    blocks = _blocks(steps)
    after = {first: _after(steps, first, end) for first, end in blocks.items()}
    order = _order(after)
    before = {block: tuple(one for one in order if block in after[one]) for block in order}
    dominators = _sets(order, before)
    loops = _loops(order, after, before, dominators, blocks, (steps, other))
    nearest = {
        block: max(dominators[block] - {block}, key=lambda one: len(dominators[one])) for block in order if block
    }
    # NOTE: behind a conditional exit there may be nothing, so nothing is inevitable.
    onward = {block: () if steps[blocks[block] - 1].kind in ENDS else after[block] for block in order}
    inevitable = _sets(tuple(reversed(order)), onward)
    return Flow(
        steps, blocks, after, before, order, nearest, inevitable, loops, _live(order, after, blocks, (steps, other))
    )


def _blocks(steps: Sequence[Step]) -> Mapping[int, int]:
    leaders = {0}
    for at, step in enumerate(steps):
        if step.kind is Kind.BRANCH:
            leaders |= {step.target, at + 1}
        elif step.kind in ENDS:
            leaders.add(at + 1)
    known = sorted(one for one in leaders if one < len(steps))
    return dict(zip(known, (*known[1:], len(steps)), strict=True))


def _after(steps: Sequence[Step], first: int, end: int) -> tuple[int, ...]:
    last = steps[end - 1]
    onward = (end,) if end < len(steps) else ()
    if last.kind is Kind.BRANCH:
        alone = last.guard == NO_GUARD or onward == (last.target,)
        return (last.target,) if alone else (last.target, *onward)
    if last.kind in ENDS:
        return () if last.guard == NO_GUARD else onward
    return onward


def _order(after: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Reverse postorder from the first block on."""
    done: list[int] = []
    seen, stack = {0}, [(0, iter(after[0]))]
    while stack:
        block, rest = stack[-1]
        following = next((one for one in rest if one not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(after[following])))
    return tuple(reversed(done))


def _sets(order: Sequence[int], before: Mapping[int, Sequence[int]]) -> dict[int, frozenset[int]]:
    """Of each block the blocks that every way to it takes, itself included."""
    everything = frozenset(order)
    found = {block: everything if before[block] else frozenset({block}) for block in order}
    if order and order[0] == 0:
        found[0] = frozenset({0})
    changed = True
    while changed:
        changed = False
        for block in order:
            known = [found[one] for one in before[block]]
            if not known or block == 0 == order[0]:
                continue
            new = frozenset.intersection(*known) | {block}
            changed |= new != found[block]
            found[block] = new
    return found


def _loops(
    order: Sequence[int],
    after: Mapping[int, tuple[int, ...]],
    before: Mapping[int, tuple[int, ...]],
    dominators: Mapping[int, frozenset[int]],
    blocks: Mapping[int, int],
    both: Iterable[Sequence[Step]],
) -> Mapping[int, Loop]:
    place = {block: at for at, block in enumerate(order)}
    bodies: dict[int, set[int]] = {}
    for block in order:
        for head in after[block]:
            if place[head] > place[block]:
                continue
            if head not in dominators[block]:
                raise NoOrder(f"a way back from step {block} to step {head}, which does not dominate it")
            bodies.setdefault(head, {head})
            todo = [block]
            while todo:
                one = todo.pop()
                if one not in bodies[head]:
                    bodies[head].add(one)
                    todo += before[one]
    both = tuple(both)
    return {
        head: Loop(
            head,
            frozenset(body),
            frozenset(
                slot
                for steps in both
                for block in body
                for step in steps[block : blocks[block]]
                for slot in step.destinations
                if slot != SINK
            ),
        )
        for head, body in bodies.items()
    }


def reads(step: Step) -> frozenset[int]:
    """Slots that a step reads, one that it writes only under its guard included."""
    own = {*step.sources, step.guard}
    for form in (step.barrier,):
        if form is not None:
            own |= {form.number, form.count}
    if step.guard != NO_GUARD:
        own |= {*step.destinations}
    return frozenset(slot for slot in own if slot >= 0)


def _live(
    order: Sequence[int],
    after: Mapping[int, tuple[int, ...]],
    blocks: Mapping[int, int],
    both: Sequence[Sequence[Step]],
) -> Mapping[int, frozenset[int]]:
    gained: dict[int, frozenset[int]] = {}
    lost: dict[int, frozenset[int]] = {}
    for block in order:
        used: set[int] = set()
        killed: list[set[int]] = []
        for steps in both:
            written: set[int] = set()
            for step in steps[block : blocks[block]]:
                used |= reads(step) - written
                written |= {*step.destinations} - {SINK}
            killed.append(written)
        gained[block], lost[block] = frozenset(used), frozenset(set.intersection(*killed))
    live = dict.fromkeys(order, frozenset[int]())
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            behind = frozenset[int]().union(*(live[one] for one in after[block]))
            new = gained[block] | (behind - lost[block])
            changed |= new != live[block]
            live[block] = new
    return live
