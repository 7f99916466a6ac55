"""Operators on loads, stores and copies: where they go, how wide they are, whether they happen."""

from collections.abc import Iterator
from dataclasses import replace

from tileproof.conformance.mutation.operator import Change, Group, Operator, dropped, opcode, with_operand
from tileproof.conformance.mutation.operator import with_qualifiers as qualified
from tileproof.simulators.ptx.text.syntax import TYPE_BYTES, Address, Immediate, Instruction, Vector

_MOVES = ("ld", "st", "atom", "red", "ldmatrix", "stmatrix", "cp")
_NARROWER = {"u64": "u32", "b64": "b32", "s64": "s32", "u32": "u16", "b32": "b16", "s32": "s16", "f32": "b16",
             "u16": "u8", "b16": "b8", "s16": "s8"}  # fmt: skip
_SIGNS = {"u8": "s8", "s8": "u8", "u16": "s16", "s16": "u16"}


def _is_parameter(instruction: Instruction) -> bool:
    return "param" in instruction.qualifiers


def _element_bytes(instruction: Instruction) -> int:
    """Of what one lane moves; a row of a matrix and a segment of a copy have 16 bytes."""
    return TYPE_BYTES.get(instruction.qualifiers[-1], 16) if instruction.mnemonic in ("ld", "st", "atom", "red") else 16


def _address(instruction: Instruction) -> Iterator[Change]:
    """One element, 16 bytes and 128 bytes further."""
    if instruction.mnemonic not in _MOVES or _is_parameter(instruction):
        return
    for at, operand in enumerate(instruction.operands):
        if isinstance(operand, Address) and operand.coordinates is None:
            for by in sorted({_element_bytes(instruction), 16, 128}):
                yield with_operand(instruction, at, replace(operand, offset=operand.offset + by), f"{at}+{by}")


def _coordinate(instruction: Instruction) -> Iterator[Change]:
    """The coordinates of a tensor copy, exchanged."""
    for at, operand in enumerate(instruction.operands):
        if isinstance(operand, Address) and operand.coordinates is not None and len(operand.coordinates.elements) > 1:
            turned = Vector(operand.coordinates.elements[::-1])
            yield with_operand(instruction, at, replace(operand, coordinates=turned), f"{at}")


def _width(instruction: Instruction) -> Iterator[Change]:
    """Half as wide."""
    if instruction.mnemonic in ("ld", "st") and not _is_parameter(instruction):
        kind = instruction.qualifiers[-1]
        vector = any(isinstance(operand, Vector) for operand in instruction.operands)
        if kind in _NARROWER and not vector:
            yield qualified(instruction, kind, _NARROWER[kind])
    elif instruction.qualifiers[:2] == ("async", "ca") and instruction.operands[2] == Immediate(16):
        yield with_operand(instruction, 2, Immediate(8), "16>8")


def _sign(instruction: Instruction) -> Iterator[Change]:
    """Extended by zeros for the sign, or the sign for zeros."""
    if instruction.mnemonic == "ld" and instruction.qualifiers[-1] in _SIGNS:
        yield qualified(instruction, instruction.qualifiers[-1], _SIGNS[instruction.qualifiers[-1]])


def _drop_store(instruction: Instruction) -> Iterator[Change]:
    """Not written, a reset among others."""
    stores = instruction.mnemonic in ("st", "red", "stmatrix") and not _is_parameter(instruction)
    if stores or opcode(instruction).startswith("mbarrier.init"):
        yield dropped()


def _drop_copy(instruction: Instruction) -> Iterator[Change]:
    """Not copied."""
    if instruction.mnemonic == "cp" and any(isinstance(operand, Address) for operand in instruction.operands):
        yield dropped()


def _elements(instruction: Instruction) -> Iterator[Change]:
    """The first two elements of a vector or matrix access exchanged."""
    if instruction.mnemonic not in ("ld", "st", "ldmatrix", "stmatrix") or _is_parameter(instruction):
        return
    for at, operand in enumerate(instruction.operands):
        if isinstance(operand, Vector) and len(operand.elements) > 1:
            first, second, *rest = operand.elements
            if first != second:
                yield with_operand(instruction, at, Vector((second, first, *rest)), f"{at}")


def _fill(instruction: Instruction) -> Iterator[Change]:
    """A copy without its source size: what lies past the end is copied, not zeros."""
    if instruction.mnemonic == "cp" and instruction.qualifiers[:1] == ("async",) and len(instruction.operands) == 4:
        yield Change("", (replace(instruction, operands=instruction.operands[:3]),))


def _matrices(instruction: Instruction) -> Iterator[Change]:
    """A matrix load without, or with, a transposition."""
    if instruction.mnemonic == "ldmatrix" and "m8n8" in instruction.qualifiers:
        if "trans" in instruction.qualifiers:
            yield qualified(instruction, "trans", "")
        else:
            at = next(word for word in instruction.qualifiers if word in ("x1", "x2", "x4"))
            yield qualified(instruction, at, f"{at}.trans")


OPERATORS = (
    Operator("address", Group.MEMORY, _address),
    Operator("coordinates", Group.MEMORY, _coordinate),
    Operator("width", Group.MEMORY, _width),
    Operator("sign", Group.MEMORY, _sign),
    Operator("drop-store", Group.MEMORY, _drop_store),
    Operator("drop-copy", Group.MEMORY, _drop_copy),
    Operator("elements", Group.MEMORY, _elements),
    Operator("source-size", Group.MEMORY, _fill),
    Operator("transpose", Group.MEMORY, _matrices),
)
