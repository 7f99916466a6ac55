"""Run one arithmetic opcode on Python integers: what the tests of the ALU share."""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.alu.operation import resolve


def run(opcode: str, *operands: Sequence[int]) -> list[int]:
    """The first result of `opcode`, such as "add.rn.f32", for raw operand bits."""
    mnemonic, *qualifiers = opcode.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    results = operation.compute([np.array(operand, np.uint64) for operand in operands])
    return [int(value) for value in results[0]]
