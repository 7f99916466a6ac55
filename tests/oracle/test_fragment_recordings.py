"""Fragments, transfers and descriptors reproduce what an H200 did with random registers and random shared memory."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.maps.fragment_map import COLUMN, ROW, FragmentMap
from tileproof.oracle.maps.ldmatrix import ldmatrix, load_rows, movmatrix, stmatrix, store_rows
from tileproof.oracle.maps.mma_fragments import mma_a, mma_b, mma_c
from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_fragments import wgmma_a, wgmma_d
from tileproof.oracle.maps.wgmma_tile import Major, read_tile

Values = npt.NDArray[np.float64]
Codes = npt.NDArray[Any]

with np.load(Path(__file__).parents[1] / "golden" / "h200_fragments.npz") as recorded:
    GOLDEN: dict[str, Codes] = dict(recorded)
TILES: list[dict[str, Any]] = json.loads(GOLDEN["tiles"].tobytes())
MMA = [name[4:-3] for name in GOLDEN if name.startswith("mma.") and name.endswith(".in")]

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "s8": 8, "s4": 4, "b1": 1}
DECODE: dict[str, Callable[[Codes], Values]] = {
    "f16": lambda codes: codes.view(np.float16).astype(np.float64),
    "bf16": lambda codes: (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64),
    "tf32": lambda codes: codes.view(np.float32).astype(np.float64),
    "e4m3": E4M3FN.decode,
    "s8": lambda codes: codes.view(np.int8).astype(np.float64),
    "s4": lambda codes: ((codes ^ 8).astype(np.int64) - 8).astype(np.float64),
    "b1": lambda codes: codes.astype(np.float64),
}
ACCUMULATORS = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


def mma_maps(name: str) -> tuple[FragmentMap, FragmentMap, FragmentMap]:
    shape, *_, accumulator, kind = name.split(".")[:5]
    m, _, k = map(int, re.findall(r"\d+", shape))
    bits = BITS[kind]
    return mma_a(m, k, bits), mma_b(m, k, bits), mma_c(m, k, 16 if accumulator == "f16" else 32, bits)


def mma_explained(name: str, a: FragmentMap, b: FragmentMap, c: FragmentMap) -> bool:
    """Whether the recorded D registers are the product of the recorded A and B registers."""
    *_, accumulator, kind = name.split(".")[:5]
    words = GOLDEN[f"mma.{name}.in"]
    left, right = a.scatter(words[:, : a.registers]), b.scatter(words[:, a.registers :])
    result = c.scatter(GOLDEN[f"mma.{name}.out"], ACCUMULATORS[accumulator]).astype(np.float64)
    return bool((DECODE[kind](left) @ DECODE[kind](right).T == result).all())


@pytest.mark.parametrize("name", MMA)
def test_mma_multiplies_what_the_maps_say(name: str) -> None:
    assert mma_explained(name, *mma_maps(name))


def swapped(fragment: FragmentMap) -> FragmentMap:
    return replace(fragment, register=tuple(reversed(fragment.register)))


def by_thread(fragment: FragmentMap) -> FragmentMap:
    return replace(fragment, lane=tuple(reversed(fragment.lane)))


@pytest.mark.parametrize("name", ["m16n8k32.row.col.s32.s8.s8.s32", "m16n8k16.row.col.f32.f16.f16.f32"])
def test_wrong_mma_maps_do_not_explain_the_recording(name: str) -> None:
    a, b, c = mma_maps(name)
    assert not mma_explained(name, swapped(a), b, c)
    assert not mma_explained(name, by_thread(a), by_thread(b), c)
    assert not mma_explained(name, a, by_thread(b), c)
    assert not mma_explained(name, a, b, swapped(c))
    assert not mma_explained(name, a, b, replace(c, lane=(ROW // 2, COLUMN // 2), register=(ROW % 2, COLUMN % 2)))


def test_a_consistent_renaming_of_k_is_not_seen_by_products_alone() -> None:
    """Why the maps are also held to the ISA's text and to CuTe: operands permuted alike along k multiply alike."""
    name = "m16n8k32.row.col.s32.s8.s8.s32"
    a, b, c = mma_maps(name)
    other_a = replace(a, lane=(ROW % 8, COLUMN // 8), register=(COLUMN // 4 % 2, ROW // 8))
    other_b = replace(b, lane=(ROW, COLUMN // 8), register=(COLUMN // 4 % 2,))
    assert mma_explained(name, other_a, other_b, c)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_loads_what_the_map_says(count: int, transposed: bool) -> None:
    name, transfer = f"ldmatrix.m8n8.x{count}{'.trans' if transposed else ''}", ldmatrix(count, transposed=transposed)
    rows = GOLDEN[f"{name}.image"].view(np.uint8).reshape(32, 16)[GOLDEN[f"{name}.rows"]][: transfer.rows]
    assert (load_rows(transfer, rows) == GOLDEN[f"{name}.after"]).all()
    wrong = ldmatrix(count, transposed=not transposed)
    assert (load_rows(wrong, rows) != GOLDEN[f"{name}.after"]).any()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_stores_what_the_map_says(count: int, transposed: bool) -> None:
    name, transfer = f"stmatrix.m8n8.x{count}{'.trans' if transposed else ''}", stmatrix(count, transposed=transposed)
    memory = GOLDEN[f"{name}.image"].view(np.uint8).reshape(32, 16).copy()
    memory[GOLDEN[f"{name}.rows"][: transfer.rows]] = store_rows(transfer, GOLDEN[f"{name}.before"])
    assert (memory.reshape(-1) == GOLDEN[f"{name}.memory"].view(np.uint8)).all()


def test_movmatrix_transposes_as_recorded() -> None:
    assert (movmatrix(GOLDEN["movmatrix.before"]) == GOLDEN["movmatrix.after"]).all()


#: A in registers: name to N, K, accumulator, operand type.
IN_REGISTERS = {
    "f16_rs": (40, 16, "f32", "f16"),
    "f16_rs_f16": (24, 16, "f16", "f16"),
    "tf32_rs": (16, 8, "f32", "tf32"),
    "s8_rs": (256, 32, "s32", "s8"),
    "e4m3_rs": (96, 32, "f32", "e4m3"),
}


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_wgmma_multiplies_registers_by_shared_memory_as_the_maps_say(name: str) -> None:
    n, k, accumulator, kind = IN_REGISTERS[name]
    memory, plain = (
        GOLDEN[f"image.{kind}"].view(np.uint8),
        MatrixDescriptor(start=128, leading_bytes=128, stride_bytes=256),
    )
    a, d = wgmma_a(BITS[kind]), wgmma_d(n, k, 16 if accumulator == "f16" else 32)
    left = DECODE[kind](a.scatter(GOLDEN[f"{name}.a"]))
    right = DECODE[kind](read_tile(memory, plain, rows=n, bits=BITS[kind]))
    result = d.scatter(GOLDEN[f"{name}.d"], ACCUMULATORS[accumulator])
    assert (left @ right.T == result).all()


def test_wgmma_multiplies_256_columns_of_an_n_major_tile() -> None:
    memory = GOLDEN["image.f16"].view(np.uint8)
    a = MatrixDescriptor(start=128, leading_bytes=128, stride_bytes=256)
    b = MatrixDescriptor(start=0, leading_bytes=1024, stride_bytes=4096, span_bytes=128)
    left = DECODE["f16"](read_tile(memory, a, rows=64, bits=16))
    right = DECODE["f16"](read_tile(memory, b, rows=256, bits=16, major=Major.MN))
    assert (left @ right.T == wgmma_d(256, 16, 32).scatter(GOLDEN["f16_ss_256.d"], np.float32)).all()


Reading = Callable[[MatrixDescriptor], MatrixDescriptor]


def side(case: dict[str, Any], name: str) -> MatrixDescriptor:
    """One descriptor of a recorded pair; without swizzle no base offset was recorded."""
    return MatrixDescriptor(
        start=case[f"start_{name}"],
        leading_bytes=case[f"leading_{name}"],
        stride_bytes=case[f"stride_{name}"],
        span_bytes=case[f"span_{name}"],
        base_offset=case[f"base_{name}"],
    )


def explained(number: int, reading: Reading = lambda descriptor: descriptor) -> bool:
    """Whether a recorded pair of descriptors multiplied the tiles that the model reads."""
    case = TILES[number]
    kind = case["kernel"].split("_")[0]
    majors = [Major.MN if bit == "1" else Major.K for bit in case["kernel"][-2:]] if kind == "f16" else [Major.K] * 2
    memory = GOLDEN[f"image.{kind}"].view(np.uint8)
    left, right = (
        DECODE[kind](read_tile(memory, reading(side(case, name)), rows=rows, bits=BITS[kind], major=major))
        for name, rows, major in (("a", 64, majors[0]), ("b", 16, majors[1]))
    )
    accumulators = wgmma_d(16, 256 // BITS[kind], 32).scatter(GOLDEN["tiles.d"][number].view(np.uint32), np.int32)
    return bool((left @ right.T == accumulators).all())


def test_every_recorded_pair_of_descriptors_is_explained() -> None:
    assert len(TILES) == 120
    assert [number for number in range(len(TILES)) if not explained(number)] == []


def swap_strides(descriptor: MatrixDescriptor) -> MatrixDescriptor:
    return replace(descriptor, leading_bytes=descriptor.stride_bytes, stride_bytes=descriptor.leading_bytes)


def ignore_base_offset(descriptor: MatrixDescriptor) -> MatrixDescriptor:
    return replace(descriptor, base_offset=0)


def swap_span_codes(descriptor: MatrixDescriptor) -> MatrixDescriptor:
    return replace(descriptor, span_bytes={0: 0, 32: 128, 64: 64, 128: 32}[descriptor.span_bytes])


def ignore_swizzle(descriptor: MatrixDescriptor) -> MatrixDescriptor:
    return replace(descriptor, span_bytes=0, base_offset=0)


def swizzle_from_the_start(descriptor: MatrixDescriptor) -> MatrixDescriptor:
    """A pattern relative to the tile: what a base offset of the start's own line would do."""
    line = descriptor.start // 128 % 8
    return replace(descriptor, base_offset=line) if descriptor.span_bytes else descriptor


def shifted_start(descriptor: MatrixDescriptor) -> MatrixDescriptor:
    """The start encoded with a shift of 3 instead of 4."""
    return replace(descriptor, start=descriptor.start * 2 % 16384)


#: Wrong readings, and how many of the 120 pairs each leaves unexplained.
READINGS: dict[Reading, int] = {
    swap_strides: 120,
    ignore_base_offset: 31,
    swap_span_codes: 60,
    ignore_swizzle: 90,
    swizzle_from_the_start: 32,
    shifted_start: 119,
}


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.__name__)
def test_wrong_readings_of_a_descriptor_do_not_explain_the_recording(reading: Reading) -> None:
    assert sum(not explained(number, reading) for number in range(len(TILES))) == READINGS[reading]
