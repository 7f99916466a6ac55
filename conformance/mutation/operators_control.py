"""Operators on which way a thread goes."""

from collections.abc import Iterator
from dataclasses import replace

from tileproof.conformance.mutation.operator import Change, Group, Operator, dropped, swapped
from tileproof.conformance.mutation.operator import with_qualifiers as qualified
from tileproof.simulators.ptx.text.syntax import Guard, Instruction

_BOUNDS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "lo": "ls", "ls": "lo", "hi": "hs", "hs": "hi",
           "ltu": "leu", "leu": "ltu", "gtu": "geu", "geu": "gtu"}  # fmt: skip
_OPPOSITES = {"eq": "ne", "ne": "eq", "equ": "neu", "neu": "equ", "num": "nan", "nan": "num",
              "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}  # fmt: skip


def _negate(instruction: Instruction) -> Iterator[Change]:
    """The guard holds where it did not."""
    if instruction.guard is not None:
        guard = Guard(instruction.guard.register, not instruction.guard.negated)
        yield Change("", (replace(instruction, guard=guard),))


def _drop_branch(instruction: Instruction) -> Iterator[Change]:
    """A conditional branch is never taken."""
    if instruction.mnemonic == "bra" and instruction.guard is not None:
        yield dropped()


def _drop_guard(instruction: Instruction) -> Iterator[Change]:
    """What was conditional always happens."""
    if instruction.guard is not None:
        yield Change("", (replace(instruction, guard=None),))


def _bound(instruction: Instruction) -> Iterator[Change]:
    """A bound is off by one."""
    yield from _compared(instruction, _BOUNDS)


def _opposite(instruction: Instruction) -> Iterator[Change]:
    """A comparison says the opposite."""
    yield from _compared(instruction, _OPPOSITES)


def _compared(instruction: Instruction, other: dict[str, str]) -> Iterator[Change]:
    if instruction.mnemonic in ("setp", "set"):
        for word in instruction.qualifiers[:1]:
            if word in other:
                yield qualified(instruction, word, other[word])


def _select(instruction: Instruction) -> Iterator[Change]:
    """The other of two values."""
    if instruction.mnemonic == "selp":
        yield from swapped(instruction, 1, 2)


def _predicate(instruction: Instruction) -> Iterator[Change]:
    """`or` of predicates for `and`."""
    if instruction.qualifiers == ("pred",) and instruction.mnemonic in ("and", "or"):
        other = {"and": "or", "or": "and"}[instruction.mnemonic]
        yield Change(other, (replace(instruction, mnemonic=other),))


OPERATORS = (
    Operator("negate-guard", Group.CONTROL, _negate),
    Operator("drop-branch", Group.CONTROL, _drop_branch),
    Operator("drop-guard", Group.CONTROL, _drop_guard),
    Operator("bound", Group.CONTROL, _bound),
    Operator("opposite", Group.CONTROL, _opposite),
    Operator("select", Group.CONTROL, _select),
    Operator("predicate", Group.CONTROL, _predicate),
)
