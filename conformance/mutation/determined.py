"""What a kernel computes from the schedule: the premises of proofs over all interleavings, read off its steps.

Threads whose accesses never race meet only at barriers, at waits for their own copies and products, and at *open*
steps, atomics and strong accesses, where it matters who comes first. If a kernel has none of these, one run without a
race stands for all: the order of its accesses is that of its barriers in every interleaving, and so is every value.
With open steps the runs over all their orders stand for all, if hardware makes them in one order: where a thread makes
two, a fence.sc of the GPU's scope must stand between them, on every path (PTX ISA, "Fence-SC": strong accesses are then
sequentially consistent).

What else depends on the schedule is refused by name: clocks, active masks, elected lanes, the numbers of warps and
multiprocessors, clusters, polls of mbarriers, and copies that signal them.
"""

from collections.abc import Iterator

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
    unfenced = next(_unfenced(program), None)
    return "" if unfenced is None else f"no fence.sc on a path between {unfenced[0].opcode} and {unfenced[1].opcode}"


def _unfenced(program: Program) -> Iterator[tuple[Step, Step]]:
    """Pairs of open steps that a thread can make one after the other without a fence.sc between."""
    steps = program.steps
    for index, step in enumerate(steps):
        if not _is_open(step):
            continue
        seen, left = set[int](), list(_after(steps, index))
        while left:
            at = left.pop()
            if at in seen or at >= len(steps) or _fences(steps[at]):
                continue
            seen.add(at)
            if _is_open(steps[at]):
                yield step, steps[at]
            left += _after(steps, at)


def _after(steps: tuple[Step, ...], index: int) -> Iterator[int]:
    """Where a thread may go from a step."""
    step = steps[index]
    always = step.guard == NO_GUARD
    if step.kind is Kind.BRANCH:
        yield step.target
    if not (always and step.kind in (Kind.BRANCH, Kind.EXIT, Kind.TRAP)):
        yield index + 1


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
