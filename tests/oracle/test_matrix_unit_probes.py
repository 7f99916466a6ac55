"""Golden probes: dot products of few terms that tell units apart, each failing for one class of mistake.

The expected bits were computed twice when the probes were designed, by MMA-Sim's rules and by an integer restatement.
All elements that a probe does not name are zero. Columns are units; None: the unit has no such K.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.formats import FLOAT32, FloatFormat
from tileproof.oracle.matrix_unit import define, multiply_add
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES

ENGINES: dict[str, Callable[..., NDArray[Any]]] = {"compiled": multiply_add, "definition": define}

Products = Sequence[tuple[int, float, float]]
"""(k, a, b)"""


@dataclass(frozen=True)
class Column:
    """One unit: an instruction for float32 and for float16 accumulators."""

    name: str
    arch: str
    f32: str
    f16: str
    assembler: str = "12.8"


VOLTA = Column("Volta", "sm_70", "mma.m8n8k4.f32.f16.f16", "mma.m8n8k4.f16.f16.f16")
AMPERE = Column("Ampere", "sm_80", "mma.m16n8k16.f32.f16.f16", "mma.m16n8k16.f16.f16.f16")
HOPPER = Column("Hopper", "sm_90", "mma.m16n8k16.f32.f16.f16", "mma.m16n8k16.f16.f16.f16")
ADA_FP8 = Column("Ada fp8", "sm_89", "mma.m16n8k32.f32.e5m2.e5m2", "mma.m16n8k32.f16.e5m2.e5m2")
WGMMA_FP8 = Column("wgmma fp8", "sm_90a", "wgmma.m64n8k32.f32.e5m2.e5m2", "wgmma.m64n8k32.f16.e5m2.e5m2")
BLACKWELL_FP8 = Column(
    "Blackwell fp8", "sm_100a", "tcgen05.m64n8k32.kind::f8f6f4.f32.e5m2.e5m2", "tcgen05.m64n8k32.f16.e5m2.e5m2"
)
EXPANDED_FP8 = Column("sm_90 mma fp8", "sm_90", "mma.m16n8k32.f32.e5m2.e5m2", "mma.m16n8k32.f16.e5m2.e5m2")
COLUMNS = (VOLTA, AMPERE, HOPPER, ADA_FP8, WGMMA_FP8, BLACKWELL_FP8, EXPANDED_FP8)
F16_COLUMNS = COLUMNS[:-1]

AMPERE_BF16 = Column("Ampere bf16", "sm_80", "mma.m16n8k16.f32.bf16.bf16", "")
HOPPER_BF16 = Column("Hopper bf16", "sm_90", "mma.m16n8k16.f32.bf16.bf16", "")


def dot(engine: str, name: str, arch: str, assembler: str, products: Products, c: int) -> int:
    """The code of D[0, 0]."""
    instruction = parse_instruction(name)
    codes = []
    for operand, place in ((instruction.a, 1), (instruction.b, 2)):
        values = np.zeros((1, instruction.shape.k))
        for product in products:
            values[0, product[0]] = product[place]
        record = FLOAT32 if operand.name in ("tf32", "f32") else operand.record
        assert isinstance(record, FloatFormat)
        code = record.encode(values)
        np.testing.assert_array_equal(record.decode(code), values)  # the probe's values are the type's
        codes.append(np.asarray(code, operand.code_dtype))
    dtype = ACCUMULATOR_DTYPES[instruction.accumulator]
    bits = f"u{dtype.itemsize}"
    start = np.array([[c]], bits).view(dtype)
    return int(ENGINES[engine](name, *codes, start, arch=arch, assembler=assembler).view(bits)[0, 0])


def f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def f16(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


MINUS_QUARTERS: Products = [(0, -(2.0**13), 2.0**10), (1, -0.5, 1), (2, -0.25, 1), (3, -0.125, 1)]
P5: Products = [(0, 1.5, 1.5), (1, 2.0**-11, 2.0**-12), (2, 2.0**-11, 2.0**-12)]
P7: Products = [(0, 2.0**12, 2.0**12), (1, 1, 1), (8, -(2.0**12), 2.0**12)]
P7B: Products = [(0, 2.0**7, 2.0**7), (1, 1, 1), (16, -(2.0**7), 2.0**7)]


def same(k: Sequence[int], a: float, b: float) -> Products:
    return [(index, a, b) for index in k]


#: Probe: products, C, and the float32 code of D for each column.
F32_PROBES: dict[str, tuple[Products, int, Sequence[int | None]]] = {
    "P1 extra bits": (
        MINUS_QUARTERS,
        f32(2.0**23),
        [f32(value) for value in (0, -0.5, -0.75, 0, 0, -0.75, 0)],
    ),
    "P2 low bits of C": ([], 0x3F800200, [0x3F800200] * 3 + [0x3F800000] * 2 + [0x3F800200] * 2),
    "P2b of a negative C": ([], 0xBF800200, [0xBF800200] * 3 + [0xBF800000] * 2 + [0xBF800200] * 2),
    "P2c smallest C": ([], 1, [1, 1, 1, 0, 0, 1, 1]),
    "P2d C of the 13-bit register": ([], 0x400, [0x400] * 7),
    "P3 truncation, not floor": ([(0, -(2.0**-14), 2.0**-14)], f32(1), [f32(1)] * 7),
    "P4a two products 2^-24": (
        same((0, 1), 2.0**-12, 2.0**-12),
        f32(1),
        [0x3F800000, 0x3F800001, 0x3F800001, 0x3F800000, 0x3F800000, 0x3F800001, 0x3F800001],
    ),
    "P4b four products 2^-25": (
        same((0, 1, 2, 3), 2.0**-12, 2.0**-13),
        f32(1),
        [0x3F800000, 0x3F800000, 0x3F800001, 0x3F800000, 0x3F800000, 0x3F800001, 0x3F800001],
    ),
    "P4c two products 2^-14": (
        same((0, 1), 2.0**-7, 2.0**-7),
        f32(1),
        [0x3F800400] * 3 + [0x3F800000] * 2 + [0x3F800400] * 2,
    ),
    "P5 products are not normalised": (
        P5,
        0,
        [0x40100001] * 3 + [0x40100000] * 2 + [0x40100001, 0x40100000],
    ),
    "P5b thirteen bits below 2.25": ([(0, 1.5, 1.5), *same((1, 2), 2.0**-6, 2.0**-7)], 0, [0x40100400] * 7),
    "P6 cut, not rounded": ([(0, 1, 1), (1, 2.0**-12, 2.0**-12), (2, 2.0**-12, 2.0**-13)], 0, [f32(1)] * 7),
    "P7 groups of 8 or 16": (P7, 0, [None, f32(0), f32(1), f32(0), f32(0), f32(1), f32(1)]),
    "P7b groups of 16 or 32": (P7B, 0, [None, None, None, f32(0), f32(0), f32(1), f32(1)]),
    "P8 zero is positive": ([(0, -0.0, 1)], 0x80000000, [0] * 7),
    "P10 largest C": ([(0, 1, 1)], 0x7F7FFFFF, [0x7F7FFFFF] * 3 + [0x7F7FFC00] * 2 + [0x7F7FFFFF] * 2),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("probe", F32_PROBES)
def test_float32_probe(engine: str, probe: str) -> None:
    products, c, expected = F32_PROBES[probe]
    columns = [column for column, code in zip(COLUMNS, expected, strict=True) if code is not None]
    observed = {column.name: dot(engine, column.f32, column.arch, column.assembler, products, c) for column in columns}
    wanted = {column.name: code for column, code in zip(COLUMNS, expected, strict=True) if code is not None}
    assert {name: hex(code) for name, code in observed.items()} == {
        name: hex(code or 0) for name, code in wanted.items()
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("column", [AMPERE_BF16, HOPPER_BF16], ids=lambda column: column.name)
@pytest.mark.parametrize(
    ("products", "expected"),
    [
        (same((0, 1), 2.0**64, 2.0**63), 0x7F800000),  # P10c: a sum that overflows
        ([(0, 2.0**64, 2.0**64), (1, -(2.0**64), 2.0**64), (2, 1, 1)], 0),  # P10d: products never do
    ],
)
def test_wide_products(engine: str, column: Column, products: Products, expected: int) -> None:
    assert dot(engine, column.f32, column.arch, "12.8", products, 0) == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "assembler", "expected"),
    [
        ("mma.m16n8k32.f32.e5m2.e5m2", "12.4", 0x4B800002),
        ("mma.m16n8k32.f32.e5m2.e5m2", "12.6", 0x4B800002),
        ("mma.m16n8k32.f32.e5m2.e5m2", "12.8", 0x4B800001),
        ("mma.m16n8k32.f32.e5m2.e5m2", "13.0", 0x4B800001),
        ("wgmma.m64n8k32.f32.e5m2.e5m2", "13.0", 0x4B800000),
    ],
)
def test_one_probe_tells_the_three_8_bit_arithmetics_of_sm_90(
    engine: str, name: str, assembler: str, expected: int
) -> None:
    products = [(0, 2.0**12, 2.0**12), (2, 3.0, 1.0)]
    assert dot(engine, name, "sm_90a", assembler, products, 0) == expected


#: Probe: products, C, and the float16 code of D for Volta, Ampere, Hopper, Ada fp8, wgmma fp8, Blackwell fp8.
F16_PROBES: dict[str, tuple[Products, int, Sequence[int]]] = {
    "H1 overflow": ([(0, 4, 4)], f16(65504), [0x7C00] * 6),
    "H1b just below": ([(0, 8, 1), (1, 4, 1), (2, 2, 1), (3, 1, 1)], f16(65504), [0x7BFF] * 6),
    "H2 rounds the exact sum": (
        [(0, 2.0**-11, 1), (1, 2.0**-10, 2.0**-11)],
        f16(1),
        [0x3C01] * 3 + [0x3C00] * 2 + [0x3C01],
    ),
    "H2b what 13 bits lose": (
        [(0, 2.0**-11, 1), (1, 2.0**-14, 1)],
        f16(1),
        [0x3C01] * 3 + [0x3C00] * 2 + [0x3C01],
    ),
    "H3 tie to even": ([(0, 2.0**-11, 1)], f16(1 + 2.0**-10), [0x3C02] * 6),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("probe", F16_PROBES)
def test_float16_probe(engine: str, probe: str) -> None:
    products, c, expected = F16_PROBES[probe]
    observed = [dot(engine, column.f16, column.arch, "12.8", products, c) for column in F16_COLUMNS]
    assert [hex(code) for code in observed] == [hex(code) for code in expected]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("column", "least"), [(VOLTA, -42), (AMPERE, -44), (HOPPER, -46)], ids=lambda v: str(v)[:20])
def test_h4_the_exponent_of_a_zero(engine: str, column: Column, least: int) -> None:
    """2^-25 alone is a tie and gives 0; the smallest 2^q that makes it 0x0001 is 2^(least exponent - fraction bits)."""

    def visible(q: int) -> bool:
        products = [(0, 2.0**-12, 2.0**-13), (1, 2.0 ** (q // 2), 2.0 ** (q - q // 2))]
        return dot(engine, column.f16, column.arch, "12.8", products, 0) == 1

    assert [q for q in range(-48, -28) if visible(q)] == list(range(least, -28))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("arch", "name", "expected"),
    [
        ("gfx908", "mfma.m16n16k16.f32.f16.f16", -0.875),
        ("gfx90a", "mfma.m16n16k8.f32.bf16.bf16", -0.375),
        ("gfx90a", "mfma.m16n16k16.1k.f32.bf16.bf16", 0),
        ("gfx90a", "mfma.m16n16k16.f32.f16.f16", 0),
        ("gfx942", "mfma.m16n16k16.f32.f16.f16", -0.5),
        ("gfx942", "mfma.m16n16k32.f32.e5m2fnuz.e5m2fnuz", -1.0),
        ("gfx908", "mfma.m16n16k4.f32.f32.f32", -0.875),
    ],
)
def test_p1_on_amd(engine: str, arch: str, name: str, expected: float) -> None:
    assert dot(engine, name, arch, "12.8", MINUS_QUARTERS, f32(2.0**23)) == f32(expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_tf32_ignores_thirteen_bits_so_a_low_nan_is_an_infinity(engine: str) -> None:
    a, b = np.zeros((1, 8), np.uint32), np.zeros((1, 8), np.uint32)
    b[0, 0] = 0x3F801FFF  # 1 and the ignored bits
    for code, expected in ((0x7F800001, 0x7F800000), (0x7F802000, 0x7FFFFFFF), (0x40001FFF, 0x40000000)):
        a[0, 0] = code
        d = ENGINES[engine]("mma.m16n8k8.f32.tf32.tf32", a, b, np.zeros((1, 1), np.float32))
        assert int(d.view(np.uint32)[0, 0]) == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (0x7C, 0x3C, 0x00000000, 0x7F800000),  # Inf · 1
        (0xFC, 0x3C, 0x00000000, 0xFF800000),
        (0x7C, 0x00, 0x00000000, 0x7FFFFFFF),  # Inf · 0
        (0x7C, 0x3C, 0xFF800000, 0x7FFFFFFF),  # Inf - Inf
        (0x7C, 0x3C, 0x7F800000, 0x7F800000),
        (0xFE, 0x3C, 0x00000000, 0x7FFFFFFF),  # a NaN loses its sign and payload
        (0x3C, 0x3C, 0xFFC00001, 0x7FFFFFFF),
        (0x00, 0x00, 0xFF800000, 0xFF800000),
    ],
)
@pytest.mark.parametrize("column", [ADA_FP8, WGMMA_FP8, BLACKWELL_FP8, EXPANDED_FP8], ids=lambda column: column.name)
def test_specials(engine: str, column: Column, a: int, b: int, c: int, expected: int) -> None:
    codes = [np.zeros((1, 32), np.uint8) for _ in range(2)]
    codes[0][0, 5], codes[1][0, 5] = a, b
    start = np.array([[c]], np.uint32).view(np.float32)
    d = ENGINES[engine](column.f32, *codes, start, arch=column.arch)
    assert int(d.view(np.uint32)[0, 0]) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_integers_wrap_or_clamp_once_at_the_end(engine: str) -> None:
    a, b = np.full((1, 32), 127, np.int8), np.full((1, 32), 127, np.int8)
    c = np.array([[2**31 - 1]], np.int32)
    total = 32 * 127 * 127 + 2**31 - 1
    assert ENGINES[engine]("mma.m16n8k32.s32.s8.s8", a, b, c)[0, 0] == total - 2**32
    assert ENGINES[engine]("mma.m16n8k32.satfinite.s32.s8.s8", a, b, c)[0, 0] == 2**31 - 1
    b[0, 16:] = -127  # the partial sum leaves the range and comes back
    assert ENGINES[engine]("mma.m16n8k32.satfinite.s32.s8.s8", a, b, c)[0, 0] == 2**31 - 1
    assert ENGINES[engine]("mma.m16n8k32.s32.s8.s8", a, b, -c)[0, 0] == -(2**31 - 1)
    assert ENGINES[engine]("mma.m16n8k32.satfinite.s32.s8.s8", a, -a, -c)[0, 0] == -(2**31)
    unsigned = np.full((1, 32), 255, np.uint8)
    assert ENGINES[engine]("mma.m16n8k32.s32.u8.s8", unsigned, a, c * 0)[0, 0] == 32 * 255 * 127
