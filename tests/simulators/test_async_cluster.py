"""mbarriers and copies between the blocks of a cluster: remote arrivals, multicast, `st.async`, `red.async`."""

import numpy as np
import pytest
from async_kernels import SCHEDULES, on_all_schedules, on_few_schedules, run

from tileproof.simulators.ptx.findings import FindingKind

COMPLETES = "mbarrier::complete_tx::bytes"
# Thread 0 of every block initialises the first mbarrier for {count} arrivals; then all blocks of the cluster meet.
# %r5, %r6: addresses of the tile and the mbarrier; %r20: the block's rank; %r21 and %r22: those of tile and mbarrier in
# the next block of the cluster of {blocks}. %d2 becomes the address of this thread's word among all blocks'.
SETUP = """mov.u32 %r5, tile; mov.u32 %r6, bar; @%p0 mbarrier.init.shared::cta.b64 [bar], {count};
fence.mbarrier_init.release.cluster; fence.proxy.async;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
mov.u32 %r20, %cluster_ctarank; add.u32 %r23, %r20, 1; rem.u32 %r23, %r23, {blocks};
mapa.shared::cluster.u32 %r21, %r5, %r23; mapa.shared::cluster.u32 %r22, %r6, %r23;
mov.u32 %r24, %ctaid.x; mul.wide.u32 %d9, %r24, 256; add.s64 %d2, %d2, %d9;"""
WAIT = "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"
LEAVE = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"
LOAD = f"mul.lo.u32 %r7, %r0, 4; add.u32 %r7, %r7, %r5; ld.shared.u32 %r8, [%r7]; st.global.u32 [%d2], %r8; {LEAVE}"


def setup(count: int = 1, blocks: int = 2) -> str:
    """The prologue of every kernel here."""
    return SETUP.format(count=count, blocks=blocks)


@on_all_schedules
@pytest.mark.parametrize(
    "form", ["release.cluster.shared::cluster", "shared::cluster", "relaxed.cluster.shared::cluster"]
)
def test_threads_arrive_on_the_mbarrier_of_a_peer(form: str, schedule: str, seed: int) -> None:
    body = f"{setup(64, 4)} mbarrier.arrive.{form}.b64 _, [%r22]; {WAIT} st.global.u32 [%d2], %r0; {LEAVE}"
    outcome = run(body, schedule, seed, blocks=8, cluster=4)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[: 8 * 64], np.tile(np.arange(64), 8))


@on_few_schedules
def test_generic_addresses_reach_a_peer(schedule: str, seed: int) -> None:
    body = f"""{setup(64)} cvta.shared.u64 %d6, bar; mapa.u64 %d7, %d6, %r23;
    mbarrier.arrive.release.cluster.b64 _, [%d7]; {WAIT} st.global.u32 [%d2], %r0; {LEAVE}"""
    outcome = run(body, schedule, seed, blocks=2, cluster=2)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:128], np.tile(np.arange(64), 2))


@on_all_schedules
def test_a_peer_may_expect_and_complete_bytes(schedule: str, seed: int) -> None:
    body = f"""{setup(1)} @%p0 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r22], 64;
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r22], 1; {WAIT} st.global.u32 [%d2], %r0; {LEAVE}"""
    outcome = run(body, schedule, seed, blocks=2, cluster=2)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:128], np.tile(np.arange(64), 2))


@on_all_schedules
@pytest.mark.parametrize("mask", [0b1111, 0b0101, 0b0001])
def test_a_multicast_writes_and_signals_every_block_of_its_mask(mask: int, schedule: str, seed: int) -> None:
    """Rank 0 sends to the blocks of the mask; each of them expects the bytes itself."""
    body = f"""{setup(1, 4)} mov.u32 %r9, {mask}; shr.u32 %r10, %r9, %r20; and.b32 %r10, %r10, 1;
    setp.eq.u32 %p6, %r10, 1; and.pred %p7, %p6, %p0; cvt.u16.u32 %h0, %r9;
    @%p7 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; setp.eq.u32 %p8, %r20, 0; and.pred %p8, %p8, %p0;
    @%p8 cp.async.bulk.shared::cluster.global.{COMPLETES}.multicast::cluster [%r5], [%d0], 256, [%r6], %h0;
    @!%p6 bra OUT; {WAIT} mul.lo.u32 %r7, %r0, 4; add.u32 %r7, %r7, %r5; ld.shared.u32 %r8, [%r7];
    st.global.u32 [%d2], %r8; OUT: {LEAVE}"""
    outcome = run(body, schedule, seed, blocks=4, cluster=4)
    assert outcome.findings == []
    expected = [np.arange(64) * (mask >> rank & 1) for rank in range(4)]
    np.testing.assert_array_equal(outcome.out[:256], np.concatenate(expected))


@on_all_schedules
def test_a_block_that_saw_a_peers_multicast_land_may_end(schedule: str, seed: int) -> None:
    """No cluster barrier at the end, as in CUTLASS: each block waits for what the other one sends. One that does not
    wait ends while its shared memory is written.
    """
    sent = f"""{setup(1)} mov.u16 %h0, 3; shl.b32 %r9, %r20, 8; add.u32 %r10, %r5, %r9;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
    @%p0 cp.async.bulk.shared::cluster.global.{COMPLETES}.multicast::cluster [%r10], [%d0], 256, [%r6], %h0;"""
    right = run(f"{sent} {WAIT} ret;", schedule, seed, blocks=2, cluster=2)
    assert right.findings == []
    wrong = run(f"{sent} setp.eq.u32 %p7, %r20, 1; @%p7 ret; {WAIT} ret;", schedule, seed, blocks=2, cluster=2)
    kinds = {finding.kind for finding in wrong.findings}
    assert kinds & {FindingKind.RACE, FindingKind.USE_AFTER_FREE}


@on_all_schedules
def test_shared_memory_is_copied_to_a_peer(schedule: str, seed: int) -> None:
    body = f"""{setup(1)} mul.lo.u32 %r7, %r0, 4; add.u32 %r7, %r7, %r5; mad.lo.u32 %r8, %r20, 1000, %r0;
    st.shared.u32 [%r7+1024], %r8; fence.proxy.async; bar.sync 0; add.u32 %r9, %r5, 1024;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.async.bulk.shared::cluster.shared::cta.{COMPLETES} [%r21], [%r9], 256, [%r22]; {WAIT} {LOAD}"""
    outcome = run(body, schedule, seed, blocks=4, cluster=2)
    assert outcome.findings == []
    expected = [np.arange(64) + 1000 * (1 - block % 2) for block in range(4)]
    np.testing.assert_array_equal(outcome.out[:256], np.concatenate(expected))


STORES = {
    "one word": ("st.async.weak.shared::cluster.{}.b32 [%r25], %r26, [%r22];", 4, [0]),
    "a long word": ("mov.b64 %d8, {{%r26, %r27}}; st.async.shared::cluster.{}.b64 [%r25], %d8, [%r22];", 8, [0, 1]),
    "two words": ("st.async.shared::cluster.{}.v2.u32 [%r25], {{%r26, %r27}}, [%r22];", 8, [0, 1]),
    "four words": ("st.async.shared::cluster.{}.v4.b32 [%r25], {{%r26, %r27, %r26, %r27}}, [%r22];", 16, [0, 1, 0, 1]),
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:3])
@pytest.mark.parametrize("name", STORES)
def test_stores_to_a_peer_tell_its_mbarrier(name: str, schedule: str, seed: int) -> None:
    form, size, words = STORES[name]
    body = f"""{setup(1)} mul.lo.u32 %r25, %r0, 16; add.u32 %r25, %r25, %r21; mad.lo.u32 %r26, %r20, 1000, %r0;
    add.u32 %r27, %r26, 500; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {64 * size};
    {form.format(COMPLETES)} {WAIT} mul.lo.u32 %r7, %r0, 16; add.u32 %r7, %r7, %r5;
    ld.shared.u32 %r8, [%r7]; ld.shared.u32 %r9, [%r7+{size - 4}]; mul.lo.u32 %r9, %r9, 10000;
    add.u32 %r8, %r8, %r9; st.global.u32 [%d2], %r8; {LEAVE}"""
    outcome = run(body, schedule, seed, blocks=2, cluster=2)
    assert outcome.findings == []
    for block in range(2):
        sent = np.stack((np.arange(64) + 1000 * (1 - block), np.arange(64) + 1000 * (1 - block) + 500))
        expected = sent[words[0]] + 10000 * sent[words[-1]]
        np.testing.assert_array_equal(outcome.out[64 * block :][:64], expected)


REDUCTIONS = {
    "add.u32": lambda values: values.sum(),
    "add.s32": lambda values: values.sum(),
    "min.s32": lambda values: min(5, values.min()),
    "max.u32": lambda values: max(5, values.max()),
    "or.b32": lambda values: np.bitwise_or.reduce(values) | 5,
    "xor.b32": lambda values: np.bitwise_xor.reduce(values) ^ 5,
    "and.b32": lambda values: np.bitwise_and.reduce(values) & 5,
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_into_a_peer_tell_its_mbarrier(name: str, schedule: str, seed: int) -> None:
    start = 0 if name.startswith("add") else 5
    body = f"""{setup(1)} @%p0 st.shared.u32 [tile], {start}; barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned; add.u32 %r26, %r0, 3;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    red.async.relaxed.cluster.shared::cluster.{COMPLETES}.{name} [%r21], %r26, [%r22];
    {WAIT} ld.shared.u32 %r8, [tile]; st.global.u32 [%d2], %r8; {LEAVE}"""
    outcome = run(body, schedule, seed, blocks=2, cluster=2)
    assert outcome.findings == []
    assert (outcome.out[:128] == REDUCTIONS[name](np.arange(64) + 3)).all()


# name: (kernel, kind, what the finding says)
WRONG = {
    "signal in another block than the bytes": (
        f"""{setup()} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
        @%p0 cp.async.bulk.shared::cluster.global.{COMPLETES} [%r21], [%d0], 256, [%r6]; {WAIT} {LEAVE}""",
        FindingKind.BARRIER,
        "signals an mbarrier that is not in the block that it writes to",
    ),
    "store whose signal is in another block": (
        f"""{setup()} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;
        @%p0 st.async.shared::cluster.{COMPLETES}.b32 [%r21], %r0, [%r6]; {WAIT} {LEAVE}""",
        FindingKind.BARRIER,
        "signals an mbarrier that is not in the block that it writes to",
    ),
    "arrival on a peer before any cluster barrier": (
        "mov.u32 %r6, bar; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; mov.u32 %r20, %cluster_ctarank;"
        "xor.b32 %r23, %r20, 1; mapa.shared::cluster.u32 %r22, %r6, %r23;"
        "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22]; ret;",
        FindingKind.RACE,
        "may not have started, with no cluster barrier before",
    ),
    "arrival on a peer that has exited": (
        f"""{setup()} setp.eq.u32 %p6, %r20, 1; @%p6 ret; mov.u32 %r9, 0;
        L: add.u32 %r9, %r9, 1; setp.lt.u32 %p7, %r9, 2000; @%p7 bra L;
        @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22]; ret;""",
        FindingKind.USE_AFTER_FREE,
        "shared memory of a block of the cluster that has exited",
    ),
    "multicast beyond the cluster": (
        f"""{setup()} mov.u16 %h0, 7; setp.eq.u32 %p6, %r20, 0; and.pred %p7, %p6, %p0;
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
        @%p7 cp.async.bulk.shared::cluster.global.{COMPLETES}.multicast::cluster [%r5], [%d0], 256, [%r6], %h0;
        {WAIT} {LEAVE}""",
        FindingKind.OUT_OF_BOUNDS,
        "copies to a block beyond the 2 of the cluster (mask 0x7, rank 2)",
    ),
    "multicast before the peer has initialised": (
        f"""mov.u32 %r5, tile; mov.u32 %r6, bar; mov.u32 %r20, %cluster_ctarank; setp.eq.u32 %p6, %r20, 0;
        and.pred %p7, %p6, %p0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u16 %h0, 2;
        @%p7 cp.async.bulk.shared::cluster.global.{COMPLETES}.multicast::cluster [%r5], [%d0], 256, [%r6], %h0;
        {LEAVE}""",
        FindingKind.BARRIER,
        "uses an mbarrier that nothing initialised",
    ),
    "load into a peer that nobody there waits for": (
        f"""{setup()} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
        @%p0 cp.async.bulk.shared::cluster.global.{COMPLETES} [%r21], [%d0], 256, [%r22]; {LEAVE}""",
        FindingKind.ASYNC,
        "a block exits although nobody saw",
    ),
}


@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *[("adversarial", seed) for seed in range(3)]])
@pytest.mark.parametrize("name", WRONG)
def test_misuse_between_blocks_is_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said = WRONG[name]
    findings = run(body, schedule, seed, blocks=2, cluster=2).findings
    assert any(finding.kind is kind and said in finding.message for finding in findings), findings


@on_few_schedules
def test_a_deadlock_names_the_peer_s_object(schedule: str, seed: int) -> None:
    """Rank 1 arrives on its own object instead of the peer's."""
    body = f"""{setup()} @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];
    {WAIT} {LEAVE}""".replace("[%r22]", "[%r21+4096]")
    body = body.replace("add.u32 %r23, %r20, 1; rem.u32 %r23, %r23, 2;", "mov.u32 %r23, 1;")
    found = run(body, schedule, seed, blocks=2, cluster=2).findings
    deadlocks = [finding for finding in found if finding.kind is FindingKind.DEADLOCK]
    assert len(deadlocks) == 1, found
    assert "of block (0, 0, 0) is in phase 0 (parity 0), which misses 1 of 1 arrivals" in deadlocks[0].message
