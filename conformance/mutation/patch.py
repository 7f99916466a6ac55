"""What a mutant changes: one instruction of an entry for none, one or several others.

A patch is applied twice, to the records that the CPU device decodes and to the text that a GPU's driver assembles; a
test holds the two to each other. Registers of its own live in a scope of their own:

    { .reg .b32 mutant; xor.b32 mutant, %r5, 1; mbarrier.try_wait.parity.b64 %p1, [%r4], mutant; }
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tileproof.conformance.mutation.rendering import render
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.text.syntax import Entry, Instruction

OWN = "mutant"
"""Name of a register that a patch brings; as a register of a nested scope it is `mutant@patch`."""

_SCOPE = "@patch"


@dataclass(frozen=True)
class Patch:
    """Other instructions in the place of one.

    Args:
        index: of the instruction in the entry.
        instructions: what stands there instead, in order.
        registers: types of the registers that they bring, by name.
    """

    index: int
    instructions: tuple[Instruction, ...]
    registers: Mapping[str, str] = field(default_factory=dict)

    def entry(self, entry: Entry) -> Entry:
        """The entry with the patch in it; labels keep the instruction that they name."""
        before, after = entry.instructions[: self.index], entry.instructions[self.index + 1 :]
        shift = len(self.instructions) - 1
        return replace(
            entry,
            instructions=(*before, *self.instructions, *after),
            labels={name: at + shift if at > self.index else at for name, at in entry.labels.items()},
            registers={**entry.registers, **self.registers},
        )

    def text(self, text: str, entry: Entry) -> str:
        """The module's text with the patch in the entry.

        Args:
            text: that the entry was parsed from.
            entry: without the patch.

        Raises:
            Refusal: the instruction's line cannot be taken apart.
        """
        begin, end = _span(text, entry, self.index)
        old = text[begin:end]
        label = f"{old.partition(':')[0]}: " if _has_label(old) else ""
        new = " ".join(map(render, self.instructions))
        if self.registers:
            declared = " ".join(f".reg .{kind} {name.partition('@')[0]};" for name, kind in self.registers.items())
            new = f"{{ {declared} {new} }}"
        kept_lines = "\n" * old.count("\n")
        return f"{text[:begin]}{label}{new}{kept_lines}{text[end:]}"


def own_register(kind: str, name: str = OWN) -> tuple[str, dict[str, str]]:
    """A register that a patch brings: its name in records, and its declaration."""
    scoped = f"{name}{_SCOPE}"
    return scoped, {scoped: kind}


def _span(text: str, entry: Entry, index: int) -> tuple[int, int]:
    """Where an instruction stands in the text, from the first character behind what is before it to its semicolon."""
    line = entry.instructions[index].line
    begin, left = _start_of(text, line), _before_on_line(entry, index)
    while True:
        end = text.find(";", begin) + 1
        if not end:
            raise Refusal(f"PTX line {line}: no whole instruction")
        while text[begin:end].lstrip().startswith(("{", "}", "//")):  # scopes and comments; operands come later
            opened = text[begin:end].lstrip()
            begin = end - len(opened) + (opened.index("\n") if opened.startswith("//") else 1)
        if not text[begin:end].lstrip().startswith("."):
            if not left:
                return begin, end
            left -= 1
        begin = end


def _start_of(text: str, line: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    return start


def _before_on_line(entry: Entry, index: int) -> int:
    """How many instructions of the entry stand before this one on its line."""
    line, count = entry.instructions[index].line, 0
    while index > 0 and entry.instructions[index - 1].line == line:
        index, count = index - 1, count + 1
    return count


def _has_label(statement: str) -> bool:
    """Whether a label stands before the instruction; qualifiers such as `shared::cta` have two colons."""
    head, colon, rest = statement.partition(":")
    return bool(colon) and not rest.startswith(":") and len(head.split()) == 1
