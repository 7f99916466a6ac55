"""MX: shared exponents by their four owners' rules, the definition and the array twin, faulty twins."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import (
    E2M1FN,
    E2M3FN,
    E3M2FN,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E8M0FNU,
    FLOAT32,
    FloatFormat,
    source_format,
)
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.scaling.mx import ELEMENTS, MxScale, dequantize_mx, mx_scale_code, quantize_mx, quantize_mx_block

Blocks = npt.NDArray[Any]
each_mode = pytest.mark.parametrize("mode", MxScale)
each_element = pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)


def blocks_for(dtype: Any) -> Blocks:
    """[n, 32]: amax at every boundary of a rule in several binades, ties of the elements, zeros, NaN, infinity."""
    rng = np.random.default_rng(5)
    mantissas = [1, 1 + 2**-23, 1.0625, 1.25, 1.5, 1.5 + 2**-22, 1.75, 1.75 + 2**-22, 1.875, 1.9374, 1.9375, 1.96875]
    tops = [
        m * 2.0**k for m in [*mantissas, 2 - 2**-23] for k in (-149, -140, -127, -126, -119, -118, 0, 8, 9, 120, 127)
    ]
    rows = rng.uniform(-1, 1, (len(tops), 32)) * np.array(tops)[:, np.newaxis]
    rows[:, 0] = tops
    rows[:, 1:20] = np.array(tops)[:, np.newaxis] * rng.integers(-32, 33, (len(tops), 19)) / 32
    specials = np.zeros((5, 32))
    specials[1:, 0] = [np.nan, np.inf, -np.inf, -0.0]
    specials[1:4, 1:] = rng.standard_normal((3, 31))
    with np.errstate(all="ignore"):
        return np.concatenate([rows, specials]).astype(np.float32).astype(dtype)


def by_definition(x: Blocks, mode: MxScale, element: FloatFormat) -> tuple[list[list[int]], list[int]]:
    source = source_format(x.dtype)
    results = [
        quantize_mx_block([source.number(bits) for bits in row], mode, element)
        for row in x.view(source.code_dtype).tolist()
    ]
    return [codes for codes, _ in results], [scale for _, scale in results]


@each_mode
@each_element
def test_the_array_twin_gives_the_bytes_of_the_definition(mode: MxScale, element: FloatFormat) -> None:
    x = blocks_for(np.float32)
    result = quantize_mx(x, mode, element=element)
    codes, scales = by_definition(x, mode, element)
    assert result.scales[:, 0].tolist() == scales
    assert result.codes.tolist() == codes


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
def test_sixteen_bit_sources_are_widened_exactly(dtype: Any) -> None:
    x = blocks_for(dtype)
    result = quantize_mx(x, MxScale.FLOOR)
    codes, scales = by_definition(x, MxScale.FLOOR, E4M3FN)
    assert (result.codes.tolist(), result.scales[:, 0].tolist()) == (codes, scales)


@pytest.mark.parametrize(
    ("element", "amax", "floor", "ceil", "even", "rceil"),
    [
        (E4M3FN, 448.0, 0, 1, 0, 0),
        (E4M3FN, 256.0, 0, 0, 0, 0),
        (E4M3FN, 449.0, 0, 1, 0, 1),
        (E4M3FN, 495.0, 0, 1, 0, 1),
        (E4M3FN, 496.0, 0, 1, 1, 1),  # 1.9375: half a step below 2
        (E4M3FN, 500.0, 0, 1, 1, 1),
        (E4M3FN, 512.0, 1, 1, 1, 1),
        (E4M3FN, 957.0, 1, 2, 1, 2),  # microxcaling issue 4: 957 becomes 896
        (E2M1FN, 6.0, 0, 1, 0, 0),
        (E2M1FN, 7.0, 0, 1, 1, 1),
        (E5M2, 57344.0, 0, 1, 0, 0),
        (E2M3FN, 7.5, 0, 1, 0, 0),
        (E3M2FN, 28.0, 0, 1, 0, 0),
        (E4M3FN, 2.0**-149, -127, -127, -127, -127),
        (E4M3FN, 448 * 2.0**-127, -127, -126, -127, -127),
        (E4M3FN, 3.4028234663852886e38, 119, 120, 120, 120),
    ],
)
def test_known_exponents(element: FloatFormat, amax: float, floor: int, ceil: int, even: int, rceil: int) -> None:
    modes = {MxScale.FLOOR: floor, MxScale.CEIL: ceil, MxScale.EVEN: even, MxScale.RCEIL: rceil}
    assert {mode: mx_scale_code(mode, element, Number.of(Fraction(amax))) - 127 for mode in MxScale} == modes


def test_957_becomes_896_by_floor() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, 3] = 957
    result = quantize_mx(x, MxScale.FLOOR)
    assert dequantize_mx(result)[0, 3] == 896
    assert dequantize_mx(quantize_mx(x, MxScale.RCEIL))[0, 3] == 960


@each_mode
@each_element
def test_specials_and_zeros(mode: MxScale, element: FloatFormat) -> None:
    x = np.zeros((4, 32), np.float32)
    x[1, 5], x[2, 7], x[3, 9] = np.nan, -np.inf, -0.0
    result = quantize_mx(x, mode, element=element)
    assert result.scales.tolist() == [[0], [0xFF], [0xFF], [0]]
    assert (result.codes[0] == 0).all()
    assert (result.codes[1:3] == element.nan_code).all()
    assert result.codes[3].tolist() == [element.sign_bit if k == 9 else 0 for k in range(32)]
    assert np.isnan(dequantize_mx(result, element=element)[1:3]).all()


@each_mode
def test_no_element_of_a_ceiling_saturates(mode: MxScale) -> None:
    """By RCEIL and CEIL amax over the scale is at most the largest value; by FLOOR and EVEN it can be more."""
    x = blocks_for(np.float32)
    x = x[np.isfinite(x).all(axis=1)]
    result = quantize_mx(x, mode)
    amax, scale = np.abs(x).max(axis=1).astype(np.float64), E8M0FNU.decode(result.scales[:, 0])
    fits = amax / scale <= 448 * (1 + 2**-20)
    assert fits.all() == (mode in (MxScale.RCEIL, MxScale.CEIL))


# Faulty quantisers.

Quantise = Callable[[Blocks], tuple[Blocks, Blocks]]


def pieces(x: Blocks, mode: MxScale = MxScale.FLOOR, element: FloatFormat = E4M3FN) -> tuple[Blocks, Blocks]:
    result = quantize_mx(x, mode, element=element)
    return result.codes, result.scales[:, 0]


def with_scales(change: Callable[[Blocks], Blocks]) -> Quantise:
    """Quantises with another scale code and stores it."""

    def quantise(x: Blocks) -> tuple[Blocks, Blocks]:
        _, scales = pieces(x)
        changed = np.where(scales == 0xFF, scales, np.clip(change(scales.astype(np.int64)), 0, 254)).astype(np.uint8)
        with np.errstate(all="ignore"):
            scaled = x / E8M0FNU.decode(changed)[:, np.newaxis]
        return np.where(changed[:, np.newaxis] == 0xFF, 0x7F, E4M3FN.encode(scaled)), changed

    return quantise


def not_clipped(x: Blocks) -> tuple[Blocks, Blocks]:
    codes, scales = pieces(x)
    field = np.abs(x).max(axis=1).view(np.uint32) >> np.uint32(23)
    return codes, np.where(scales == 0xFF, scales, (field.astype(np.int64) - 8) % 256)


def truncated(x: Blocks) -> tuple[Blocks, Blocks]:
    codes, scales = pieces(x)
    with np.errstate(all="ignore"):
        scaled = x / E8M0FNU.decode(scales)[:, np.newaxis]
    return np.where(scales[:, np.newaxis] == 0xFF, codes, E4M3FN.encode(scaled, rounding="toward-zero")), scales


def rounded_after(x: Blocks) -> tuple[Blocks, Blocks]:
    """Codes by the exact step amax / 448, its power of two stored."""
    scales = pieces(x, MxScale.RCEIL)[1]
    with np.errstate(all="ignore"):
        return E4M3FN.encode(x / (np.abs(x).max(axis=1, keepdims=True) / np.float32(448))), scales


def nan_dropped(x: Blocks) -> tuple[Blocks, Blocks]:
    return pieces(np.where(np.isnan(x), np.float32(0), x))


FAULTS: dict[str, tuple[MxScale, Quantise]] = {
    "ceil for floor": (MxScale.FLOOR, lambda x: pieces(x, MxScale.CEIL)),
    "floor for ceil": (MxScale.CEIL, pieces),
    "floor for even": (MxScale.EVEN, pieces),
    "even for floor": (MxScale.FLOOR, lambda x: pieces(x, MxScale.EVEN)),
    "ceil for the ceiling of the ratio": (MxScale.RCEIL, lambda x: pieces(x, MxScale.CEIL)),
    "even for the ceiling of the ratio": (MxScale.RCEIL, lambda x: pieces(x, MxScale.EVEN)),
    "emax one too large": (MxScale.FLOOR, with_scales(lambda codes: codes - 1)),
    "scale not clipped": (MxScale.FLOOR, not_clipped),
    "elements truncated": (MxScale.FLOOR, truncated),
    "scale rounded after quantising": (MxScale.RCEIL, rounded_after),
    "NaN dropped": (MxScale.FLOOR, nan_dropped),
    "blocks of 16": (
        MxScale.FLOOR,
        lambda x: (
            np.concatenate([pieces(np.pad(h, ((0, 0), (0, 16))))[0][:, :16] for h in (x[:, :16], x[:, 16:])], axis=1),
            pieces(x)[1],
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_faulty_quantiser_survives(fault: str) -> None:
    mode, faulty = FAULTS[fault]
    x = blocks_for(np.float32)
    codes, scales = faulty(x)
    expected_codes, expected_scales = by_definition(x, mode, E4M3FN)
    assert codes.tolist() != expected_codes or scales.tolist() != expected_scales


@pytest.mark.parametrize("shape", [(0, 64), (3, 0), (2, 3, 64), (32,)])
def test_any_rank_and_size(shape: tuple[int, ...]) -> None:
    result = quantize_mx(np.ones(shape, np.float32), MxScale.EVEN, element=E2M1FN)
    assert result.codes.shape == shape
    assert result.scales.shape == (*shape[:-1], shape[-1] // 32)


@pytest.mark.parametrize(
    ("x", "element", "message"),
    [
        (np.zeros((2, 33), np.float32), E4M3FN, r"x has shape \(2, 33\); its last axis is no multiple of 32"),
        (np.zeros((), np.float32), E4M3FN, r"x has shape \(\)"),
        (np.zeros((2, 32)), E4M3FN, "x has type float64"),
        (np.zeros((2, 32), np.float32), E4M3FNUZ, "E4M3FNUZ is no element format of MX"),
        (np.zeros((2, 32), np.float32), E8M0FNU, "E8M0FNU is no element format"),
    ],
)
def test_what_is_outside_is_refused(x: Blocks, element: FloatFormat, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        quantize_mx(x, MxScale.FLOOR, element=element)


def test_every_amax_pattern_near_the_rules_gives_the_code_of_the_definition() -> None:
    """All boundaries of all binades for the ratio's ceiling, where a float32 product decides."""
    mantissas = np.array(
        [0, 1, 0x600000, 0x5FFFFF, 0x600001, 0x700000, 0x700001, 0x400000, 0x400001, 0x7FFFFF], np.uint32
    )
    bits = (np.arange(255, dtype=np.uint32)[:, np.newaxis] << np.uint32(23) | mantissas).ravel()
    x = np.zeros((bits.size, 32), np.float32)
    x[:, 31] = bits.view(np.float32)
    for element in ELEMENTS:
        for mode in (MxScale.RCEIL, MxScale.EVEN):
            expected = [mx_scale_code(mode, element, FLOAT32.number(pattern)) for pattern in bits.tolist()]
            assert quantize_mx(x, mode, element=element).scales[:, 0].tolist() == expected
