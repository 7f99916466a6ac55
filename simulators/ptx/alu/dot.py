"""Integer dot products with a 32-bit accumulator: dp4a and dp2a (PTX ISA, "Integer Arithmetic Instructions").

The sum wraps modulo 2**32. `dp4a.s32.s32` of 0xFF02 and 0x0304 added to 10 is 10 + 2*4 + (-1)*3 = 15.
"""

from tileproof.simulators.ptx.alu.definedness import whole
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.scalar import Bits, sign_extend, truncate, unpack


def _elements(values: Bits, count: int, bits: int, *, signed: bool) -> list[Bits]:
    parts = unpack(values, count, bits)
    return [sign_extend(part, bits) for part in parts] if signed else list(parts)


def _dot(opcode: Opcode) -> Operation:
    opcode.permit(*(() if opcode.mnemonic == "dp4a" else ("lo", "hi")))
    if len(opcode.types) != 2 or {scalar.name for scalar in opcode.types} - {"u32", "s32"}:
        raise opcode.refuse("it takes two types of .u32, .s32")
    a_signed, b_signed = (scalar.signed for scalar in opcode.types)
    count = 4 if opcode.mnemonic == "dp4a" else 2
    first = 2 if count == 2 and opcode.choose("lo", "hi") == "hi" else 0

    def dot(a: Bits, b: Bits, c: Bits) -> Bits:
        a_elements = _elements(a, count, 32 // count, signed=a_signed)
        b_elements = _elements(b, 4, 8, signed=b_signed)[first : first + count]
        total = c
        for x, y in zip(a_elements, b_elements, strict=True):
            total = total + x * y
        return truncate(total, 32)

    result = "s32" if a_signed or b_signed else "u32"
    sources = (opcode.types[0].name, opcode.types[1].name, result)
    return opcode.operation((result,), sources, dot, whole(32))


FAMILIES = {"dp4a": _dot, "dp2a": _dot}
