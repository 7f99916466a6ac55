"""Epilogues: the array twin gives the bits of the definition, every choice of a rule decides a bit, faults are seen."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.epilogue import (
    ASTRAI_LINEAR,
    ASTRAI_MM,
    ASTRAI_MM_BIAS,
    ASTRAI_MM_FP8_BIAS,
    ASTRAI_MM_FP8_OUT,
    ASTRAI_QUANT_GEMM,
    METAINFER_W8A8,
    NINFER_LINEAR,
    NINFER_LINEAR_ADD,
    Addend,
    Axis,
    Contraction,
    EpilogueRule,
    Output,
    epilogue_code,
)
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.formats import BFLOAT16, E4M3FN, E5M2, FLOAT32, source_format
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal

Array = npt.NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
T, N = 24, 21

RULES = [
    NINFER_LINEAR,
    NINFER_LINEAR_ADD,
    NINFER_LINEAR_ADD.contracted(Contraction.SCALE),
    ASTRAI_MM,
    ASTRAI_MM_BIAS,
    ASTRAI_MM_BIAS.contracted(Contraction.SCALE),
    ASTRAI_MM_FP8_BIAS,
    ASTRAI_MM_FP8_BIAS.contracted(Contraction.SCALE),
    ASTRAI_MM_FP8_BIAS.contracted(Contraction.BIAS),
    ASTRAI_MM_FP8_OUT,
    ASTRAI_MM_FP8_OUT.contracted(Contraction.SCALE),
    ASTRAI_LINEAR,
    ASTRAI_QUANT_GEMM,
    ASTRAI_QUANT_GEMM.contracted(Contraction.SCALE),
    METAINFER_W8A8,
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def operands_for(rule: EpilogueRule, accumulator: type = np.float32, seed: int = 0) -> Operands:
    """Accumulators whose scaled values lie on and beside ties of the output, cancel the addend, or are special."""
    rng = np.random.default_rng(seed)
    factors: list[Array] = []
    for axis in rule.factors:
        shape = {Axis.TENSOR: (), Axis.ROW: (T,), Axis.COLUMN: (N,)}[axis]
        values = np.asarray(
            rng.choice([1, 3, 0.75, 1.0000001, 0.9999999, 49 / 448, 1.37], shape) * 2.0 ** rng.integers(-3, 3, shape)
        )
        factors.append(values.astype(BF16 if axis is Axis.COLUMN else np.float32))
    addend: Array | None = None
    if rule.addend is not Addend.NONE:
        shape = (N,) if rule.addend is Addend.BIAS else (T, N)
        addend = (rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 8, shape)).astype(np.float32).astype(BF16)
        addend[..., ::7], addend[..., 3] = 0, np.inf
        if rule.bias_scaled:
            addend = rng.integers(0, 256, N).astype(np.uint8)
    return Operands(
        accumulators=accumulators(rng, accumulator, factors, addend),
        factors=tuple(factors),
        addend=addend,
        bias_format=E4M3FN if rule.bias_scaled else None,
        bias_scale=np.float32(0.3) if rule.bias_scaled else None,
        out_scale=np.float32(1.1) if rule.output is Output.E4M3 else None,
    )


def accumulators(rng: np.random.Generator, dtype: type, factors: list[Array], addend: Array | None) -> Array:
    if dtype is np.int32:
        return int32_accumulators(rng, factors)
    with np.errstate(all="ignore"):
        wanted = (rng.integers(128, 256, (T, N)) + rng.choice([0, 0.5, 0.5, 0.25], (T, N))) * 2.0 ** rng.integers(
            -12, 6, (T, N)
        )
        if addend is not None and addend.dtype == BF16:
            exact = np.where(np.isfinite(addend.astype(np.float64)), addend.astype(np.float64), 1)
            wanted[1::3] = (-exact * (1 + 2.0 ** -rng.integers(7, 25, (T, N))))[1::3]
            wanted[2::3] = ((rng.integers(128, 256, (T, N)) + 0.5) * 2.0 ** rng.integers(-6, 3, (T, N)) - exact)[2::3]
        for factor in factors:
            wide = factor.astype(np.float64)
            wanted = wanted / (wide[:, np.newaxis] if wide.shape == (T,) else wide)
    values = wanted.astype(np.float32)
    bits = values.view(np.uint32) + rng.integers(0, 3, (T, N)).astype(np.uint32) - np.uint32(1)
    values = np.where(rng.random((T, N)) < 0.5, values, bits.view(np.float32))
    values[0, :8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -3.4e38]
    return np.asarray(values)


def int32_accumulators(rng: np.random.Generator, factors: list[Array]) -> Array:
    """Sums of 30 bits whose scaled values lie within a few float32 of a tie of bfloat16; small ones; the ends."""
    scale = np.ones((T, N))
    for factor in factors:
        wide = factor.astype(np.float64)
        scale = scale * (wide[:, np.newaxis] if wide.shape == (T,) else wide)
    near = (rng.integers(128, 256, (T, N)) + 0.5) / scale
    near *= 2.0 ** (29 - np.frexp(near)[1])
    values = np.rint(near).astype(np.int64) + 32 * rng.integers(-2, 3, (T, N)) + rng.integers(-40, 40, (T, N))
    values[::5] = (1 << 24) + rng.integers(-5, 6, (len(values[::5]), N))  # where float32 begins to round
    values[1::5] = rng.integers(-(2**31), 2**31, (len(values[1::5]), N)) >> rng.integers(0, 31, (len(values[1::5]), N))
    values[:, 0], values[:, 1], values[:, 2] = 2**31 - 1, -(2**31), 0
    return np.asarray(
        np.where(rng.random((T, N)) < 0.5, values, np.maximum(-values, -(2**31))).clip(max=2**31 - 1).astype(np.int32)
    )


def number(value: Any) -> Number:
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        return Number.of(int(array))
    source = source_format(array.dtype)
    return source.number(int(array.view(source.code_dtype)))


def by_definition(rule: EpilogueRule, operands: Operands) -> list[list[int]]:
    def element(t: int, n: int) -> int:
        index = {Axis.TENSOR: (), Axis.ROW: (t,), Axis.COLUMN: (n,)}
        factors = [number(f[index[axis]]) for axis, f in zip(rule.factors, operands.factors, strict=True)]
        addend = None
        if operands.addend is not None:
            code = operands.addend[(t, n) if rule.addend is Addend.RESIDUAL else (n,)]
            addend = operands.bias_format.number(int(code)) if operands.bias_format else number(code)
        return epilogue_code(
            rule,
            number(operands.accumulators[t, n]),
            factors,
            addend=addend,
            bias_scale=None if operands.bias_scale is None else number(operands.bias_scale),
            out_scale=None if operands.out_scale is None else number(operands.out_scale),
        )

    rows, columns = operands.accumulators.shape
    return [[element(t, n) for n in range(columns)] for t in range(rows)]


def codes(output: Array) -> list[list[int]]:
    result: list[list[int]] = output.view(np.uint8 if output.dtype == np.uint8 else np.uint16).tolist()
    return result


@pytest.mark.parametrize("accumulator", [np.float32, np.int32], ids=["float32", "int32"])
@each_rule
def test_arrays_are_those_of_the_definition(rule: EpilogueRule, accumulator: type) -> None:
    operands = operands_for(rule, accumulator)
    assert codes(apply_epilogue(rule, operands)) == by_definition(rule, operands)


#: A rule and the same rule with one choice changed.
CHANGED: dict[str, tuple[EpilogueRule, EpilogueRule]] = {
    "scales multiplied first": (NINFER_LINEAR, replace(NINFER_LINEAR, premultiplied=True)),
    "scales one after the other": (ASTRAI_MM, replace(ASTRAI_MM, premultiplied=False)),
    "residual fused": (NINFER_LINEAR_ADD, NINFER_LINEAR_ADD.contracted(Contraction.SCALE)),
    "residual not fused": (NINFER_LINEAR_ADD.contracted(Contraction.SCALE), NINFER_LINEAR_ADD),
    "bias fused": (ASTRAI_MM_BIAS, ASTRAI_MM_BIAS.contracted(Contraction.SCALE)),
    "bias not fused": (ASTRAI_LINEAR.contracted(Contraction.SCALE), ASTRAI_LINEAR),
    "the scale of the bias fused": (
        ASTRAI_MM_FP8_BIAS.contracted(Contraction.SCALE),
        ASTRAI_MM_FP8_BIAS.contracted(Contraction.BIAS),
    ),
    "NaN as the plain conversion has it": (NINFER_LINEAR, replace(NINFER_LINEAR, output=Output.BFLOAT16_PLAIN)),
}


@pytest.mark.parametrize("change", CHANGED)
def test_every_choice_of_a_rule_decides_a_bit(change: str) -> None:
    rule, changed = CHANGED[change]
    seen = False
    for seed in range(8):
        operands = operands_for(rule, seed=seed)
        seen |= codes(apply_epilogue(rule, operands)) != codes(apply_epilogue(changed, operands))
    assert seen


def widen(array: Array) -> npt.NDArray[np.float32]:
    return array.astype(np.float32)


def pieces(operands: Operands) -> tuple[Array, Array, Array, Array]:
    """Accumulators, row scales, column scales and residual (or zeros), float32."""
    rows, columns = operands.factors
    residual = np.zeros((T, N), np.float32) if operands.addend is None else widen(operands.addend)
    return widen(operands.accumulators), rows[:, np.newaxis], widen(columns), residual


def to_bfloat16(values: Array) -> Array:
    return BFLOAT16.encode(values, overflow="inf").view(BF16)


def residual_after(operands: Operands) -> Array:
    a, rows, columns, residual = pieces(operands)
    return to_bfloat16(widen(to_bfloat16(a * rows * columns)) + residual)


def residual_before(operands: Operands) -> Array:
    a, rows, columns, residual = pieces(operands)
    return to_bfloat16((a + residual) * rows * columns)


def in_double(operands: Operands) -> Array:
    a, rows, columns, residual = (piece.astype(np.float64) for piece in pieces(operands))
    return to_bfloat16(a * rows * columns + residual)


ADD_FAULTS: dict[str, Callable[[Operands], Array]] = {
    "residual after the rounding": residual_after,
    "residual before the scales": residual_before,
    "float64 in between": in_double,
    "scales in the other order": lambda o: to_bfloat16(pieces(o)[0] * pieces(o)[2] * pieces(o)[1] + pieces(o)[3]),
    "residual dropped": lambda o: to_bfloat16(pieces(o)[0] * pieces(o)[1] * pieces(o)[2]),
    "row scale of the next row": lambda o: to_bfloat16(
        pieces(o)[0] * np.roll(pieces(o)[1], 1, axis=0) * pieces(o)[2] + pieces(o)[3]
    ),
    "truncated": lambda o: BFLOAT16.encode(
        pieces(o)[0] * pieces(o)[1] * pieces(o)[2] + pieces(o)[3], rounding="toward-zero", overflow="inf"
    ).view(BF16),
    "through float16": lambda o: to_bfloat16(
        (pieces(o)[0] * pieces(o)[1] * pieces(o)[2] + pieces(o)[3]).astype(np.float16)
    ),
}


@pytest.mark.parametrize("fault", ADD_FAULTS)
def test_no_faulty_residual_epilogue_survives(fault: str) -> None:
    operands = operands_for(NINFER_LINEAR_ADD, seed=3)
    with np.errstate(all="ignore"):
        assert codes(ADD_FAULTS[fault](operands)) != by_definition(NINFER_LINEAR_ADD, operands)


def bias_model(operands: Operands, step: Callable[[Array, Array, Array, Array], Array]) -> Array:
    """mm_fp8 with an FP8 bias and a faulty last step, given acc, s = sa · sb, the bias and its scale."""
    first, second = operands.factors
    assert operands.addend is not None
    bias = E4M3FN.decode(operands.addend).astype(np.float32)
    return to_bfloat16(step(operands.accumulators, np.asarray(first * second), bias, np.asarray(operands.bias_scale)))


BIAS_FAULTS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "bias before the scale": lambda a, s, b, k: (a + b * k) * s,
    "bias not scaled": lambda a, s, b, k: a * s + b,
    "bias scaled by the product's scale": lambda a, s, b, k: a * s + b * s,
    "bias dropped": lambda a, s, b, k: a * s,
    "bias of the next column": lambda a, s, b, k: a * s + np.roll(b * k, 1),
    "bias rounded to bfloat16": lambda a, s, b, k: a * s + widen(to_bfloat16(b * k)),
    "product rounded to bfloat16": lambda a, s, b, k: widen(to_bfloat16(a * s)) + b * k,
}


@pytest.mark.parametrize("fault", BIAS_FAULTS)
def test_no_faulty_bias_epilogue_survives(fault: str) -> None:
    operands = operands_for(ASTRAI_MM_FP8_BIAS, seed=4)
    right: Callable[[Array, Array, Array, Array], Array] = lambda a, s, b, k: a * s + b * k  # noqa: E731  # one of a family
    with np.errstate(all="ignore"):
        assert codes(bias_model(operands, right)) == by_definition(ASTRAI_MM_FP8_BIAS, operands)
        assert codes(bias_model(operands, BIAS_FAULTS[fault])) != by_definition(ASTRAI_MM_FP8_BIAS, operands)


OUT_FAULTS: dict[str, Callable[[Array, Array], Array]] = {
    "divided by the scale": lambda v, s: E4M3FN.encode(v / s),
    "through bfloat16": lambda v, s: E4M3FN.encode(widen(to_bfloat16(v)) * s),
    "not scaled": lambda v, s: E4M3FN.encode(v),
    "in E5M2": lambda v, s: E5M2.encode(v * s),
    "not saturated": lambda v, s: E4M3FN.encode(v * s, overflow="nan"),
}


@pytest.mark.parametrize("fault", OUT_FAULTS)
def test_no_faulty_fp8_output_survives(fault: str) -> None:
    operands = operands_for(ASTRAI_MM_FP8_OUT, seed=5)
    first, second = operands.factors
    assert operands.addend is not None
    with np.errstate(all="ignore"):
        values = operands.accumulators * (first * second) + widen(operands.addend)
        scale = np.asarray(operands.out_scale)
        assert E4M3FN.encode(values * scale).tolist() == by_definition(ASTRAI_MM_FP8_OUT, operands)
        assert OUT_FAULTS[fault](values, scale).tolist() != by_definition(ASTRAI_MM_FP8_OUT, operands)


INT_FAULTS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "scales multiplied first": lambda a, x, w: to_bfloat16(widen(a) * (x * w)),
    "scales in the other order": lambda a, x, w: to_bfloat16(widen(a) * w * x),
    "accumulator in double": lambda a, x, w: to_bfloat16(a * x.astype(np.float64) * w),
    "accumulator truncated to float32": lambda a, x, w: to_bfloat16(
        FLOAT32.encode(a, rounding="toward-zero").view(np.float32) * x * w
    ),
    "accumulator through bfloat16": lambda a, x, w: to_bfloat16(widen(to_bfloat16(a)) * x * w),
    "half up": lambda a, x, w: ((widen(a) * x * w).view(np.uint32) + np.uint32(0x8000) >> np.uint32(16)).astype(
        np.uint16
    ),
    "truncated": lambda a, x, w: ((widen(a) * x * w).view(np.uint32) >> np.uint32(16)).astype(np.uint16),
}


@pytest.mark.parametrize("fault", INT_FAULTS)
def test_no_faulty_int8_epilogue_survives(fault: str) -> None:
    operands = operands_for(METAINFER_W8A8, np.int32, 1)
    rows, columns = operands.factors
    observed = INT_FAULTS[fault](operands.accumulators, rows[:, np.newaxis], widen(columns))
    assert codes(observed) != by_definition(METAINFER_W8A8, operands)


def test_plain_rounding_is_the_canonical_one_but_for_nan() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, (64, 64), np.uint64).astype(np.uint32)
    one = (np.ones(64, np.float32), np.ones(64, np.float32))
    operands = Operands(accumulators=bits.view(np.float32), factors=one)
    plain = apply_epilogue(METAINFER_W8A8, operands).view(np.uint16)
    canonical = apply_epilogue(NINFER_LINEAR, operands).view(np.uint16)
    nan = np.isnan(bits.view(np.float32))
    assert (plain[~nan] == canonical[~nan]).all()
    assert (plain[nan] == 0x8000).all()


@pytest.mark.parametrize(
    ("rule", "accumulator", "factors", "addend", "value"),
    [
        (NINFER_LINEAR, 3.0, [2.0, 0.5], None, 3.0),
        (NINFER_LINEAR_ADD, 1.0, [1.0, 1.0], -1.0, 0.0),
        (ASTRAI_MM, 2.0**127, [2.0**120, 2.0**-120], None, 2.0**127),
        (NINFER_LINEAR, 2.0**127, [2.0**120, 2.0**-120], None, float("inf")),
        (METAINFER_W8A8, 2**24 + 1, [1.0, 1.0], None, 2.0**24),
        (METAINFER_W8A8, -(2**31), [1.0, 2.0**-31], None, -1.0),
    ],
)
def test_known_values(
    rule: EpilogueRule, accumulator: float, factors: list[float], addend: float | None, value: float
) -> None:
    code = epilogue_code(
        rule,
        Number.of(Fraction(accumulator)),
        [Number.of(Fraction(factor)) for factor in factors],
        addend=None if addend is None else Number.of(Fraction(addend)),
    )
    assert BFLOAT16.decode(code) == value


def test_a_zero_product_with_a_bias_is_the_bias() -> None:
    """P20: A·B = 0, asymmetric bias on a square and on another output, by rules of both kinds."""
    for columns in (8, 24):
        bias = (np.arange(columns) - 3.5).astype(BF16)
        for contraction in (Contraction.NONE, Contraction.SCALE):
            operands = Operands(
                accumulators=np.zeros((8, columns), np.float32), factors=(np.asarray(np.float32(0.3)),), addend=bias
            )
            assert (apply_epilogue(ASTRAI_LINEAR.contracted(contraction), operands) == bias).all()


def linear(**changes: Any) -> Array:
    given: dict[str, Any] = {
        "accumulators": np.ones((2, 3), np.float32),
        "factors": (np.ones(2, np.float32), np.ones(3, np.float32)),
    }
    return apply_epilogue(changes.pop("rule", NINFER_LINEAR), Operands(**(given | changes)))


BIAS = np.ones(3, BF16)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear(addend=BIAS), "ninfer linear has addend: False, given: True"),
        (lambda: linear(out_scale=np.float32(1)), "has out_scale: False"),
        (lambda: linear(factors=(np.ones(2, np.float32),)), "has factors: 2, given: 1"),
        (lambda: linear(factors=(np.ones(3, np.float32), np.ones(3, np.float32))), r"a factor of shape \(3,\)"),
        (lambda: linear(factors=(np.ones(2), np.ones(3, np.float32))), "a factor has type float64"),
        (lambda: linear(accumulators=np.ones((2, 3))), "accumulators are float64"),
        (lambda: linear(accumulators=np.ones(6, np.float32)), r"accumulators are float32 \(6,\)"),
        (lambda: linear(rule=NINFER_LINEAR_ADD, addend=BIAS), r"a residual of shape \(3,\) for an output \(2, 3\)"),
        (lambda: linear(rule=NINFER_LINEAR_ADD, addend=np.ones((2, 3), np.float32)), "a residual of type float32"),
        (lambda: linear(rule=NINFER_LINEAR_ADD), "has addend: True, given: False"),
        (
            lambda: linear(rule=ASTRAI_LINEAR, factors=(np.ones((), np.float32),), addend=BIAS, bias_format=E4M3FN),
            "an FP8 bias comes with its scale and its format",
        ),
        (lambda: EpilogueRule(name="bare", factors=(), source=""), "bare has no factor"),
        (lambda: NINFER_LINEAR.contracted(Contraction.SCALE), "fuses an addition that it does not have"),
        (lambda: ASTRAI_MM_BIAS.contracted(Contraction.BIAS), "fuses the scale of a bias that has none"),
        (lambda: replace(NINFER_LINEAR_ADD, bias_scaled=True), "scales a bias that it does not have"),
        (lambda: epilogue_code(NINFER_LINEAR, Number.of(1), [Number.of(1)]), "has factors: 2, given: 1"),
    ],
)
def test_what_is_outside_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        make()


def test_an_output_without_rows_is_empty() -> None:
    operands = Operands(
        accumulators=np.zeros((0, 3), np.float32), factors=(np.ones(0, np.float32), np.ones(3, np.float32))
    )
    assert apply_epilogue(NINFER_LINEAR, operands).shape == (0, 3)
