"""The eight formats code by code, against ml_dtypes and gfloat; NaN rules; refusals."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from gfloat_formats import GFLOAT

from tileproof.oracle.formats import (
    BFLOAT16,
    E2M1FN,
    E4M3FN,
    E5M2,
    E8M0FNU,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    FloatFormat,
    nan_table,
)
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.refusal import Refusal

ML_DTYPES: dict[str, np.dtype[Any]] = {
    "E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
}


#: (library, format) -> codes that the library decodes to another value, and the clause that decides. None today.
DECODE_DIFFERENCES: dict[tuple[str, str], tuple[frozenset[int], str]] = {}

each_format = pytest.mark.parametrize("record", FORMATS.values(), ids=FORMATS)
wide_formats = pytest.mark.parametrize("record", [BFLOAT16, FLOAT16, FLOAT32, FLOAT64], ids=lambda r: r.name)


def all_codes(record: FloatFormat) -> npt.NDArray[np.uint8]:
    return np.arange(2**record.bits).astype(np.uint8)


def by_ml_dtypes(record: FloatFormat) -> npt.NDArray[np.float64]:
    return all_codes(record).view(ML_DTYPES[record.name]).astype(np.float64)


def by_gfloat(record: FloatFormat) -> npt.NDArray[np.float64]:
    return np.array([gfloat.decode_float(GFLOAT[record.name], int(code)).fval for code in all_codes(record)])


def same_value(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Equal bits, or both NaN: neither library gives a code's NaN a defined payload."""
    return np.asarray((one.view(np.uint64) == other.view(np.uint64)) | (np.isnan(one) & np.isnan(other)))


@pytest.mark.parametrize("library", [by_ml_dtypes, by_gfloat])
@each_format
def test_every_code_decodes_to_the_value_of_the_library(
    record: FloatFormat, library: Callable[[FloatFormat], npt.NDArray[np.float64]]
) -> None:
    different = np.flatnonzero(~same_value(record.decode(all_codes(record)), library(record)))
    listed, clause = DECODE_DIFFERENCES.get((library.__name__, record.name), (frozenset(), "none listed"))
    assert set(different.tolist()) == listed, f"codes {different} differ from {library.__name__}; listed: {clause}"


@each_format
def test_a_decoder_with_the_wrong_bias_or_specials_is_seen(record: FloatFormat) -> None:
    for name in FORMATS:
        other = FORMATS[name]
        if other.name != record.name and other.bits == record.bits:
            assert not same_value(other.decode(all_codes(record)), by_ml_dtypes(record)).all()


@pytest.mark.parametrize("record", [*FORMATS.values(), BFLOAT16, FLOAT16], ids=lambda r: r.name)
def test_number_and_decode_agree_on_every_code(record: FloatFormat) -> None:
    values = record.decode(np.arange(2**record.bits))
    for code, value in enumerate(values.tolist()):
        assert_number_is(record.number(code), value)


@wide_formats
def test_number_and_decode_agree_on_wide_formats(record: FloatFormat) -> None:
    codes = wide_codes(record, 2000)
    for code, value in zip(codes.tolist(), record.decode(codes).tolist(), strict=True):
        assert_number_is(record.number(code), value)


def assert_number_is(number: Number, value: float) -> None:
    __tracebackhide__ = True
    if np.isnan(value):
        assert number.kind is Kind.NAN
        return
    assert number.negative == bool(np.signbit(value))
    if np.isinf(value):
        assert number.kind is Kind.INFINITE
    else:
        assert (number.kind, number.magnitude) == (Kind.FINITE, abs(Fraction(value)))


def wide_codes(record: FloatFormat, count: int) -> npt.NDArray[Any]:
    """Random codes, and the neighbourhood of zero, the smallest normal, one, the largest finite and infinity."""
    random = np.random.default_rng(record.bits).integers(0, 2**64, count, np.uint64) >> np.uint64(64 - record.bits)
    corners = [0, 2**record.mantissa_bits, record.bias << record.mantissa_bits, record.max_code, record.top_field]
    near = [(code + step) % 2**record.bits | sign for code in corners for step in (-1, 0, 1) for sign in (0, 1)]
    signs = [record.sign_bit * (code & 1) ^ code for code in near]
    return np.concatenate([random, np.array(near + signs, np.uint64)]).astype(record.code_dtype)


@pytest.mark.parametrize(
    ("record", "dtype"),
    [(BFLOAT16, ml_dtypes.bfloat16), (FLOAT16, np.float16), (FLOAT32, np.float32), (FLOAT64, np.float64)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_wide_formats_decode_as_numpy_casts(record: FloatFormat, dtype: type) -> None:
    codes = wide_codes(record, 20_000)
    with np.errstate(all="ignore"):
        assert same_value(record.decode(codes), codes.view(dtype).astype(np.float64)).all()


#: Casts that round once. Not so: 8-byte types to bfloat16 (ml_dtypes goes through float32), integers to float16.
SINGLE_ROUNDING_CASTS = [
    (record, np.dtype(source))
    for record in (BFLOAT16, FLOAT16, FLOAT32)
    for source in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int64, np.uint64)
    if record is FLOAT32 or np.dtype(source).itemsize < 8 or (record is FLOAT16 and np.dtype(source).kind == "f")
]


@pytest.mark.parametrize(("record", "source"), SINGLE_ROUNDING_CASTS, ids=lambda value: value.name)
def test_wide_formats_encode_as_numpy_casts(record: FloatFormat, source: np.dtype[Any]) -> None:
    target = {"BFLOAT16": ml_dtypes.bfloat16, "FLOAT16": np.float16, "FLOAT32": np.float32}[record.name]
    values: npt.NDArray[Any] = np.random.default_rng(5).integers(0, 2**64, 20_000, np.uint64).view(source)[:20_000]
    with np.errstate(all="ignore"):
        expected = values.astype(target)
        nan = np.isnan(expected.astype(np.float64))
    codes = record.encode(values, overflow="inf")
    assert ((codes == expected.view(codes.dtype)) | (nan & (codes == record.nan_code))).all()


@each_format
def test_limits_follow_from_the_widths(record: FloatFormat) -> None:
    info: Any = ml_dtypes.finfo(ML_DTYPES[record.name])  # type: ignore[no-untyped-call]  # as ml_dtypes ships it
    assert record.decode(record.max_code) == float(info.max)
    smallest = record.decode(1 if record.has_subnormals else 0)
    assert smallest == float(info.smallest_subnormal if record.has_subnormals else info.tiny)
    assert record.bits == info.bits
    assert record.mantissa_bits == info.nmant


@each_format
def test_decode_then_encode_is_the_identity_on_finite_codes(record: FloatFormat) -> None:
    codes = all_codes(record)
    values = record.decode(codes)
    finite = np.isfinite(values)
    for rounding in Rounding:
        for dtype in (np.float64, np.float32, ml_dtypes.bfloat16):
            back = record.encode(values[finite].astype(dtype), rounding=rounding)
            assert (back == codes[finite]).all()
            assert back.dtype == np.uint8


@pytest.mark.parametrize("rounding", Rounding)
def test_decode_then_encode_is_the_identity_on_infinities(rounding: Rounding) -> None:
    codes = np.array([0x7C, 0xFC], np.uint8)
    assert (E5M2.encode(E5M2.decode(codes), rounding=rounding, overflow="inf") == codes).all()


@each_format
@pytest.mark.parametrize("overflow", Overflow)
def test_a_format_refuses_the_overflow_that_it_lacks(record: FloatFormat, overflow: Overflow) -> None:
    has = {"saturate": True, "nan": record.name not in ("E2M1FN", "E2M3FN", "E3M2FN"), "inf": record is E5M2}
    for values in (np.array([2.0]), np.zeros(0, np.float32), np.array([3])):
        if has[overflow]:
            assert record.encode(values, overflow=overflow).shape == values.shape
        else:
            with pytest.raises(Refusal, match=rf"{record.name} has no code for overflow '{overflow}'"):
                record.encode(values, overflow=overflow)


NAN_TABLE = """\
| format | NaN codes | nan | -nan | overflow nan | -0 | rule for NaN | source |
| --- | --- | --- | --- | --- | --- | --- | --- |
| E4M3FN | 0x7F 0xFF | 0x7F | 0x7F | 0x7F 0xFF | 0x80 | positive NaN, magnitude bits all ones | \
PTX ISA 9.1, cvt.e4m3x2 |
| E5M2 | 0x7D 0x7E 0x7F 0xFD 0xFE 0xFF | 0x7F | 0x7F | 0x7F 0xFF | 0x80 | positive NaN, magnitude bits all ones | \
PTX ISA 9.1, cvt.e5m2x2 |
| E4M3FNUZ | 0x80 | 0x80 | 0x80 | 0x80 0x80 | 0x00 | the only NaN code | the format has one NaN |
| E5M2FNUZ | 0x80 | 0x80 | 0x80 | 0x80 0x80 | 0x00 | the only NaN code | the format has one NaN |
| E2M1FN | none | 0x07 | 0x07 | refused | 0x08 | largest finite value, positive (the format has no NaN) | \
PTX ISA 9.1, cvt.e2m1x2 |
| E2M3FN | none | 0x1F | 0x1F | refused | 0x20 | largest finite value, positive (the format has no NaN) | \
PTX ISA 9.1, cvt.e2m3x2 |
| E3M2FN | none | 0x1F | 0x1F | refused | 0x20 | largest finite value, positive (the format has no NaN) | \
PTX ISA 9.1, cvt.e3m2x2 |
| E8M0FNU | 0xFF | 0xFF | 0xFF | 0xFF | refused | positive NaN, magnitude bits all ones | PTX ISA 9.1, cvt.ue8m0x2 |"""


def test_nan_codes_map_as_the_printed_table_says() -> None:
    assert nan_table() == NAN_TABLE


NAN_BITS: list[npt.NDArray[Any]] = [
    np.array([0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0 << 48 | 1, 2**64 - 1], np.uint64).view(np.float64),
    np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32),
    np.array([0x7E00, 0xFE00, 0x7C01, 0xFFFF], np.uint16).view(np.float16),
    np.array([0x7FC0, 0xFFC0, 0x7F81, 0xFFFF], np.uint16).view(ml_dtypes.bfloat16),
]


@each_format
@pytest.mark.parametrize("nans", NAN_BITS, ids=lambda nans: str(nans.dtype))
def test_sign_and_payload_of_a_nan_change_nothing(record: FloatFormat, nans: npt.NDArray[Any]) -> None:
    expected = {"E4M3FN": 0x7F, "E5M2": 0x7F, "E4M3FNUZ": 0x80, "E5M2FNUZ": 0x80, "E2M1FN": 0x07, "E2M3FN": 0x1F}
    for rounding in Rounding:
        codes = record.encode(nans, rounding=rounding)
        assert codes.tolist() == [{"E3M2FN": 0x1F, "E8M0FNU": 0xFF, **expected}[record.name]] * 4


@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, -np.inf, 0, -5])
def test_e8m0_refuses_zero_and_negative_values(value: float) -> None:
    with pytest.raises(Refusal, match="no zero and no negative values"):
        E8M0FNU.encode(np.array([1, value, 2]))
    number = Number(Kind.INFINITE, negative=True) if np.isinf(value) else Number.of(Fraction(value))
    with pytest.raises(Refusal, match="no zero and no negative values"):
        E8M0FNU.round(number)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([True, False]), "type bool"),
        (np.array([1.0], np.longdouble), "type (longdouble|float128)"),
        (np.array([1j]), "type complex128"),
        (np.array(["1.0"]), "type <U3"),
        (np.array([2**70], object), "type object"),
        (np.array([1.0], ml_dtypes.float8_e5m2), "type float8_e5m2"),
        (np.array(["2020-01-01"], "M8[D]"), "type datetime64"),
    ],
)
def test_values_without_an_exact_reading_are_refused(values: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        E4M3FN.encode(values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounding": "nearest"}, "rounding 'nearest' is none of 'nearest-even', 'toward-zero', 'up', 'down'"),
        ({"overflow": "wrap"}, "overflow 'wrap' is none of 'saturate', 'nan', 'inf'"),
    ],
)
def test_unknown_modes_are_refused_with_the_known_ones(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        E4M3FN.encode(np.array([1.0]), **arguments)


@pytest.mark.parametrize(
    ("record", "codes", "message"),
    [
        (E4M3FN, np.array([1.0]), "codes of E4M3FN are integers, not float64"),
        (E4M3FN, np.array([True]), "not bool"),
        (E4M3FN, np.array([1, 256]), r"code 256 \(element 1\) is outside 0..255"),
        (E4M3FN, np.array([-1], np.int8), "code -1 "),
        (E2M1FN, np.array([0x0F, 0x10], np.uint8), r"code 16 \(element 1\) is outside 0..15"),
    ],
)
def test_codes_wider_than_the_format_are_refused(record: FloatFormat, codes: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        record.decode(codes)


def test_a_single_code_wider_than_the_format_is_refused() -> None:
    with pytest.raises(Refusal, match=r"code 16 is outside 0..15, the codes of E2M1FN"):
        E2M1FN.number(16)


@pytest.mark.parametrize("record", [*FORMATS.values(), FLOAT32], ids=lambda r: r.name)
def test_shape_byte_order_and_strides_do_not_matter(record: FloatFormat) -> None:
    values = np.arange(1.0, 25.0).reshape(2, 3, 4)
    codes = record.encode(values)
    for dtype in (">f8", ">f4", ">f2", ">i4", "<u8"):
        assert (record.encode(values.astype(dtype)) == codes).all(), dtype
    assert (record.encode(values.T) == codes.T).all()
    assert (record.encode(values[:, ::-2, 1:3]) == codes[:, ::-2, 1:3]).all()
    assert (record.decode(codes.T) == record.decode(codes).T).all()


@pytest.mark.parametrize("record", [*FORMATS.values(), FLOAT32], ids=lambda r: r.name)
def test_empty_and_zero_dimensional_arrays_keep_their_shape(record: FloatFormat) -> None:
    for scalar in (np.float32(1), np.array(1.0), 1.0, 1):
        code = record.encode(scalar)
        assert isinstance(code, np.ndarray)
        assert code.shape == ()
        assert isinstance(record.decode(code), np.ndarray)
        assert record.decode(code) == 1.0
    for shape in ((0,), (3, 0), (0, 5)):
        assert record.encode(np.zeros(shape, np.float16)).shape == shape
        assert record.decode(np.zeros(shape, record.code_dtype)).shape == shape
    assert record.decode([]).shape == (0,)


def test_encode_and_decode_leave_their_input_and_hand_out_fresh_arrays() -> None:
    values = np.array([1.0, -3.0], np.float32)
    codes = E4M3FN.encode(values)
    decoded = E4M3FN.decode(codes)
    codes[:] = 0
    decoded[:] = 9
    assert values.tolist() == [1.0, -3.0]
    assert E4M3FN.decode(E4M3FN.encode(values)).tolist() == [1.0, -3.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("record", [*FORMATS.values(), BFLOAT16, FLOAT16], ids=lambda r: r.name)
def test_decode_into_an_array_gives_the_same_values(record: FloatFormat, dtype: type) -> None:
    codes = np.arange(2**record.bits).astype(record.code_dtype)[::-1].reshape(2, -1)
    out: npt.NDArray[Any] = np.full(codes.shape, 7, dtype)
    assert record.decode(codes, out=out) is out
    assert same_value(out.astype(np.float64), record.decode(codes)).all()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros(3, np.int8), r"out is int8 \(3,\), contiguous"),
        (np.zeros(4, np.uint8), r"out is uint8 \(4,\)"),
        (np.zeros((3, 1), np.uint8), r"out is uint8 \(3, 1\)"),
        (np.zeros(6, np.uint8)[::2], "not contiguous"),
        (np.frombuffer(b"abc", np.uint8), "read-only"),
    ],
)
def test_an_unfit_output_array_is_refused(out: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        E4M3FN.encode(np.ones(3, np.float32), out=out)
    with pytest.raises(Refusal, match="out is"):
        E4M3FN.decode(np.zeros(3, np.uint8), out=out)


def test_wide_formats_do_not_decode_into_an_array() -> None:
    with pytest.raises(Refusal, match="FLOAT32 has 32 bits"):
        FLOAT32.decode(np.zeros(3, np.uint32), out=np.zeros(3))


@each_format
def test_out_takes_any_shape_stride_and_byte_order_of_the_values(record: FloatFormat) -> None:
    values = np.arange(1.0, 25.0).reshape(2, 3, 4)
    for dtype in (">f8", ">f4", ">f2", ">i4", "<f4", ml_dtypes.bfloat16):
        for view in (
            values.astype(dtype).T,
            values.astype(dtype)[:, ::-2, 1:3],
            values.astype(dtype)[:0],
            values[0, 0, 0],
        ):
            out: npt.NDArray[np.uint8] = np.full(view.shape, 0x55, np.uint8)
            assert (record.encode(view, out=out) == record.encode(view)).all()
