"""What matrix units refuse: each message names the value and the limit, each hint the remedy."""

from typing import Any

import numpy as np
import pytest

from tileproof.oracle.formats import FLOAT16, FLOAT32, FloatFormat
from tileproof.oracle.matrix_unit import define, multiply_add
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.unit import Conversion
from tileproof.oracle.units.unit_table import ENTRIES

NAME = "mma.m16n8k32.f32.e4m3.e4m3"


def operands(k: int = 32, dtype: Any = np.uint8, accumulator: Any = np.float32) -> dict[str, Any]:
    return {"a": np.zeros((16, k), dtype), "b": np.zeros((8, k), dtype), "c": np.zeros((16, 8), accumulator)}


def refused(instruction: str, *, engine: Any = multiply_add, **given: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        engine(instruction, **{**operands(), **given})
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        ("hmma.m16n8k16.f32.f16.f16", "'hmma' is no family", "mma.m16n8k32.f32.e4m3.e4m3"),
        ("mma.16x8x16.f32.f16.f16", "'16x8x16' is no shape", ""),
        ("mma.m16n8k16.f32.f16", "it needs accumulator, A and B", ""),
        ("mma", "its shape is missing", "mma.m16n8k32.f32.e4m3.e4m3"),
        ("mma.m16n8k32", "the types of accumulator, A and B are missing", "mma.m16n8k32.f32.e4m3.e4m3"),
        ("mma.m16n8k32.f32.e4m3.", "behind the last", "mma.m16n8k32.f32.e4m3.e4m3"),
        ("mma.m16n8k16.f32.f16.f16.f32", "it needs accumulator, A and B", ""),
        ("mma.m16n8k16.f8.f16.f16", "'f8' is no accumulator", ""),
        ("mma.m16n8k16.f32.fp16.f16", "'fp16' is no operand type", ""),
        ("mma.m16n8k32.block_scale.f32.e4m3.e4m3.ue8m0", "scale_vec::NX", ""),
        ("mma.m16n8k64.f32.e4m3.e4m3", "mma.m16n8k64", "m16n8k16.f32"),
        ("mma.m16n8k32.f32.e3m2.e3m2", "A e3m2, B e3m2", "types of A and B in mma there"),
        ("mma.m16n8k16.f16.bf16.bf16", "accumulator f16", "m16n8k8, m16n8k16.f32"),
        ("mma.m16n8k32.satfinite.f32.e4m3.e4m3", "satfinite", "m16n8k32.f32"),
        ("tcgen05.m64n8k32.f32.e4m3.e4m3", "sm_90 has no modelled tcgen05", "families there: mma, wgmma"),
        ("wgmma.m64n12k32.f32.e4m3.e4m3", "m64n12k32", "m64n8k32 to m64n256k32.f32"),
        ("mma.m16n8k16.kind::f8f6f4.f32.e4m3.e4m3", "kind::f8f6f4", ""),
    ],
)
def test_an_instruction_outside_the_table(name: str, says: str, hint: str) -> None:
    refusal = refused(name)
    assert says in refusal.message
    assert hint in refusal.hint


@pytest.mark.parametrize("arch", ["sm_103", "sm_121a", "gfx950", "sm_89b", "hopper", ""])
def test_an_architecture_that_nobody_has_published(arch: str) -> None:
    refusal = refused(NAME, arch=arch)
    assert repr(arch) in refusal.message
    assert "sm_120" in refusal.hint


@pytest.mark.parametrize("assembler", ["12.7", "13.1", "11.8", "latest"])
def test_an_assembler_that_was_not_examined(assembler: str) -> None:
    refusal = refused(NAME, assembler=assembler)
    assert repr(assembler) in refusal.message
    assert "12.6, 12.8" in refusal.hint


@pytest.mark.parametrize(("name", "arch"), [(NAME, "sm_100a"), ("mma.m16n8k32.f16.e4m3.e4m3", "sm_90")])
def test_an_assembler_older_than_the_instruction(name: str, arch: str) -> None:
    refusal = refused(name, arch=arch, assembler="12.6")
    assert "assembler 12.6 does not have" in refusal.message
    assert "12.8, 12.9, 13.0" in refusal.hint


@pytest.mark.parametrize("engine", [multiply_add, define])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": np.zeros((16, 32), np.int8)}, "a has type int8; raw codes of e4m3 are uint8"),
        ({"b": np.zeros((8, 32), np.float32)}, "b has type float32"),
        ({"a": np.zeros((16, 16), np.uint8)}, "its last dimension must be K = 32"),
        ({"b": np.zeros(32, np.uint8)}, "b has shape (32,)"),
        ({"c": np.zeros((16, 8))}, "c has type float64; the accumulator f32 is float32"),
        ({"c": np.zeros((8, 16), np.float32)}, "its last dimensions must be M, N = (16, 8)"),
        ({"a": np.zeros((2, 16, 32), np.uint8), "c": np.zeros((3, 16, 8), np.float32)}, "(2,), (), (3,)"),
        ({"scale_a": np.zeros((16, 1), np.uint8)}, "has no block scaling"),
    ],
)
def test_operands_that_do_not_fit(engine: Any, given: dict[str, Any], says: str) -> None:
    assert says in refused(NAME, engine=engine, **given).message


def test_a_code_wider_than_its_type() -> None:
    refusal = refused("tcgen05.m64n8k32.f32.e2m1.e2m1", arch="sm_100a", a=np.full((16, 32), 16, np.uint8))
    assert "code 16; codes of e2m1 are below 16" in refusal.message


@pytest.mark.parametrize(
    ("scales", "says"),
    [
        ({}, "scale_a is missing; the instruction scales blocks of 16"),
        ({"scale_a": np.zeros((16, 2), np.uint8)}, "must be scale factors = 4"),
        ({"scale_a": np.zeros((1, 4), np.uint8)}, "its operand needs (16, 4)"),
    ],
)
def test_scale_factors_that_do_not_fit(scales: dict[str, Any], says: str) -> None:
    name = "mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.ue4m3"
    assert says in refused(name, arch="sm_120a", **{**operands(64), **scales}).message


def test_the_sign_bit_of_a_ue4m3_factor_is_not_read() -> None:
    name = "mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.ue4m3"
    codes, factors = np.full((1, 64), 2, np.uint8), np.full((1, 4), 0x38, np.uint8)  # all ones
    c = np.zeros((1, 1), np.float32)
    for engine in (multiply_add, define):
        d = engine(name, codes, codes, c, arch="sm_120", scale_a=factors | 0x80, scale_b=factors)
        assert d[0, 0] == 64


def test_every_name_of_the_table_is_parsed_to_its_instruction() -> None:
    for entry in ENTRIES:
        for instruction in entry.instructions():
            assert parse_instruction(instruction.name) == instruction


@pytest.mark.parametrize(
    ("format_", "kept_bits", "nearest"),
    [(FLOAT32, 23, True), (FLOAT16, 7, True), (FLOAT16, 10, False), (FLOAT32, 24, False), (FLOAT32, -1, False)],
)
def test_a_conversion_that_no_unit_has(format_: FloatFormat, kept_bits: int, nearest: bool) -> None:
    with pytest.raises(Refusal, match="no modelled unit"):
        Conversion("made up", format_, kept_bits=kept_bits, nearest=nearest)
