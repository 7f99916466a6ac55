"""PTX scalar types, and values as raw bits.

Every value is a `Bits` array: uint64, the raw bits of the operand, zero-extended; a predicate is 0 or 1. The s16 value
-2 is 0xFFFE here, and `sign_extend(bits, 16)` makes 0xFFFFFFFFFFFFFFFE of it, which is -2 modulo 2**64.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]


class Kind(Enum):
    """How the bits of a type are read."""

    PREDICATE = "predicate"
    BITS = "bits"
    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float"


@dataclass(frozen=True)
class Scalar:
    """A PTX type that fits a register.

    Args:
        name: as PTX writes it, without the dot.
        kind: how its bits are read.
        bits: width of the whole value.
        lanes: 2 for packed types such as `f16x2` (lane 0 in the lower half), else 1.
    """

    name: str
    kind: Kind
    bits: int
    lanes: int = 1

    @property
    def mask(self) -> int:
        """All bits of the value set."""
        return (1 << self.bits) - 1

    @property
    def signed(self) -> bool:
        """Whether the value is a two's-complement integer."""
        return self.kind is Kind.SIGNED

    @property
    def is_float(self) -> bool:
        """Whether the value, or each of its lanes, is a floating-point number."""
        return self.kind is Kind.FLOAT

    @property
    def operand(self) -> str:
        """The type that PTX declares for operands of this type: untyped bits for packed values and tf32."""
        return f"b{self.bits}" if self.lanes > 1 or self.name == "tf32" else self.name

    @property
    def lane(self) -> "Scalar":
        """The type of one lane; the type itself where it is not packed."""
        return SCALARS[self.name.removesuffix("x2")]


SCALARS: Mapping[str, Scalar] = {
    scalar.name: scalar
    for scalar in [
        *[Scalar(name, Kind.PREDICATE, 1) for name in ("pred", "carry")],
        *[Scalar(f"b{bits}", Kind.BITS, bits) for bits in (8, 16, 32, 64)],
        *[Scalar(f"u{bits}", Kind.UNSIGNED, bits) for bits in (8, 16, 32, 64)],
        *[Scalar(f"s{bits}", Kind.SIGNED, bits) for bits in (8, 16, 32, 64)],
        *[Scalar(name, Kind.FLOAT, bits) for name, bits in [("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64)]],
        Scalar("tf32", Kind.FLOAT, 32),
        Scalar("u16x2", Kind.UNSIGNED, 32, lanes=2),
        Scalar("s16x2", Kind.SIGNED, 32, lanes=2),
        *[Scalar(name, Kind.FLOAT, 32, lanes=2) for name in ("f16x2", "bf16x2")],
        *[Scalar(name, Kind.FLOAT, 16, lanes=2) for name in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2")],
        Scalar("e2m1x2", Kind.FLOAT, 8, lanes=2),
        Scalar("f32x2", Kind.FLOAT, 64, lanes=2),
    ]
}


def mask_of(bits: int) -> int:
    """The integer with the lowest `bits` bits set."""
    return (1 << bits) - 1


def truncate(values: Bits, bits: int) -> Bits:
    """Keep the lowest `bits` bits."""
    return values & np.uint64(mask_of(bits))


def sign_extend(values: Bits, bits: int) -> Bits:
    """Read the lowest `bits` bits as two's complement; the result is modulo 2**64."""
    sign = np.uint64(1 << (bits - 1))
    return (truncate(values, bits) ^ sign) - sign


def as_signed(values: Bits, bits: int) -> NDArray[np.int64]:
    """Read the lowest `bits` bits as two's complement."""
    return sign_extend(values, bits).view(np.int64)


def extend(values: Bits, scalar: Scalar) -> Bits:
    """The value of an integer of the given type, modulo 2**64."""
    return sign_extend(values, scalar.bits) if scalar.signed else values


def widen(values: Bits, type_name: str, register_bits: int) -> Bits:
    """The bits that a register holds after a narrower result is written to it.

    Args:
        values: the result, zero-extended.
        type_name: the result's PTX type; a signed one is sign-extended, every other zero-extended
            (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
        register_bits: the width of the destination register.
    """
    return truncate(extend(values, SCALARS[type_name]), register_bits)


def to_bits(flags: Flags) -> Bits:
    """True and false as 1 and 0."""
    return flags.astype(np.uint64)


def pick(condition: Flags, chosen: Bits | np.uint64, otherwise: Bits | np.uint64) -> Bits:
    """The first where the condition holds, else the second; `np.where` with the type of its result."""
    return np.where(condition, chosen, otherwise)


def shift_left(values: Bits, amount: Bits) -> Bits:
    """Shift left by any amount; 64 and more give zero."""
    return np.where(amount < 64, values << np.minimum(amount, 63), np.uint64(0))


def shift_right(values: Bits, amount: Bits) -> Bits:
    """Shift right by any amount, filling with zeros; 64 and more give zero."""
    return np.where(amount < 64, values >> np.minimum(amount, 63), np.uint64(0))


def low_mask(count: Bits) -> Bits:
    """The lowest `count` bits set; 64 and more set all."""
    return ~shift_left(np.full_like(count, mask_of(64)), count)


def pack(elements: Sequence[Bits], element_bits: int) -> Bits:
    """Join a vector operand to one value, the first element in the lowest bits (`mov.b32 d, {lo, hi}`)."""
    packed = elements[0]
    for position, element in enumerate(elements[1:], start=1):
        packed = packed | (element << np.uint64(position * element_bits))
    return packed


def unpack(values: Bits, count: int, element_bits: int) -> tuple[Bits, ...]:
    """Split one value into a vector operand, the first element from the lowest bits (`mov.b32 {lo, hi}, a`)."""
    return tuple(truncate(values >> np.uint64(position * element_bits), element_bits) for position in range(count))


def by_lane(function: Callable[..., Bits], scalar: Scalar) -> Callable[..., Bits]:
    """Apply a function of one lane to each lane of packed operands."""
    if scalar.lanes == 1:
        return function
    lane_bits = scalar.bits // scalar.lanes

    def packed(*operands: Bits) -> Bits:
        lanes = zip(*(unpack(operand, scalar.lanes, lane_bits) for operand in operands), strict=True)
        return pack([function(*lane) for lane in lanes], lane_bits)

    return packed
