"""The conversions of PTX against values from the manual, the single-code definitions and ml_dtypes; faulty twins."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import BFLOAT16, E2M1FN, E2M3FN, E3M2FN, E4M3FN, E5M2, E8M0FNU, FLOAT32, FloatFormat
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.ptx_conversion import (
    NARROW,
    ScaleRounding,
    cvt_bf16x2_to_ue8m0x2,
    cvt_from_f16x2,
    cvt_from_f32,
    cvt_to_bf16x2,
    cvt_to_f16x2,
    cvt_to_ue8m0x2,
    cvt_ue8m0x2_to_bf16x2,
    scale_code,
)
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

Bits = npt.NDArray[np.uint32]
RZ, RP = ScaleRounding.TOWARD_ZERO, ScaleRounding.UP

each_narrow = pytest.mark.parametrize("record", NARROW, ids=lambda record: record.name)


def f32(*values: float) -> Bits:
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize(
    ("record", "a", "b", "word"),
    [
        (E4M3FN, 1.0, 2.0, 0x3840),
        (E4M3FN, 464.0, -1e9, 0x7EFE),
        (E4M3FN, np.inf, -np.inf, 0x7EFE),
        (E4M3FN, -0.0, 2.0**-10, 0x8000),
        (E5M2, 61440.0, -np.inf, 0x7BFB),
        (E2M1FN, 6.0, -1.0, 0x7A),
        (E2M3FN, 7.5, -7.6, 0x1F3F),
        (E3M2FN, 28.0, -30.0, 0x1F3F),
    ],
)
def test_the_first_source_fills_the_upper_half(record: FloatFormat, a: float, b: float, word: int) -> None:
    result = cvt_from_f32(record, f32(a), f32(b))
    assert result.tolist() == [word]
    assert result.dtype == (np.uint8 if record is E2M1FN else np.uint16)


@pytest.mark.parametrize(
    ("record", "code"), [(E4M3FN, 0x7F), (E5M2, 0x7F), (E2M1FN, 0x7), (E2M3FN, 0x1F), (E3M2FN, 0x1F)]
)
@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF])
@pytest.mark.parametrize("relu", [False, True])
def test_a_nan_becomes_one_code_whatever_its_sign(record: FloatFormat, code: int, bits: int, relu: bool) -> None:
    source = np.array([bits], np.uint32)
    word = code << 4 | code if record is E2M1FN else code << 8 | code
    assert cvt_from_f32(record, source, source, relu=relu).tolist() == [word]


@each_narrow
def test_relu_zeroes_the_negative(record: FloatFormat) -> None:
    word = cvt_from_f32(record, f32(-1.0, -np.inf, -0.0, -1e-30, 1.0), f32(-2.0, 2.0, 3.0, 4.0, -6.0), relu=True)
    plain = cvt_from_f32(record, f32(0.0, 0.0, 0.0, 0.0, 1.0), f32(0.0, 2.0, 3.0, 4.0, 0.0))
    assert word.tolist() == plain.tolist()


@pytest.mark.parametrize("record", [E4M3FN, E5M2], ids=lambda record: record.name)
def test_every_float16_converts_as_through_float32(record: FloatFormat) -> None:
    halves = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        wide = halves.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    word = cvt_from_f16x2(record, halves << np.uint32(16) | halves[::-1])
    assert (word == cvt_from_f32(record, wide, wide[::-1])).all()


@each_narrow
def test_every_pair_of_codes_becomes_float16_exactly(record: FloatFormat) -> None:
    slot = 4 if record is E2M1FN else 8
    codes = np.arange(2**record.bits, dtype=np.uint32)
    words = (codes[:, None] << np.uint32(slot) | codes).astype(np.uint8 if slot == 4 else np.uint16)
    result = cvt_to_f16x2(record, words)
    halves = record.decode(codes).astype(np.float16).view(np.uint16).astype(np.uint32)
    halves = np.where(np.isnan(record.decode(codes)), np.uint32(0x7FFF), halves)
    assert (result == (halves[:, None] << np.uint32(16) | halves)).all()
    positive = np.where((halves >> np.uint32(15)) != 0, np.uint32(0), halves)
    assert (cvt_to_f16x2(record, words, relu=True) == (positive[:, None] << np.uint32(16) | positive)).all()


SCALES = [
    (0x00000000, 0x00, 0x00),
    (0x00000001, 0x00, 0x00),
    (0x00400000, 0x00, 0x00),  # 2^-127
    (0x00400001, 0x00, 0x01),
    (0x007FFFFF, 0x00, 0x01),
    (0x00800000, 0x01, 0x01),
    (0x00800001, 0x01, 0x02),
    (0x3F800000, 0x7F, 0x7F),
    (0x3F800001, 0x7F, 0x80),
    (0x7F000000, 0xFE, 0xFE),
]


@pytest.mark.parametrize(("bits", "down", "up"), SCALES)
@pytest.mark.parametrize("sign", [0, 1 << 31])
def test_known_scales(bits: int, down: int, up: int, sign: int) -> None:
    source = np.array([bits | sign], np.uint32)
    for satfinite in (False, True):
        assert scale_code(RZ, source, satfinite).tolist() == [down]
        assert scale_code(RP, source, satfinite).tolist() == [up]


@pytest.mark.parametrize(
    ("bits", "rounding", "satfinite", "code"),
    [
        (0x7F7FFFFF, RZ, True, 0xFE),
        (0x7F7FFFFF, RZ, False, 0xFE),
        (0x7F7FFFFF, RP, True, 0xFE),
        (0x7F7FFFFF, RP, False, 0xFF),
        (0x7F800000, RZ, True, 0xFE),
        (0x7F800000, RZ, False, 0xFF),
        (0x7F800000, RP, True, 0xFE),
        (0xFF800000, RP, False, 0xFF),
        (0x7FC00000, RP, True, 0xFF),
        (0xFF800001, RZ, True, 0xFF),
    ],
)
def test_known_scales_at_the_upper_end(bits: int, rounding: ScaleRounding, satfinite: bool, code: int) -> None:
    assert scale_code(rounding, np.array([bits], np.uint32), satfinite).tolist() == [code]


def positive_patterns() -> Bits:
    edges = [exponent << 23 | mantissa for exponent in range(256) for mantissa in (0, 1, 0x400000, 0x400001, 0x7FFFFF)]
    return np.array([pattern for pattern in edges if 0 < pattern <= 0x7F800000], np.uint32)


@pytest.mark.parametrize(("rounding", "by_name"), [(RZ, Rounding.TOWARD_ZERO), (RP, Rounding.UP)])
@pytest.mark.parametrize(("satfinite", "overflow"), [(True, Overflow.SATURATE), (False, Overflow.NAN)])
def test_scales_are_those_of_the_format(
    rounding: ScaleRounding, by_name: Rounding, satfinite: bool, overflow: Overflow
) -> None:
    """An independent route: E8M0FNU.round on exact numbers."""
    patterns = positive_patterns()
    expected = [E8M0FNU.round(FLOAT32.number(bits), by_name, overflow) for bits in patterns.tolist()]
    assert scale_code(rounding, patterns, satfinite).tolist() == expected
    assert (scale_code(rounding, patterns | np.uint32(1 << 31), satfinite) == expected).all()
    word = cvt_to_ue8m0x2(rounding, patterns, patterns[::-1], satfinite=satfinite)
    assert (word >> 8 == expected).all()
    assert (word & 0xFF == expected[::-1]).all()


def test_every_bfloat16_gives_the_scale_of_its_float32() -> None:
    halves = np.arange(1 << 16, dtype=np.uint32)
    for rounding in ScaleRounding:
        word = cvt_bf16x2_to_ue8m0x2(rounding, halves << np.uint32(16) | halves[::-1], satfinite=True)
        codes = scale_code(rounding, halves << np.uint32(16), True)
        assert (word >> 8 == codes).all()
        assert (word & 0xFF == codes[::-1]).all()


def test_every_scale_becomes_bfloat16_exactly() -> None:
    codes = np.arange(256, dtype=np.uint16)
    result = cvt_ue8m0x2_to_bf16x2(codes << np.uint16(8) | codes[::-1])
    expected = [0x0040, *(code << 7 for code in range(1, 255)), 0x7FFF]
    assert (result >> 16 == expected).all()
    assert (result & 0xFFFF == expected[::-1]).all()
    numbers = [BFLOAT16.number(bits) for bits in expected[:-1]]
    assert numbers == [E8M0FNU.number(code) for code in range(255)]


def test_a_pair_to_bfloat16_rounds_to_even() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, np.uint64).astype(np.uint32)
    with np.errstate(all="ignore"):
        theirs = bits.view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    expected = np.where(np.isnan(bits.view(np.float32)), 0x7FFF, theirs).astype(np.uint32)
    assert (cvt_to_bf16x2(bits, bits[::-1]) == (expected << np.uint32(16) | expected[::-1])).all()


# Faulty conversions.

SOURCES = np.concatenate(
    [
        positive_patterns(),
        positive_patterns() | np.uint32(1 << 31),
        np.array([0x7FC00000, 0xFFC00000, 0, 1 << 31], np.uint32),
        np.concatenate([E4M3FN.decode(np.arange(0x7F)), [464.0, 500.0]]).astype(np.float32).view(np.uint32),
        (np.arange(1, 64) * 0.25 + 0.125).astype(np.float32).view(np.uint32),
    ]
)

Pair = Callable[[FloatFormat, Bits, Bits], npt.NDArray[Any]]


def with_codes(change: Callable[[FloatFormat, npt.NDArray[np.float32]], npt.NDArray[Any]]) -> Pair:
    def convert(record: FloatFormat, a: Bits, b: Bits) -> npt.NDArray[Any]:
        slot = 4 if record is E2M1FN else 8
        upper, lower = (change(record, bits.view(np.float32)).astype(np.uint32) for bits in (a, b))
        return upper << np.uint32(slot) | lower

    return convert


def nan_as_zero(record: FloatFormat, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    return np.where(np.isnan(values), 0, record.encode(values))


def nan_sign(record: FloatFormat, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    negative = np.isnan(values) & np.signbit(values)
    return np.where(negative, record.encode(values) | record.sign_bit, record.encode(values))


PAIR_FAULTS: dict[str, tuple[FloatFormat, Pair]] = {
    "halves swapped": (E4M3FN, lambda record, a, b: cvt_from_f32(record, b, a)),
    "not saturated": (E4M3FN, with_codes(lambda record, values: record.encode(values, overflow="nan"))),
    "infinity kept": (E5M2, with_codes(lambda record, values: record.encode(values, overflow="inf"))),
    "sign of NaN kept": (E5M2, with_codes(nan_sign)),
    "NaN as zero": (E2M1FN, with_codes(nan_as_zero)),
    "truncation": (E3M2FN, with_codes(lambda record, values: record.encode(values, rounding="toward-zero"))),
    "relu always": (E2M3FN, lambda record, a, b: cvt_from_f32(record, a, b, relu=True)),
}


@pytest.mark.parametrize("fault", PAIR_FAULTS)
def test_no_faulty_pair_conversion_survives(fault: str) -> None:
    record, faulty = PAIR_FAULTS[fault]
    assert (faulty(record, SOURCES, SOURCES[::-1]) != cvt_from_f32(record, SOURCES, SOURCES[::-1])).any()
    right = with_codes(lambda target, values: target.encode(values))
    assert (right(record, SOURCES, SOURCES[::-1]) == cvt_from_f32(record, SOURCES, SOURCES[::-1])).all()


def exponent_field(bits: Bits) -> npt.NDArray[Any]:
    return (bits >> np.uint32(23)) & np.uint32(0xFF)


SCALE_FAULTS: dict[str, Callable[[Bits], npt.NDArray[Any]]] = {
    "rounded down": lambda bits: scale_code(RZ, bits, True),
    "not saturated": lambda bits: scale_code(RP, bits, False),
    "half up": lambda bits: np.minimum(exponent_field(bits) + ((bits & 0x7FFFFF) >= 0x400000), 0xFE),
    "subnormals by mantissa alone": lambda bits: np.minimum(exponent_field(bits) + ((bits & 0x7FFFFF) != 0), 0xFE),
    "subnormals flushed": lambda bits: scale_code(
        RP, np.where(exponent_field(bits) == 0, 0, bits).astype(np.uint32), True
    ),
    "negative as zero": lambda bits: scale_code(RP, np.where(bits >> 31, 0, bits).astype(np.uint32), True),
}


@pytest.mark.parametrize("fault", SCALE_FAULTS)
def test_no_faulty_scale_conversion_survives(fault: str) -> None:
    numbers = SOURCES[(SOURCES & np.uint32(0x7FFFFFFF)) <= 0x7F800000]
    assert (SCALE_FAULTS[fault](numbers) != scale_code(RP, numbers, True)).any()


def test_operands_of_another_type_and_unknown_targets_are_refused() -> None:
    with pytest.raises(Refusal, match="operand b has type float32; the instruction takes uint32 bits"):
        cvt_from_f32(E4M3FN, f32(1.0), np.ones(1, np.float32))
    with pytest.raises(Refusal, match="shapes"):
        cvt_from_f32(E4M3FN, f32(1.0), f32(1.0, 2.0))
    with pytest.raises(Refusal, match=r"no cvt between E2M1FNx2 and f16x2\nhint: it has E4M3FN, E5M2"):
        cvt_from_f16x2(E2M1FN, f32(1.0))
    with pytest.raises(Refusal, match="no cvt between E8M0FNUx2 and f32"):
        cvt_from_f32(E8M0FNU, f32(1.0), f32(1.0))
    with pytest.raises(Refusal, match="operand a has type uint16"):
        cvt_to_f16x2(E2M1FN, np.zeros(1, np.uint16))
    with pytest.raises(Refusal, match=r"outside 0\.\.63"):
        cvt_to_f16x2(E2M3FN, np.array([0x4000], np.uint16))


def test_numbers_and_scalars_keep_their_shape() -> None:
    assert cvt_from_f32(E4M3FN, np.uint32(0x3F800000), np.uint32(0)).shape == ()
    assert cvt_from_f32(E4M3FN, f32(1, 2, 3, 4).reshape(2, 2).T, f32(1, 2, 3, 4).reshape(2, 2)).tolist() == [
        [0x3838, 0x4440],
        [0x4044, 0x4848],
    ]
    assert Number.of(1) == E8M0FNU.number(0x7F)
