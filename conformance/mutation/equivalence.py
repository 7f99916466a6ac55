"""Proofs by machine that a mutant does what the kernel does. An argument in words is none.

*Same decoded form*: the CPU device executes the same steps. *Unused result*: the instruction only computes registers
that nothing in the kernel reads. *Same result*: one arithmetic step differs, and over all values that its operands can
have it gives the same. *Same machine code*: the assembler makes the same bytes of both; it then also says
which mutants are no legal PTX. *Same effects*: a solver finds no input of a legal launch for which a thread's accesses,
barriers and exchanges would differ (see `lockstep`).
"""

import re
from dataclasses import dataclass, fields, replace

import numpy as np

from tileproof.conformance.mutation.assembler import assemble
from tileproof.conformance.mutation.demand import bits_altered, bits_read
from tileproof.conformance.mutation.lockstep import solver
from tileproof.conformance.mutation.lockstep.premises import premises
from tileproof.conformance.mutation.lockstep.proof import difference
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.mutation.operators_value import COMPUTES
from tileproof.conformance.mutation.possible import Registers, never_negative, results
from tileproof.conformance.mutation.rendering import render, render_operand
from tileproof.conformance.mutation.result import Outcome
from tileproof.kernels.compile import CompiledModule
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.program import Kind, Program, Step
from tileproof.simulators.ptx.text.syntax import Entry, Register


@dataclass(frozen=True)
class Proof:
    """What is known of a mutant that no case kills, and how."""

    outcome: Outcome
    words: str = ""


def proof(mutant: Mutant, changed: Program, original: Program, module: CompiledModule) -> Proof:
    """Equivalent, refused by the assembler, or a survivor."""
    entry = decoded(module.ptx, Contraction.NONE)[0].entries[mutant.entry]
    if same_form(changed, original):
        return Proof(Outcome.EQUIVALENT, "same decoded form")
    if unused_result(mutant, entry):
        return Proof(Outcome.EQUIVALENT, "unused result")
    reason = same_results(changed, original)
    if reason:
        return Proof(Outcome.EQUIVALENT, reason)
    theirs = assemble(mutant.patch.text(module.ptx, entry), module.arch)
    if isinstance(theirs, str):
        return Proof(Outcome.REFUSED, f"the assembler refuses it: {theirs}")
    if theirs is not None and theirs == assemble(module.ptx, module.arch):
        return Proof(Outcome.EQUIVALENT, f"same machine code ({theirs.assembler}, {module.arch})")
    if solver.available() and not difference(changed, original, premises(mutant.variant, mutant.entry)):
        return Proof(Outcome.EQUIVALENT, f"same effects in every legal launch ({solver.name()})")
    return Proof(Outcome.SURVIVED)


def same_form(changed: Program, original: Program) -> bool:
    """Whether the device executes the same steps on the same slots, constants and variables."""
    same_steps = [*map(_bare, changed.steps)] == [*map(_bare, original.steps)]
    others = (field.name for field in fields(Program) if field.name not in ("steps", "contractible"))
    return same_steps and all(getattr(changed, name) == getattr(original, name) for name in others)


def _bare(step: Step) -> Step:
    """A step without the texts that name it."""
    return replace(step, opcode="", where=Where(0))


def unused_result(mutant: Mutant, entry: Entry) -> bool:
    """Whether an instruction that only computes writes a register that stands nowhere else in the entry."""
    changed = mutant.patch.instructions
    if len(changed) != 1 or not {mutant.original.mnemonic, changed[0].mnemonic} <= COMPUTES:
        return False
    result = mutant.original.operands[0]
    if not isinstance(result, Register) or changed[0].operands[0] != result:
        return False
    pattern = re.compile(rf"{re.escape(render_operand(result))}(?![\w$])")
    return sum(len(pattern.findall(render(one))) for one in entry.instructions) == 1


def same_results(changed: Program, original: Program) -> str:
    """Why the one step that differs does the same for all that its operands can be; "" where it may not.

    The two read the same registers, whose values are followed from thread and block numbers on (see `possible`), and
    write one register, of which perhaps not all bits are read (see `demand`).
    """
    pair = _only_difference(changed, original)
    if pair is None:
        return ""
    new, old = pair
    operands = zip(_meanings(new, changed), _meanings(old, original), strict=True)
    unlike = [ends for ends in operands if ends[0] != ends[1]]
    alone = not unlike and len(old.destinations) == 1
    if alone and not bits_altered(new, old, original) & bits_read(original, old.destinations[0]):
        return "it differs only in bits that nothing reads"
    if old.kind is not Kind.ARITHMETIC or new.sign_from != old.sign_from:
        return ""
    ours, theirs = Registers(original).operands(old), Registers(changed).operands(new)
    if _is_twin(new, old) and not unlike and never_negative(old, ours):
        return "its operands are never negative"
    if not all(isinstance(end, tuple) and end[0] == "constant" for ends in unlike for end in ends):
        return ""
    made, meant = results(new, theirs), results(old, ours)
    if made is None or meant is None or len(made) != len(meant):
        return ""
    if all(np.array_equal(*one) for one in zip(made, meant, strict=True)):
        return "the same result for every value that its operands can have"
    return ""


def _only_difference(changed: Program, original: Program) -> tuple[Step, Step] | None:
    """The one step that differs and what it was: both compute or load the same registers under the same guard."""
    if len(changed.steps) != len(original.steps):
        return None
    pairs = [
        (new, old)
        for new, old in zip(changed.steps, original.steps, strict=True)
        if _resolved(new, changed) != _resolved(old, original)
    ]
    if len(pairs) != 1:
        return None
    new, old = pairs[0]
    same = (new.kind, new.guard, new.guard_negated, new.destinations, len(new.sources)) == (
        old.kind, old.guard, old.guard_negated, old.destinations, len(old.sources)
    )  # fmt: skip
    return (new, old) if same and old.kind in (Kind.ARITHMETIC, Kind.LOAD) else None


_SIGNED_BY_THEIR_TOP_BIT = frozenset(
    {"add", "cvt", "div", "mad", "max", "min", "mul", "rem", "set", "setp", "shr", "sub"},
)
"""Operations that do the same to signed numbers and to unsigned ones where none is negative. Others find a sign
elsewhere: at the top of a field (`bfe`), of a byte (`dp4a`) or of 24 bits (`mul24`)."""


def _is_twin(new: Step, old: Step) -> bool:
    """Whether two operations are one, but that one takes as signed what the other takes as unsigned."""
    assert new.operation is not None
    assert old.operation is not None
    ours, theirs = new.operation.name.split("."), old.operation.name.split(".")
    if ours[0] not in _SIGNED_BY_THEIR_TOP_BIT or [*map(_unsigned, ours)] != [*map(_unsigned, theirs)]:
        return False
    return ours[0] != "cvt" or ours[:-1] == theirs[:-1]  # where a cvt saturates hangs on the type of its result


def _unsigned(word: str) -> str:
    """A signed type's unsigned twin, or the word."""
    return f"u{word[1:]}" if word[0] == "s" and word[1:].isdigit() else word


def _resolved(step: Step, program: Program) -> object:
    """A step without texts and numbers of constants, which depend on what else is in the kernel."""
    return replace(_bare(step), sources=()), _meanings(step, program)


def _meanings(step: Step, program: Program) -> list[object]:
    return [_meaning(slot, program) for slot in step.sources]


def _meaning(slot: int, program: Program) -> object:
    if slot in program.constants:
        return ("constant", program.constants[slot], program.slot_bits[slot])
    if slot in program.specials:
        return ("special", program.specials[slot])
    return program.shared_symbols.get(slot, slot)
