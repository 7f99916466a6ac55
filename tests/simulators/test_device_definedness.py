"""Values that nothing wrote: followed through registers, memory and warps until they decide something."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

ADVERSARIAL = [("adversarial", seed) for seed in range(50)]
on_many_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL])
on_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL[:20]])


def launch(body: str, schedule: str = "friendly", seed: int = 0, *, threads: int = 64) -> list[Finding]:
    """Run a kernel: %r0 is the thread, %d5 = &out[thread], %d6 = &raw[thread], where raw was never written."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[1024];
.visible .entry k(.param .u64 out, .param .u64 raw, .param .u8 narrow, .param .u32 wide)
{{
    .local .align 16 .b8 depot[64];
    .reg .pred %p<8>;
    .reg .b16 %h<4>;
    .reg .b32 %r<24>;
    .reg .b32 %u<4>;                 // never written
    .reg .f32 %f<4>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [out];
    ld.param.u64 %d1, [raw];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %laneid;
    mul.wide.u32 %d4, %r0, 4;
    add.s64 %d5, %d0, %d4;
    add.s64 %d6, %d1, %d4;
    mov.u32 %r9, s;
    mad.lo.u32 %r10, %r0, 4, %r9;    // &s[thread]
    setp.lt.u32 %p0, %r1, 8;
    setp.lt.u32 %p1, %r1, 9;
    {body}
    ret;
}}
"""
    device = Device(schedule=schedule, seed=seed)
    out, raw = device.allocate((threads,), np.uint32), device.allocate((threads,), np.uint32)
    args = (out, raw, np.uint8(1), np.uint32(2))
    return device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=args).findings


# name: (wrong kernel, right kernel, what the finding says)
PAIRS = {
    "register to output": (
        "st.global.u32 [%d5], %u0;",
        "mov.u32 %u0, 1; st.global.u32 [%d5], %u0;",
        "st.global.u32 puts a value that nothing wrote into global memory",
    ),
    "half of a word to output": (
        "mov.b16 %h0, 1; mov.b32 %r2, {%h0, %h1}; st.global.u32 [%d5], %r2;",
        "mov.b16 %h0, 1; mov.b32 %r2, {%h1, %h0}; shr.u32 %r2, %r2, 16; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "through arithmetic": (
        "add.u32 %r2, %u0, 1; shl.b32 %r2, %r2, 8; mad.lo.u32 %r2, %r2, 3, %r0; st.global.u32 [%d5], %r2;",
        "and.b32 %r2, %u0, 0; shl.b32 %r3, %u0, 32; or.b32 %r2, %r2, %r3; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "address": (
        "ld.global.u32 %r2, [%d1];  and.b32 %r2, %r2, 12; cvt.u64.u32 %d7, %r2; add.s64 %d7, %d0, %d7;"
        "ld.global.u8 %r3, [%d7];",
        "ld.global.u32 %r2, [%d1];  and.b32 %r2, %r2, 0; cvt.u64.u32 %d7, %r2; add.s64 %d7, %d0, %d7;"
        "ld.global.u8 %r3, [%d7];",
        "a value that nothing wrote decides the address that ld.global.u8 reads",
    ),
    "branch": (
        "ld.global.u32 %r2, [%d6]; setp.gt.s32 %p2, %r2, 0; @%p2 bra END; add.u32 %r3, %r0, 1; END:",
        "ld.global.u32 %r2, [%d6]; or.b32 %r2, %r2, 1; and.b32 %r2, %r2, 1; setp.gt.s32 %p2, %r2, 0; @%p2 bra END;"
        "add.u32 %r3, %r0, 1; END:",
        "a value that nothing wrote decides which way a branch goes",
    ),
    "guard": (
        "setp.eq.u32 %p2, %u0, 3; @!%p2 st.global.u32 [%d5], %r0;",
        "setp.eq.u32 %p2, %r0, 3; @!%p2 st.global.u32 [%d5], %r0;",
        "a value that nothing wrote decides whether st.global.u32 executes",
    ),
    "one half of a diverged register": (
        "@%p0 mov.u32 %r2, 5; @%p1 st.global.u32 [%d5], %r2;",
        "@%p1 mov.u32 %r2, 5; @%p0 st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "shared memory": (
        "@%p0 st.shared.u32 [%r10], %r0; bar.sync 0; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "st.shared.u32 [%r10], %r0; bar.sync 0; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "three of four bytes of shared memory": (
        "st.shared.u16 [%r10], 1; st.shared.u8 [%r10+3], 1; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "st.shared.u16 [%r10], 1; st.shared.u8 [%r10+2], 1; ld.shared.u32 %r2, [%r10]; and.b32 %r2, %r2, 0xFFFFFF;"
        "st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "stored undefined, loaded again": (
        "st.shared.u32 [%r10], %r0; st.shared.u32 [%r10], %u0; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "st.shared.u32 [%r10], %u0; st.shared.u32 [%r10], %r0; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "local memory": (
        "ld.local.u32 %r2, [depot+8]; st.global.u32 [%d5], %r2;",
        "st.local.v4.u32 [depot], {%r0, %r0, %r0, %r0}; ld.local.u32 %r2, [depot+8]; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "shuffle of an undefined register": (
        "@%p0 mov.u32 %r2, 7; shfl.sync.idx.b32 %r3, %r2, 8, 31, -1; st.global.u32 [%d5], %r3;",
        "@%p1 mov.u32 %r2, 7; shfl.sync.idx.b32 %r3, %r2, 8, 31, -1; st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "shuffle from a lane outside the member mask": (
        "@%p0 shfl.sync.idx.b32 %r3, %r0, 8, 31, 0xFF; @%p0 st.global.u32 [%d5], %r3;",
        "@%p0 shfl.sync.idx.b32 %r3, %r0, 7, 31, 0xFF; @%p0 st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "shuffle from a lane that takes part with another member mask": (
        "selp.b32 %r2, 0xFF, 0xFFFFFF00, %p0; shfl.sync.idx.b32 %r3, %r0, 8, 31, %r2; @%p0 st.global.u32 [%d5], %r3;",
        "selp.b32 %r2, 0xFF, 0xFFFFFF00, %p0; shfl.sync.idx.b32 %r3, %r0, 8, 31, %r2; @!%p0 st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "what a shuffle by an undefined amount reads": (
        "shfl.sync.bfly.b32 %r3, %r0, %u0, 31, -1; st.global.u32 [%d5], %r3;",
        "and.b32 %r2, %u0, 0; shfl.sync.bfly.b32 %r3, %r0, %r2, 31, -1; st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "shuffle by an undefined amount": (
        "shfl.sync.up.b32 %r3|%p2, %r0, %u0, 0, -1; @%p2 add.u32 %r3, %r3, 1;",
        "mov.u32 %u0, 1; shfl.sync.up.b32 %r3|%p2, %r0, %u0, 0, -1; @%p2 add.u32 %r3, %r3, 1;",
        "decides whether add.u32 executes",
    ),
    "vote": (
        "setp.ne.u32 %p2, %u0, 0; vote.sync.any.pred %p3, %p2, -1; @%p3 bra END; add.u32 %r3, %r0, 1; END:",
        "setp.ne.u32 %p2, %u0, 0; and.pred %p2, %p2, %p1; vote.sync.ballot.b32 %r3, %p2, -1; shr.u32 %r3, %r3, 9;"
        "st.global.u32 [%d5], %r3;",
        "decides which way a branch goes",
    ),
    "match": (
        "match.any.sync.b32 %r3, %u0, -1; st.global.u32 [%d5], %r3;",
        "match.any.sync.b32 %r3, %r0, -1; st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "warp reduction": (
        "@%p0 mov.u32 %r2, 1; redux.sync.add.u32 %r3, %r2, -1; st.global.u32 [%d5], %r3;",
        "@%p0 mov.u32 %r2, 1; @!%p0 mov.u32 %r2, 0; redux.sync.add.u32 %r3, %r2, -1; st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "reducing barrier": (
        "bar.red.popc.u32 %r3, 0, %p7; st.global.u32 [%d5], %r3;",
        "bar.red.popc.u32 %r3, 0, %p1; st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "member mask": (
        "shfl.sync.idx.b32 %r3, %r0, 0, 31, %u0;",
        "mov.u32 %u0, -1; shfl.sync.idx.b32 %r3, %r0, 0, 31, %u0;",
        "a value that nothing wrote decides the member mask of shfl.sync.idx.b32",
    ),
    "atomic on global memory that nothing wrote": (
        "red.global.add.u32 [%d6], 1;",
        "st.global.u32 [%d6], 0; red.global.add.u32 [%d6], 1;",
        "red.global.add.u32 puts a value that nothing wrote into global memory",
    ),
    "atomic with an undefined operand": (
        "st.global.u32 [%d6], 0; red.global.add.u32 [%d6], %u0;",
        "atom.global.exch.b32 %r2, [%d6], %r0; ld.global.u32 %r2, [%d6]; st.global.u32 [%d5], %r2;",
        "red.global.add.u32 puts a value that nothing wrote into global memory",
    ),
    "atomic on shared memory that nothing wrote": (
        "atom.shared.add.u32 %r2, [%r10], 1; ld.shared.u32 %r3, [%r10]; st.global.u32 [%d5], %r3;",
        "st.shared.u32 [%r10], 5; atom.shared.add.u32 %r2, [%r10], 1; ld.shared.u32 %r3, [%r10];"
        "st.global.u32 [%d5], %r3;",
        "into global memory",
    ),
    "old value of an exchange": (
        "atom.shared.exch.b32 %r2, [%r10], 1; st.global.u32 [%d5], %r2;",
        "atom.shared.exch.b32 %r2, [%r10], 1; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "comparison of compare-and-swap": (
        "atom.shared.cas.b32 %r2, [%r10], 1, 2; ld.shared.u32 %r2, [%r10]; st.global.u32 [%d5], %r2;",
        "st.shared.u32 [%r10], 1; atom.shared.cas.b32 %r2, [%r10], 1, 2; ld.shared.u32 %r2, [%r10];"
        "st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "undefined comparand of compare-and-swap": (
        "st.shared.u32 [%r10], 5; atom.shared.cas.b32 %r2, [%r10], %u0, 2; ld.shared.u32 %r2, [%r10];"
        "st.global.u32 [%d5], %r2;",
        "st.shared.u32 [%r10], 5; atom.shared.cas.b32 %r2, [%r10], %u0, 2; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "padding between parameters": (
        "ld.param.u16 %h0, [narrow]; cvt.u32.u16 %r2, %h0; st.global.u32 [%d5], %r2;",
        "ld.param.u8 %h0, [narrow]; cvt.u32.u16 %r2, %h0; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "undefined sign": (
        "st.shared.u16 [%r10], %h3; ld.shared.s16 %r2, [%r10]; shr.u32 %r2, %r2, 24; st.global.u32 [%d5], %r2;",
        "st.shared.u16 [%r10], %h3; ld.shared.u16 %r2, [%r10]; shr.u32 %r2, %r2, 24; st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
    "selected": (
        "selp.u32 %r2, %u0, %r0, %p0; st.global.u32 [%d5], %r2;",
        "selp.u32 %r2, %u0, %r0, %p0; @!%p0 st.global.u32 [%d5], %r2;",
        "into global memory",
    ),
}


@on_schedules
@pytest.mark.parametrize("name", PAIRS)
def test_what_nothing_wrote_is_found_where_it_decides(name: str, schedule: str, seed: int) -> None:
    wrong, _, said = PAIRS[name]
    findings = launch(wrong, schedule, seed)
    assert [f.kind for f in findings] == [FindingKind.UNINITIALISED]
    assert said in findings[0].message


@on_schedules
@pytest.mark.parametrize("name", PAIRS)
def test_undefined_bits_that_decide_nothing_are_silent(name: str, schedule: str, seed: int) -> None:
    assert launch(PAIRS[name][1], schedule, seed) == []


@on_many_schedules
def test_undefined_values_that_are_only_carried_around_are_silent(schedule: str, seed: int) -> None:
    body = """
        ld.global.u32 %r2, [%d6];
        st.shared.u32 [%r10], %r2;
        bar.sync 0;
        ld.shared.v2.u32 {%r3, %r4}, [s];
        shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1;
        add.u32 %r5, %r5, %r4;
        st.local.u32 [depot], %r5;
        bar.sync 0;
        red.shared.add.u32 [%r10], %r5;"""
    assert launch(body, schedule, seed) == []


def test_only_the_lanes_that_are_hit_are_named() -> None:
    findings = launch("@%p0 mov.u32 %r2, 5; @%p1 st.global.u32 [%d5], %r2;")
    assert [thread.thread for thread in findings[0].threads] == [(8, 0, 0), (40, 0, 0)]
    assert findings[0].count == 2


@pytest.mark.parametrize("threads", [1, 31, 33, 64])
def test_written_tells_which_bytes_a_kernel_wrote(threads: int) -> None:
    device = Device()
    text = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d0, %d0, %d1;
    st.global.u16 [%d0], %r0;
}
"""
    out = device.allocate((70,), np.uint32)
    device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=(out,))
    expected = np.zeros((70, 4), np.bool_)
    expected[:threads, :2] = True
    np.testing.assert_array_equal(out.written(), expected.reshape(-1))
