"""Counting bits and moving bit fields: popc, clz, bfind, brev, bfe, bfi (PTX ISA, "Integer Arithmetic Instructions").

Positions and lengths are at most 255, and a field may reach past the top of the value: `bfe.u32` of 0xABCD1234 at 24
for 16 bits is 0xAB.
"""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.alu.assumption import FIELD_RANGE
from tileproof.simulators.ptx.alu.definedness import everything_if, whole
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, extend, low_mask, shift_left, shift_right, truncate

_BITS = ("b32", "b64")


def _position(operand: Bits, scalar: Scalar) -> Bits:
    """The bits of a position or length that count (`assumption.FIELD_RANGE`)."""
    return operand & np.uint64(0xFF) if scalar.bits == 32 else operand


def bit_length(values: Bits) -> Bits:
    """Position of the highest set bit plus one; 0 for 0."""
    for distance in (1, 2, 4, 8, 16, 32):
        values = values | (values >> np.uint64(distance))
    return np.bitwise_count(values).astype(np.uint64)


def _count(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_BITS)

    def ones(a: Bits) -> Bits:
        return np.bitwise_count(a).astype(np.uint64)

    def leading_zeros(a: Bits) -> Bits:
        return np.uint64(scalar.bits) - bit_length(a)

    function = ones if opcode.mnemonic == "popc" else leading_zeros
    return opcode.operation(("u32",), (scalar.name,), function, whole(32))


def _bfind(opcode: Opcode) -> Operation:
    opcode.permit("shiftamt")
    scalar = opcode.scalar(("u32", "u64", "s32", "s64"))

    def find(a: Bits) -> Bits:
        value = extend(a, scalar)
        if scalar.signed:  # the highest bit that differs from the sign
            value = np.where(value >> np.uint64(63) != 0, ~value, value)
        length = bit_length(value)
        found = np.uint64(scalar.bits) - length if "shiftamt" in opcode.flags else length - np.uint64(1)
        return truncate(np.where(length == 0, np.uint64(0xFFFFFFFF), found), 32)

    return opcode.operation(("u32",), (scalar.name,), find, whole(32))


_EVERY_OTHER = {1: 0x5555555555555555, 2: 0x3333333333333333, 4: 0x0F0F0F0F0F0F0F0F}


def _brev(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_BITS)

    def reverse(a: Bits) -> Bits:
        for distance, mask in _EVERY_OTHER.items():
            shift = np.uint64(distance)
            a = ((a >> shift) & np.uint64(mask)) | ((a & np.uint64(mask)) << shift)
        return a.byteswap() >> np.uint64(64 - scalar.bits)

    return opcode.operation((scalar.name,), (scalar.name,), reverse, lambda values, masks: (reverse(masks[0]),))


def _extract(a: Bits, start: Bits, length: Bits, scalar: Scalar) -> Bits:
    """The field, extended by its own sign for a signed type; past the top it is the value's top bit."""
    start, length = _position(start, scalar), _position(length, scalar)
    full = np.uint64(scalar.mask)
    field = low_mask(length) & full
    value = shift_right(a, start) & field
    if not scalar.signed:
        return value
    sign_position = np.minimum(start + length, scalar.bits) - np.uint64(1)
    negative = (length != 0) & (shift_right(a, sign_position) & np.uint64(1) != 0)
    inside = field & shift_right(np.full_like(a, scalar.mask), start)
    return np.where(negative, value | (~inside & full), value)


def _bfe(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(("u32", "u64", "s32", "s64"))

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        moved = _extract(masks[0], values[1], values[2], scalar)
        return (moved | everything_if(_position(masks[1] | masks[2], scalar), scalar.bits),)

    return opcode.operation(
        (scalar.name,),
        (scalar.name, "u32", "u32"),
        lambda a, start, length: _extract(a, start, length, scalar),
        undefined,
        (FIELD_RANGE,),
    )


def _insert(a: Bits, b: Bits, start: Bits, length: Bits, scalar: Scalar) -> Bits:
    start, length = _position(start, scalar), _position(length, scalar)
    field = truncate(shift_left(low_mask(length), start), scalar.bits)
    return (b & ~field) | (shift_left(a, start) & field)


def _bfi(opcode: Opcode) -> Operation:
    opcode.permit()
    scalar = opcode.scalar(_BITS)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        moved = _insert(masks[0], masks[1], values[2], values[3], scalar)
        return (moved | everything_if(_position(masks[2] | masks[3], scalar), scalar.bits),)

    return opcode.operation(
        (scalar.name,),
        (scalar.name, scalar.name, "u32", "u32"),
        lambda a, b, start, length: _insert(a, b, start, length, scalar),
        undefined,
        (FIELD_RANGE,),
    )


FAMILIES = {"popc": _count, "clz": _count, "bfind": _bfind, "brev": _brev, "bfe": _bfe, "bfi": _bfi}
