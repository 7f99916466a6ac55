"""INT8 quantisation of rows: symmetric, and affine with a zero point.

Symmetric, with a `ScaleRule` of norm 127:       q = clamp(round(x · inverse), lowest, 127)
Affine, every operation one float32 operation:   scale = (max - min) / 255
                                                 zero  = round(-128 - min / scale)
                                                 q = clamp(round(x · (1 / scale)) + zero, -128, 127)

round is to the nearest integer, ties to even (PTX `cvt.rni`; Python's round) or away from zero (C's roundf); NaN
becomes 0 (PTX ISA 9.1, cvt: float to integer). `lowest` is -128, or -127 for codes whose negation is a code. A value is
about scale · (q - zero). Example, ±127 and rows with amax 127: 0.5 and 1.5 become 0 and 2, ties away 1 and 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.numbers.float32 import ONE, add, divide, float32_code, multiply
from tileproof.oracle.numbers.float32_array import Float32s, require_subnormals
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scaling.blocks import PER_ROW, Granularity, block_amax, require_matrix, spread_blocks
from tileproof.oracle.scaling.scale_rule import VLLM_INT8, ScaleRule, amax_of, scale_of, scaled
from tileproof.oracle.scaling.scale_rule_array import Scales, scaled_values, scales_of

#: The largest code.
HIGHEST = 127
_LEVELS = 255
_INT32 = 2**31


class Ties(Enum):
    """Where a value halfway between two integers goes."""

    EVEN = "to the even integer"
    AWAY = "away from zero"


@dataclass(frozen=True, kw_only=True)
class Int8Rule:
    """A symmetric quantiser.

    Raises:
        Refusal: a lowest code other than -127 and -128, or ties that are no `Ties`.
    """

    name: str
    scale: ScaleRule
    lowest: int = -128
    ties: Ties = Ties.EVEN
    source: str
    evidence: Evidence = Evidence.DOCUMENTED

    def __post_init__(self) -> None:
        require_member(Ties, f"{self.name}: ties", self.ties)
        if self.lowest not in (-127, -128):
            raise Refusal(f"{self.name}: the lowest code {self.lowest} is neither -127 nor -128")


#: Its conversion, cvt.rni.sat.s8.f32, could give -128, but x · (127 / amax) is never below about -127.
VLLM_SYMMETRIC = Int8Rule(name="vLLM int8 tokens", scale=VLLM_INT8, source=VLLM_INT8.source)
VLLM_AFFINE_SOURCE = (
    "vllm-project/vllm csrc/quantization/w8a8/int8/scaled_quant.cu @180df48e, dynamic_scaled_int8_azp_quant_kernel"
)


@dataclass(frozen=True, eq=False)
class Int8Blocks:
    """The result of `quantize_int8`."""

    #: int8 [T, K].
    codes: npt.NDArray[np.int8]
    #: float32 [blocks of rows, blocks of columns].
    scales: Float32s


@dataclass(frozen=True, eq=False)
class AffineRows:
    """The result of `quantize_affine`."""

    #: int8 [T, K].
    codes: npt.NDArray[np.int8]
    #: float32 [T].
    scales: Float32s
    #: int32 [T]: the code of 0, which may lie outside -128 .. 127 where the row does not span 0.
    zeros: npt.NDArray[np.int32]


def quantize_int8_block(block: Sequence[Number], rule: Int8Rule) -> tuple[list[int], int]:
    """The definition, on the elements of one block: exact numbers that float32 can hold.

    Returns:
        The codes, and the float32 bit pattern of the scale.
    """
    scale = scale_of(rule.scale, amax_of(rule.scale, block))
    values = (scaled(rule.scale, x, scale) for x in block)
    return [_clamp(round_integer(value, rule.ties), rule.lowest) for value in values], float32_code(scale.step)


def round_integer(number: Number, ties: Ties) -> int:
    """The nearest integer, cut to the ends of int32 (PTX `cvt.rni.s32.f32` saturates); NaN is 0."""
    require_member(Ties, "ties", ties)
    if number.is_nan:
        return 0
    if not number.is_finite:
        return -_INT32 if number.negative else _INT32 - 1
    whole = round(number.value) if ties is Ties.EVEN else _half_away(number.value)
    return min(max(whole, -_INT32), _INT32 - 1)


def quantize_int8(
    x: npt.NDArray[np.generic], rule: Int8Rule = VLLM_SYMMETRIC, granularity: Granularity = PER_ROW
) -> Int8Blocks:
    """Quantises each block of x symmetrically; held to `quantize_int8_block`.

    Args:
        x: bfloat16, float16 or float32 [T, K], T >= 1 where a block spans all rows, K >= 1.
        rule: scale, lowest code and ties.
        granularity: the extents of a block.

    Raises:
        Refusal: another type or rank, no element in a block, or a process that flushes subnormals.
    """
    wide = require_matrix(x, "quantize_int8")
    if wide.shape[0] == 0 and granularity.rows is None:
        raise Refusal("x has T = 0 rows; a block of all rows needs at least one to have a scale")
    require_subnormals()
    scales = scales_of(rule.scale, block_amax(rule.scale, wide, granularity))
    spread = Scales(spread_blocks(scales.steps, wide, granularity), spread_blocks(scales.inverses, wide, granularity))
    values = scaled_values(rule.scale, wide, spread)
    return Int8Blocks(np.clip(_round(values, rule.ties), rule.lowest, HIGHEST).astype(np.int8), scales.steps)


def quantize_affine_row(row: Sequence[Number]) -> tuple[list[int], int, int]:
    """The definition on one row of finite numbers and NaN, which are skipped.

    Returns:
        The codes, the float32 bit pattern of the scale, and the zero point.

    Raises:
        Refusal: a row without two different finite numbers, or whose range is no finite float32, or with an infinity.
    """
    finite = [x for x in row if x.is_finite]
    if any(not x.is_finite and not x.is_nan for x in row) or not finite:
        raise Refusal("a row with an infinity, or of NaN alone, has no range", hint="clip the values first")
    low, high = min(finite, key=lambda x: x.value), max(finite, key=lambda x: x.value)
    scale = divide(add(high, -low), Number.of(_LEVELS))
    if scale.is_zero or not scale.is_finite:
        raise _no_scale("a row", float(low.value), float(high.value), float(scale.magnitude))
    zero = round_integer(add(Number.of(-128), -divide(low, scale)), Ties.EVEN)
    inverse = divide(ONE, scale)
    codes = [_clamp(_wrap(round_integer(multiply(x, inverse), Ties.EVEN) + zero), -128) for x in row]
    return codes, float32_code(scale), zero


def quantize_affine(x: npt.NDArray[np.generic]) -> AffineRows:
    """Quantises each row with a zero point, as vLLM's kernel; held to `quantize_affine_row`.

    Args:
        x: bfloat16, float16 or float32 [T, K], K >= 1.

    Raises:
        Refusal: another type or rank, a row without a finite scale above 0, or a process that flushes subnormals.
    """
    wide = require_matrix(x, "quantize_affine")
    require_subnormals()
    low, high = np.fmin.reduce(wide, axis=1), np.fmax.reduce(wide, axis=1)
    with np.errstate(all="ignore"):
        scales = (high - low) / np.float32(_LEVELS)
        bad = np.flatnonzero(~(np.isfinite(scales) & (scales > 0)))
        if bad.size:
            row = int(bad[0])
            raise _no_scale(f"row {row}", float(low[row]), float(high[row]), float(scales[row]))
        zeros = _round(np.float32(-128) - low / scales, Ties.EVEN)
        values = _round(wide * (np.float32(1) / scales)[:, np.newaxis], Ties.EVEN)
    sums = (values + zeros[:, np.newaxis] + _INT32) % (2 * _INT32) - _INT32
    return AffineRows(np.clip(sums, -128, HIGHEST).astype(np.int8), scales, zeros.astype(np.int32))


def _round(values: Float32s, ties: Ties) -> npt.NDArray[np.int64]:
    """`round_integer` on arrays. Half-away adds a half in float64, which is exact for float32 of that size."""
    wide = np.where(np.isnan(values), np.float32(0), values).astype(np.float64)
    rounded = np.rint(wide) if ties is Ties.EVEN else np.trunc(wide + np.copysign(0.5, wide))
    return np.clip(rounded, -_INT32, _INT32 - 1).astype(np.int64)


def _half_away(value: Fraction) -> int:
    away = (2 * abs(value) + 1) // 2
    return int(-away if value < 0 else away)


def _no_scale(row: str, low: float, high: float, scale: float) -> Refusal:
    return Refusal(
        f"{row} from {low!r} to {high!r} has scale {scale!r}",
        hint="the zero point min / scale is defined for a finite scale above 0; clip or pad the row first",
    )


def _wrap(value: int) -> int:
    return (value + _INT32) % (2 * _INT32) - _INT32


def _clamp(value: int, lowest: int) -> int:
    return min(max(value, lowest), HIGHEST)
