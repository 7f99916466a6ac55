"""`wgmma` on the CPU device: descriptors, swizzles, both operand sources and all immediates, and every wrong use."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.fragments import find_fragments
from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_tile import read_tile
from tileproof.oracle.matrix_unit import multiply_add
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES, OPERAND_TYPES
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind, Report

Array = NDArray[Any]

with np.load(Path(__file__).parents[1] / "golden" / "h200_fragments.npz") as file:
    GOLDEN: dict[str, Array] = dict(file)
TILES: list[dict[str, Any]] = json.loads(GOLDEN["tiles"].tobytes())
IMAGE_BYTES = 65536
#: Where the image lies in shared memory: the first multiple of 1,024.
BASE = 1024
PLAIN = MatrixDescriptor(start=128, leading_bytes=128, stride_bytes=256)


def listed(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{index}" for index in range(count)) + "}"


def kernel(
    types: str,
    n: int,
    k: int,
    immediates: str = ", 1, 1",
    *,
    in_registers: bool = False,
    scale: str = "%p0",
    before: str = "",
    copy: str = "bar.sync 0;",
    image_bytes: int = IMAGE_BYTES,
) -> str:
    """A warpgroup a block: image into shared memory, A registers, descriptors of the block and C in, D out.

    `before` runs before the `wgmma`, `copy` after the copy of the image; %t is the thread, %da and %db are descriptors.
    """
    accumulator = types.split(".")[0]
    count = n // (4 if accumulator == "f16" else 2)
    a = listed("a", 4) if in_registers else "%da"
    loads = "\n".join(f"ld.global.u32 %c{index}, [%d3+{512 * index}];" for index in range(count))
    stores = "\n".join(f"st.global.u32 [%d4+{512 * index}], %c{index};" for index in range(count))
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry k(.param .u64 image, .param .u64 words, .param .u64 descriptors, .param .u64 c, .param .u64 d)
{{
    .reg .pred %p<4>;
    .reg .b32 %t, %s, %i, %u, %block, %a<4>, %c<{count}>, %w<4>, %lane;
    .reg .b64 %d<8>, %da, %db, %x, %y;
    ld.param.u64 %d0, [image];
    ld.param.u64 %d1, [words];
    ld.param.u64 %d2, [descriptors];
    ld.param.u64 %d3, [c];
    ld.param.u64 %d4, [d];
    mov.u32 %t, %tid.x;
    mov.u32 %lane, %laneid;
    mov.u32 %block, %ctaid.x;
    setp.eq.u32 %p0, 0, 0;
    mul.wide.u32 %x, %t, 16;
    add.s64 %d0, %d0, %x;
    add.s64 %d1, %d1, %x;
    mul.wide.u32 %x, %block, 16;
    add.s64 %d2, %d2, %x;
    ld.global.v2.u64 {{%da, %db}}, [%d2];
    mul.wide.u32 %x, %t, 4;
    mul.wide.u32 %y, %block, {512 * count};
    add.s64 %x, %x, %y;
    add.s64 %d3, %d3, %x;
    add.s64 %d4, %d4, %x;
    ld.global.v4.u32 {listed("a", 4)}, [%d1];
    {loads}
    mov.u32 %s, memory;
    mad.lo.u32 %s, %t, 16, %s;
    mov.u32 %i, 0;
COPY:
    ld.global.v4.u32 {listed("w", 4)}, [%d0];
    st.shared.v4.u32 [%s], {listed("w", 4)};
    add.s64 %d0, %d0, 2048;
    add.u32 %s, %s, 2048;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p1, %i, {image_bytes // 2048};
    @%p1 bra COPY;
    {copy}
    {before}
    fence.proxy.async.shared::cta;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {listed("c", count)}, {a}, %db, {scale}{immediates};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    {stores}
}}
"""


def placed(descriptor: MatrixDescriptor) -> int:
    """The bits of a descriptor relative to the image."""
    return descriptor.encode() + BASE // 16


def launch(
    text: str, image: Array, descriptors: Array, words: Array, c: Array, *, threads: int = 128, **device: Any
) -> tuple[Report, Array]:
    """c [blocks, 128, registers] words; the report and d alike."""
    machine = Device(**device)
    given = np.ascontiguousarray(c.swapaxes(1, 2))
    out = machine.upload(np.zeros_like(given))
    args = (*(machine.upload(np.ascontiguousarray(x)) for x in (image, words, descriptors, given)), out)
    (tiles,) = re.findall(r"setp.lt.u32 %p1, %i, (\d+);", text)
    report = machine.load_ptx(text)["k"].launch(
        grid=(len(c), 1, 1), block=(threads, 1, 1), args=args, shared_bytes=int(tiles) * 2048
    )
    return report, out.download().swapaxes(1, 2)


def only(findings: list[Finding], kind: FindingKind, words: str) -> Finding:
    """The one finding, of the kind and with the words that were expected."""
    assert [finding.kind for finding in findings] == [kind], findings
    assert re.search(words, findings[0].message), findings[0].message
    return findings[0]


NO_A = np.zeros((128, 4), np.uint32)
RECORDED_FORMS = {
    **{f"f16_ss_{a}{b}": ("f32.f16.f16", 16, f", 1, 1, {a}, {b}") for a in (0, 1) for b in (0, 1)},
    "tf32_ss": ("f32.tf32.tf32", 8, ", 1, 1"),
    "s8_ss": ("s32.s8.s8", 32, ""),
}


def side(case: dict[str, Any], name: str) -> int:
    fields = {"start": "start", "leading_bytes": "leading", "stride_bytes": "stride", "span_bytes": "span"}
    fields["base_offset"] = "base"
    return placed(MatrixDescriptor(**{field: case[f"{key}_{name}"] for field, key in fields.items()}))


#: In machine code where order is not checked.
with_and_without_order = pytest.mark.parametrize("order", [True, False])


@with_and_without_order
@pytest.mark.parametrize("name", RECORDED_FORMS)
def test_every_recorded_pair_of_descriptors_gives_the_recorded_sums(name: str, order: bool) -> None:
    types, k, immediates = RECORDED_FORMS[name]
    chosen = [number for number, case in enumerate(TILES) if case["kernel"] == name]
    descriptors = np.array([[side(TILES[number], x) for x in "ab"] for number in chosen], np.uint64)
    image = GOLDEN[f"image.{types.split('.')[1]}"]
    c = np.full((len(chosen), 128, 8), 0x7FFF_FFFF, np.uint32)  # not read
    report, d = launch(kernel(types, 16, k, immediates, scale="0"), image, descriptors, NO_A, c, order=order)
    assert report.findings == []
    values = d.copy().view(np.int32 if types.startswith("s32") else np.float32)
    assert np.array_equal(values.astype(np.int32), GOLDEN["tiles.d"][chosen])
    assert len(chosen) == 20


IN_REGISTERS = {
    "f16_rs": ("f32.f16.f16", 40, 16, ", 1, 1, 0"),
    "f16_rs_f16": ("f16.f16.f16", 24, 16, ", 1, 1, 0"),
    "tf32_rs": ("f32.tf32.tf32", 16, 8, ", 1, 1"),
    "s8_rs": ("s32.s8.s8", 256, 32, ""),
    "e4m3_rs": ("f32.e4m3.e4m3", 96, 32, ", 1, 1"),
}


@with_and_without_order
@pytest.mark.parametrize("name", IN_REGISTERS)
@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), ("adversarial", 1)])
def test_a_in_registers_gives_the_recorded_sums(name: str, schedule: str, seed: int, order: bool) -> None:
    types, n, k, immediates = IN_REGISTERS[name]
    image, expected = GOLDEN[f"image.{types.split('.')[1]}"], GOLDEN[f"{name}.d"]
    text = kernel(types, n, k, immediates, in_registers=True, scale="0", image_bytes=32768)
    descriptors = np.array([[0, placed(PLAIN)]], np.uint64)
    c = np.zeros((1, *expected.shape), np.uint32)
    report, d = launch(text, image, descriptors, GOLDEN[f"{name}.a"], c, schedule=schedule, seed=seed, order=order)
    assert report.findings == []
    assert np.array_equal(d[0], expected)


@with_and_without_order
def test_256_columns_of_an_n_major_tile_give_the_recorded_sums(order: bool) -> None:
    b = MatrixDescriptor(start=0, leading_bytes=1024, stride_bytes=4096, span_bytes=128)
    descriptors = np.array([[placed(PLAIN), placed(b)]], np.uint64)
    text = kernel("f32.f16.f16", 256, 16, ", 1, 1, 0, 1", scale="0")
    report, d = launch(text, GOLDEN["image.f16"], descriptors, NO_A, np.zeros((1, 128, 128), np.uint32), order=order)
    assert report.findings == []
    assert np.array_equal(d[0], GOLDEN["f16_ss_256.d"])


B = MatrixDescriptor(start=4096, leading_bytes=128, stride_bytes=256)
PAIR = np.array([[placed(PLAIN), placed(B)]], np.uint64)
SMALL_IMAGE = np.random.default_rng(5).integers(0, 1 << 32, 8192 // 4, np.uint32)
#: Finite float16 of every sign and many exponents.
HALVES = np.random.default_rng(6).normal(0, 8, 8192 // 2).astype(np.float16).view(np.uint32)
C = np.random.default_rng(7).normal(0, 50, (1, 128, 4)).astype(np.float32).view(np.uint32)


def expected(name: str, image: Array, signs: tuple[int, int] = (1, 1), c: Array = C) -> Array:
    """D's registers [1, 128, registers] by the oracle, of the tiles that PAIR names; signs turn codes of floats."""
    instruction, fragments = name, find_fragments(name).c
    operand = OPERAND_TYPES[name.split(".")[-1]]
    width = 8 * operand.code_dtype.itemsize
    a, b = (
        read_tile(image.view(np.uint8), descriptor, rows=rows, bits=width) ^ (0 if sign > 0 else 1 << (width - 1))
        for descriptor, rows, sign in zip((PLAIN, B), (64, 8), signs, strict=True)
    )
    dtype = ACCUMULATOR_DTYPES[name.split(".")[-3]]
    a, b = (np.asarray(x).astype(f"u{width // 8}").view(operand.code_dtype) for x in (a, b))
    values = multiply_add(instruction, a, b, fragments.scatter(c, dtype), arch="sm_90a", assembler="13.0")
    return fragments.gather(values)


@with_and_without_order
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_immediate_scales_turn_the_sign_of_an_operand(signs: tuple[int, int], order: bool) -> None:
    text = kernel("f32.f16.f16", 8, 16, f", {signs[0]}, {signs[1]}, 0, 0", image_bytes=8192)
    report, d = launch(text, HALVES, PAIR, NO_A, C, order=order)
    assert report.findings == []
    assert np.array_equal(d, expected("wgmma.m64n8k16.f32.f16.f16", HALVES, signs))


@with_and_without_order
@pytest.mark.parametrize(("scale", "adds"), [("%p0", True), ("!%p0", False), ("0", False), ("1", True)])
def test_scale_d_says_whether_c_counts(scale: str, adds: bool, order: bool) -> None:
    text = kernel("f32.e4m3.e4m3", 8, 32, scale=scale, image_bytes=8192)
    report, d = launch(text, SMALL_IMAGE & 0x7777_7777, PAIR, NO_A, C, order=order)
    assert report.findings == []
    c = C if adds else np.zeros_like(C)
    assert np.array_equal(d, expected("wgmma.m64n8k32.f32.e4m3.e4m3", SMALL_IMAGE & 0x7777_7777, c=c))


@with_and_without_order
def test_integers_are_clamped_where_they_shall_be(order: bool) -> None:
    c = np.full((1, 128, 4), np.iinfo(np.int32).max - 5, np.uint32)
    for flag in ("", "satfinite."):
        text = kernel("s32.s8.s8", 8, 32, "", image_bytes=8192).replace("k32.s32", f"k32.{flag}s32")
        report, d = launch(text, SMALL_IMAGE, PAIR, NO_A, c, order=order)
        assert report.findings == []
        assert np.array_equal(d, expected(f"wgmma.m64n8k32.{flag}s32.s8.s8", SMALL_IMAGE, c=c))


def small(image: Array = SMALL_IMAGE, descriptors: Array = PAIR, **options: Any) -> Report:
    """The report of one e4m3 product."""
    device = {name: options.pop(name) for name in ("threads", "schedule", "seed") if name in options}
    text = kernel("f32.e4m3.e4m3", 8, 32, image_bytes=8192, **options)
    return launch(text, image & 0x7777_7777, descriptors, NO_A, C, **device)[0]


SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(4)]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
LATE_WARP = """setp.ge.u32 %p2, %t, 96; @%p2 bra OTHER; add.u32 %u, %t, 1; bra MEET;
    OTHER: add.u32 %u, %t, 2; add.u32 %u, %u, %u; add.u32 %u, %u, %u; MEET:"""


@on_all_schedules
def test_warps_that_come_one_after_the_other_meet(schedule: str, seed: int) -> None:
    assert small(before=LATE_WARP, schedule=schedule, seed=seed).findings == []


@on_all_schedules
def test_a_warp_that_has_exited_is_found(schedule: str, seed: int) -> None:
    report = small(before="setp.ge.u32 %p2, %t, 96; @%p2 exit;", schedule=schedule, seed=seed)
    finding = only(report.findings, FindingKind.DIVERGENCE, "wgmma.*without all threads of the warpgroup")
    assert finding.count == 96


@on_all_schedules
def test_a_warp_that_goes_another_way_is_found(schedule: str, seed: int) -> None:
    before = "setp.ge.u32 %p2, %t, 96; @!%p2 bra ON; bar.sync 0; ON:"
    report = small(before=before, schedule=schedule, seed=seed)
    only(report.findings, FindingKind.DIVERGENCE, "wgmma.mma_async.*threads of its warpgroup that never come")


def test_three_warps_are_no_warpgroup() -> None:
    report = small(threads=96)
    only(report.findings, FindingKind.DIVERGENCE, "wgmma.*without all threads of the warpgroup.*or do not exist")


def test_a_descriptor_that_leaves_shared_memory_is_found() -> None:
    far = np.array([[placed(PLAIN), placed(MatrixDescriptor(start=8192, leading_bytes=128, stride_bytes=256))]])
    report = small(descriptors=far.astype(np.uint64))
    only(report.findings, FindingKind.OUT_OF_BOUNDS, r"wgmma\S* reads shared memory outside the 8192 bytes")


def test_a_descriptor_that_differs_in_one_thread_is_found() -> None:
    report = small(before="setp.eq.u32 %p2, %t, 77; @%p2 add.u64 %db, %db, 1;")
    finding = only(report.findings, FindingKind.DIVERGENCE, "matrix descriptor.*differs")
    assert [thread.thread[0] for thread in finding.threads] == [77]


def test_a_descriptor_that_nothing_wrote_is_found() -> None:
    text = kernel("f32.e4m3.e4m3", 8, 32, image_bytes=8192).replace("%db, %p0", "%d7, %p0")
    report, _ = launch(text, SMALL_IMAGE & 0x7777_7777, PAIR, NO_A, C)
    kinds = {finding.kind for finding in report.findings}
    assert kinds == {FindingKind.UNINITIALISED, FindingKind.OUT_OF_BOUNDS}  # 0 is before the kernel's shared memory


def test_a_descriptor_with_reserved_bits_is_refused() -> None:
    wrong = PAIR | np.uint64(1 << 14)
    with pytest.raises(NotModelled, match=r"wgmma\S* at PTX line \d+: descriptor .* reserved"):
        small(descriptors=wrong)


@on_all_schedules
def test_an_operand_written_without_a_barrier_races(schedule: str, seed: int) -> None:
    report = small(copy="", schedule=schedule, seed=seed)
    only(report.findings, FindingKind.RACE, r"wgmma\S* reads shared memory that another thread wrote")


def test_an_operand_may_be_overwritten_after_the_wait_of_one_warp() -> None:
    """The warpgroup reads as one agent; what is written before the wait is not found yet."""
    text = kernel("f32.e4m3.e4m3", 8, 32, image_bytes=8192)
    overwrite = "mov.u32 %s, memory; mad.lo.u32 %s, %t, 16, %s; st.shared.u32 [%s], %t;"
    after = text.replace("wait_group.sync.aligned 0;", f"wait_group.sync.aligned 0; {overwrite}")
    assert launch(after, SMALL_IMAGE & 0x7777_7777, PAIR, NO_A, C)[0].findings == []


def test_an_operand_that_nothing_wrote_taints_its_row_and_its_column() -> None:
    text = kernel("f32.e4m3.e4m3", 8, 32, image_bytes=8192)
    skip = "setp.ne.u32 %p2, %t, 9; @%p2 st.shared"
    report, _ = launch(text.replace("st.shared", skip, 1), SMALL_IMAGE & 0x7777_7777, PAIR, NO_A, C)
    # Bytes 144 to 159 are row 1 of A, 4240 to 4255 row 1 of B. Row 1 of D is registers 0 and 1 of lanes 4 to 7,
    # column 1 registers 1 and 3 of every fourth lane.
    assert {finding.kind for finding in report.findings} == {FindingKind.UNINITIALISED}
    assert [finding.count for finding in report.findings] == [4, 35, 32]
    assert [thread.thread[0] for thread in report.findings[0].threads] == [4, 5, 6, 7]
    assert [thread.thread[0] for thread in report.findings[2].threads] == list(range(0, 32, 4))


def test_an_accumulator_that_nothing_wrote_counts_only_where_it_is_added() -> None:
    text = kernel("f32.e4m3.e4m3", 8, 32, image_bytes=8192)
    undefined = text.replace("ld.global.u32 %c2", "@!%p0 ld.global.u32 %c2")
    report, _ = launch(undefined, SMALL_IMAGE & 0x7777_7777, PAIR, NO_A, C)
    only(report.findings, FindingKind.UNINITIALISED, "into global memory")
    report, _ = launch(undefined.replace("%db, %p0", "%db, 0"), SMALL_IMAGE & 0x7777_7777, PAIR, NO_A, C)
    assert report.findings == []


def test_an_architecture_without_wgmma_refuses_it() -> None:
    text = kernel("f32.e4m3.e4m3", 8, 32).replace("sm_90a", "sm_90")
    with pytest.raises(Refusal, match=r"wgmma\.fence\S* at PTX line \d+ needs sm_90a .* the module is for sm_90\n"):
        Device("sm_90").load_ptx(text)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("mma_async.sync", "mma_async.sp.sync"),
        (", 1, 1;", ", 2, 1;"),
        (", 1, 1;", ", 1, 1, 0;"),
        ("m64n8k32.f32", "m64n12k32.f32"),
        (".f32.e4m3.e4m3", ".f32.e4m3.f16"),
        ("{%c0, %c1, %c2, %c3}, %da", "{%c0, %c1, %c2}, %da"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned"),
    ],
)
def test_other_forms_of_wgmma_are_refused_by_name(right: str, wrong: str) -> None:
    text = kernel("f32.e4m3.e4m3", 8, 32)
    assert right in text
    with pytest.raises(NotModelled, match=r"wgmma\.\S* at PTX line"):
        Device().load_ptx(text.replace(right, wrong))
