"""Each family reaches what its name promises, on the shapes that the smoke tier gives it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Arrays, Tier
from tileproof.conformance.families import FAMILIES, INVERSE_OVERFLOW, finite_grid, midpoints, tiny_amaxima
from tileproof.conformance.ninfer_quantize import NINFER_QUANTIZE
from tileproof.conformance.ninfer_quantize_cases import DTYPES
from tileproof.oracle.quantize import quantize_rows

SMOKE = NINFER_QUANTIZE.cases(Tier.SMOKE)
Products = NDArray[np.float32]


def wide(x: NDArray[Any]) -> NDArray[np.float64]:
    """x as float64; widening a signalling NaN is meant."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x.astype(np.float64))


def home(family: str, dtype: str) -> Case:
    """The first smoke case of a family and element type, which is the roomy one."""
    return next(case for case in SMOKE if case.family == family and case.shape.dtype == dtype)


def inputs_of(family: str, dtype: str) -> tuple[NDArray[Any], Products, NDArray[np.uint8], NDArray[np.float32]]:
    """x, x · inverse, codes and scales."""
    x = NINFER_QUANTIZE.inputs(home(family, dtype))["x"]
    right = quantize_rows(x)
    with np.errstate(all="ignore"):
        inverse = np.where(right.scales > 0, np.float32(1) / right.scales, np.float32(0)).astype(np.float32)
        return x, x.astype(np.float32) * inverse[:, None], right.codes, right.scales


def values_and_neighbours(points: NDArray[np.float64], dtype: str) -> set[float]:
    """Points with their neighbours in the source type, as float64, those within ±448."""
    exact = points.astype(DTYPES[dtype])
    ends = [np.array(end, DTYPES[dtype]) for end in (-np.inf, np.inf)]
    around = np.concatenate([exact, *(np.nextafter(exact, end) for end in ends)]).astype(np.float64)
    return set(around[np.abs(around) <= 448].tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_codes_reaches_every_finite_code_and_the_neighbours_of_each_value(dtype: str) -> None:
    _, products, codes, _ = inputs_of("all-codes", dtype)
    assert set(range(256)) - {0x7F, 0xFF} - {0x80} <= set(codes.ravel().tolist())
    nonzero = finite_grid()[finite_grid() != 0]
    wanted = values_and_neighbours(nonzero, dtype)
    got = set(products.astype(np.float64).ravel().tolist())
    assert wanted <= got


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_reaches_every_tie_and_both_its_neighbours_in_the_source_type(dtype: str) -> None:
    _, products, _, scales = inputs_of("ties", dtype)
    assert np.frexp(scales[0])[0] == 0.5
    got = set(products[0].astype(np.float64).tolist())
    assert midpoints().size == 252
    assert values_and_neighbours(midpoints(), dtype) <= got


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_has_rows_whose_scale_is_no_power_of_two(dtype: str) -> None:
    _, products, _, scales = inputs_of("ties", dtype)
    assert np.frexp(scales[1])[0] != 0.5
    distance = np.abs(np.abs(products[1][:, None]) / midpoints()[midpoints() > 0] - 1).min(axis=1)
    assert (distance < 2.0**-6).mean() > 0.95


def test_ties_separates_a_division_from_the_reciprocal() -> None:
    x, products, _, scales = inputs_of("ties", "f32")
    divided = x.astype(np.float32) / scales[:, None]
    assert np.isin(np.abs(products) - np.abs(divided), 0).mean() < 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormals_reaches_subnormal_codes_and_subnormals_of_the_source_type(dtype: str) -> None:
    x, _, codes, _ = inputs_of("subnormals", dtype)
    assert set(range(1, 8)) <= set((codes & 0x7F).ravel().tolist())
    smallest_normal = float(np.finfo(np.float16).smallest_normal) if dtype == "f16" else 2.0**-126
    odd = np.abs(x[1::2].astype(np.float64))
    assert ((odd > 0) & (odd < smallest_normal)).mean() > 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_top_binade_reaches_each_code_from_256_to_448(dtype: str) -> None:
    _, _, codes, _ = inputs_of("top-binade", dtype)
    assert set(range(0x78, 0x7F)) <= set((codes & 0x7F).ravel().tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_specials_has_both_infinities_both_zeros_and_nans_of_several_payloads_and_signs(dtype: str) -> None:
    x, _, _, _ = inputs_of("specials", dtype)
    values = wide(x)
    assert {np.inf, -np.inf} <= set(values[np.isinf(values)].tolist())
    assert set(np.signbit(values[values == 0]).tolist()) == {True, False}
    bits = x.view(f"u{x.dtype.itemsize}")[np.isnan(values)]
    assert len(set(bits.tolist())) >= 8
    assert np.isnan(values).all(axis=1).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_rows_has_rows_of_each_zero_and_an_ordinary_row(dtype: str) -> None:
    x, _, _, scales = inputs_of("zero-rows", dtype)
    zero = x.astype(np.float64) == 0
    negative = np.signbit(x.astype(np.float64))
    kinds = {(bool(n.any()), bool(n.all())) for n, z in zip(negative, zero, strict=True) if z.all()}
    assert kinds == {(False, False), (True, True), (True, False)}
    assert (scales == 0).any()
    assert (scales > 0).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_rows_reaches_each_of_the_tiny_maxima(dtype: str) -> None:
    x, _, _, _ = inputs_of("tiny-rows", dtype)
    assert set(np.abs(x.astype(np.float64)).max(axis=1).tolist()) == set(tiny_amaxima(DTYPES[dtype]).tolist())


def test_tiny_rows_stands_on_both_sides_of_a_vanishing_scale_and_of_an_infinite_inverse() -> None:
    _, products, _, scales = inputs_of("tiny-rows", "f32")
    assert (scales == 0).any()
    assert (scales == np.float32(2.0**-149)).any()
    assert np.isinf(products).any()
    amax = tiny_amaxima(DTYPES["f32"])
    assert {-1, 0, 1} <= set(np.sign(amax - INVERSE_OVERFLOW).tolist())
    with np.errstate(over="ignore"):
        inverse = np.float32(1) / (amax[amax >= INVERSE_OVERFLOW].astype(np.float32) / np.float32(448))
    assert np.isinf(inverse[:4]).tolist() == [True, True, True, False]


@pytest.mark.parametrize("dtype", DTYPES)
def test_giant_among_tiny_has_one_giant_a_row_and_reaches_the_largest_finite_value(dtype: str) -> None:
    x, _, codes, _ = inputs_of("giant-among-tiny", dtype)
    assert ((codes & 0x7F) == 0x7E).sum(axis=1).tolist() == [1] * len(x)
    assert float(np.abs(x.astype(np.float64)).max()) == {"bf16": 2.0**128 - 2.0**120, "f16": 65504.0}.get(
        dtype, 2.0**128 - 2.0**104
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_on_grid_is_exact_under_scales_that_differ_from_row_to_row(dtype: str) -> None:
    _, products, _, scales = inputs_of("on-grid", dtype)
    assert np.isin(products.astype(np.float64), finite_grid()).all()
    assert len(set(scales.tolist())) == len(scales)


def test_random_bits_covers_nan_both_signs_and_most_exponents() -> None:
    x, _, _, _ = inputs_of("random-bits", "bf16")
    assert np.isnan(wide(x)).any()
    assert len(set((x.view(np.uint16) >> 7).ravel().tolist())) > 450


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (3, 8)])
def test_a_family_fits_the_smallest_shapes(family: str, dtype: str, shape: tuple[int, int]) -> None:
    x = FAMILIES[family](*shape, DTYPES[dtype], np.random.default_rng(0))
    assert (x.shape, x.dtype) == (shape, DTYPES[dtype])


def test_data_depends_on_the_id_alone() -> None:
    def bits(arrays: Arrays) -> bytes:
        return arrays["x"].tobytes()

    forward = [bits(NINFER_QUANTIZE.inputs(case)) for case in SMOKE]
    backward = [bits(NINFER_QUANTIZE.inputs(case)) for case in reversed(SMOKE)]
    assert forward == backward[::-1]
