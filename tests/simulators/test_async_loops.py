"""Loops of a program and what is idle in them: the ground of the proof that a spin never ends."""

from itertools import pairwise

import numpy as np
import pytest
from async_kernels import module

from tileproof.simulators.ptx.decoding.decode import decode_entry
from tileproof.simulators.ptx.machine.loops import Loops, components
from tileproof.simulators.ptx.program import Program
from tileproof.simulators.ptx.text.parse import parse_module

Edges = list[tuple[int, ...]]


def reachable(edges: Edges) -> list[set[int]]:
    """What every node reaches, by plain search."""
    found = []
    for start in range(len(edges)):
        seen: set[int] = set()
        todo = [start]
        while todo:
            for follower in edges[todo.pop()]:
                if follower < len(edges) and follower not in seen:
                    seen.add(follower)
                    todo.append(follower)
        found.append(seen)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_components_are_the_nodes_that_reach_each_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 30))
    edges: Edges = [tuple(random.integers(0, count + 1, random.integers(0, 3)).tolist()) for _ in range(count)]
    found, reaches = components(edges), reachable(edges)
    for a in range(count):
        for b in range(count):
            together = a == b or (b in reaches[a] and a in reaches[b])
            assert (found[a] == found[b]) == together


def test_a_chain_of_many_nodes_needs_no_recursion() -> None:
    edges: Edges = [(node + 1,) for node in range(50_000)]
    assert all(a != b for a, b in pairwise(components(edges)))


def program(body: str) -> Program:
    """A decoded kernel."""
    parsed = parse_module(module(body, ""))
    return decode_entry(parsed, parsed.entries["k"])


# name: (loop, whether its counter %r3 is idle)
COUNTERS = {
    "counted only": ("L: add.u32 %r3, %r3, 1; bra L;", True),
    "sleeps longer each time": ("L: shl.b32 %r3, %r3, 1; nanosleep.u32 %r3; bra L;", True),
    "what is computed from it is only counted": ("L: add.u32 %r3, %r3, 1; mul.lo.u32 %r4, %r3, %r3; bra L;", True),
    "decides the branch": ("L: add.u32 %r3, %r3, 1; setp.ne.u32 %p4, %r3, 0; @%p4 bra L;", False),
    "decides through two steps": (
        "L: add.u32 %r3, %r3, 1; shr.u32 %r4, %r3, 4; setp.ne.u32 %p4, %r4, 9; @%p4 bra L;",
        False,
    ),
    "guards another step": ("L: add.u32 %r3, %r3, 1; setp.ne.u32 %p4, %r3, 0; @%p4 add.u32 %r5, %r5, 1; bra L;", False),
    "is an address": ("L: add.u32 %r3, %r3, 1; ld.shared.u32 %r4, [%r3]; bra L;", False),
    "is stored": ("L: add.u32 %r3, %r3, 1; st.shared.u32 [tile], %r3; bra L;", False),
    "is a parity": (
        "L: add.u32 %r3, %r3, 1; mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], %r3; @!%p4 bra L;",
        False,
    ),
    "names a barrier": ("L: add.u32 %r3, %r3, 1; barrier.sync %r3; bra L;", False),
    "goes to other lanes": ("L: add.u32 %r3, %r3, 1; shfl.sync.idx.b32 %r4, %r3, 0, 31, -1; bra L;", False),
    "is used behind the loop": (
        "L: add.u32 %r3, %r3, 1; ld.volatile.shared.u32 %r4, [tile]; setp.eq.u32 %p4, %r4, 0; @%p4 bra L;"
        "st.global.u32 [%d1], %r3;",
        True,
    ),
    "a time decides": (
        "L: mov.u32 %r4, %clock; add.u32 %r3, %r3, 1; setp.ne.u32 %p4, %r4, 0; @%p4 bra L;",
        False,
    ),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_a_register_is_idle_if_it_decides_nothing_in_its_loop(name: str) -> None:
    body, idle = COUNTERS[name]
    decoded = program(f"mov.u32 %r3, 0; mov.u32 %r5, 0; {body} ret;")
    loops = Loops(decoded)
    counts = _first(decoded)
    assert loops.idle(counts, decoded.steps[counts].destinations) == idle


def _first(decoded: Program) -> int:
    """The step that counts: behind the prologue."""
    steps = decoded.steps
    return next(pc for pc, step in enumerate(steps) if step.opcode in ("add.u32", "shl.b32") and pc > 8)


def test_loops_are_apart() -> None:
    decoded = program("A: bra.uni B; B: @%p0 bra A; C: @%p1 bra C; ret;")
    branches = [pc for pc, step in enumerate(decoded.steps) if step.opcode.startswith("bra")]
    loops = Loops(decoded)
    assert loops.same(branches[0], branches[1])
    assert not loops.same(branches[1], branches[2])
