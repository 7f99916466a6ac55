"""Control flow: every kind of instruction under a guard, branches everywhere, kernels of no instruction."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(5)]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)


def launch(
    body: str, schedule: str = "friendly", seed: int = 0, *, threads: int = 64
) -> tuple[list[Finding], NDArray[np.uint32]]:
    """Run a kernel: %r0 is the thread, %d1 = &out[thread], %p0 holds for even threads, %p1 for the first 40."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[1024];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d1, %d1, %d0;
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p0, %r1, 0;
    setp.lt.u32 %p1, %r0, 40;
    mov.u32 %r2, 7;
    {body}
}}
"""
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros(threads, np.uint32))
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=(out,))
    return report.findings, out.download()


T = np.arange(64)
EVEN, FIRST = T % 2 == 0, T < 40
STORE = "st.global.u32 [%d1], %r2;"

GUARDED = {
    "arithmetic": (f"@%p0 add.u32 %r2, %r2, %r0; {STORE}", np.where(EVEN, 7 + T, 7)),
    "negated arithmetic": (f"@!%p0 add.u32 %r2, %r2, %r0; {STORE}", np.where(EVEN, 7, 7 + T)),
    "load": (
        f"@%p0 st.global.u32 [%d1], %r0; @%p0 ld.global.u32 %r2, [%d1]; {STORE}",
        np.where(EVEN, T, 7),
    ),
    "vector load that would be out of bounds": (
        f"@!%p1 ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%r0]; {STORE}".replace("@!%p1", "@%p7"),
        np.full(64, 7),
    ),
    "store": (f"@!%p1 {STORE}", np.where(FIRST, 0, 7)),
    "shared load and store": (
        "mov.u32 %r3, s; mad.lo.u32 %r3, %r0, 4, %r3; @%p0 st.shared.u32 [%r3], %r0; @%p0 ld.shared.u32 %r2, [%r3];"
        + STORE,
        np.where(EVEN, T, 7),
    ),
    "move into halves": (
        "@%p0 mov.b64 {%r2, %r3}, %d1; @%p0 mov.b64 {%r2, %r3}, 0x500000003;" + STORE,
        np.where(EVEN, 3, 7),
    ),
    "shuffle": (
        f"@%p0 shfl.sync.idx.b32 %r2, %r0, 30, 31, 0x55555555; {STORE}",
        np.where(EVEN, T // 32 * 32 + 30, 7),
    ),
    "vote": (
        f"@%p0 vote.sync.ballot.b32 %r2, %p1, 0x55555555; {STORE}",
        np.where(EVEN, np.where(T < 32, 0x55555555, 0x55), 7),
    ),
    "set predicate": (
        f"setp.eq.u32 %p2, %r0, 3; @%p1 setp.lt.u32 %p2, %r0, 5; @%p2 mov.u32 %r2, 1; {STORE}",
        np.where(T < 5, 1, 7),
    ),
    "exit": (f"@%p0 exit; {STORE}", np.where(EVEN, 0, 7)),
    "return": (f"@!%p0 ret; {STORE}", np.where(EVEN, 7, 0)),
    "branch": (f"@%p0 bra X; mov.u32 %r2, 1; X: {STORE}", np.where(EVEN, 7, 1)),
    "negated branch": (f"@!%p0 bra X; mov.u32 %r2, 1; X: {STORE}", np.where(EVEN, 1, 7)),
    "uniform branch": (f"bra.uni X; mov.u32 %r2, 1; X: {STORE}", np.full(64, 7)),
    "barrier of whole warps": (f"setp.lt.u32 %p2, %r0, 64; @%p2 bar.sync 0; {STORE}", np.full(64, 7)),
    "nothing": (f"@%p0 prefetch.global.L2 [%d1]; @%p0 nanosleep.u32 20; @!%p0 membar.gl; {STORE}", np.full(64, 7)),
}


@on_all_schedules
@pytest.mark.parametrize("name", GUARDED)
def test_a_guard_decides_lane_by_lane(name: str, schedule: str, seed: int) -> None:
    body, expected = GUARDED[name]
    findings, out = launch("setp.ne.u32 %p7, %r0, %r0;" + body, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, expected)


FLOW = {
    "label at the end": (f"{STORE} @%p0 bra END; st.global.u32 [%d1], 1; END:", np.where(EVEN, 7, 1)),
    "end without return": (STORE, np.full(64, 7)),
    "backward branch": (
        f"mov.u32 %r3, 0; L: add.u32 %r3, %r3, 3; setp.le.u32 %p2, %r3, %r0; @%p2 bra L; mov.u32 %r2, %r3; {STORE}",
        T // 3 * 3 + 3,
    ),
    "backward branch to the entry of a ladder": (
        f"bra DOWN; UP: mov.u32 %r2, 9; bra OUT; DOWN: @%p0 bra UP; mov.u32 %r2, 8; OUT: {STORE}",
        np.where(EVEN, 9, 8),
    ),
    "branch to the next instruction": (f"@%p0 bra N; N: {STORE}", np.full(64, 7)),
    "nested": (
        f"@%p0 bra A; @%p1 bra B; mov.u32 %r2, 1; bra X; B: mov.u32 %r2, 2; bra X;"
        f"A: @%p1 bra C; mov.u32 %r2, 3; bra X; C: mov.u32 %r2, 4; X: {STORE}",
        np.select([EVEN & FIRST, EVEN, FIRST], [4, 3, 2], 1),
    ),
    "loop in a loop": (
        "mov.u32 %r3, 0; mov.u32 %r2, 0; O: mov.u32 %r4, 0; I: add.u32 %r2, %r2, 1; add.u32 %r4, %r4, 1;"
        "setp.lt.u32 %p2, %r4, %r3; @%p2 bra I; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, %r1; @%p3 bra O;"
        "and.b32 %r5, %r0, 7; setp.lt.u32 %p3, %r3, %r5; @%p3 bra O;" + STORE,
        np.array([sum(max(1, i) for i in range(max(1, t % 8))) for t in range(64)]),
    ),
    "duplicated scopes": (
        "{ .reg .b32 x; mov.u32 x, 5; { .reg .b32 x; mov.u32 x, 6; add.u32 %r2, %r2, x; } add.u32 %r2, %r2, x; }"
        + STORE,
        np.full(64, 18),
    ),
}


@on_all_schedules
@pytest.mark.parametrize("name", FLOW)
def test_lanes_go_their_ways_and_meet_again(name: str, schedule: str, seed: int) -> None:
    body, expected = FLOW[name]
    findings, out = launch(body, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, expected)


@on_all_schedules
@pytest.mark.parametrize("body", ["", "ret;", "exit;", "L:", "@%p0 ret;"])
def test_kernels_of_next_to_nothing_run(body: str, schedule: str, seed: int) -> None:
    findings, out = launch(body, schedule, seed)
    assert findings == []
    assert not out.any()


def test_an_entry_without_a_single_instruction_runs() -> None:
    text = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry nothing() { }\n"
    report = Device().load_ptx(text)["nothing"].launch(grid=(3, 1, 1), block=(5, 1, 1), args=())
    assert report.findings == []
    assert report.counters.thread_instructions == 15


@on_all_schedules
def test_negated_predicates_as_operands(schedule: str, seed: int) -> None:
    body = f"""
        setp.lt.and.u32 %p2|%p3, %r0, 50, !%p0;
        setp.ge.or.u32 %p4, %r0, 50, !%p1;
        selp.u32 %r3, 10, 0, %p2;
        selp.u32 %r4, 100, 0, %p3;
        selp.u32 %r5, 1000, 0, %p4;
        set.lt.xor.u32.u32 %r6, %r0, 20, !%p0;
        and.b32 %r6, %r6, 10000;
        add.u32 %r2, %r2, %r3;
        add.u32 %r2, %r2, %r4;
        add.u32 %r2, %r2, %r5;
        add.u32 %r2, %r2, %r6;
        {STORE}"""
    findings, out = launch(body, schedule, seed)
    assert findings == []
    expected = 7 + 10 * ((T < 50) & ~EVEN) + 100 * ((T >= 50) & ~EVEN) + 1000 * ((T >= 50) | ~FIRST)
    np.testing.assert_array_equal(out, expected + 10000 * ((T < 20) ^ ~EVEN))


def test_special_registers_know_the_warp() -> None:
    registers = (
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%lanemask_eq",
        "%lanemask_lt",
        "%lanemask_le",
        "%lanemask_gt",
        "%lanemask_ge",
    )
    lane = (T % 32).astype(np.uint64)
    bit = np.uint64(1) << lane
    expected = (lane, T // 32, np.full(64, 64), bit, bit - 1, 2 * bit - 1, 2**32 - 2 * bit, 2**32 - bit)
    for register, value in zip(registers, expected, strict=True):
        findings, out = launch(f"mov.u32 %r2, {register}; {STORE}")
        assert findings == []
        np.testing.assert_array_equal(out, value, err_msg=register)


def test_lock_step_brings_diverged_lanes_together_again() -> None:
    body = f"@%p0 bra A; add.u32 %r2, %r2, 1; bra J; A: add.u32 %r2, %r2, 2; J: activemask.b32 %r2; {STORE}"
    _, out = launch(body)
    assert set(out.tolist()) == {0xFFFF_FFFF}
