"""Arithmetic instructions as operations of the compiled loop: number, constants, and which operands it takes.

The canonical name of an `alu` operation decides. What is not here (rounding other than to nearest where it matters,
rare forms) stays cold: the reference engine executes it.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tileproof.simulators.ptx.alu.operation import Opcode
from tileproof.simulators.ptx.alu.scalar import Kind, Scalar
from tileproof.simulators.ptx.fast import layout as op

_TOP = 1 << 63
_NORMAL = 0x0080_0000  # the least normal f32


@dataclass(frozen=True)
class Form:
    """What the loop executes.

    Attributes:
        op: its number.
        constants: as the operation's function reads them.
        operands: of how many of the instruction's operands it takes the values; None for all.
        narrow: operands of which only the lowest bits count, and how many.
    """

    op: int
    constants: tuple[int, ...] = ()
    operands: int | None = None
    narrow: Mapping[int, int] = field(default_factory=dict)


Lower = Callable[[Opcode, tuple[int, ...]], Form | None]
"""From an opcode, and the values of its operands where they are constants, else -1."""


def form_of(name: str, constants: Sequence[int]) -> Form | None:
    """The form of an operation by its canonical name; None if it is cold.

    Args:
        name: such as "add.s32".
        constants: for each operand its value if it is a constant, else -1.
    """
    mnemonic, *qualifiers = name.split(".")
    opcode = Opcode.parse(mnemonic, tuple(qualifiers))
    if not opcode.types:
        return None
    floats = opcode.types[-1].is_float
    table = _FLOATS if floats and mnemonic in _FLOATS else _PLAIN
    lower = table.get(mnemonic)
    return (
        None
        if lower is None or (floats and table is _PLAIN and mnemonic not in _ANY_TYPE)
        else lower(opcode, tuple(constants))
    )


def _sign(scalar: Scalar) -> int:
    return 1 << (scalar.bits - 1) if scalar.signed else 0


def _bias(scalar: Scalar) -> int:
    """What makes values compare as unsigned ones: raw bits of a signed type with the sign bit flipped."""
    return _sign(scalar)


def _plain(number: int, *flags: str) -> Lower:
    def lower(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
        single = len(opcode.types) == 1 and opcode.types[0].lanes == 1
        return Form(number) if single and opcode.flags <= set(flags) else None

    return lower


def _product(number: int, signed: int) -> Lower:
    def lower(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
        scalar = opcode.types[0]
        if opcode.flags == {"lo"} or (opcode.flags == {"wide"} and not scalar.signed):
            return Form(number)
        if opcode.flags == {"wide"}:
            return Form(signed, (_sign(scalar), 0))
        if opcode.flags == {"hi"} and scalar.bits < 64:
            return Form(signed, (_sign(scalar), scalar.bits))
        if opcode.flags == {"hi"} and number == op.MULTIPLY:
            return Form(op.MULTIPLY_HIGH, (_sign(scalar),))
        return None

    return lower


def _shift_right(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    scalar = opcode.types[0]
    return Form(op.SHIFT_RIGHT_SIGNED, (_sign(scalar),)) if scalar.signed else Form(op.SHIFT_RIGHT)


def _extreme(number: int) -> Lower:
    def lower(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
        scalar = opcode.types[0]
        return Form(number, (_bias(scalar),)) if not opcode.flags and scalar.lanes == 1 else None

    return lower


def _signed_plain(number: int) -> Lower:
    return lambda opcode, constants: Form(number, (_sign(opcode.types[0]),)) if not opcode.flags else None


def _lop3(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    table = constants[3] if not opcode.flags else -1
    if table < 0:
        return None
    bits = tuple((1 << 64) - 1 if table >> index & 1 else 0 for index in range(8))
    return Form(op.LOGIC3, bits, operands=3)


def _count(number: int) -> Lower:
    return lambda opcode, constants: Form(number, (64 - opcode.types[0].bits,))


def _find(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    scalar = opcode.types[0]
    return Form(op.FIND, (_sign(scalar), scalar.bits if "shiftamt" in opcode.flags else 0))


def _extract(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    scalar = opcode.types[0]
    number = op.EXTRACT_SIGNED if scalar.signed else op.EXTRACT
    return Form(number, (scalar.bits,), narrow=_position_bits(scalar, 1))


def _insert(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    return Form(op.INSERT, narrow=_position_bits(opcode.types[0], 2))


def _position_bits(scalar: Scalar, first: int) -> Mapping[int, int]:
    """Of positions and lengths of 32-bit fields the low 8 bits count (`assumption.FIELD_RANGE`)."""
    return {first: 8, first + 1: 8} if scalar.bits == 32 else {}


def _funnel(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    number = op.FUNNEL_LEFT if "l" in opcode.flags else op.FUNNEL_RIGHT
    return Form(number, (31 if "wrap" in opcode.flags else 0xFFFF_FFFF,))


def _dot(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    return Form(op.DOT4, tuple(0x80 if scalar.signed else 0 for scalar in opcode.types))


# Outcomes (less, equal, greater, unordered) for which a comparison holds.
_HOLDS = {
    "eq": (0, 1, 0, 0),
    "ne": (1, 0, 1, 0),
    "lt": (1, 0, 0, 0),
    "le": (1, 1, 0, 0),
    "gt": (0, 0, 1, 0),
    "ge": (0, 1, 1, 0),
    "lo": (1, 0, 0, 0),
    "ls": (1, 1, 0, 0),
    "hi": (0, 0, 1, 0),
    "hs": (0, 1, 1, 0),
    "equ": (0, 1, 0, 1),
    "neu": (1, 0, 1, 1),
    "ltu": (1, 0, 0, 1),
    "leu": (1, 1, 0, 1),
    "gtu": (0, 0, 1, 1),
    "geu": (0, 1, 1, 1),
    "num": (1, 1, 1, 0),
    "nan": (0, 0, 0, 1),
}
_COMBINATIONS = {"and": 1, "or": 2, "xor": 3}


def _setp(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    scalar = opcode.types[0]
    number = {"f32": op.COMPARE_SINGLE, "f64": op.COMPARE_DOUBLE}.get(scalar.name, op.COMPARE)
    if scalar.is_float and number == op.COMPARE:
        return None
    (comparison,) = opcode.flags & _HOLDS.keys()
    combination = sum(_COMBINATIONS.get(flag, 0) for flag in opcode.flags)
    first = _NORMAL if "ftz" in opcode.flags else _bias(scalar)
    return Form(number, (first, *_HOLDS[comparison], combination))


def _float(single: int, double: int | None) -> Lower:
    def lower(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
        name = opcode.types[0].name
        if len(opcode.types) != 1 or opcode.flags - {"rn", "ftz", "sat", "NaN"}:
            return None
        if name == "f64" and double is not None:
            return Form(double)
        flush, saturate, propagate = ("ftz" in opcode.flags, "sat" in opcode.flags, "NaN" in opcode.flags)
        return Form(single, (_NORMAL * flush, int(saturate), int(propagate))) if name == "f32" else None

    return lower


def _selp(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    return Form(op.SELECT)


def _mov(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    return Form(op.MOVE)


_SINGLE_TO = {"f16": op.SINGLE_TO_HALF, "bf16": op.SINGLE_TO_BFLOAT}
_SINGLE_TO |= {"f16x2": op.PAIR_TO_HALVES, "bf16x2": op.PAIR_TO_BFLOATS}
_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f16x2": 0x7C00, "bf16x2": 0x7F80}
# Of 8-bit floats: largest code, stored bits of the significand, f32 exponent field of the smallest normal number.
_BYTES = {"e4m3x2": (0x7E, 3, 121), "e5m2x2": (0x7B, 2, 113)}
_ROUNDINGS = ("rni", "rzi", "rmi", "rpi")


def _cvt(opcode: Opcode, constants: tuple[int, ...]) -> Form | None:
    if len(opcode.types) != 2:
        return None
    result, source = opcode.types
    relu = int("relu" in opcode.flags)
    match result.name, source.name:
        case (to, "f32") if to in _SINGLE_TO and opcode.flags <= {"rn", "relu", "satfinite"} and "rn" in opcode.flags:
            return Form(_SINGLE_TO[to], (_INFINITY[to] - ("satfinite" in opcode.flags), relu))
        case (to, ("f32" | "f16x2") as from_) if to in _BYTES and opcode.flags <= {"rn", "satfinite", "relu"}:
            top, fraction, least = _BYTES[to]
            number = op.PAIR_TO_BYTES if from_ == "f32" else op.HALVES_TO_BYTES
            return Form(number, (top, relu, fraction, least))
        case ("f16x2", from_) if from_ in _BYTES and opcode.flags == {"rn"}:
            return Form(op.BYTES_TO_HALVES, (int(from_ == "e4m3x2"),))
        case ("f32", "f16") if opcode.flags <= {"rn", "ftz"}:
            return Form(op.HALF_TO_SINGLE)
        case ("f32", "bf16") if opcode.flags <= {"rn"}:
            return Form(op.BFLOAT_TO_SINGLE)
        case ("f64", "f32") if opcode.flags <= {"rn"}:
            return Form(op.SINGLE_TO_DOUBLE)
        case ("f32", "f64") if opcode.flags == {"rn"}:
            return Form(op.DOUBLE_TO_SINGLE)
    return _cvt_integer(opcode, result, source)


_INTEGERS = (Kind.UNSIGNED, Kind.SIGNED)


def _cvt_integer(opcode: Opcode, result: Scalar, source: Scalar) -> Form | None:
    if opcode.flags - {*_ROUNDINGS, "rn", "sat", "ftz"} or result.lanes > 1 or source.lanes > 1:
        return None
    if result.kind in _INTEGERS and source.kind in _INTEGERS:
        if "sat" in opcode.flags:
            return _clamp(result, source)
        return Form(op.EXTEND, (_sign(source),))
    if result.name in ("f32", "f64") and source.kind in _INTEGERS:
        number = op.INTEGER_TO_SINGLE if result.name == "f32" else op.INTEGER_TO_DOUBLE
        return Form(number, (_sign(source),)) if opcode.flags <= {"rn", "ftz"} else None
    if source.name not in ("f32", "f64"):
        return None
    rounding = next((index for index, name in enumerate(_ROUNDINGS) if name in opcode.flags), -1)
    flush = _NORMAL * ("ftz" in opcode.flags)
    if result.kind in _INTEGERS and rounding >= 0:
        number = op.SINGLE_TO_INTEGER if source.name == "f32" else op.DOUBLE_TO_INTEGER
        return Form(number, (rounding, flush, *_range(result, source)))
    if result.name == source.name == "f32" and rounding >= 0 and "sat" not in opcode.flags:
        return Form(op.SINGLE_TO_INTEGRAL, (rounding, flush))
    return None


def _clamp(result: Scalar, source: Scalar) -> Form | None:
    if source.bits == 64 and not source.signed:
        return None
    bits = result.bits - result.signed
    largest = min((1 << bits) - 1, (1 << 63) - 1)
    smallest = -(1 << bits) if result.signed else 0
    return Form(op.CLAMP, (_sign(source), smallest, largest))


def _range(result: Scalar, source: Scalar) -> tuple[int, ...]:
    """Largest, smallest and NaN's integer, and as doubles the first number above and the smallest."""
    bits = result.bits - result.signed
    smallest = -(1 << bits) if result.signed else 0
    nan = 1 << (result.bits - 1) if source.name == "f64" or result.bits == 64 else 0
    return (1 << bits) - 1, smallest & result.mask, nan, _double(2.0**bits), _double(float(smallest))


def _double(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


_PLAIN: Mapping[str, Lower] = {
    "add": _plain(op.ADD),
    "sub": _plain(op.SUBTRACT),
    "mul": _product(op.MULTIPLY, op.MULTIPLY_SIGNED),
    "mad": _product(op.MULTIPLY_ADD, op.MULTIPLY_ADD_SIGNED),
    "and": _plain(op.AND),
    "or": _plain(op.OR),
    "xor": _plain(op.XOR),
    "not": _plain(op.NOT),
    "shl": _plain(op.SHIFT_LEFT),
    "shr": _shift_right,
    "shf": _funnel,
    "prmt": lambda opcode, constants: None if opcode.flags else Form(op.PERMUTE),
    "min": _extreme(op.MINIMUM),
    "max": _extreme(op.MAXIMUM),
    "neg": _plain(op.NEGATE),
    "abs": _signed_plain(op.ABSOLUTE),
    "div": _signed_plain(op.DIVIDE),
    "rem": _signed_plain(op.REMAINDER),
    "lop3": _lop3,
    "popc": lambda opcode, constants: Form(op.COUNT_ONES),
    "clz": _count(op.COUNT_ZEROS),
    "brev": _count(op.REVERSE),
    "bfind": _find,
    "bfe": _extract,
    "bfi": _insert,
    "dp4a": _dot,
    "setp": _setp,
    "selp": _selp,
    "mov": _mov,
    "cvt": _cvt,
}
_ANY_TYPE = frozenset({"setp", "selp", "mov", "cvt"})
_FLOATS: Mapping[str, Lower] = {
    "add": _float(op.ADD_SINGLE, op.ADD_DOUBLE),
    "sub": _float(op.SUBTRACT_SINGLE, op.SUBTRACT_DOUBLE),
    "mul": _float(op.MULTIPLY_SINGLE, op.MULTIPLY_DOUBLE),
    "fma": _float(op.FUSED_SINGLE, op.FUSED_DOUBLE),
    "mad": _float(op.FUSED_SINGLE, op.FUSED_DOUBLE),
    "div": _float(op.DIVIDE_SINGLE, op.DIVIDE_DOUBLE),
    "sqrt": _float(op.ROOT_SINGLE, op.ROOT_DOUBLE),
    "min": _float(op.LESSER_SINGLE, None),
    "max": _float(op.GREATER_SINGLE, None),
    "neg": _float(op.NEGATE_SINGLE, op.NEGATE_DOUBLE),
    "abs": _float(op.ABSOLUTE_SINGLE, op.ABSOLUTE_DOUBLE),
}
