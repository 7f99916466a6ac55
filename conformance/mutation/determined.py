"""What a kernel computes from the schedule: the premises of proofs over all interleavings, read off its steps.

Threads whose accesses never race meet only at barriers, at waits for their own copies and products, and at *open*
steps, atomics and strong accesses, where it matters who comes first. If a kernel has none of these, one run without a
race stands for all: the order of its accesses is that of its barriers in every interleaving, and so is every value.
With open steps the runs over all their orders stand for all, if hardware makes them in one order: where a thread makes
two, it must make a fence.sc of the GPU's scope between them (PTX ISA, "Fence-SC": strong accesses are then sequentially
consistent), which each run looks at.

What else depends on the schedule is refused by name: clocks, active masks, elected lanes, the numbers of warps and
multiprocessors, clusters, polls of mbarriers, and copies that signal them.
"""

import numpy as np

from tileproof.simulators.ptx.machine.memory import Mask
from tileproof.simulators.ptx.program import NO_GUARD, FenceKind, Kind, Program, Scope, StateSpace, Step

_DETERMINED = frozenset(
    {
        Kind.ARITHMETIC, Kind.PACK, Kind.UNPACK, Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.SHUFFLE, Kind.VOTE,
        Kind.MATCH, Kind.REDUCE, Kind.MATRIX_LOAD, Kind.MATRIX_STORE, Kind.MATRIX_TRANSPOSE, Kind.MMA, Kind.WGMMA,
        Kind.WGMMA_ORDER, Kind.BARRIER, Kind.BARRIER_ARRIVE, Kind.WARP_BARRIER, Kind.BRANCH, Kind.EXIT, Kind.TRAP,
        Kind.FRESH, Kind.FENCE, Kind.COPY, Kind.COPY_GROUP, Kind.NOTHING,
    }
)  # fmt: skip
_SPECIALS = ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%lanemask_")
_SHARED_BY_THREADS = (StateSpace.GLOBAL, StateSpace.GENERIC, StateSpace.SHARED, StateSpace.CLUSTER)


def open_steps(program: Program) -> Mask:
    """By step, whether its outcome depends on what other threads have done so far."""
    return np.array([_is_open(step) for step in program.steps], np.bool_)


def _is_open(step: Step) -> bool:
    access = step.access
    if step.kind is Kind.ATOMIC:
        return True
    return step.kind in (Kind.LOAD, Kind.STORE) and access is not None and access.strong


_OF_RINGS = frozenset({Kind.MBARRIER, Kind.TENSOR})


def obstacle(program: Program, *, has_proved_ring: bool = False) -> str:
    """Why runs over all orders of the open steps do not stand for all; "" where they do.

    Args:
        program: the kernel.
        has_proved_ring: its mbarriers are known to have the same phases in every run.
    """
    allowed = _DETERMINED | _OF_RINGS if has_proved_ring else _DETERMINED
    for step in program.steps:
        if step.kind not in allowed:
            return f"{step.opcode} at {step.where.place} depends on the schedule"
        if _is_open(step) and (step.access is None or step.access.space not in _SHARED_BY_THREADS):
            return f"{step.opcode} at {step.where.place} is open in a space of its own"
    for name in sorted(set(program.specials.values())):
        if not name.startswith(_SPECIALS):
            return f"{name} depends on the schedule"
    return ""


def sequential_fences(program: Program) -> Mask:
    """By step, whether every thread that comes to it makes a fence.sc of the GPU's scope."""
    return np.array([_fences(step) for step in program.steps], np.bool_)


def _fences(step: Step) -> bool:
    form = step.fence
    return (
        step.kind is Kind.FENCE
        and step.guard == NO_GUARD
        and form is not None
        and form.kind is FenceKind.THREADS
        and form.sequential
        and form.scope >= Scope.GPU
    )
