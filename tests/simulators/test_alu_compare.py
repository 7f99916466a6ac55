"""Comparisons and selections of the PTX simulator against Python's own."""

import math
import random
import struct
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from tileproof.simulators.ptx.alu.operation import NotModelled, resolve

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def run(opcode: str, *operands: Sequence[int]) -> list[list[int]]:
    mnemonic, *qualifiers = opcode.split(".")
    operation = resolve(mnemonic, tuple(qualifiers))
    assert operation is not None
    results = operation.compute([np.array(operand, np.uint64) for operand in operands])
    return [[int(value) for value in result] for result in results]


def integers(width: int) -> list[int]:
    generator = random.Random(width)
    return [
        0,
        1,
        2,
        (1 << width) - 1,
        1 << (width - 1),
        (1 << (width - 1)) - 1,
        *(generator.getrandbits(width) for _ in range(8)),
    ]


FLOATS = {
    "f32": [0x0, 0x80000000, 0x3F800000, 0xBF800000, 0x1, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001],
    "f64": [
        0x0,
        1 << 63,
        0x3FF << 52,
        0xBFF << 52,
        1,
        (1 << 63) + 1,
        0x7FF << 52,
        0xFFF << 52,
        0x7FF8 << 48,
        (0xFFF << 52) + 1,
    ],
    "f16": [0x0, 0x8000, 0x3C00, 0xBC00, 0x1, 0x8001, 0x7C00, 0xFC00, 0x7E00, 0xFC01],
    "bf16": [0x0, 0x8000, 0x3F80, 0xBF80, 0x1, 0x8001, 0x7F80, 0xFF80, 0x7FC0, 0xFF81],
}


def number(code: int, kind: str) -> float:
    if kind == "bf16":
        return number(code << 16, "f32")
    character, size = {"f16": ("e", 2), "f32": ("f", 4), "f64": ("d", 8)}[kind]
    return float(struct.unpack(f"<{character}", code.to_bytes(size, "little"))[0])


def crossed(values: list[int]) -> tuple[list[int], list[int]]:
    both = list(product(values, repeat=2))
    return [a for a, _ in both], [b for _, b in both]


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("sign", ["u", "s", "b"])
def test_integer_comparisons_read_the_sign_that_the_type_says(sign: str, width: int) -> None:
    a, b = crossed(integers(width))
    names = {
        "u": {**{n: n for n in RELATIONS}, **UNSIGNED_NAMES},
        "s": {n: n for n in RELATIONS},
        "b": {"eq": "eq", "ne": "ne"},
    }

    def value(x: int) -> int:
        return x - (1 << width) if sign == "s" and x >> (width - 1) else x

    for name, relation in names[sign].items():
        first, second = run(f"setp.{name}.{sign}{width}", a, b)
        expected = [int(RELATIONS[relation](value(x), value(y))) for x, y in zip(a, b, strict=True)]
        assert first == expected, name
        assert second == [1 - t for t in expected], name


def test_a_signed_comparison_differs_from_its_unsigned_twin() -> None:
    a, b = crossed(integers(32))
    assert run("setp.lt.s32", a, b) != run("setp.lt.u32", a, b)


@pytest.mark.parametrize("kind", FLOATS)
def test_float_comparisons_with_nan_are_false_when_ordered_and_true_when_not(kind: str) -> None:
    a, b = crossed(FLOATS[kind])
    values = [(number(x, kind), number(y, kind)) for x, y in zip(a, b, strict=True)]
    unordered = [math.isnan(x) or math.isnan(y) for x, y in values]
    for name, relation in RELATIONS.items():
        ordered = [int(not nan and relation(x, y)) for nan, (x, y) in zip(unordered, values, strict=True)]
        assert run(f"setp.{name}.{kind}", a, b)[0] == ordered, name
        either = [int(nan or relation(x, y)) for nan, (x, y) in zip(unordered, values, strict=True)]
        assert run(f"setp.{name}u.{kind}", a, b)[0] == either, name
    assert run(f"setp.num.{kind}", a, b)[0] == [int(not nan) for nan in unordered]
    assert run(f"setp.nan.{kind}", a, b)[0] == [int(nan) for nan in unordered]


def test_ordered_ne_is_not_pythons_ne() -> None:
    nan, one = [0x7FC00000], [0x3F800000]
    assert run("setp.ne.f32", nan, one)[0] == [0]
    assert run("setp.neu.f32", nan, one)[0] == [1]


def test_ftz_compares_subnormals_as_zero() -> None:
    assert run("setp.eq.ftz.f32", [1], [0x80000001])[0] == [1]
    assert run("setp.eq.f32", [1], [0x80000001])[0] == [0]
    assert run("setp.lt.ftz.f32", [0], [0x00800000])[0] == [1], "the smallest normal number is kept"


@pytest.mark.parametrize("boolean", ["and", "or", "xor"])
def test_the_second_predicate_complements_the_comparison_before_combining(boolean: str) -> None:
    a, b, c = [1, 1, 5, 5], [2, 2, 2, 2], [0, 1, 0, 1]
    rules: dict[str, Callable[[int, int], int]] = {"and": min, "or": max, "xor": lambda x, y: int(x != y)}
    combine = rules[boolean]
    first, second = run(f"setp.lt.{boolean}.s32", a, b, c)
    assert first == [combine(int(x < y), z) for x, y, z in zip(a, b, c, strict=True)]
    assert second == [combine(int(not x < y), z) for x, y, z in zip(a, b, c, strict=True)]
    if boolean != "xor":
        assert second != [1 - p for p in first], "complementing the combination must differ"


def test_set_writes_all_ones_or_one_point_zero() -> None:
    a, b = [1, 3], [2, 2]
    assert run("set.lt.u32.s32", a, b) == [[0xFFFFFFFF, 0]]
    assert run("set.lt.f32.s32", a, b) == [[0x3F800000, 0]]
    assert run("set.lt.and.u32.s32", a, b, [0, 1]) == [[0, 0]]
    assert run("set.gtu.f32.f32", [0x7FC00000, 0], [0, 0]) == [[0x3F800000, 0]]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_testp_sorts_every_code_into_its_class(kind: str) -> None:
    smallest_normal = {"f32": 0x00800000, "f64": 1 << 52}[kind]
    codes = [*FLOATS[kind], smallest_normal, smallest_normal - 1]
    values = [number(code, kind) for code in codes]
    tiny = number(smallest_normal, kind)
    rules: dict[str, Callable[[float], bool]] = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda v: not math.isnan(v),
        "notanumber": math.isnan,
        "normal": lambda v: math.isfinite(v) and (abs(v) >= tiny or v == 0),
        "subnormal": lambda v: 0 < abs(v) < tiny,
    }
    for name, rule in rules.items():
        assert run(f"testp.{name}.{kind}", codes)[0] == [int(rule(v)) for v in values], name


def test_selections_take_the_first_for_true_and_for_not_negative() -> None:
    a, b = [10, 10], [20, 20]
    assert run("selp.b32", a, b, [1, 0]) == [[10, 20]]
    assert run("slct.b32.s32", a, b, [0, 0x80000000]) == [[10, 20]]
    codes = [0x0, 0x80000000, 0x3F800000, 0xBF800000, 0x80000001, 0x7FC00000, 0xFFC00000, 0xFF800000]
    expected = [10 if number(code, "f32") >= 0 else 20 for code in codes]
    assert run("slct.b32.f32", [10] * 8, [20] * 8, codes) == [expected]
    assert run("slct.ftz.b32.f32", [10], [20], [0x80000001]) == [[10]], "a flushed subnormal is zero"


@pytest.mark.parametrize("kind", ["pred", "b16", "u16", "s16", "b32", "f32", "u64", "f64"])
def test_mov_keeps_every_bit(kind: str) -> None:
    assert run(f"mov.{kind}", [0, 1]) == [[0, 1]]


@pytest.mark.parametrize(
    "opcode", ["setp.lt.b32", "setp.lo.s32", "setp.lo.f32", "setp.equ.u32", "setp.lt.ftz.f64", "setp.lt.eq.s32"]
)
def test_comparisons_that_a_type_lacks_are_refused(opcode: str) -> None:
    mnemonic, *qualifiers = opcode.split(".")
    with pytest.raises(NotModelled, match=opcode.replace(".", r"\.")):
        resolve(mnemonic, tuple(qualifiers))
