"""8-bit operands as the f16 operands that an expanded instruction gives to the unit.

The conversion is exact (PTX ISA 9.1, cvt.rn.f16x2.e4m3x2), but it decides bits: a subnormal e4m3 value is a normal f16
value, so that it is aligned by its own exponent. Example: e4m3 0x05 is 5/8 · 2^-6 with exponent -6; as f16 it is
1.25 · 2^-7 with exponent -7. Measured on H200: recording mma_m16n8k32_e4m3_e5m2, tile 151, row 14, column 0.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FLOAT16, FloatFormat
from tileproof.oracle.numbers.convert import decode_number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.units.operand import OPERAND_TYPES, OperandType
from tileproof.oracle.units.term import Term, decode_term

F16 = OPERAND_TYPES["f16"]


@lru_cache(maxsize=1 << 10)
def unpacked_term(operand: OperandType, code: int) -> Term:
    """The term of one 8-bit code as the f16 unit sees it."""
    assert operand.record is not None, "an integer operand is not unpacked"
    number = decode_number(operand.record, code)
    return decode_term(FLOAT16, FLOAT16.round(number, Rounding.NEAREST_EVEN, Overflow.INF))


def unpacked_codes(operand: OperandType) -> npt.NDArray[np.uint16]:
    """The array twin: the f16 codes of all codes of an 8-bit type in order."""
    record = operand.record
    assert isinstance(record, FloatFormat), "an integer operand is not unpacked"
    codes = FLOAT16.encode(record.decode(np.arange(1 << record.bits)), overflow="inf")
    return np.asarray(codes, np.uint16)
