"""Barriers of part of a block: counts, several at a time, arrivals without waiting, reductions, and every misuse."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(12)]]


def module(body: str) -> str:
    """%t is the thread, %w its warp, %o = &out[thread], %a = &s[thread]; %p0 warp 0, %p1 warp 1, %p2 the first 16."""
    return f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[1024];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<12>, %t, %w, %a;
    .reg .b64 %d<4>, %o;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5;
    mul.wide.u32 %d0, %t, 4; add.s64 %o, %o, %d0;
    mov.u32 %a, s; mad.lo.u32 %a, %t, 4, %a;
    setp.eq.u32 %p0, %w, 0; setp.eq.u32 %p1, %w, 1; setp.lt.u32 %p2, %t, 16;
    {body}
    ret;
}}
"""


def launch(
    body: str, schedule: str = "friendly", seed: int = 0, *, threads: int = 128, blocks: int = 2
) -> tuple[list[Finding], NDArray[np.uint32]]:
    """Findings, and what the blocks left in `out`."""
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros(256, np.uint32))
    kernel = device.load_ptx(module(body))["k"]
    return kernel.launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(out,)).findings, out.download()


RIGHT = {
    "each warp its own": "add.u32 %r1, %w, 1; bar.sync %r1, 32; bar.sync %r1, 32; bar.sync 0;",
    "two pairs of warps": "shr.u32 %r1, %w, 1; add.u32 %r1, %r1, 1; bar.sync %r1, 64; bar.sync 0; bar.sync %r1, 64;",
    "two pairs of warps that meet across": "and.b32 %r1, %w, 1; bar.sync %r1, 64; bar.sync %r1, 64;",
    "several in flight": (
        "@%p0 bar.arrive 1, 64; @%p0 bar.arrive 2, 64; @%p0 bar.arrive 3, 64;"
        "@%p1 bar.sync 3, 64; @%p1 bar.sync 1, 64; @%p1 bar.sync 2, 64;"
    ),
    "an arrival by everybody but one": "@!%p0 bar.arrive 1, 128; @%p0 bar.sync 1, 128; bar.sync 0;",
    "arrivals only": "bar.arrive 1, 128; bar.sync 0; bar.arrive 1, 128; bar.sync 0;",
    "not aligned, from two branches of a warp": (
        "@%p2 bra A; barrier.sync 1, 128; bra B; A: barrier.sync 1, 128; B: bar.sync 0;"
    ),
    "arrivals that are not aligned": (
        "@!%p0 bra C; @%p2 bra A; barrier.arrive 1, 64; bra D; A: barrier.arrive 1, 64; bra D;"
        "C: @%p1 barrier.sync 1, 64; D: bar.sync 0;"
    ),
    "a warp that has exited is not waited for without a count": "@%p0 exit; bar.sync 1;",
    "threads that have exited count with their warp": "@%p2 exit; bar.sync 1, 128; @%p0 bar.sync 2, 32;",
    "only exited threads are missing, and there is no count": "@%p0 bra X; @%p1 exit; bar.sync 2; X: exit;",
    "the whole block and a part of it": "bar.sync 0; @%p0 bar.sync 1, 32; bar.sync 0, 128;",
    "producer and consumer": (
        "mov.u32 %r1, 0; @%p1 bra C; @!%p0 ret;"
        "P: st.shared.u32 [%a], %r1; bar.arrive 1, 64; bar.sync 2, 64; add.u32 %r1, %r1, 1;"
        "setp.lt.u32 %p3, %r1, 5; @%p3 bra P; ret;"
        "C: bar.sync 1, 64; ld.shared.u32 %r2, [%a+-128]; bar.arrive 2, 64; add.u32 %r1, %r1, 1;"
        "setp.lt.u32 %p3, %r1, 5; @%p3 bra C;"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_well_used_named_barriers_are_silent(name: str) -> None:
    for schedule, seed in SCHEDULES:
        assert launch(RIGHT[name], schedule, seed)[0] == [], (schedule, seed)


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("body", ["bar.sync 1, 256;", "@%p0 exit; bar.sync 1, 128;"])
def test_a_count_is_minded_where_the_order_is_not(body: str, engine: str) -> None:
    device = Device(schedule="friendly", order=False, engine=engine)
    launched = device.load_ptx(module(body))["k"].launch(
        grid=(2, 1, 1), block=(128, 1, 1), args=(device.upload(np.zeros(256, np.uint32)),)
    )
    assert [finding.kind for finding in launched.findings] == [FindingKind.DEADLOCK]


@pytest.mark.parametrize("threads", [33, 40, 64, 100])
def test_a_block_that_fills_no_whole_warps_counts_them_whole(threads: int) -> None:
    warps = -(-threads // 32)
    for schedule, seed in SCHEDULES[:4]:
        body = f"bar.sync 1, {32 * warps}; @%p1 bar.sync 2, 32; bar.sync 0;"
        assert launch(body, schedule, seed, threads=threads)[0] == []


def test_reductions_are_over_those_that_come() -> None:
    body = """
        and.b32 %r1, %w, 1;
        bar.red.popc.u32 %r2, %r1, 64, %p2;
        bar.red.and.pred %p4, %r1, 64, %p2;
        bar.red.or.pred %p5, %r1, 64, %p1;
        selp.u32 %r3, 1000, 0, %p4; selp.u32 %r4, 2000, 0, %p5;
        add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
        st.global.u32 [%o], %r2;"""
    expected = np.where(np.arange(128) // 32 % 2, 2000, 16)
    for schedule, seed in SCHEDULES:
        findings, out = launch(body, schedule, seed, blocks=1)
        assert findings == []
        np.testing.assert_array_equal(out[:128], expected)


# name: (wrong body, kind, what the finding says)
WRONG = {
    "two counts": (
        "@%p0 bar.sync 1, 64; @%p1 bar.sync 1, 96;",
        FindingKind.BARRIER,
        "counts other threads than those that have come to the barrier before",
    ),
    "a count and none": (
        "@%p0 bar.sync 1, 128; @!%p0 bar.sync 1;",
        FindingKind.BARRIER,
        "counts other threads than those that have come to the barrier before",
    ),
    "a count of zero": ("bar.sync 1, 0;", FindingKind.BARRIER, "counts threads that are not a multiple of 32 (0)"),
    "a count of 48": ("bar.arrive 1, 48;", FindingKind.BARRIER, "counts threads that are not a multiple of 32 (48)"),
    "more threads than the block has": (
        "bar.sync 1, 256;",
        FindingKind.DEADLOCK,
        "threads wait at a barrier that others do not come to: 128 threads at barrier 1 (PTX line 16), 128 of 256 are",
    ),
    "a warp too few": (
        "@%p0 bar.sync 1, 64; bar.sync 0;",
        FindingKind.DEADLOCK,
        "32 threads at barrier 1 (PTX line 16), 32 of 64 are missing",
    ),
    # Measured on an H200, mutants.json: such a barrier of the whole block hangs there.
    "a count that only exited warps are missing from": (
        "@%p0 exit; mov.u32 %r1, 128; bar.sync 1, %r1;",
        FindingKind.DEADLOCK,
        "96 threads at barrier 1 (PTX line 16), 32 of 128 are missing",
    ),
    "a constant count that only exited warps are missing from": (
        "@%p0 exit; bar.sync 1, 128;",
        FindingKind.DEADLOCK,
        "96 threads at barrier 1 (PTX line 16), 32 of 128 are missing",
    ),
    "a count beyond those that have not exited": (
        "@%p0 bra X; @%p1 exit; bar.sync 2, 96; X: exit;",
        FindingKind.DEADLOCK,
        "64 threads at barrier 2 (PTX line 16), 32 of 96 are missing",
    ),
    "an arrival that is missing": (
        "@%p0 bar.sync 1, 64; @%p1 bar.arrive 2, 64; bar.sync 0;",
        FindingKind.DEADLOCK,
        "wait for each other at different barriers: 96 threads at barrier 0",
    ),
    "two arrivals before anybody waits": (
        "@%p0 bar.arrive 1, 96; @%p0 bar.arrive 1, 96; bar.sync 0; @%p1 bar.sync 1, 96;",
        FindingKind.BARRIER,
        "bar.arrive comes to a barrier a second time and cannot know that its last round is complete",
    ),
    "an arrival that nobody answers": (
        "@%p0 bar.arrive 1, 64; @%p0 bar.arrive 1, 64; @%p1 bar.sync 1, 64; @%p1 bar.sync 1, 64; bar.sync 0;",
        FindingKind.BARRIER,
        "bar.arrive comes to a barrier a second time and cannot know that its last round is complete",
    ),
    "a consumer that reads before the arrival": (
        "@%p1 bra C; @!%p0 ret; bar.arrive 1, 64; st.shared.u32 [%a], %t; bar.sync 2, 64; ret;"
        "C: bar.sync 1, 64; ld.shared.u32 %r2, [%a+-128]; bar.sync 2, 64;",
        FindingKind.RACE,
        "that another thread wrote",
    ),
    "a slot that is handed back before it is read": (
        "mov.u32 %r1, 0; @%p1 bra C; @!%p0 ret;"
        "P: st.shared.u32 [%a], %r1; bar.arrive 1, 64; bar.sync 2, 64; add.u32 %r1, %r1, 1;"
        "setp.lt.u32 %p3, %r1, 5; @%p3 bra P; ret;"
        "C: bar.sync 1, 64; bar.arrive 2, 64; ld.shared.u32 %r2, [%a+-128]; add.u32 %r1, %r1, 1;"
        "setp.lt.u32 %p3, %r1, 5; @%p3 bra C;",
        FindingKind.RACE,
        "shared memory that another thread",
    ),
    "a wait behind the own arrival": (
        "@%p0 bar.arrive 1, 96; @%p0 bar.sync 1, 96; @%p1 bar.sync 1, 96;",
        FindingKind.BARRIER,
        "bar.sync comes to a barrier a second time and cannot know that its last round is complete",
    ),
    "a reduction and a wait": (
        "@%p0 bar.sync 1, 64; @%p1 bar.red.popc.u32 %r1, 1, 64, %p1;",
        FindingKind.BARRIER,
        "meets another form of barrier at the same barrier",
    ),
    "a reduction and an arrival": (
        "@%p0 bar.arrive 1, 64; @%p1 bar.red.popc.u32 %r1, 1, 64, %p1;",
        FindingKind.BARRIER,
        "meets another form of barrier at the same barrier",
    ),
    "an arrival by part of a warp": (
        "@!%p0 bra B; @%p2 bar.arrive 1, 64; B: @%p1 bar.sync 1, 64; bar.sync 0;",
        FindingKind.DIVERGENCE,
        "bar.arrive waits for threads of its warp that never come",
    ),
    "an undefined count": (
        "bar.sync 1, %r9;",
        FindingKind.UNINITIALISED,
        "a value that nothing wrote decides how many threads take part in bar.sync",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_misused_named_barriers_are_found(name: str) -> None:
    body, kind, said = WRONG[name]
    for schedule, seed in SCHEDULES[:7]:
        findings, _ = launch(body, schedule, seed)
        assert findings[0].kind is kind, (schedule, seed)
        assert said in findings[0].message, (schedule, seed, findings)
