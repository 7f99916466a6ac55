"""What all launches of a program have in common, made once: small kernels are launched hundreds of times, and making it
anew each time took a fifth of their time."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tileproof.simulators.ptx.fast.lower import plain_barrier
from tileproof.simulators.ptx.machine.compute import Handler, handlers
from tileproof.simulators.ptx.program import FenceKind, Kind, Program, Step

# What a thread does by itself, whatever the others of its warp do, and goes on to the next step.
_ALONE = frozenset(
    {
        Kind.ARITHMETIC,
        Kind.PACK,
        Kind.UNPACK,
        Kind.LOAD,
        Kind.STORE,
        Kind.ATOMIC,
        Kind.FENCE,
        Kind.COPY,
        Kind.COPY_GROUP,
    }
)


@dataclass(frozen=True)
class Plan:
    """How a program's steps are made.

    Attributes:
        handlers: for each step the function that executes it; None where a step decides who runs.
        alone: for each step how many steps from there on, one after the other, threads make by themselves.
        plain_barriers: every barrier is one of the whole block.
    """

    handlers: list[Handler | None]
    alone: list[int]
    plain_barriers: bool


_PLANS: WeakKeyDictionary[Program, Plan] = WeakKeyDictionary()


def plan_of(program: Program) -> Plan:
    """The program's plan, which lives as long as the program."""
    plan = _PLANS.get(program)
    if plan is None:
        barriers = [step for step in program.steps if step.kind in (Kind.BARRIER, Kind.BARRIER_ARRIVE)]
        plain = all(plain_barrier(step, program) for step in barriers)
        plan = _PLANS[program] = Plan(handlers(program), _steps_alone(program), plain)
    return plan


def _steps_alone(program: Program) -> list[int]:
    """For each step how many steps from there on, one after the other, threads make by themselves."""
    counts = [0]
    for step in reversed(program.steps):
        counts.append(counts[-1] + 1 if step.kind in _ALONE and not _fences_proxy(step) else 0)
    return counts[:0:-1]


def _fences_proxy(step: Step) -> bool:
    """Whether a step is a fence towards the async proxy. A warp that makes it in parts knows different things in its
    lanes, and until its next barrier the order's short cuts are closed to it."""
    return step.fence is not None and step.fence.kind is FenceKind.ASYNC_PROXY
