"""Matrix units: H200 recordings, compiled twins against definitions on every row of the table, batches, the table."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.conformance.matrix_inputs import MatrixInputs, generate
from tileproof.conformance.matrix_rows import Row, rows
from tileproof.oracle.matrix_unit import define, describe, multiply_add
from tileproof.oracle.units.instruction import parse_instruction
from tileproof.oracle.units.unit import FusedSum, LateSum
from tileproof.oracle.units.unit_table import ENTRIES, support_table

Array = NDArray[Any]

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "h200_matrix_unit.npz")
RECORDED = sorted({name.rpartition(".")[0] for name in GOLDEN.files})
ENGINES = {"compiled": multiply_add, "definition": define}
each_engine = pytest.mark.parametrize("engine", ENGINES)


def bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def instruction_of(recording: str) -> str:
    family, shape, a, b = recording.split("_")
    return f"{family}.{shape}.f32.{a}.{b}"


@pytest.mark.parametrize("recording", RECORDED)
def test_every_recorded_element_is_reproduced(recording: str) -> None:
    a, b, c, d = (GOLDEN[f"{recording}.{part}"] for part in "ABCD")
    observed = multiply_add(instruction_of(recording), a, b, c, arch="sm_90a")
    np.testing.assert_array_equal(bits(observed), bits(d))


@pytest.mark.parametrize("recording", RECORDED)
def test_the_definition_reproduces_recorded_tiles(recording: str) -> None:
    chosen = slice(None, None, 200 if recording.startswith("mma") else 120)
    a, b, c, d = (GOLDEN[f"{recording}.{part}"][chosen] for part in "ABCD")
    np.testing.assert_array_equal(bits(define(instruction_of(recording), a, b, c)), bits(d))


def test_a_subnormal_e4m3_code_is_normal_once_unpacked() -> None:
    """The one recorded element that tells it: unpacked as it stands, the sum ends one place higher."""
    a, b, c, d = (GOLDEN[f"mma_m16n8k32_e4m3_e5m2.{part}"][151] for part in "ABCD")
    for engine in ENGINES.values():
        observed = engine("mma.m16n8k32.f32.e4m3.e5m2", a[14:15], b[:1], c[14:15, :1])
        assert bits(observed)[0, 0] == bits(d)[14, 0] == 0xC2FEFF89


def arguments(inputs: MatrixInputs) -> dict[str, Array]:
    """The scale arguments of a call."""
    scales = {"scale_a": inputs.scale_a, "scale_b": inputs.scale_b}
    return {name: scale for name, scale in scales.items() if scale is not None}


@pytest.mark.parametrize("row", list(rows()), ids=str)
def test_the_compiled_twin_is_the_definition(row: Row) -> None:
    seed = np.random.SeedSequence(list(str(row).encode()))
    inputs = generate(row.instruction, 16, np.random.default_rng(seed), rows=3, columns=2)
    results = [
        engine(
            row.instruction.name,
            inputs.a,
            inputs.b,
            inputs.c,
            arch=row.arch,
            assembler=row.assembler,
            **arguments(inputs),
        )
        for engine in ENGINES.values()
    ]
    np.testing.assert_array_equal(bits(results[0]), bits(results[1]))


@each_engine
def test_batches_broadcast_and_tiles_are_independent(engine: str) -> None:
    name = "mma.m16n8k16.f32.bf16.bf16"
    inputs = generate(parse_instruction(name), 6, np.random.default_rng(3), rows=2, columns=3)
    a, b, c = inputs.a.reshape(2, 3, 2, 16), inputs.b[:3].reshape(1, 3, 3, 16), inputs.c[:2].reshape(2, 1, 2, 3)
    d = ENGINES[engine](name, a, b, c)
    assert d.shape == (2, 3, 2, 3)
    for i, j in np.ndindex(2, 3):
        alone = ENGINES[engine](name, a[i, j], b[0, j], c[i, 0])
        np.testing.assert_array_equal(bits(d[i, j]), bits(alone))


@each_engine
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_an_empty_batch_is_an_empty_result(engine: str, shape: tuple[int, ...]) -> None:
    a, b, c = np.zeros((*shape, 16, 32), np.uint8), np.zeros((8, 32), np.uint8), np.zeros((*shape, 16, 8), np.float32)
    assert ENGINES[engine]("mma.m16n8k32.f32.e4m3.e4m3", a, b, c).shape == (*shape, 16, 8)


def test_inputs_are_not_changed_and_may_be_views() -> None:
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 256, (size, 64), np.uint8)[:, ::2] for size in (16, 8))
    c = random.normal(size=(8, 16)).astype(np.float32).T
    before = a.copy(), b.copy(), c.copy()
    d = multiply_add("wgmma.m64n8k32.f32.e5m2.e5m2", a, b, c)
    np.testing.assert_array_equal(bits(d), bits(multiply_add("wgmma.m64n8k32.f32.e5m2.e5m2", *before)))
    for now, then in zip((a, b, c), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_a_letter_decides_nothing(arch: str) -> None:
    assert describe("wgmma.m64n256k16.f32.f16.f16", arch=arch) == describe("wgmma.m64n8k16.f32.f16.f16")


def test_a_shape_shorter_than_a_group_is_one_smaller_group() -> None:
    short = describe("mma.m16n8k8.f32.f16.f16").unit
    assert isinstance(short, FusedSum)
    assert short.group == 8
    halves = describe("mma.m16n8k16.f32.e4m3.e4m3").unit
    assert isinstance(halves, LateSum)
    assert halves.unit.group == 8


def test_every_entry_has_a_source_and_a_line_in_the_table() -> None:
    assert all(entry.source for entry in ENTRIES)
    assert support_table().count("\n") == len(ENTRIES) + 1


def test_no_instruction_has_two_units() -> None:
    for entry in ENTRIES:
        for arch in entry.architectures:
            others = [other for other in ENTRIES if other is not entry and arch in other.architectures]
            for instruction in entry.instructions():
                clashes = [other for other in others if other.has(instruction)]
                assert all({*other.assemblers}.isdisjoint(entry.assemblers) for other in clashes if other.assemblers)
                assert all(other.assemblers for other in clashes), (arch, instruction.name)
