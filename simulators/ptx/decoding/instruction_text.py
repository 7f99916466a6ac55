"""How an instruction is named in messages: its opcode, its lines, and the refusal that points at it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.text.syntax import Instruction

_MOST_CHARS = 160  # the longest opcodes, those of tensor copies, have some 100


def opcode(instruction: Instruction) -> str:
    """The opcode as written, or the beginning of one that no instruction has."""
    text = ".".join((instruction.mnemonic, *instruction.qualifiers))
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}..."


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
