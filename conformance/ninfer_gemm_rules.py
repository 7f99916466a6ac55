"""What is declared of ninfer's FP8 operators, printed with each failure."""

from tileproof.conformance.contract import Rule
from tileproof.conformance.ninfer_quantize import RULES as QUANTIZE
from tileproof.kernels.fp8_a8_call_site import CallSite

_NINFER = "ninfer src/ops/linear/fp8/fp8_a8_tma.cuh @1ba31703"
_CHOICE = "left open by ninfer; declared here"
_PTX = "PTX ISA 9.0"

_SUM = (
    Rule(
        "sum", "mma m16n8k32 e4m3 in float32, chained over k ascending from 0; its bits are the architecture's", _NINFER
    ),
    Rule("ragged K", "filled with zero codes up to a multiple of 32", _CHOICE),
    Rule("scales", "(sum · activation scale) · weight scale, left to right, each a float32 product", _NINFER),
    Rule("rounding", "one rounding of the float32 value to bf16, to nearest even", _NINFER),
    Rule("NaN", "becomes 0x7fff", f"{_PTX}, cvt.rn.bf16"),
    Rule("routes", "every route gives the same bits, for whole and partial tiles alike", _CHOICE),
)
_ADD = (
    Rule("residual in out", "the output before the call, added in float32 before the only rounding", _NINFER),
    Rule("contraction", "the product with the weight scale and the addition are one fused operation", _CHOICE),
)
_SWIGLU = (
    Rule("gate and up", "rows 0 .. N/2 - 1 and N/2 .. N - 1, each rounded to bf16 first", _NINFER),
    Rule("silu", "gate / (1 + expf(-gate)) in float32, an IEEE division; expf goes through ex2.approx", _NINFER),
    Rule("out", "silu · up, one float32 product, rounded to bf16; a set where ex2.approx leaves it open", _NINFER),
)


def rules(site: CallSite) -> tuple[Rule, ...]:
    """The rules of one operator, the quantiser's last."""
    own = (*(_ADD if site.adds else ()), *(_SWIGLU if site.paired else ()))
    if len(site.outputs) > 1:
        own = (Rule("outputs", f"the columns of the product in turn: {', '.join(site.outputs)}", _NINFER),)
    return (*_SUM, *own, *(Rule(f"activations: {rule.name}", rule.value, rule.source) for rule in QUANTIZE))
