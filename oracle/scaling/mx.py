"""MX quantisation: 32 elements of a row share one E8M0 scale, a power of two that scales without rounding.

Which power of two is the projects' choice; the OCP procedure is a recommendation, so all conform and give different
bytes. With emax the exponent of the element format's largest value (E4M3: 448 = 1.75 · 2^8, emax 8) and m its mantissa
bits, the scale is 2^e with

    FLOOR    floor(log2 amax) - emax                               OCP MX 1.0, section 6.3; microxcaling; torchao FLOOR
    CEIL     ceil(log2 amax) - emax                                torchao CEIL
    EVEN     floor(log2 (amax rounded half up to m bits)) - emax   AMD Quark even_round; torchao EVEN
    RCEIL    ceil(log2 (amax · round(1 / max)))                    NVIDIA (cuBLAS block scaling); torchao RCEIL

clipped to -127 .. 127. Example, E4M3 and amax = 500 = 1.953 · 2^8: FLOOR gives e = 0 (500 saturates to 448), the other
three give 1: 500 is above 2^8, 1.953 rounds to 2, 500/448 is above 1. For amax = 957 FLOOR gives 1: 448 · 2 = 896.

A block of zeros has scale code 0 (2^-127). One with a NaN or an infinity has scale code 0xFF, and all its elements are
the element format's NaN code (torchao: a NaN scale makes every product NaN).

Source of the formulas: pytorch/ao torchao/prototype/mx_formats/mx_tensor.py @050515e8; evidence DOCUMENTED.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.formats import E2M1FN, E2M3FN, E3M2FN, E4M3FN, E5M2, E8M0FNU, FLOAT32, FloatFormat
from tileproof.oracle.numbers.convert import floor_log2
from tileproof.oracle.numbers.float32 import ONE, divide, multiply
from tileproof.oracle.numbers.float32_array import Float32s, require_subnormals, widen
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

#: Elements that share a scale (OCP MX 1.0, table 1).
BLOCK = 32
#: Formats of the elements.
ELEMENTS = (E4M3FN, E5M2, E2M1FN, E2M3FN, E3M2FN)

_BIAS = E8M0FNU.bias
_NAN = E8M0FNU.nan_code
_MANTISSA = np.uint32(0x7FFFFF)


class MxScale(Enum):
    """How the shared exponent is chosen; the value says it in words."""

    FLOOR = "largest power of two not above amax, over that of the element maximum"
    CEIL = "smallest power of two not below amax, over that of the element maximum"
    EVEN = "as FLOOR, after amax is rounded to the element's mantissa"
    RCEIL = "smallest power of two not below amax / element maximum"


@dataclass(frozen=True, eq=False)
class MxBlocks:
    """The result of `quantize_mx`."""

    #: Element codes, uint8 [..., K], one right-aligned code a byte.
    codes: npt.NDArray[np.uint8]
    #: E8M0 codes, uint8 [..., K / 32].
    scales: npt.NDArray[np.uint8]


def mx_scale_code(mode: MxScale, element: FloatFormat, amax: Number) -> int:
    """The definition: the E8M0 code of a block whose largest magnitude is the float32 number `amax`."""
    require_member(MxScale, "mode", mode)
    if not amax.is_finite:
        return _NAN
    if amax.is_zero:
        return 0
    if mode is MxScale.RCEIL:
        descale = multiply(amax, divide(ONE, _largest(element)))
        return 0 if descale.is_zero else E8M0FNU.round(descale, Rounding.UP, Overflow.NAN)
    exponent = floor_log2(amax.magnitude)
    if mode is MxScale.CEIL:
        exponent += amax.magnitude > Fraction(2) ** exponent
    if mode is MxScale.EVEN:
        half = Fraction(2) ** (exponent - element.mantissa_bits - 1)
        exponent += amax.magnitude + half >= Fraction(2) ** (exponent + 1)
    return max(exponent - _emax(element) + _BIAS, 0)


def quantize_mx_block(block: Sequence[Number], mode: MxScale, element: FloatFormat) -> tuple[list[int], int]:
    """The definition, on the elements of one block: exact numbers that float32 can hold.

    Returns:
        The element codes and the E8M0 code.
    """
    special = next((x for x in block if not x.is_finite), None)
    amax = special or max((abs(x) for x in block), key=lambda x: x.magnitude)
    code = mx_scale_code(mode, element, amax)
    if code == _NAN:
        return [element.nan_code] * len(block), code
    return [element.round(x / E8M0FNU.number(code)) for x in block], code


def quantize_mx(x: npt.NDArray[np.generic], mode: MxScale, *, element: FloatFormat = E4M3FN) -> MxBlocks:
    """Quantises the last axis in blocks of 32; held to `quantize_mx_block` bit for bit.

    Scaling is exact: float64 holds a float32 times 2^-127 .. 2^127, so the only rounding is that of the element.

    Args:
        x: bfloat16, float16 or float32 [..., K], K a multiple of 32.
        mode: how the shared exponent is chosen.
        element: a format of `ELEMENTS`.

    Raises:
        Refusal: another type, mode, K or element format, or a process that flushes subnormals.
    """
    array = np.asarray(x)
    require_member(MxScale, "mode", mode)
    if element not in ELEMENTS:
        names = ", ".join(known.name for known in ELEMENTS)
        raise Refusal(f"{element.name} is no element format of MX", hint=f"MX has {names}")
    if array.ndim == 0 or array.shape[-1] % BLOCK:
        raise Refusal(
            f"x has shape {array.shape}; its last axis is no multiple of {BLOCK}", hint="pad the last axis with zeros"
        )
    require_subnormals()
    wide = np.ascontiguousarray(widen(array, "x of quantize_mx"))
    blocks = wide.reshape(*wide.shape[:-1], wide.shape[-1] // BLOCK, BLOCK)
    amax = (blocks.view(np.uint32) & np.uint32(FLOAT32.magnitude_mask)).max(axis=-1, initial=0)
    scales = _scale_codes(mode, element, amax)
    with np.errstate(invalid="ignore"):
        scaled = np.ldexp(blocks.astype(np.float64), _BIAS - scales[..., np.newaxis].astype(np.int32))
    codes = np.where(scales[..., np.newaxis] == _NAN, np.uint8(element.nan_code), element.encode(scaled))
    return MxBlocks(codes.reshape(wide.shape), scales)


def dequantize_mx(blocks: MxBlocks, *, element: FloatFormat = E4M3FN) -> npt.NDArray[np.float64]:
    """The values that MX codes stand for, exactly: element · 2^e, NaN where the scale is NaN."""
    scales = np.repeat(E8M0FNU.decode(blocks.scales), BLOCK, axis=-1)
    return np.asarray(element.decode(blocks.codes) * scales)


def _scale_codes(mode: MxScale, element: FloatFormat, amax: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """`mx_scale_code` on float32 bit patterns of magnitudes.

    A subnormal amax counts as 2^-127 here; whatever its exponent, the result is clipped to code 0, as emax >= 2.
    """
    if mode is MxScale.RCEIL:
        code = _rceil(amax.view(np.float32), element).astype(np.int64)
    else:
        bits = amax.astype(np.int64)
        if mode is MxScale.EVEN:
            bits = bits + (1 << (22 - element.mantissa_bits))
        code = (bits >> 23) - _emax(element)
        if mode is MxScale.CEIL:
            code = code + ((amax & _MANTISSA) != 0)
    return np.where(amax >= FLOAT32.top_field, _NAN, np.maximum(code, 0)).astype(np.uint8)


def _rceil(amax: Float32s, element: FloatFormat) -> npt.NDArray[np.uint32]:
    largest = np.float32(element.decode(element.max_code))
    with np.errstate(all="ignore"):
        bits = (amax * (np.float32(1) / largest)).view(np.uint32)
    field, mantissa = bits >> np.uint32(23), bits & _MANTISSA
    return np.asarray(field + np.where(field == 0, mantissa > 0x400000, mantissa != 0))


def _largest(element: FloatFormat) -> Number:
    return element.number(element.max_code)


def _emax(element: FloatFormat) -> int:
    return floor_log2(_largest(element).magnitude)
