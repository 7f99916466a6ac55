"""The array twin of `scale_rule`: the same formula on arrays, one numpy operation for each float32 operation."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.float32_array import Float32s
from tileproof.oracle.scaling.scale_rule import Apply, InfinityRule, NanRule, PowerOfTwo, ScaleRule, StepForm, ZeroRule

_LARGEST = np.float32(np.finfo(np.float32).max)
_ONE, _ZERO = np.float32(1), np.float32(0)
#: A GPU's arithmetic gives this NaN, a CPU's another.
_NAN = np.uint32(FLOAT32.nan_code).view(np.float32)


@dataclass(frozen=True, eq=False)
class Scales:
    """Steps and inverses of many blocks, float32 arrays of one shape."""

    steps: Float32s
    inverses: Float32s


def magnitude_bits(rule: ScaleRule, x: Float32s) -> npt.NDArray[np.uint32]:
    """Bit patterns whose maximum is that of amax: their order is that of non-negative floats, NaN above infinity."""
    bits = x.view(np.uint32) & np.uint32(FLOAT32.magnitude_mask)
    if rule.nan is NanRule.KEEP:
        return np.asarray(bits)
    return np.where(bits > FLOAT32.top_field, np.uint32(0), bits)


def scales_of(rule: ScaleRule, amax: Float32s) -> Scales:
    """The scales of blocks with these largest magnitudes; held to `scale_rule.scale_of`."""
    norm = np.float32(rule.max_norm)
    with np.errstate(all="ignore"):
        if rule.infinity is InfinityRule.CLAMP:
            amax = np.minimum(amax, _LARGEST)  # keeps NaN
        amax = np.maximum(amax, np.float32(rule.amax_floor))
        steps = amax / norm if rule.step is StepForm.DIVIDE else amax * (_ONE / norm)
        if rule.margin:
            steps = np.ldexp(steps, -rule.margin)
        if rule.power_of_two is PowerOfTwo.UP:
            steps = _powers_of_two_up(steps)
        steps = np.maximum(steps, np.float32(rule.step_floor))
        dividend, divisor = (norm, amax) if rule.apply is Apply.RATIO else (_ONE, steps)
        inverses = dividend / divisor
    if rule.zero is ZeroRule.ZERO:
        inverses = np.where(divisor == 0, _ZERO, inverses)
    if rule.zero is ZeroRule.ONE:
        inverses, steps = np.where(divisor == 0, _ONE, inverses), np.where(divisor == 0, _ONE, steps)
    return Scales(np.where(np.isnan(steps), _NAN, steps), np.asarray(inverses))


def scaled_values(rule: ScaleRule, x: Float32s, scales: Scales) -> Float32s:
    """Elements in units of their step, float32; the scales broadcast against x."""
    with np.errstate(all="ignore"):
        return np.asarray(x / scales.steps if rule.apply is Apply.DIVIDE else x * scales.inverses)


def _powers_of_two_up(steps: Float32s) -> Float32s:
    bits = steps.view(np.uint32)
    field = (bits >> np.uint32(23)) + ((bits & np.uint32(0x7FFFFF)) != 0)
    return np.asarray((np.clip(field, 1, 254).astype(np.uint32) << np.uint32(23)).view(np.float32))
