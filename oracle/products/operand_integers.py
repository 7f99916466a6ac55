"""The codes of one operand type as integers of one unit: value = integer · 2^step.

The unit is the format's smallest subnormal. Example: e4m3 counts 2^-9, so 448 is 229,376 and 0x01 is 1.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.convert_array import split_codes
from tileproof.oracle.products.integer_matrix import WIDEST_BITS
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import OPERAND_TYPES, OperandType
from tileproof.oracle.units.term import decode_operand

FINITE, INFINITE, NAN = 0, 1, 2


@dataclass(frozen=True, eq=False)
class OperandIntegers:
    """An array of codes, read."""

    #: int64; 0 for infinities and NaN.
    integers: npt.NDArray[np.int64]
    #: int8: `FINITE`, `INFINITE` or `NAN`.
    kinds: npt.NDArray[np.int8]
    #: int8: the sign of the value: -1, 0 or 1; 0 for NaN.
    signs: npt.NDArray[np.int8]
    #: Exponent of the unit.
    step: int
    #: The largest magnitude that any finite code of the type has, in units.
    largest: int
    #: The integer of the smallest normal value; 1 for an integer type.
    smallest_normal: int


def operand_type(name: str) -> OperandType:
    """The type of a name such as "e4m3". Raises: Refusal where there is none."""
    if name not in OPERAND_TYPES:
        raise Refusal(f"{name!r} is no operand type", hint=f"known: {', '.join(OPERAND_TYPES)}")
    return OPERAND_TYPES[name]


def read_rows(name: str, operand: OperandType, given: npt.ArrayLike) -> OperandIntegers:
    """The codes of an operand [..., rows, K] as integers.

    Args:
        name: of the argument, for messages.
        operand: its type.
        given: raw codes of the type's code type; values of an integer type.

    Raises:
        Refusal: another element type, fewer than two dimensions, a code wider than the type, or a type whose integers
            are wider than 62 bits (bf16, tf32, f32, f64).
    """
    codes = _require_rows(name, operand, given)
    table = _table(operand)
    index = codes if operand.record else codes.view(np.uint8)
    return OperandIntegers(
        table.integers[index], table.kinds[index], table.signs[index], table.step, table.largest, table.smallest_normal
    )


def _require_rows(name: str, operand: OperandType, given: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(given)
    if array.dtype != operand.code_dtype:
        raise Refusal(
            f"{name} has type {array.dtype}; raw codes of {operand.name} are {operand.code_dtype}",
            hint=f"view floats as {operand.code_dtype}; narrow types take one right-aligned code an element",
        )
    if array.ndim < 2:
        raise Refusal(f"{name} has shape {array.shape}; it must be [..., rows, K]", hint="give one row as [1, K]")
    bits = operand.record.bits if operand.record else 8
    if bits < 8 and array.size and array.max() >> bits:
        raise Refusal(
            f"{name} has the code {array.max()}; codes of {operand.name} are below {1 << bits}",
            hint="codes are right-aligned, one an element",
        )
    return array


@cache
def _table(operand: OperandType) -> OperandIntegers:
    """By code; of an integer type by its bits as uint8."""
    record = operand.record
    if record is None:
        values = np.arange(256, dtype=np.uint8).view(operand.code_dtype).astype(np.int64)
        return _frozen(values, np.zeros(256, np.int8), np.sign(values), 0, int(np.abs(values).max()), 1)
    step = record.min_exponent - record.mantissa_bits
    largest = int(decode_operand(operand, record.max_code << operand.ignored_bits).value / 2**step)
    if largest.bit_length() > WIDEST_BITS:
        raise Refusal(
            f"{operand.name} needs integers of {largest.bit_length()} bits; the most here is {WIDEST_BITS}",
            hint="exact products are for f16, for 8-bit types and for narrower ones",
        )
    parts = split_codes(record, np.arange(1 << record.bits))
    finite = ~parts.infinite & ~parts.nan
    places = np.where(finite, parts.exponent - step, 0)
    magnitude = np.where(finite, parts.significand.astype(np.int64) << places, 0)
    kinds = np.where(parts.nan, NAN, np.where(parts.infinite, INFINITE, FINITE))
    direction = np.where(parts.negative, -1, 1)
    signs = np.where(kinds == INFINITE, direction, np.sign(magnitude) * direction)
    return _frozen(magnitude * direction, kinds, signs, step, largest, 1 << record.mantissa_bits)


def _frozen(
    integers: npt.NDArray[Any], kinds: npt.NDArray[Any], signs: npt.NDArray[Any], step: int, largest: int, normal: int
) -> OperandIntegers:
    small = kinds.astype(np.int8), signs.astype(np.int8)
    for array in (integers, *small):
        array.flags.writeable = False
    return OperandIntegers(integers, *small, step, largest, normal)
