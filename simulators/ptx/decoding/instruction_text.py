"""How an instruction is named in messages: its opcode, its lines, and the refusal that points at it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.text.syntax import Instruction


def opcode(instruction: Instruction) -> str:
    """The opcode as written."""
    return ".".join((instruction.mnemonic, *instruction.qualifiers))


def where(instruction: Instruction) -> Where:
    """PTX line and innermost CUDA line."""
    location = instruction.location
    return Where(instruction.line, location.file if location else None, location.line if location else None)


def not_modelled(instruction: Instruction, message: str, hint: str = "") -> NotModelled:
    """The refusal for an instruction, with its lines."""
    text = f"{opcode(instruction)} at {where(instruction)}: {message}"
    return NotModelled(text, hint=hint or "docs/ptx.md lists the instructions that are modelled")


@contextmanager
def pointing_at(instruction: Instruction) -> Iterator[None]:
    """Give refusals of the arithmetic, which knows opcodes only, the instruction's lines."""
    try:
        yield
    except NotModelled as error:
        raise not_modelled(instruction, error.message, error.hint) from error
