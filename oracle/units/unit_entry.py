"""One line of the unit table: instructions that share one unit, on the architectures where that is known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.units.instruction import Family, Instruction, Shape
from tileproof.oracle.units.operand import OPERAND_TYPES, OperandType
from tileproof.oracle.units.unit import FusedSum, LateSum, Unit

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Instructions of one family that share their unit."""

    architectures: tuple[str, ...]
    family: Family
    shapes: tuple[Shape, ...]
    #: Types of A and B.
    operands: Pairs
    #: The unit for each accumulator type.
    units: Mapping[str, Unit]
    evidence: Evidence
    source: str
    #: The `.kind::` words that may stand in the name, "" for none.
    kinds: tuple[str, ...] = ("",)
    #: The assemblers (CUDA releases) that expand the instruction so; empty for an instruction that none expands.
    assemblers: tuple[str, ...] = ()
    saturates: bool = False
    one_k: bool = False
    #: Scale factors in a row of K, and their types; for block-scaled instructions.
    scales: int = 0
    scale_types: tuple[str, ...] = ()

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of the entry."""
        scale_types: list[OperandType | None] = [OPERAND_TYPES[name] for name in self.scale_types] or [None]
        for shape, accumulator, (a, b), kind, scale_type in product(
            self.shapes, self.units, self.operands, self.kinds, scale_types
        ):
            yield Instruction(
                family=self.family,
                shape=shape,
                accumulator=accumulator,
                a=OPERAND_TYPES[a],
                b=OPERAND_TYPES[b],
                kind=kind,
                saturates=self.saturates,
                scales=self.scales,
                scale_type=scale_type,
                one_k=self.one_k,
            )

    def has(self, instruction: Instruction) -> bool:
        """Whether the instruction is one of these, whatever the architecture and the assembler."""
        scale_type = instruction.scale_type.name if instruction.scale_type else None
        return (
            self.family is instruction.family
            and instruction.shape in self.shapes
            and instruction.operands in self.operands
            and instruction.accumulator in self.units
            and instruction.kind in self.kinds
            and instruction.saturates == self.saturates
            and instruction.one_k == self.one_k
            and instruction.scales == self.scales
            and (scale_type in self.scale_types if self.scale_types else scale_type is None)
        )

    def unit(self, instruction: Instruction) -> Unit:
        """The unit for one of these instructions: a shape with fewer products than a group has one smaller group."""
        unit, k = self.units[instruction.accumulator], instruction.shape.k
        match unit:
            case FusedSum():
                return replace(unit, group=min(unit.group, k))
            case LateSum():
                return replace(unit, unit=replace(unit.unit, group=min(unit.unit.group, k // 2)))
        return unit


def shapes(*names: str) -> tuple[Shape, ...]:
    """Shapes by their names without letters, for example "16x8x32" (m, n, k)."""
    return tuple(Shape(*(int(extent) for extent in name.split("x"))) for name in names)


def same(*types: str) -> Pairs:
    """A and B of one type each."""
    return tuple((name, name) for name in types)


def mixed(*types: str) -> Pairs:
    """Every pair of these types."""
    return tuple((a, b) for a in types for b in types)
