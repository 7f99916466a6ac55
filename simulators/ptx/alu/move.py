"""mov between registers and selp, slct between values.

A vector on either side of `mov` (`mov.b32 d, {lo, hi}`) is the decoder's: see `scalar.pack` and `scalar.unpack`.
"""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.alu.definedness import selected
from tileproof.simulators.ptx.alu.ieee import BINARY32, flush_subnormals, is_nan
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, pick, to_bits

_TYPES = (*[kind + bits for kind in "bus" for bits in ("16", "32", "64")], "f32", "f64")


def _mov(opcode: Opcode) -> Operation:
    opcode.permit()
    name = opcode.scalar(("pred", *_TYPES)).name
    return opcode.operation((name,), (name,), lambda a: a, lambda values, masks: (masks[0],))


def _selp(opcode: Opcode) -> Operation:
    opcode.permit()
    name = opcode.scalar(_TYPES).name

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        return (selected(values[2], masks[2], (values[0], values[1]), (masks[0], masks[1])),)

    return opcode.operation((name,), (name, name, "pred"), lambda a, b, p: pick(p != 0, a, b), undefined)


def _slct(opcode: Opcode) -> Operation:
    if len(opcode.types) != 2 or opcode.types[0].name not in _TYPES or opcode.types[1].name not in ("s32", "f32"):
        raise opcode.refuse("it takes a type to select and .s32 or .f32 to test")
    name, tested = (scalar.name for scalar in opcode.types)
    opcode.permit(*(["ftz"] if tested == "f32" else []))
    sign = np.uint64(1 << 31)

    def chooses_first(c: Bits) -> Bits:
        if tested == "s32":
            return (c & sign) ^ sign
        # -0 counts as zero, hence the first; a NaN is not >= 0, hence the second.
        value = flush_subnormals(c, BINARY32) if "ftz" in opcode.flags else c
        return to_bits(((value & sign == 0) | (value == sign)) & ~is_nan(value, BINARY32))

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        unknown = masks[2] & sign if tested == "s32" else masks[2]
        return (selected(chooses_first(values[2]), unknown, (values[0], values[1]), (masks[0], masks[1])),)

    return opcode.operation((name,), (name, name, tested), lambda a, b, c: pick(chooses_first(c) != 0, a, b), undefined)


FAMILIES = {"mov": _mov, "selp": _selp, "slct": _slct}
