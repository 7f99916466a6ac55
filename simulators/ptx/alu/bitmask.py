"""Masks and set bits: bmsk, szext, fns (PTX ISA, "Integer Arithmetic Instructions").

`bmsk.clamp.b32` of 4 and 8 is 0x00000FF0, `szext.clamp.s32` of 0x80 and 8 is 0xFFFFFF80, and `fns.b32` of 0b10110 from
bit 1 with offset 2 is 2, the second set bit at or above bit 1.
"""

import numpy as np

from tileproof.simulators.ptx.alu.assumption import FIND_BASE
from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, as_signed, pick, shift_left, truncate

_ALL = np.uint64(0xFFFF_FFFF)
_LOW = np.uint64(31)
_LEAST = np.uint64(1 << 31)


def _above(position: Bits) -> Bits:
    """All bits from a position up."""
    return truncate(shift_left(np.full_like(position, _ALL), position), 32)


def _bmsk(opcode: Opcode) -> Operation:
    opcode.permit("clamp", "wrap")
    opcode.scalar(("b32",))
    clamp = opcode.choose("clamp", "wrap") == "clamp"

    def mask(start: Bits, width: Bits) -> Bits:
        first, count = start & _LOW, width & _LOW
        low = pick(clamp & (start > _LOW), np.uint64(0), _above(first))
        reaches = (first + count > _LOW) | (clamp & ((start > _LOW) | (width > _LOW)))
        return low & ~pick(reaches, np.uint64(0), _above(first + count))

    return opcode.operation(("b32",), ("b32", "b32"), mask, whole(32))


def _szext(opcode: Opcode) -> Operation:
    opcode.permit("clamp", "wrap")
    scalar = opcode.scalar(("u32", "s32"))
    clamp = opcode.choose("clamp", "wrap") == "clamp"

    def extend(a: Bits, width: Bits) -> Bits:
        count = width & _LOW
        everything = clamp & (width > _LOW)
        outside = np.where(everything, np.uint64(0), _above(count))
        sign = (a >> ((count - np.uint64(1)) & _LOW)) & np.uint64(1)
        negative = scalar.signed & (count != 0) & ~everything & (sign != 0)
        return (a & ~outside) | np.where(negative, outside, np.uint64(0))

    return opcode.operation((scalar.name,), (scalar.name, "u32"), extend, whole(32))


def _fns(opcode: Opcode) -> Operation:
    opcode.permit()
    opcode.scalar(("b32",))

    def find(mask: Bits, base: Bits, offset: Bits) -> Bits:
        steps = as_signed(offset, 32)
        forward, left = steps > 0, np.abs(steps) - 1
        found = np.full_like(mask, _ALL)
        position = base.astype(np.int64)
        for _ in range(32):  # every set bit on the way takes one off what is left to find
            inside = (position >= 0) & (position < 32) & (steps != 0) & (base <= _LOW)
            place = np.where(inside, position, 0).astype(np.uint64)
            hit = inside & ((mask >> place) & np.uint64(1) != 0)
            found = np.where(hit & (left == 0), place, found)
            left = left - hit
            position = position + np.where(forward, 1, -1)
        here = (base <= _LOW) & ((mask >> np.minimum(base, _LOW)) & np.uint64(1) != 0)
        found = np.where(steps == 0, np.where(here, base, _ALL), found)
        return np.where(offset == _LEAST, np.uint64(0), found)

    return opcode.operation(("b32",), ("b32", "b32", "s32"), find, whole(32), (FIND_BASE,))


FAMILIES = {"bmsk": _bmsk, "szext": _szext, "fns": _fns}
