"""Integers in a report: two's complement, distances in codes, and a finding that a person can read."""

from typing import Any

import numpy as np
import pytest

from tileproof.conformance.bits import describe, is_nan, magnitude, ordinal, steps
from tileproof.conformance.compare import compare_bits, raw_bits
from tileproof.conformance.contract import Role, TensorSpec


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("INT8", 0x80, "0x80 10000000 = -128"),
        ("INT8", 0x7F, "0x7f 01111111 = 127"),
        ("INT32", 0xFFFFFFFF, f"0xffffffff {'1' * 32} = -1"),
        ("UINT64", 2**32 - 1, f"0x00000000ffffffff {'0' * 32}{'1' * 32} = 4294967295"),
    ],
)
def test_an_integer_is_described_by_its_bits_and_its_value(name: str, raw: int, text: str) -> None:
    assert str(describe(name, raw)) == text


def test_int8_has_the_order_of_its_values_and_no_nan() -> None:
    raw: Any = np.arange(256, dtype=np.uint8)
    values = raw.view(np.int8).astype(int)
    assert np.array_equal(ordinal("INT8", raw), values)
    assert np.array_equal(magnitude("INT8", raw), np.abs(values))
    assert not is_nan("INT8", raw).any()


def test_the_distance_of_the_two_ends_is_255_codes() -> None:
    ends: Any = (np.array([0x80], np.uint8), np.array([0x7F], np.uint8))
    assert steps("INT8", *ends).tolist() == [255]


def test_a_difference_of_integers_is_a_finding_with_both_values() -> None:
    spec = TensorSpec("packed", "p", Role.OUTPUT, np.dtype(np.int8), "INT8", (4,))
    expected, observed = np.array([1, -128, 3, 4], np.int8), np.array([1, 127, 3, 4], np.int8)
    finding = compare_bits(spec, raw_bits(expected), raw_bits(observed))
    assert finding is not None
    assert "1 of 4 elements differ" in finding.message
    assert "expected 0x80 10000000 = -128, got 0x7f 01111111 = 127" in finding.message
    assert compare_bits(spec, raw_bits(expected), raw_bits(expected)) is None
