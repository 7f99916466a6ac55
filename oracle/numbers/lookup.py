"""Encoding by table: for a narrow format the top 16 bits of a float and one sticky bit decide the code.

Write a source bit pattern as head (its top 16 bits) and rest. All places where the code changes (the target's values
and the midpoints between them) have rest = 0, if the head is long enough to hold them. Then any two patterns with the
same head and rest > 0 lie strictly between the same two such places, and one of them stands for all: the table holds
the code of (head, rest = 0) and of (head, rest = 1) for each head, 131,072 entries, rounded by `convert_array`.

Example, float32 to E4M3FN: the head holds 7 of the 23 mantissa bits, and midpoints need 3 + 1. 17.0 (0x41880000) is the
midpoint of 16 and 18: rest = 0 ties to 16, and every rest > 0 goes to 18.
"""

from functools import cache

import numpy as np

from tileproof.oracle.numbers.convert_array import Codes, in_chunks, join_parts, split_codes
from tileproof.oracle.numbers.format_record import FormatRecord
from tileproof.oracle.numbers.rounding import Overflow, Rounding

_HEAD_BITS = 16


def has_table(target: FormatRecord, source: FormatRecord) -> bool:
    """Whether `target` is signed and the head of `source` holds every value and every midpoint of `target`.

    Two conditions: a normal head keeps one mantissa bit more than the target, and half the target's smallest step is no
    finer than the head's step among the source's subnormals. A 16-bit source is all head. An unsigned target refuses
    values, which a table cannot.
    """
    if not target.signed or source.bits == _HEAD_BITS:
        return target.signed
    kept = _HEAD_BITS - 1 - source.exponent_bits
    finest_boundary = target.min_exponent - target.mantissa_bits - 1
    return target.mantissa_bits + 1 <= kept and finest_boundary >= source.min_exponent - kept


def encode_by_table(
    target: FormatRecord, source: FormatRecord, bits: Codes, rounding: Rounding, overflow: Overflow
) -> Codes:
    """The codes of source bit patterns (any shape, `source.code_dtype`); equal to joining their parts."""
    table = table_of(target, source, rounding, overflow)
    return in_chunks(lambda chunk: table[_index(source, chunk)], bits, target.code_dtype)


def _index(source: FormatRecord, bits: Codes) -> Codes:
    """Twice the head, plus one where the rest is not zero."""
    rest_bits = bits.dtype.type(source.bits - _HEAD_BITS)
    rest = bits & ((bits.dtype.type(1) << rest_bits) - bits.dtype.type(1))
    return np.asarray(((bits >> rest_bits).astype(np.intp) << 1) | (rest != 0))


@cache
def table_of(target: FormatRecord, source: FormatRecord, rounding: Rounding, overflow: Overflow) -> Codes:
    """The read-only table: the code of (head, rest = 0) at 2 · head, that of every rest > 0 behind it."""
    index = np.arange(2 ** (_HEAD_BITS + 1), dtype=np.uint64)
    rest_bits = source.bits - _HEAD_BITS
    rest = index & np.uint64(1 if rest_bits else 0)
    representative = ((index >> np.uint64(1)) << np.uint64(rest_bits)) | rest
    table = join_parts(target, split_codes(source, representative), rounding, overflow)
    table.flags.writeable = False
    return table
