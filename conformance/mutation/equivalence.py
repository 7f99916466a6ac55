"""Proofs by machine that a mutant does what the kernel does. An argument in words is none.

*Same decoded form*: the CPU device executes the same steps. *Unused result*: the instruction only computes registers
that nothing in the kernel reads. *Same machine code*: the assembler makes the same bytes of both; it then also says
which mutants are no legal PTX.
"""

import re
from dataclasses import dataclass, fields, replace

from tileproof.conformance.mutation.assembler import assemble
from tileproof.conformance.mutation.mutant import Mutant
from tileproof.conformance.mutation.operators_value import COMPUTES
from tileproof.conformance.mutation.rendering import render, render_operand
from tileproof.conformance.mutation.result import Outcome
from tileproof.kernels.compile import CompiledModule
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.program import Program, Step
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
    theirs = assemble(mutant.patch.text(module.ptx, entry), module.arch)
    if isinstance(theirs, str):
        return Proof(Outcome.REFUSED, f"the assembler refuses it: {theirs}")
    if theirs is not None and theirs == assemble(module.ptx, module.arch):
        return Proof(Outcome.EQUIVALENT, f"same machine code ({theirs.assembler}, {module.arch})")
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
