"""cvt to and from pairs of 4- and 6-bit floats and of powers of two (PTX ISA, "cvt": e2m1x2, e2m3x2, e3m2x2, ue8m0x2).

Rounding and the fate of large numbers are the format's (`oracle.formats`); a NaN becomes the largest number of a
4- or 6-bit format. A 6-bit code lies in the lower bits of its byte. `cvt.rn.satfinite.e2m1x2.f32` of 6.9 and -0.3 is
0x79: 6 (code 7) in the upper four bits, -0.5 (code 9) in the lower.

ue8m0 has powers of two only: `.rz` gives the exponent field, `.rp` the next one above where the number is none and lies
above 2^-127; signs are ignored, and without `.satfinite` what lies beyond 2^127 becomes NaN (0xFF).
"""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.oracle.formats import E2M1FN, E2M3FN, E3M2FN, FloatFormat
from tileproof.simulators.ptx.alu.assumption import SATURATED_ZERO, SCALE_RULE, Assumption
from tileproof.simulators.ptx.alu.definedness import everything_if
from tileproof.simulators.ptx.alu.floating import clamp_negative
from tileproof.simulators.ptx.alu.ieee import BFLOAT16, BINARY16, BINARY32, Binary, Rounding, encode, is_nan, magnitude
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.requirement import BLACKWELL_FAMILIES
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, pack, pick, to_bits, unpack

FORMATS = {"e2m1x2": E2M1FN, "e2m3x2": E2M3FN, "e3m2x2": E3M2FN}
SCALES = "ue8m0x2"

Convert = Callable[[Bits], Bits]


def _lane_bits(scalar: Scalar) -> int:
    """Bits that one code takes: four, or a byte."""
    return scalar.bits // 2


def _from_pair(opcode: Opcode, convert: Convert, source: str) -> Operation:
    """`d, a, b` from two f32, or `d, a` from a packed pair; the first, or the upper half, to the upper code."""
    result = opcode.types[0]
    width = _lane_bits(result)
    if source == "f32":

        def pair(upper: Bits, lower: Bits) -> Bits:
            return pack([convert(lower), convert(upper)], width)

        def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
            return (pack([everything_if(masks[1], width), everything_if(masks[0], width)], width),)

        return opcode.operation((result.operand,), ("f32", "f32"), pair, undefined, _rules(opcode), BLACKWELL_FAMILIES)

    def halves(a: Bits) -> Bits:
        return pack([convert(half) for half in unpack(a, 2, 16)], width)

    def undefined_half(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (pack([everything_if(half, width) for half in unpack(masks[0], 2, 16)], width),)

    return opcode.operation((result.operand,), ("b32",), halves, undefined_half, _rules(opcode), BLACKWELL_FAMILIES)


def _rules(opcode: Opcode) -> tuple[Assumption, ...]:
    if any(scalar.name == SCALES for scalar in opcode.types):
        return (SCALE_RULE,)
    return (SATURATED_ZERO,) if "relu" in opcode.flags else ()


def to_narrow(opcode: Opcode) -> Operation:
    """`cvt.rn.satfinite{.relu}` to 4- and 6-bit pairs, from f32 and, of e2m1, from f16x2."""
    opcode.permit("rn", "satfinite", "relu")
    if not {"rn", "satfinite"} <= opcode.flags:
        raise opcode.refuse(".rn and .satfinite are mandatory")
    result, source = opcode.types
    record, relu = FORMATS[result.name], "relu" in opcode.flags
    binary = BINARY32 if source.name == "f32" else BINARY16

    def convert(codes: Bits) -> Bits:
        return _encode(clamp_negative(codes, binary) if relu else codes, binary, record)

    return _from_pair(opcode, convert, source.name)


def _encode(codes: Bits, binary: Binary, record: FloatFormat) -> Bits:
    nan = is_nan(codes, binary)
    numbers = pick(nan, np.uint64(0), codes).astype(f"u{binary.bits // 8}").view(f"f{binary.bits // 8}")
    return np.where(nan, np.uint64(record.nan_code), record.encode(numbers, overflow="saturate").astype(np.uint64))


def from_narrow(opcode: Opcode) -> Operation:
    """`cvt.rn{.relu}.f16x2` of a 4- or 6-bit pair: exact."""
    opcode.permit("rn", "relu")
    opcode.choose("rn")
    source = opcode.types[1]
    record, width, relu = FORMATS[source.name], _lane_bits(source), "relu" in opcode.flags

    def widen(codes: Bits) -> Bits:
        meant = (codes & np.uint64((1 << record.bits) - 1)).astype(np.uint8)
        halves = encode(record.decode(meant), BINARY16, Rounding.NEAREST_EVEN)
        return clamp_negative(halves, BINARY16) if relu else halves

    return _to_pair(opcode, widen, width, record.bits)


def _to_pair(opcode: Opcode, widen: Convert, width: int, meant: int) -> Operation:
    """A packed pair of 16 bits from a pair of narrower codes, of whose places the lower `meant` bits count."""

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        lanes = [lane & np.uint64((1 << meant) - 1) for lane in unpack(masks[0], 2, width)]
        return (pack([everything_if(lane, 16) for lane in lanes], 16),)

    return opcode.operation(
        ("b32",),
        (opcode.types[1].operand if width == 4 else "b16",),
        lambda a: pack([widen(code) for code in unpack(a, 2, width)], 16),
        undefined,
        _rules(opcode),
        BLACKWELL_FAMILIES,
    )


def to_scales(opcode: Opcode) -> Operation:
    """`cvt.rz` or `.rp` to a pair of powers of two, from f32 or bf16x2."""
    opcode.permit("rz", "rp", "satfinite")
    up, saturates = opcode.choose("rz", "rp") == "rp", "satfinite" in opcode.flags
    source = opcode.types[1]
    binary = BINARY32 if source.name == "f32" else BFLOAT16

    def convert(codes: Bits) -> Bits:
        size = magnitude(codes, binary)
        exponent = size >> np.uint64(binary.fraction_bits)
        if up:
            between = (size & np.uint64(binary.smallest_normal - 1) != 0) & (size < binary.infinity)
            exponent = exponent + to_bits(between & (size > np.uint64(binary.smallest_normal >> 1)))
        nan = is_nan(codes, binary)
        largest = np.uint64(0xFE if saturates else 0xFF)
        return np.where(nan, np.uint64(0xFF), np.minimum(exponent, largest))

    return _from_pair(opcode, convert, source.name)


def from_scales(opcode: Opcode) -> Operation:
    """`cvt.rn.bf16x2.ue8m0x2`: exact; 2^-127 is a subnormal bf16."""
    opcode.permit("rn")
    opcode.choose("rn")

    def widen(codes: Bits) -> Bits:
        shifted = codes << np.uint64(BFLOAT16.fraction_bits)
        number = pick(codes == 0, np.uint64(BFLOAT16.smallest_normal >> 1), shifted)
        return np.where(codes == 0xFF, np.uint64(BFLOAT16.nan), number)

    return _to_pair(opcode, widen, 8, 8)
