"""A mutant: one operator at one instruction of one entry, with an id that unrelated edits leave alone.

An id such as `fp8_quantize_rows/bound/setp.lt.s64/3f9a12bc7d` holds the kernel, the operator and the opcode; the digits
stand for the variant, the entry, the text of the CUDA line and which of the equal instructions of that line it is.
Neither line numbers nor register names are in it.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tileproof.conformance.mutation.operator import Change, Operator, opcode
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.patch import Patch
from tileproof.conformance.mutation.variant import SourceLine, Variant, digest, source_line, source_text
from tileproof.kernels.compile import CompiledModule
from tileproof.simulators.ptx.decoding.contraction import Contraction
from tileproof.simulators.ptx.device import decoded
from tileproof.simulators.ptx.text.syntax import Entry, Instruction


@dataclass(frozen=True)
class Mutant:
    """One mutant.

    Args:
        id: unique and stable, see the module's docstring.
        variant: the module.
        entry: name of the kernel in it.
        operator: name of the operator.
        patch: the change.
        original: the instruction that changes.
        place: its line in the CUDA source.
    """

    id: str
    variant: Variant
    entry: str
    operator: str
    patch: Patch
    original: Instruction
    place: SourceLine

    @property
    def ptx_line(self) -> int:
        """Of the module as compiled."""
        return self.original.line


def mutants(variant: Variant, entry: Entry, lines: Collection[int] | None = None) -> Iterator[Mutant]:
    """All mutants of an entry, in the order of its instructions.

    Args:
        variant: the module.
        entry: one of its kernels.
        lines: of the PTX text, those that are reached; None for all.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for index, instruction in enumerate(entry.instructions):
        place = source_line(instruction.location)
        for operator in OPERATORS.values():
            for change in operator.changes(instruction):
                site = _site(place, operator, change, instruction)
                seen[site] += 1
                if lines is None or instruction.line in lines:
                    yield _mutant(variant, entry, index, operator, change, place, (*site, str(seen[site])))


def find(module: CompiledModule, name: str, entry: str) -> Mutant | None:
    """The mutant of an id, if it lies in an entry of this module."""
    variant = Variant.of(module)
    if variant.kernel != name.partition("/")[0] or entry not in module.entries:
        return None
    parsed, _ = decoded(module.ptx, Contraction.NONE)
    return next((one for one in mutants(variant, parsed.entries[entry]) if one.id == name), None)


def _site(place: SourceLine, operator: Operator, change: Change, instruction: Instruction) -> tuple[str, ...]:
    return (operator.name, change.detail, opcode(instruction), source_text(place) or str(place))


def _mutant(
    variant: Variant,
    entry: Entry,
    index: int,
    operator: Operator,
    change: Change,
    place: SourceLine,
    site: tuple[str, ...],
) -> Mutant:
    original = entry.instructions[index]
    digits = digest(*variant.defines, entry.name, *site)
    return Mutant(
        id=f"{variant.kernel}/{operator.name}/{opcode(original)}/{digits}",
        variant=variant,
        entry=entry.name,
        operator=operator.name,
        patch=Patch(index, change.instructions, change.registers),
        original=original,
        place=place,
    )
