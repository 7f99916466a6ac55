"""Scale rules and block quantisation: the array twin gives the bits of the definition; faulty twins are seen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import BFLOAT16, E4M3FN, E5M2, E8M0FNU, FLOAT32, FloatFormat, source_format
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.quantize import quantize_rows
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scaling.blocks import (
    PER_1X128,
    PER_128X128,
    PER_COLUMN,
    PER_ROW,
    PER_TENSOR,
    Granularity,
    quantize_block,
    quantize_blocks,
)
from tileproof.oracle.scaling.scale_rule import (
    DEEPGEMM,
    DEEPGEMM_FIRST,
    DEEPGEMM_ON_CUDA,
    DEEPGEMM_UE8M0,
    NINFER_ROW,
    VLLM_INT8,
    Apply,
    InfinityRule,
    NanRule,
    PowerOfTwo,
    ScaleRule,
    StepForm,
    ZeroRule,
    astrai_rule,
    scale_of,
)
from tileproof.oracle.scaling.scale_rule_array import scales_of

Matrix = npt.NDArray[Any]
NAN, INF = float("nan"), float("inf")

RULES = [
    NINFER_ROW,
    astrai_rule(E4M3FN),
    astrai_rule(E4M3FN, 3),
    astrai_rule(E5M2, -2),
    DEEPGEMM,
    DEEPGEMM_ON_CUDA,
    DEEPGEMM_UE8M0,
    DEEPGEMM_FIRST,
    VLLM_INT8,
    replace(NINFER_ROW, name="zero as one", zero=ZeroRule.ONE),
    replace(NINFER_ROW, name="ratio, zero as one", zero=ZeroRule.ONE, apply=Apply.RATIO),
    replace(NINFER_ROW, name="divide", zero=ZeroRule.FOLLOW, apply=Apply.DIVIDE),
    replace(NINFER_ROW, name="infinity clamped, NaN kept", infinity=InfinityRule.CLAMP, nan=NanRule.KEEP),
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def amaxes() -> npt.NDArray[np.float32]:
    """Zero, the ends of float32, floors, powers of two times the norms and both neighbours, random patterns, NaN."""
    centres = [448.0 * 2.0**k for k in (-136, -135, -128, -127, -126, -20, -1, 0, 1, 100)]
    centres += [2.0**k for k in (-149, -126, -20, 0, 20, 127)] + [1e-4, 1e-12, 448e-12, 4.48e-10, 127.0, 3.0, 105.0]
    bits = np.array(centres, np.float32).view(np.uint32)
    random = np.random.default_rng(0).integers(0, 0x7F800000, 300, np.uint64).astype(np.uint32)
    edges = np.array([0, 1, 2, 224, 225, 448, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)
    return np.concatenate([bits, bits + 1, bits - 1, random, edges]).astype(np.uint32).view(np.float32)


def canonical(values: npt.NDArray[np.float32]) -> list[int]:
    codes: list[int] = np.where(np.isnan(values), np.uint32(FLOAT32.nan_code), values.view(np.uint32)).tolist()
    return codes


def scale_mistakes(rule: ScaleRule, twin: Callable[[npt.NDArray[np.float32]], tuple[Any, Any]]) -> bool:
    """Whether a twin gives other steps or inverses than the definition of the rule."""
    values = amaxes()
    scales = [scale_of(rule, FLOAT32.number(bits)) for bits in values.view(np.uint32).tolist()]
    steps, inverses = twin(values)
    expected = [[FLOAT32.number(code) for code in canonical(part)] for part in (steps, inverses)]
    return [scale.step for scale in scales] != expected[0] or [scale.inverse for scale in scales] != expected[1]


@each_rule
def test_scales_of_arrays_are_those_of_the_definition(rule: ScaleRule) -> None:
    def twin(values: npt.NDArray[np.float32]) -> tuple[Any, Any]:
        scales = scales_of(rule, values)
        return scales.steps, scales.inverses

    assert not scale_mistakes(rule, twin)


#: A field changed; each must change a scale of the rule it is changed in.
CHANGED_FIELDS: dict[str, tuple[ScaleRule, ScaleRule]] = {
    "multiply for divide": (NINFER_ROW, replace(NINFER_ROW, step=StepForm.MULTIPLY)),
    "ratio for reciprocal": (DEEPGEMM, replace(DEEPGEMM, apply=Apply.RATIO)),
    "margin ignored": (astrai_rule(E4M3FN, 3), astrai_rule(E4M3FN)),
    "margin reversed": (astrai_rule(E4M3FN, 3), astrai_rule(E4M3FN, -3)),
    "the other format's norm": (astrai_rule(E5M2), replace(astrai_rule(E5M2), max_norm=448)),
    "floor on amax ignored": (DEEPGEMM, replace(DEEPGEMM, amax_floor=0.0)),
    "floor on the step ignored": (astrai_rule(E4M3FN), replace(astrai_rule(E4M3FN), step_floor=0.0)),
    "floor on amax for one on the step": (
        astrai_rule(E4M3FN),
        replace(astrai_rule(E4M3FN), step_floor=0.0, amax_floor=astrai_rule(E4M3FN).step_floor),
    ),
    "power of two ignored": (DEEPGEMM_UE8M0, replace(DEEPGEMM_UE8M0, power_of_two=PowerOfTwo.NO)),
    "NaN dropped": (DEEPGEMM, replace(DEEPGEMM, nan=NanRule.DROP)),
    "zero block follows": (NINFER_ROW, replace(NINFER_ROW, zero=ZeroRule.FOLLOW)),
    "infinity clamped": (NINFER_ROW, replace(NINFER_ROW, infinity=InfinityRule.CLAMP)),
}


def tie_rows() -> npt.NDArray[np.float32]:
    """Rows whose first element is amax; the others are the midpoints of E4M3FN scaled to it, and zeros."""
    values = E4M3FN.decode(np.arange(0x7F))
    middles = (values[1:] + values[:-1]) / 2
    tops = amaxes()[:, np.newaxis].astype(np.float64)
    with np.errstate(all="ignore"):
        rows = np.concatenate([tops, tops * (middles[::5] / 448), np.zeros_like(tops)], axis=1)
        return rows.astype(np.float32)


@pytest.mark.parametrize("fault", CHANGED_FIELDS)
def test_every_field_decides_a_bit(fault: str) -> None:
    rule, changed = CHANGED_FIELDS[fault]
    right, wrong = (quantize_blocks(tie_rows(), one, PER_ROW) for one in (rule, changed))
    assert (right.codes != wrong.codes).any() or canonical(right.scales) != canonical(wrong.scales)


def flushed(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.where(np.abs(values) < np.float32(2.0**-126), np.float32(0), values)


def astrai_before(values: npt.NDArray[np.float32], margin: int) -> tuple[Any, Any]:
    """The margin applied to amax by a float32 product that can overflow or lose bits before the division."""
    with np.errstate(all="ignore"):
        steps = np.maximum(np.ldexp(values, -margin) / np.float32(448), np.float32(1e-12))
        return steps, np.float32(1) / steps


def power_of_two_by_log(values: npt.NDArray[np.float32]) -> tuple[Any, Any]:
    """2^ceil(log2 step) by float32 logarithms, as DeepGEMM once did."""
    with np.errstate(all="ignore"):
        steps = np.exp2(np.ceil(np.log2(np.maximum(values, np.float32(1e-4)) / np.float32(448))))
        return steps, np.float32(1) / steps


TWIN_FAULTS: dict[str, tuple[ScaleRule, Callable[[npt.NDArray[np.float32]], tuple[Any, Any]]]] = {
    "step flushed": (
        replace(NINFER_ROW, zero=ZeroRule.FOLLOW),
        lambda v: (flushed(v / np.float32(448)), np.float32(1) / flushed(v / np.float32(448))),
    ),
    "inverse from the unrounded step": (
        replace(NINFER_ROW, zero=ZeroRule.FOLLOW),
        lambda v: (v / np.float32(448), (448.0 / v.astype(np.float64)).astype(np.float32)),
    ),
    "step in double": (
        DEEPGEMM,
        lambda v: ((np.maximum(v, 1e-4) / 448.0).astype(np.float32), 448.0 / np.maximum(v, 1e-4)),
    ),
    "margin before the division": (astrai_rule(E4M3FN, -20), lambda v: astrai_before(v, -20)),
    "power of two by logarithm": (DEEPGEMM_UE8M0, power_of_two_by_log),
}


@pytest.mark.parametrize("fault", TWIN_FAULTS)
def test_no_faulty_scale_survives(fault: str) -> None:
    rule, twin = TWIN_FAULTS[fault]
    with np.errstate(all="ignore"):
        assert scale_mistakes(rule, twin)


def special_matrix(dtype: Any, rows: int, columns: int) -> Matrix:
    """Random values at scales from 2^-140 to 2^100, ties of E4M3, zeros, NaN and infinities in some blocks."""
    rng = np.random.default_rng(rows * columns)
    x = rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(-140, 100, (rows, 1))
    x[::3] = rng.choice(np.array([448, 17, 19, -21, 0.0205, 2**-10, 3 * 2**-10, 0, -0.0]), (len(x[::3]), columns))
    x[1::5, ::3] = 0
    x[2::7, 1::2], x[3::11, ::4] = NAN, INF
    x[4::13] = 0
    with np.errstate(all="ignore"):
        return x.astype(np.float32).astype(dtype)


def by_definition(
    x: Matrix, rule: ScaleRule, granularity: Granularity, target: FloatFormat
) -> tuple[list[list[int]], list[list[int]]]:
    """Every block cut out by slices and quantised by `quantize_block`."""
    source = source_format(x.dtype)
    height, width = granularity.rows or x.shape[0], granularity.columns or x.shape[1]
    codes: Matrix = np.zeros(x.shape, np.uint8)
    scales: list[list[int]] = []
    for top in range(0, x.shape[0], height):
        scales.append([])
        for left in range(0, x.shape[1], width):
            block = x[top : top + height, left : left + width]
            numbers = [source.number(bits) for bits in block.view(source.code_dtype).ravel().tolist()]
            result, scale = quantize_block(numbers, rule, target)
            codes[top : top + height, left : left + width] = np.array(result, np.uint8).reshape(block.shape)
            scales[-1].append(scale)
    return codes.tolist(), scales


GRANULARITIES = [
    PER_TENSOR,
    PER_ROW,
    PER_COLUMN,
    Granularity(1, 5),
    Granularity(4, 3),
    Granularity(2, None),
    Granularity(64, 64),
]


@pytest.mark.parametrize("granularity", GRANULARITIES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16], ids=["float32", "bfloat16", "float16"])
def test_blocks_of_any_extent_are_those_of_the_definition(dtype: Any, granularity: Granularity) -> None:
    for rows, columns in ((1, 1), (9, 7), (13, 17)):
        x = special_matrix(dtype, rows, columns)
        result = quantize_blocks(x, NINFER_ROW, granularity)
        codes, scales = by_definition(x, NINFER_ROW, granularity, E4M3FN)
        assert result.scales.shape == granularity.count(x.shape)
        assert (result.codes.tolist(), result.scales.view(np.uint32).tolist()) == (codes, scales)


@each_rule
@pytest.mark.parametrize("target", [E4M3FN, E5M2], ids=lambda target: target.name)
def test_every_rule_quantises_as_its_definition(rule: ScaleRule, target: FloatFormat) -> None:
    x = special_matrix(np.float32, 27, 8)
    result = quantize_blocks(x, rule, Granularity(1, 4), target=target)
    codes, scales = by_definition(x, rule, Granularity(1, 4), target)
    assert (result.codes.tolist(), result.scales.view(np.uint32).tolist()) == (codes, scales)


@pytest.mark.parametrize("granularity", [PER_1X128, PER_128X128], ids=["1x128", "128x128"])
def test_deepseek_blocks_with_ragged_edges(granularity: Granularity) -> None:
    x = special_matrix(ml_dtypes.bfloat16, 130, 129)[:, :]
    result = quantize_blocks(x, DEEPGEMM, granularity)
    assert result.scales.shape == {PER_1X128: (130, 2), PER_128X128: (2, 2)}[granularity]
    padded = np.zeros((256, 256), ml_dtypes.bfloat16)
    padded[:130, :129] = x
    whole = quantize_blocks(padded, DEEPGEMM, granularity)
    assert (whole.codes[:130, :129] == result.codes).all()
    rows, columns = result.scales.shape
    assert canonical(whole.scales[:rows, :columns].ravel()) == canonical(result.scales.ravel())
    codes, scales = by_definition(x[:3], DEEPGEMM, PER_1X128, E4M3FN)
    three = quantize_blocks(x[:3], DEEPGEMM, PER_1X128)
    assert (three.codes.tolist(), three.scales.view(np.uint32).tolist()) == (codes, scales)


def test_rows_by_ninfer_are_quantize_rows() -> None:
    x = special_matrix(ml_dtypes.bfloat16, 40, 65)
    blocks, rows = quantize_blocks(x, NINFER_ROW, PER_ROW), quantize_rows(x)
    assert (blocks.codes == rows.codes).all()
    assert (blocks.scales[:, 0].view(np.uint32) == rows.scales.view(np.uint32)).all()


@pytest.mark.parametrize(
    ("rule", "amax", "step"),
    [
        (NINFER_ROW, 448.0, 1.0),
        (astrai_rule(E4M3FN), 0.0, float(np.float32(1e-12))),
        (astrai_rule(E4M3FN, 2), 448.0, 0.25),
        (astrai_rule(E5M2), 57344.0, 1.0),
        (DEEPGEMM, 0.0, float(np.float32(1e-4) / np.float32(448))),
        (DEEPGEMM_UE8M0, 448.0, 1.0),
        (DEEPGEMM_UE8M0, float(np.nextafter(np.float32(448), np.float32(500))), 2.0),
        (VLLM_INT8, 254.0, 2.0),
    ],
)
def test_known_steps(rule: ScaleRule, amax: float, step: float) -> None:
    assert scales_of(rule, np.array([amax], np.float32)).steps.tolist() == [step]


#: Faults of the block quantiser as a whole: the code and the stored scale no longer agree, or the wrong block.
def scale_rounded_after(x: Matrix) -> tuple[Matrix, Matrix]:
    """Quantised with the step as it is, the power of two stored."""
    return quantize_blocks(x, DEEPGEMM, PER_ROW).codes, quantize_blocks(x, DEEPGEMM_UE8M0, PER_ROW).scales


def scale_as_inverse(x: Matrix) -> tuple[Matrix, Matrix]:
    right = quantize_blocks(x, DEEPGEMM_UE8M0, PER_ROW)
    return right.codes, np.float32(1) / right.scales


def neighbour_scale(x: Matrix) -> tuple[Matrix, Matrix]:
    right = quantize_blocks(x, DEEPGEMM_UE8M0, PER_ROW)
    return right.codes, np.roll(right.scales, 1, axis=0)


def per_column(x: Matrix) -> tuple[Matrix, Matrix]:
    square = quantize_blocks(x[: x.shape[1]], DEEPGEMM_UE8M0, PER_COLUMN)
    return np.concatenate([square.codes, square.codes])[: len(x)], square.scales.reshape(-1, 1)


BLOCK_FAULTS: dict[str, Callable[[Matrix], tuple[Matrix, Matrix]]] = {
    "scale rounded after quantising": scale_rounded_after,
    "scale stored as its inverse": scale_as_inverse,
    "scale of the row before": neighbour_scale,
    "scales of columns": per_column,
    "one scale for the tensor": lambda x: (
        quantize_blocks(x, DEEPGEMM_UE8M0, PER_TENSOR).codes,
        np.repeat(quantize_blocks(x, DEEPGEMM_UE8M0, PER_TENSOR).scales, len(x), axis=0),
    ),
    "quantised in E5M2": lambda x: (
        quantize_blocks(x, DEEPGEMM_UE8M0, PER_ROW, target=E5M2).codes,
        quantize_blocks(x, DEEPGEMM_UE8M0, PER_ROW).scales,
    ),
}


@pytest.mark.parametrize("fault", BLOCK_FAULTS)
def test_no_faulty_block_quantiser_survives(fault: str) -> None:
    x = special_matrix(np.float32, 12, 12)
    codes, scales = BLOCK_FAULTS[fault](x)
    expected_codes, expected_scales = by_definition(x, DEEPGEMM_UE8M0, PER_ROW, E4M3FN)
    assert codes.tolist() != expected_codes or scales.view(np.uint32).tolist() != expected_scales


def test_a_fitting_scale_never_saturates_a_finite_block() -> None:
    """P4: amax over step is at most the norm, up to the one rounding that the tie at 464 forgives."""
    values = amaxes()
    values = values[np.isfinite(values) & (values >= np.float32(2.0**-110))]
    result = quantize_blocks(values[:, np.newaxis], NINFER_ROW, PER_ROW)
    assert (result.codes == 0x7E).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: quantize_blocks(np.zeros((0, 3), np.float32), NINFER_ROW, PER_TENSOR), "x has T = 0 rows"),
        (lambda: quantize_blocks(np.zeros((3, 0), np.float32), NINFER_ROW, PER_ROW), "x has K = 0 columns"),
        (lambda: quantize_blocks(np.zeros(3, np.float32), NINFER_ROW, PER_ROW), r"x has shape \(3,\); quantize_blocks"),
        (lambda: quantize_blocks(np.zeros((3, 3)), NINFER_ROW, PER_ROW), "x has type float64"),
        (lambda: quantize_blocks(np.ones((1, 1), np.float32), NINFER_ROW, PER_ROW, target=E8M0FNU), "E8M0FNU"),
        (lambda: Granularity(0, 4), "0 rows and 4 columns"),
        (lambda: replace(NINFER_ROW, amax_floor=1e-4), r"a floor of 0\.0001 is no float32"),
        (lambda: replace(NINFER_ROW, step_floor=-1.0), r"a floor of -1\.0"),
        (lambda: replace(NINFER_ROW, apply=Apply.DIVIDE), "divides by the step"),
        (lambda: astrai_rule(BFLOAT16), "AstrAI has no scale for BFLOAT16"),
    ],
)
def test_what_is_outside_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        make()


def test_no_rows_give_empty_blocks() -> None:
    result = quantize_blocks(np.zeros((0, 300), np.float32), DEEPGEMM, PER_1X128)
    assert (result.codes.shape, result.scales.shape) == ((0, 300), (0, 3))
    assert Number(Kind.NAN).is_nan
