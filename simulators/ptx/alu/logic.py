"""Bitwise logic: and, or, xor, not, cnot, lop3 (PTX ISA, "Logic and Shift Instructions")."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tileproof.simulators.ptx.alu.definedness import everything_if
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, to_bits

_TYPES = ("pred", "b16", "b32", "b64")


def and_undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
    """A defined 0 decides."""
    (a, b), (ua, ub) = values, masks
    return ((ua | ub) & (a | ua) & (b | ub),)


def or_undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
    """A defined 1 decides."""
    (a, b), (ua, ub) = values, masks
    return ((ua | ub) & (~a | ua) & (~b | ub),)


def xor_undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
    """Nothing decides."""
    return (masks[0] | masks[1],)


BOOLEAN: dict[str, Callable[[Bits, Bits], Bits]] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
BOOLEAN_UNDEFINED = {"and": and_undefined, "or": or_undefined, "xor": xor_undefined}


def _binary(opcode: Opcode) -> Operation:
    opcode.permit()
    name = opcode.scalar(_TYPES).name
    return opcode.operation((name,), (name, name), BOOLEAN[opcode.mnemonic], BOOLEAN_UNDEFINED[opcode.mnemonic])


def _not(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_TYPES)
    ones = np.uint64(scalar.mask)
    return opcode.operation((scalar.name,), (scalar.name,), lambda a: a ^ ones, lambda values, masks: (masks[0],))


def _cnot(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_TYPES[1:])

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        known_one = (values[0] & ~masks[0]) != 0
        return (to_bits((masks[0] != 0) & ~known_one),)

    return opcode.operation((scalar.name,), (scalar.name,), lambda a: to_bits(a == 0), undefined)


def _minterms(a: tuple[Bits, Bits], b: tuple[Bits, Bits], c: tuple[Bits, Bits], table: Bits) -> Bits:
    """Or of those of the eight products of literals whose bit is set in the table.

    Args:
        a: where the operand's bit is, or may be, 0 and 1; so are b and c.
        table: one 8-bit truth table for each value; bit 4a + 2b + c is the result.
    """
    result = np.zeros_like(table)
    for index in range(8):
        chosen = np.uint64(0) - ((table >> np.uint64(index)) & np.uint64(1))
        result = result | (chosen & a[index >> 2] & b[index >> 1 & 1] & c[index & 1])
    return result & np.uint64(0xFFFFFFFF)


def lop3(a: Bits, b: Bits, c: Bits, table: Bits) -> Bits:
    """Any logical function of three operands: bit 4a + 2b + c of the table (PTX ISA, lop3)."""
    return _minterms((~a, a), (~b, b), (~c, c), table)


def _lop3_undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
    a, b, c = ((~value | mask, value | mask) for value, mask in zip(values[:3], masks[:3], strict=True))
    table = values[3]
    # Undefined is a result bit that both a 0 and a 1 of the table can reach.
    reachable = _minterms(a, b, c, table) & _minterms(a, b, c, table ^ np.uint64(0xFF))
    return (reachable | everything_if(masks[3], 32),)


def _lop3(opcode: Opcode) -> Operation:
    opcode.permit("and", "or")
    opcode.scalar(("b32",))
    combined = opcode.choose("and", "or", default="none")
    if combined != "none":
        return _lop3_tested(opcode, combined)
    plain = opcode.operation(("b32",), ("b32", "b32", "b32", "u32"), lop3, _lop3_undefined)
    return replace(plain, immediates=(3,))


def _lop3_tested(opcode: Opcode, combined: str) -> Operation:
    """`lop3.or.b32 d|p, a, b, c, table, q`: p is whether d is not zero, or (and) q."""
    combine, combine_undefined = BOOLEAN[combined], BOOLEAN_UNDEFINED[combined]

    def compute(values: Sequence[Bits]) -> tuple[Bits, ...]:
        result = lop3(*values[:4])
        return result, combine(to_bits(result != 0), values[4])

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        (mask,) = _lop3_undefined(values[:4], masks[:4])
        result = lop3(*values[:4])
        unknown = to_bits((mask != 0) & (result & ~mask == 0))  # a defined 1 decides the test
        (tested,) = combine_undefined((to_bits(result != 0), values[4]), (unknown, masks[4]))
        return mask, tested & np.uint64(1)

    sources = ("b32", "b32", "b32", "u32", "pred")
    return Operation(opcode.name, ("b32", "pred"), sources, compute, undefined, immediates=(3,))


FAMILIES = {"and": _binary, "or": _binary, "xor": _binary, "not": _not, "cnot": _cnot, "lop3": _lop3}
