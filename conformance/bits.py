"""Stored values as a report shows them, and distances between them counted in codes of their format."""

import math

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.finding import BitPattern
from tileproof.conformance.integer_format import INTEGER_FORMATS
from tileproof.oracle.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, FloatFormat

_RECORDS = {**FORMATS, "BFLOAT16": BFLOAT16, "FLOAT16": FLOAT16, "FLOAT32": FLOAT32}

Raw = NDArray[np.unsignedinteger]


def describe(format_name: str, raw: int) -> BitPattern:
    """The bits `raw` of a format, split into sign, exponent and mantissa, with their value."""
    if format_name in INTEGER_FORMATS:
        integer = INTEGER_FORMATS[format_name]
        value = int(integer.values(np.array([raw], f"u{integer.bits // 8}"))[0])
        return BitPattern(format_name, f"0x{raw:0{integer.bits // 4}x}", f"{raw:0{integer.bits}b}", str(value))
    record = _RECORDS[format_name]
    digits = f"{raw:0{record.bits}b}"
    fraction = len(digits) - record.mantissa_bits
    sign = fraction - record.exponent_bits
    fields = "|".join(part for part in (digits[:sign], digits[sign:fraction], digits[fraction:]) if part)
    return BitPattern(format_name, f"0x{raw:0{-(-record.bits // 4)}x}", fields, _decimal(record, raw))


def describe_byte(raw: int) -> BitPattern:
    """A byte without a format, such as one of a red zone."""
    return BitPattern("byte", f"0x{raw:02x}", f"{raw:08b}", str(raw))


def is_nan(format_name: str, raw: Raw) -> NDArray[np.bool_]:
    """Which of the stored values are NaN."""
    if format_name in INTEGER_FORMATS:
        return np.zeros(np.shape(raw), np.bool_)
    return np.asarray(np.isnan(_decode(_RECORDS[format_name], raw)))


def magnitude(format_name: str, raw: Raw) -> NDArray[np.int64]:
    """The stored values without their sign, as integers in the order of the values."""
    if format_name in INTEGER_FORMATS:
        return np.abs(INTEGER_FORMATS[format_name].values(raw))
    record = _RECORDS[format_name]
    return raw.astype(np.int64) & ((1 << (record.exponent_bits + record.mantissa_bits)) - 1)


def ordinal(format_name: str, raw: Raw) -> NDArray[np.int64]:
    """Integers in the order of the values: neighbours differ by one, both zeros are 0, NaN lies beyond infinity."""
    if format_name in INTEGER_FORMATS:
        return INTEGER_FORMATS[format_name].values(raw)
    size = magnitude(format_name, raw)
    return np.where(raw.astype(np.int64) == size, size, -size)


def steps(format_name: str, a: Raw, b: Raw) -> NDArray[np.int64]:
    """Distances in codes; 0 between two NaNs and between two zeros."""
    both_nan = is_nan(format_name, a) & is_nan(format_name, b)
    return np.where(both_nan, 0, np.abs(ordinal(format_name, a) - ordinal(format_name, b)))


def _decode(record: FloatFormat, raw: Raw) -> NDArray[np.float64]:
    return np.asarray(record.decode(raw), np.float64)


def _decimal(record: FloatFormat, raw: int) -> str:
    value = float(_decode(record, np.array([raw], record.code_dtype))[0])
    return "nan" if math.isnan(value) else f"{value:.9g}"
