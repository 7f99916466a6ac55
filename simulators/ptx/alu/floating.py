"""Floating-point arithmetic (PTX ISA, "Floating-Point Instructions", "Half Precision Floating-Point Instructions").

f32 and f64 to nearest are numpy's own operations, which are IEEE 754's. Everything else on 16 and 32 bits computes an
exact or odd-rounded float64 and rounds that once (module `ieee`); f64 beyond that is done in fractions (`exact`).

Why float64 is enough for 24-bit significands (f32; f16 and bf16 have fewer):

* a product has 48 bits and lies between 2^-298 and 2^256: exact;
* a sum, or a sum of a product and a number, is rounded to odd from its exact error (`ieee.add_to_odd`);
* a quotient a/b of significands A, B differs from any 25-bit number M (representable numbers and midpoints) by at least
  1/(B·M) of itself, more than 2^-50, unless it equals it; rounding it to float64, an error of 2^-53, crosses nothing;
* a square root differs from any 25-bit M by at least 1/(2·M^2) of itself, more than 2^-52, unless it equals it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.alu import exact
from tileproof.simulators.ptx.alu.approximate import approximate
from tileproof.simulators.ptx.alu.assumption import (
    COPYSIGN_PAYLOAD,
    DOUBLE_NAN,
    FLUSH_TINY,
    SATURATED_ZERO,
    SIGN_CHANGE_NAN,
    XORSIGN,
    Assumption,
)
from tileproof.simulators.ptx.alu.definedness import whole, whole_by_lane
from tileproof.simulators.ptx.alu.ieee import (
    BINARIES,
    BINARY32,
    BINARY64,
    Binary,
    Doubles,
    Rounding,
    add_to_odd,
    decode,
    encode,
    flush_subnormals,
    flush_tiny,
    in_order,
    is_nan,
    magnitude,
    quiet,
)
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.requirement import ALWAYS, BLACKWELL
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, by_lane

_HALF = ("f16", "f16x2", "bf16", "bf16x2")
_ALL = ("f32", "f64", "f32x2", *_HALF)
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_FLUSHABLE = ("f32", "f16", "f16x2")
_LONE = tuple(name for name in _ALL if name != "f32x2")


def _fused(a: Doubles, b: Doubles, c: Doubles, rounding: Rounding) -> Doubles:
    return add_to_odd(a * b, c, rounding)


def _subtract(a: Doubles, b: Doubles, rounding: Rounding) -> Doubles:
    return add_to_odd(a, -b, rounding)


# By name of the arithmetic: for operands of at most 24 bits, exact or rounded to odd, or the harmless cases above.
_NARROW: dict[str, Callable[..., Doubles]] = {
    "add": add_to_odd,
    "sub": _subtract,
    "mul": lambda a, b, rounding: a * b,
    "fma": _fused,
    "div": lambda a, b, rounding: a / b,
    "rcp": lambda a, rounding: 1.0 / a,
    "sqrt": lambda a, rounding: np.sqrt(a),
}
_EXACT: dict[str, Callable[..., Doubles]] = {
    "add": exact.add,
    "sub": lambda a, b, rounding: exact.add(a, -b, rounding),
    "mul": exact.multiply,
    "fma": exact.fused,
}
# What numpy computes right for f32 and f64 itself, to nearest.
_NATIVE: dict[str, Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.floating]]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda a: np.divide(a.dtype.type(1), a),
    "sqrt": np.sqrt,
}
_SOURCES = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}


# Of several NaN operands of f64 the first of this order goes into the result; else the last.
_NAN_ORDER = {"div": (0, 1), "fma": (1, 2, 0)}


def _propagated(operands: Sequence[Bits], order: Sequence[int], result: Bits) -> Bits:
    """The result of f64 arithmetic; where operands are NaN, one of them, made quiet (`assumption.DOUBLE_NAN`)."""
    for operand in (operands[position] for position in reversed(order)):
        result = np.where(is_nan(operand, BINARY64), quiet(operand, BINARY64), result)
    return result


def _arithmetic(arithmetic: str, binary: Binary, rounding: Rounding, *, flush: bool) -> Callable[..., Bits]:
    """One rounded operation on codes of a format; tiny exact results flushed before they are rounded, if asked for."""
    if rounding is Rounding.NEAREST_EVEN and arithmetic in _NATIVE and binary.bits >= 32 and not flush:
        native = _NATIVE[arithmetic]
        float_type, code_type = (np.float32, np.uint32) if binary.bits == 32 else (np.float64, np.uint64)

        def nearest(*operands: Bits) -> Bits:
            result = native(*(operand.astype(code_type).view(float_type) for operand in operands))
            return np.where(np.isnan(result), np.uint64(binary.nan), result.view(code_type))

        return nearest
    if binary is BINARY64:
        rational = _EXACT[arithmetic]

        def in_fractions(*operands: Bits) -> Bits:
            result = rational(*(decode(operand, binary) for operand in operands), rounding)
            return np.where(np.isnan(result), np.uint64(binary.nan), result.view(np.uint64))

        return in_fractions
    function = _NARROW[arithmetic]

    def narrow(*operands: Bits) -> Bits:
        result = function(*(decode(operand, binary) for operand in operands), rounding)
        return encode(flush_tiny(result, binary, rounding) if flush else result, binary, rounding)

    return narrow


def clamp_to_unit(codes: Bits, binary: Binary) -> Bits:
    """`.sat`: to [0, 1], NaN to +0."""
    negative = codes & np.uint64(binary.sign) != 0
    return np.where(negative | is_nan(codes, binary), np.uint64(0), np.minimum(codes, np.uint64(binary.one)))


def clamp_negative(codes: Bits, binary: Binary) -> Bits:
    """`.relu`: negative numbers and -0 to +0, NaN to the canonical NaN."""
    positive = np.where(codes & np.uint64(binary.sign) != 0, np.uint64(0), codes)
    return np.where(is_nan(codes, binary), np.uint64(binary.nan), positive)


def _modified(opcode: Opcode, binary: Binary, function: Callable[..., Bits]) -> Callable[..., Bits]:
    """The function with the opcode's .ftz, .sat and .relu around it, quiet about IEEE exceptions."""
    flush, saturate, relu = (flag in opcode.flags for flag in ("ftz", "sat", "relu"))

    def modified(*operands: Bits) -> Bits:
        with np.errstate(all="ignore"):
            if flush:
                operands = tuple(flush_subnormals(operand, binary) for operand in operands)
            result = function(*operands)
            result = clamp_to_unit(result, binary) if saturate else result
            return clamp_negative(result, binary) if relu else result

    return modified


def _assumptions(opcode: Opcode, scalar: Scalar, *, rounds: bool) -> tuple[Assumption, ...]:
    candidates = [
        (DOUBLE_NAN, scalar.name == "f64"),
        (FLUSH_TINY, rounds and "ftz" in opcode.flags),
        (SATURATED_ZERO, bool(opcode.flags & {"sat", "relu"})),
    ]
    return tuple(assumption for assumption, holds in candidates if holds)


def _rounded(opcode: Opcode, arithmetic: str, scalar: Scalar, rounding: Rounding) -> Operation:
    """The operation for one correctly rounded arithmetic."""
    binary = BINARIES[scalar.lane.name]
    if binary is BINARY64 and rounding is not Rounding.NEAREST_EVEN and arithmetic not in _EXACT:
        raise opcode.refuse(f"only .rn of {arithmetic}.f64 is covered")
    plain = _arithmetic(arithmetic, binary, rounding, flush="ftz" in opcode.flags)
    if binary is BINARY64:
        order = _NAN_ORDER.get(arithmetic, range(_SOURCES[arithmetic])[::-1])
        function = _modified(opcode, binary, lambda *operands: _propagated(operands, order, plain(*operands)))
    else:
        function = _modified(opcode, binary, plain)
    return opcode.operation(
        (scalar.operand,),
        (scalar.operand,) * _SOURCES[arithmetic],
        by_lane(function, scalar),
        whole_by_lane(scalar),
        _assumptions(opcode, scalar, rounds=True),
        BLACKWELL if scalar.name == "f32x2" else ALWAYS,
    )


def _permit_range(opcode: Opcode, scalar: Scalar, *more: str) -> None:
    """Refuse flags that the type does not take: .ftz and .sat are for f32 and f16, rounding modes for f32 and f64."""
    flushable = ("ftz", "sat") if scalar.name in _FLUSHABLE else ("ftz",) if scalar.name == "f32x2" else ()
    roundings = ("rn",) if scalar.name in _HALF else _ROUNDINGS
    opcode.permit(*roundings, *flushable, *more)


def _add_sub_mul(opcode: Opcode) -> Operation:
    if len(opcode.types) == 2 and opcode.mnemonic != "mul":
        return _mixed(opcode, opcode.mnemonic, _SOURCES[opcode.mnemonic] - 1)
    scalar = opcode.scalar(_ALL)
    _permit_range(opcode, scalar)
    return _rounded(opcode, opcode.mnemonic, scalar, Rounding(opcode.choose(*_ROUNDINGS, default="rn")))


def _mixed(opcode: Opcode, arithmetic: str, narrow: int) -> Operation:
    """`add.f32.bf16 d, a, c` and its like: the first `narrow` operands are f16 or bf16, the last and the result f32.

    Source: PTX ISA, "Mixed Precision Floating-Point Instructions". The narrow operands are exact in f32.
    """
    result, source = opcode.types
    if result.name != "f32" or source.name not in ("f16", "bf16"):
        raise opcode.refuse("it mixes .f32 with .f16 or .bf16")
    opcode.permit(*_ROUNDINGS, "sat")
    rounding = Rounding(opcode.choose(*_ROUNDINGS, default="" if arithmetic == "fma" else "rn"))
    plain = _arithmetic(arithmetic, BINARY32, rounding, flush=False)
    binary = BINARIES[source.name]

    def widened(*operands: Bits) -> Bits:
        wide = [encode(decode(operand, binary), BINARY32, Rounding.NEAREST_EVEN) for operand in operands[:narrow]]
        return plain(*wide, *operands[narrow:])

    return opcode.operation(
        ("f32",),
        (source.name,) * narrow + ("f32",),
        _modified(opcode, BINARY32, widened),
        whole(32),
        _assumptions(opcode, result, rounds=True),
        BLACKWELL,
    )


def _fma(opcode: Opcode) -> Operation:
    if "oob" in opcode.flags:
        raise opcode.refuse(".oob, whose result for out-of-bounds values is not modelled")
    if len(opcode.types) == 2 and opcode.mnemonic == "fma":
        return _mixed(opcode, "fma", 2)
    scalar = opcode.scalar(_ALL if opcode.mnemonic == "fma" else ("f32", "f64"))
    _permit_range(opcode, scalar, *(["relu"] if scalar.name in _HALF else []))
    return _rounded(opcode, "fma", scalar, Rounding(opcode.choose(*_ROUNDINGS)))


def _div_rcp_sqrt(opcode: Opcode) -> Operation:
    if opcode.flags & {"approx", "full"}:
        return approximate(opcode)
    scalar = opcode.scalar(("f32", "f64"))
    opcode.permit(*_ROUNDINGS, *(["ftz"] if scalar.name == "f32" else []))
    return _rounded(opcode, opcode.mnemonic, scalar, Rounding(opcode.choose(*_ROUNDINGS)))


def _neg_abs(opcode: Opcode) -> Operation:
    scalar = opcode.scalar(_LONE)
    opcode.permit(*(["ftz"] if scalar.name in _FLUSHABLE else []))
    binary = BINARIES[scalar.lane.name]
    sign = np.uint64(binary.sign)
    negates = opcode.mnemonic == "neg"

    def change(a: Bits) -> Bits:
        nan = quiet(a, binary) if binary is BINARY64 else np.uint64(binary.nan)
        return np.where(is_nan(a, binary), nan, a ^ sign if negates else a & ~sign)

    return opcode.operation(
        (scalar.operand,),
        (scalar.operand,),
        by_lane(_modified(opcode, binary, change), scalar),
        whole_by_lane(scalar),
        (SIGN_CHANGE_NAN,),
    )


def _min_max(opcode: Opcode) -> Operation:
    scalar = opcode.scalar(_LONE)
    flushable = ("ftz",) if scalar.name in _FLUSHABLE else ()
    opcode.permit(*flushable, *(["NaN", "xorsign", "abs"] if scalar.name != "f64" else []))
    if ("xorsign" in opcode.flags) != ("abs" in opcode.flags):
        raise opcode.refuse(".xorsign and .abs of two operands belong together")
    binary = BINARIES[scalar.lane.name]
    choose = _chooser(opcode, binary)
    if "xorsign" in opcode.flags:
        choose = _signed_apart(choose, binary)
    return opcode.operation(
        (scalar.operand,),
        (scalar.operand,) * 2,
        by_lane(_modified(opcode, binary, choose), scalar),
        whole_by_lane(scalar),
        (*_assumptions(opcode, scalar, rounds=False), *([XORSIGN] if "xorsign" in opcode.flags else [])),
    )


def three_way(opcode: Opcode) -> Operation:
    """`min.f32 d, a, b, c`, and max, with `.abs` of the magnitudes (PTX ISA, "min": three inputs)."""
    opcode.permit("ftz", "NaN", "abs")
    opcode.scalar(("f32",))
    choose, magnitudes = _chooser(opcode, BINARY32), "abs" in opcode.flags

    def least(*operands: Bits) -> Bits:
        a, b, c = (magnitude(operand, BINARY32) for operand in operands) if magnitudes else operands
        return choose(choose(a, b), c)

    function = _modified(opcode, BINARY32, least)
    return opcode.operation(("f32",), ("f32",) * 3, function, whole(32), (), BLACKWELL)


def _signed_apart(choose: Callable[..., Bits], binary: Binary) -> Callable[..., Bits]:
    """`.xorsign.abs`: the choice among magnitudes, with the exclusive or of the signs (`assumption.XORSIGN`)."""
    sign = np.uint64(binary.sign)

    def chosen(a: Bits, b: Bits) -> Bits:
        size = choose(a & ~sign, b & ~sign)
        return np.where(is_nan(size, binary), size, size & ~sign | (a ^ b) & sign)

    return chosen


def _chooser(opcode: Opcode, binary: Binary) -> Callable[..., Bits]:
    """The smaller or larger of two codes; what a NaN does is the opcode's."""
    smallest, propagate = opcode.mnemonic == "min", "NaN" in opcode.flags

    def choose(a: Bits, b: Bits) -> Bits:
        a_nan, b_nan = is_nan(a, binary), is_nan(b, binary)
        number = np.where(in_order(a, binary) < in_order(b, binary), *((a, b) if smallest else (b, a)))
        number = np.where(a_nan, b, np.where(b_nan, a, number))  # one NaN: the other operand
        nan = quiet(b, binary) if binary is BINARY64 else np.uint64(binary.nan)
        return np.where((a_nan | b_nan) if propagate else (a_nan & b_nan), nan, number)

    return choose


def _copysign(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(("f32", "f64"))
    sign = np.uint64(BINARIES[scalar.name].sign)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return ((masks[0] & sign) | (masks[1] & ~sign),)

    return opcode.operation(
        (scalar.name,), (scalar.name,) * 2, lambda a, b: (a & sign) | (b & ~sign), undefined, (COPYSIGN_PAYLOAD,)
    )


FAMILIES = {
    **dict.fromkeys(("add", "sub", "mul"), _add_sub_mul),
    **dict.fromkeys(("fma", "mad"), _fma),
    **dict.fromkeys(("div", "rcp", "sqrt"), _div_rcp_sqrt),
    **dict.fromkeys(("neg", "abs"), _neg_abs),
    **dict.fromkeys(("min", "max"), _min_max),
    "copysign": _copysign,
}
