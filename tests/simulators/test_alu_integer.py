"""Integer arithmetic of the PTX simulator against plain Python integers."""

import random
from collections.abc import Callable
from itertools import product

import pytest
from alu_opcode import run

WIDTHS = (16, 32, 64)


def value(bits: int, width: int, *, signed: bool) -> int:
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def samples(width: int) -> list[int]:
    top = 1 << width
    edges = {0, 1, 2, 3, top // 2 - 1, top // 2, top // 2 + 1, top - 1, top - 2, 0x55555555 % top, 0xFF % top}
    edges |= {1 << (width // 2), (1 << (width // 2)) - 1}
    generator = random.Random(width)
    return sorted(edges) + [generator.getrandbits(width) for _ in range(12)]


def pairs(width: int) -> tuple[list[int], list[int]]:
    both = list(product(samples(width), repeat=2))
    return [a for a, _ in both], [b for _, b in both]


def disagreements(
    opcode: str, width: int, definition: Callable[[int, int], int], *, signed: bool
) -> list[tuple[int, int]]:
    """The operand pairs for which the operation is not the definition modulo 2^width of the result."""
    a, b = pairs(width)
    observed = run(opcode, a, b)
    bits = 2 * width if ".wide" in opcode else width
    expected = [
        definition(value(x, width, signed=signed), value(y, width, signed=signed)) % (1 << bits)
        for x, y in zip(a, b, strict=True)
    ]
    return [(x, y) for x, y, o, e in zip(a, b, observed, expected, strict=True) if o != e]


def truncating_quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def truncating_remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * truncating_quotient(a, b)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": truncating_quotient,
    "rem": truncating_remainder,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_equal_integers_modulo_the_width(name: str, width: int, signed: bool) -> None:
    opcode = f"{name}.{'s' if signed else 'u'}{width}"
    assert disagreements(opcode, width, BINARY[name], signed=signed) == []


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_high_half_is_the_upper_half_of_the_full_product(width: int, signed: bool) -> None:
    opcode = f"mul.hi.{'s' if signed else 'u'}{width}"
    assert disagreements(opcode, width, lambda a, b: (a * b) >> width, signed=signed) == []


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("width", [16, 32])
def test_wide_product_keeps_every_bit(width: int, signed: bool) -> None:
    opcode = f"mul.wide.{'s' if signed else 'u'}{width}"
    assert disagreements(opcode, width, lambda a, b: a * b, signed=signed) == []


def test_the_comparison_rejects_an_unsigned_twin_of_a_signed_operation() -> None:
    assert disagreements("min.u32", 32, min, signed=True)
    assert disagreements("mul.hi.u64", 64, lambda a, b: (a * b) >> 64, signed=True)
    assert disagreements("div.s32", 32, lambda a, b: a // b if b else -1, signed=True), "floor is not truncation"


MAD_FORMS = [(width, form) for width in WIDTHS for form in ("lo", "hi", "wide") if (width, form) != (64, "wide")]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("width", "form"), MAD_FORMS)
def test_mad_adds_after_the_product_is_cut(width: int, form: str, signed: bool) -> None:
    bits = 2 * width if form == "wide" else width
    a, b = pairs(width)
    c = [(3 * x + y + (1 << (bits - 1))) % (1 << bits) for x, y in zip(a, b, strict=True)]
    observed = run(f"mad.{form}.{'s' if signed else 'u'}{width}", a, b, c)
    for x, y, z, result in zip(a, b, c, observed, strict=True):
        full = value(x, width, signed=signed) * value(y, width, signed=signed)
        assert result == ((full >> width if form == "hi" else full) + z) % (1 << bits), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("mnemonic", ["add", "sub"])
def test_saturating_sums_clamp_to_the_signed_range(mnemonic: str) -> None:
    def clamped(a: int, b: int) -> int:
        return max(-(2**31), min(2**31 - 1, a + b if mnemonic == "add" else a - b))

    assert disagreements(f"{mnemonic}.sat.s32", 32, clamped, signed=True) == []
    assert disagreements(f"{mnemonic}.s32", 32, clamped, signed=True), "a wrapping sum must not pass"


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_sad_adds_the_absolute_difference(width: int, signed: bool) -> None:
    a, b = pairs(width)
    c = b[::-1]
    observed = run(f"sad.{'s' if signed else 'u'}{width}", a, b, c)
    for x, y, z, result in zip(a, b, c, observed, strict=True):
        difference = abs(value(x, width, signed=signed) - value(y, width, signed=signed))
        assert result == (z + difference) % (1 << width), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("width", WIDTHS)
def test_abs_and_neg_wrap_at_the_most_negative_integer(width: int) -> None:
    a = samples(width)
    values = [value(x, width, signed=True) for x in a]
    assert run(f"abs.s{width}", a) == [abs(v) % (1 << width) for v in values]
    assert run(f"neg.s{width}", a) == [-v % (1 << width) for v in values]


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
@pytest.mark.parametrize("mnemonic", ["add", "min", "max"])
def test_packed_halves_do_not_touch_each_other(mnemonic: str, kind: str) -> None:
    low_a, low_b = pairs(16)
    high_a, high_b = low_b[::-1], low_a[::-1]
    lane = f"{mnemonic}.{kind.removesuffix('x2')}"
    observed = run(
        f"{mnemonic}.{kind}",
        [h << 16 | low for h, low in zip(high_a, low_a, strict=True)],
        [h << 16 | low for h, low in zip(high_b, low_b, strict=True)],
    )
    halves = zip(run(lane, high_a, high_b), run(lane, low_a, low_b), strict=True)
    assert observed == [high << 16 | low for high, low in halves]


def test_relu_minimum_clamps_negative_results_to_zero() -> None:
    assert disagreements("min.relu.s32", 32, lambda a, b: max(min(a, b), 0), signed=True) == []
    assert disagreements("max.s32", 32, lambda a, b: max(a, b, 0), signed=True), "without .relu it must differ"


DOT_SEEDS = range(400)


@pytest.mark.parametrize("a_type", ["u32", "s32"])
@pytest.mark.parametrize("b_type", ["u32", "s32"])
def test_dot_products_extend_each_operand_by_its_own_type(a_type: str, b_type: str) -> None:
    generator = random.Random(4)
    a, b, c = (
        [generator.choice([0xFFFFFFFF, 0x80808080, generator.getrandbits(32)]) for _ in DOT_SEEDS] for _ in "abc"
    )

    def parts(word: int, width: int, kind: str) -> list[int]:
        fields = [word >> at & ((1 << width) - 1) for at in range(0, 32, width)]
        return [value(field, width, signed=kind == "s32") for field in fields]

    four = run(f"dp4a.{a_type}.{b_type}", a, b, c)
    low, high = (run(f"dp2a.{half}.{a_type}.{b_type}", a, b, c) for half in ("lo", "hi"))
    for index, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        bytes_b = parts(y, 8, b_type)
        products = [p * q for p, q in zip(parts(x, 8, a_type), bytes_b, strict=True)]
        assert four[index] == (z + sum(products)) % 2**32
        halves = parts(x, 16, a_type)
        assert low[index] == (z + halves[0] * bytes_b[0] + halves[1] * bytes_b[1]) % 2**32
        assert high[index] == (z + halves[0] * bytes_b[2] + halves[1] * bytes_b[3]) % 2**32
