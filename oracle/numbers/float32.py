"""The definition of single float32 operations on exact numbers: compute exactly, round once to nearest even.

What a GPU's `mul.rn.f32`, `add.rn.f32`, `div.rn.f32` and `fma.rn.f32` give (PTX ISA 9.1, floating point instructions,
without `.ftz`), and IEEE 754-2019 section 5.4.1. `float32_array` does the same on arrays.

Example: 3 · 0x1.2aaaaap+7 is exactly 0x1.bfffffp+8; 1 + 2^-24 is a tie that goes to 1; fma(1 + 2^-12, 1 + 2^-12, -1)
keeps the 2^-24 of the product that a multiplication first would have rounded off.
"""

from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding

ZERO = Number.of(0)
ONE = Number.of(1)


def float32(exact: Number) -> Number:
    """The number of the float32 nearest to an exact one; beyond the largest finite value infinity."""
    return FLOAT32.number(float32_code(exact))


def float32_code(exact: Number) -> int:
    """The bit pattern of the float32 nearest to an exact number."""
    return FLOAT32.round(exact, Rounding.NEAREST_EVEN, Overflow.INF)


def multiply(a: Number, b: Number) -> Number:
    """`mul.rn.f32`."""
    return float32(a * b)


def divide(a: Number, b: Number) -> Number:
    """`div.rn.f32`."""
    return float32(a / b)


def add(a: Number, b: Number) -> Number:
    """`add.rn.f32`."""
    return float32(a + b)


def fused_multiply_add(a: Number, b: Number, c: Number) -> Number:
    """`fma.rn.f32`: a · b + c with one rounding."""
    return float32(a * b + c)
