"""cvt to and from pairs of 8-bit floats (PTX ISA, "cvt": e4m3x2, e5m2x2).

`cvt.rn.satfinite.e4m3x2.f32 d, a, b` rounds to nearest even, *a* into the upper byte; magnitudes beyond the largest
finite number become it (448 for e4m3, 57344 for e5m2), infinities too, and any NaN becomes 0x7F in both formats.
Back to f16x2 every code is exact and NaN becomes 0x7FFF.
"""

from collections.abc import Sequence

import numpy as np

from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.simulators.ptx.alu.assumption import SATURATED_ZERO
from tileproof.simulators.ptx.alu.definedness import everything_if
from tileproof.simulators.ptx.alu.floating import clamp_negative
from tileproof.simulators.ptx.alu.ieee import BINARY16, BINARY32, Binary, Rounding, encode, is_nan
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, pack, pick, unpack

_FORMATS = {"e4m3x2": E4M3FN, "e5m2x2": E5M2}
_NAN = 0x7F


def _fp8(scalar: Scalar) -> FloatFormat:
    return _FORMATS[scalar.name]


def _to_fp8(codes: Bits, binary: Binary, fp8: FloatFormat, *, relu: bool) -> Bits:
    codes = clamp_negative(codes, binary) if relu else codes
    nan = is_nan(codes, binary)
    # In the type of the source, which the oracle encodes by table.
    values = pick(nan, np.uint64(0), codes).astype(f"u{binary.bits // 8}").view(f"f{binary.bits // 8}")
    return np.where(nan, np.uint64(_NAN), fp8.encode(values, overflow="saturate").astype(np.uint64))


def _relu(opcode: Opcode) -> bool:
    """Check the modifiers of a conversion to fp8, and whether negative values become zero."""
    opcode.permit("rn", "satfinite", "relu")
    if not {"rn", "satfinite"} <= opcode.flags:
        raise opcode.refuse(".rn and .satfinite are mandatory")
    return "relu" in opcode.flags


def pair_to_fp8(opcode: Opcode) -> Operation:
    """From two f32: a to the upper byte, b to the lower."""
    relu, fp8 = _relu(opcode), _fp8(opcode.types[0])

    def convert(a: Bits, b: Bits) -> Bits:
        return pack([_to_fp8(operand, BINARY32, fp8, relu=relu) for operand in (b, a)], 8)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (pack([everything_if(masks[1], 8), everything_if(masks[0], 8)], 8),)

    return opcode.operation(("b16",), ("f32", "f32"), convert, undefined, (SATURATED_ZERO,) if relu else ())


def packed_to_fp8(opcode: Opcode) -> Operation:
    """From f16x2: the upper half to the upper byte."""
    relu, fp8 = _relu(opcode), _fp8(opcode.types[0])

    def convert(a: Bits) -> Bits:
        return pack([_to_fp8(half, BINARY16, fp8, relu=relu) for half in unpack(a, 2, 16)], 8)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (pack([everything_if(half, 8) for half in unpack(masks[0], 2, 16)], 8),)

    return opcode.operation(("b16",), ("b32",), convert, undefined, (SATURATED_ZERO,) if relu else ())


def unpack_fp8(opcode: Opcode) -> Operation:
    """To f16x2: the upper byte to the upper half."""
    opcode.permit("rn", "relu")
    opcode.choose("rn")
    fp8, relu = _fp8(opcode.types[1]), "relu" in opcode.flags

    def widen(codes: Bits) -> Bits:
        halves = encode(fp8.decode(codes.astype(np.uint8)), BINARY16, Rounding.NEAREST_EVEN)
        return clamp_negative(halves, BINARY16) if relu else halves

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (pack([everything_if(byte, 16) for byte in unpack(masks[0], 2, 8)], 16),)

    return opcode.operation(
        ("b32",),
        ("b16",),
        lambda a: pack([widen(byte) for byte in unpack(a, 2, 8)], 16),
        undefined,
        (SATURATED_ZERO,) if relu else (),
    )
