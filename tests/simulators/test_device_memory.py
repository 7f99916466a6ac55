"""Loads and stores of the CPU device: widths, address spaces, windows, and every way to miss an allocation."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Buffer, Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(20)]]
WARP = 32


def module(body: str, declarations: str = "") -> str:
    """A kernel of three pointers, in %d0 to %d2, and a number in %d3; %r0 is the thread."""
    return f"""
.version 9.0
.target sm_90
.address_size 64
{declarations}
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n)
{{
    .reg .pred %p<8>;
    .reg .b16 %h<8>;
    .reg .b32 %r<24>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [a];
    ld.param.u64 %d1, [b];
    ld.param.u64 %d2, [c];
    ld.param.u64 %d3, [n];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d4, %r0, 4;
    add.s64 %d5, %d1, %d4;      // &b[thread], 4 bytes each
    {body}
}}
"""


def run(
    device: Device, text: str, *args: Buffer | np.generic, threads: int = WARP, blocks: int = 1, shared_bytes: int = 0
) -> list[Finding]:
    """Findings of a launch; arguments that are left out are 0."""
    padded = [*args, *[np.uint64(0)] * (4 - len(args))]
    kernel = device.load_ptx(text)["k"]
    return kernel.launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=padded, shared_bytes=shared_bytes).findings


def outcome(text: str, source: NDArray[Any], count: int = WARP, dtype: Any = np.uint32, **options: Any) -> NDArray[Any]:
    """What a silent kernel that reads `a` leaves in `b`."""
    device = Device()
    target = device.allocate((count,), dtype)
    assert run(device, text, device.upload(source), target, **options) == []
    assert target.written().all()
    return target.download()


@pytest.mark.parametrize(
    ("type_", "register", "store", "dtype"),
    [
        ("s8", "%r1", "u32", np.int8),
        ("u8", "%r1", "u32", np.uint8),
        ("b8", "%r1", "u32", np.uint8),
        ("s16", "%r1", "u32", np.int16),
        ("u16", "%r1", "u32", np.uint16),
        ("s8", "%d6", "u64", np.int8),
        ("s16", "%d6", "u64", np.int16),
        ("s32", "%d6", "u64", np.int32),
        ("u32", "%d6", "u64", np.uint32),
        ("s8", "%h1", "u16", np.int8),
    ],
)
def test_narrow_loads_extend_by_their_sign_into_wider_registers(
    type_: str, register: str, store: str, dtype: type[np.integer[Any]]
) -> None:
    wide = {"u16": np.uint16, "u32": np.uint32, "u64": np.uint64}[store]
    bits = np.arange(256) * 0x01010101 if np.dtype(dtype).itemsize == 4 else np.arange(256) * 0x101
    source = bits.astype(np.uint64).astype(dtype)
    text = module(f"""
        mul.wide.u32 %d7, %r0, {source.itemsize};
        add.s64 %d7, %d7, %d0;
        ld.global.{type_} {register}, [%d7];
        mul.wide.u32 %d8, %r0, {np.dtype(wide).itemsize};
        add.s64 %d8, %d8, %d1;
        st.global.{store} [%d8], {register};
        ret;""")
    np.testing.assert_array_equal(outcome(text, source, 256, wide, threads=256), source.astype(wide))


def test_narrow_stores_keep_the_low_bits_of_the_register() -> None:
    text = module("""
        ld.global.u32 %r1, [%d0];
        cvt.u64.u32 %d6, %r0;
        add.s64 %d7, %d1, %d6;
        st.global.u8 [%d7], %r1;
        add.s64 %d7, %d7, %d6;
        cvt.u16.u32 %h1, %r1;
        st.global.u16 [%d7+32], %h1;
        ret;""")
    result = outcome(text, np.array([0xAABBCCDD], np.uint32), 96, np.uint8)
    assert set(result[:32]) == {0xDD}
    assert set(result[32:].view(np.uint16)) == {0xCCDD}


def test_vector_accesses_move_their_elements_in_order() -> None:
    text = module("""
        mul.wide.u32 %d7, %r0, 16;
        add.s64 %d8, %d0, %d7;
        add.s64 %d9, %d1, %d7;
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d8];
        ld.global.v2.u64 {%d10, %d11}, [%d8];
        xor.b32 %r4, %r4, 255;
        st.global.v4.b32 [%d9], {%r4, %r3, %r2, %r1};
        st.global.v2.u64 [%d9+512], {%d11, %d10};
        ret;""")
    source = np.arange(128, dtype=np.uint32)
    result = outcome(text, source, 256)
    expected = source.reshape(32, 4)[:, ::-1].copy()
    expected[:, 0] ^= 255
    np.testing.assert_array_equal(result[:128].reshape(32, 4), expected)
    np.testing.assert_array_equal(result[128:].reshape(32, 4), source.reshape(32, 4)[:, [2, 3, 0, 1]])


def test_address_arithmetic_wraps_around_modulo_2_to_the_64() -> None:
    text = module("""
        mov.b64 %d7, 0xFFFFFFFFFFFFFF00;
        add.s64 %d8, %d0, %d7;               // a - 256
        add.s64 %d8, %d8, %d4;
        ld.global.u32 %r1, [%d8+256];
        st.global.u32 [%d5], %r1;
        ret;""")
    source = np.arange(32, dtype=np.uint32) * 7
    np.testing.assert_array_equal(outcome(text, source), source)


def test_offsets_beyond_32_bits_reach_far_into_a_huge_allocation() -> None:
    device = Device()
    huge = device.allocate((6 << 30,), np.uint8)  # costs nothing until it is touched
    text = module("""
        add.s64 %d7, %d0, %d3;
        add.s64 %d7, %d7, %d4;
        st.global.u32 [%d7+-128], %r0;
        ld.global.u32 %r1, [%d7+-128];
        st.global.u32 [%d5], %r1;
        ret;""")
    target = device.allocate((32,), np.uint32)
    assert run(device, text, huge, target, np.uint64(0), np.uint64(6 << 30)) == []
    assert target.download().tolist() == list(range(32))
    with pytest.raises(Refusal, match="are in use"):
        device.allocate((4 << 30,), np.uint8)
    device.free(huge)
    device.allocate((4 << 30,), np.uint8)


def test_shared_memory_local_memory_and_constants_by_generic_addresses() -> None:
    text = module(
        """
        mov.u64 %d6, s;
        cvta.shared.u64 %d6, %d6;
        add.s64 %d6, %d6, %d4;
        st.u32 [%d6], %r0;                    // s[thread] = thread
        mov.u64 %d7, depot;
        cvta.local.u64 %d7, %d7;
        st.u32 [%d7+4], %r0;                  // local
        mov.u64 %d8, table;
        cvta.const.u64 %d8, %d8;
        mov.b64 %d9, n;
        cvta.param.u64 %d9, %d9;
        ld.u32 %r1, [%d6];
        ld.u32 %r2, [%d7+4];
        ld.u32 %r3, [%d8+4];
        ld.u32 %r4, [%d9];
        ld.u32 %r5, [%d0];
        cvta.to.shared.u64 %d10, %d6;
        ld.shared.u32 %r6, [%d10];
        add.u32 %r1, %r1, %r2;
        add.u32 %r1, %r1, %r3;
        add.u32 %r1, %r1, %r4;
        add.u32 %r1, %r1, %r5;
        add.u32 %r1, %r1, %r6;
        cvta.to.global.u64 %d5, %d5;
        st.global.u32 [%d5], %r1;
        ret;""",
        ".shared .align 4 .b8 s[128];\n.const .u32 table[2] = {1000, 2000};",
    ).replace(".reg .pred", ".local .align 8 .b8 depot[8];\n    .reg .pred")
    device = Device()
    target = device.allocate((32,), np.uint32)
    source = device.upload(np.array([30_000], np.uint32))
    assert run(device, text, source, target, np.uint64(0), np.uint64(500_000)) == []
    np.testing.assert_array_equal(target.download(), np.arange(32) * 3 + 532_000)


def test_dynamic_shared_memory_follows_the_static_part_at_its_alignment() -> None:
    text = module(
        """
        mov.u32 %r1, fixed;
        mov.u32 %r2, open;
        sub.u32 %r3, %r2, %r1;
        st.global.u32 [%d5], %r3;
        mov.u32 %r4, %dynamic_smem_size;
        st.shared.u8 [open+99], %r4;
        ret;""",
        ".shared .align 1 .b8 fixed[5];\n.extern .shared .align 16 .b8 open[];",
    )
    assert set(outcome(text, np.zeros(1), threads=1, count=1, shared_bytes=100)) == {16}


LOAD = "ld.global.u32 %r1, [%d5]; st.global.u32 [%d2], %r1; ret;"


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("shift", "nbytes", "said"),
    [
        (0, 124, "past the end of an allocation of 124 bytes (bytes 124 to 127)"),
        (-4, 128, "before the start of an allocation of 128 bytes (byte offset -4)"),
        (1 << 19, 128, "past the end of an allocation of 128 bytes"),
        (-(1 << 19), 128, "before the start of an allocation of 128 bytes"),
    ],
)
def test_reads_outside_an_allocation_are_found_and_inside_are_not(
    schedule: str, seed: int, shift: int, nbytes: int, said: str
) -> None:
    for wrong in (True, False):
        device = Device(schedule=schedule, seed=seed)
        device.allocate((64,), np.uint8)
        source = device.upload(np.zeros(nbytes if wrong else 128, np.uint8))
        device.allocate((64,), np.uint8)
        start = np.uint64(source.address + (shift if wrong else 0))
        sink = device.upload(np.zeros(1, np.uint32))
        findings = run(device, module(LOAD), np.uint64(0), start, sink)
        if wrong:
            assert [f.kind for f in findings] == [FindingKind.OUT_OF_BOUNDS], "one cause, one finding"
            assert said in findings[0].message
            assert findings[0].count == (1 if abs(shift) <= 4 else 32)
        else:
            assert findings == []


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_vector_that_straddles_the_end_is_out_of_bounds_as_a_whole(schedule: str, seed: int) -> None:
    text = module("""
        mul.wide.u32 %d7, %r0, 16;
        add.s64 %d8, %d1, %d7;
        st.global.v4.u32 [%d8], {%r0, %r0, %r0, %r0};
        ret;""")
    device = Device(schedule=schedule, seed=seed)
    target = device.upload(np.full(32 * 4 - 1, 77, np.uint32))
    findings = run(device, text, np.uint64(0), target)
    assert [(f.kind, f.count) for f in findings] == [(FindingKind.OUT_OF_BOUNDS, 1)]
    assert findings[0].threads[0].thread == (31, 0, 0)
    assert "writes memory past the end" in findings[0].message
    np.testing.assert_array_equal(target.download()[-3:], [77] * 3)


@pytest.mark.parametrize("address", [0, 4, 0xFFFF_FFFF_FFFF_FFFC, 1 << 63, 0x1234_5678])
def test_wild_addresses_are_out_of_bounds(address: int) -> None:
    device = Device()
    device.allocate((64,), np.uint8)
    text = module("ld.global.u32 %r1, [%d0]; ld.u32 %r2, [%d0]; ret;")
    findings = run(device, text, np.uint64(address))
    assert [f.kind for f in findings] == [FindingKind.OUT_OF_BOUNDS] * 2
    assert f"an address in no allocation (0x{address:x})" in findings[0].message


def test_an_access_whose_end_wraps_around_is_out_of_bounds() -> None:
    device = Device()
    text = module("mov.b64 %d7, -8; ld.global.v2.u32 {%r1, %r2}, [%d7]; ret;")
    assert [f.kind for f in run(device, text)] == [FindingKind.OUT_OF_BOUNDS]
    device.allocate((64,), np.uint8)
    assert [f.kind for f in run(device, text)] == [FindingKind.OUT_OF_BOUNDS]


def test_an_allocation_of_no_bytes_can_be_passed_but_not_read() -> None:
    device = Device()
    empty = device.upload(np.zeros((0, 7), np.float32))
    assert empty.download().shape == (0, 7)
    assert run(device, module("ret;"), empty) == []
    findings = run(device, module("ld.global.u8 %r1, [%d0]; ret;"), empty)
    assert [f.kind for f in findings] == [FindingKind.OUT_OF_BOUNDS]
    assert "an allocation of 0 bytes" in findings[0].message


@pytest.mark.parametrize(
    ("access", "declared"),
    [
        ("st.shared.u32 [s+60], %r0;", 63),
        ("st.shared.u8 [s+-1], %r0;", 64),
        ("mov.u64 %d6, s; cvta.shared.u64 %d6, %d6; st.u32 [%d6+64], %r0;", 64),
        ("ld.shared.u32 %r1, [0];", 64),
        ("ld.shared.u8 %r1, [1024];", 0),
    ],
)
def test_accesses_outside_shared_memory_are_found(access: str, declared: int) -> None:
    declaration = f".shared .align 16 .b8 s[{declared}];" if declared else ""
    findings = run(Device(), module(f"{access} ret;", declaration), threads=1)
    assert [f.kind for f in findings] == [FindingKind.OUT_OF_BOUNDS]
    assert f"shared memory outside the {declared} bytes of the kernel" in findings[0].message


@pytest.mark.parametrize("body", ["st.local.u32 [depot+8], %r0;", "mov.u64 %d6, depot; ld.local.u8 %r1, [%d6+-1];"])
def test_accesses_outside_local_memory_are_found(body: str) -> None:
    text = module(f"{body} ret;").replace(".reg .pred", ".local .align 8 .b8 depot[8];\n    .reg .pred")
    findings = run(Device(), text)
    assert [(f.kind, f.count) for f in findings] == [(FindingKind.OUT_OF_BOUNDS, 32)]


def test_shared_memory_of_one_block_is_not_that_of_another() -> None:
    text = module(
        """
        mov.u32 %r1, %ctaid.x;
        st.shared.u32 [s], %r1;
        ld.shared.u32 %r2, [s];
        mul.wide.u32 %d6, %r1, 4;
        add.s64 %d6, %d6, %d1;
        st.global.u32 [%d6], %r2;
        ret;""",
        ".shared .u32 s;",
    )
    assert outcome(text, np.zeros(1), 300, threads=1, blocks=300).tolist() == list(range(300))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("instruction", "multiple"),
    [
        ("ld.global.u32 %r1, [%d0+{shift}]", 4),
        ("st.global.v2.u16 [%d0+{shift}], {%h1, %h1}", 4),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+{shift}]", 16),
        ("st.shared.u64 [s+{shift}], %d0", 8),
        ("red.global.add.u32 [%d0+{shift}], %r0", 4),
    ],
)
def test_misaligned_accesses_are_found_and_aligned_ones_are_not(
    schedule: str, seed: int, instruction: str, multiple: int
) -> None:
    for shift in (multiple, multiple // 2):
        device = Device(schedule=schedule, seed=seed)
        buffer = device.upload(np.zeros(64, np.uint8))
        text = module(
            f"mov.b16 %h1, 0; {instruction.replace('{shift}', str(shift))}; ret;", ".shared .align 16 .b8 s[64];"
        )
        findings = run(device, text, buffer, threads=1)
        if shift == multiple:
            assert findings == []
        else:
            assert [f.kind for f in findings] == [FindingKind.MISALIGNED]
            assert f"an address that is not a multiple of {multiple}" in findings[0].message


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_use_after_free_is_found_and_use_before_is_not(schedule: str, seed: int) -> None:
    device = Device(schedule=schedule, seed=seed)
    source, sink = device.upload(np.zeros(32, np.uint32)), device.upload(np.zeros(1, np.uint32))
    assert run(device, module(LOAD), np.uint64(0), source, sink) == []
    device.free(source)
    device.upload(np.ones(32, np.uint32))  # new memory does not come to lie at the old address
    findings = run(device, module(LOAD), np.uint64(0), source, sink)
    assert [(f.kind, f.count) for f in findings] == [(FindingKind.USE_AFTER_FREE, 32)]
    assert "reads a freed allocation of 128 bytes" in findings[0].message
    with pytest.raises(Refusal, match="was freed"):
        source.download()
    with pytest.raises(Refusal, match="was freed"):
        device.free(source)


def test_a_wrong_load_reads_zero_and_makes_no_second_finding() -> None:
    device = Device()
    target = device.allocate((32,), np.uint32)
    text = module("""
        add.s64 %d7, %d0, %d4;
        ld.global.u32 %r1, [%d7];
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra DONE;
        st.global.u32 [%d5], %r1;
    DONE: ret;""")
    findings = run(device, text, device.upload(np.zeros(16, np.uint32)), target)
    assert [(f.kind, f.count) for f in findings] == [(FindingKind.OUT_OF_BOUNDS, 16)]


def test_findings_name_ptx_and_cuda_lines_and_their_first_threads() -> None:
    text = module(".loc 1 42 9\n" + LOAD, '.file 1 "tile.cu"')
    device = Device()
    findings = run(device, text, np.uint64(0), device.upload(np.zeros(20, np.uint32)), blocks=2)
    first = findings[0]
    assert (first.where.file, first.where.line) == ("tile.cu", 42)
    assert text.splitlines()[first.where.ptx_line - 1].lstrip().startswith("ld.global.u32")
    assert first.count == 2 * 12
    assert [str(thread) for thread in first.threads[:2]] == [
        "block (0, 0, 0) thread (20, 0, 0)",
        "block (0, 0, 0) thread (21, 0, 0)",
    ]
    assert len(first.threads) == 8


def test_unrolled_copies_of_one_cuda_line_are_one_finding() -> None:
    copies = "\n".join(".loc 1 9 1\nld.global.u32 %r1, [%d0];" for _ in range(4))
    text = module(copies + "\n.loc 1 10 1\nld.global.u32 %r1, [%d0]; ret;", '.file 1 "tile.cu"')
    findings = run(Device(), text, threads=1)
    assert [(f.where.line, f.count) for f in findings] == [(9, 4), (10, 1)]
