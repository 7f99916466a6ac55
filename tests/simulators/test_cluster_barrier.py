"""`barrier.cluster`: everybody who has not exited is waited for, nobody else; misuse and endless waits are told."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

on_right_schedules = pytest.mark.parametrize(
    ("schedule", "seed"), [("friendly", 0), *[("adversarial", seed) for seed in range(12)]]
)
on_wrong_schedules = pytest.mark.parametrize(
    ("schedule", "seed"), [("friendly", 0), *[("adversarial", seed) for seed in range(6)]]
)


def launch(body: str, schedule: str = "friendly", seed: int = 0, *, threads: int = 64) -> list[Finding]:
    """Findings of 6 blocks in clusters of 2: %t is the thread, %k the rank, %p0 rank 0, %p1 the first 16 threads."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<8>, %t, %k;
    mov.u32 %t, %tid.x; mov.u32 %k, %cluster_ctarank;
    setp.eq.u32 %p0, %k, 0;
    setp.lt.u32 %p1, %t, 16;
    {body}
    ret;
}}
"""
    device = Device(schedule=schedule, seed=seed)
    kernel = device.load_ptx(text)["k"]
    return kernel.launch(grid=(6, 1, 1), block=(threads, 1, 1), args=(np.uint64(0),), cluster=(2, 1, 1)).findings


RIGHT = {
    "aligned, thrice": 3 * "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "relaxed": "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;",
    "not aligned": "barrier.cluster.arrive; barrier.cluster.wait;",
    "not aligned, in two branches of a warp": (
        "@%p1 bra A; barrier.cluster.arrive; bra B; A: barrier.cluster.arrive.release; B: barrier.cluster.wait;"
    ),
    "split around a block barrier": "barrier.cluster.arrive.aligned; bar.sync 0; barrier.cluster.wait.aligned;",
    "threads that have exited": "@%p1 exit; barrier.cluster.arrive; barrier.cluster.wait;",
    "a block that has exited": "@!%p0 exit; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "exit after arrival": "barrier.cluster.arrive.aligned; @%p0 exit; barrier.cluster.wait.aligned;",
    "exit while the others wait": (
        "@!%p0 bra A; mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 300; @%p2 bra L; exit;"
        "A: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    ),
    "in a loop": (
        "mov.u32 %r1, 0; L: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 5; @%p2 bra L;"
    ),
}


@on_right_schedules
@pytest.mark.parametrize("name", RIGHT)
def test_well_used_cluster_barriers_are_silent(name: str, schedule: str, seed: int) -> None:
    assert launch(RIGHT[name], schedule, seed) == []


@pytest.mark.parametrize("threads", [1, 33, 100])
def test_blocks_of_any_size_meet(threads: int) -> None:
    for name in ("aligned, thrice", "threads that have exited"):
        assert launch(RIGHT[name], threads=threads) == []


# name: (wrong body, kind, what the finding says)
WRONG = {
    "two arrivals": (
        "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        FindingKind.BARRIER,
        "barrier.cluster.arrive.aligned arrives a second time without barrier.cluster.wait between",
    ),
    "a wait without an arrival": (
        "barrier.cluster.wait.aligned;",
        FindingKind.BARRIER,
        "barrier.cluster.wait.aligned waits without barrier.cluster.arrive before",
    ),
    "a block that hangs before": (
        "@!%p0 bar.sync 0, 128; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        FindingKind.DEADLOCK,
        "64 threads at barrier 0 (PTX line 12), 64 of 128 are missing",
    ),
    "a warp that never arrives": (
        "setp.lt.u32 %p2, %t, 32; setp.eq.and.u32 %p3, %k, 1, %p2; @%p3 bra A;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; bar.sync 0; ret; A: bar.sync 0;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        FindingKind.DEADLOCK,
        "threads wait at a barrier that others do not come to: 32 threads at barrier 0",
    ),
    "part of a warp arrives aligned": (
        "@%p1 bra A; barrier.cluster.arrive.aligned; bra B; A: barrier.cluster.arrive.aligned;"
        "B: barrier.cluster.wait.aligned;",
        FindingKind.DIVERGENCE,
        "barrier.cluster.arrive.aligned waits for threads of its warp",
    ),
    "lanes that wait where others do not": (
        "barrier.cluster.arrive.aligned; @%p1 bra A; barrier.cluster.wait.aligned; A: bar.sync 0;",
        FindingKind.DIVERGENCE,
        "barrier.cluster.wait.aligned waits for threads of its warp",
    ),
}


@on_wrong_schedules
@pytest.mark.parametrize("name", WRONG)
def test_endless_waits_and_misuse_are_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said = WRONG[name]
    findings = launch(body, schedule, seed)
    assert [f.kind for f in findings][:1] == [kind]
    assert said in findings[0].message


def test_a_deadlock_names_who_is_missing() -> None:
    body = """
        @%p0 bra A;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        ret;
    A:  bra A;"""
    (finding,) = launch(body)
    assert finding.kind is FindingKind.DEADLOCK
    assert "threads spin on a value that no thread is left to change (192 others wait" in finding.message
