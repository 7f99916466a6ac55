"""SwiGLU: brackets of silu and of the output, what lies outside is seen; output splits."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.epilogues.output_split import NINFER_ATTENTION, NINFER_GDN, OutputSplit, Part
from tileproof.oracle.epilogues.silu import CUDA_FAST_SILU, CUDA_SILU, SiluRule, exp_bracket, silu_bracket, silu_table
from tileproof.oracle.epilogues.swiglu import NINFER_WIDTH, SwigluSet, swiglu, swiglu_codes, swiglu_of_rows
from tileproof.oracle.formats import BFLOAT16, FLOAT32
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow
from tileproof.oracle.refusal import Refusal

BF16 = np.dtype(ml_dtypes.bfloat16)
Array = npt.NDArray[Any]
RULES = [CUDA_SILU, CUDA_FAST_SILU]
EXACT = SiluRule(
    name="exact", exp_ulps=0, source="a test: expf within 0 ulp, so only a float32 that is the exact value"
)

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def sample_codes() -> list[int]:
    """Every 97th bfloat16, and both sides of where expf overflows, underflows, meets 1 and stops mattering."""
    edges = [88.5, 89.0, 103.0, 104.0, 128.0, 200.0, 201.0, 2.0**-27, 2.0**-26, 2.0**-24, 2.0**-133, 0.0, 3.3e38]
    near = [int(BFLOAT16.encode(np.float32(edge))) + step for edge in edges for step in (-1, 0, 1)]
    specials = [0x7F80, 0x7FC0, 0x7FFF]
    positive = {*range(0, 0x7F80, 97), *(code for code in near if 0 <= code <= 0x7F80), *specials}
    return sorted(positive | {code | 0x8000 for code in positive})


def bits(number: Number) -> int:
    return FLOAT32.round(number, overflow=Overflow.INF)


@each_rule
def test_the_table_is_that_of_the_definition(rule: SiluRule) -> None:
    low, high = silu_table(rule)
    for code in sample_codes():
        ends = [bits(end) for end in silu_bracket(rule, BFLOAT16.number(code))]
        seen = [FLOAT32.nan_code if np.isnan(t[code]) else int(t[code].view(np.uint32)) for t in (low, high)]
        assert seen == ends, f"gate 0x{code:04X}"


@pytest.mark.parametrize("x", [-100.0, -88.0, -20.5, -1.0, -0.01, 0.01, 0.5, 1.0, 10.0, 80.0])
def test_the_bracket_of_exp_holds_what_it_says(x: float) -> None:
    """Against math.exp, whose error (below 2^-52) is far inside: the ends are the last float32 within the error."""
    for rule in RULES:
        low, high = exp_bracket(rule, Number.of(Fraction(x)))
        exact = Fraction(math.exp(x))
        ulp = Fraction(2) ** (max(math.frexp(math.exp(x))[1] - 1, -126) - 23)
        error = rule.ulps(Fraction(x)) * ulp
        slack = ulp / 1000
        assert exact - error - slack <= low.value <= max(exact - error + ulp + slack, Fraction(0))
        assert exact + error - ulp - slack <= high.value <= exact + error + slack


@each_rule
def test_expf_of_numpy_and_its_neighbours_are_inside(rule: SiluRule) -> None:
    """numpy's float32 exp errs by less than an ulp or so, so its silu must be allowed."""
    low, high = silu_table(rule)
    gates = BFLOAT16.decode(np.arange(1 << 16)).astype(np.float32)
    with np.errstate(all="ignore"):
        silu = gates / (np.float32(1) + np.exp(-gates.astype(np.float64)).astype(np.float32))
        inside = (low <= silu) & (silu <= high)
    assert (inside | (np.isnan(silu) & np.isnan(low) & np.isnan(high))).all()


def test_ends_at_special_gates() -> None:
    infinity, nan = Number(Kind.INFINITE), Number(Kind.NAN)
    assert silu_bracket(CUDA_SILU, infinity) == (infinity, infinity)
    assert all(end.is_nan for end in silu_bracket(CUDA_SILU, -infinity))
    assert all(end.is_nan for end in silu_bracket(CUDA_SILU, nan))
    assert silu_bracket(CUDA_SILU, Number.of(0)) == (Number.of(0), Number.of(0))
    assert silu_bracket(CUDA_SILU, Number.of(300)) == (Number.of(300), Number.of(300))
    minus_zero = Number(Kind.FINITE, negative=True)
    assert silu_bracket(CUDA_SILU, Number.of(-300)) == (minus_zero, minus_zero)


def pairs() -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    codes = np.array(sample_codes(), np.uint16)
    gate = np.concatenate([np.repeat(codes[::4], 12), rng.standard_normal(3000).astype(BF16).view(np.uint16)])
    specials = np.array([0, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 1, 0x7F7F], np.uint16)
    up = np.concatenate([np.resize(specials, gate.size - 3000), rng.standard_normal(3000).astype(BF16).view(np.uint16)])
    return gate.view(BF16), up.view(BF16)


@each_rule
def test_outputs_are_those_of_the_definition(rule: SiluRule) -> None:
    gate, up = pairs()
    result = swiglu(gate, up, rule)
    observed = list(zip(result.lower.view(np.uint16).tolist(), result.upper.view(np.uint16).tolist(), strict=True))
    for i in range(0, gate.size, 5):
        ends = swiglu_codes(int(gate[i].view(np.uint16)), int(up[i].view(np.uint16)), rule)
        assert observed[i] == ends, (gate[i], up[i])


def test_nearly_every_output_is_decided_and_the_share_is_told() -> None:
    rng = np.random.default_rng(0)
    gate, up = (rng.standard_normal((300, 300)).astype(BF16) for _ in range(2))
    result = swiglu(gate, up)
    assert 0 < result.undecided_share < 1e-4
    assert result.undecided_share == 1 - result.decided.mean()
    assert swiglu(gate, up, CUDA_FAST_SILU).undecided_share > result.undecided_share
    assert result.allows(result.lower).all()
    assert result.allows(result.upper).all()
    assert swiglu(gate[:0], up[:0]).undecided_share == 0


def test_an_undecided_output_allows_both_and_no_third() -> None:
    rng = np.random.default_rng(0)
    gate, up = (rng.standard_normal((300, 300)).astype(BF16) for _ in range(2))
    result = swiglu(gate, up)
    open_ones = ~result.decided
    lower, upper = (end[open_ones].view(np.int16).astype(int) for end in (result.lower, result.upper))
    assert (np.abs(upper - lower) == 1).all()
    for step in (-1, 1):
        beyond = (np.where(upper >= 0, np.maximum(upper, lower), np.maximum(upper, lower)) + 2 * step).astype(np.int16)
        observed = result.lower.copy()
        observed[open_ones] = beyond.view(BF16)
        assert not result.allows(observed)[open_ones].any()


# Faulty kernels.

F32 = npt.NDArray[np.float32]


def silu(x: F32) -> F32:
    with np.errstate(all="ignore"):
        return np.asarray(x / (np.float32(1) + np.exp(-x.astype(np.float64)).astype(np.float32)))


def to_bf16(x: Array) -> Array:
    return BFLOAT16.encode(np.asarray(x), overflow="inf").view(BF16)


def wide(x: Array) -> F32:
    return x.astype(np.float32)


#: Given gate and up in float32, as they leave the scales.
KERNELS: dict[str, Callable[[F32, F32], Array]] = {
    "gate not rounded": lambda g, u: to_bf16(silu(g) * wide(to_bf16(u))),
    "up not rounded": lambda g, u: to_bf16(silu(wide(to_bf16(g))) * u),
    "silu rounded to bfloat16": lambda g, u: to_bf16(wide(to_bf16(silu(wide(to_bf16(g))))) * wide(to_bf16(u))),
    "gate and up swapped": lambda g, u: to_bf16(silu(wide(to_bf16(u))) * wide(to_bf16(g))),
    "sigmoid for silu": lambda g, u: to_bf16(silu(wide(to_bf16(g))) / wide(to_bf16(g)) * wide(to_bf16(u))),
    "gelu for silu": lambda g, u: to_bf16(
        silu(wide(to_bf16(g)) * np.float32(1.702)) / np.float32(1.702) * wide(to_bf16(u))
    ),
    "exp in bfloat16": lambda g, u: to_bf16(
        wide(to_bf16(g)) / (1 + wide(to_bf16(np.exp(-wide(to_bf16(g)))))) * wide(to_bf16(u))
    ),
    "output truncated": lambda g, u: BFLOAT16.encode(
        silu(wide(to_bf16(g))) * wide(to_bf16(u)), rounding="toward-zero", overflow="inf"
    ).view(BF16),
}


def float32_pairs() -> tuple[F32, F32]:
    rng = np.random.default_rng(6)
    return rng.standard_normal(5000).astype(np.float32) * 3, rng.standard_normal(5000).astype(np.float32)


def test_the_kernel_without_a_fault_is_allowed() -> None:
    gate, up = float32_pairs()
    allowed = swiglu(to_bf16(gate), to_bf16(up))
    assert allowed.allows(to_bf16(silu(wide(to_bf16(gate))) * wide(to_bf16(up)))).all()


@pytest.mark.parametrize("fault", KERNELS)
def test_no_faulty_kernel_is_allowed(fault: str) -> None:
    gate, up = float32_pairs()
    allowed = swiglu(to_bf16(gate), to_bf16(up))
    assert not allowed.allows(KERNELS[fault](gate, up)).all()


def test_wrong_nan_and_zero_are_not_allowed() -> None:
    gate = np.array([0x7FC0, 0xFF80, 0x0000, 0xC3FA, 0x3F80], np.uint16).view(BF16)
    up = np.array([0x3F80] * 5, np.uint16).view(BF16)
    allowed = swiglu(gate, up)
    assert allowed.lower.view(np.uint16).tolist()[:4] == [0x7FFF, 0x7FFF, 0x0000, 0x8000]
    wrong = np.array([0x7F80, 0xFFFF, 0x8000, 0x0000, 0x3F3C], np.uint16).view(BF16)
    assert not allowed.allows(wrong).any()


def test_an_exact_exponential_leaves_at_most_its_neighbours() -> None:
    """With 0 ulp no float32 is the irrational exp(-1): the bracket is empty the wrong way round, by one step."""
    low, high = exp_bracket(EXACT, Number.of(-1))
    assert bits(low) - bits(high) == 1


def test_ninfer_rows_are_gate_first() -> None:
    rng = np.random.default_rng(1)
    product = rng.standard_normal((2, 2 * NINFER_WIDTH)).astype(BF16)
    result, split = swiglu_of_rows(product), swiglu(product[:, :17408], product[:, 17408:])
    assert (result.lower.view(np.uint16) == split.lower.view(np.uint16)).all()
    with pytest.raises(Refusal, match=r"a product of shape \(2, 17408\)"):
        swiglu_of_rows(product[:, :17408])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: swiglu(np.ones(3, np.float32), np.ones(3, BF16)), "gate is float32"),
        (lambda: swiglu(np.ones(3, BF16), np.ones(3, np.float32)), "up is float32"),
        (lambda: swiglu(np.ones(3, BF16), np.ones(4, BF16)), r"up is bfloat16 \(4,\), the gate has shape \(3,\)"),
        (lambda: swiglu(np.ones(3, BF16), np.ones(3, BF16)).allows(np.ones(3, np.float32)), "observed float32"),
        (lambda: swiglu(np.ones(3, BF16), np.ones(3, BF16)).allows(np.ones(1, BF16)), "observed bfloat16"),
    ],
)
def test_what_is_outside_is_refused(make: Callable[[], SwigluSet], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        make()


# Output splits.


@pytest.mark.parametrize(
    ("split", "column", "name", "there"),
    [
        (NINFER_ATTENTION, 0, "query", 0),
        (NINFER_ATTENTION, 6143, "query", 6143),
        (NINFER_ATTENTION, 6144, "key", 0),
        (NINFER_ATTENTION, 7000, "key", 856),
        (NINFER_ATTENTION, 7168, "gate", 0),
        (NINFER_ATTENTION, 13311, "gate", 6143),
        (NINFER_ATTENTION, 13312, "value", 0),
        (NINFER_ATTENTION, 14335, "value", 1023),
        (NINFER_GDN, 10239, "qkv", 10239),
        (NINFER_GDN, 10240, "z", 0),
        (NINFER_GDN, 16383, "z", 6143),
    ],
)
def test_columns_go_where_they_belong(split: OutputSplit, column: int, name: str, there: int) -> None:
    part, local = split.locate(column)
    assert (part.name, local) == (name, there)


@pytest.mark.parametrize("split", [NINFER_ATTENTION, NINFER_GDN], ids=lambda split: split.name)
def test_splitting_moves_every_element_once(split: OutputSplit) -> None:
    product = np.arange(3 * split.columns).reshape(3, -1)
    outputs = split.split(product)
    assert list(outputs) == [part.name for part in split.parts]
    assert sum(output.size for output in outputs.values()) == product.size
    for column in range(0, split.columns, 511):
        part, local = split.locate(column)
        assert (outputs[part.name][:, local] == product[:, column]).all()
        assert outputs[part.name].flags.c_contiguous


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OutputSplit("x", (Part("a", 0, 4), Part("b", 5, 8)), ""), r"part b is \[5, 8\), after 4 columns"),
        (lambda: OutputSplit("x", (Part("a", 0, 4), Part("b", 3, 8)), ""), r"part b is \[3, 8\)"),
        (lambda: OutputSplit("x", (Part("a", 0, 0),), ""), r"part a is \[0, 0\)"),
        (lambda: OutputSplit("x", (Part("a", 0, 4), Part("a", 4, 8)), ""), "there twice"),
        (lambda: NINFER_GDN.locate(16384), r"column 16384 is outside 0\.\.16383"),
        (lambda: NINFER_GDN.locate(-1), "column -1 is outside"),
        (lambda: NINFER_GDN.split(np.zeros((3, 10))), r"a product of shape \(3, 10\)"),
    ],
)
def test_impossible_splits_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        make()
