"""AstrAI's quantize: both stages by definition, layouts, amax of raw values, faulty twins."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import BFLOAT16, E2M1FN, E4M3FN, E5M2, FLOAT32, source_format
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scaling.astrai_quantize import AstraiQuantized, Outputs, Stage, quantize, quantize_code

Values = npt.NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
SCALES = [
    np.float32(value) for value in (1, 0.1, 3 / 448, 49 / 448, 105 / 448, 1e-12, 1e12, 0, np.inf, np.nan, 2**-130)
]


def values_for(dtype: Any) -> Values:
    """[7, 62]: midpoints of E4M3FN and E5M2 at scales that round, random patterns, specials."""
    rng = np.random.default_rng(7)
    grid = np.concatenate([E4M3FN.decode(np.arange(0x7F)), E5M2.decode(np.arange(0x40, 0x7B))])
    ties = rng.choice((grid[1:] + grid[:-1]) / 2, 248) * rng.choice([1, 3 / 448, 49 / 448, 105 / 448], 248)
    random = rng.standard_normal(124) * 2.0 ** rng.integers(-30, 30, 124)
    specials = np.resize([0.0, -0.0, np.nan, np.inf, -np.inf, 448, -464, 465, 1e-40, -3e38], 62)
    with np.errstate(all="ignore"):
        return np.concatenate([ties, random, specials]).astype(np.float32).astype(dtype).reshape(7, 62)


def by_definition(x: Values, scale: np.float32, stage: Stage, target: Any) -> list[int]:
    source, number = source_format(x.dtype), FLOAT32.number(int(scale.view(np.uint32)))
    bits = x.view(source.code_dtype).ravel().tolist()
    return [quantize_code(source.number(pattern), number, stage, target) for pattern in bits]


@pytest.mark.parametrize("target", [E4M3FN, E5M2], ids=lambda target: target.name)
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_codes_are_those_of_the_definition(scale: np.float32, stage: Stage, target: Any) -> None:
    x = values_for(BF16)
    result = quantize(x, scale, stage, Outputs(rows=target))
    assert result.rows is not None
    assert result.rows.ravel().tolist() == by_definition(x, scale, stage, target)
    assert result.transposed is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["float32", "float16"])
def test_the_multiplier_stage_takes_other_types(dtype: Any) -> None:
    x = values_for(dtype)
    result = quantize(x, np.float32(1 / 3), Stage.MULTIPLIER)
    assert result.rows is not None
    assert result.rows.ravel().tolist() == by_definition(x, np.float32(1 / 3), Stage.MULTIPLIER, E4M3FN)


def test_the_stages_agree_when_the_caller_rounds_the_reciprocal() -> None:
    x = values_for(BF16)
    for scale in SCALES[:5]:
        step, multiplier = quantize(x, scale, Stage.STEP), quantize(x, np.float32(1) / scale, Stage.MULTIPLIER)
        assert np.array_equal(step.rows, multiplier.rows)  # type: ignore[arg-type]  # rows are written


@pytest.mark.parametrize("shape", [(7, 62), (2, 7, 31), (7, 2, 31), (1, 434), (434, 1), (0, 5), (5, 0), (0, 3, 4)])
def test_transposed_and_dual_outputs_hold_the_same_codes(shape: tuple[int, ...]) -> None:
    x = np.resize(values_for(BF16), shape) if np.prod(shape) else np.zeros(shape, BF16)
    scale = np.float32(0.1)
    rows = quantize(x, scale, Stage.STEP).rows
    transposed = quantize(x, scale, Stage.STEP, Outputs(rows=None, transposed=E4M3FN))
    dual = quantize(x, scale, Stage.STEP, Outputs(rows=E4M3FN, transposed=E5M2))
    assert rows is not None
    assert transposed.rows is None
    assert transposed.transposed is not None
    assert dual.transposed is not None
    leading = int(np.prod(shape[:-1]))
    assert transposed.transposed.shape == (shape[-1], leading)
    assert transposed.transposed.flags.c_contiguous
    flat = rows.reshape(leading, shape[-1])
    assert all(transposed.transposed[c, r] == flat[r, c] for r in range(leading) for c in range(shape[-1]))
    assert np.array_equal(dual.rows, rows)  # type: ignore[arg-type]  # both are written
    in_e5m2 = quantize(x, scale, Stage.STEP, Outputs(rows=None, transposed=E5M2)).transposed
    assert np.array_equal(dual.transposed, in_e5m2)  # type: ignore[arg-type]  # both are written


@pytest.mark.parametrize(
    ("values", "amax"),
    [
        ([1.0, -3.0, 2.0], 3.0),
        ([np.nan, -3.0], 3.0),
        ([np.nan], 0.0),
        ([-np.inf, np.nan], np.inf),
        ([-0.0], 0.0),
        ([], 0.0),
        ([-(2.0**-133)], 2.0**-133),
    ],
)
def test_amax_is_that_of_the_raw_values(values: list[float], amax: float) -> None:
    for stage in Stage:
        result = quantize(np.array(values, np.float32).astype(BF16), np.float32(0.25), stage)
        assert result.amax == amax
        assert result.amax.dtype == np.float32
        assert not np.signbit(result.amax)


def rows(x: Values, scale: np.float32, stage: Stage = Stage.STEP, target: Any = E4M3FN) -> Values:
    result: AstraiQuantized = quantize(x, scale, stage, Outputs(rows=target))
    assert result.rows is not None
    return result.rows


def product(x: Values, scale: np.float32) -> npt.NDArray[np.float32]:
    return np.asarray(x.astype(np.float32) * (np.float32(1) / scale))


def second_pair_lost(x: Values, scale: np.float32) -> Values:
    """Two fp8x2 results a word, of which the second overwrites the first."""
    codes = rows(x, scale).copy()
    codes[:, 0:60:4], codes[:, 1:61:4] = codes[:, 2:62:4], codes[:, 3:63:4][:, :15]
    return codes


FAULTS: dict[str, Callable[[Values, np.float32], Values]] = {
    "scale taken for the multiplier": lambda x, s: rows(x, s, Stage.MULTIPLIER),
    "divide for reciprocal": lambda x, s: E4M3FN.encode(x.astype(np.float32) / s),
    "reciprocal in double": lambda x, s: E4M3FN.encode(x.astype(np.float64) * (1 / np.float64(s))),
    "product rounded to bfloat16": lambda x, s: E4M3FN.encode(product(x, s).astype(BF16)),
    "not saturated": lambda x, s: E4M3FN.encode(product(x, s), overflow="nan"),
    "truncation": lambda x, s: E4M3FN.encode(product(x, s), rounding="toward-zero"),
    "the other format": lambda x, s: rows(x, s, target=E5M2),
    "pairs of a word lost": second_pair_lost,
    "transposed": lambda x, s: np.ascontiguousarray(rows(x, s).T).reshape(x.shape),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_faulty_quantiser_survives(fault: str) -> None:
    x = values_for(BF16)
    wrong = False
    for scale in SCALES[1:5]:
        with np.errstate(all="ignore"):
            observed = FAULTS[fault](x, scale)
        wrong |= observed.ravel().tolist() != by_definition(x, scale, Stage.STEP, E4M3FN)
    assert wrong


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: quantize(np.ones(3, np.float32), np.float32(1), Stage.STEP),
            "x has type float32; the stage with a step",
        ),
        (lambda: quantize(np.ones(3), np.float32(1), Stage.MULTIPLIER), "x has type float64"),
        (lambda: quantize(np.ones(3, BF16), 1.0, Stage.STEP), "the scale is a float, not a float32 scalar"),  # type: ignore[arg-type]
        (lambda: quantize(np.ones(3, BF16), np.float32(1), Stage.STEP, Outputs(None, E4M3FN)), "needs two axes"),
        (lambda: Outputs(None, None), "does not write no layout"),
        (lambda: Outputs(E2M1FN), "does not write E2M1FN"),
        (lambda: Outputs(E4M3FN, BFLOAT16), "does not write E4M3FN and BFLOAT16"),
    ],
)
def test_what_is_outside_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        make()
