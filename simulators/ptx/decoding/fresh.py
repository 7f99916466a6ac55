"""What a function may read before it writes it: a second pass through a call must not find the first one's values.

A copy of a function keeps its registers and local variables from call to call, where a GPU leaves them undefined. So
each copy begins with a FRESH step that makes them undefined again. It is needed only where the call stands in a loop,
and only for registers that some path reads before it writes them: of compiled code that is none, and the step goes.
"""

from collections.abc import Sequence
from dataclasses import replace

from tileproof.simulators.ptx.program import NO_GUARD, Kind, Step

_LEAVING = (Kind.EXIT, Kind.TRAP)


def prune(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps with every FRESH step reduced to what it must make undefined, or to nothing."""
    backward = [(s.target, index) for index, s in enumerate(steps) if s.kind is Kind.BRANCH and s.target <= index]
    return tuple(
        _reduced(steps, index, step, backward) if step.kind is Kind.FRESH else step for index, step in enumerate(steps)
    )


def _reduced(steps: Sequence[Step], index: int, step: Step, backward: Sequence[tuple[int, int]]) -> Step:
    repeats = any(first <= index <= last for first, last in backward)
    read = _read_first(steps, index + 1, step.target, step.destinations) if repeats else ()
    if not read and not (repeats and step.ranges):
        return Step(Kind.NOTHING, step.opcode, step.where)
    return replace(step, destinations=read)


def _read_first(steps: Sequence[Step], first: int, behind: int, slots: Sequence[int]) -> tuple[int, ...]:
    """Those of the slots that are live at step `first`, within the copy that ends before step `behind`."""
    bit = {slot: 1 << position for position, slot in enumerate(slots)}
    used = [_bits(bit, (*step.sources, step.guard)) for step in steps[first:behind]]
    written = [_bits(bit, step.destinations) if step.guard == NO_GUARD else 0 for step in steps[first:behind]]
    after = [[n - first for n in _next(first + i, step)] for i, step in enumerate(steps[first:behind])]
    live = [0] * (len(used) + 1)
    changes = True
    while changes:
        changes = False
        for place in reversed(range(len(used))):
            needed = 0
            for following in after[place]:
                needed |= live[following] if 0 <= following < len(used) else 0
            now = used[place] | (needed & ~written[place])
            changes |= now != live[place]
            live[place] = now
    return tuple(slot for slot in slots if bit[slot] & live[0])


def _bits(bit: dict[int, int], slots: Sequence[int]) -> int:
    found = 0
    for slot in slots:
        found |= bit.get(slot, 0)
    return found


def _next(index: int, step: Step) -> tuple[int, ...]:
    """Where a lane may go from a step."""
    onward = (index + 1,) if step.guard != NO_GUARD else ()
    if step.kind is Kind.BRANCH:
        return (step.target, *onward)
    return onward if step.kind in _LEAVING else (index + 1,)
