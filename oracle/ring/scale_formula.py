"""From a largest magnitude (amax) to the float32 scale of an FP8 operand, as AstrAI's delayed scaling defines it.

Two places compute it, and they round differently. In both, 2^margin is headroom and 1e-12 (the float32 0x2B8CBCCC) the
smallest scale; FP8_MAX is 448 (E4M3FN) or 57,344 (E5M2).

    fold, in the quantise kernel   max(peak / FP8_MAX / 2^margin, 1e-12): divisions; fmaxf drops a NaN
    seed, on the host              a = clamp_min(amax, 1e-12); clamp_min(a / FP8_MAX / 2^margin, 1e-12): a NaN stays.
                                   PyTorch divides a CUDA tensor by a number as a · (1 / FP8_MAX), the inverse rounded
                                   first; on CPU tensors it divides

Example, E4M3FN, margin 0, amax 3: 3 / 448 rounds to 0x3BDB6DB7, 3 · (1 / 448) to 0x3BDB6DB8. Of the 2^23 mantissas
4,593,760 differ so, by one unit in the last place, for either format: a seed scale is not the scale that a fold of the
same amax publishes. Both are then reciprocals of a step: codes are x · (1 / scale), that inverse rounded to float32.

The two written forms of the margin, `ldexpf(q, -margin)` of the seed version and `q / 2^margin` later, agree where
2^margin and 2^-margin are normal, |margin| <= 126; other margins are refused. Subnormals never decide: a quotient below
1e-12 is replaced.

Sources: 0z5a/AstrAI csrc/kernels/fp8/gemm.cuh and astrai/extension/fp8.py (ring era), csrc/gemm/fp8_ring.h @ddfa813d;
PyTorch aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu. The host's product is measured on an H200 (PyTorch 2.11.0, all
2^23 mantissas, both formats: 0 differ from the product). AstrAI compiles its kernels with --use_fast_math and spells
the fold's division `__fdiv_rn` in the seed version only; later a plain `/` may be approximate there. This file means
the IEEE quotient.
"""

from enum import Enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.formats import E4M3FN, E5M2, FLOAT32, FloatFormat
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

Float32s = npt.NDArray[np.float32]

#: Margins whose power of two and its inverse are normal float32.
MARGIN_LIMIT = 126

_FORMATS = (E4M3FN, E5M2)


class HostDivision(Enum):
    """How the host divides by FP8_MAX when it seeds; the value says it in words."""

    RECIPROCAL = "a product with the rounded inverse (PyTorch, CUDA tensors)"
    QUOTIENT = "a division (PyTorch, CPU tensors)"


def float32(number: Number) -> Number:
    """The float32 nearest to a number, ties to even, overflow to infinity."""
    return FLOAT32.number(float32_bits(number))


def float32_bits(number: Number) -> int:
    """The bit pattern of `float32(number)`; a NaN is the canonical one, 0x7FFFFFFF."""
    return FLOAT32.round(number, Rounding.NEAREST_EVEN, Overflow.INF)


#: The smallest scale, 1e-12 in float32.
FLOOR = float32(Number.of(Fraction(1, 10**12)))


def published_scale(peak: Number, target: FloatFormat, margin: int = 0) -> Number:
    """The definition: the scale that a fold publishes for the largest amax of its window.

    Args:
        peak: a float32, not negative; infinity gives an infinite scale, NaN the floor.
        target: E4M3FN or E5M2.
        margin: headroom in powers of two.

    Raises:
        Refusal: another format, |margin| > 126, or a negative peak.
    """
    _require(target, margin, peak)
    scale = float32(float32(peak / _largest(target)) / _power_of_two(margin))
    return FLOOR if scale.is_nan or below(scale, FLOOR) else scale


def published_scales(peaks: Float32s, target: FloatFormat, margin: int = 0) -> Float32s:
    """`published_scale` of an array of peaks, any shape; held to it bit for bit.

    numpy's float32 division is one IEEE operation. The division by 2^margin is exact where the floor lets it show.

    Raises:
        Refusal: as `published_scale`.
    """
    peaks = np.asarray(peaks, np.float32)
    _require(target, margin)
    if np.any(np.signbit(peaks) & ~np.isnan(peaks)):
        raise Refusal(f"peak {peaks.min()} is negative", hint="a peak is a maximum of magnitudes")
    largest = np.float32(float(_largest(target).magnitude))
    with np.errstate(all="ignore"):
        scales = peaks / largest / np.float32(2.0**margin)
        return np.asarray(np.fmax(scales, np.float32(float(FLOOR.magnitude))))


def seed_scale(
    amax: Number, target: FloatFormat, margin: int = 0, division: HostDivision = HostDivision.RECIPROCAL
) -> Number:
    """The scale that the host computes from the first tensor that a ring sees, and dynamic scaling from each tensor.

    Args:
        amax: a float32, not negative; a NaN stays NaN.
        target: E4M3FN or E5M2.
        margin: headroom in powers of two.
        division: how the host's library divides.

    Raises:
        Refusal: as `published_scale`.
    """
    _require(target, margin, amax)
    require_member(HostDivision, "division", division)
    largest = _largest(target)
    amax = clamp_to_floor(amax)
    if division is HostDivision.RECIPROCAL:
        quotient = float32(amax * float32(Number.of(1) / largest))
    else:
        quotient = float32(amax / largest)
    return clamp_to_floor(float32(quotient / _power_of_two(margin)))


def clamp_to_floor(number: Number) -> Number:
    """PyTorch's `clamp_min(1e-12)` on a float32 tensor: a NaN stays."""
    return FLOOR if not number.is_nan and below(number, FLOOR) else number


def reciprocal(scale: Number) -> Number:
    """The multiplier of a scale: 1 / scale in float32; 0 for an infinite scale, NaN for NaN."""
    return float32(Number.of(1) / scale)


def reciprocals(scales: Float32s) -> Float32s:
    """`reciprocal` of an array."""
    with np.errstate(all="ignore"):
        return np.float32(1) / scales


def below(a: Number, b: Number) -> bool:
    """Whether a < b, for numbers that are neither negative nor NaN."""
    return a.is_finite and (not b.is_finite or a.magnitude < b.magnitude)


def _require(target: FloatFormat, margin: int, amax: Number | None = None) -> None:
    if target not in _FORMATS:
        raise Refusal(f"{target} is no format of the scale ring", hint="use E4M3FN or E5M2")
    if abs(margin) > MARGIN_LIMIT:
        raise Refusal(
            f"margin {margin} is outside -{MARGIN_LIMIT}..{MARGIN_LIMIT}: 2^{margin} or its inverse is not normal",
            hint="the margin counts powers of two of headroom; 0 is usual",
        )
    if amax is not None and amax.negative and not amax.is_nan:
        raise Refusal(f"amax -{amax.magnitude} is negative", hint="an amax is a maximum of magnitudes")


def _largest(target: FloatFormat) -> Number:
    return target.number(target.max_code)


def _power_of_two(exponent: int) -> Number:
    return Number.of(Fraction(2) ** exponent)
