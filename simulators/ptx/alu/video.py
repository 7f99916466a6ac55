"""SIMD video instructions on bytes and halfwords: vadd4, vsub2 and their like (PTX ISA, "SIMD Video Instructions").

Each byte (halfword) of *a* and *b* is extended by its type, combined, clamped with `.sat` to the result type, and put
into its place; with `.add` the results are added to *c* instead. `vadd4.u32.u32.u32.sat` of 0x1FF and 0x101 is 0x2FF.
Operand selectors and masks (`a.b7654`) are not modelled, nor are the scalar forms (vadd, vmad, ...).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.assumption import VIDEO_LANES
from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, pack, sign_extend, truncate, unpack

Signed = NDArray[np.int64]


def _average(a: Signed, b: Signed) -> Signed:
    """Half of the sum, a half rounded away from zero for positive sums and up for negative ones."""
    total = a + b
    return (total + (total >= 0)) >> 1


_COMBINE: dict[str, Callable[[Signed, Signed], Signed]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": _average,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
_COMPARE: dict[str, Callable[[Signed, Signed], NDArray[np.bool_]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
MNEMONICS = tuple(f"{name}{count}" for name in (*_COMBINE, "vset") for count in (2, 4))


def _elements(values: Bits, count: int, scalar: Scalar) -> list[Signed]:
    width = 32 // count
    parts = unpack(values, count, width)
    return [(sign_extend(part, width) if scalar.signed else part).view(np.int64) for part in parts]


def _clamp(values: Signed, width: int, *, signed: bool) -> Signed:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    clamped: Signed = np.clip(values, low, high)
    return clamped


def _video(opcode: Opcode) -> Operation:
    name, count = opcode.mnemonic[:-1], int(opcode.mnemonic[-1])
    comparing = name == "vset"
    if len(opcode.types) != (2 if comparing else 3) or {t.name for t in opcode.types} - {"u32", "s32"}:
        raise opcode.refuse("it takes .u32 and .s32 for its result and each operand")
    opcode.permit("add", *(_COMPARE if comparing else ["sat"]))
    if {"add", "sat"} <= opcode.flags:
        raise opcode.refuse(".sat and .add exclude each other")
    *result, a_type, b_type = opcode.types
    signed = any(scalar.signed for scalar in result)
    relation = _COMPARE[opcode.choose(*_COMPARE)] if comparing else None
    width = 32 // count

    def lanes(a: Bits, b: Bits) -> list[Signed]:
        pairs = zip(_elements(a, count, a_type), _elements(b, count, b_type), strict=True)
        if relation is not None:
            return [relation(x, y).astype(np.int64) for x, y in pairs]
        combined = [_COMBINE[name](x, y) for x, y in pairs]
        return [_clamp(value, width, signed=signed) for value in combined] if "sat" in opcode.flags else combined

    def compute(a: Bits, b: Bits, c: Bits) -> Bits:
        values = [lane.view(np.uint64) for lane in lanes(a, b)]
        if "add" in opcode.flags:
            return truncate(c + sum(values, np.zeros_like(c)), 32)
        return pack([truncate(value, width) for value in values], width)

    kind = "s32" if signed else "u32"
    sources = (a_type.name, b_type.name, kind)
    return opcode.operation((kind,), sources, compute, whole(32), (VIDEO_LANES,))


FAMILIES = dict.fromkeys(MNEMONICS, _video)
