"""Distributed shared memory: addresses that carry a rank, and peers that must have started and not yet have exited."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

on_right_schedules = pytest.mark.parametrize(
    ("schedule", "seed"), [("friendly", 0), *[("adversarial", seed) for seed in range(10)]]
)
on_wrong_schedules = pytest.mark.parametrize(
    ("schedule", "seed"), [("friendly", 0), *[("adversarial", seed) for seed in range(5)]]
)
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def module(body: str) -> str:
    """%t is the thread, %k the rank, %n the blocks of the cluster, %next the next rank, %a = &s[t], %o = &out[thread].

    Before the body every thread has put 100 * rank + thread into s[t].
    """
    return f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[512];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>, %t, %k, %n, %next, %a, %b, %block, %size;
    .reg .b64 %d<6>, %o;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x;
    mov.u32 %k, %cluster_ctarank; mov.u32 %n, %cluster_nctarank;
    add.u32 %next, %k, 1; setp.eq.u32 %p0, %next, %n; @%p0 mov.u32 %next, 0;
    mad.lo.u32 %r0, %block, %size, %t;
    mul.wide.u32 %d0, %r0, 4; add.s64 %o, %o, %d0;
    mov.u32 %a, s; mad.lo.u32 %a, %t, 4, %a;
    mad.lo.u32 %r0, %k, 100, %t;
    st.shared.u32 [%a], %r0;
    {body}
    ret;
}}
"""


def launch(
    body: str, schedule: str = "friendly", seed: int = 0, *, blocks: int = 8, cluster: int = 4, threads: int = 64
) -> tuple[list[Finding], NDArray[np.uint32]]:
    """Findings, and what the kernel left in `out`, [blocks, threads]."""
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros((blocks, threads), np.uint32))
    kernel = device.load_ptx(module(body))["k"]
    report = kernel.launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(out,), cluster=(cluster, 1, 1))
    return report.findings, out.download()


def of_next(blocks: int = 8, cluster: int = 4, threads: int = 64) -> NDArray[np.int64]:
    """What the next block's threads put into s."""
    rank = np.arange(blocks) % cluster
    return ((rank + 1) % cluster * 100)[:, np.newaxis] + np.arange(threads)


READS_OF_THE_NEXT_BLOCK = {
    "through a mapped address": "mapa.shared::cluster.u32 %b, %a, %next; ld.shared::cluster.u32 %r1, [%b];",
    "through a 64-bit shared address": (
        "cvt.u64.u32 %d1, %a; mapa.shared::cluster.u64 %d1, %d1, %next; cvt.u32.u64 %b, %d1;"
        "ld.shared::cluster.u32 %r1, [%b];"
    ),
    "through a generic address": (
        "cvt.u64.u32 %d1, %a; cvta.shared.u64 %d1, %d1; mapa.u64 %d1, %d1, %next; ld.u32 %r1, [%d1];"
    ),
    "through a variable and an offset": (
        "mapa.shared::cluster.u32 %b, s+16, %next; mad.lo.u32 %b, %t, 4, %b; ld.shared::cluster.u32 %r1, [%b+-16];"
    ),
    "back from generic": (
        "cvt.u64.u32 %d1, %a; cvta.shared::cluster.u64 %d1, %d1; mapa.u64 %d1, %d1, %next;"
        "cvta.to.shared::cluster.u64 %d1, %d1; cvt.u32.u64 %b, %d1; ld.shared::cluster.u32 %r1, [%b];"
    ),
    "by an atomic": "mapa.shared::cluster.u32 %b, %a, %next; atom.shared::cluster.or.b32 %r1, [%b], 0;",
    "strongly": "mapa.shared::cluster.u32 %b, %a, %next; ld.relaxed.cluster.shared::cluster.u32 %r1, [%b];",
}


@on_right_schedules
@pytest.mark.parametrize("name", READS_OF_THE_NEXT_BLOCK)
def test_a_peers_memory_is_read_through_every_kind_of_address(name: str, schedule: str, seed: int) -> None:
    body = f"{SYNC} {READS_OF_THE_NEXT_BLOCK[name]} {SYNC} st.global.u32 [%o], %r1;"
    findings, out = launch(body, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, of_next())


@on_right_schedules
def test_stores_and_atomics_reach_the_peer(schedule: str, seed: int) -> None:
    body = f"""
        {SYNC}
        mapa.shared::cluster.u32 %b, %a, %next;
        st.shared::cluster.u32 [%b+256], %r0;
        mapa.shared::cluster.u32 %b, s, 0;
        red.relaxed.cluster.shared::cluster.add.u32 [%b], 1;
        {SYNC}
        ld.shared.u32 %r1, [%a+256];
        st.global.u32 [%o], %r1;
        setp.eq.u32 %p1, %t, 0;
        ld.shared.u32 %r2, [s];
        @%p1 st.global.u32 [%o], %r2;"""
    findings, out = launch(body, schedule, seed)
    assert findings == []
    previous = ((np.arange(8) - 1) % 4 * 100)[:, np.newaxis] + np.arange(64)
    np.testing.assert_array_equal(out[:, 1:], previous[:, 1:])
    assert out[:, 0].tolist() == [256, 100, 200, 300] * 2


def test_an_own_address_is_valid_in_the_window_of_the_cluster_and_mapping_to_oneself_changes_nothing() -> None:
    body = "ld.shared::cluster.u32 %r1, [%a]; mapa.shared::cluster.u32 %b, %a, %k; sub.u32 %b, %b, %a;"
    findings, out = launch(f"{body} add.u32 %r1, %r1, %b; st.global.u32 [%o], %r1;")
    assert findings == []
    np.testing.assert_array_equal(out, (np.arange(8) % 4 * 100)[:, np.newaxis] + np.arange(64))


def test_ranks_and_windows_of_addresses() -> None:
    body = """
        mapa.shared::cluster.u32 %b, %a, %next; getctarank.shared::cluster.u32 %r1, %b;
        cvt.u64.u32 %d1, %b; cvta.shared.u64 %d1, %d1; getctarank.u64 %r2, %d1;
        getctarank.shared::cluster.u32 %r3, s+4;
        sub.u32 %r1, %r1, %next; sub.u32 %r2, %r2, %next; sub.u32 %r3, %r3, %k;
        or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;
        isspacep.shared::cluster %p1, %d1; selp.u32 %r2, 16, 0, %p1; or.b32 %r1, %r1, %r2;
        isspacep.shared %p1, %d1; selp.u32 %r2, 32, 0, %p1; or.b32 %r1, %r1, %r2;
        cvt.u64.u32 %d2, %a; cvta.shared.u64 %d2, %d2;
        isspacep.shared::cta %p1, %d2; selp.u32 %r2, 64, 0, %p1; or.b32 %r1, %r1, %r2;
        isspacep.global %p1, %o; selp.u32 %r2, 128, 0, %p1; or.b32 %r1, %r1, %r2;
        isspacep.global %p1, %d2; selp.u32 %r2, 256, 0, %p1; or.b32 %r1, %r1, %r2;
        isspacep.local %p1, %d2; selp.u32 %r2, 512, 0, %p1; or.b32 %r1, %r1, %r2;
        isspacep.const %p1, %o; selp.u32 %r2, 1024, 0, %p1; or.b32 %r1, %r1, %r2;
        mov.b64 %d3, out; cvta.param.u64 %d3, %d3;
        isspacep.param %p1, %d3; selp.u32 %r2, 2048, 0, %p1; or.b32 %r1, %r1, %r2;
        isspacep.global %p1, %d3; selp.u32 %r2, 4096, 0, %p1; or.b32 %r1, %r1, %r2;
        st.global.u32 [%o], %r1;"""
    findings, out = launch(body)
    assert findings == []
    assert set(out.ravel().tolist()) == {16 | 64 | 128 | 2048 | 4096}


# name: (wrong body, kind, what the finding says)
WRONG = {
    "a peer that may not have started": (
        f"mapa.shared::cluster.u32 %b, %a, %next; ld.shared::cluster.u32 %r1, [%b]; {SYNC}",
        FindingKind.RACE,
        "ld.shared::cluster.u32 reads shared memory of a block of the cluster that may not have started",
    ),
    "a peer of which only the arrival is known": (
        "barrier.cluster.arrive; mapa.shared::cluster.u32 %b, %a, %next; st.shared::cluster.u32 [%b+256], %t;"
        f"barrier.cluster.wait; {SYNC}",
        FindingKind.RACE,
        "st.shared::cluster.u32 writes shared memory of a block of the cluster that may not have started",
    ),
    "a peer's address in the window of the block": (
        f"{SYNC} mapa.shared::cluster.u32 %b, %a, %next; ld.shared::cta.u32 %r1, [%b]; {SYNC}",
        FindingKind.OUT_OF_BOUNDS,
        "shared memory of another block of the cluster, which only .shared::cluster reaches",
    ),
    "a rank beyond the cluster": (
        f"{SYNC} mapa.shared::cluster.u32 %b, %a, 4; {SYNC}",
        FindingKind.OUT_OF_BOUNDS,
        "names a block beyond the 4 of the cluster (rank 4)",
    ),
    "an address beyond the cluster": (
        f"{SYNC} add.u32 %b, %a, 0x5000000; ld.shared::cluster.u32 %r1, [%b]; {SYNC}",
        FindingKind.OUT_OF_BOUNDS,
        "shared memory of no block of the 4 of the cluster",
    ),
    "an address past the peer's memory": (
        f"{SYNC} mapa.shared::cluster.u32 %b, s+508, %next; ld.shared::cluster.u32 %r1, [%b+4]; {SYNC}",
        FindingKind.OUT_OF_BOUNDS,
        "shared memory outside the 512 bytes",
    ),
    "a row of a matrix in a peer's memory": (
        f"{SYNC} mov.u64 %d1, s; cvta.shared.u64 %d1, %d1; mapa.u64 %d1, %d1, %next;"
        f"ldmatrix.sync.aligned.m8n8.x1.b16 {{%r1}}, [%d1]; {SYNC}",
        FindingKind.OUT_OF_BOUNDS,
        "reads another block's shared memory, and only shared memory of the block is legal",
    ),
    "a generic address of global memory": (
        "mapa.u64 %d1, %o, 0;",
        FindingKind.OUT_OF_BOUNDS,
        "mapa.u64 takes a generic address that is not one of shared memory",
    ),
}


@on_wrong_schedules
@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_of_peers_are_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said = WRONG[name]
    findings, _ = launch(body, schedule, seed)
    assert {f.kind for f in findings} == {kind}
    assert any(said in f.message for f in findings)


@on_right_schedules
@pytest.mark.parametrize("how", ["bar.sync 0;", "bar.warp.sync -1;"])
def test_threads_of_a_block_tell_each_other_that_the_peers_have_started(how: str, schedule: str, seed: int) -> None:
    body = f"""
        barrier.cluster.arrive.aligned;
        setp.lt.u32 %p1, %t, 32;
        @!%p1 bra A;
        barrier.cluster.wait.aligned;
    A:  {how}
        @!%p1 barrier.cluster.wait;
        mapa.shared::cluster.u32 %b, %a, %next;
        ld.shared::cluster.u32 %r1, [%b];
        {SYNC}
        st.global.u32 [%o], %r1;"""
    findings, out = launch(body, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, of_next())


READ_THE_NEXT = "mapa.shared::cluster.u32 %b, %a, %next; ld.shared::cluster.u32 %r1, [%b]; st.global.u32 [%o], %r1;"


@on_wrong_schedules
def test_a_peer_that_may_exit_before_it_is_read_is_found(schedule: str, seed: int) -> None:
    findings, _ = launch(f"{SYNC} {READ_THE_NEXT}", schedule, seed)
    assert {f.kind for f in findings} <= {FindingKind.RACE, FindingKind.USE_AFTER_FREE}
    assert any("that may have exited" in f.message or "that has exited" in f.message for f in findings)
    relaxed = SYNC.replace("arrive", "arrive.relaxed")
    assert launch(f"{SYNC} {READ_THE_NEXT} {relaxed}", schedule, seed)[0] != []
    assert launch(f"{SYNC} {READ_THE_NEXT} fence.acq_rel.cluster; {relaxed}", schedule, seed)[0] == []


@on_right_schedules
def test_one_thread_that_knows_keeps_its_block_alive(schedule: str, seed: int) -> None:
    leave = "barrier.cluster.arrive.aligned; setp.lt.u32 %p1, %t, 32; @%p1 exit; barrier.cluster.wait;"
    body = f"{SYNC} {READ_THE_NEXT} {leave}"
    findings, out = launch(body, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, of_next())


@on_wrong_schedules
def test_a_relaxed_arrival_orders_no_stores(schedule: str, seed: int) -> None:
    store = "mapa.shared::cluster.u32 %b, %a, %next; st.shared::cluster.u32 [%b+256], %r0;"
    body = f"{SYNC} {store} {{end}} ld.shared.u32 %r1, [%a+256];"
    relaxed = SYNC.replace("arrive", "arrive.relaxed")
    assert launch(body.format(end=SYNC), schedule, seed)[0] == []
    findings, _ = launch(body.format(end=relaxed), schedule, seed)
    assert FindingKind.RACE in {f.kind for f in findings}
    assert launch(body.format(end="fence.acq_rel.cluster;" + relaxed), schedule, seed)[0] == []


def test_a_peer_that_has_exited_is_gone() -> None:
    body = f"""
        {SYNC}
        setp.eq.u32 %p1, %k, 1;
        @%p1 ret;
        mov.u32 %r2, 0;
    L:  add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 2000; @%p2 bra L;
        mapa.shared::cluster.u32 %b, %a, 1;
        ld.shared::cluster.u32 %r1, [%b];"""
    findings, _ = launch(body)
    assert FindingKind.USE_AFTER_FREE in [f.kind for f in findings]
    assert "shared memory of a block of the cluster that has exited (rank 1)" in findings[-1].message
