"""INT8: ties, clamps and zero points; the array twins give the bits of the definitions; faulty twins are seen."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import source_format
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scaling.blocks import PER_1X128, PER_ROW, PER_TENSOR, Granularity
from tileproof.oracle.scaling.int8 import (
    VLLM_SYMMETRIC,
    AffineRows,
    Int8Rule,
    Ties,
    quantize_affine,
    quantize_affine_row,
    quantize_int8,
    quantize_int8_block,
    round_integer,
)
from tileproof.oracle.scaling.scale_rule import VLLM_INT8, Apply, ScaleRule, StepForm, ZeroRule

Matrix = npt.NDArray[Any]
NAN, INF = float("nan"), float("inf")

#: A static scale of 1, so that elements are rounded as they are: the floor on amax decides.
UNIT = ScaleRule(name="step 1", max_norm=127, step_floor=1.0, apply=Apply.DIVIDE, source="a test")
DIVIDED = replace(VLLM_INT8, name="divide", apply=Apply.DIVIDE, zero=ZeroRule.ONE)
RULES = [
    VLLM_SYMMETRIC,
    Int8Rule(name="divide, -127", scale=DIVIDED, lowest=-127, source="a test"),
    Int8Rule(name="ties away", scale=replace(VLLM_INT8, apply=Apply.INVERSE), ties=Ties.AWAY, source="a test"),
    Int8Rule(name="step at least 1", scale=UNIT, source="a test"),
]


def rows_for(dtype: Any) -> Matrix:
    """Rows of ties at amax 127 and 254, random rows at many scales, zeros, NaN, infinities, tiny rows."""
    rng = np.random.default_rng(2)
    halves = np.arange(-254, 255) / 2
    ties = np.stack([rng.choice(halves, 40) for _ in range(12)]) * 2.0 ** rng.integers(-3, 4, (12, 1))
    ties[:, 0] = 127 * 2.0 ** rng.integers(-3, 4, 12)
    awkward = rng.integers(-254, 255, (8, 40)) / 2 * rng.choice([49 / 127, 105 / 127, 3 / 127, 1 / 127], (8, 1))
    random = rng.standard_normal((20, 40)) * 2.0 ** rng.integers(-145, 125, (20, 1))
    specials = np.zeros((6, 40))
    specials[1:, 0] = [NAN, INF, -INF, 1e-45, -3e38]
    specials[1:, 1:] = rng.standard_normal((5, 39))
    specials[4, 1:] = 0
    with np.errstate(all="ignore"):
        return np.concatenate([ties, awkward, random, specials]).astype(np.float32).astype(dtype)


def numbers(row: Matrix) -> list[Number]:
    source = source_format(row.dtype)
    return [source.number(bits) for bits in row.view(source.code_dtype).tolist()]


def by_definition(x: Matrix, rule: Int8Rule) -> tuple[list[list[int]], list[int]]:
    results = [quantize_int8_block(numbers(row), rule) for row in x]
    return [codes for codes, _ in results], [scale for _, scale in results]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=["float32", "float16", "bfloat16"])
def test_symmetric_arrays_are_those_of_the_definition(dtype: Any, rule: Int8Rule) -> None:
    x = rows_for(dtype)
    result = quantize_int8(x, rule)
    codes, scales = by_definition(x, rule)
    assert result.codes.dtype == np.int8
    assert result.codes.tolist() == codes
    assert result.scales[:, 0].view(np.uint32).tolist() == scales


def unit_codes(values: list[float], rule: Int8Rule) -> list[int]:
    return [int(code) for code in quantize_int8(np.array([values], np.float32), rule).codes[0]]


def test_ties_clamps_and_specials() -> None:
    """P21: 0.5, 1.5, 2.5, 127.5, 127.6 and -128.4 at step 1, next to what an even and an odd neighbour decide."""
    even = Int8Rule(name="even", scale=replace(UNIT, step=StepForm.DIVIDE, max_norm=1024), source="a test")
    away, short = replace(even, ties=Ties.AWAY), replace(even, lowest=-127)
    values = [0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 127.6, -127.5, -128.4, -128.6, 300.0, -300.0, NAN]
    assert unit_codes(values, even) == [0, 2, 2, 0, -2, 126, 127, 127, -128, -128, -128, 127, -128, 0]
    assert unit_codes(values, away) == [1, 2, 3, -1, -2, 127, 127, 127, -128, -128, -128, 127, -128, 0]
    assert unit_codes(values, short) == [0, 2, 2, 0, -2, 126, 127, 127, -127, -127, -127, 127, -127, 0]


@pytest.mark.parametrize(
    ("value", "even", "away"), [(0.5, 0, 1), (-2.5, -2, -3), (3.5, 4, 4), (1e30, 2**31 - 1, 2**31 - 1)]
)
def test_known_integers(value: float, even: int, away: int) -> None:
    assert round_integer(Number.of(Fraction(value)), Ties.EVEN) == even
    assert round_integer(Number.of(Fraction(value)), Ties.AWAY) == away
    assert round_integer(Number(Kind.NAN), Ties.EVEN) == 0
    assert round_integer(Number(Kind.INFINITE, negative=True), Ties.EVEN) == -(2**31)


def test_a_row_of_zeros_has_scale_zero_and_codes_zero() -> None:
    result = quantize_int8(np.zeros((1, 5), np.float32))
    assert result.codes.tolist() == [[0] * 5]
    assert result.scales.tolist() == [[0.0]]


@pytest.mark.parametrize("granularity", [PER_TENSOR, Granularity(2, 3), PER_1X128])
def test_blocks_of_other_extents_cut_the_matrix(granularity: Granularity) -> None:
    x = rows_for(np.float32)[:9, :7]
    result = quantize_int8(x, granularity=granularity)
    height, width = granularity.rows or 9, granularity.columns or 7
    for row in range(0, 9, height):
        for column in range(0, 7, width):
            block = x[row : row + height, column : column + width]
            codes, _ = quantize_int8_block(numbers(block.ravel()), VLLM_SYMMETRIC)
            assert result.codes[row : row + height, column : column + width].ravel().tolist() == codes


def affine_rows(dtype: Any) -> Matrix:
    rng = np.random.default_rng(4)
    wide = rng.standard_normal((20, 30)) * 2.0 ** rng.integers(-10, 10, (20, 1))
    shifted = wide[:10] + rng.choice([5.0, -7.0, 100.0, -0.5], (10, 1)) * np.abs(wide[:10]).max(axis=1, keepdims=True)
    grid = np.linspace(-1, 1, 30)[np.newaxis] * np.array([[127.5], [1.0], [255.0], [3.0]]) + [[0], [1], [127.5], [0.7]]
    grid = np.concatenate([grid, rng.integers(-510, 511, (6, 30)) / 2])
    grid[4:, 0], grid[4:, 1] = -127.5, 127.5
    steps = rng.choice([1, 49 / 64, 105 / 64, 3 / 64], (12, 1))
    odd = rng.integers(-250, 250, (12, 30)) / 2 * steps  # exact ties, and an odd zero point: min / scale is -127
    odd[:, :2] = np.array([[-127.0, 128.0]]) * steps
    with_nan = wide[:2].copy()
    with_nan[:, 3] = NAN
    with np.errstate(all="ignore"):
        return np.concatenate([wide, shifted, grid, odd, with_nan]).astype(np.float32).astype(dtype)


def affine_by_definition(x: Matrix) -> tuple[list[list[int]], list[int], list[int]]:
    results = [quantize_affine_row(numbers(row)) for row in x]
    return [r[0] for r in results], [r[1] for r in results], [r[2] for r in results]


def parts(result: AffineRows) -> tuple[list[list[int]], list[int], list[int]]:
    return result.codes.tolist(), result.scales.view(np.uint32).tolist(), result.zeros.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=["float32", "float16", "bfloat16"])
def test_affine_arrays_are_those_of_the_definition(dtype: Any) -> None:
    x = affine_rows(dtype)
    assert parts(quantize_affine(x)) == affine_by_definition(x)


def test_a_row_from_0_to_255_is_its_own_codes_shifted() -> None:
    result = quantize_affine(np.arange(256, dtype=np.float32)[np.newaxis])
    assert (result.scales.tolist(), result.zeros.tolist()) == ([1.0], [-128])
    assert result.codes[0].tolist() == list(range(-128, 128))


def test_the_zero_point_shifts_a_product_by_a_row_sum() -> None:
    """P21: sum of (q - zero) · w is sum of q · w less zero times the sum of w, in integers."""
    x = affine_rows(np.float32)
    result = quantize_affine(x)
    w = np.random.default_rng(9).integers(-127, 128, (30, 6))
    q, zeros = result.codes.astype(np.int64), result.zeros.astype(np.int64)[:, np.newaxis]
    assert ((q - zeros) @ w == q @ w - zeros * w.sum(axis=0)).all()


# Faulty twins.

Symmetric = Callable[[Matrix], Matrix]


def symmetric_codes(x: Matrix, rule: Int8Rule) -> Matrix:
    return quantize_int8(x, rule).codes


def half_up(x: Matrix) -> Matrix:
    scaled = scaled_values(x)
    return np.clip(np.floor(scaled + 0.5), -128, 127).astype(np.int8)


def scaled_values(x: Matrix) -> npt.NDArray[np.float64]:
    amax = np.fmax.reduce(np.abs(x), axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        inverse = np.where(amax == 0, np.float32(0), np.float32(127) / amax)
        values = (x * inverse).astype(np.float64)
    return np.where(np.isnan(values), 0, values)


def wraps(x: Matrix) -> Matrix:
    """A static step of half the right one, converted without saturation."""
    return np.clip(np.rint(scaled_values(x) * 1.5), -1000, 1000).astype(np.int64).astype(np.int8)


SYMMETRIC_FAULTS: dict[str, Symmetric] = {
    "half up": half_up,
    "half away from zero": lambda x: symmetric_codes(x, replace(VLLM_SYMMETRIC, ties=Ties.AWAY)),
    "truncation": lambda x: np.trunc(scaled_values(x)).astype(np.int8),
    "wrap": wraps,
    "norm 128": lambda x: symmetric_codes(x, replace(VLLM_SYMMETRIC, scale=replace(VLLM_INT8, max_norm=128))),
    "reciprocal of the step": lambda x: symmetric_codes(
        x, replace(VLLM_SYMMETRIC, scale=replace(VLLM_INT8, apply=Apply.INVERSE))
    ),
    "divide by the step": lambda x: symmetric_codes(x, replace(VLLM_SYMMETRIC, scale=DIVIDED)),
    "one scale for the tensor": lambda x: quantize_int8(x, granularity=PER_TENSOR).codes,
    "ratio in double": lambda x: np.where(
        np.isfinite(x).all(axis=1, keepdims=True),
        np.rint(x * (127.0 / np.maximum(np.abs(x.astype(np.float64)).max(axis=1, keepdims=True), 1e-300))),
        symmetric_codes(x, VLLM_SYMMETRIC),
    ),
}


@pytest.mark.parametrize("fault", SYMMETRIC_FAULTS)
def test_no_faulty_symmetric_quantiser_survives(fault: str) -> None:
    x = rows_for(np.float32)
    with np.errstate(all="ignore"):
        observed = SYMMETRIC_FAULTS[fault](x)
    assert observed.astype(np.int64).tolist() != by_definition(x, VLLM_SYMMETRIC)[0]


def affine_model(x: Matrix, levels: float = 255, lowest: float = -128, **steps: Any) -> Any:
    """vLLM's formula with steps that a fault replaces: `zero`, `scaled`, `join`."""
    low, high = (reduce(x, axis=1, keepdims=True) for reduce in (np.fmin.reduce, np.fmax.reduce))
    scale = (high - low) / np.float32(levels)
    zero = steps["zero"](low, scale) if "zero" in steps else np.rint(np.float32(lowest) - low / scale)
    values = steps["scaled"](x, scale) if "scaled" in steps else x * (np.float32(1) / scale)
    join = steps.get("join", lambda v, z: np.clip(np.rint(np.where(np.isnan(v), 0, v)) + z, -128, 127))
    return (
        join(values, zero).astype(np.int64).tolist(),
        scale[:, 0].view(np.uint32).tolist(),
        zero[:, 0].astype(np.int64).tolist(),
    )


AFFINE_FAULTS: dict[str, Callable[[Matrix], Any]] = {
    "256 levels": lambda x: affine_model(x, levels=256),
    "codes from -127": lambda x: affine_model(x, lowest=-127),
    "zero point truncated": lambda x: affine_model(x, zero=lambda low, scale: np.trunc(np.float32(-128) - low / scale)),
    "zero point from the maximum": lambda x: affine_model(
        x, zero=lambda low, scale: np.rint(127 - (low + 255 * scale) / scale) + 1
    ),
    "divide for reciprocal": lambda x: affine_model(x, scaled=lambda v, scale: v / scale),
    "added before rounding": lambda x: affine_model(
        x, join=lambda v, z: np.clip(np.rint(np.where(np.isnan(v), 0, v) + z), -128, 127)
    ),
    "half up": lambda x: affine_model(
        x, join=lambda v, z: np.clip(np.floor(np.where(np.isnan(v), 0, v) + 0.5) + z, -128, 127)
    ),
    "wrap": lambda x: affine_model(x, join=lambda v, z: (np.rint(np.where(np.isnan(v), 0, v)) + z + 128) % 256 - 128),
    "NaN as the lowest": lambda x: affine_model(
        x, join=lambda v, z: np.clip(np.rint(np.where(np.isnan(v), -1e9, v)) + z, -128, 127)
    ),
}


def test_the_affine_model_without_a_fault_agrees() -> None:
    assert affine_model(affine_rows(np.float32)) == affine_by_definition(affine_rows(np.float32))


@pytest.mark.parametrize("fault", AFFINE_FAULTS)
def test_no_faulty_affine_quantiser_survives(fault: str) -> None:
    x = affine_rows(np.float32)
    assert AFFINE_FAULTS[fault](x) != affine_by_definition(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: quantize_affine(np.full((2, 3), 5, np.float32)), r"row 0 from 5\.0 to 5\.0 has scale 0\.0"),
        (lambda: quantize_affine(np.array([[1, 2], [0, INF]], np.float32)), r"row 1 from 0\.0 to inf"),
        (lambda: quantize_affine(np.array([[NAN, NAN]], np.float32)), "row 0 from nan to nan"),
        (lambda: quantize_affine(np.array([[-3e38, 3e38]], np.float32)), "has scale inf"),
        (lambda: quantize_affine_row(numbers(np.full(3, 5, np.float32))), r"a row from 5\.0 to 5\.0 has scale 0\.0"),
        (lambda: quantize_affine_row(numbers(np.array([1, INF], np.float32))), "a row with an infinity"),
        (lambda: quantize_affine_row(numbers(np.array([NAN], np.float32))), "or of NaN alone"),
        (lambda: replace(VLLM_SYMMETRIC, lowest=-129), "the lowest code -129 is neither"),
        (lambda: quantize_int8(np.zeros((2, 3), np.int8)), "x has type int8"),
        (lambda: quantize_int8(np.zeros((0, 3), np.float32), granularity=PER_TENSOR), "T = 0 rows"),
    ],
)
def test_what_is_outside_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        make()


def test_no_rows_give_empty_arrays() -> None:
    assert quantize_int8(np.zeros((0, 4), np.float32), granularity=PER_ROW).codes.shape == (0, 4)
    assert quantize_affine(np.zeros((0, 4), np.float32)).zeros.shape == (0,)
