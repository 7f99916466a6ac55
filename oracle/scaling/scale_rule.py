"""How a quantiser gets its scale from the largest magnitude of a block: each choice that decides a bit is a field.

A rule is evaluated in this order, each line one float32 operation rounded to nearest even (`float32`):

    amax     = max |x|                  NaN dropped or kept; infinity as it is or as the largest finite float32
    amax     = max(amax, amax_floor)
    step     = amax / max_norm          or amax · round(1 / max_norm)
    step     = step · 2^-margin
    step     = a power of two           where the rule says so
    step     = max(step, step_floor)    this is stored
    inverse  = 1 / step                 or max_norm / amax
    scaled x = x · inverse              or x / step

Example, E4M3FN (max_norm 448), amax = 3: step 3/448 = 0x1.b6db6ep-8, inverse 0x1.2aaaaap+7. Dividing x by the step
and multiplying by the inverse give codes that differ by one where the two round apart.

The rules at the end are those of public kernels. `scale_rule_array` is the twin on arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from tileproof.oracle.arguments import require_member
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import E4M3FN, E5M2, FLOAT32, FloatFormat
from tileproof.oracle.numbers.float32 import ONE, ZERO, divide, float32, multiply
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.refusal import Refusal


class StepForm(Enum):
    """How amax becomes a step; the value says it as a formula."""

    DIVIDE = "amax / max_norm"
    MULTIPLY = "amax * round(1 / max_norm)"


class Apply(Enum):
    """How an element is scaled; the value says it as a formula."""

    INVERSE = "x * round(1 / step)"
    RATIO = "x * round(max_norm / amax)"
    DIVIDE = "x / step"


class PowerOfTwo(Enum):
    """Whether a step becomes a power of two."""

    NO = "as it is"
    #: DeepGEMM `ceil_to_ue8m0`: exponent fields 1..254.
    UP = "the smallest power of two not below, 2^-126 to 2^127"


class ZeroRule(Enum):
    """What a block gets whose divisor (the step; amax under `Apply.RATIO`) is zero."""

    ZERO = "the inverse is 0"
    ONE = "the step and the inverse are 1"
    FOLLOW = "the inverse is 1 / 0, infinity"


class NanRule(Enum):
    """What a NaN does to amax."""

    DROP = "it is skipped (CUDA fmaxf)"
    KEEP = "amax is NaN (torch.amax)"


class InfinityRule(Enum):
    """What an infinite amax is taken for."""

    FOLLOW = "infinity: the step is infinite, the inverse 0"
    CLAMP = "the largest finite float32"


@dataclass(frozen=True, kw_only=True)
class ScaleRule:
    """One way to choose a scale.

    Raises:
        Refusal: a floor that float32 cannot hold or that is negative, a division without a rule for a zero step, or a
            choice that is no member of its enumeration.
    """

    name: str
    #: What amax is mapped to: the largest finite value of the format, or of an integer type.
    max_norm: int
    step: StepForm = StepForm.DIVIDE
    apply: Apply = Apply.INVERSE
    #: The step is multiplied by 2^-margin.
    margin: int = 0
    #: Smallest amax; a float32 value.
    amax_floor: float = 0.0
    #: Smallest step; a float32 value.
    step_floor: float = 0.0
    power_of_two: PowerOfTwo = PowerOfTwo.NO
    zero: ZeroRule = ZeroRule.FOLLOW
    nan: NanRule = NanRule.DROP
    infinity: InfinityRule = InfinityRule.FOLLOW
    source: str
    evidence: Evidence = Evidence.DOCUMENTED

    def __post_init__(self) -> None:
        require_member(StepForm, f"{self.name}: step", self.step)
        require_member(Apply, f"{self.name}: apply", self.apply)
        require_member(PowerOfTwo, f"{self.name}: power_of_two", self.power_of_two)
        require_member(ZeroRule, f"{self.name}: zero", self.zero)
        require_member(NanRule, f"{self.name}: nan", self.nan)
        require_member(InfinityRule, f"{self.name}: infinity", self.infinity)
        for floor in (self.amax_floor, self.step_floor):
            if floor < 0 or float32(Number.of(Fraction(floor))) != Number.of(Fraction(floor)):
                raise Refusal(f"{self.name}: a floor of {floor!r} is no float32 value of at least 0")
        if self.apply is Apply.DIVIDE and self.zero is ZeroRule.ZERO:
            raise Refusal(f"{self.name} divides by the step and gives zero blocks an inverse", hint="use ONE or FOLLOW")


@dataclass(frozen=True)
class Scale:
    """What a block is scaled by: float32 numbers."""

    #: Stored beside the codes; a value is about code · step.
    step: Number
    #: What elements are multiplied by; not used under `Apply.DIVIDE`.
    inverse: Number


def amax_of(rule: ScaleRule, block: Sequence[Number]) -> Number:
    """The largest magnitude of a block of float32 numbers; 0 for one without numbers."""
    if rule.nan is NanRule.KEEP and any(x.is_nan for x in block):
        return Number(Kind.NAN)
    return max((abs(x) for x in block if not x.is_nan), key=_order, default=ZERO)


def scale_of(rule: ScaleRule, amax: Number) -> Scale:
    """The definition: the scale of a block whose largest magnitude is `amax`."""
    if amax.kind is Kind.INFINITE and rule.infinity is InfinityRule.CLAMP:
        amax = FLOAT32.number(FLOAT32.max_code)
    amax = larger(amax, rule.amax_floor)
    norm = Number.of(rule.max_norm)
    step = divide(amax, norm) if rule.step is StepForm.DIVIDE else multiply(amax, divide(ONE, norm))
    step = multiply(step, _power(-rule.margin))
    if rule.power_of_two is PowerOfTwo.UP:
        step = _power_of_two_up(step)
    step = larger(step, rule.step_floor)
    dividend, divisor = (norm, amax) if rule.apply is Apply.RATIO else (ONE, step)
    if divisor.is_zero and rule.zero is not ZeroRule.FOLLOW:
        return Scale(ONE, ONE) if rule.zero is ZeroRule.ONE else Scale(step, ZERO)
    return Scale(step, divide(dividend, divisor))


def scaled(rule: ScaleRule, x: Number, scale: Scale) -> Number:
    """One element in units of the step, float32."""
    return divide(x, scale.step) if rule.apply is Apply.DIVIDE else multiply(x, scale.inverse)


def larger(number: Number, floor: float) -> Number:
    """The larger of a magnitude and a floor; NaN stays."""
    return number if number.is_nan else max(number, Number.of(Fraction(floor)), key=_order)


def _order(number: Number) -> tuple[bool, Fraction]:
    return not number.is_finite, number.magnitude


def _power(exponent: int) -> Number:
    return Number.of(Fraction(2) ** exponent)


def _power_of_two_up(step: Number) -> Number:
    """Infinity and NaN have exponent field 255 and become 2^127: DeepGEMM clamps the field to 1..254."""
    if not step.is_finite:
        return _power(127)
    exponent = -126
    while exponent < 127 and Fraction(2) ** exponent < step.magnitude:
        exponent += 1
    return _power(exponent)


def max_norm(record: FloatFormat) -> int:
    """The largest finite value of a format whose largest value is whole, as all of at most 8 bits but E2M3FN."""
    largest = record.number(record.max_code).magnitude
    if largest.denominator != 1:
        raise Refusal(f"the largest value of {record.name}, {largest}, is not whole")
    return int(largest)


NINFER_ROW = ScaleRule(
    name="ninfer activation rows",
    max_norm=max_norm(E4M3FN),
    zero=ZeroRule.ZERO,
    source="Neroued/ninfer src/ops/linear/fp8/fp8_a8.cu @9180d956",
)


def astrai_rule(record: FloatFormat, margin: int = 0) -> ScaleRule:
    """AstrAI's ring formula: max(amax / max_norm · 2^-margin, 1e-12).

    Raises:
        Refusal: another format than E4M3FN and E5M2.
    """
    if record not in (E4M3FN, E5M2):
        raise Refusal(f"AstrAI has no scale for {record.name}", hint="E4M3FN or E5M2")
    return ScaleRule(
        name=f"AstrAI ring, {record.name}, margin {margin}",
        max_norm=max_norm(record),
        margin=margin,
        step_floor=_nearest_float(1e-12),
        source="0z5a/AstrAI csrc/kernels/fp8/gemm.cuh, ring era (stored id 60889737882)",
    )


def _nearest_float(value: float) -> float:
    """The float32 that a C literal with the suffix f denotes."""
    return float(float32(Number.of(Fraction(value))).magnitude)


DEEPGEMM = ScaleRule(
    name="DeepGEMM",
    max_norm=max_norm(E4M3FN),
    amax_floor=_nearest_float(1e-4),
    nan=NanRule.KEEP,
    source="deepseek-ai/DeepGEMM deep_gemm/utils/math.py @38939a4c, per_token_cast_to_fp8 and per_block_cast_to_fp8",
)
#: On a CUDA tensor torch turns the division by the Python number 448.0 into a multiplication by its reciprocal.
DEEPGEMM_ON_CUDA = replace(
    DEEPGEMM,
    name="DeepGEMM, run on CUDA tensors",
    step=StepForm.MULTIPLY,
    source=f"{DEEPGEMM.source}; pytorch aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu",
    evidence=Evidence.INFERRED,
)
DEEPGEMM_UE8M0 = replace(DEEPGEMM, name="DeepGEMM, use_ue8m0", power_of_two=PowerOfTwo.UP)
#: The first form: multiplied by 448 / amax, while amax / 448 is stored.
DEEPGEMM_FIRST = replace(
    DEEPGEMM,
    name="DeepGEMM, first form",
    apply=Apply.RATIO,
    source="deepseek-ai/DeepGEMM tests/test_core.py @c57699ac",
)
VLLM_INT8 = ScaleRule(
    name="vLLM int8 tokens",
    max_norm=127,
    apply=Apply.RATIO,
    zero=ZeroRule.ZERO,
    source="vllm-project/vllm csrc/quantization/w8a8/int8/scaled_quant.cu @180df48e, dynamic_scaled_int8_quant_kernel",
)
