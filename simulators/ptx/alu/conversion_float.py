"""cvt between floating-point formats, and between them and integers (PTX ISA, "cvt").

Example: `cvt.rni.s32.f32` of 2.5 is 2 (nearest even), `cvt.rzi.u8.f32` of 300 is 255, for out-of-range values saturate.
`cvt.rn.bf16x2.f32 d, a, b` puts the conversion of *a* into the upper half.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.alu.assumption import (
    DOUBLE_NAN_NARROWED,
    FLUSH_TINY,
    FTZ_NAN,
    INTEGER_NAN,
    INTEGRAL_NAN,
    NARROW_NAN,
    SATURATED_ZERO,
    SHIFTED_NAN,
    TF32_NAN,
    WIDE_NAN,
    Assumption,
)
from tileproof.simulators.ptx.alu.bitfield import bit_length
from tileproof.simulators.ptx.alu.definedness import everything_if, whole
from tileproof.simulators.ptx.alu.floating import clamp_negative, clamp_to_unit
from tileproof.simulators.ptx.alu.ieee import (
    BINARIES,
    BINARY32,
    BINARY64,
    Binary,
    Doubles,
    Rounding,
    decode,
    encode,
    flush_subnormals,
    flush_tiny,
    is_nan,
    magnitude,
    quiet,
    round_integral,
)
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.requirement import ALWAYS, BLACKWELL
from tileproof.simulators.ptx.alu.scalar import (
    Bits,
    Flags,
    Scalar,
    extend,
    pack,
    shift_left,
    shift_right,
    to_bits,
    truncate,
)

_ROUNDINGS = ("rn", "rz", "rm", "rp")
_INTEGRAL = ("rni", "rzi", "rmi", "rpi")


def _integral_rounding(opcode: Opcode) -> Rounding:
    return Rounding(opcode.choose(*_INTEGRAL).removesuffix("i"))


def _to_integral(values: Doubles, rounding: Rounding) -> Doubles:
    negative = np.signbit(values)
    return np.copysign(round_integral(np.abs(values), rounding, negative), values)


def float_to_integer(opcode: Opcode, result: Scalar, source: Scalar) -> Operation:
    """`cvt.rzi.s32.f32` and its like: round to an integer, saturate at the ends of the result type."""
    if source.name == "tf32":
        raise opcode.refuse("tf32 is converted from f32 only")
    opcode.permit(*_INTEGRAL, "sat", *(["ftz"] if source.name == "f32" else []))
    rounding, binary = _integral_rounding(opcode), BINARIES[source.name]
    nan_result = 1 << (result.bits - 1) if source.name == "f64" or result.bits == 64 else 0
    bits = result.bits - result.signed
    largest, smallest = (1 << bits) - 1, -(1 << bits) if result.signed else 0

    def convert(a: Bits) -> Bits:
        codes = flush_subnormals(a, binary) if "ftz" in opcode.flags else a
        values = _to_integral(decode(codes, binary), rounding)
        # 2**bits and -2**bits are exact in float64, so "in range" is decided exactly; only such values are cast.
        inside = np.where((values >= smallest) & (values < 2.0**bits), values, 0.0)
        whole_part = np.where(inside < 0, inside.astype(np.int64).view(np.uint64), np.abs(inside).astype(np.uint64))
        clamped = np.where(values >= 2.0**bits, np.uint64(largest), whole_part)
        clamped = np.where(values < smallest, np.uint64(smallest & result.mask), clamped)
        return truncate(np.where(is_nan(a, binary), np.uint64(nan_result), clamped), result.bits)

    return opcode.operation((result.name,), (source.name,), _quietly(convert), whole(result.bits), (INTEGER_NAN,))


def _quietly(function: Callable[..., Bits]) -> Callable[..., Bits]:
    """The function without numpy's warnings about IEEE exceptions, which PTX does not report."""

    def quiet(*operands: Bits) -> Bits:
        with np.errstate(all="ignore"):
            return function(*operands)

    return quiet


def integer_to_float(opcode: Opcode, result: Scalar, source: Scalar) -> Operation:
    """`cvt.rn.f32.s32` and its like."""
    if result.name == "tf32":
        raise opcode.refuse("tf32 is converted from f32 only")
    opcode.permit(*_ROUNDINGS, "sat", *(["ftz"] if result.name == "f32" else []))
    rounding, binary = Rounding(opcode.choose(*_ROUNDINGS)), BINARIES[result.name]

    def convert(a: Bits) -> Bits:
        value = extend(a, source)
        negative = (value >> np.uint64(63) != 0) & source.signed
        codes = _encode_integer(np.where(negative, np.uint64(0) - value, value), negative, binary, rounding)
        return clamp_to_unit(codes, binary) if "sat" in opcode.flags else codes

    return opcode.operation((result.name,), (source.name,), _quietly(convert), whole(result.bits))


def _encode_integer(size: Bits, negative: Flags, binary: Binary, rounding: Rounding) -> Bits:
    """An unsigned integer and its sign, rounded once."""
    excess = np.maximum(bit_length(size), 53) - np.uint64(53)
    kept = shift_right(size, excess)
    rest = size ^ shift_left(kept, excess)
    if binary is BINARY64:
        return _signed_double(kept + _carry(kept, rest, excess, negative, rounding), excess, negative).view(np.uint64)
    return encode(_signed_double(kept | (rest != 0), excess, negative), binary, rounding)  # rounded to odd, see `ieee`


def _signed_double(significand: Bits, exponent: Bits, negative: Flags) -> Doubles:
    values = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
    return np.where(negative, -values, values)


def _carry(kept: Bits, rest: Bits, excess: Bits, negative: Flags, rounding: Rounding) -> Bits:
    """1 where cutting `rest` off, `excess` bits wide, has to be made up for."""
    if rounding is Rounding.NEAREST_EVEN:
        twice = rest << np.uint64(1)  # rest has at most 11 bits
        unit = shift_left(np.ones_like(rest), excess)
        return to_bits((twice > unit) | ((twice == unit) & (kept & np.uint64(1) != 0)))
    away = {Rounding.UP: ~negative, Rounding.DOWN: negative}.get(rounding, np.zeros_like(negative))
    return to_bits(away & (rest != 0))


def float_to_float(opcode: Opcode, result: Scalar, source: Scalar) -> Operation:
    """Widening, narrowing, and rounding to an integral value in the same format."""
    if source.name == "tf32" or (result.name == "tf32" and source.name != "f32"):
        raise opcode.refuse("tf32 is converted from f32 only")
    if result.name == source.name:
        return _same_format(opcode, result)
    binary, from_binary = BINARIES[result.name], BINARIES[source.name]
    widens = from_binary.exponent_bits <= binary.exponent_bits and from_binary.fraction_bits <= binary.fraction_bits
    narrow_flags = ("relu", "satfinite") if source.name == "f32" and result.name != "f64" else ()
    roundings = (*_ROUNDINGS, *(["rna"] if result.name == "tf32" else []))
    opcode.permit(*roundings, *narrow_flags, *(["sat"] if result.name != "tf32" else []), *_ftz(result, source))
    if widens:
        opcode.choose(*roundings, default="rn")  # exact: a rounding changes nothing, but two exclude each other
        convert, nan = _widening(result, source)
        assumptions: tuple[Assumption, ...] = (nan,)
    else:
        rounding = Rounding(opcode.choose(*roundings))
        convert, assumptions = _narrowing(opcode, result, source, rounding)
    function = _finished(opcode, convert, result, source)
    assumptions += (FTZ_NAN,) if "ftz" in opcode.flags else ()
    assumptions += (SATURATED_ZERO,) if opcode.flags & {"sat", "relu"} else ()
    late = result.name == "tf32" and "satfinite" in opcode.flags and "rna" not in opcode.flags
    requires = BLACKWELL if late else ALWAYS
    return opcode.operation((result.operand,), (source.name,), function, whole(result.bits), assumptions, requires)


def _ftz(result: Scalar, source: Scalar) -> tuple[str, ...]:
    return ("ftz",) if "f32" in (result.name, source.name) else ()


def _narrowing(
    opcode: Opcode, result: Scalar, source: Scalar, rounding: Rounding
) -> tuple[Callable[[Bits], Bits], tuple[Assumption, ...]]:
    """A rounding conversion and the rules for its NaN and for tiny results."""
    binary, from_binary = BINARIES[result.name], BINARIES[source.name]
    flush = "ftz" in opcode.flags and result.name == "f32"

    def convert(a: Bits) -> Bits:
        values = decode(a, from_binary)
        codes = encode(flush_tiny(values, binary, rounding) if flush else values, binary, rounding)
        if from_binary is BINARY64:
            return np.where(is_nan(a, from_binary), _cut_payload(a, binary), codes)
        if rounding is Rounding.NEAREST_AWAY:
            return np.where(is_nan(a, from_binary), a >> np.uint64(32 - binary.bits), codes)
        return codes

    nan = TF32_NAN if result.name == "tf32" else DOUBLE_NAN_NARROWED if from_binary is BINARY64 else NARROW_NAN
    return convert, (nan, FLUSH_TINY) if flush else (nan,)


def _cut_payload(doubles: Bits, binary: Binary) -> Bits:
    """A binary64 NaN in a narrower format: its sign, the upper bits of its payload, the quiet bit."""
    sign = (doubles >> np.uint64(64 - binary.bits)) & np.uint64(binary.sign)
    payload = truncate(doubles >> np.uint64(BINARY64.fraction_bits - binary.fraction_bits), binary.fraction_bits)
    return quiet(sign | payload | np.uint64(binary.infinity), binary)


def _widening(result: Scalar, source: Scalar) -> tuple[Callable[[Bits], Bits], Assumption]:
    """An exact conversion and the rule for its NaN."""
    binary, from_binary = BINARIES[result.name], BINARIES[source.name]
    if (result.name, source.name) == ("f32", "bf16"):
        return (lambda a: a << np.uint64(16)), SHIFTED_NAN
    if binary is not BINARY64:
        return (lambda a: encode(decode(a, from_binary), binary, Rounding.NEAREST_EVEN)), NARROW_NAN
    return (lambda a: _with_payload(a, from_binary, decode(a, from_binary).view(np.uint64))), WIDE_NAN


def _with_payload(codes: Bits, binary: Binary, doubles: Bits) -> Bits:
    """The binary64 codes, where NaN with sign and payload of the narrower codes and the quiet bit set."""
    sign = shift_left(codes & np.uint64(binary.sign), np.full_like(codes, 64 - binary.bits))
    fraction = codes & np.uint64(binary.smallest_normal - 1)
    payload = fraction << np.uint64(BINARY64.fraction_bits - binary.fraction_bits)
    quiet = np.uint64(BINARY64.infinity | 1 << (BINARY64.fraction_bits - 1))
    return np.where(is_nan(codes, binary), sign | payload | quiet, doubles)


def _finished(opcode: Opcode, convert: Callable[[Bits], Bits], result: Scalar, source: Scalar) -> Callable[..., Bits]:
    """The conversion with .ftz before and after and the range modifiers after."""
    binary, from_binary = BINARIES[result.name], BINARIES[source.name]
    ftz, sat, relu, satfinite, away = (flag in opcode.flags for flag in ("ftz", "sat", "relu", "satfinite", "rna"))
    flush_source = ftz and from_binary is BINARY32 and result.name != "f16"
    flush_result = ftz and binary is BINARY32 and from_binary is not BINARY64

    def finished(a: Bits) -> Bits:
        codes = convert(_flush(a, from_binary) if flush_source else a)
        codes = _flush(codes, binary) if flush_result else codes
        codes = clamp_to_unit(codes, binary) if sat else codes
        codes = _clamp_to_finite(codes, binary, nan_too=away) if satfinite else codes
        codes = clamp_negative(codes, binary) if relu else codes
        return codes << np.uint64(32 - binary.bits) if result.name == "tf32" else codes

    return _quietly(finished)


def _flush(codes: Bits, binary: Binary) -> Bits:
    """`.ftz` of cvt: subnormal numbers to zero, and NaN to the canonical one (`assumption.FTZ_NAN`)."""
    return np.where(is_nan(codes, binary), np.uint64(binary.nan), flush_subnormals(codes, binary))


def _clamp_to_finite(codes: Bits, binary: Binary, *, nan_too: bool) -> Bits:
    """Infinity one code down; of `cvt.rna.satfinite.tf32` also NaN, for so its assembled code does."""
    size = magnitude(codes, binary)
    return np.where(size >= binary.infinity if nan_too else size == binary.infinity, codes - np.uint64(1), codes)


def _same_format(opcode: Opcode, scalar: Scalar) -> Operation:
    opcode.permit(*_INTEGRAL, "sat", *_ftz(scalar, scalar))
    binary = BINARIES[scalar.name]
    types = (scalar.name,), (scalar.name,)
    assumptions: tuple[Assumption, ...] = (SATURATED_ZERO,) if "sat" in opcode.flags else ()
    if not opcode.flags & set(_INTEGRAL):
        if scalar.bits == 16:
            assumptions += (NARROW_NAN,)
        elif "ftz" in opcode.flags:
            assumptions += (FTZ_NAN,)
        function = _finished(opcode, lambda a: _canonical(a, scalar), scalar, scalar)
        return opcode.operation(*types, function, whole(scalar.bits), assumptions)
    rounding = _integral_rounding(opcode)

    def convert(a: Bits) -> Bits:
        values = _to_integral(decode(a, binary), rounding)
        if binary is BINARY64:
            return _with_payload(a, binary, values.view(np.uint64))
        return encode(values, binary, Rounding.NEAREST_EVEN)  # exact

    function = _finished(opcode, convert, scalar, scalar)
    return opcode.operation(*types, function, whole(scalar.bits), (INTEGRAL_NAN, *assumptions))


def _canonical(codes: Bits, scalar: Scalar) -> Bits:
    """A copy; of 16-bit formats with the canonical NaN."""
    binary = BINARIES[scalar.name]
    return np.where(is_nan(codes, binary), np.uint64(binary.nan), codes) if scalar.bits == 16 else codes


def pair_to_packed(opcode: Opcode) -> Operation:
    """`cvt.rn.f16x2.f32 d, a, b` and bf16x2: a to the upper half, b to the lower."""
    opcode.permit("rn", "rz", "relu", "satfinite")
    half, single = opcode.types[0].lane, opcode.types[1]
    binary, rounding = BINARIES[half.name], Rounding(opcode.choose("rn", "rz"))
    convert = _finished(opcode, lambda a: encode(decode(a, BINARY32), binary, rounding), half, single)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (pack([everything_if(masks[1], 16), everything_if(masks[0], 16)], 16),)

    assumptions = (NARROW_NAN, SATURATED_ZERO) if "relu" in opcode.flags else (NARROW_NAN,)
    return opcode.operation(
        (opcode.types[0].operand,),
        ("f32", "f32"),
        lambda a, b: pack([convert(b), convert(a)], 16),
        undefined,
        assumptions,
    )
