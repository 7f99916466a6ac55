"""What a difference is called: bits, classes, maps and the signature that groups findings."""

import numpy as np
import pytest

from tileproof.conformance.bits import describe, steps
from tileproof.conformance.compare import compare_bits, draw_map, explaining_class
from tileproof.conformance.contract import Role, TensorSpec

CODES = TensorSpec("codes", "c", Role.OUTPUT, np.dtype(np.uint8), "E4M3FN", (4, 64))


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("E4M3FN", 0x7E, "0x7e 0|1111|110 = 448"),
        ("E4M3FN", 0xFF, "0xff 1|1111|111 = nan"),
        ("E4M3FN", 0x80, "0x80 1|0000|000 = -0"),
        ("BFLOAT16", 0xC080, "0xc080 1|10000001|0000000 = -4"),
        ("FLOAT16", 0x7C00, "0x7c00 0|11111|0000000000 = inf"),
        ("FLOAT32", 0x00000001, "0x00000001 0|00000000|00000000000000000000001 = 1.40129846e-45"),
        ("E2M1FN", 0x7, "0x7 0|11|1 = 6"),
        ("E8M0FNU", 0x7F, "0x7f 01111111 = 1"),
    ],
)
def test_a_value_is_shown_split_and_decoded(name: str, raw: int, text: str) -> None:
    assert str(describe(name, raw)) == text


def test_steps_count_codes_across_zero_and_see_nan_as_far() -> None:
    a = np.array([0x01, 0x80, 0x7F, 0x7E, 0x7E], np.uint8)
    b = np.array([0x81, 0x00, 0xFF, 0x7F, 0x7C], np.uint8)
    assert steps("E4M3FN", a, b).tolist() == [2, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("expected", "observed", "change"),
    [
        (0x38, 0x39, "one step"),
        (0x38, 0x37, "one step"),
        (0x38, 0x48, "many steps"),
        (0x38, 0xB8, "sign"),
        (0x00, 0x80, "sign"),
        (0x7E, 0x7F, "NaN instead of a number"),
        (0x7F, 0x7E, "a number instead of NaN"),
        (0x7F, 0xFF, "another NaN"),
    ],
)
def test_the_signature_says_how_values_changed(expected: int, observed: int, change: str) -> None:
    right = np.full((4, 64), expected, np.uint8)
    finding = compare_bits(CODES, right, np.full_like(right, observed))
    assert finding is not None
    assert finding.signature == f"mismatch/codes/{change}/everywhere"


def test_equal_bits_have_no_finding_and_skipped_elements_do_not_count() -> None:
    right = np.zeros((4, 64), np.uint8)
    wrong = right.copy()
    wrong[2, 5] = 1
    assert compare_bits(CODES, right, right.copy()) is None
    assert compare_bits(CODES, right, wrong) is not None
    assert compare_bits(CODES, right, wrong, skip=wrong != 0) is None


def test_a_class_explains_only_what_chance_does_not() -> None:
    even = np.broadcast_to(np.arange(64) % 2 == 0, (4, 64))
    few, many = np.zeros((4, 64), np.bool_), np.zeros((4, 64), np.bool_)
    few[0, :8:2] = True
    many[:, ::4] = True
    assert explaining_class(few, {"even columns": even}) == "in several classes"
    assert explaining_class(many, {"even columns": even}) == "only in even columns"
    assert explaining_class(~even, {"even columns": even}) == "in several classes"
    assert explaining_class(np.ones((4, 64), np.bool_), {"even columns": even}) == "everywhere"


def test_the_map_shows_rows_and_columns_and_stays_small() -> None:
    differs = np.zeros((100, 1000), np.bool_)
    differs[:, -1] = True
    lines = draw_map(differs)
    assert lines[0] == "rows 0-99 down, columns 0-999 across; a mark is 7 x 16"
    assert len(lines) == 1 + 15  # of seven rows each, the last of two
    assert set(lines[1:]) == {"." * 62 + "+"}


def test_the_map_of_a_tensor_of_one_dimension_is_a_row() -> None:
    assert draw_map(np.array([True, False])) == ("elements 0-1 across; a mark is 1", "#.")
    assert draw_map(np.arange(200) == 7)[1:] == (".+" + "." * 48,)


def test_one_can_count_from_a_mark_to_its_element() -> None:
    for extent, at in ((129, 128), (129, 64), (65, 64), (1000, 777)):
        head, row = draw_map(np.arange(extent) == at)
        size = int(head.rpartition(" ")[2])
        assert len(row) - len(row.lstrip(".")) == at // size
