"""Loops of a program, and registers that decide nothing in them: what the proof of an endless spin needs.

A loop is a strongly connected part of the control flow: whoever comes back to an instruction has executed only
instructions of its loop. A register is idle in a loop if neither it, nor what is computed from it there, decides which
way control goes, which lanes execute, an address, a stored value or a wait. Example: in

    L: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;  add.u32 %r1, %r1, 1;  @!%p1 bra L;

`%r1` is idle, so the loop's next round is like this one, whatever it counts to.
"""

from collections.abc import Iterable, Iterator

from tileproof.simulators.ptx.program import NO_GUARD, NONE, Kind, Program, Step

#: What computes registers from registers of the same lane, and nothing else.
_PURE = frozenset({Kind.ARITHMETIC, Kind.PACK, Kind.UNPACK})
#: What gives another value each time, or by chance.
_VARYING = frozenset({Kind.CLOCK, Kind.ACTIVE_MASK})
#: What ends a lane: control does not come back.
_ENDS = frozenset({Kind.EXIT, Kind.TRAP})


class Loops:
    """The loops of one program."""

    def __init__(self, program: Program) -> None:
        self._loop = components([_next(pc, step) for pc, step in enumerate(program.steps)])
        self._members: dict[int, list[Step]] = {}
        for step, loop in zip(program.steps, self._loop, strict=True):
            self._members.setdefault(loop, []).append(step)

    def same(self, pc: int, other: int) -> bool:
        """Whether two instructions are in one loop."""
        return self._loop[pc] == self._loop[other]

    def idle(self, pc: int, slots: Iterable[int]) -> bool:
        """Whether all these registers are idle in the loop around an instruction."""
        loop = self._members[self._loop[pc]]
        tainted = set(slots)
        for step in loop:
            if step.kind in _VARYING:
                tainted.update(step.destinations)
        size = -1
        while len(tainted) != size:
            size = len(tainted)
            for step in loop:
                if step.kind in _PURE and not tainted.isdisjoint(step.sources):
                    tainted.update(step.destinations)
        return not any(_reads(step, tainted) for step in loop)


def _reads(step: Step, slots: set[int]) -> bool:
    """Whether a step does more with one of these registers than to compute others from it."""
    if step.guard != NO_GUARD and step.guard in slots:
        return True
    if step.kind in _PURE:
        return False
    barrier = (step.barrier.number, step.barrier.count) if step.barrier else ()
    return not slots.isdisjoint(slot for slot in (*step.sources, *barrier) if slot != NONE)


def _next(pc: int, step: Step) -> tuple[int, ...]:
    """Where control may go from a step."""
    on = () if step.guard == NO_GUARD and step.kind in (*_ENDS, Kind.BRANCH) else (pc + 1,)
    return (*on, step.target) if step.kind is Kind.BRANCH else on


def components(edges: list[tuple[int, ...]]) -> list[int]:
    """The strongly connected component of every node (Tarjan, "Depth-first search and linear graph algorithms")."""
    count = len(edges)
    index, low, component = [-1] * count, [0] * count, [-1] * count
    stack: list[int] = []
    reached = 0
    for root in range(count):
        if index[root] >= 0:
            continue
        walk: list[tuple[int, Iterator[int]]] = []
        node = root
        while True:
            if index[node] < 0:
                index[node] = low[node] = reached
                reached += 1
                stack.append(node)
                walk.append((node, iter(edges[node])))
            for follower in walk[-1][1]:
                if follower < count and index[follower] < 0:
                    node = follower
                    break
                if follower < count and component[follower] < 0:
                    low[walk[-1][0]] = min(low[walk[-1][0]], index[follower])
            else:
                done, _ = walk.pop()
                if low[done] == index[done]:
                    while component[done] < 0:
                        component[stack.pop()] = done
                if not walk:
                    break
                node = walk[-1][0]
                low[node] = min(low[node], low[done])
    return component
