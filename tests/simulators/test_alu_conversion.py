"""Conversions of the PTX simulator against exact values; all 8- and 16-bit sources exhaustively."""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from alu_opcode import run

from tileproof.simulators.ptx.alu.operation import NotModelled, resolve

FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "f32": (8, 23),
    "f64": (11, 52),
    "tf32": (8, 10),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "e4m3": 0x7F, "e5m2": 0x7F}
Value = Fraction | float  # a float only where infinite or NaN
INTEGERS = [sign + str(width) for width in (8, 16, 32, 64) for sign in "us"]
EVERY_HALF = list(range(65536))


def width(kind: str) -> int:
    return 1 + sum(FORMATS[kind])


def infinity(kind: str) -> int:
    """Code of infinity; for e4m3, which has none, the code after the largest number."""
    exponent_bits, fraction_bits = FORMATS[kind]
    return 0x7F if kind == "e4m3" else ((1 << exponent_bits) - 1) << fraction_bits


@cache
def magnitude(code: int, kind: str) -> Fraction:
    exponent_bits, fraction_bits = FORMATS[kind]
    field, fraction = divmod(code, 1 << fraction_bits)
    significand = fraction + (1 << fraction_bits if field else 0)
    exponent = max(field, 1) - (2 ** (exponent_bits - 1) - 1) - fraction_bits
    return Fraction(significand << exponent) if exponent >= 0 else Fraction(significand, 1 << -exponent)


def value_of(code: int, kind: str) -> tuple[bool, Value]:
    negative, size = divmod(code, 1 << (width(kind) - 1))
    if size > infinity(kind) or (kind == "e4m3" and size == 0x7F):
        return bool(negative), math.nan
    if size == infinity(kind):
        return bool(negative), -math.inf if negative else math.inf
    return bool(negative), -magnitude(size, kind) if negative else magnitude(size, kind)


def neighbours(size: Fraction, kind: str) -> tuple[int, int]:
    """Codes next to a size: the last not above it and the one after."""
    low, high = 0, infinity(kind)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if magnitude(middle, kind) <= size else (low, middle)
    return (low, high) if size < magnitude(infinity(kind), kind) else (infinity(kind) - 1, infinity(kind))


def round_to_code(negative: bool, value: Value, kind: str, mode: str) -> int:
    """The code of a number or an infinity, rounded in the mode."""
    sign = 1 << (width(kind) - 1) if negative else 0
    if isinstance(value, float):
        return sign | infinity(kind)
    size = abs(value)
    low, high = neighbours(size, kind)
    down, up = size - magnitude(low, kind), magnitude(high, kind) - size
    nearest = low if down < up or (down == up and low % 2 == 0) else high
    away = {
        "rn": nearest,
        "rna": low if down < up else high,
        "rz": low,
        "rm": high if negative else low,
        "rp": low if negative else high,
    }
    return sign | (low if down == 0 else away[mode])


@cache
def singles(count: int = 250) -> tuple[int, ...]:
    """float32 codes: specials, every boundary of the narrow formats, ties of them and their neighbours, random ones."""
    generator = random.Random(count)
    codes = [0, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x3F800000]
    for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2"):
        top = infinity(kind)
        for code in {
            0,
            1,
            2,
            3,
            1 << FORMATS[kind][1],
            top - 1,
            top - 2,
            *(generator.randrange(top - 1) for _ in range(20)),
        }:
            middle = (magnitude(code, kind) + magnitude(code + 1, kind)) / 2
            bits = int(np.array([float(middle)], np.float32).view(np.uint32)[0])
            codes += [bits - 1, bits, bits + 1] if bits else [0, 1]
    codes += [generator.getrandbits(31) for _ in range(count)]
    codes += [
        generator.choice([0x3F, 0x40, 0x47, 0x38, 0x4F, 0x5F]) << 24 | generator.getrandbits(24) for _ in range(count)
    ]
    return tuple(codes) + tuple(code | 1 << 31 for code in codes)


@cache
def doubles(count: int = 150) -> tuple[int, ...]:
    generator = random.Random(count)
    with np.errstate(invalid="ignore"):  # signalling NaN
        widened = np.array(singles(), np.uint32).view(np.float32).astype(np.float64).view(np.uint64)
    near = [int(code) + step for code in widened[::5] for step in (-1, 0, 1) if 0 <= int(code) + step < 2**64]
    return tuple(near) + tuple(generator.getrandbits(64) for _ in range(count))


def sources(kind: str) -> list[int]:
    return {"f32": lambda: list(singles()), "f64": lambda: list(doubles())}.get(kind, lambda: EVERY_HALF)()


def value(bits: int, kind: str) -> int:
    size = int(kind[1:])
    return bits - (1 << size) if kind[0] == "s" and bits >> (size - 1) else bits


def integer_samples(kind: str) -> list[int]:
    size = int(kind[1:])
    generator = random.Random(size)
    edges = {0, 1, 2, (1 << size) - 1, 1 << (size - 1), (1 << (size - 1)) - 1, 127 % (1 << size), 128 % (1 << size)}
    for position in range(size):
        edges |= {(1 << position) + step & (1 << size) - 1 for step in (-1, 0, 1)}
    for kept in (8, 11, 24, 53):  # ties for each significand, and their neighbours
        for _ in range(4 if size > kept + 1 else 0):
            shift = generator.randrange(1, size - kept)
            tie = (generator.getrandbits(kept) | 1 << (kept - 1)) << shift | 1 << (shift - 1)
            edges |= {tie + step for step in (-1, 0, 1)}
    return sorted(edges) + [generator.getrandbits(size) for _ in range(20)]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("result", INTEGERS)
def test_integers_are_cut_or_extended_and_saturate_on_request(result: str, source: str) -> None:
    codes = integer_samples(source)
    values = [value(code, source) for code in codes]
    bits = int(result[1:])
    assert run(f"cvt.{result}.{source}", codes) == [v % (1 << bits) for v in values]
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if result[0] == "s" else (0, (1 << bits) - 1)
    assert run(f"cvt.sat.{result}.{source}", codes) == [min(max(v, least), most) % (1 << bits) for v in values]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("result", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_become_floats_with_one_rounding(source: str, result: str, mode: str) -> None:
    codes = integer_samples(source)
    observed = run(f"cvt.{mode}.{result}.{source}", codes)
    for code, bits in zip(codes, observed, strict=True):
        exact = value(code, source)
        assert bits == round_to_code(exact < 0, Fraction(exact), result, mode), hex(code)


INTEGRAL: dict[str, Callable[[Fraction], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_floats_become_integers_and_saturate(source: str, mode: str) -> None:
    codes = sources(source)[:: 16 if source in ("f16", "bf16") else 1]
    values = [value_of(code, source)[1] for code in codes]
    rounded = [v if isinstance(v, float) else INTEGRAL[mode](v) for v in values]
    for result in INTEGERS:
        bits = int(result[1:])
        least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if result[0] == "s" else (0, (1 << bits) - 1)
        nan = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
        expected = [nan if v != v else int(min(max(v, least), most)) % (1 << bits) for v in rounded]
        assert run(f"cvt.{mode}.{result}.{source}", codes) == expected, result


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_floats_round_to_integral_floats_and_keep_the_sign_of_zero(kind: str, mode: str) -> None:
    codes = sources(kind)[:: 16 if kind != "f32" else 1]
    for code, bits in zip(codes, run(f"cvt.{mode}.{kind}.{kind}", codes), strict=True):
        negative, exact = value_of(code, kind)
        if exact != exact:
            assert bits == NAN[kind]
        else:
            integral = exact if isinstance(exact, float) else Fraction(INTEGRAL[mode](exact))
            assert bits == round_to_code(negative, integral, kind, "rz"), hex(code)


NARROWING = [
    ("f16", "f32"),
    ("bf16", "f32"),
    ("f16", "f64"),
    ("bf16", "f64"),
    ("f32", "f64"),
    ("bf16", "f16"),
    ("f16", "bf16"),
]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("result", "source"), NARROWING)
def test_narrowing_rounds_once(result: str, source: str, mode: str) -> None:
    codes = sources(source)[:: 16 if source in ("f16", "bf16") else 1]
    observed = run(f"cvt.{mode}.{result}.{source}", codes)
    for code, bits in zip(codes, observed, strict=True):
        negative, exact = value_of(code, source)
        nan = cut_nan(code, result) if source == "f64" else NAN[result]
        assert bits == (nan if exact != exact else round_to_code(negative, exact, result, mode)), hex(code)


def cut_nan(code: int, kind: str) -> int:
    """A f64 NaN keeps its sign and the upper bits of its payload, quiet (measured on H200)."""
    bits, fraction_bits = width(kind), FORMATS[kind][1]
    payload = code % 2**52 >> (52 - fraction_bits)
    return code >> 63 << bits - 1 | infinity(kind) | payload | 1 << fraction_bits - 1


def test_the_narrowing_check_rejects_double_rounding_through_f32() -> None:
    codes = sources("f64")
    through = run("cvt.rn.f16.f32", run("cvt.rn.f32.f64", codes))
    assert through != run("cvt.rn.f16.f64", codes)


@pytest.mark.parametrize(
    ("result", "source"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16"), ("f64", "f32")]
)
def test_widening_is_exact(result: str, source: str) -> None:
    codes = sources(source)[:: 4 if source in ("f16", "bf16") else 1]
    for code, bits in zip(codes, run(f"cvt.{result}.{source}", codes), strict=True):
        before, after = value_of(code, source), value_of(bits, result)
        assert after == before or (after[1] != after[1] and before[1] != before[1]), hex(code)


def test_nan_of_widening_conversions() -> None:
    assert run("cvt.f32.f16", [0x7C01, 0xFE00]) == [0x7FFFFFFF, 0x7FFFFFFF]
    assert run("cvt.f32.bf16", [0x7F81, 0xFFC0]) == [0x7F810000, 0xFFC00000]
    assert run("cvt.f64.f32", [0x7FFFFFFF, 0xFF800001]) == [0x7FFFFFFFE0000000, 0xFFF8000020000000]


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
def test_tf32_keeps_ten_bits_and_clears_the_rest(mode: str) -> None:
    codes = list(singles())
    for code, bits in zip(codes, run(f"cvt.{mode}.tf32.f32", codes), strict=True):
        negative, exact = value_of(code, "f32")
        nan = code >> 13 << 13 if mode == "rna" else 0x7FFFE000  # measured on H200
        expected = nan if exact != exact else round_to_code(negative, exact, "tf32", mode) << 13
        assert bits == expected, hex(code)


def test_flushing_applies_to_f32_only_before_and_after() -> None:
    assert run("cvt.rn.ftz.f16.f32", [0x80000001, 0x33800000]) == [0x8000, 0x0001]
    assert run("cvt.rn.ftz.f32.f64", [0x380FFFFF << 32, 0x3810 << 48]) == [0, 0x00800000]
    assert run("cvt.ftz.f32.f32", [1, 0x80000001, 0x00800000]) == [0, 0x80000000, 0x00800000]
    assert run("cvt.rpi.ftz.s32.f32", [1]) == [0]
    assert run("cvt.rpi.s32.f32", [1]) == [1]


def test_sat_and_satfinite_and_relu() -> None:
    codes = [0x7F800000, 0xFF800000, 0x7FC00000, 0xBF800000, 0x80000000, 0x3F000000]
    assert run("cvt.rn.sat.f16.f32", codes) == [0x3C00, 0, 0, 0, 0, 0x3800]
    assert run("cvt.rn.satfinite.f16.f32", codes) == [0x7BFF, 0xFBFF, 0x7FFF, 0xBC00, 0x8000, 0x3800]
    assert run("cvt.rn.relu.bf16.f32", codes) == [0x7F80, 0, 0x7FFF, 0, 0, 0x3F00]
    assert run("cvt.rna.satfinite.tf32.f32", codes)[:2] == [0x7F7FE000, 0xFF7FE000]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_the_first_operand_goes_to_the_upper_half(kind: str) -> None:
    a, b = list(singles()), list(singles())[::-1]
    upper, lower = run(f"cvt.rn.{kind}.f32", a), run(f"cvt.rn.{kind}.f32", b)
    packed = run(f"cvt.rn.{kind}x2.f32", a, b)
    assert packed == [high << 16 | low for high, low in zip(upper, lower, strict=True)]
    assert packed != [low << 16 | high for high, low in zip(upper, lower, strict=True)], "swapped halves"
    assert run(f"cvt.rz.{kind}x2.f32", a, b) != packed


def fp8_code(negative: bool, exact: Value, kind: str) -> int:
    """Nearest even, saturating, NaN to 0x7F (PTX ISA, cvt.rn.satfinite)."""
    if exact != exact:
        return 0x7F
    code = round_to_code(negative, exact, kind, "rn")
    return code - 1 if code % 0x80 == infinity(kind) else code


@cache
def fp8_table(source: str, kind: str) -> list[int]:
    return [fp8_code(*value_of(code, source), kind) for code in sources(source)]


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_f32_pairs_become_fp8_with_the_first_in_the_upper_byte(kind: str) -> None:
    a = list(singles())
    expected = fp8_table("f32", kind)
    packed = run(f"cvt.rn.satfinite.{kind}x2.f32", a, a[::-1])
    assert packed == [high << 8 | low for high, low in zip(expected, expected[::-1], strict=True)]
    assert packed != [low << 8 | high for high, low in zip(expected, expected[::-1], strict=True)], "swapped bytes"


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_all_f16_become_fp8_in_both_bytes(kind: str) -> None:
    expected = fp8_table("f16", kind)
    words = [code << 16 | (65535 - code) for code in EVERY_HALF]
    observed = run(f"cvt.rn.satfinite.{kind}x2.f16x2", words)
    assert observed == [high << 8 | low for high, low in zip(expected, expected[::-1], strict=True)]


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_all_pairs_of_fp8_codes_become_f16_exactly(kind: str) -> None:
    def half(code: int) -> int:
        negative, exact = value_of(code, kind)
        return 0x7FFF if exact != exact else round_to_code(negative, exact, "f16", "rz")

    table = [half(code) for code in range(256)]
    observed = run(f"cvt.rn.f16x2.{kind}x2", EVERY_HALF)
    assert observed == [table[pair >> 8] << 16 | table[pair & 0xFF] for pair in EVERY_HALF]


def test_fp8_agrees_with_ml_dtypes_where_the_rules_agree() -> None:
    """ml_dtypes overflows to NaN and keeps the sign of NaN; everything else is the same."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        theirs = halves.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    ours = np.array(run("cvt.rn.satfinite.e4m3x2.f16x2", EVERY_HALF), np.uint16) & 0xFF
    comparable = np.abs(halves.astype(np.float64)) <= 464
    assert np.array_equal(ours[comparable], theirs[comparable])


def test_fp8_relu_clears_negative_codes() -> None:
    assert run("cvt.rn.satfinite.relu.e4m3x2.f32", [0xBF800000], [0x3F800000]) == [0x0038]
    assert run("cvt.rn.relu.f16x2.e4m3x2", [0xB838]) == [0x00003C00]


REFUSED = [
    *("cvt.f32.f64", "cvt.u32.f32", "cvt.f32.s32", "cvt.rn.u32.f32", "cvt.rni.f64.f32", "cvt.rn.rz.f16.f32"),
    *("cvt.rn.e4m3x2.f32", "cvt.rz.satfinite.e4m3x2.f32", "cvt.rn.e2m1x2.f32", "cvt.f32.tf32"),
    *("cvt.rn.satfinite.ue8m0x2.f32", "cvt.rs.f16x2.f32", "cvt.pack.sat.s8.s32", "cvt.rn.satfinite.s8.s32"),
    *(
        "cvt.u32.b32",
        "cvt.rn.bf16x2.f16x2",
        "cvt.sat.rn.tf32.f32",
        "cvt.rn.ftz.f16.f64",
        "cvt.f16x2.e2m1x2",
        "cvt.pack.u16.s32",
    ),
    *("cvt.rn.satfinite.e3m2x2.f16x2", "cvt.rn.bf16x2.e2m1x2", "cvt.pack.sat.u16.s32.b32"),
]


@pytest.mark.parametrize("opcode", REFUSED)
def test_uncovered_conversions_are_refused_by_name(opcode: str) -> None:
    mnemonic, *qualifiers = opcode.split(".")
    with pytest.raises(NotModelled) as refused:
        resolve(mnemonic, tuple(qualifiers))
    assert opcode in refused.value.message
