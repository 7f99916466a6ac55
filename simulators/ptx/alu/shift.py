"""Shifts and byte permutes: shl, shr, shf, prmt (PTX ISA, "Logic and Shift Instructions", "prmt").

A shift amount is unsigned and clamps at the width of the type, unlike in C, x86 and numpy: `shl.b32` by 33 gives 0 and
`shr.s32` by 33 gives the sign in every bit.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.alu.definedness import everything_if, unless_controlled
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, as_signed, pack, shift_left, shift_right, truncate, unpack


def _shift(opcode: Opcode, scalar: Scalar, function: Callable[[Bits, Bits], Bits]) -> Operation:
    opcode.permit()
    undefined = unless_controlled(function, scalar.bits, data=1)
    return opcode.operation((scalar.name,), (scalar.name, "u32"), function, undefined)


def _shl(opcode: Opcode) -> Operation:
    scalar = opcode.scalar(("b16", "b32", "b64"))
    return _shift(opcode, scalar, lambda a, amount: truncate(shift_left(a, amount), scalar.bits))


def _shr(opcode: Opcode) -> Operation:
    scalar = opcode.scalar([kind + bits for bits in ("16", "32", "64") for kind in "bus"])

    def arithmetic(a: Bits, amount: Bits) -> Bits:
        shifted = as_signed(a, scalar.bits) >> np.minimum(amount, 63).astype(np.int64)
        return truncate(shifted.view(np.uint64), scalar.bits)

    return _shift(opcode, scalar, arithmetic if scalar.signed else shift_right)


def _shf(opcode: Opcode) -> Operation:
    opcode.permit("l", "r", "clamp", "wrap")
    opcode.scalar(("b32",))
    left = opcode.choose("l", "r") == "l"
    wrap = opcode.choose("clamp", "wrap") == "wrap"

    def effective(amount: Bits) -> Bits:
        return amount & np.uint64(31) if wrap else np.minimum(amount, 32)

    def funnel(a: Bits, b: Bits, amount: Bits) -> Bits:
        joined = a | (b << np.uint64(32))
        shifted = shift_left(joined, amount) >> np.uint64(32) if left else shift_right(joined, amount)
        return truncate(shifted, 32)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        unknown = masks[2] & np.uint64(31) if wrap else masks[2]
        return (funnel(masks[0], masks[1], effective(values[2])) | everything_if(unknown, 32),)

    return opcode.operation(
        ("b32",), ("b32", "b32", "u32"), lambda a, b, amount: funnel(a, b, effective(amount)), undefined
    )


# Source bytes for result bytes 0 to 3, by the two lowest bits of the control operand (PTX ISA, prmt, table of modes).
_PRMT_MODES = {
    "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
    "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
    "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
    "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
    "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
    "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
}
_GENERIC_CONTROL = 0xFFFF  # four selectors of four bits
_MODE_CONTROL = 0x3


def _prmt(opcode: Opcode) -> Operation:
    opcode.permit(*_PRMT_MODES)
    opcode.scalar(("b32",))
    mode = opcode.choose(*_PRMT_MODES, default="generic")
    selectors = np.array([pack_nibbles(row) for row in _PRMT_MODES.get(mode, ())], np.uint64)

    def permute(a: Bits, b: Bits, control: Bits) -> Bits:
        generic = control if mode == "generic" else selectors[control & np.uint64(_MODE_CONTROL)]
        return prmt(a, b, generic)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        moved = permute(masks[0], masks[1], values[2])
        if mode != "generic":
            return (moved | everything_if(masks[2] & np.uint64(_MODE_CONTROL), 32),)
        nibbles = unpack(masks[2] & np.uint64(_GENERIC_CONTROL), 4, 4)
        return (moved | pack([everything_if(nibble, 8) for nibble in nibbles], 8),)

    return opcode.operation(("b32",), ("b32", "b32", "b32"), permute, undefined)


def pack_nibbles(selectors: Sequence[int]) -> int:
    """Four byte numbers as the control word of the generic prmt."""
    return sum(selector << (4 * position) for position, selector in enumerate(selectors))


def prmt(a: Bits, b: Bits, control: Bits) -> Bits:
    """Generic byte permute: each selector takes one of 8 bytes, its highest bit replicates that byte's sign."""
    source = a | (b << np.uint64(32))

    def byte(selector: Bits) -> Bits:
        value = (source >> ((selector & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
        return np.where(selector & np.uint64(8) != 0, everything_if(value & np.uint64(0x80), 8), value)

    return pack([byte(selector) for selector in unpack(control, 4, 4)], 8)


FAMILIES = {"shl": _shl, "shr": _shr, "shf": _shf, "prmt": _prmt}
