"""Floating-point arithmetic of the PTX simulator against exact fractions, rounded by searching the codes."""

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from alu_opcode import run

from tileproof.simulators.ptx.alu.exact import round_fraction
from tileproof.simulators.ptx.alu.ieee import Rounding, require_gradual_underflow
from tileproof.simulators.ptx.alu.operation import NotModelled, resolve

KINDS = ("f16", "bf16", "f32", "f64")
# Exponent and fraction bits; the wide ones have one more bit of exponent, so that tiny results are normal in them.
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "wide f16": (6, 10), "wide f32": (9, 23)}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8 << 48, "wide f16": 0xFFFF, "wide f32": 2**33 - 1}
Value = Fraction | float  # a float only where infinite or NaN


def width(kind: str) -> int:
    return 1 + sum(FORMATS[kind])


def infinity(kind: str) -> int:
    exponent_bits, fraction_bits = FORMATS[kind]
    return ((1 << exponent_bits) - 1) << fraction_bits


def magnitude(code: int, kind: str) -> Fraction:
    """Value of a code without sign; infinity counts as the power of two after the largest number."""
    exponent_bits, fraction_bits = FORMATS[kind]
    field, fraction = divmod(code, 1 << fraction_bits)
    significand = fraction + (1 << fraction_bits if field else 0)
    exponent = max(field, 1) - (2 ** (exponent_bits - 1) - 1) - fraction_bits
    return Fraction(significand << exponent) if exponent >= 0 else Fraction(significand, 1 << -exponent)


def value_of(code: int, kind: str) -> tuple[bool, Value]:
    """The sign and the value of a code."""
    negative, size = divmod(code, 1 << (width(kind) - 1))
    if size > infinity(kind):
        return bool(negative), math.nan
    if size == infinity(kind):
        return bool(negative), -math.inf if negative else math.inf
    return bool(negative), -magnitude(size, kind) if negative else magnitude(size, kind)


def round_to_code(value: Fraction, kind: str, mode: str, *, negative_zero: bool = False) -> int:
    """The code nearest to a value in the mode: bisect the codes, which are in the order of their values."""
    negative = value < 0 or (value == 0 and negative_zero)
    size = abs(value)
    low, high = 0, infinity(kind)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if magnitude(middle, kind) <= size else (low, middle)
    if size >= magnitude(infinity(kind), kind):
        low, high = infinity(kind) - 1, infinity(kind)
    down, up = size - magnitude(low, kind), magnitude(high, kind) - size
    nearest = low if down < up or (down == up and low % 2 == 0) else high
    away = {"rn": nearest, "rz": low, "rm": high if negative else low, "rp": low if negative else high}
    code = low if down == 0 else away[mode]
    return code | (1 << (width(kind) - 1) if negative else 0)


def sum_of(terms: Sequence[tuple[bool, Value]], kind: str, mode: str) -> int:
    """Rounded sum of signed terms."""
    specials = [float(value) for _, value in terms if isinstance(value, float)]
    if specials:
        total = sum(specials)
        return NAN[kind] if math.isnan(total) else infinity(kind) | (1 << (width(kind) - 1) if total < 0 else 0)
    exact = sum((Fraction(value) for _, value in terms), Fraction(0))
    signs = {negative for negative, _ in terms}
    zeros_agree = all(value == 0 for _, value in terms) and len(signs) == 1
    return round_to_code(exact, kind, mode, negative_zero=signs == {True} if zeros_agree else mode == "rm")


def product_of(a: tuple[bool, Value], b: tuple[bool, Value]) -> tuple[bool, Value]:
    negative = a[0] != b[0]
    if isinstance(a[1], float) or isinstance(b[1], float):
        return negative, float(a[1]) * float(b[1]) if a[1] and b[1] else math.nan
    return negative, a[1] * b[1]


@cache
def codes(kind: str, count: int) -> tuple[int, ...]:
    """Boundary codes of a format, and random ones with exponents near each other and near the ends."""
    generator = random.Random(count)
    exponent_bits, fraction_bits = FORMATS[kind]
    one = ((1 << (exponent_bits - 1)) - 1) << fraction_bits
    smallest_normal, sign = 1 << fraction_bits, 1 << (width(kind) - 1)
    edges = [0, 1, 2, smallest_normal - 1, smallest_normal, smallest_normal + 1, one - 1, one, one + 1]
    edges += [infinity(kind) - 1, infinity(kind), infinity(kind) + 1, 3 * one // 2]
    fields = [
        0,
        1,
        2,
        fraction_bits,
        (1 << (exponent_bits - 1)) - 1,
        (1 << (exponent_bits - 1)),
        (1 << exponent_bits) - 2,
    ]
    drawn = [generator.choice(fields) << fraction_bits | generator.getrandbits(fraction_bits) for _ in range(count)]
    drawn += [generator.getrandbits(width(kind) - 1) for _ in range(count)]
    return tuple(code | (sign if generator.random() < 0.5 else 0) for code in (*edges, *edges, *drawn))


def tuples(kind: str, arity: int, count: int) -> list[tuple[int, ...]]:
    generator = random.Random(arity)
    pool = codes(kind, 40)
    return [tuple(generator.choice(pool) for _ in range(arity)) for _ in range(count)]


DEFINITIONS: dict[str, Callable[[list[tuple[bool, Value]], str, str], int]] = {
    "add": lambda v, kind, mode: sum_of(v, kind, mode),
    "sub": lambda v, kind, mode: sum_of([v[0], (not v[1][0], -v[1][1])], kind, mode),
    "mul": lambda v, kind, mode: sum_of([product_of(v[0], v[1])], kind, mode),
    "fma": lambda v, kind, mode: sum_of([product_of(v[0], v[1]), v[2]], kind, mode),
}


NAN_ORDER = {"div": (0, 1), "fma": (1, 2, 0), "add": (1, 0), "sub": (1, 0), "mul": (1, 0)}


def nan_of(name: str, case: Sequence[int], otherwise: int) -> int:
    """f64: the first NaN operand of the order, quiet (measured on H200)."""
    nans = [case[i] for i in NAN_ORDER.get(name, (0,)) if value_of(case[i], "f64")[1] != value_of(case[i], "f64")[1]]
    return nans[0] | 1 << 51 if nans else otherwise


def disagreements(
    observed: Sequence[int], cases: Sequence[tuple[int, ...]], name: str, kind: str, mode: str
) -> list[tuple[tuple[str, ...], str, str]]:
    wrong = []
    for case, result in zip(cases, observed, strict=True):
        expected = DEFINITIONS[name]([value_of(code, kind) for code in case], kind, mode)
        expected = nan_of(name, case, expected) if kind == "f64" else expected
        if result != expected:
            wrong.append((tuple(map(hex, case)), hex(result), hex(expected)))
    return wrong


def columns(cases: Sequence[tuple[int, ...]]) -> list[list[int]]:
    return [list(column) for column in zip(*cases, strict=True)]


ROUNDED = [
    *((name, kind, "rn") for name in DEFINITIONS for kind in KINDS),
    *((name, kind, mode) for name in DEFINITIONS for kind in ("f32", "f64") for mode in ("rz", "rm", "rp")),
]


@pytest.mark.parametrize(("name", "kind", "mode"), ROUNDED)
def test_arithmetic_rounds_the_exact_result_once(name: str, kind: str, mode: str) -> None:
    cases = tuples(kind, 3 if name == "fma" else 2, 120 if kind == "f64" else 300)
    assert disagreements(run(f"{name}.{mode}.{kind}", *columns(cases)), cases, name, kind, mode) == []


def fma_traps(kind: str) -> list[tuple[int, ...]]:
    """Products that reach a midpoint of the sum's format and a crumb beyond or below; at both ends of the range too."""
    exponent_bits, fraction_bits = FORMATS[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = 1 << (width(kind) - 1)

    def power(exponent: int) -> int:
        return (exponent + bias) << fraction_bits if exponent > -bias else 1 << (exponent + bias - 1 + fraction_bits)

    cases: list[tuple[int, ...]] = []
    for odd in (0, 1):
        for product_sign in (0, sign):
            # c is 1 or 1 + ulp; the product is half an ulp, plus or minus its own last place.
            half = power(-fraction_bits - 1)
            cases += [(half + d, power(0) + e | product_sign, power(0) + odd) for d in (-1, 0, 1) for e in (0, 1)]
            # (1 + ulp)(1 - ulp) is 1 - ulp^2: half an ulp less a crumb that float64 drops for f32.
            cases += [(half + 1, power(0) - 2 | product_sign, power(0) + odd)]
            far = -3 * fraction_bits // 2
            cases += [(power(far), power(far) | product_sign, power(0) + odd)]
            # Subnormal results: c subnormal, the product half of the smallest subnormal, and near it.
            low = 1 - bias - fraction_bits - 1
            x = low // 2
            cases += [(power(x) + d, power(low - x) | product_sign, c) for d in (0, 1) for c in (0, 1, 2, 3)]
            # Overflow: the largest number and half an ulp of it.
            top = bias - fraction_bits - 1
            y = top // 2
            cases += [(power(y) + d, power(top - y) | product_sign, infinity(kind) - 1 - odd) for d in (-1, 0, 1)]
            cases += [(infinity(kind) - 1, infinity(kind) - 1 | product_sign, infinity(kind) | sign)]
    return cases


FMA_FORMS = [
    (kind, mode) for kind in KINDS for mode in ("rn", "rz", "rm", "rp") if mode == "rn" or kind in ("f32", "f64")
]


@pytest.mark.parametrize(("kind", "mode"), FMA_FORMS)
def test_fma_survives_double_rounding_traps(kind: str, mode: str) -> None:
    cases = fma_traps(kind)
    assert disagreements(run(f"fma.{mode}.{kind}", *columns(cases)), cases, "fma", kind, mode) == []


def test_the_traps_reject_two_roundings_and_rounding_through_float64() -> None:
    cases = fma_traps("f32")
    a, b, c = columns(cases)
    twice = run("add.rn.f32", run("mul.rn.f32", a, b), c)
    assert disagreements(twice, cases, "fma", "f32", "rn"), "multiply then add must not pass for a fused operation"
    doubles = [np.array(column, np.uint32).view(np.float32).astype(np.float64) for column in columns(cases)]
    with np.errstate(all="ignore"):
        through = (doubles[0] * doubles[1] + doubles[2]).astype(np.float32).view(np.uint32)
    assert disagreements([int(x) for x in through], cases, "fma", "f32", "rn"), (
        "a nearest float64 in between must not pass"
    )


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_quotients_and_roots_of_f32_round_once(mode: str) -> None:
    cases = tuples("f32", 2, 300)
    cases += [(0x3F800000 + n, 0x3F800000 + m) for n in (1, 2, 0x7FFFFF) for m in (1, 3, 0x7FFFFE)]
    cases += [(n, 0x40000000 + m) for n in (1, 2, 3, 5, 0x800000, 0x800001) for m in (0, 1)]
    check_quotients("f32", mode, cases)


def test_quotients_and_roots_of_f64_round_to_nearest() -> None:
    check_quotients("f64", "rn", tuples("f64", 2, 150))


def check_quotients(kind: str, mode: str, cases: Sequence[tuple[int, ...]]) -> None:
    sign = 1 << (width(kind) - 1)
    one = ((1 << (FORMATS[kind][0] - 1)) - 1) << FORMATS[kind][1]
    a, b = columns(cases)
    quotients, reciprocals = run(f"div.{mode}.{kind}", a, b), run(f"rcp.{mode}.{kind}", b)
    for x, y, quotient, reciprocal in zip(a, b, quotients, reciprocals, strict=True):
        expected = divided(x, y, kind, mode), divided(one, y, kind, mode)
        if kind == "f64":
            expected = nan_of("div", (x, y), expected[0]), nan_of("rcp", (y,), expected[1])
        assert quotient == expected[0], (hex(x), hex(y), hex(quotient))
        assert reciprocal == expected[1], (hex(y), hex(reciprocal))
    for x, root in zip(a, run(f"sqrt.{mode}.{kind}", a), strict=True):
        negative, value = value_of(x, kind)
        if value == 0:
            assert root == x
        elif isinstance(value, float) or negative:
            nan = nan_of("sqrt", (x,), NAN[kind]) if kind == "f64" else NAN[kind]
            assert root == (x if x == infinity(kind) else nan)
        else:
            assert root & sign == 0
            assert root_is_right(root, value, kind, mode), (hex(x), hex(root))


def divided(a: int, b: int, kind: str, mode: str) -> int:
    (negative_a, x), (negative_b, y) = value_of(a, kind), value_of(b, kind)
    negative = negative_a != negative_b
    sign = 1 << (width(kind) - 1) if negative else 0
    if x != x or y != y or (isinstance(x, float) and isinstance(y, float)) or (x == 0 and y == 0):
        return NAN[kind]
    if isinstance(y, float):
        return sign
    if isinstance(x, float) or y == 0:
        return sign | infinity(kind)
    return round_to_code(Fraction(x) / Fraction(y), kind, mode, negative_zero=negative)


def root_is_right(root: int, value: Fraction, kind: str, mode: str) -> bool:
    """Whether a code is the rounded square root: squares of its neighbourhood enclose the value."""
    here, below, above = (magnitude(root + step, kind) for step in (0, -1, 1))
    if mode == "rn":
        return ((here + below) / 2) ** 2 <= value <= ((here + above) / 2) ** 2
    return below**2 < value <= here**2 if mode == "rp" else here**2 <= value < above**2


def test_the_root_check_rejects_a_neighbour() -> None:
    two = Fraction(2)
    root = round_to_code(Fraction(math.isqrt(2 << 200), 1 << 100), "f32", "rn")
    assert root_is_right(root, two, "f32", "rn")
    assert not any(root_is_right(root + step, two, "f32", "rn") for step in (-1, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_min_and_max_order_zeros_and_skip_a_nan(kind: str) -> None:
    cases = tuples(kind, 2, 600) + [(a, b) for a in codes(kind, 40)[:26] for b in codes(kind, 40)[:26]]
    for name, sign in (("min", 1), ("max", -1)):
        observed = run(f"{name}.{kind}", *columns(cases))
        propagated = run(f"{name}.NaN.{kind}", *columns(cases)) if kind != "f64" else observed
        for (a, b), result, nan_result in zip(cases, observed, propagated, strict=True):
            numbers = [code for code in (a, b) if value_of(code, kind)[1] == value_of(code, kind)[1]]
            # -0 sorts before +0.
            ranked = sorted(numbers, key=lambda code: (sign * value_of(code, kind)[1], -sign * value_of(code, kind)[0]))
            nan = b | 1 << 51 if kind == "f64" else NAN[kind]
            assert result == (ranked[0] if ranked else nan), (hex(a), hex(b))
            if kind != "f64":
                assert nan_result == (result if len(numbers) == 2 else NAN[kind]), (hex(a), hex(b))


@pytest.mark.parametrize("kind", KINDS)
def test_neg_and_abs_touch_the_sign_of_a_number_only(kind: str) -> None:
    sign = 1 << (width(kind) - 1)
    cases = list(codes(kind, 40))
    nans = {code: code | 1 << 51 if kind == "f64" else NAN[kind] for code in cases if code % sign > infinity(kind)}
    assert run(f"neg.{kind}", cases) == [nans.get(code, code ^ sign) for code in cases]
    assert run(f"abs.{kind}", cases) == [nans.get(code, code % sign) for code in cases]
    if kind in ("f32", "f64"):
        others = cases[::-1]
        expected = [a // sign * sign + b % sign for a, b in zip(cases, others, strict=True)]
        assert run(f"copysign.{kind}", cases, others) == expected


def flushed(code: int, kind: str) -> int:
    sign = 1 << (width(kind) - 1)
    return code // sign * sign if code % sign < 1 << FORMATS[kind][1] else code


def flush_tiny(wide: int, code: int, kind: str) -> int:
    """Zero where the result, rounded with any exponent, is below the smallest normal number (measured on H200)."""
    sign = 1 << (width(kind) - 1)
    _, value = value_of(wide, f"wide {kind}")
    return code // sign * sign if abs(float(value)) < float(magnitude(1 << FORMATS[kind][1], kind)) else code


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("opcode", ["add.rn", "mul.rn", "fma.rn", "min", "max", "abs", "neg"])
def test_ftz_flushes_operands_and_results(opcode: str, kind: str) -> None:
    arity = {"fma.rn": 3, "abs": 1, "neg": 1}.get(opcode, 2)
    cases = tuples(kind, arity, 400)
    inputs = [[flushed(code, kind) for code in column] for column in columns(cases)]
    plain = run(f"{opcode}.{kind}", *inputs)
    expected = [flushed(code, kind) for code in plain]
    if (name := opcode.removesuffix(".rn")) in DEFINITIONS:
        cases_read = [[value_of(code, kind) for code in case] for case in zip(*inputs, strict=True)]
        expected = [
            flush_tiny(DEFINITIONS[name](v, f"wide {kind}", "rn"), c, kind)
            for v, c in zip(cases_read, plain, strict=True)
        ]
    assert run(f"{opcode}.ftz.{kind}", *columns(cases)) == expected
    assert run(f"{opcode}.{kind}", *columns(cases)) != expected, "without .ftz subnormal numbers count"


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_sat_clamps_to_the_unit_interval_and_nan_to_zero(kind: str) -> None:
    cases = tuples(kind, 2, 400)
    plain = run(f"add.rn.{kind}", *columns(cases))
    for before, after in zip(plain, run(f"add.rn.sat.{kind}", *columns(cases)), strict=True):
        value = value_of(before, kind)[1]
        clamped = Fraction(0) if value != value else Fraction(min(max(value, 0), 1))
        assert after == round_to_code(clamped, kind, "rn"), hex(before)


PACKED = {
    "add.rn": 2,
    "sub.rn": 2,
    "mul.rn": 2,
    "fma.rn": 3,
    "fma.rn.relu": 3,
    "min": 2,
    "max.NaN": 2,
    "neg": 1,
    "abs": 1,
}


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_arithmetic_is_the_scalar_one_in_each_half(name: str, kind: str) -> None:
    low, high = columns(tuples(kind, PACKED[name], 150)), columns(tuples(kind, PACKED[name], 300)[150:])
    packed = [[h << 16 | x for h, x in zip(hs, xs, strict=True)] for hs, xs in zip(high, low, strict=True)]
    halves = list(zip(run(f"{name}.{kind}", *high), run(f"{name}.{kind}", *low), strict=True))
    assert run(f"{name}.{kind}x2", *packed) == [h << 16 | x for h, x in halves]
    assert run(f"{name}.{kind}x2", *packed) != [x << 16 | h for h, x in halves], "halves swapped"


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_relu_makes_negative_results_zero(kind: str) -> None:
    cases = tuples(kind, 3, 400)
    sign = 1 << (width(kind) - 1)
    plain = run(f"fma.rn.{kind}", *columns(cases))
    assert run(f"fma.rn.relu.{kind}", *columns(cases)) == [0 if code & sign else code for code in plain]


def test_every_f16_sum_with_a_few_partners_is_exactly_rounded() -> None:
    """float16 + float16 has at most 40 bits between its ends, so a float64 sum is exact and rounds once."""
    everything = list(range(65536))
    for partner in (0x0001, 0x3C01, 0x7BFF, 0x8400):
        observed = np.array(run("add.rn.f16", everything, [partner] * 65536), np.uint16)
        with np.errstate(all="ignore"):
            halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
            total = (halves + float(np.array([partner], np.uint16).view(np.float16)[0])).astype(np.float16)
        expected = np.where(np.isnan(total), 0x7FFF, total.view(np.uint16))
        assert np.array_equal(observed, expected)


def test_an_unrounded_opcode_rounds_to_nearest() -> None:
    cases = tuples("f32", 2, 100)
    assert run("mul.f32", *columns(cases)) == run("mul.rn.f32", *columns(cases))


def test_fractions_round_at_the_ends_of_binary64() -> None:
    huge, tiny = Fraction(2) ** 1024, Fraction(1, 2**1076)
    assert round_fraction(huge, Rounding.NEAREST_EVEN) == math.inf
    assert round_fraction(huge, Rounding.ZERO) == float(np.finfo(np.float64).max)
    assert round_fraction(-huge, Rounding.UP) == -float(np.finfo(np.float64).max)
    assert round_fraction(tiny, Rounding.UP) == 5e-324
    assert math.copysign(1, round_fraction(-tiny, Rounding.UP)) == -1


def test_this_thread_keeps_subnormal_numbers() -> None:
    require_gradual_underflow()


@pytest.mark.parametrize(
    ("opcode", "names"),
    [
        ("ex2.approx.bf16", "needs .ftz"),
        ("tanh.approx.ftz.f32", "no .ftz"),
        ("ex2.f32", "approx"),
        ("rcp.approx.f64", "needs .ftz"),
        ("min.xorsign.f32", "xorsign"),
        ("fma.f32", "rn"),
        ("fma.rz.f16", "rz"),
        ("div.rz.f64", "rn"),
        ("add.sat.f64", "sat"),
        ("add.sat.f32x2", "sat"),
        ("min.NaN.f64", "NaN"),
    ],
)
def test_uncovered_forms_are_refused_by_name(opcode: str, names: str) -> None:
    mnemonic, *qualifiers = opcode.split(".")
    with pytest.raises(NotModelled, match=names) as refused:
        resolve(mnemonic, tuple(qualifiers))
    assert opcode in refused.value.message
