"""cvt.pack: two integers clamped and packed (PTX ISA, "cvt.pack").

`cvt.pack.sat.s16.s32 d, a, b` puts a into the upper half and b into the lower. Narrower results come with a third
operand, whose lower bits move above them: `cvt.pack.sat.u8.s32.b32` of 300, -1 and 0xABCD is 0xABCDFF00.
"""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.alu.definedness import everything_if
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, as_signed, truncate

_WITHOUT_REST = ("u16", "s16")
_WITH_REST = ("u2", "s2", "u4", "s4", "u8", "s8")


def packed(opcode: Opcode) -> Operation:
    """The operation of `cvt.pack.sat.type.s32{.b32}`."""
    match [qualifier for qualifier in opcode.qualifiers if qualifier not in ("pack", "sat")]:
        case [type_, "s32"] if type_ in _WITHOUT_REST:
            more: tuple[str, ...] = ()
        case [type_, "s32", "b32"] if type_ in _WITH_REST:
            more = ("b32",)
        case _:
            raise opcode.refuse("it takes .u16 or .s16 and .s32, or .u2 to .s8, .s32 and .b32")
    if "sat" not in opcode.flags:
        raise opcode.refuse(".sat is mandatory")
    kind, bits = type_[0], int(type_[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "s" else (0, (1 << bits) - 1)

    def clamped(values: Bits) -> Bits:
        return truncate(np.clip(as_signed(values, 32), low, high).view(np.uint64), bits)

    def joined(upper: Bits, lower: Bits, *rest: Bits) -> Bits:
        both = lower | (upper << np.uint64(bits))
        return truncate(both | (rest[0] << np.uint64(2 * bits)), 32) if rest else both

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (joined(everything_if(masks[0], bits), everything_if(masks[1], bits), *masks[2:]),)

    def pack(a: Bits, b: Bits, *rest: Bits) -> Bits:
        return joined(clamped(a), clamped(b), *rest)

    return opcode.operation(("b32",), ("s32", "s32", *more), pack, undefined)
