"""The narrow conversions of PTX as they are: operand order, NaN, relu, saturation, one function an instruction family.

Operands and results are raw bits in unsigned arrays of any shape: .f32, .f16x2 and .bf16x2 are uint32, .e4m3x2 and the
like uint16, .e2m1x2 uint8. Of two sources a, b the first fills the upper half. Example:

    cvt_from_f32(E4M3FN, 1.0, 2.0) is 0x3840:  a = 1.0 above (0x38), b = 2.0 below (0x40)

    result of        NaN                        overflow, infinity      relu, negative
    e4m3x2, e5m2x2   0x7F, sign dropped         ±MAX_NORM (satfinite)   0
    e2m1x2, e2m3x2,  +MAX_NORM                  ±MAX_NORM (satfinite)   0
      e3m2x2
    f16x2            0x7FFF                     exact                   0
    ue8m0x2          0xFF                       0xFE satfinite, 0xFF    sign ignored; 0 and 2^-127 and less are 0x00

Source: PTX ISA 9.1, cvt; evidence DOCUMENTED but for what `relu` makes of -0 (`RELU_ZERO`), which is
measured on H200 for e4m3x2, e5m2x2 and f16x2, recording h200-2026-11-30/alu.json, and taken over for the others.
"""

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import (
    BFLOAT16,
    E2M1FN,
    E2M3FN,
    E3M2FN,
    E4M3FN,
    E5M2,
    E8M0FNU,
    FLOAT16,
    FLOAT32,
    FloatFormat,
)
from tileproof.oracle.packing import pack_pair, unpack_words
from tileproof.oracle.refusal import Refusal

Words = npt.NDArray[Any]

#: Targets of `cvt.rn.satfinite`.
NARROW = (E4M3FN, E5M2, E2M1FN, E2M3FN, E3M2FN)
#: Those that have an f16x2 source.
FROM_F16X2 = (E4M3FN, E5M2)

#: What `.relu` makes of a source of -0, and how that is known.
RELU_ZERO = (0, Evidence.MEASURED)

_E8M0_NAN = np.uint8(E8M0FNU.nan_code)
_E8M0_MAX = np.uint8(E8M0FNU.max_code)


class ScaleRounding(Enum):
    """The two directions of `cvt....ue8m0x2`; the value is the qualifier."""

    TOWARD_ZERO = "rz"
    UP = "rp"


def cvt_from_f32(record: FloatFormat, a: npt.ArrayLike, b: npt.ArrayLike, *, relu: bool = False) -> Words:
    """`cvt.rn.satfinite{.relu}.<record>x2.f32 d, a, b`.

    Args:
        record: E4M3FN, E5M2, E2M1FN, E2M3FN or E3M2FN.
        a: float32 bits, uint32; becomes the upper half.
        b: float32 bits, uint32, the same shape; becomes the lower half.
        relu: negative sources become 0, a NaN what it becomes anyway.

    Returns:
        uint16 of that shape; uint8 for E2M1FN.

    Raises:
        Refusal: another format, or sources that are not uint32 bits of one shape.
    """
    _require_target(record, NARROW, "f32")
    upper, lower = _bits(a, np.uint32, "a"), _bits(b, np.uint32, "b")
    return pack_pair(
        _encode(record, upper.view(np.float32), relu), _encode(record, lower.view(np.float32), relu), record
    )


def cvt_from_f16x2(record: FloatFormat, a: npt.ArrayLike, *, relu: bool = False) -> Words:
    """`cvt.rn.satfinite{.relu}.<record>x2.f16x2 d, a`: each half to the half of d in the same place.

    Args:
        record: E4M3FN or E5M2.
        a: two float16, uint32.
        relu: as in `cvt_from_f32`.

    Returns:
        uint16 of the same shape.

    Raises:
        Refusal: another format or type.
    """
    _require_target(record, FROM_F16X2, "f16x2")
    upper, lower = _halves(_bits(a, np.uint32, "a"))
    return pack_pair(
        _encode(record, upper.view(np.float16), relu), _encode(record, lower.view(np.float16), relu), record
    )


def cvt_to_f16x2(record: FloatFormat, a: npt.ArrayLike, *, relu: bool = False) -> npt.NDArray[np.uint32]:
    """`cvt.rn{.relu}.f16x2.<record>x2 d, a`: exact; every NaN is 0x7FFF.

    Args:
        record: E4M3FN, E5M2, E2M1FN, E2M3FN or E3M2FN.
        a: two codes, uint16 (uint8 for E2M1FN).
        relu: negative codes become 0.

    Returns:
        Two float16, uint32 of the same shape.

    Raises:
        Refusal: another format or type, or unused bits of a 6-bit slot that are set.
    """
    _require_target(record, NARROW, "f16x2")
    words = _bits(a, np.uint8 if record is E2M1FN else np.uint16, "a")
    codes = unpack_words(words[..., np.newaxis].view(np.uint8), record)
    values = record.decode(codes)
    halves = FLOAT16.encode(_relu(values) if relu else values, overflow="inf").astype(np.uint32)
    return np.asarray(halves[..., 0] | halves[..., 1] << np.uint32(16))


def cvt_to_ue8m0x2(rounding: ScaleRounding, a: npt.ArrayLike, b: npt.ArrayLike, *, satfinite: bool) -> Words:
    """`cvt.{rz,rp}{.satfinite}.ue8m0x2.f32 d, a, b`, on magnitudes.

    Args:
        rounding: toward zero, or up.
        a: float32 bits, uint32; becomes the upper half.
        b: float32 bits, uint32, the same shape.
        satfinite: infinity, and what rounds up beyond 2^127, becomes 0xFE, else 0xFF. NaN is 0xFF either way.

    Returns:
        uint16 of that shape.

    Raises:
        Refusal: sources that are not uint32 bits of one shape.
    """
    upper, lower = _bits(a, np.uint32, "a"), _bits(b, np.uint32, "b")
    return pack_pair(scale_code(rounding, upper, satfinite), scale_code(rounding, lower, satfinite), E8M0FNU)


def cvt_bf16x2_to_ue8m0x2(rounding: ScaleRounding, a: npt.ArrayLike, *, satfinite: bool) -> Words:
    """`cvt.{rz,rp}{.satfinite}.ue8m0x2.bf16x2 d, a`; as `cvt_to_ue8m0x2` on each half, widened exactly.

    Args:
        rounding: toward zero, or up.
        a: two bfloat16, uint32.
        satfinite: as in `cvt_to_ue8m0x2`.
    """
    word = _bits(a, np.uint32, "a")
    upper, lower = np.asarray(word & np.uint32(0xFFFF0000)), np.asarray(word << np.uint32(16))
    return pack_pair(scale_code(rounding, upper, satfinite), scale_code(rounding, lower, satfinite), E8M0FNU)


def cvt_ue8m0x2_to_bf16x2(a: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """`cvt.rn.bf16x2.ue8m0x2 d, a`: exact; 0x00 is 2^-127 (0x0040, a subnormal), 0xFF is 0x7FFF.

    Args:
        a: two codes, uint16.
    """
    codes = unpack_words(_bits(a, np.uint16, "a")[..., np.newaxis].view(np.uint8), E8M0FNU)
    halves = BFLOAT16.encode(E8M0FNU.decode(codes), overflow="inf").astype(np.uint32)
    return np.asarray(halves[..., 0] | halves[..., 1] << np.uint32(16))


def cvt_to_bf16x2(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """`cvt.rn.bf16x2.f32 d, a, b`: NaN is 0x7FFF, an overflow infinity.

    Args:
        a: float32 bits, uint32; becomes the upper half.
        b: float32 bits, uint32, the same shape.
    """
    upper, lower = _bits(a, np.uint32, "a"), _bits(b, np.uint32, "b")
    codes = [BFLOAT16.encode(s.view(np.float32), overflow="inf").astype(np.uint32) for s in (upper, lower)]
    return np.asarray(codes[0] << np.uint32(16) | codes[1])


def scale_code(rounding: ScaleRounding, bits: npt.NDArray[np.uint32], satfinite: bool) -> npt.NDArray[np.uint8]:
    """The ue8m0 code of each float32's magnitude.

    The code of 2^k is k + 127, the exponent field of that float32; code 0 is 2^-127, the float32 0x00400000. So a
    normal magnitude rounds up where any mantissa bit is set, a subnormal one where it is above 0x00400000.
    """
    magnitude = bits & np.uint32(FLOAT32.magnitude_mask)
    code = magnitude >> np.uint32(23)
    require_member(ScaleRounding, "rounding", rounding)
    if rounding is ScaleRounding.UP:
        mantissa = magnitude & np.uint32(0x7FFFFF)
        code = code + np.where(code == 0, mantissa > 0x400000, mantissa != 0)
    beyond = _E8M0_MAX if satfinite else _E8M0_NAN
    code = np.where((magnitude == FLOAT32.top_field) | (code > _E8M0_MAX), beyond, code)
    return np.where(magnitude > FLOAT32.top_field, _E8M0_NAN, code).astype(np.uint8)


def _encode(record: FloatFormat, values: Words, relu: bool) -> Words:
    return record.encode(_relu(values) if relu else values)


def _relu(values: Words) -> Words:
    """Negative values as 0; a NaN stays, whatever its sign."""
    with np.errstate(invalid="ignore"):
        return np.where(values <= 0, values.dtype.type(RELU_ZERO[0]), values)


def _halves(words: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    return (words >> np.uint32(16)).astype(np.uint16), (words & np.uint32(0xFFFF)).astype(np.uint16)


def _bits(source: npt.ArrayLike, dtype: type[np.unsignedinteger[Any]], name: str) -> Words:
    array = np.asarray(source)
    if array.dtype != dtype:
        raise Refusal(
            f"operand {name} has type {array.dtype}; the instruction takes {np.dtype(dtype)} bits",
            hint="view the values as unsigned integers",
        )
    return np.ascontiguousarray(array).reshape(array.shape)


def _require_target(record: FloatFormat, known: tuple[FloatFormat, ...], other: str) -> None:
    if record not in known:
        names = ", ".join(target.name for target in known)
        raise Refusal(f"PTX ISA 9.1 has no cvt between {record.name}x2 and {other}", hint=f"it has {names}")
