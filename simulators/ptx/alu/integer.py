"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions").

Worked on values modulo 2**64: for a type of n bits, add, sub and the low half of a product are the low n bits of the
64-bit result, whatever the signs; only comparisons, divisions and high halves look at the sign.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu import carry
from tileproof.simulators.ptx.alu.assumption import MINIMUM_OVERFLOW, ZERO_DIVISOR
from tileproof.simulators.ptx.alu.definedness import upward, whole, whole_by_lane
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.product import high_half
from tileproof.simulators.ptx.alu.scalar import (
    SCALARS,
    Bits,
    Flags,
    Scalar,
    as_signed,
    by_lane,
    extend,
    sign_extend,
    truncate,
)

_SIGNED = ("s16", "s32", "s64")
_PLAIN = ("u16", "u32", "u64", *_SIGNED)
_PACKED = ("u16x2", "s16x2")
_MODULAR: dict[str, Callable[[Bits, Bits], Bits]] = {"add": np.add, "sub": np.subtract}


def _add_sub(opcode: Opcode) -> Operation:
    if "cc" in opcode.flags:
        return carry.add_sub(opcode)
    opcode.permit("sat")
    scalar = opcode.scalar((*_PLAIN, *_PACKED) if opcode.mnemonic == "add" else _PLAIN)
    function = _MODULAR[opcode.mnemonic]
    types = (scalar.operand,), (scalar.operand, scalar.operand)
    if "sat" in opcode.flags:
        if scalar.name != "s32":
            raise opcode.refuse(".sat applies to .s32 only")
        return opcode.operation(
            *types, lambda a, b: _saturate(function(extend(a, scalar), extend(b, scalar))), whole(32)
        )
    lane = scalar.lane
    compute = by_lane(lambda a, b: truncate(function(a, b), lane.bits), scalar)
    return opcode.operation(*types, compute, upward(scalar.bits, lanes=scalar.lanes))


def _saturate(total: Bits) -> Bits:
    """Clamp the 64-bit sum or difference of two s32 values to s32."""
    clamped: NDArray[np.int64] = np.clip(total.view(np.int64), -(1 << 31), (1 << 31) - 1)
    return truncate(clamped.view(np.uint64), 32)


def _product(opcode: Opcode) -> tuple[Callable[[Bits, Bits], Bits], Scalar, Scalar]:
    """The product function of mul and mad, the operand type and the result type."""
    opcode.permit("lo", "hi", "wide")
    scalar = opcode.scalar(_PLAIN)
    match opcode.choose("lo", "hi", "wide"):
        case "lo":
            return (lambda a, b: truncate(a * b, scalar.bits)), scalar, scalar
        case "hi":
            return (lambda a, b: high_half(a, b, scalar)), scalar, scalar
    if scalar.bits == 64:
        raise opcode.refuse(".wide takes 16 and 32 bits")
    result = SCALARS[f"{scalar.name[0]}{2 * scalar.bits}"]
    return (lambda a, b: truncate(extend(a, scalar) * extend(b, scalar), result.bits)), scalar, result


def _mul(opcode: Opcode) -> Operation:
    product, scalar, result = _product(opcode)
    undefined = whole(result.bits) if "hi" in opcode.flags else upward(result.bits)
    return opcode.operation((result.name,), (scalar.name, scalar.name), product, undefined)


def _mad(opcode: Opcode) -> Operation:
    if "cc" in opcode.flags:
        return carry.mad(opcode)
    if "sat" in opcode.flags:
        return _saturating_mad(opcode)
    product, scalar, result = _product(opcode)
    undefined = whole(result.bits) if "hi" in opcode.flags else upward(result.bits)
    sources = (scalar.name, scalar.name, result.name)
    return opcode.operation(
        (result.name,), sources, lambda a, b, c: truncate(product(a, b) + c, result.bits), undefined
    )


def _saturating_mad(opcode: Opcode) -> Operation:
    """`mad.hi.sat.s32` clamps its sum; no other mad does (PTX ISA, "mad")."""
    opcode.permit("hi", "sat")
    scalar = opcode.scalar(("s32",))
    opcode.choose("hi")
    return _clamping_mad(opcode, lambda a, b: high_half(a, b, scalar))


def _clamping_mad(opcode: Opcode, product: Callable[[Bits, Bits], Bits]) -> Operation:
    def compute(a: Bits, b: Bits, c: Bits) -> Bits:
        return _saturate(sign_extend(product(a, b), 32) + sign_extend(c, 32))

    return opcode.operation(("s32",), ("s32",) * 3, compute, whole(32))


def _product24(opcode: Opcode) -> tuple[Callable[[Bits, Bits], Bits], Scalar]:
    """The lower 32 bits, or bits 16 to 47, of the product of two 24-bit numbers (PTX ISA, "mul24")."""
    scalar = opcode.scalar(("u32", "s32"))
    shift = np.uint64(16 if opcode.choose("lo", "hi") == "hi" else 0)

    def read(a: Bits) -> Bits:
        return sign_extend(a, 24) if scalar.signed else truncate(a, 24)

    return (lambda a, b: truncate((read(a) * read(b)) >> shift, 32)), scalar


def _mul24(opcode: Opcode) -> Operation:
    opcode.permit("lo", "hi")
    product, scalar = _product24(opcode)
    return opcode.operation((scalar.name,), (scalar.name,) * 2, product, whole(32))


def _mad24(opcode: Opcode) -> Operation:
    opcode.permit("lo", "hi", "sat")
    product, scalar = _product24(opcode)
    if "sat" in opcode.flags:
        if scalar.name != "s32" or "hi" not in opcode.flags:
            raise opcode.refuse(".sat applies to .hi.s32 only")
        return _clamping_mad(opcode, product)
    return opcode.operation(
        (scalar.name,), (scalar.name,) * 3, lambda a, b, c: truncate(product(a, b) + c, 32), whole(32)
    )


def _less(a: Bits, b: Bits, scalar: Scalar) -> Flags:
    return as_signed(a, scalar.bits) < as_signed(b, scalar.bits) if scalar.signed else a < b


def _sad(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_PLAIN)

    def sum_of_difference(a: Bits, b: Bits, c: Bits) -> Bits:
        return truncate(c + np.where(_less(a, b, scalar), b - a, a - b), scalar.bits)

    return opcode.operation((scalar.name,), (scalar.name,) * 3, sum_of_difference, whole(scalar.bits))


def _absolute(values: Bits) -> Bits:
    """Magnitude of values modulo 2**64; of -2**63 it is 2**63."""
    return np.where(values >> np.uint64(63) != 0, np.uint64(0) - values, values)


def _divide(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_PLAIN)
    quotient_wanted = opcode.mnemonic == "div"

    def divide(a: Bits, b: Bits) -> Bits:
        dividend, divisor = extend(a, scalar), extend(b, scalar)
        # Truncation toward zero is floor division of magnitudes; the remainder has the sign of the dividend.
        quotient, remainder = np.divmod(_absolute(dividend) if scalar.signed else dividend, _nonzero(divisor, scalar))
        result = quotient if quotient_wanted else remainder
        if scalar.signed:
            signs = dividend ^ divisor if quotient_wanted else dividend
            result = np.where(signs >> np.uint64(63) != 0, np.uint64(0) - result, result)
        return truncate(np.where(divisor == 0, ~np.zeros_like(result), result), scalar.bits)

    assumptions = (ZERO_DIVISOR, MINIMUM_OVERFLOW) if scalar.signed else (ZERO_DIVISOR,)
    return opcode.operation((scalar.name,), (scalar.name,) * 2, divide, whole(scalar.bits), assumptions)


def _nonzero(divisor: Bits, scalar: Scalar) -> Bits:
    """Magnitude of the divisor, 1 in place of 0."""
    return np.maximum(_absolute(divisor) if scalar.signed else divisor, 1)


def _abs_neg(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_SIGNED)
    types = (scalar.name,), (scalar.name,)
    if opcode.mnemonic == "neg":
        return opcode.operation(
            *types, lambda a: truncate(np.uint64(0) - a, scalar.bits), upward(scalar.bits), (MINIMUM_OVERFLOW,)
        )
    return opcode.operation(
        *types,
        lambda a: truncate(_absolute(sign_extend(a, scalar.bits)), scalar.bits),
        whole(scalar.bits),
        (MINIMUM_OVERFLOW,),
    )


def _min_max(opcode: Opcode) -> Operation:
    opcode.permit("relu")
    scalar = opcode.scalar((*_PLAIN, *_PACKED))
    relu = "relu" in opcode.flags
    if relu and scalar.name not in ("s32", "s16x2"):
        raise opcode.refuse(".relu applies to .s32 and .s16x2 only")
    smallest = opcode.mnemonic == "min"
    lane = scalar.lane

    def choose(a: Bits, b: Bits) -> Bits:
        chosen = np.where(_less(a, b, lane) == smallest, a, b)
        return np.where(chosen >> np.uint64(lane.bits - 1) != 0, np.uint64(0), chosen) if relu else chosen

    types = (scalar.operand,), (scalar.operand, scalar.operand)
    return opcode.operation(*types, by_lane(choose, scalar), whole_by_lane(scalar))


FAMILIES = {
    **dict.fromkeys(("add", "sub"), _add_sub),
    **dict.fromkeys(("div", "rem"), _divide),
    **dict.fromkeys(("abs", "neg"), _abs_neg),
    **dict.fromkeys(("min", "max"), _min_max),
    "mul": _mul,
    "mad": _mad,
    "sad": _sad,
    "mul24": _mul24,
    "mad24": _mad24,
}
