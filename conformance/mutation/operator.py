"""What a mutation operator is: from one instruction to the changed instructions that may stand in its place.

Example: of `setp.lt.s32 %p1, %r1, 5` the operator `compare` makes `setp.le.s32 %p1, %r1, 5`, the operator `constant+1`
`setp.lt.s32 %p1, %r1, 6`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tileproof.simulators.ptx.text.syntax import Instruction, Operand


class Group(StrEnum):
    """What an operator breaks."""

    ORDER = "order"
    CONTROL = "control"
    MEMORY = "memory"
    VALUE = "value"


@dataclass(frozen=True)
class Change:
    """One way to change an instruction.

    Args:
        detail: which of several, for example the operand's number; part of the mutant's identity.
        instructions: what stands in its place; none for a dropped one.
        registers: types of registers that they bring, by name (see `patch.own_register`).
    """

    detail: str
    instructions: tuple[Instruction, ...]
    registers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operator:
    """A kind of small defect.

    Args:
        name: stable, part of every mutant's id.
        group: what it breaks.
        changes: every way in which it applies to an instruction; none where it does not apply.
    """

    name: str
    group: Group
    changes: Callable[[Instruction], Iterator[Change]]


def opcode(instruction: Instruction) -> str:
    """Mnemonic and qualifiers, as written."""
    return ".".join((instruction.mnemonic, *instruction.qualifiers))


def dropped(detail: str = "") -> Change:
    """Nothing in the instruction's place."""
    return Change(detail, ())


def with_qualifiers(instruction: Instruction, old: str, new: str, detail: str = "") -> Change:
    """One qualifier for another; none for an empty one."""
    at = instruction.qualifiers.index(old)
    given = instruction.qualifiers
    changed = (*given[:at], *new.split("."), *given[at + 1 :]) if new else (*given[:at], *given[at + 1 :])
    return Change(detail or (f"{old}>{new}" if new else f"no {old}"), (replace(instruction, qualifiers=changed),))


def with_operand(instruction: Instruction, at: int, operand: Operand, detail: str) -> Change:
    """One operand for another."""
    given = instruction.operands
    return Change(detail, (replace(instruction, operands=(*given[:at], operand, *given[at + 1 :])),))


def swapped(instruction: Instruction, first: int, second: int) -> Iterator[Change]:
    """Two operands exchanged, where they differ."""
    operands = list(instruction.operands)
    if operands[first] == operands[second]:
        return
    operands[first], operands[second] = operands[second], operands[first]
    yield Change(f"{first}<>{second}", (replace(instruction, operands=tuple(operands)),))
