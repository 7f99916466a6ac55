"""Per-row (per-token) FP8 quantisation as ninfer defines it: one float32 scale a row, E4M3FN codes.

For one row x of K elements (bf16, fp16 or float32; exact in float32), every operation one float32 operation rounded to
nearest even with subnormals kept:

    amax    = max |x[k]|, NaN dropped (CUDA fmaxf), 0 for a row of NaN
    scale   = amax / 448           0 where amax = 0
    inverse = 1 / scale            0 where scale = 0
    code[k] = E4M3FN(x[k] · inverse), nearest even, saturating, NaN -> 0x7F (PTX cvt.rn.satfinite.e4m3x2.f32)

Example: x = [1, 3]. scale = 3/448 is 0x1.b6db6ep-8, inverse is 0x1.2aaaaap+7 (149.333328), the products are 149.333328
and 448 (a tie, 0x1.bfffffp+8, to even), the codes 0x71 (144) and 0x7E (448).

What the formula gives at its edges, declared here and covered by tests:

    all zero, or zero and NaN    scale 0, inverse 0: zeros keep their sign, NaN is 0x7F
    amax = Inf                   scale Inf, inverse 0: finite elements become ±0, infinite ones 0x7F (Inf · 0)
    amax <= 224 · 2^-149         the scale rounds to 0, so inverse 0: every finite element becomes ±0
    scale <= 2^-128              inverse Inf (amax below about 1.3e-36): nonzero elements saturate to ±448, and ±0 is
                                 0x7F (0 · Inf)

A multiplication by the rounded inverse is not a division by the scale: codes differ by one where the two round apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import E4M3FN, FLOAT32
from tileproof.oracle.number import Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.rounding import Overflow, Rounding

#: The divisor of amax: the largest finite E4M3FN value, 448.
MAX_NORM = int(E4M3FN.number(E4M3FN.max_code).magnitude)

#: The types that a row may have.
INPUT_DTYPES = (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32))

_ZERO = Number.of(0)
_INFINITY_BITS = np.uint32(FLOAT32.top_field)


@dataclass(frozen=True, eq=False)
class QuantizedRows:
    """The result of `quantize_rows`."""

    #: E4M3FN codes, uint8 [T, K].
    codes: npt.NDArray[np.uint8]
    #: float32 [T].
    scales: npt.NDArray[np.float32]


def quantize_row(row: Sequence[Number]) -> tuple[list[int], int]:
    """The definition, on one row of exact numbers that float32 can hold.

    Returns:
        The E4M3FN codes of the row, and the float32 bit pattern of its scale.
    """
    amax = max((abs(x) for x in row if not x.is_nan), key=_order, default=_ZERO)
    scale = _float32(amax / Number.of(MAX_NORM))
    inverse = _ZERO if scale.is_zero else _float32(Number.of(1) / scale)
    return [E4M3FN.round(_float32(x * inverse)) for x in row], _float32_code(scale)


def quantize_rows(x: npt.NDArray[np.generic]) -> QuantizedRows:
    """Quantises each row of x; held to `quantize_row` bit for bit.

    The float32 operations are numpy's: division and multiplication of two float32 arrays are single IEEE operations of
    the processor, which round correctly unless the process was switched to flush subnormals; that is checked first. The
    tests hold all three to exact arithmetic. The maximum is taken on bit patterns, whose order is that of non-negative
    floats.

    Args:
        x: bfloat16, float16 or float32 [T, K], T >= 0, K >= 1.

    Raises:
        Refusal: another type or rank, K = 0, or a process that flushes subnormals.
    """
    wide = _widen(np.asarray(x))
    _require_subnormals()
    bits = wide.view(np.uint32) & np.uint32(FLOAT32.magnitude_mask)
    amax = np.where(bits > _INFINITY_BITS, np.uint32(0), bits).max(axis=1, initial=0).view(np.float32)
    with np.errstate(all="ignore"):
        scales = amax / np.float32(MAX_NORM)
        inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
        products = wide * inverse[:, np.newaxis]
    return QuantizedRows(E4M3FN.encode(products), scales)


def _widen(x: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """x as float32, exactly."""
    if x.ndim != 2:
        raise Refusal(f"x has shape {x.shape}; quantize_rows takes rank 2, [T, K]")
    if x.shape[1] == 0:
        raise Refusal("x has K = 0 columns; a row needs at least one element to have a scale")
    if x.dtype.newbyteorder("=") not in INPUT_DTYPES:
        raise Refusal(f"x has type {x.dtype}", hint="quantize_rows takes bfloat16, float16 or float32")
    if x.dtype.itemsize == 4:
        return x.astype(np.float32, copy=False)
    return FLOAT32.encode(x, overflow="inf").view(np.float32)


def _require_subnormals() -> None:
    """Refuses a process whose float32 operations flush subnormals (a library built with -ffast-math can cause that)."""
    smallest = np.array([1], np.uint32).view(np.float32)
    if not (smallest * np.float32(1)).view(np.uint32)[0]:
        raise Refusal(
            "this process flushes subnormal floats to zero, so float32 results would be wrong",
            hint="find the library that sets FTZ/DAZ (often one built with -ffast-math) and do not load it here",
        )


def _order(number: Number) -> tuple[bool, Fraction]:
    return not number.is_finite, number.magnitude


def _float32_code(number: Number) -> int:
    return FLOAT32.round(number, Rounding.NEAREST_EVEN, Overflow.INF)


def _float32(number: Number) -> Number:
    return FLOAT32.number(_float32_code(number))
