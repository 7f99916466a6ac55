"""Operators on what is computed: constants, operands, rounding, the operation itself."""

from collections.abc import Iterator
from dataclasses import replace

from tileproof.conformance.mutation.operator import Change, Group, Operator, swapped, with_operand
from tileproof.conformance.mutation.operator import with_qualifiers as qualified
from tileproof.simulators.ptx.text.syntax import Immediate, Instruction, Vector

COMPUTES = frozenset(
    {
        "add",
        "sub",
        "mul",
        "mad",
        "fma",
        "div",
        "rem",
        "abs",
        "neg",
        "min",
        "max",
        "and",
        "or",
        "xor",
        "not",
        "shl",
        "shr",
        "shf",
        "bfi",
        "bfe",
        "prmt",
        "selp",
        "setp",
        "set",
        "mov",
        "cvt",
        "lop3",
        "rcp",
        "sqrt",
        "dp4a",
        "slct",
        "cnot",
        "popc",
        "clz",
        "brev",
        "copysign",
    }
)
"""Mnemonics of instructions that compute registers from registers, each thread for itself."""
_ORDERED = {"sub": (1, 2), "div": (1, 2), "rem": (1, 2), "prmt": (1, 2), "bfi": (1, 2), "mad": (1, 3), "fma": (1, 3)}
_OTHER_OPERATION = {"add": "sub", "sub": "add", "min": "max", "max": "min", "and": "or", "or": "and", "xor": "or",
                    "div": "rem", "rem": "div", "shl": "shr", "shr": "shl"}  # fmt: skip
_INTEGERS = ("s16", "s32", "s64", "u16", "u32", "u64")
_ROUNDING = {"rn": "rz", "rz": "rn", "rm": "rn", "rp": "rn", "rni": "rzi", "rzi": "rni"}
_NARROW_FLOATS = ("e4m3x2", "e5m2x2")


def _constants(instruction: Instruction) -> Iterator[tuple[int, Immediate]]:
    if instruction.mnemonic in COMPUTES or instruction.mnemonic == "shfl":
        for at, operand in enumerate(instruction.operands):
            last = instruction.mnemonic == "shfl" and at > 2  # its clamp and its members
            if isinstance(operand, Immediate) and at and not last and operand.float_type != "f64":
                yield at, operand


def _plus(by: int) -> Operator:
    def changes(instruction: Instruction) -> Iterator[Change]:
        for at, constant in _constants(instruction):
            if constant.float_type is not None and constant.bits + by < 0:
                continue
            yield with_operand(instruction, at, replace(constant, bits=constant.bits + by), f"{at}")

    return Operator(f"constant{by:+}", Group.VALUE, changes)


def _flip(instruction: Instruction) -> Iterator[Change]:
    """The highest bit that is set, or of zero the lowest, flipped: masks, shifts and swizzles."""
    for at, constant in _constants(instruction):
        if constant.bits > 2 and (instruction.mnemonic not in ("shl", "shr")):
            bit = 1 << (constant.bits.bit_length() - 2)
            yield with_operand(instruction, at, replace(constant, bits=constant.bits ^ bit), f"{at}")


def _swap(instruction: Instruction) -> Iterator[Change]:
    """Two sources exchanged, where the order matters."""
    pair = _ORDERED.get(instruction.mnemonic)
    packs = instruction.mnemonic == "cvt" and len(instruction.operands) == 3
    if packs:
        pair = (1, 2)
    if pair and (instruction.mnemonic not in ("mad",) or instruction.qualifiers[0] == "lo"):
        yield from swapped(instruction, *pair)


def _halves(instruction: Instruction) -> Iterator[Change]:
    """The first two parts of a packed register exchanged."""
    if instruction.mnemonic == "mov":
        for at, operand in enumerate(instruction.operands):
            if isinstance(operand, Vector) and len(operand.elements) > 1 and len(set(operand.elements)) > 1:
                first, second, *rest = operand.elements
                yield with_operand(instruction, at, Vector((second, first, *rest)), f"{at}")


def _fragments(instruction: Instruction) -> Iterator[Change]:
    """The first two registers of a matrix operand exchanged: another part of the tile."""
    if instruction.mnemonic == "mma":
        for at, operand in enumerate(instruction.operands):
            if at and isinstance(operand, Vector) and len(set(operand.elements)) > 1:
                first, second, *rest = operand.elements
                if first != second:
                    yield with_operand(instruction, at, Vector((second, first, *rest)), f"{at}")


def _operation(instruction: Instruction) -> Iterator[Change]:
    """Another operation of the same form."""
    new = _OTHER_OPERATION.get(instruction.mnemonic)
    kind = instruction.qualifiers[-1] if instruction.qualifiers else ""
    if new is None or kind == "pred" or "cc" in instruction.qualifiers:
        return
    if new == "rem" and kind not in _INTEGERS:
        return
    if instruction.mnemonic == "shl":
        kind = f"u{kind[1:]}"
    if instruction.mnemonic == "shr":
        kind = f"b{kind[1:]}"
    changed = replace(instruction, mnemonic=new, qualifiers=(*instruction.qualifiers[:-1], kind))
    yield Change(new, (changed,))


def _signedness(instruction: Instruction) -> Iterator[Change]:
    """Signed for unsigned, or the other way."""
    kind = instruction.qualifiers[-1] if instruction.qualifiers else ""
    if instruction.mnemonic in ("shr", "div", "rem", "min", "max", "setp") and kind in _INTEGERS:
        yield qualified(instruction, kind, ("u" if kind[0] == "s" else "s") + kind[1:])
    if instruction.mnemonic == "mul" and "wide" in instruction.qualifiers:
        yield qualified(instruction, kind, ("u" if kind[0] == "s" else "s") + kind[1:])
    if instruction.mnemonic == "cvt" and len(instruction.qualifiers) == 2 and {*instruction.qualifiers} <= {*_INTEGERS}:
        to, source = instruction.qualifiers
        if int(to[1:]) > int(source[1:]):
            other = ("u" if source[0] == "s" else "s") + source[1:]
            yield Change(other, (replace(instruction, qualifiers=(to, other)),))


def _rounding(instruction: Instruction) -> Iterator[Change]:
    """Cut instead of rounded; of packs to FP8 there is one rounding only."""
    if {*_NARROW_FLOATS} & {*instruction.qualifiers}:
        return
    for word in instruction.qualifiers:
        if word in _ROUNDING and instruction.mnemonic in ("add", "sub", "mul", "fma", "div", "rcp", "sqrt", "cvt"):
            yield qualified(instruction, word, _ROUNDING[word])


def _saturation(instruction: Instruction) -> Iterator[Change]:
    """Wraps, or becomes infinite."""
    if instruction.mnemonic in ("cvt", "add", "sub") and "sat" in instruction.qualifiers:
        yield qualified(instruction, "sat", "")


def _number_format(instruction: Instruction) -> Iterator[Change]:
    """The other FP8 format."""
    if instruction.mnemonic in ("cvt", "mma"):
        others = {"e4m3x2": "e5m2x2", "e5m2x2": "e4m3x2", "e4m3": "e5m2", "e5m2": "e4m3"}
        for word in others.keys() & {*instruction.qualifiers}:
            yield qualified(instruction, word, others[word])


def _flush(instruction: Instruction) -> Iterator[Change]:
    """Subnormals become zero."""
    floats = instruction.mnemonic in ("add", "mul", "fma", "div", "rcp", "max", "min")
    if floats and instruction.qualifiers[-1] == "f32" and "ftz" not in instruction.qualifiers:
        changed = (*instruction.qualifiers[:-1], "ftz", "f32")
        yield Change("ftz", (replace(instruction, qualifiers=changed),))


def _dropped_function(instruction: Instruction) -> Iterator[Change]:
    """The operand as it is, for its size or its negative."""
    if instruction.mnemonic in ("abs", "neg", "not"):
        moved = replace(instruction, mnemonic="mov", qualifiers=instruction.qualifiers[-1:])
        yield Change("mov", (moved,))


def _shuffle(instruction: Instruction) -> Iterator[Change]:
    """Another way to choose the lane."""
    if instruction.mnemonic == "shfl" and "bfly" in instruction.qualifiers:
        yield qualified(instruction, "bfly", "down")


OPERATORS = (
    _plus(1),
    _plus(-1),
    Operator("constant-bit", Group.VALUE, _flip),
    Operator("swap", Group.VALUE, _swap),
    Operator("halves", Group.VALUE, _halves),
    Operator("fragments", Group.VALUE, _fragments),
    Operator("operation", Group.VALUE, _operation),
    Operator("signedness", Group.VALUE, _signedness),
    Operator("rounding", Group.VALUE, _rounding),
    Operator("saturation", Group.VALUE, _saturation),
    Operator("number-format", Group.VALUE, _number_format),
    Operator("flush", Group.VALUE, _flush),
    Operator("no-function", Group.VALUE, _dropped_function),
    Operator("shuffle", Group.VALUE, _shuffle),
)
