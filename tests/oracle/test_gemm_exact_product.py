"""Exact products: the definition on exact numbers, its fast form, and the limits of the integers they use."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.formats import E4M3FN, E5M2, FLOAT32
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.products.exact_product import ExactProduct, exact_dot, exact_product
from tileproof.oracle.products.integer_matrix import FLOAT64_EXACT, multiply_integers
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import OPERAND_TYPES

PAIRS = [
    ("e4m3", "e4m3"),
    ("e5m2", "e5m2"),
    ("e4m3", "e5m2"),
    ("e4m3fnuz", "e5m2fnuz"),
    ("e2m1", "e3m2"),
    ("f16", "f16"),
    ("s8", "s8"),
    ("u8", "s8"),
]
LARGEST_E4M3 = 448**2 * 2**18  # in units of 2^-18


def random_codes(name: str, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Any code of the type, infinities and NaN among them."""
    operand = OPERAND_TYPES[name]
    bits = operand.record.bits if operand.record else 8
    codes = np.random.default_rng(seed).integers(0, 1 << bits, shape)
    return codes.astype(f"u{operand.code_dtype.itemsize}").view(operand.code_dtype)


def number_at(product: ExactProduct, at: tuple[int, ...]) -> Number:
    special = float(product.special[at])
    if special == 0:
        return Number.of(int(product.units[at]) * Fraction(2) ** product.step)
    return FLOAT32.number(FLOAT32.nan_code if np.isnan(special) else int(np.float32(special).view(np.uint32)))


def same(x: Number, y: Number) -> bool:
    return (x.is_nan and y.is_nan) or x == y


@pytest.mark.parametrize("depth", [1, 2, 9])
@pytest.mark.parametrize("types", PAIRS, ids=".".join)
def test_the_matrix_form_is_the_definition_on_any_codes(types: tuple[str, str], depth: int) -> None:
    a, b = random_codes(types[0], (40, depth), 1), random_codes(types[1], (13, depth), 2)
    product = exact_product(*types, a, b)
    for row, column in np.ndindex(40, 13):
        right = exact_dot(*types, a[row].tolist(), b[column].tolist())
        assert same(number_at(product, (row, column)), right), (row, column, a[row], b[column])


@pytest.mark.parametrize(("name", "record"), [("e4m3", E4M3FN), ("e5m2", E5M2)])
def test_every_product_of_two_codes_is_the_product_of_their_values(name: str, record: Any) -> None:
    codes = np.arange(256, dtype=np.uint8)[:, np.newaxis]
    product = exact_product(name, name, codes, codes)
    values = record.decode(codes[:, 0])
    with np.errstate(invalid="ignore"):
        right = np.outer(values, values)
    finite = np.isfinite(right)
    assert np.array_equal(product.special == 0, finite)
    assert np.array_equal(product.special[~finite], right[~finite], equal_nan=True)
    assert np.array_equal(np.ldexp(product.units.astype(np.float64), product.step)[finite], right[finite])


def test_float64_holds_e4m3_sums_up_to_k_171196_and_no_further() -> None:
    most = FLOAT64_EXACT // LARGEST_E4M3
    assert most == 171_196
    row = np.full((1, most + 1), 0x7E, np.uint8)
    inside = exact_product("e4m3", "e4m3", row[:, :most], row[:, :most])
    assert inside.units.item() == most * LARGEST_E4M3
    assert inside.values().item() == most * 448**2
    beyond = exact_product("e4m3", "e4m3", row, row)
    assert beyond.units.item() == (most + 1) * LARGEST_E4M3
    with pytest.raises(Refusal, match=f"{(most + 1) * LARGEST_E4M3} units of 2\\^-18"):
        beyond.values()


def test_sums_just_below_the_limit_keep_their_last_unit() -> None:
    depth = 171_196
    a = np.full((2, depth), 0x7E, np.uint8)
    a[1, -1] = 0x01
    b = np.full((1, depth), 0x7E, np.uint8)
    b[0, -1] = 0x01
    sums = exact_product("e4m3", "e4m3", a, b).units[:, 0]
    assert sums.tolist() == [(depth - 1) * LARGEST_E4M3 + 448 * 2**9, (depth - 1) * LARGEST_E4M3 + 1]


def test_sums_of_e5m2_products_pass_64_bits_and_stay_exact() -> None:
    largest = 57344**2 * 2**32
    a = np.full((2, 1000), 0x7B, np.uint8)
    a[1, 0] = 0x01
    product = exact_product("e5m2", "e5m2", a, a)
    assert largest.bit_length() == 64
    assert product.units[0, 0] == 1000 * largest
    assert product.units[0, 1] == 999 * largest + 57344 * 2**16
    assert product.units[1, 1] == 999 * largest + 1


def test_a_product_of_mixed_formats_is_in_64_bits_while_it_can_be() -> None:
    depth = (2**63 - 1) // (448 * 57344 * 2**25)
    a, b = np.full((1, depth + 1), 0x7E, np.uint8), np.full((1, depth + 1), 0xFB, np.uint8)
    fits = exact_product("e4m3", "e5m2", a[:, 1:], b[:, 1:])
    beyond = exact_product("e4m3", "e5m2", a, b)
    assert (fits.units.dtype, beyond.units.dtype) == (np.dtype(np.int64), np.dtype(object))
    assert fits.units.item() == -depth * 448 * 57344 * 2**25
    assert beyond.units.item() == -(depth + 1) * 448 * 57344 * 2**25


@pytest.mark.parametrize("bits", [3, 20, 31, 40])
def test_integer_matrices_multiply_exactly_whatever_their_width(bits: int) -> None:
    rng = np.random.default_rng(bits)
    most = (1 << bits) - 1
    a, b = rng.integers(-most, most, (4, 33), endpoint=True), rng.integers(-most, most, (5, 33), endpoint=True)
    a[0], b[0] = most, -most
    right = a.astype(object) @ b.T.astype(object)
    assert np.array_equal(multiply_integers(a, b, most, most).astype(object), right)


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("types", [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("f16", "f16")], ids=".".join)
def test_rounding_to_float32_happens_once_from_the_exact_sum(types: tuple[str, str], rounding: Rounding) -> None:
    a, b = random_codes(types[0], (30, 40), 5), random_codes(types[1], (30, 40), 6)
    product = exact_product(*types, a, b)
    rounded = product.rounded(rounding).view(np.uint32)
    for at in np.ndindex(30, 30):
        if product.special[at] == 0:
            right = FLOAT32.round(number_at(product, at), rounding, Overflow.INF)
            assert rounded[at] == right, (at, product.units[at])


def test_a_tie_and_its_neighbours_beyond_64_bits_round_right() -> None:
    """2^40·(2^24 + 1) units lie half way between two float32 values; e5m2 codes can add one unit of 2^-32 to it."""
    units = np.array([((1 << 24) + 1) * 2**62 + delta for delta in (-1, 0, 1)], object)
    product = ExactProduct(units, -32, np.zeros(3), 1 << 100)
    assert product.rounded().tolist() == [2.0**54, 2.0**54, 2.0**54 * (1 + 2.0**-23)]
    negative = ExactProduct(-units, -32, np.zeros(3), 1 << 100)
    assert negative.rounded().tolist() == [-x for x in product.rounded().tolist()]


def test_leading_dimensions_broadcast() -> None:
    a, b = random_codes("e4m3", (2, 1, 3, 7), 1) & 0x77, random_codes("e4m3", (4, 5, 7), 2) & 0x77
    product = exact_product("e4m3", "e4m3", a, b)
    assert product.units.shape == product.special.shape == (2, 4, 3, 5)
    assert np.array_equal(product.units[1, 2], exact_product("e4m3", "e4m3", a[1, 0], b[2]).units)


def test_no_products_sum_to_zero() -> None:
    product = exact_product("e4m3", "e4m3", np.zeros((2, 0), np.uint8), np.zeros((3, 0), np.uint8))
    assert product.units.tolist() == [[0] * 3] * 2
    assert product.values().tolist() == [[0.0] * 3] * 2


def test_distinct_power_of_two_scales_of_rows_and_columns_give_exact_integers() -> None:
    """P7: A = 2^-i · (integers) and B = 2^-j · (integers), so the product times 2^(i + j) is their integer product."""
    rng = np.random.default_rng(7)
    x, y = rng.integers(-7, 7, (5, 33), endpoint=True), rng.integers(-7, 7, (4, 33), endpoint=True)
    i, j = np.arange(5)[:, np.newaxis], np.arange(4)[:, np.newaxis]
    a, b = (E4M3FN.encode(np.ldexp(v.astype(np.float64), -s)) for v, s in ((x, i), (y, j)))
    values = exact_product("e4m3", "e4m3", a, b).values()
    assert np.array_equal(np.ldexp(values, i + j.T), (x @ y.T).astype(np.float64))


@pytest.mark.parametrize(
    ("types", "a", "b", "message"),
    [
        (("bf16", "bf16"), np.zeros((1, 2), np.uint16), np.zeros((1, 2), np.uint16), "bf16 needs integers of 2"),
        (("e4m3", "e4m4"), np.zeros((1, 2), np.uint8), np.zeros((1, 2), np.uint8), "'e4m4' is no operand type"),
        (("e4m3", "e4m3"), np.zeros((1, 2), np.int8), np.zeros((1, 2), np.uint8), "a has type int8"),
        (("e4m3", "e4m3"), np.zeros((1, 2), np.uint8), np.zeros((1, 3), np.uint8), "a has K = 2, but b has K = 3"),
        (("e4m3", "e4m3"), np.zeros(2, np.uint8), np.zeros((1, 2), np.uint8), r"a has shape \(2,\)"),
        (("e2m1", "e2m1"), np.full((1, 2), 16, np.uint8), np.zeros((1, 2), np.uint8), "a has the code 16"),
    ],
)
def test_what_is_not_legal_is_refused_by_name(
    types: tuple[str, str], a: NDArray[Any], b: NDArray[Any], message: str
) -> None:
    with pytest.raises(Refusal, match=message):
        exact_product(*types, a, b)
