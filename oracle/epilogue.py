"""What happens to an accumulator on its way to memory: scales, bias or residual, the one rounding to the output type.

A rule says which factors there are and in which order they multiply, what is added, which of the operations the kernel
fuses, and how the result is rounded; every operation is one float32 operation (`float32`). With a the accumulator (an
int32 first becomes the nearest float32) and f1, f2 the factors:

    left-associative     v = (a · f1) · f2          premultiplied     v = a · (f1 · f2)
    addend               v = last product + addend: a bias b, a scaled bias b · bias_scale, or a residual
    contraction SCALE    v = fma(a · f1, f2, addend)
    contraction BIAS     v = fma(b, bias_scale, last product)
    output               bfloat16(v), or e4m3(v · out_scale) saturating

Example: a = 2^24 + 1 (int32), f1 = f2 = 1: the conversion ties to 2^24. With a = 1 + 2^-12, f1 = 1 + 2^-12, residual -1
the separate product loses 2^-24 and gives 2^-11, fused it keeps it: 2^-11 + 2^-24. Both round to the bfloat16 2^-11.

A compiler may fuse an unqualified multiplication into the addition that follows, so contraction is a fact of a compiled
kernel, not of its source: declare it, and judge each route of a kernel by its own rule. `epilogue_array` is the twin on
arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce

from tileproof.oracle.arguments import require_member
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.formats import BFLOAT16, E4M3FN
from tileproof.oracle.numbers.float32 import add, float32, float32_code, fused_multiply_add, multiply
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal


class Axis(Enum):
    """What a factor belongs to; the value is its shape for an output [T, N]."""

    TENSOR = "[]"
    ROW = "[T]"
    COLUMN = "[N]"


class Addend(Enum):
    """What is added; the value is its shape for an output [T, N]."""

    NONE = "nothing"
    BIAS = "[N]"
    RESIDUAL = "[T, N]"


class Contraction(Enum):
    """Which multiplication the addition is fused with."""

    NONE = "none: both round"
    SCALE = "the last scale"
    BIAS = "the scale of the bias"


class Output(Enum):
    """The rounding to the output type."""

    BFLOAT16 = "bfloat16, NaN 0x7FFF (PTX cvt.rn.bf16)"
    #: The NaN 0x7FFFFFFF becomes 0x8000, -0: accepted by its project because inputs are finite.
    BFLOAT16_PLAIN = "bfloat16 by (u + 0x7FFF + bit 16) >> 16, without a case for NaN"
    E4M3 = "E4M3FN of v · out_scale, saturating (PTX cvt.rn.satfinite)"


@dataclass(frozen=True, kw_only=True)
class EpilogueRule:
    """One epilogue.

    Raises:
        Refusal: no factor, a contraction without the operation that it fuses, or a choice that is no member of its
            enumeration.
    """

    name: str
    factors: tuple[Axis, ...]
    #: The factors are multiplied with each other first.
    premultiplied: bool = False
    addend: Addend = Addend.NONE
    #: The bias is multiplied by a scalar first.
    bias_scaled: bool = False
    contraction: Contraction = Contraction.NONE
    output: Output = Output.BFLOAT16
    source: str
    evidence: Evidence = Evidence.DOCUMENTED

    def __post_init__(self) -> None:
        for factor in self.factors:
            require_member(Axis, f"{self.name}: factor", factor)
        require_member(Addend, f"{self.name}: addend", self.addend)
        require_member(Contraction, f"{self.name}: contraction", self.contraction)
        require_member(Output, f"{self.name}: output", self.output)
        if not self.factors:
            raise Refusal(f"{self.name} has no factor", hint="an unscaled accumulator has the factor 1")
        if self.contraction is not Contraction.NONE and self.addend is Addend.NONE:
            raise Refusal(f"{self.name} fuses an addition that it does not have")
        if self.bias_scaled and self.addend is not Addend.BIAS:
            raise Refusal(f"{self.name} scales a bias that it does not have")
        if self.contraction is Contraction.BIAS and not self.bias_scaled:
            raise Refusal(f"{self.name} fuses the scale of a bias that has none")

    def contracted(self, contraction: Contraction) -> "EpilogueRule":
        """The same rule as another compiler run makes it."""
        return replace(self, name=f"{self.name}, contraction {contraction.name}", contraction=contraction)


def epilogue_code(
    rule: EpilogueRule,
    accumulator: Number,
    factors: Sequence[Number],
    *,
    addend: Number | None = None,
    bias_scale: Number | None = None,
    out_scale: Number | None = None,
) -> int:
    """The definition: the code of one output element.

    Args:
        rule: the epilogue.
        accumulator: a float32 number, or an integer.
        factors: one float32 number for each factor of the rule, in its order.
        addend: the bias (a bfloat16 or FP8 number, not yet scaled) or the residual.
        bias_scale: float32, with a scaled bias.
        out_scale: float32, with an E4M3 output.

    Returns:
        A bfloat16 bit pattern or an E4M3FN code.

    Raises:
        Refusal: an operand that the rule does not have, or one missing.
    """
    require_operands(rule, len(factors), addend is not None, bias_scale is not None, out_scale is not None)
    total, last = float32(accumulator), factors[-1]
    if rule.premultiplied:
        last = reduce(multiply, factors)
    else:
        total = reduce(multiply, factors[:-1], total)
    return _output_code(rule.output, _sum(rule.contraction, total, last, addend, bias_scale), out_scale)


def _sum(
    contraction: Contraction, total: Number, last: Number, addend: Number | None, bias_scale: Number | None
) -> Number:
    if addend is None:
        return multiply(total, last)
    if contraction is Contraction.BIAS and bias_scale is not None:
        return fused_multiply_add(addend, bias_scale, multiply(total, last))
    term = addend if bias_scale is None else multiply(addend, bias_scale)
    if contraction is Contraction.SCALE:
        return fused_multiply_add(total, last, term)
    return add(multiply(total, last), term)


def _output_code(output: Output, value: Number, out_scale: Number | None) -> int:
    if out_scale is not None:
        return E4M3FN.round(multiply(value, out_scale))
    if output is Output.BFLOAT16_PLAIN:
        bits = float32_code(value)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFFFFFF) >> 16
    return BFLOAT16.round(value, Rounding.NEAREST_EVEN, Overflow.INF)


def require_operands(rule: EpilogueRule, factors: int, addend: bool, bias_scale: bool, out_scale: bool) -> None:
    """Refuses a number of factors, or an operand given or missing, that the rule does not say."""
    wanted = {
        "factors": (factors, len(rule.factors)),
        "addend": (addend, rule.addend is not Addend.NONE),
        "bias_scale": (bias_scale, rule.bias_scaled),
        "out_scale": (out_scale, rule.output is Output.E4M3),
    }
    for name, (given, needed) in wanted.items():
        if given != needed:
            raise Refusal(f"{rule.name} has {name}: {needed}, given: {given}", hint="give what the rule has, no more")


_NINFER = "Neroued/ninfer src/ops/linear/fp8/fp8_a8_tma.cuh @1ba31703"
_ASTRAI = "0z5a/AstrAI csrc/kernels/fp8/gemm.cuh, ring era (stored id 60889737882)"

#: (acc · activation scale[t]) · weight scale[n]; also what the attention, gdn and SwiGLU projections start with.
NINFER_LINEAR = EpilogueRule(name="ninfer linear", factors=(Axis.ROW, Axis.COLUMN), source=_NINFER)
#: The residual is the output buffer itself. Routes of one kernel are known to be contracted differently.
NINFER_LINEAR_ADD = replace(NINFER_LINEAR, name="ninfer linear_add", addend=Addend.RESIDUAL)
#: acc · (sa · sb).
ASTRAI_MM = EpilogueRule(name="AstrAI mm_fp8", factors=(Axis.TENSOR, Axis.TENSOR), premultiplied=True, source=_ASTRAI)
ASTRAI_MM_BIAS = replace(ASTRAI_MM, name="AstrAI mm_fp8, bf16 bias", addend=Addend.BIAS)
#: The bias is in the operands' FP8 format: float(half(code)), exact, times bias_scale.
ASTRAI_MM_FP8_BIAS = replace(ASTRAI_MM_BIAS, name="AstrAI mm_fp8, FP8 bias", bias_scaled=True)
#: The binding calls out_scale a step; the kernel multiplies by it. E4M3 also for E5M2 operands.
ASTRAI_MM_FP8_OUT = replace(ASTRAI_MM_BIAS, name="AstrAI mm_fp8, FP8 out", output=Output.E4M3)
#: One scalar, sa · sb made by the caller.
ASTRAI_LINEAR = EpilogueRule(
    name="AstrAI fp8 gemm, one scale",
    factors=(Axis.TENSOR,),
    addend=Addend.BIAS,
    source="0z5a/AstrAI csrc/kernels/fp8/ops.cu @057c0d33 and later",
)
ASTRAI_QUANT_GEMM = EpilogueRule(
    name="AstrAI quant_gemm",
    factors=(Axis.TENSOR, Axis.ROW, Axis.COLUMN),
    addend=Addend.BIAS,
    source="ViperEkura/AstrAI writer.cuh, newest general GEMM",
)
#: int32 accumulators; x scale[m], then w scale[n].
METAINFER_W8A8 = EpilogueRule(
    name="metainfer W8A8",
    factors=(Axis.ROW, Axis.COLUMN),
    output=Output.BFLOAT16_PLAIN,
    source="HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad sections 3.3, 4.1",
)
