"""Block barriers, deadlocks, hangs: endless waits are found at once, early exits and uneven blocks are no trouble."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind
from tileproof.simulators.ptx.machine.budget import StepBudgetExceeded

ADVERSARIAL = [("adversarial", seed) for seed in range(50)]
on_right_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL])
on_wrong_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL[:20]])


def module(body: str) -> str:
    """A kernel: %r0 is the thread, %d1 = &out[thread], %p0 thread 0, %p1 the first 16 threads, %p2 the first warp."""
    return f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[256];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<24>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d1, %d1, %d0;
    setp.eq.u32 %p0, %r0, 0;
    setp.lt.u32 %p1, %r0, 16;
    setp.lt.u32 %p2, %r0, 32;
    {body}
}}
"""


def launch(
    body: str, schedule: str = "friendly", seed: int = 0, *, threads: int = 64, blocks: int = 1, budget: int = 1 << 25
) -> tuple[list[Finding], NDArray[np.uint32]]:
    """Findings, and what the kernel left in `out`."""
    device = Device(schedule=schedule, seed=seed, step_budget=budget)
    out = device.upload(np.zeros(1024, np.uint32))
    kernel = device.load_ptx(module(body))["k"]
    return kernel.launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(out,)).findings, out.download()


@on_right_schedules
@pytest.mark.parametrize("threads", [1, 31, 33, 64, 100])
def test_lanes_that_exit_above_a_barrier_are_not_waited_for(threads: int, schedule: str, seed: int) -> None:
    body = "@%p1 exit; bar.sync 0; @%p2 ret; bar.sync 0; st.global.u32 [%d1], %r0; ret;"
    findings, out = launch(body, schedule, seed, threads=threads)
    assert findings == []
    np.testing.assert_array_equal(out[:threads], np.where(np.arange(threads) < 32, 0, np.arange(threads)))


# name: (wrong kernel, kind, what the finding says)
WRONG = {
    "two barriers": (
        "@%p2 bra A; bar.sync 0; ret; A: bar.sync 1; ret;",
        FindingKind.DEADLOCK,
        "threads of a block wait for each other at different barriers: 32 threads at barrier",
    ),
    "barriers in two orders": (
        "@%p2 bra A; bar.sync 0; bar.sync 1; ret; A: bar.sync 1; bar.sync 0; ret;",
        FindingKind.DEADLOCK,
        "wait for each other at different barriers",
    ),
    "barrier in a branch of a warp": (
        "@%p1 bar.sync 0; bar.sync 0; ret;",
        FindingKind.DIVERGENCE,
        "threads of one warp meet at different bar.sync instructions",
    ),
    "barrier behind a divergent loop exit": (
        "mov.u32 %r2, 0; L: setp.gt.u32 %p4, %r2, %r0; @%p4 bra X; bar.sync 0; add.u32 %r2, %r2, 1;"
        "setp.lt.u32 %p5, %r2, 3; @%p5 bra L; X: bar.sync 0; ret;",
        FindingKind.DIVERGENCE,
        "meet at different",
    ),
    "barrier 16": ("bar.sync 16; ret;", FindingKind.BARRIER, "names a barrier beyond 0 to 15 (barrier 16)"),
    "count that is no multiple of 32": (
        "bar.sync 0, 63; ret;",
        FindingKind.BARRIER,
        "counts threads that are not a multiple of 32 (63)",
    ),
    "two forms at one barrier": (
        "@%p2 bra A; bar.sync 0; ret; A: bar.red.popc.u32 %r3, 0, %p0; ret;",
        FindingKind.BARRIER,
        "meets another form of barrier",
    ),
    "undefined barrier": ("bar.sync %r9; ret;", FindingKind.UNINITIALISED, "decides the barrier of bar.sync"),
    "spin on what nobody sets": (
        "@%p0 st.shared.u32 [s], 0; bar.sync 0;"
        "L: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p4, %r2, 0; @%p4 bra L; ret;",
        FindingKind.DEADLOCK,
        "threads spin on a value that no thread is left to change",
    ),
    "spin lock that nobody releases": (
        "@%p0 st.global.u32 [%d0], 1; bar.sync 0; setp.gt.u32 %p4, %r0, 3; @%p4 ret;"
        "L: atom.global.cas.b32 %r2, [%d0], 0, 1; setp.ne.u32 %p4, %r2, 0; @%p4 bra L; ret;",
        FindingKind.DEADLOCK,
        "threads spin on a value that no thread is left to change",
    ),
    "spin above the barrier that the setter waits at": (
        "@%p0 st.shared.u32 [s], 0; bar.sync 0; @!%p0 bra WAIT; bar.sync 0; st.volatile.shared.u32 [s], 1; ret;"
        "WAIT: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p4, %r2, 0; @%p4 bra WAIT; bar.sync 0; ret;",
        FindingKind.DEADLOCK,
        "(1 others wait at barriers or collectives)",
    ),
}


@on_wrong_schedules
@pytest.mark.parametrize("name", WRONG)
def test_waits_that_cannot_end_and_misused_barriers_are_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said = WRONG[name]
    findings, _ = launch(body, schedule, seed)
    assert [f.kind for f in findings] == [kind]
    assert said in findings[0].message


RIGHT = {
    "two barriers, all threads": "bar.sync 0; bar.sync 1; bar.sync 15; ret;",
    "one barrier from two instructions, by whole warps": "@%p2 bra A; bar.sync 0; ret; A: bar.sync 0; ret;",
    "one barrier from two instructions of a warp": "@%p1 bra A; barrier.sync 0; ret; A: barrier.sync 0; ret;",
    "with the block's own count": "bar.sync 3, 64; barrier.cta.sync.aligned 3, 64; ret;",
    "numbered by a register": "mov.u32 %r2, 5; bar.sync %r2; ret;",
    "in a loop": "mov.u32 %r2, 0; L: bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p4, %r2, 5; @%p4 bra L; ret;",
    "a spin that a later warp ends": (
        "@%p0 st.shared.u32 [s], 0; bar.sync 0; @%p2 bra L; st.volatile.shared.u32 [s], 1; bra X;"
        "L: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p4, %r2, 0; @%p4 bra L; X: bar.sync 0; ret;"
    ),
    "a spin that a lane of the same warp ends": (
        "@%p0 st.shared.u32 [s], 0; bar.sync 0; @!%p0 bra L; st.volatile.shared.u32 [s], 1;"
        "L: ld.volatile.shared.u32 %r2, [s]; setp.eq.u32 %p4, %r2, 0; @%p4 bra L; bar.sync 0; ret;"
    ),
}


@on_right_schedules
@pytest.mark.parametrize("name", RIGHT)
def test_well_used_barriers_are_silent(name: str, schedule: str, seed: int) -> None:
    assert launch(RIGHT[name], schedule, seed, blocks=3)[0] == []


@on_right_schedules
def test_reducing_barriers_count_negate_and_decide(schedule: str, seed: int) -> None:
    body = """
        bar.red.popc.u32 %r2, 0, %p1;
        bar.red.popc.u32 %r3, 0, 64, !%p1;
        bar.red.and.pred %p4, 0, %p1;
        barrier.cta.red.or.aligned.pred %p5, 0, %p0;
        selp.u32 %r4, 1000, 0, %p4;
        selp.u32 %r5, 2000, 0, %p5;
        mad.lo.u32 %r2, %r3, 100000, %r2;
        add.u32 %r2, %r2, %r4;
        add.u32 %r2, %r2, %r5;
        st.global.u32 [%d1], %r2;
        ret;"""
    findings, out = launch(body, schedule, seed)
    assert findings == []
    assert set(out[:64].tolist()) == {48 * 100000 + 2000 + 16}
    findings, out = launch(body.replace("64, ", ""), schedule, seed, threads=50, blocks=2)
    assert findings == []
    assert set(out[:50].tolist()) == {34 * 100000 + 2000 + 16}


def test_a_spin_whose_end_a_count_decides_is_ended_by_the_step_budget() -> None:
    body = "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.ne.u32 %p4, %r2, 0; @%p4 bra L; ret;"
    with pytest.raises(StepBudgetExceeded, match="10000 steps were not enough") as caught:
        launch(body, budget=10_000)
    assert "step_budget" in caught.value.hint


@pytest.mark.parametrize("body", ["L: bra L;", "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; bra L;"])
def test_an_endless_loop_is_proved_long_before_any_budget(body: str) -> None:
    findings, _ = launch(body, blocks=100)
    assert [f.kind for f in findings] == [FindingKind.DEADLOCK]


def test_a_long_loop_that_ends_is_not_taken_for_a_spin() -> None:
    body = "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p4, %r2, 20000; @%p4 bra L; ret;"
    assert launch(body, threads=32)[0] == []


def test_a_spin_on_a_block_that_has_not_started_is_refused() -> None:
    body = """
        mov.u32 %r1, %ctaid.x;
        setp.eq.u32 %p4, %r1, 20;
        @%p4 st.volatile.global.u32 [%d0], 1;
        @%p4 ret;
    L:  ld.volatile.global.u32 %r2, [%d0];
        setp.eq.u32 %p5, %r2, 0;
        @%p5 bra L;
        ret;"""
    with pytest.raises(NotModelled, match=r"wait at .* for blocks that have not started; 16 blocks are resident"):
        launch(body, threads=1024, blocks=21)
