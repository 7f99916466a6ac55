"""Extended precision: add, sub, mad with `.cc`, and addc, subc, madc (PTX ISA, "Extended-Precision Arithmetic").

The condition-code register has one bit, CC.CF. Here it is an operand of the pseudo-type "carry", which the decoder adds
and which nothing else can name: `add.cc.u32` has the results (u32, carry), `addc.u32` the operands (u32, u32, carry).
PTX ISA calls it the borrow of a subtraction; measured, it is the carry of a + ~b + 1, so 1 where nothing is borrowed,
which shows where additions and subtractions mix (`assumption.BORROW`). Example: 0xFFFFFFFF + 1 is 0 with carry 1, and
0 - 1 is 0xFFFFFFFF with carry 0.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.alu.assumption import BORROW
from tileproof.simulators.ptx.alu.definedness import everything_if, union, upward, whole
from tileproof.simulators.ptx.alu.operation import Opcode, Operation
from tileproof.simulators.ptx.alu.product import product_half
from tileproof.simulators.ptx.alu.scalar import Bits, Scalar, to_bits, truncate

CARRY = "carry"
_TYPES = ("u32", "s32", "u64", "s64")

Extended = Callable[[Sequence[Bits]], tuple[Bits, Bits]]


def _add(a: Bits, b: Bits, carry: Bits, bits: int) -> tuple[Bits, Bits]:
    """The sum and its carry."""
    if bits < 64:
        total = a + b + carry
        return truncate(total, bits), total >> np.uint64(bits)
    partial = a + b
    total = partial + carry
    return total, to_bits((partial < a) | (total < partial))


def _subtract(a: Bits, b: Bits, carry: Bits, bits: int) -> tuple[Bits, Bits]:
    """The difference, less one where the carry is 0, and the carry of the sum that it is."""
    return _add(a, truncate(~b, bits), carry, bits)


def _extended(
    opcode: Opcode, scalar: Scalar, operands: int, compute: Extended, *, high: bool = False, start: int = 0
) -> Operation:
    """An operation whose carry in and out are there as the opcode says; without one it starts with `start`."""
    takes, gives = opcode.mnemonic.endswith("c"), "cc" in opcode.flags
    low = whole(scalar.bits) if high else upward(scalar.bits)

    def both(values: Sequence[Bits]) -> tuple[Bits, ...]:
        result, carry = compute(values if takes else (*values, np.full_like(values[0], start)))
        return (result, carry) if gives else (result,)

    def undefined(values: Sequence[Bits], masks: Sequence[Bits]) -> tuple[Bits, ...]:
        result = low(values, masks)
        return (*result, everything_if(union(masks), 1)) if gives else result

    sources = (scalar.name,) * operands + ((CARRY,) if takes else ())
    assumptions = (BORROW,) if opcode.mnemonic.startswith("sub") else ()
    results = (scalar.name, CARRY) if gives else (scalar.name,)
    return Operation(opcode.name, results, sources, both, undefined, assumptions)


def add_sub(opcode: Opcode) -> Operation:
    """add.cc, sub.cc, addc, subc."""
    opcode.permit("cc")
    scalar = opcode.scalar(_TYPES)
    subtracts = opcode.mnemonic.startswith("sub")
    function = _subtract if subtracts else _add

    def compute(values: Sequence[Bits]) -> tuple[Bits, Bits]:
        a, b, carry = values
        return function(a, b, carry, scalar.bits)

    return _extended(opcode, scalar, 2, compute, start=int(subtracts))


def mad(opcode: Opcode) -> Operation:
    """mad.lo.cc, mad.hi.cc, madc: half of a product, plus an addend, plus the carry."""
    opcode.permit("cc", "lo", "hi")
    scalar = opcode.scalar(_TYPES)
    high = opcode.choose("lo", "hi") == "hi"

    def compute(values: Sequence[Bits]) -> tuple[Bits, Bits]:
        a, b, c, carry = values
        return _add(product_half(a, b, scalar, high=high), c, carry, scalar.bits)

    return _extended(opcode, scalar, 3, compute, high=high)


FAMILIES = {**dict.fromkeys(("addc", "subc"), add_sub), "madc": mad}
