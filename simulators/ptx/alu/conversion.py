"""cvt: the choice of a conversion by its two types (PTX ISA, "cvt"), and integers to integers.

Integer to integer cuts off high bits or extends by the source's sign; `.sat` clamps instead: `cvt.sat.u8.s32` of 300 is
255 and of -1 is 0. The conversions that involve floating point are in `conversion_float` and `conversion_fp8`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.alu.conversion_float import (
    float_to_float,
    float_to_integer,
    integer_to_float,
    pair_to_packed,
)
from tileproof.simulators.ptx.alu.conversion_fp8 import packed_to_fp8, pair_to_fp8, unpack_fp8
from tileproof.simulators.ptx.alu.conversion_narrow import FORMATS, from_narrow, from_scales, to_narrow, to_scales
from tileproof.simulators.ptx.alu.conversion_pack import packed
from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Kind, Scalar, extend, truncate

_INTEGERS = (Kind.UNSIGNED, Kind.SIGNED)
_FP8 = ("e4m3x2", "e5m2x2")
_HALF_PAIRS = ("f16x2", "bf16x2")


def _cvt(opcode: Opcode) -> Operation:
    if "pack" in opcode.flags:
        return packed(opcode)
    if "rs" in opcode.flags:
        raise opcode.refuse("stochastic rounding (.rs), whose use of the random bits is not published")
    if len(opcode.types) != 2:
        raise opcode.refuse(
            "it takes two types of the integers, f16, bf16, f32, f64, tf32 and their pairs, e4m3x2, e5m2x2, "
            "e2m1x2, e2m3x2, e3m2x2, ue8m0x2"
        )
    match [scalar.name for scalar in opcode.types]:
        case [result, "f32"] if result in FORMATS:
            return to_narrow(opcode)
        case ["e2m1x2", "f16x2"]:
            return to_narrow(opcode)
        case ["f16x2", source] if source in FORMATS:
            return from_narrow(opcode)
        case ["ue8m0x2", ("f32" | "bf16x2")]:
            return to_scales(opcode)
        case ["bf16x2", "ue8m0x2"]:
            return from_scales(opcode)
        case [result, "f32"] if result in _HALF_PAIRS:
            return pair_to_packed(opcode)
        case [result, "f32"] if result in _FP8:
            return pair_to_fp8(opcode)
        case [result, "f16x2"] if result in _FP8:
            return packed_to_fp8(opcode)
        case ["f16x2", source] if source in _FP8:
            return unpack_fp8(opcode)
    return _scalar_conversion(opcode, *opcode.types)


def _scalar_conversion(opcode: Opcode, result: Scalar, source: Scalar) -> Operation:
    if result.lanes > 1 or source.lanes > 1:
        raise opcode.refuse("no conversion between these types is covered")
    match result.kind, source.kind:
        case ((Kind.UNSIGNED | Kind.SIGNED), (Kind.UNSIGNED | Kind.SIGNED)):
            return _integer_to_integer(opcode, result, source)
        case ((Kind.UNSIGNED | Kind.SIGNED), Kind.FLOAT):
            return float_to_integer(opcode, result, source)
        case Kind.FLOAT, (Kind.UNSIGNED | Kind.SIGNED):
            return integer_to_float(opcode, result, source)
        case Kind.FLOAT, Kind.FLOAT:
            return float_to_float(opcode, result, source)
    raise opcode.refuse("it converts integers and floating-point numbers only")


def _integer_to_integer(opcode: Opcode, result: Scalar, source: Scalar) -> Operation:
    opcode.permit("sat")

    def convert(a: Bits) -> Bits:
        return truncate(extend(a, source), result.bits)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (convert(masks[0]),)  # an undefined sign bit makes every copy of it undefined

    types = (result.name,), (source.name,)
    if "sat" in opcode.flags:
        return opcode.operation(*types, _clamped(result, source), whole(result.bits))
    return opcode.operation(*types, convert, undefined)


def _clamped(result: Scalar, source: Scalar) -> Callable[[Bits], Bits]:
    largest = np.uint64(result.mask >> 1 if result.signed else result.mask)
    smallest = np.int64(-(1 << (result.bits - 1)) if result.signed else 0)

    def clamp(a: Bits) -> Bits:
        if not source.signed:
            return np.minimum(a, largest)
        value = extend(a, source)
        below, negative = value.view(np.int64) < smallest, value.view(np.int64) < 0
        clamped = np.where(
            negative, np.where(below, smallest, value.view(np.int64)).view(np.uint64), np.minimum(value, largest)
        )
        return truncate(clamped, result.bits)

    return clamp


FAMILIES = {"cvt": _cvt}
