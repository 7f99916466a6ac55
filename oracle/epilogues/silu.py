"""silu(x) = x / (1 + expf(-x)) in float32: not one result but a set, because expf is not defined to the bit.

CUDA's expf goes through ex2.approx; its manual gives a largest error in ulps, not the bits. So the definition is a
bracket: with E = exp(-x) exactly, expf may return any float32 within the error of E; 1 + that and the division round
once and never reverse an order, so the results lie between those of the two ends.

Example, x = 1: E = 0.36787944.., one ulp is 2^-25; with an error of 2 ulps expf lies in 0x1.78b560p-2 .. 0x1.78b566p-2
and silu in 0x1.764d4ep-1 .. 0x1.764d50p-1, which are all the bfloat16 0.73046875.

exp is computed by `decimal`, which rounds correctly, to 40 digits; the bracket allows for the last ten.
"""

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from math import floor

import numpy as np

from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import BFLOAT16, FLOAT32
from tileproof.oracle.numbers.convert import floor_log2
from tileproof.oracle.numbers.float32 import ONE, add, divide
from tileproof.oracle.numbers.float32_array import Float32s
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding

Bracket = tuple[Number, Number]

_CONTEXT = Context(prec=40)
_SLACK = Fraction(1, 10**30)
#: Beyond this |x| float32 has no place for exp(x) or exp(-x).
_FAR = 200
#: Below this |x|, 1 + x is exp(x) to a part in 2^120.
_NEAR = Fraction(1, 2**60)


@dataclass(frozen=True, kw_only=True)
class SiluRule:
    """How far the operations of silu may err."""

    name: str
    #: Largest error of the exponential in ulps of its exact value, and what each unit of |x| adds before flooring.
    exp_ulps: int
    exp_ulps_per_x: Fraction = Fraction(0)
    #: Largest error of the division in ulps of its correctly rounded result; 0 for an IEEE division.
    division_ulps: int = 0
    source: str
    #: A manual's error figures come from tests that it calls extensive, not exhaustive, so they are no guarantee.
    evidence: Evidence = Evidence.INFERRED

    def ulps(self, x: Fraction) -> int:
        """The largest error of the exponential at x."""
        return self.exp_ulps + floor(self.exp_ulps_per_x * abs(x))


CUDA_SILU = SiluRule(
    name="expf, IEEE division",
    exp_ulps=2,
    source="CUDA C++ Programming Guide, mathematical functions: expf 2 ulp over the full range; formula "
    "x / (1 + expf(-x)) of ninfer's SwiGLU output policy (stored id 70734351477)",
)
CUDA_FAST_SILU = SiluRule(
    name="__expf, approximate division",
    exp_ulps=2,
    exp_ulps_per_x=Fraction(1173, 1000),
    division_ulps=2,
    source="CUDA C++ Programming Guide, intrinsic functions: __expf 2 + floor(|1.173 x|) ulp, __fdividef 2 ulp",
)
#: What follows from the error of ex2.approx alone, for an expf that reduces its argument by two fused operations, as
#: CUDA 13.0's does. ex2: 2 ulp, at most 2^-22 of its result. The reduced argument is at most 1/2, so each operation
#: rounds by at most 2^-26 and exp changes by less than 2^-25 of itself. Together below 2.25 · 2^-23: 4.5 ulp.
CUDA_EX2_SILU = SiluRule(
    name="expf through ex2.approx, IEEE division",
    exp_ulps=5,
    source="PTX ISA 9.0, ex2.approx.ftz.f32: 2 ulp over the full range; the PTX of expf by NVRTC 13.0.88",
    evidence=Evidence.DOCUMENTED,
)


def exp_bracket(rule: SiluRule, x: Number) -> Bracket:
    """The smallest and the largest float32 that the exponential of x may be."""
    if x.kind is Kind.INFINITE:
        return (Number.of(0),) * 2 if x.negative else (x,) * 2
    if abs(x.value) > _FAR:
        return (Number.of(0), FLOAT32.number(1)) if x.negative else (Number(Kind.INFINITE),) * 2
    exact = _exp(x.value)
    error = rule.ulps(x.value) * Fraction(2) ** (max(floor_log2(exact), FLOAT32.min_exponent) - FLOAT32.mantissa_bits)
    low = max(exact * (1 - _SLACK) - error, Fraction(0))
    high = exact * (1 + _SLACK) + error
    return _inside(low, Rounding.UP), _inside(high, Rounding.DOWN)


def silu_bracket(rule: SiluRule, x: Number) -> Bracket:
    """The definition: the smallest and the largest float32 that silu(x) may be; both NaN for NaN and -infinity."""
    if x.is_nan:
        return x, x
    ends = [divide(x, add(ONE, end)) for end in exp_bracket(rule, -x)]
    low, high = sorted(ends, key=_order)
    return _moved(low, -rule.division_ulps), _moved(high, rule.division_ulps)


@cache
def silu_table(rule: SiluRule) -> tuple[Float32s, Float32s]:
    """The array twin: `silu_bracket` of every bfloat16, in the order of the codes, two read-only float32 [65536]."""
    x = BFLOAT16.decode(np.arange(1 << BFLOAT16.bits)).astype(np.float32)
    with np.errstate(all="ignore"):
        ends = [x / (np.float32(1) + end) for end in _exp_table(rule, x)]
    swapped = ends[0] > ends[1]
    low, high = np.where(swapped, ends[1], ends[0]), np.where(swapped, ends[0], ends[1])
    low, high = _moved_array(low, -rule.division_ulps), _moved_array(high, rule.division_ulps)
    low.flags.writeable = high.flags.writeable = False
    return low, high


def _exp_table(rule: SiluRule, x: Float32s) -> tuple[Float32s, Float32s]:
    """`exp_bracket` of -x for each x. Beyond `_FAR` the bracket depends on the sign alone.

    All |x| below 2^-27 share the bracket of their sign: exp(-x) is within 2^-26 of 1, less than half of float32's step
    below 1, so it lies between the same float32 values, and errors are whole steps.
    """
    near, far = (np.abs(x) < np.float32(2.0**-27)) & (x != 0), np.isfinite(x) & (np.abs(x) > _FAR)
    representative = np.where(near, np.copysign(np.float32(2.0**-28), x), x)
    representative = np.where(far, np.copysign(np.float32(2 * _FAR), x), representative)
    representative = np.where(np.isnan(x), np.float32(np.nan), representative)
    keys, where = np.unique(representative.view(np.uint32), return_inverse=True)
    table = np.array([_codes(rule, -FLOAT32.number(key)) for key in keys.tolist()], np.uint32)
    low, high = table[where].T.copy().view(np.float32)
    return low, high


def _codes(rule: SiluRule, x: Number) -> tuple[int, int]:
    low, high = (x, x) if x.is_nan else exp_bracket(rule, x)
    return FLOAT32.round(low, overflow=Overflow.INF), FLOAT32.round(high, overflow=Overflow.INF)


def _moved_array(values: Float32s, steps: int) -> Float32s:
    moves = np.isfinite(values) & (values != 0)
    away = np.where(np.signbit(values), -steps, steps)
    return np.where(moves, (values.view(np.int32) + away).astype(np.int32).view(np.float32), values)


def _exp(x: Fraction) -> Fraction:
    """exp(x) within a part in 10^30 of itself."""
    if abs(x) < _NEAR:
        return 1 + x
    numerator, denominator = x.as_integer_ratio()
    return Fraction(*_CONTEXT.exp(_CONTEXT.divide(Decimal(numerator), Decimal(denominator))).as_integer_ratio())


def _inside(bound: Fraction, rounding: Rounding) -> Number:
    """The float32 nearest to a bound on its inner side; infinity where the bound is beyond the largest finite value."""
    if bound > FLOAT32.number(FLOAT32.max_code).magnitude:
        return Number(Kind.INFINITE)
    return FLOAT32.number(FLOAT32.round(Number.of(bound), rounding, Overflow.INF))


def _moved(number: Number, steps: int) -> Number:
    """The float32 so many codes away, in the order of values; NaN, zero and infinity stay."""
    if not steps or number.is_nan or number.is_zero or not number.is_finite:
        return number
    code = FLOAT32.round(abs(number)) + (-steps if number.negative else steps)
    moved = FLOAT32.number(max(code, 0))
    return -moved if number.negative else moved


def _order(number: Number) -> Fraction:
    """By value, infinities outside of every float32; the two ends are equal where they are NaN."""
    beyond = Fraction(2) ** 1000
    return (-beyond if number.negative else beyond) if not number.is_finite else number.value
