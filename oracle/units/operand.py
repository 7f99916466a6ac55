"""The operand types of matrix instructions, by the names that PTX gives them.

A floating-point operand is a code of a `FormatRecord`; an integer operand is its own value. TF32 is a float32 register
of which the unit reads the upper 19 bits (PTX ISA 9.1, "wgmma.mma_async": the low 13 bits are ignored), so a NaN whose
payload lies in the low bits alone acts as an infinity. Types narrower than a byte come one right-aligned code a byte;
where the bits stand in a register or in shared memory is the fragment's business.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileproof.oracle.formats import (
    BFLOAT16,
    E2M1FN,
    E2M3FN,
    E3M2FN,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0FNU,
    FLOAT16,
    FLOAT32,
    FLOAT64,
)
from tileproof.oracle.numbers.format_record import FormatRecord, NanRule, Specials

TF32 = FormatRecord(
    name="TF32",
    exponent_bits=8,
    mantissa_bits=10,
    specials=Specials.IEEE,
    nan_rule=NanRule.ALL_ONES,
    nan_source="PTX ISA 9.1, cvt.tf32",
    source="PTX ISA 9.1, alternate floating-point data formats",
)

#: Scale factors of the 4-bit kinds: E4M3FN without its sign, so that the top bit of a byte is not read.
UE4M3 = FormatRecord(
    name="UE4M3",
    exponent_bits=4,
    mantissa_bits=3,
    specials=Specials.ALL_ONES_NAN,
    nan_rule=NanRule.ALL_ONES,
    nan_source="PTX ISA 9.1, alternate floating-point data formats",
    source="PTX ISA 9.1, alternate floating-point data formats",
    signed=False,
)


@dataclass(frozen=True)
class OperandType:
    """One operand type of a matrix instruction."""

    name: str
    #: The numpy type of one raw code as callers pass it.
    code_dtype: np.dtype[Any]
    #: The number format; None for an integer type.
    record: FormatRecord | None
    #: Low bits of a code that the unit does not read.
    ignored_bits: int = 0

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of a significand; 0 for an integer type."""
        return self.record.mantissa_bits if self.record else 0


def _float(name: str, record: FormatRecord) -> OperandType:
    return OperandType(name, record.code_dtype, record)


#: Every operand type by its name in an instruction. "e4m3fnuz" and "e5m2fnuz" are AMD's fp8 and bf8.
OPERAND_TYPES: dict[str, OperandType] = {
    operand.name: operand
    for operand in (
        _float("f64", FLOAT64),
        _float("f32", FLOAT32),
        OperandType("tf32", np.dtype(np.uint32), TF32, ignored_bits=13),
        _float("f16", FLOAT16),
        _float("bf16", BFLOAT16),
        _float("e4m3", E4M3FN),
        _float("e5m2", E5M2),
        _float("e3m2", E3M2FN),
        _float("e2m3", E2M3FN),
        _float("e2m1", E2M1FN),
        _float("e4m3fnuz", E4M3FNUZ),
        _float("e5m2fnuz", E5M2FNUZ),
        _float("ue8m0", E8M0FNU),
        OperandType("ue4m3", np.dtype(np.uint8), UE4M3),
        OperandType("s8", np.dtype(np.int8), None),
        OperandType("u8", np.dtype(np.uint8), None),
    )
}

#: The accumulator types by name, as numpy types of C and D.
ACCUMULATOR_DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "s32": np.dtype(np.int32),
}
