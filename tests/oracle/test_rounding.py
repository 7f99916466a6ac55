"""Every boundary of every format, from every source type, in every rounding mode, against routes that share no code.

The expected code comes from a search among the values that ml_dtypes gives for the codes: find the two neighbours,
compare exact distances. gfloat and ml_dtypes' own casts are further routes; LIBRARY_DIFFERENCES says where they differ.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
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
    source_format,
)
from tileproof.oracle.numbers.convert_array import join_parts, split_codes, split_integers
from tileproof.oracle.numbers.format_record import NanRule, Specials
from tileproof.oracle.numbers.lookup import has_table
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding

Values = npt.NDArray[Any]
Codes = npt.NDArray[Any]
Encoder = Callable[[FloatFormat, Values, Rounding, Overflow], Codes]

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
SOURCES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
#: What a NaN, and a positive overflow to NaN, become; written out, not computed (PTX ISA 9.1 cvt; FNUZ has one NaN).
NAN_CODES = {"E4M3FN": 0x7F, "E5M2": 0x7F, "E4M3FNUZ": 0x80, "E5M2FNUZ": 0x80, "E8M0FNU": 0xFF}
NAN_INPUT_CODES = NAN_CODES | {"E2M1FN": 0x07, "E2M3FN": 0x1F, "E3M2FN": 0x1F}
#: Positive finite values of a format.
POSITIVE = {
    "E4M3FN": 126,
    "E5M2": 123,
    "E4M3FNUZ": 127,
    "E5M2FNUZ": 127,
    "E2M1FN": 7,
    "E2M3FN": 31,
    "E3M2FN": 31,
    "E8M0FNU": 255,
}
#: Boundaries that a source type cannot hold.
LACKING = {
    ("E5M2", "float16"): 1,  # 65536
    ("E5M2FNUZ", "float16"): 1,
    ("E8M0FNU", "float16"): 511 - 40 - 39,  # it holds the values 2^-24 .. 2^15 and the midpoints between them
    ("E8M0FNU", "float32"): 1,  # 2^128
    ("E8M0FNU", "bfloat16"): 1,
}

each_format = pytest.mark.parametrize("record", FORMATS.values(), ids=FORMATS)
each_source = pytest.mark.parametrize("source", SOURCES)


# The expected code, by search.


@dataclass(frozen=True)
class Grid:
    """The non-negative finite values of a format in order, with their codes."""

    values: list[Fraction]
    codes: list[int]

    @property
    def beyond(self) -> Fraction:
        """Where the next value would be if the exponent had no end."""
        return self.values[-1] * 2 if len(self.values) == 255 else 2 * self.values[-1] - self.values[-2]


@cache
def grid_of(name: str) -> Grid:
    codes = np.arange(2 ** FORMATS[name].bits).astype(np.uint8)
    values = codes.view(ML_DTYPES[name]).astype(np.float64)
    pairs = sorted((Fraction(v), c) for c, v in enumerate(values.tolist()) if np.isfinite(v) and not np.signbit(v))
    return Grid([value for value, _ in pairs], [code for _, code in pairs])


def search(name: str, value: Fraction, negative: bool, rounding: Rounding) -> tuple[int, bool]:
    """(code of the magnitude, whether it overflowed)."""
    grid = grid_of(name)
    size = abs(value)
    below = bisect_right(grid.values, size) - 1
    if below < 0 or grid.values[below] == size:
        return grid.codes[max(below, 0)], False
    top = below + 1 == len(grid.values)
    above = grid.beyond if top else grid.values[below + 1]
    if size >= above:  # beyond the beyond
        up = True
    elif rounding is Rounding.NEAREST_EVEN:
        twice = 2 * size - grid.values[below] - above
        up = twice > 0 or (twice == 0 and grid.codes[below] % 2 == 1)
    else:
        up = rounding is (Rounding.DOWN if negative else Rounding.UP)
    directed_back = rounding in (Rounding.TOWARD_ZERO, Rounding.UP if negative else Rounding.DOWN)
    overflowed = top and up and not directed_back
    return grid.codes[below + 1 if up and not top else below], overflowed


def expected_code(name: str, value: float | int, rounding: Rounding, overflow: Overflow) -> int:
    if value != value:
        return NAN_INPUT_CODES[name]
    negative = bool(np.signbit(value))
    if abs(value) == float("inf"):
        code, overflowed = grid_of(name).codes[-1], True
    else:
        code, overflowed = search(name, Fraction(value), negative, rounding)
    if overflowed and overflow is not Overflow.SATURATE:
        code = NAN_CODES[name] if overflow is Overflow.NAN else 0x7C
    if not negative or (code == 0 and name.endswith("FNUZ")):
        return code
    return code | 1 << (FORMATS[name].bits - 1)


# The values to try.


def boundaries(name: str) -> list[Fraction]:
    grid = grid_of(name)
    ends = [*grid.values, grid.beyond]
    middles = [(low + high) / 2 for low, high in pairwise(ends)]
    return [value for value in sorted(ends + middles) if value]


def held_exactly(value: Fraction, dtype: np.dtype[Any]) -> bool:
    with np.errstate(all="ignore"):
        held = float(np.float64(float(value)).astype(dtype))
    return np.isfinite(held) and Fraction(held) == value


def widen(values: Values) -> npt.NDArray[np.float64]:
    """To float64, exactly; a signalling NaN may raise the invalid flag on the way."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


@cache
def float_values(name: str, source: str) -> Values:
    """Every boundary that the source holds, with the source's next value on both sides; specials; random patterns."""
    dtype = SOURCES[source]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    held = [float(value) for value in boundaries(name) if held_exactly(value, dtype)]
    bits = np.array(held, np.float64).astype(dtype).view(unsigned).astype(object)
    patterns = [int(pattern) + step for pattern in bits for step in (-1, 0, 1)]
    width, mantissa = 8 * dtype.itemsize, source_format(dtype).mantissa_bits
    infinity = int(np.array(np.inf).astype(dtype).view(unsigned))
    patterns += [
        0,
        1,
        2,
        2**mantissa - 1,
        2**mantissa,
        infinity - 1,
        infinity,
        infinity + 1,
        infinity | 1 << mantissa - 1,
    ]
    patterns += [2 ** (width - 1) - 1]
    signed = patterns + [pattern | 1 << (width - 1) for pattern in patterns]
    rng = np.random.default_rng(width + len(name))
    random = (rng.integers(0, 2**64, 100, np.uint64) >> np.uint64(64 - width)).astype(unsigned)
    near = (rng.standard_normal(100) * 2.0 ** rng.integers(-20, 20, 100)).astype(np.float32)
    with np.errstate(over="ignore"):
        near_bits = near.astype(dtype).view(unsigned)
    values: Values = np.concatenate([np.array(signed, unsigned), random, near_bits]).view(dtype)
    return values if name != "E8M0FNU" else values[~(widen(values) <= 0)]


@cache
def integer_values(name: str, dtype: str) -> Values:
    """Every integer boundary and both neighbours, the ends of the type, and what float64 cannot hold."""
    whole = [int(value) for value in boundaries(name) if value.denominator == 1]
    tries = [*whole, 2**53, 2**62, 2**63, 2**64 - 2, 2**63 + 2**62, 2**62 + 2**61, 2**31, 2**24, 0]
    tries = [sign * (value + step) for value in tries for step in (-1, 0, 1) for sign in (1, -1)]
    info = np.iinfo(dtype)
    kept = [value for value in tries if info.min <= value <= info.max and (name != "E8M0FNU" or value > 0)]
    return np.array(sorted(set(kept)), dtype)


def overflows_of(name: str) -> list[Overflow]:
    modes = [Overflow.SATURATE]
    modes += [Overflow.NAN] if name in NAN_CODES else []
    return modes + ([Overflow.INF] if name == "E5M2" else [])


@cache
def values_for(name: str, source: str, overflow: Overflow) -> Values:
    """The values to try; for the overflow modes beyond the first only those at or above the largest finite value."""
    values = float_values(name, source) if source in SOURCES else integer_values(name, source)
    if overflow is Overflow.SATURATE:
        return values
    return values[~(np.abs(widen(values)) < float(grid_of(name).values[-1]))]


@cache
def expected_codes(name: str, source: str, rounding: Rounding, overflow: Overflow) -> Codes:
    values = values_for(name, source, overflow)
    numbers = widen(values).tolist() if source in SOURCES else values.tolist()
    return np.array([expected_code(name, number, rounding, overflow) for number in numbers], np.uint8)


# Four ways to encode: the definition, its array twin, the twin by table and the compiled one where there is one.


def by_definition(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    return np.array([record.round(number, rounding, overflow) for number in numbers_of(values)], record.code_dtype)


def numbers_of(values: Values) -> list[Number]:
    return _numbers_of(values.dtype, values.tobytes())


@cache
def _numbers_of(dtype: np.dtype[Any], memory: bytes) -> list[Number]:
    if dtype.kind in "iu":
        return [Number.of(value) for value in np.frombuffer(memory, dtype).tolist()]
    source = source_format(dtype)
    return [source.number(bits) for bits in np.frombuffer(memory, source.code_dtype).tolist()]


def by_parts(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    if values.dtype.kind in "iu":
        return join_parts(record, split_integers(values), rounding, overflow)
    source = source_format(values.dtype)
    return join_parts(record, split_codes(source, values.view(source.code_dtype)), rounding, overflow)


def by_encode(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    return record.encode(values, rounding=rounding.value, overflow=overflow.value)


def by_compiled(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    out: Codes = np.full(values.shape, 0x55, record.code_dtype)
    assert record.encode(values, rounding=rounding.value, overflow=overflow.value, out=out) is out
    return out


each_encoder = pytest.mark.parametrize("encoder", [by_definition, by_parts, by_encode, by_compiled])


def mistakes(encoder: Encoder, name: str, source: str) -> list[str]:
    """What an encoder gets wrong on the values of one format and source type, in words."""
    wrong = []
    for rounding in Rounding:
        for overflow in overflows_of(name):
            values = values_for(name, source, overflow)
            expected = expected_codes(name, source, rounding, overflow)
            observed = encoder(FORMATS[name], values, rounding, overflow)
            for i in np.flatnonzero(observed != expected):
                seen = f"{values[i]!r} gives 0x{observed[i]:02X}, not 0x{expected[i]:02X}"
                wrong.append(f"{name} {source} {rounding.value} {overflow.value}: {seen}")
    return wrong


@each_encoder
@each_source
@each_format
def test_every_boundary_and_its_neighbours_round_right(record: FloatFormat, source: str, encoder: Encoder) -> None:
    wrong = mistakes(encoder, record.name, source)
    assert not wrong, "\n".join(wrong[:5])


@each_encoder
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint16", "int8", "uint8"])
@each_format
def test_integers_round_once_from_their_exact_value(record: FloatFormat, dtype: str, encoder: Encoder) -> None:
    wrong = mistakes(encoder, record.name, dtype)
    assert not wrong, "\n".join(wrong[:5])


@each_source
@each_format
def test_the_values_tried_hold_every_boundary(record: FloatFormat, source: str) -> None:
    """Guards the generator. Boundaries are n positive values, the value beyond, and the midpoints below each of them
    (for E8M0, which has no zero, one midpoint fewer)."""
    held = {value for value in boundaries(record.name) if held_exactly(value, SOURCES[source])}
    tried = {Fraction(v) for v in widen(float_values(record.name, source)).tolist() if np.isfinite(v)}
    assert held <= tried
    count = 2 * (POSITIVE[record.name] + 1) - (record is E8M0FNU)
    assert len(held) == count - LACKING.get((record.name, source), 0)


@pytest.mark.parametrize("target", [BFLOAT16, FLOAT16, FLOAT32, FLOAT64], ids=lambda r: r.name)
@pytest.mark.parametrize("source", [*SOURCES, "int64", "uint64"])
def test_definition_and_array_twin_agree_on_wide_targets(target: FloatFormat, source: str) -> None:
    rng = np.random.default_rng(11)
    dtype = np.dtype(SOURCES.get(source, source))
    values: Values = rng.integers(0, 2**64, 200, np.uint64).view(dtype)[:200]
    if dtype.kind in "iu":
        values = values >> np.arange(200).astype(dtype) % dtype.type(64)  # every length
    for rounding in Rounding:
        for overflow in Overflow:
            expected = by_definition(target, values, rounding, overflow)
            assert (by_encode(target, values, rounding, overflow) == expected).all()
            assert (by_compiled(target, values, rounding, overflow) == expected).all()


@pytest.mark.parametrize(("target", "source"), [(FLOAT16, FLOAT32), (BFLOAT16, FLOAT32), (BFLOAT16, FLOAT64)])
def test_ties_of_wide_targets_go_to_even(target: FloatFormat, source: FloatFormat) -> None:
    """The midpoint above every 97th code of bfloat16 and float16, and its neighbours, held by the wider source."""
    codes = np.arange(0, target.max_code, 97)
    middle = (target.decode(codes) + target.decode(codes + 1)) / 2
    assert (source.decode(source.encode(middle)) == middle).all()
    even = codes + codes % 2
    bits = source.encode(middle)
    dtype = {FLOAT32: np.float32, FLOAT64: np.float64}[source]
    assert (target.encode(bits.view(dtype)) == even).all()
    assert (by_compiled(target, bits.view(dtype), Rounding.NEAREST_EVEN, Overflow.SATURATE) == even).all()
    assert (target.encode((bits + bits.dtype.type(1)).view(dtype)) == codes + 1).all()
    assert (target.encode((bits - bits.dtype.type(1)).view(dtype)) == codes).all()


@each_source
@each_format
def test_a_table_serves_every_signed_narrow_format(record: FloatFormat, source: str) -> None:
    assert has_table(record, source_format(SOURCES[source])) == record.signed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_format
def test_table_and_parts_agree_on_random_patterns(record: FloatFormat, dtype: type) -> None:
    values: Values = np.random.default_rng(3).integers(0, 2**64, 50_000, np.uint64).view(dtype)
    values = values if record.signed else np.abs(values[values != 0])
    for rounding in Rounding:
        one, other = (way(record, values, rounding, Overflow.SATURATE) for way in (by_encode, by_parts))
        assert (one == other).all()


def made_up(exponent_bits: int, mantissa_bits: int, specials: Specials) -> FloatFormat:
    return FloatFormat(
        name="made up",
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
        specials=specials,
        nan_rule=NanRule.ALL_ONES,
        nan_source="",
        source="",
    )


def test_no_table_serves_a_target_whose_midpoints_the_head_cannot_hold() -> None:
    assert not has_table(BFLOAT16, FLOAT32)
    assert not has_table(FLOAT16, FLOAT32)
    assert not has_table(FLOAT16, FLOAT64)
    assert not has_table(made_up(5, 7, Specials.IEEE), FLOAT32)
    assert has_table(made_up(5, 6, Specials.IEEE), FLOAT32)
    assert not has_table(made_up(8, 6, Specials.NEGATIVE_ZERO_NAN), FLOAT32), "half of 2^-133 is below the head's step"
    assert has_table(made_up(8, 6, Specials.IEEE), FLOAT32)
    assert has_table(FLOAT32, FLOAT16)
    assert has_table(FLOAT32, BFLOAT16)


# Values worked out by hand, and what public implementations print.


@pytest.mark.parametrize(
    ("record", "value", "rounding", "overflow", "code"),
    [
        (E4M3FN, 464.0, "nearest-even", "nan", 0x7E),  # CUDA 13.0 cuda_fp8.hpp: above 464, not at it
        (E4M3FN, 464.00003, "nearest-even", "nan", 0x7F),
        (E4M3FN, -464.00003, "nearest-even", "nan", 0xFF),
        (E4M3FN, 464.00003, "nearest-even", "saturate", 0x7E),
        (E4M3FN, np.inf, "toward-zero", "nan", 0x7F),  # an infinity overflows in every direction
        (E4M3FN, 1e9, "toward-zero", "nan", 0x7E),  # IEEE 754-2019, 7.4 b
        (E4M3FN, 1e9, "down", "nan", 0x7E),  # 7.4 c
        (E4M3FN, -448.001, "up", "nan", 0xFE),  # 7.4 d
        (E4M3FN, 448.001, "up", "nan", 0x7F),
        (E4M3FN, -448.001, "down", "nan", 0xFF),
        (E4M3FN, 2.0**-10, "nearest-even", "saturate", 0x00),
        (E4M3FN, -(2.0**-10), "nearest-even", "saturate", 0x80),
        (E4M3FN, 1e-300, "up", "saturate", 0x01),
        (E4M3FN, -1e-300, "up", "saturate", 0x80),
        (E5M2, 61439.996, "nearest-even", "inf", 0x7B),
        (E5M2, 61440.0, "nearest-even", "inf", 0x7C),  # the tie above the odd code 0x7B
        (E5M2, 61440.0, "nearest-even", "saturate", 0x7B),
        (E5M2, -np.inf, "up", "inf", 0xFC),
        (E5M2, -1e9, "up", "inf", 0xFB),
        (E2M1FN, 5.0, "nearest-even", "saturate", 0x6),  # 4 and 6 are 0x6 and 0x7
        (E2M1FN, -0.25, "nearest-even", "saturate", 0x8),
        (E8M0FNU, 3.0, "nearest-even", "saturate", 128),  # 2 is 128, 4 is 129
        (E8M0FNU, 1.5, "nearest-even", "saturate", 128),  # 1 is 127
        (E8M0FNU, 1.5 * 2.0**127, "nearest-even", "nan", 0xFE),
        (E8M0FNU, 2.0**-149, "down", "saturate", 0x00),
        (E8M0FNU, 2.0**-127 * 1.25, "toward-zero", "saturate", 0x00),  # PTX cvt.rz, cvt.rp of 0x00500000
        (E8M0FNU, 2.0**-127 * 1.25, "up", "saturate", 0x01),
        (E8M0FNU, 3.4028234663852886e38, "up", "saturate", 0xFE),  # PTX cvt.rp.satfinite(FLT_MAX)
        (E8M0FNU, 3.4028234663852886e38, "up", "nan", 0xFF),  # PTX cvt.rp(FLT_MAX)
        (E8M0FNU, np.inf, "down", "nan", 0xFF),
    ],
)
def test_known_values(record: FloatFormat, value: float, rounding: str, overflow: str, code: int) -> None:
    assert int(record.encode(np.float64(value), rounding=rounding, overflow=overflow)) == code
    (number,) = numbers_of(np.array([value]))
    assert record.round(number, Rounding(rounding), Overflow(overflow)) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (17, 0x58),  # a tie of 16 and 18
        (-(2**63), 0xFE),
        (2**64 - 1, 0x7E),
        (np.int64(-(2**63)), 0xFE),
        (0, 0x00),
    ],
)
def test_known_integers(value: int, code: int) -> None:
    assert int(E4M3FN.encode(value)) == code


def test_an_integer_that_float64_cannot_hold_is_not_taken_for_a_tie() -> None:
    """2^63 + 2^62 + 1 is above the midpoint of 2^63 and 2^64; float64 rounds it onto the midpoint."""
    above = np.array([2**62 + 2**61 + 1, 2**62 + 2**61], np.int64)
    assert E8M0FNU.encode(above).tolist() == [127 + 63, 127 + 62 + 0 + (127 + 62) % 2]
    assert BFLOAT16.encode(np.array([2**62 + 2**54 + 1, 2**62 + 2**54], np.int64)).tolist() == [0x5E81, 0x5E80]


# Other libraries.


GFLOAT_ROUNDING = {
    Rounding.NEAREST_EVEN: gfloat.RoundMode.TiesToEven,
    Rounding.TOWARD_ZERO: gfloat.RoundMode.TowardZero,
    Rounding.UP: gfloat.RoundMode.TowardPositive,
    Rounding.DOWN: gfloat.RoundMode.TowardNegative,
}


def by_gfloat(name: str, values: Values, rounding: Any, overflow: Overflow) -> Codes:
    """gfloat on values that are not NaN, widened to float64 (exact)."""
    info = GFLOAT[name]
    with np.errstate(over="ignore"):
        rounded = gfloat.round_ndarray(info, widen(values), rounding, sat=overflow is Overflow.SATURATE)
        return np.asarray(gfloat.encode_ndarray(info, rounded)).astype(np.uint8)


def by_ml_dtypes(name: str, values: Values) -> Codes:
    with np.errstate(all="ignore"):
        return values.astype(ML_DTYPES[name]).view(np.uint8)


@dataclass(frozen=True)
class Difference:
    """Where a library gives another code, and the clause that decides for ours."""

    where: Callable[[npt.NDArray[np.float64], Codes, Codes], npt.NDArray[np.bool_]]
    clause: str


NAN_SIGN_KEPT = Difference(
    lambda values, ours, theirs: np.isnan(values),
    "PTX ISA 9.1, cvt: the result of a NaN input is 0x7F for e4m3 and e5m2",
)
NAN_WITHOUT_CODE = Difference(
    lambda values, ours, theirs: np.isnan(values),
    "PTX ISA 9.1, cvt: a NaN input becomes +MAX_NORM for e2m1, e2m3, e3m2",
)
LIBRARY_DIFFERENCES = {
    ("ml_dtypes", "E4M3FN"): NAN_SIGN_KEPT,
    ("ml_dtypes", "E5M2"): NAN_SIGN_KEPT,
    ("ml_dtypes", "E2M1FN"): NAN_WITHOUT_CODE,
    ("ml_dtypes", "E2M3FN"): NAN_WITHOUT_CODE,
    ("ml_dtypes", "E3M2FN"): NAN_WITHOUT_CODE,
    ("ml_dtypes", "E8M0FNU"): Difference(
        lambda values, ours, theirs: (
            (np.frexp(values)[0] == 0.75) | ((values > 2.0**-127) & (values <= 1.5 * 2.0**-127))
        ),
        "a tie goes to the even code (IEEE 754-2019, 4.3.1; OCP MX 1.0 defines no conversion to E8M0); ml_dtypes "
        "rounds ties up, and all that lies above 2^-127 up to 2^-126",
    ),
    ("gfloat", "E4M3FN"): Difference(
        lambda values, ours, theirs: (ours == 0x7F) & (theirs == 0xFF),
        "an overflow to NaN keeps the sign: CUDA 13.0 cuda_fp8.h, __NV_NOSAT; gfloat knows one NaN, 0xFF",
    ),
    ("gfloat", "E8M0FNU"): Difference(
        lambda values, ours, theirs: values < 2.0**-127,
        "below the smallest value the smallest: PTX ISA 9.1, cvt.rz.ue8m0x2; gfloat's exponent field wraps",
    ),
}


@each_format
@pytest.mark.parametrize("rounding", Rounding)
def test_gfloat_gives_the_same_codes_from_float64(record: FloatFormat, rounding: Rounding) -> None:
    values = float_values(record.name, "float64")
    values = values[~np.isnan(values)]
    native = {"E5M2": Overflow.INF}.get(record.name, Overflow.NAN if record.has_nan else Overflow.SATURATE)
    modes = [Overflow.SATURATE, native]
    ours = np.concatenate([by_encode(record, values, rounding, overflow) for overflow in modes])
    theirs = np.concatenate([by_gfloat(record.name, values, GFLOAT_ROUNDING[rounding], overflow) for overflow in modes])
    assert_differs_only_where_listed("gfloat", record, np.tile(values, 2), ours, theirs)


@each_format
@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
def test_ml_dtypes_casts_give_the_same_codes(record: FloatFormat, source: str) -> None:
    values = float_values(record.name, source)
    overflow = {"E5M2": Overflow.INF}.get(record.name, Overflow.NAN if record.has_nan else Overflow.SATURATE)
    ours = by_encode(record, values, Rounding.NEAREST_EVEN, overflow)
    assert_differs_only_where_listed("ml_dtypes", record, values, ours, by_ml_dtypes(record.name, values))


def assert_differs_only_where_listed(
    library: str, record: FloatFormat, values: Values, ours: Codes, theirs: Codes
) -> None:
    __tracebackhide__ = True
    differs = ours != theirs
    listed = LIBRARY_DIFFERENCES.get((library, record.name))
    allowed = listed.where(widen(values), ours, theirs) if listed else np.zeros(values.shape, np.bool_)
    wrong = np.flatnonzero(differs & ~allowed)
    assert not wrong.size, [(values[i], hex(ours[i]), hex(theirs[i])) for i in wrong[:8]]
    assert differs.any() or listed is None, "the listed difference is gone"


# Faulty encoders. Each is the right encoder with one mistake; `mistakes` must see it.


def rounding_mode(instead: Mapping[Rounding, Rounding]) -> Encoder:
    def encoder(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
        return by_encode(record, values, instead.get(rounding, rounding), overflow)

    return encoder


def through(dtype: Any) -> Encoder:
    """Rounds to another type first."""

    def encoder(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
        with np.errstate(all="ignore"):
            return by_encode(record, values.astype(dtype), rounding, overflow)

    return encoder


def ties_to(choose: Callable[[npt.NDArray[np.bool_], Codes, Codes], Codes]) -> Encoder:
    """Breaks ties by another rule, given (negative, code below in magnitude, code above in magnitude)."""

    def encoder(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
        codes = by_encode(record, values, rounding, overflow)
        if rounding is not Rounding.NEAREST_EVEN:
            return codes
        wide = widen(values)
        away = {True: Rounding.DOWN, False: Rounding.UP}
        below = by_encode(record, values, Rounding.TOWARD_ZERO, overflow)
        above = np.where(wide < 0, *(by_encode(record, values, away[sign], overflow) for sign in (True, False)))
        with np.errstate(all="ignore"):
            tie = (2 * wide == record.decode(below) + record.decode(above)) & (below != above)
        return np.where(tie, choose(wide < 0, below, above), codes)

    return encoder


def codes_of(change: Callable[[FloatFormat, Values, Codes], Codes]) -> Encoder:
    """Changes right codes afterwards."""

    def encoder(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
        return change(record, values, by_encode(record, values, rounding, overflow))

    return encoder


def overflow_before_rounding(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    codes = by_encode(record, values, rounding, overflow)
    large = np.abs(widen(values)) > float(record.decode(record.max_code))
    infinite = by_encode(record, np.copysign(np.inf, widen(values)), rounding, overflow)
    return np.where(large, infinite, codes)


def wraps(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    """Drops the carry out of the exponent field: a normal value 2^(2^e) too large."""
    wide = widen(values)
    large = np.isfinite(wide) & (np.abs(wide) > float(record.decode(record.max_code)))
    lowered = np.where(large, wide * 2.0 ** -(2**record.exponent_bits), wide)
    return by_encode(record, lowered, rounding, overflow)


def infinity_is_nan(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    return np.where(np.isinf(widen(values)), record.nan_code, by_encode(record, values, rounding, overflow))


def without_sticky(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    """Looks at the head of a float32 only."""
    head = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return by_encode(record, np.where(np.isnan(values), values, head), rounding, overflow)


def flushes_source(record: FloatFormat, values: Values, rounding: Rounding, overflow: Overflow) -> Codes:
    """Takes a float32 subnormal for the smallest value."""
    return by_encode(record, np.where(values < 2.0**-126, np.float32(2.0**-127), values), rounding, overflow)


def without_sign(record: FloatFormat, values: Values, codes: Codes) -> Codes:
    return np.where(codes == record.sign_bit, np.uint8(0), codes)


def flushes(record: FloatFormat, values: Values, codes: Codes) -> Codes:
    small = (codes & record.magnitude_mask) < 2**record.mantissa_bits
    return np.where(small & ~np.isnan(widen(values)), codes & record.sign_bit, codes)


def keeps_nan_sign(record: FloatFormat, values: Values, codes: Codes) -> Codes:
    negative = np.isnan(widen(values)) & np.signbit(widen(values))
    return np.where(negative, codes | record.sign_bit, codes)


def nan_becomes(code: int) -> Encoder:
    return codes_of(lambda record, values, codes: np.where(np.isnan(widen(values)), code, codes))


FAULTS: dict[str, tuple[Encoder, str, str]] = {
    "half away from zero": (ties_to(lambda negative, below, above: above), "E4M3FN", "bfloat16"),
    "half toward zero": (ties_to(lambda negative, below, above: below), "E5M2", "float16"),
    "half up": (ties_to(lambda negative, below, above: np.where(negative, below, above)), "E2M3FN", "float32"),
    "half to odd": (ties_to(lambda negative, below, above: np.where(below & 1, below, above)), "E3M2FN", "float64"),
    "half up in E8M0": (ties_to(lambda negative, below, above: above), "E8M0FNU", "float32"),
    "truncation": (rounding_mode({Rounding.NEAREST_EVEN: Rounding.TOWARD_ZERO}), "E2M1FN", "float16"),
    "up as nearest": (rounding_mode({Rounding.UP: Rounding.NEAREST_EVEN}), "E4M3FNUZ", "float32"),
    "up and down swapped": (
        rounding_mode({Rounding.UP: Rounding.DOWN, Rounding.DOWN: Rounding.UP}),
        "E5M2FNUZ",
        "float32",
    ),
    "down as toward zero": (rounding_mode({Rounding.DOWN: Rounding.TOWARD_ZERO}), "E4M3FN", "float64"),
    "float16 in between": (through(np.float16), "E4M3FN", "float32"),
    "bfloat16 in between": (through(ml_dtypes.bfloat16), "E4M3FN", "float16"),
    "float32 in between": (through(np.float32), "E5M2", "float64"),
    "float64 in between": (through(np.float64), "E8M0FNU", "int64"),
    "int32 in between": (through(np.int32), "E4M3FN", "int64"),
    "overflow decided before rounding": (overflow_before_rounding, "E4M3FN", "float32"),
    "overflow in every direction": (overflow_before_rounding, "E5M2", "float16"),
    "wrap instead of saturate": (wraps, "E4M3FN", "bfloat16"),
    "wrap instead of saturate in E2M1": (wraps, "E2M1FN", "float32"),
    "infinity not saturated": (infinity_is_nan, "E4M3FN", "float32"),
    "low source bits ignored": (without_sticky, "E4M3FN", "float32"),
    "source subnormals flushed": (flushes_source, "E8M0FNU", "float32"),
    "target subnormals flushed": (codes_of(flushes), "E4M3FN", "float16"),
    "sign of zero lost": (codes_of(without_sign), "E4M3FN", "float16"),
    "-0 kept in FNUZ": (
        codes_of(lambda record, values, codes: np.where((codes == 0) & np.signbit(widen(values)), 0x80, codes)),
        "E4M3FNUZ",
        "bfloat16",
    ),
    "sign of NaN kept": (codes_of(keeps_nan_sign), "E4M3FN", "float32"),
    "NaN quiet, not all ones": (nan_becomes(0x7E), "E5M2", "float16"),
    "NaN as zero where there is none": (nan_becomes(0), "E2M1FN", "float32"),
    "NaN as the largest code": (nan_becomes(0x7E), "E4M3FN", "bfloat16"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_faulty_encoder_survives(fault: str) -> None:
    encoder, name, source = FAULTS[fault]
    assert mistakes(encoder, name, source), f"{fault} was not seen in {name} from {source}"
