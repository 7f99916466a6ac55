"""The array twin of `term`: the terms of all codes of a type, as tables of significands and exponents.

Significand and exponent are as `unit_kernels` has them, zeros, infinities and NaN included.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.convert_array import split_codes
from tileproof.oracle.numbers.format_record import FormatRecord
from tileproof.oracle.units.operand import OperandType
from tileproof.oracle.units.unit_kernels import INFINITE, NAN, ZERO
from tileproof.oracle.units.unpacked import F16, unpacked_codes


@dataclass(frozen=True)
class TermTable:
    """The terms of all codes in order, read-only int64."""

    significand: npt.NDArray[np.int64]
    exponent: npt.NDArray[np.int64]
    #: Fraction bits of the significands.
    fraction_bits: int


@cache
def term_table(operand: OperandType) -> TermTable:
    """The terms of a floating-point operand type of at most 19 bits."""
    assert operand.record is not None, "an integer operand is its own value"
    codes = np.arange(1 << operand.record.bits, dtype=np.uint32)
    return _table(*split_terms(operand.record, codes), operand.fraction_bits)


def split_terms(record: FormatRecord, codes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Significands and exponents of codes, in the form of the table above."""
    parts = split_codes(record, codes)
    significand = parts.significand.astype(np.int64)
    exponent = parts.exponent + record.mantissa_bits
    significand = np.where(parts.infinite, 1, np.where(parts.nan, 0, significand))
    exponent = np.where((significand == 0) & ~parts.nan, ZERO, exponent)
    exponent = np.where(parts.infinite, INFINITE, np.where(parts.nan, NAN, exponent))
    return np.where(parts.negative, -significand, significand), exponent


@cache
def unpacked_term_table(operand: OperandType) -> TermTable:
    """The terms of an 8-bit type as the f16 unit sees them."""
    codes, f16 = unpacked_codes(operand), term_table(F16)
    return _table(f16.significand[codes], f16.exponent[codes], F16.fraction_bits)


def _table(significand: npt.NDArray[np.int64], exponent: npt.NDArray[np.int64], fraction_bits: int) -> TermTable:
    significand.flags.writeable = exponent.flags.writeable = False
    return TermTable(significand, exponent, fraction_bits)


def table_index(operand: OperandType, codes: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Where the terms of codes stand in the table: one type, whatever the operand's, so that one compilation serves."""
    assert operand.record is not None, "an integer operand is its own value"
    index = codes.astype(np.uint32)
    if operand.ignored_bits:
        index >>= np.uint32(operand.ignored_bits)
    if operand.record.bits < 8:
        index &= np.uint32((1 << operand.record.bits) - 1)
    return index
