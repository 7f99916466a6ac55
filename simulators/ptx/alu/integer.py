"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions").

Worked on values modulo 2**64: for a type of n bits, add, sub and the low half of a product are the low n bits of the
64-bit result, whatever the signs; only comparisons, divisions and high halves look at the sign.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.assumption import MINIMUM_OVERFLOW, ZERO_DIVISOR
from tileproof.simulators.ptx.alu.definedness import upward, whole, whole_by_lane
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
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


def high_product(a: Bits, b: Bits) -> Bits:
    """Bits 64 to 127 of the product of two unsigned 64-bit values, from products of 32-bit halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = a_low * b_high + (middle & low)
    high: Bits = a_high * b_high + (middle >> half) + (carry >> half)
    return high


def _high(a: Bits, b: Bits, scalar: Scalar) -> Bits:
    """The upper half of the full product."""
    if scalar.bits < 64:
        return truncate((extend(a, scalar) * extend(b, scalar)) >> np.uint64(scalar.bits), scalar.bits)
    product = high_product(a, b)
    if not scalar.signed:
        return product
    # Reading a as negative subtracts 2^64 from it, hence b from the upper half; likewise for b.
    negative_a, negative_b = a >> np.uint64(63), b >> np.uint64(63)
    corrected: Bits = product - negative_a * b - negative_b * a
    return corrected


def _product(opcode: Opcode) -> tuple[Callable[[Bits, Bits], Bits], Scalar, Scalar]:
    """The product function of mul and mad, the operand type and the result type."""
    opcode.permit("lo", "hi", "wide")
    scalar = opcode.scalar(_PLAIN)
    match opcode.choose("lo", "hi", "wide"):
        case "lo":
            return (lambda a, b: truncate(a * b, scalar.bits)), scalar, scalar
        case "hi":
            return (lambda a, b: _high(a, b, scalar)), scalar, scalar
    if scalar.bits == 64:
        raise opcode.refuse(".wide takes 16 and 32 bits")
    result = SCALARS[f"{scalar.name[0]}{2 * scalar.bits}"]
    return (lambda a, b: truncate(extend(a, scalar) * extend(b, scalar), result.bits)), scalar, result


def _mul(opcode: Opcode) -> Operation:
    product, scalar, result = _product(opcode)
    undefined = whole(result.bits) if "hi" in opcode.flags else upward(result.bits)
    return opcode.operation((result.name,), (scalar.name, scalar.name), product, undefined)


def _mad(opcode: Opcode) -> Operation:
    product, scalar, result = _product(opcode)
    undefined = whole(result.bits) if "hi" in opcode.flags else upward(result.bits)
    sources = (scalar.name, scalar.name, result.name)
    return opcode.operation(
        (result.name,), sources, lambda a, b, c: truncate(product(a, b) + c, result.bits), undefined
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
}
