"""A few instructions for every row of the unit table, so that a check of all rows stays small."""

from collections.abc import Iterator
from dataclasses import dataclass

from tileproof.oracle.matrix_unit import describe
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.unit import Unit
from tileproof.oracle.units.unit_entry import Entry
from tileproof.oracle.units.unit_table import ENTRIES

ANY_ASSEMBLER = "12.8"


@dataclass(frozen=True)
class Row:
    """One instruction where it is executed."""

    instruction: Instruction
    arch: str
    assembler: str

    @property
    def unit(self) -> Unit:
        """The unit that executes it."""
        return describe(self.instruction.name, arch=self.arch, assembler=self.assembler).unit

    def __str__(self) -> str:
        return f"{self.arch}/{self.assembler}/{self.instruction.name}"


def rows() -> Iterator[Row]:
    """Rows of the table: each entry on its first and last architecture, each accumulator, some shapes and operands."""
    for entry in ENTRIES:
        for arch in dict.fromkeys((entry.architectures[0], entry.architectures[-1])):
            for instruction in _some(entry):
                yield Row(instruction, arch, entry.assemblers[0] if entry.assemblers else ANY_ASSEMBLER)


def _some(entry: Entry) -> list[Instruction]:
    """Every K, accumulator, kind and scale type; every operand type as A and as B."""
    chosen: dict[tuple[object, ...], Instruction] = {}
    for instruction in entry.instructions():
        key = instruction.shape.k, instruction.accumulator, instruction.kind, instruction.scale_type
        for operand in (("a", instruction.a), ("b", instruction.b)):
            chosen.setdefault((*key, operand), instruction)
    return list(dict.fromkeys(chosen.values()))
