"""Stochastic rounding: the carry rule, by definition and by array, and twins that must be seen."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import BFLOAT16, E4M3FN, E4M3FNUZ, E5M2, E8M0FNU, FLOAT32, FORMATS, FloatFormat
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.stochastic import encode_stochastic, round_stochastic
from tileproof.oracle.refusal import Refusal

Codes = npt.NDArray[np.uint8]
SIGNED = [record for record in FORMATS.values() if record.signed]
each_format = pytest.mark.parametrize("record", SIGNED, ids=lambda record: record.name)


def values_for(record: FloatFormat) -> npt.NDArray[np.float32]:
    """Codes, points between them, both sides of the largest value, specials, random patterns."""
    grid = record.decode(np.arange(record.max_code + 1))
    between = [grid[:-1] + np.diff(grid) * part for part in (2**-20, 2**-8, 0.25, 0.5, 255 / 256)]
    points = np.concatenate(
        [grid, *between, grid[-1] * np.array([1.001, 1.03, 1.05, 2.0]), [np.inf, np.nan, 1e-30, 1e-45]]
    )
    random = np.random.default_rng(record.bits).integers(0, 2**32, 300, np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        return np.concatenate([points, -points, random]).astype(np.float32)


def draws(size: int, random_bits: int) -> npt.NDArray[np.uint32]:
    random = np.random.default_rng(random_bits).integers(0, 2**random_bits, size, np.uint64)
    random[::3], random[1::7] = 0, 2**random_bits - 1
    random[2::5] = 2 ** (random_bits - 1)
    return random.astype(np.uint32)


def by_definition(record: FloatFormat, values: npt.NDArray[np.float32], random: Any, random_bits: int) -> list[int]:
    numbers = [FLOAT32.number(bits) for bits in values.view(np.uint32).tolist()]
    return [round_stochastic(record, n, r, random_bits) for n, r in zip(numbers, random.tolist(), strict=True)]


@pytest.mark.parametrize("random_bits", [1, 4, 8, 16, 24, 32])
@each_format
def test_array_and_definition_agree(record: FloatFormat, random_bits: int) -> None:
    values = values_for(record)
    random = draws(values.size, random_bits)
    assert encode_stochastic(record, values, random, random_bits=random_bits).tolist() == by_definition(
        record, values, random, random_bits
    )


@each_format
def test_the_upper_neighbour_is_taken_as_often_as_the_value_is_near_it(record: FloatFormat) -> None:
    """Over all 256 draws of 8 bits the mean is the value itself, for values on the grid of 2^-8 steps."""
    for code in (0, 1, record.max_code - 1):
        low, high = record.number(code).magnitude, record.number(code + 1).magnitude
        for steps in (0, 1, 100, 128, 255):
            number = Number.of(low + (high - low) * Fraction(steps, 256))
            codes = [round_stochastic(record, number, random, 8) for random in range(256)]
            assert codes.count(code + 1) == steps
            assert codes.count(code) == 256 - steps


@pytest.mark.parametrize(
    ("value", "random", "code"),
    [(17.0, 7, 0x58), (17.0, 8, 0x59), (-17.0, 8, 0xD9), (16.0, 15, 0x58), (460.0, 15, 0x7E), (-1e9, 0, 0xFE)],
)
def test_known_values(value: float, random: int, code: int) -> None:
    observed = encode_stochastic(E4M3FN, np.array([value], np.float32), np.array([random], np.uint8), random_bits=4)
    assert observed.tolist() == [code]


def compared_strictly(record: FloatFormat, values: Any, random: Any, bits: int) -> Codes:
    return encode_stochastic(record, values, np.where(random > 0, random - 1, 0), random_bits=bits)


def nearest(record: FloatFormat, values: Any, random: Any, bits: int) -> Codes:
    return record.encode(values)


FAULTS: dict[str, Callable[[FloatFormat, Any, Any, int], Codes]] = {
    "nearest even": nearest,
    "truncation": lambda record, values, random, bits: record.encode(values, rounding="toward-zero"),
    "random bits upside down": lambda record, values, random, bits: encode_stochastic(
        record, values, (1 << bits) - 1 - random, random_bits=bits
    ),
    "one random bit fewer": lambda record, values, random, bits: encode_stochastic(
        record, values, random >> 1, random_bits=bits - 1
    ),
    "carry one too late": compared_strictly,
    "subnormals flushed": lambda record, values, random, bits: encode_stochastic(
        record,
        np.where(np.abs(values) < np.float32(2.0**record.min_exponent), np.copysign(np.float32(0), values), values),
        random,
        random_bits=bits,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_faulty_rounding_survives(fault: str) -> None:
    values = values_for(E4M3FN)
    random = draws(values.size, 8)
    observed = FAULTS[fault](E4M3FN, values, random, 8)
    assert observed.tolist() != by_definition(E4M3FN, values, random, 8)


def test_zero_keeps_its_sign_where_it_has_one() -> None:
    zeros, random = np.array([0.0, -0.0], np.float32), np.full(2, 255, np.uint8)
    assert encode_stochastic(E5M2, zeros, random, random_bits=8).tolist() == [0x00, 0x80]
    assert encode_stochastic(E4M3FNUZ, zeros, random, random_bits=8).tolist() == [0x00, 0x00]


@pytest.mark.parametrize(
    ("record", "values", "random", "bits", "message"),
    [
        (E8M0FNU, np.ones(1, np.float32), np.zeros(1, np.uint8), 8, "E8M0FNU has no stochastic rounding"),
        (BFLOAT16, np.ones(1, np.float32), np.zeros(1, np.uint8), 8, "BFLOAT16 has no stochastic rounding"),
        (E4M3FN, np.ones(1, np.float64), np.zeros(1, np.uint8), 8, "values are float64"),
        (E4M3FN, np.ones(1, np.float32), np.zeros(2, np.uint8), 8, r"random bits uint8 \(2,\)"),
        (E4M3FN, np.ones(1, np.float32), np.zeros(1, np.float32), 8, "random bits float32"),
        (E4M3FN, np.ones(1, np.float32), np.zeros(1, np.uint8), 0, "0 random bits"),
        (E4M3FN, np.ones(1, np.float32), np.zeros(1, np.uint8), 33, "33 random bits"),
        (E4M3FN, np.ones(1, np.float32), np.full(1, 16), 4, r"0\.\.16 do not fit 4 bits"),
        (E4M3FN, np.ones(1, np.float32), np.full(1, -1), 4, r"-1\.\.0 do not fit"),
    ],
)
def test_what_is_outside_is_refused(record: FloatFormat, values: Any, random: Any, bits: int, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        encode_stochastic(record, values, random, random_bits=bits)
