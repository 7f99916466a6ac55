"""A kernel and its mutant on the same places, so that one walk can follow both.

A dropped instruction leaves a step in its place that does nothing, and branches of the mutant lead to the kernel's
numbers.
"""

from dataclasses import dataclass, replace

from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.program import NO_GUARD, Kind, Program, Step

_NOTHING = Step(Kind.NOTHING, "", Where(0))


@dataclass(frozen=True)
class Pair:
    """Both kernels.

    Args:
        original: as shipped.
        changed: the mutant.
        ours: its steps, on the places of the original's.
    """

    original: Program
    changed: Program
    ours: tuple[Step, ...]


def pair(original: Program, changed: Program) -> Pair | None:
    """None where more is different than one step, or registers, variables or the ways of a branch are."""
    same = (
        original.registers == changed.registers,
        original.parameter_offsets == changed.parameter_offsets,
        original.shared == changed.shared,
        original.thread_limit == changed.thread_limit,
        original.slot_bits[: len(original.registers)] == changed.slot_bits[: len(original.registers)],
    )
    missing = len(original.steps) - len(changed.steps)
    if not all(same) or missing not in (0, 1):
        return None
    if not missing:
        return _on_the_same_ways(Pair(original, changed, changed.steps))
    gap = next(
        (
            at
            for at, (old, new) in enumerate(zip(original.steps, changed.steps, strict=False))
            if _words(old) != _words(new)
        ),
        len(changed.steps),
    )
    moved = [_shifted(step, gap) for step in changed.steps]
    return _on_the_same_ways(Pair(original, changed, (*moved[:gap], _NOTHING, *moved[gap:])))


def _on_the_same_ways(both: Pair) -> Pair | None:
    """The pair where both kernels have the same blocks, and the mutant at most never or always takes a branch."""
    steps = zip(both.original.steps, both.ours, strict=True)
    return both if all(_same_ways(old, new) for old, new in steps) else None


def _same_ways(old: Step, new: Step) -> bool:
    if Kind.BRANCH not in (old.kind, new.kind):
        return True
    if old.guard == NO_GUARD or new.kind is not Kind.NOTHING:
        leads = (new.kind, new.target) == (old.kind, old.target)
        return leads and (old.guard != NO_GUARD or new.guard == NO_GUARD)
    return True


def _words(step: Step) -> object:
    """What tells a step from its neighbour: its place in the text."""
    return (step.where, step.opcode)


def _shifted(step: Step, gap: int) -> Step:
    return replace(step, target=step.target + 1) if step.target > gap else step
