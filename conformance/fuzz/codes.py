"""Bit patterns at which a number format changes its ways: zeros, ends, subnormals, specials, and ties of FP8."""

from functools import cache

import numpy as np

from tileproof.conformance.integer_format import INTEGER_FORMATS
from tileproof.oracle.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, FloatFormat

_RECORDS = {**FORMATS, "BFLOAT16": BFLOAT16, "FLOAT16": FLOAT16, "FLOAT32": FLOAT32}


@cache
def telling_codes(name: str) -> tuple[int, ...]:
    """The patterns of a format, by its name in reports; the simplest first."""
    if name in INTEGER_FORMATS:
        top = 1 << (INTEGER_FORMATS[name].bits - 1)
        return (0, 1, 2 * top - 1, top - 1, top, top + 1)
    record = _RECORDS[name]
    positive = [0, *_ends(record), *_ties(record)]
    signs = (0, record.sign_bit) if record.signed else (0,)
    return tuple(dict.fromkeys(code | sign for code in positive for sign in signs))


def _ends(record: FloatFormat) -> list[int]:
    least, top = 1 << record.mantissa_bits, record.magnitude_mask
    return [1, least - 1, least, least + 1, record.max_code - 1, record.max_code, min(record.max_code + 1, top), top]


def _ties(record: FloatFormat) -> list[int]:
    """Of a wider format: 1, the largest values of both FP8 formats, ties between their codes, and neighbours."""
    if record.bits <= 8:
        return []
    points = [1.0, 0.0625, 1.0625, 1.125, 448.0, 464.0, 2.0**-10, 3 * 2.0**-10, 57344.0, 61440.0, 2.0**-17]
    codes = np.asarray(record.encode(np.array(points), overflow="inf")).astype(np.int64)
    return [int(code) + step for code in codes for step in (0, -1, 1)]
