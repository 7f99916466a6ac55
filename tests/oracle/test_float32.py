"""Single float32 operations: numpy's arrays and the fused multiply-add against exact numbers."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import BFLOAT16, FLOAT32
from tileproof.oracle.numbers import float32, float32_array
from tileproof.oracle.numbers.float32_array import Float32s
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

Ternary = Callable[[Float32s, Float32s, Float32s], Float32s]

EDGES = [0, 1, 2, 0x7FFFFF, 0x800000, 0x33800000, 0x33FFFFFF, 0x3F800000, 0x3F800001, 0x3F7FFFFF, 0x4B800000]
EDGES += [0x7F000000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x3F802000, 0x39800000]


@cache
def triples() -> tuple[Float32s, Float32s, Float32s]:
    """Triples of edges with signs; random patterns; c near -a·b; and sums that miss a tie by less than float64 sees:
    c is an integer of 24 bits and a·b = ±(0.5 - 2^-41)."""
    rng = np.random.default_rng(0)
    edges = np.array([*EDGES, *(edge | 1 << 31 for edge in EDGES)], np.uint32).view(np.float32)
    grid = np.stack([array.ravel() for array in np.meshgrid(edges[::2], edges[1::2], edges[::3], indexing="ij")])
    random = rng.integers(0, 2**32, (3, 1500), np.uint64).astype(np.uint32).view(np.float32)
    near = rng.standard_normal((3, 1500)).astype(np.float32)
    with np.errstate(all="ignore"):
        near[2] = -(near[0] * near[1]) * rng.choice(np.array([1, 2**-24, 2**-12, 2**24, 2**25], np.float32), 1500)
    tie = np.empty((3, 400), np.float32)
    tie[0] = (0.5 + 2.0**-21) * rng.choice(np.array([-1, 1]), 400)
    tie[1] = 1 - 2.0**-20
    tie[2] = rng.integers(1 << 23, 1 << 24, 400)
    subnormal = rng.integers(0, 1 << 24, (3, 400), np.uint64).astype(np.uint32).view(np.float32)
    subnormal[1] = rng.choice(np.array([0.5, 0.25, 1.5, -0.5], np.float32), 400)
    a, b, c = np.concatenate([grid, random, near, tie, subnormal], axis=1)
    return a, b, c


def numbers(values: Float32s) -> list[Number]:
    return [FLOAT32.number(bits) for bits in values.view(np.uint32).tolist()]


def wrong_elements(observed: Float32s, expected: list[Number]) -> list[int]:
    codes = [FLOAT32.round(number, overflow=Overflow.INF) for number in expected]
    seen = [FLOAT32.round(number, overflow=Overflow.INF) for number in numbers(observed)]  # one NaN
    return [i for i, (one, other) in enumerate(zip(seen, codes, strict=True)) if one != other]


def by_definition(operation: Callable[..., Number], *operands: Float32s) -> list[Number]:
    return [operation(*row) for row in zip(*map(numbers, operands), strict=True)]


@cache
def fused() -> list[Number]:
    return by_definition(float32.fused_multiply_add, *triples())


def test_the_fused_multiply_add_is_the_exact_one() -> None:
    a, b, c = triples()
    wrong = wrong_elements(float32_array.fused_multiply_add(a, b, c), fused())
    assert not wrong, [(a[i], b[i], c[i]) for i in wrong[:5]]


def through_float64(a: Float32s, b: Float32s, c: Float32s) -> Float32s:
    return np.asarray((a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32))


def toward_zero(a: Float32s, b: Float32s, c: Float32s) -> Float32s:
    exact = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    return FLOAT32.encode(exact, rounding="toward-zero", overflow="inf").view(np.float32)


def always_away(a: Float32s, b: Float32s, c: Float32s) -> Float32s:
    """Marks the lost part by growing the sum, whatever the side."""
    product = a.astype(np.float64) * b.astype(np.float64)
    total = product + c.astype(np.float64)
    lost = total - product != c.astype(np.float64)
    return np.asarray(
        np.where(lost & np.isfinite(total), np.nextafter(total, np.inf * np.sign(total)), total).astype(np.float32)
    )


FAULTS: dict[str, Ternary] = {
    "product rounded first": lambda a, b, c: a * b + c,
    "float64 in between": through_float64,
    "truncation": toward_zero,
    "sticky on the wrong side": always_away,
    "addend dropped": lambda a, b, c: a * b,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_faulty_fused_multiply_add_survives(fault: str) -> None:
    a, b, c = triples()
    with np.errstate(all="ignore"):
        observed = FAULTS[fault](a, b, c)
    assert wrong_elements(observed, fused())


@pytest.mark.parametrize(
    ("exact", "array"),
    [(float32.multiply, np.multiply), (float32.divide, np.divide), (float32.add, np.add)],
    ids=["multiply", "divide", "add"],
)
def test_numpy_gives_the_exact_operation(exact: Callable[..., Number], array: Callable[..., Float32s]) -> None:
    a, b, c = triples()
    with np.errstate(all="ignore"):
        assert not wrong_elements(array(a, c), by_definition(exact, a, c))
        assert not wrong_elements(array(b, a), by_definition(exact, b, a))


def finite(value: float) -> Number:
    return Number(Kind.FINITE, bool(np.signbit(value)), abs(Fraction(value)))


INFINITY, NAN = Number(Kind.INFINITE), Number(Kind.NAN)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (finite(1.5), finite(-1.5), finite(0.0)),
        (finite(0.0), finite(-0.0), finite(0.0)),
        (finite(-0.0), finite(-0.0), finite(-0.0)),
        (finite(-2.0), finite(0.5), finite(-1.5)),
        (INFINITY, -INFINITY, NAN),
        (-INFINITY, finite(3.0), -INFINITY),
        (finite(3.0), INFINITY, INFINITY),
        (INFINITY, INFINITY, INFINITY),
        (NAN, INFINITY, NAN),
    ],
)
def test_exact_sums_of_special_numbers(a: Number, b: Number, expected: Number) -> None:
    assert a + b == expected
    assert b + a == expected


def test_bfloat16_rounds_to_even_and_has_one_nan() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 20_000, np.uint64).astype(np.uint32)
    bits[:65536:7] &= np.uint32(0xFFFF8000)  # ties
    observed = float32_array.round_bfloat16(bits.view(np.float32)).view(np.uint16)
    numbers_of = numbers(bits.view(np.float32))
    expected = [BFLOAT16.round(number, Rounding.NEAREST_EVEN, Overflow.INF) for number in numbers_of]
    assert observed.tolist() == expected


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_widening_is_exact_for_every_pattern(dtype: Any) -> None:
    values: npt.NDArray[Any] = np.arange(1 << 16).astype(np.uint16).view(dtype)
    wide = float32_array.widen(values, "x of a test")
    with np.errstate(all="ignore"):
        expected = values.astype(np.float32)
    assert ((wide.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(wide) & np.isnan(expected))).all()


def test_widening_refuses_other_types() -> None:
    with pytest.raises(Refusal, match=r"x has type int32\nhint: a test takes bfloat16"):
        float32_array.widen(np.zeros(3, np.int32), "x of a test")
