"""Wide and narrow forms of loads, stores and atomics, and what concerns caches: values, alignment, refusals."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

ONE, TWO, TINY = 0x3F800000, 0x40000000, 0x00000001


def launch(body: str, words: list[int], target: str = "sm_90a", threads: int = 1) -> tuple[Report, list[int]]:
    """%d0 points to the words, %r0 is the thread, %r9 the address of 64 shared bytes; the words afterwards."""
    text = f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data)
{{
    .shared .align 16 .b8 s[64];
    .reg .pred %p<4>; .reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<10>; .reg .f64 %e<4>;
    .reg .b128 %q<4>;
    ld.param.u64 %d0, [data]; mov.u32 %r0, %tid.x; mov.u32 %r9, s;
    {body}
}}
"""
    device = Device(arch=target)
    data: NDArray[np.uint32] = np.array(words, np.uint32)
    buffer = device.upload(data)
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=(buffer,))
    return report, [int(word) for word in buffer.download()]


def after(body: str, words: list[int], target: str = "sm_90a", threads: int = 1) -> list[int]:
    report, result = launch(body, words, target, threads)
    assert report.findings == []
    return result


def kinds(body: str, words: list[int], target: str = "sm_90a") -> list[FindingKind]:
    return [found.kind for found in launch(body, words, target)[0].findings]


# 128-bit registers.


def test_128_bits_are_loaded_moved_and_stored() -> None:
    body = """ld.global.b128 %q0, [%d0]; mov.b128 %q1, %q0; mov.b128 {%d1, %d2}, %q1; mov.b128 %q2, {%d2, %d1};
        st.shared.b128 [%r9], %q2; ld.shared.b128 %q3, [%r9]; st.global.b128 [%d0+16], %q3;"""
    assert after(body, [1, 2, 3, 4, 0, 0, 0, 0]) == [1, 2, 3, 4, 3, 4, 1, 2]


def test_128_bits_are_aligned_and_carry_their_undefined_bits() -> None:
    assert kinds("ld.global.b128 %q0, [%d0+8];", [0] * 8) == [FindingKind.MISALIGNED]
    body = "mov.u64 %d1, 1; mov.b128 %q0, {%d1, %d2}; mov.b128 {%d3, %d4}, %q0; st.global.u64 [%d0], "
    assert kinds(body + "%d3;", [0] * 4) == []
    assert kinds(body + "%d4;", [0] * 4) == [FindingKind.UNINITIALISED]


def test_128_bits_are_exchanged_and_swapped_as_one() -> None:
    body = """mov.u64 %d1, 7; mov.u64 %d2, 8; mov.b128 %q0, {%d1, %d2}; atom.global.exch.b128 %q1, [%d0], %q0;
        st.global.b128 [%d0+16], %q1; atom.global.cas.b128 %q2, [%d0], %q0, %q1;
        mov.b128 %q3, {%d2, %d1}; atom.global.cas.b128 %q2, [%d0], %q3, %q0;"""
    assert after(body, [1, 2, 3, 4, 0, 0, 0, 0]) == [1, 2, 3, 4, 1, 2, 3, 4]
    half = "mov.u64 %d1, 1; mov.u64 %d2, 9; mov.b128 %q0, {%d1, %d2}; atom.global.cas.b128 %q1, [%d0], %q0, %q0;"
    assert after(half, [1, 0, 3, 0]) == [1, 0, 3, 0]


# Vectors of 256 bits.

WIDE = """ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d0];
    st.global.v4.b64 [%d0+32], {%d1, %d2, %d3, %d4};"""


def test_256_bits_go_to_global_memory_on_blackwell_only() -> None:
    body = """ld.global.v4.b64 {%d1, %d2, %d3, %d4}, [%d0];
        st.global.L2::evict_last.v8.b32 [%d0+32], {1, 2, 3, 4, 5, 6, 7, 8}; st.v4.b64 [%d0+64], {%d4, %d3, %d2, %d1};"""
    words = [*range(10, 18), *[0] * 16]
    expected = [*range(10, 18), *range(1, 9), 16, 17, 14, 15, 12, 13, 10, 11]
    assert after(body, words, "sm_100a") == expected
    assert kinds("ld.global.v8.b32 {_, _, _, _, _, _, _, _}, [%d0+16];", words, "sm_100") == [FindingKind.MISALIGNED]
    with pytest.raises(NotModelled, match="sm_90a does not have it"):
        launch(body, words)
    with pytest.raises(NotModelled, match=r"32 bytes of \.shared"):
        launch("ld.shared.v8.b32 {_, _, _, _, _, _, _, _}, [%r9];", words, "sm_100a")


# Atomics of every type.

ATOMICS = {
    "f64": ("mov.b64 %d1, 0x3FF0000000000000; atom.global.add.f64 %d2, [%d0], %d1;", [0, 0x40000000], [0, 0x40080000]),
    "f64 on global memory passes a NaN as it is": (
        "mov.b64 %d1, 0x7FF0000000000001; red.global.add.f64 [%d0], %d1;",
        [0, 0x3FF00000],
        [1, 0x7FF00000],
    ),
    "f64 on shared memory makes a NaN quiet, the cell's first": (
        "mov.b64 %d1, 0x7FF0000000000001; mov.b64 %d2, 0xFFF0000000000002; st.shared.b64 [%r9], %d2;"
        "red.shared.add.f64 [%r9], %d1; ld.shared.b64 %d3, [%r9]; st.global.b64 [%d0], %d3;",
        [0, 0],
        [2, 0xFFF80000],
    ),
    "f16": ("mov.b16 %h1, 0x3C00; atom.global.add.noftz.f16 %h2, [%d0], %h1;", [0x12343C00], [0x12344000]),
    "bf16": ("mov.b16 %h1, 0x3F80; red.global.add.noftz.bf16 [%d0+2], %h1;", [0x3F801234], [0x40001234]),
    "f16x2": ("red.global.add.noftz.f16x2 [%d0], 0x3C000001;", [0x3C000001], [0x40000002]),
    "bf16x2": ("red.global.add.noftz.bf16x2 [%d0], 0x3F800001;", [0x3F800001], [0x40000002]),
    "cas.b16": ("mov.b16 %h1, 5; mov.b16 %h2, 6; atom.global.cas.b16 %h3, [%d0+2], %h1, %h2;", [0x50009], [0x60009]),
    "f32 on global memory flushes": ("red.global.add.f32 [%d0], 0f00000001;", [0x00800000], [0x00800000]),
    "f32 on a generic address flushes": ("red.add.f32 [%d0], 0f00000001;", [0x00800000], [0x00800000]),
    "f32 on shared memory does not flush": (
        "st.shared.u32 [%r9], 0x00800000; red.shared.add.f32 [%r9], 0f00000001; ld.shared.u32 %r1, [%r9];"
        "st.global.u32 [%d0], %r1;",
        [0],
        [0x00800001],
    ),
    "f32 on a generic address of shared memory does not flush": (
        "st.shared.u32 [%r9], 0x00800000; cvt.u64.u32 %d1, %r9; cvta.shared.u64 %d1, %d1;"
        "atom.add.f32 %f1, [%d1], 0f00000001; ld.shared.u32 %r1, [%r9]; st.global.u32 [%d0], %r1;",
        [0],
        [0x00800001],
    ),
    "vector of f32": (
        "atom.global.add.v4.f32 {%f1, %f2, %f3, _}, [%d0], {0f3F800000, 0f40000000, 0f3F800000, 0f40000000};"
        "st.global.f32 [%d0+16], %f2;",
        [ONE, TWO, 0, 0, 0],
        [TWO, 0x40800000, ONE, TWO, TWO],
    ),
    "vector with the operation last": ("red.global.v2.f32.add [%d0], {0f3F800000, 0f40000000};", [ONE, 0], [TWO, TWO]),
    "vector of bf16, maximum": (
        "mov.b16 %h1, 0x4000; mov.b16 %h2, 0x3F80; red.global.max.noftz.v2.bf16 [%d0], {%h1, %h2};",
        [0x40003F80],
        [0x40004000],
    ),
    "vector of f16x2, minimum": (
        "red.relaxed.gpu.global.min.noftz.v2.f16x2 [%d0], {0x3C004000, 0x40003C00};",
        [0x3C003C00, 0x3C003C00],
        [0x3C003C00, 0x3C003C00],
    ),
}


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_of_every_type_combine_and_round(name: str) -> None:
    body, words, expected = ATOMICS[name]
    padded = words + [0] * (8 - len(words))
    assert after(body, padded)[: len(expected)] == expected


def test_lanes_take_turns_at_every_element_of_a_vector() -> None:
    body = "red.global.add.v2.f32 [%d0], {0f3F800000, 0f40000000};"
    assert after(body, [0, 0, 0, 0], threads=96) == [0x42C00000, 0x43400000, 0, 0]


def test_crowded_bf16_sums_round_after_every_turn() -> None:
    """256 + 1 ties to 256 in bf16: 96 turns change nothing, though the sum of the lanes would."""
    body = "mov.b16 %h1, 0x3F80; red.global.add.noftz.bf16 [%d0], %h1;"
    assert after(body, [0x4380, 0, 0, 0], threads=96)[0] == 0x4380


def test_vector_atomics_are_aligned_as_a_whole() -> None:
    assert kinds("red.global.add.v2.f32 [%d0+4], {0f0, 0f0};".replace("0f0", "0f00000000"), [0] * 8) == [
        FindingKind.MISALIGNED
    ]


@pytest.mark.parametrize("form", ["red.global.add.v2.f32 [%d0], {%f1, %f2};", "red.global.add.noftz.bf16 [%d0], %h1;"])
def test_atomics_of_hopper_are_refused_before_it(form: str) -> None:
    with pytest.raises(NotModelled, match="sm_80 does not have it"):
        launch(form, [0] * 4, "sm_80")


# Caches, policies, hints.

HINTS = {
    "policy": """createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d1, 0.5;
        ld.global.L2::cache_hint.u32 %r1, [%d0], %d1; add.u32 %r1, %r1, 1;
        st.global.L2::cache_hint.u32 [%d0], %r1, %d1;""",
    "policy of a range": """createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d1, [%d0], 64, 128;
        atom.global.add.L2::cache_hint.u32 %r1, [%d0], 1, %d1;""",
    "converted policy": """createpolicy.cvt.L2.b64 %d1, %d0; red.global.add.L2::cache_hint.u32 [%d0], 1, %d1;""",
    "vector with a policy": """createpolicy.fractional.L2::evict_first.b64 %d1;
        ld.global.L1::no_allocate.L2::cache_hint.L2::256B.v2.u32 {%r1, %r2}, [%d0], %d1; add.u32 %r1, %r1, 1;
        st.global.L1::evict_first.L2::cache_hint.v2.u32 [%d0], {%r1, %r2}, %d1;""",
    "memory-mapped": """ld.mmio.relaxed.sys.global.u32 %r1, [%d0]; add.u32 %r1, %r1, 1;
        st.mmio.relaxed.sys.u32 [%d0], %r1;""",
    "volatile": "ld.global.volatile.u32 %r1, [%d0]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%d0], %r1;",
    "unified": "ld.global.u32 %r1, [%d0].unified; add.u32 %r1, %r1, 1; st.global.u32 [%d0].unified, %r1;",
    "uniform": "ldu.global.u32 %r1, [%d0]; add.u32 %r1, %r1, 1; st.weak.global.wt.u32 [%d0], %r1;",
    "prefetch": """prefetch.global.L2::evict_last [%d0]; prefetchu.L1 [%d0]; prefetch.L1 [%d0];
        applypriority.global.L2::evict_normal [%d0], 128; red.relaxed.sys.global.add.u32 [%d0], 1;""",
}


@pytest.mark.parametrize("name", HINTS)
def test_hints_change_no_value(name: str) -> None:
    assert after(HINTS[name], [41, 2, 3, 4]) == [42, 2, 3, 4]


def test_a_policy_must_be_there_where_the_opcode_says_so() -> None:
    with pytest.raises(NotModelled):
        launch("ld.global.L2::cache_hint.u32 %r1, [%d0], %r1;", [0] * 4)


def test_discarded_bytes_have_no_value_until_they_are_written() -> None:
    words = [7] * 64
    body = "discard.global.L2 [%d0], 128; st.global.u32 [%d0], 9; "
    assert after(body, words)[0] == 9
    assert kinds(body + "ld.global.u32 %r1, [%d0]; st.global.u32 [%d0+4], %r1;", words) == []
    assert kinds(body + "ld.global.u32 %r1, [%d0+8]; st.global.u32 [%d0+4], %r1;", words) == [FindingKind.UNINITIALISED]
    assert kinds("discard.global.L2 [%d0+64], 128;", words) == [FindingKind.MISALIGNED]
    assert kinds("discard.global.L2 [%d0+256], 128;", words) == [FindingKind.OUT_OF_BOUNDS]


REFUSED = {
    "texture": ("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [data, {%f1}];", "textures"),
    "surface": ("suld.b.1d.b32.trap {%r1}, [data, {%r1}];", "textures and surfaces"),
    "multimem": ("multimem.red.relaxed.sys.global.add.u32 [%d0], %r1;", "multicast"),
    "stack": ("stacksave.u64 %d1;", "alloca"),
    "wmma": ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%d0], 16;", "wmma"),
    "discard of a few bytes": ("discard.global.L2 [%d0], 64;", "128 bytes"),
    "128 bits in a narrow register": ("ld.global.b128 %d1, [%d0];", ".b128"),
    "a wide register as 64 bits": ("mov.b64 %d1, %q0;", "register %q0"),
    "an atomic without an operation": ("atom.global.u32 %r1, [%d0], 1;", "one operation"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_stays_outside_is_refused_with_the_reason(name: str) -> None:
    body, part = REFUSED[name]
    with pytest.raises(NotModelled) as caught:
        launch(body, [0] * 4)
    assert part in caught.value.message
    assert "PTX line" in caught.value.message
