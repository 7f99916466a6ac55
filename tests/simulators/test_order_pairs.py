"""Every rule of order, twice: the kernel with its edge is silent, the one without is found, whatever the schedule.

`|right|wrong|` in a body is where the two differ.
"""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from async_kernels import module

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(3)]]
on_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

#: Thread 0 of block 0 writes out[0] and sets the flag out[512]; thread 0 of block 1 waits for the flag and reads.
MESSAGE = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; setp.eq.u32 %p2, %r1, 0; @!%p2 bra READ;
    st.global.u32 [%d1], 42; WRITE ret;
    READ: FLAG setp.eq.u32 %p3, %r3, 0; @%p3 bra READ; ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+4], %r4; ret;
"""


def message(write: str, flag: str) -> str:
    return MESSAGE.replace("WRITE", write).replace("FLAG", flag)


RELAXED = "st.relaxed.gpu.global.u32 [%d1+2048], 1;"
POLL = "ld.relaxed.gpu.global.u32 %r3, [%d1+2048];"

#: Every block adds up; the last one to come reads what the others left.
ELECTION = """
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d4, %d1; mov.u32 %r9, tile;
    PARTIAL @%p0 atom.global.inc.u32 %r2, [%d1+2048], 3; @%p0 st.shared.u32 [tile], %r2; bar.sync 0;
    ld.shared.u32 %r2, [tile]; setp.ne.u32 %p2, %r2, 3; @%p2 ret; LAST ld.global.u32 %r4, [%d3_];
    st.global.u32 [%d2+4096], %r4; ret;
"""


def election(partial: str, last: str) -> str:
    read = "and.b32 %r5, %r0, 3; mul.wide.u32 %d5, %r5, 4; add.s64 %d5, %d5, %d1; " + last
    return ELECTION.replace("PARTIAL", partial).replace("LAST", read).replace("%d3_", "%d5")


#: Three blocks hand a sum on through one flag each, with one fence a link.
CHAIN = """
    mov.u32 %r1, %ctaid.x; @!%p0 ret; mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d4, %d1; setp.eq.u32 %p2, %r1, 0;
    @%p2 bra GO;
    WAIT: ld.relaxed.gpu.global.u32 %r3, [%d4+2044]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT;
    LINK setp.ne.u32 %p4, %r1, 2; @%p4 bra PASS; ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+64], %r4; ret;
    PASS: st.relaxed.gpu.global.u32 [%d4+2048], 1; ret;
    GO: st.global.u32 [%d1], 7; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d4+2048], 1; ret;
"""

OBJECT = """mov.u32 %r5, tile; mov.u32 %r6, bar; @%p0 mbarrier.init.shared::cta.b64 [bar], COUNT;
    @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1; bar.sync 0; mad.lo.u32 %r7, %r0, 4, %r5;"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"
LOAD = """@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d0], 256, [%r6];"""
READ = "ld.shared.u32 %r9, [%r7]; st.global.u32 [%d2], %r9; ret;"
MIRROR = "sub.u32 %r10, 63, %r0; mad.lo.u32 %r10, %r10, 4, %r5;"
BULK_OUT = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256; cp.async.bulk.commit_group;"

CLUSTER = """mov.u32 %r5, tile; mov.u32 %r6, bar; mov.u32 %r20, %cluster_ctarank; xor.b32 %r23, %r20, 1;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r21, %r5, %r23; mapa.shared::cluster.u32 %r22, %r6, %r23; setp.eq.u32 %p7, %r20, 0;"""
LEAVE = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"


@dataclass(frozen=True)
class Pair:
    """A body with its two variants, and what the wrong one's finding says."""

    body: str
    said: str = ""
    kind: FindingKind = FindingKind.RACE
    blocks: int = 1
    cluster: int = 1


PAIRS: dict[str, Pair] = {
    "fence before a flag": Pair(
        message("|fence.acq_rel.gpu;||" + RELAXED, POLL + "fence.acq_rel.gpu;"), "orders the two blocks", blocks=2
    ),
    "fence behind a flag": Pair(
        message("fence.acq_rel.gpu;" + RELAXED, POLL + "|fence.acq_rel.gpu;||"), "orders the two blocks", blocks=2
    ),
    "scope of a fence": Pair(
        message("fence.acq_rel.|gpu|cta|;" + RELAXED, POLL + "fence.acq_rel.gpu;"),
        "does not reach", FindingKind.SCOPE, blocks=2,
    ),
    "one-sided fences": Pair(
        message("fence.|release|acquire|.gpu;" + RELAXED, POLL + "fence.acquire.gpu;"), "orders the two", blocks=2
    ),
    "release and acquire": Pair(
        message(
            "st.|release|relaxed|.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"
        ),
        "orders the two", blocks=2,
    ),
    "acquire, not relaxed": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", "ld.|acquire|relaxed|.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2,
    ),
    "scope of a release": Pair(
        message("st.release.|gpu|cta|.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        kind=FindingKind.SCOPE, blocks=2,
    ),
    "volatile flag behind membar": Pair(
        message("|membar.gl;||st.volatile.global.u32 [%d1+2048], 1;",
            "ld.volatile.global.u32 %r3, [%d1+2048]; membar.gl;",
        ),
        "orders the two", blocks=2,
    ),
    "a release before a relaxed store of one place": Pair(
        message("st.|release|relaxed|.gpu.global.u32 [%d1+2048], 0;" + RELAXED, POLL + "fence.acq_rel.gpu;"),
        "orders the two", blocks=2,
    ),
    "a red does not publish without a fence": Pair(
        message("|fence.acq_rel.gpu;||red.global.add.u32 [%d1+2048], 1;", POLL + "fence.acq_rel.gpu;"),
        "orders the two", blocks=2,
    ),
    "first fence of an election": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; |membar.gl;||", "membar.gl;"), "orders the two", blocks=4
    ),
    "second fence of an election": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; membar.gl;", "|membar.gl;||"), "orders the two", blocks=4
    ),
    "fences across the barrier must be sequential": Pair(
        election("@%p0 st.global.u32 [%d4], %r1; membar.gl;", "|membar.gl;|fence.acq_rel.gpu;|"), "orders", blocks=4
    ),
    "all fence, one arrives": Pair(
        election(
            "setp.eq.u32 %p5, %r0, 33; @%p5 st.global.u32 [%d4], %r1; |membar.gl;|| bar.sync 0;", "membar.gl;"
        ),
        "orders the two", blocks=4,
    ),
    "one fence a link": Pair(CHAIN.replace("LINK", "|fence.acq_rel.gpu;||"), "orders the two", blocks=3),
    "atomics of block scope from two blocks": Pair(
        "red.relaxed.|gpu|cta|.global.add.u32 [%d1], 1; ret;", "the scope of one", FindingKind.SCOPE, blocks=2
    ),
    "a plain start value beside atomics": Pair(
        "|| mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; and.pred %p2, %p2, %p0;"
        "@%p2 st.global.u32 [%d1], 5; bar.sync 0;|"
        "red.global.add.u32 [%d1], 1; ret;",
        "global memory", blocks=2,
    ),
    "atomics of different sizes": Pair(
        "@%p0 red.global.add.u64 [%d1], 1; @!%p0 red.global.add.|u64 [%d1+8], 1|u32 [%d1], 1|; ret;", "updates global"
    ),
    "ld.global.nc of bytes that are written": Pair(
        "st.global.u32 [%d2], %r0; ld.global|.|.nc.|u32 %r4, [%d2]; ret;", "ld.global.nc may only"
    ),
    "two blocks write one place": Pair(
        "mov.u32 %r1, %ctaid.x; |mul.wide.u32 %d4, %r1, 4; add.s64 %d1, %d1, %d4;||"
        "@%p0 st.global.u32 [%d1], %r1; ret;",
        blocks=2,
    ),
    "global memory needs barriers too": Pair(
        f"mov.u32 %r5, tile; {MIRROR} st.global.u32 [%d2], %r0; |bar.sync 0;|| sub.u32 %r10, 63, %r0;"
        "mul.wide.u32 %d4, %r10, 4; add.s64 %d4, %d4, %d1; ld.global.u32 %r9, [%d4]; ret;",
        "with no barrier between",
    ),
    "part of a warp": Pair(
        "setp.gt.u32 %p2, %r0, 1; @%p2 ret; mov.u32 %r5, tile; mad.lo.u32 %r7, %r0, 4, %r5; st.shared.u32 [%r7], %r0;"
        "|bar.warp.sync 3;|| xor.b32 %r8, %r7, 4; ld.shared.u32 %r9, [%r8]; ret;",
        "__syncwarp() is missing",
    ),
    "bar.arrive publishes": Pair(
        "mov.u32 %r5, tile; setp.lt.u32 %p2, %r0, 32; @!%p2 bra C; @%p0 st.shared.u32 [tile], 1; |bar.arrive 1, 64;|"
        "bar.arrive 1, 64; st.shared.u32 [tile], 2;| ret; C: bar.sync 1, 64; ld.shared.u32 %r9, [tile]; ret;",
    ),
    "bar.arrive learns nothing": Pair(
        "setp.eq.u32 %p3, %r0, 32; setp.lt.u32 %p2, %r0, 32; @!%p2 bra C; bar.|sync|arrive| 1, 64;"
        "@%p0 ld.shared.u32 %r9, [tile]; ret; C: @%p3 st.shared.u32 [tile], 1; bar.sync 1, 64; ret;",
    ),
    "wait for cp.async": Pair(
        OBJECT.replace("COUNT", "1") + "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group;"
        "|cp.async.wait_group 0;||" + READ,
        "has not waited for group 0",
    ),
    "which group of cp.async": Pair(
        OBJECT.replace("COUNT", "1") + "cp.async.ca.shared.global [%r7+1024], [%d3], 4; cp.async.commit_group;"
        "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group; cp.async.wait_group |0|1|;" + READ,
        "the wait covers groups below 1, this is 1",
    ),
    "cp.async of another thread": Pair(
        OBJECT.replace("COUNT", "1") + MIRROR + "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.wait_all;"
        "|bar.sync 0;|| ld.shared.u32 %r9, [%r10]; st.global.u32 [%d2], %r9; ret;",
        "no barrier follows the wait",
    ),
    "wait for a bulk copy": Pair(
        OBJECT.replace("COUNT", "1") + LOAD + "|" + WAIT + "||" + READ, "nobody on it waited for phase 0"
    ),
    "one lane waits for all": Pair(
        OBJECT.replace("COUNT", "1") + LOAD + "@!%p0 bra J;" + WAIT + "J: |bar.sync 0;||" + READ, "phase 0"
    ),
    "generic write, then a bulk store": Pair(
        OBJECT.replace("COUNT", "1") + "st.shared.u32 [%r7], %r0; |fence.proxy.async.shared::cta;||"
        "bar.sync 0; @!%p0 ret;" + BULK_OUT + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence stands between: the writes",
    ),
    "the issuer may fence": Pair(
        OBJECT.replace("COUNT", "1") + "st.shared.u32 [%r7], %r0; bar.sync 0; @!%p0 ret; |fence.proxy.async;||"
        + BULK_OUT + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence",
    ),
    "the fence's space": Pair(
        OBJECT.replace("COUNT", "1") + "st.shared.u32 [%r7], %r0; fence.proxy.async.|shared::cta|global|;"
        "bar.sync 0; @!%p0 ret;" + BULK_OUT + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence",
    ),
    "the source of a bulk store is free": Pair(
        OBJECT.replace("COUNT", "1") + "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0; @!%p0 bra J;"
        + BULK_OUT + "|cp.async.bulk.wait_group.read 0;|| J: bar.sync 0; st.shared.u32 [%r7], 1; bar.sync 0;"
        "@%p0 cp.async.bulk.wait_group 0; ret;",
        "the bulk copy's read of its source",
    ),
    "a bulk store is written": Pair(
        OBJECT.replace("COUNT", "1") + "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0; @!%p0 bra J;"
        + BULK_OUT + "cp.async.bulk.wait_group||.read| 0; J: bar.sync 0; ld.global.u32 %r9, [%d2]; ret;",
        "the bulk copy's write",
    ),
    "generic reads, then a refill": Pair(
        OBJECT.replace("COUNT", "64") + "ld.shared.u32 %r9, [%r7+1024]; |fence.proxy.async.shared::cta;||"
        "mbarrier.arrive.shared::cta.b64 _, [bar]; @!%p0 ret;" + WAIT + "add.u32 %r8, %r6, 8; add.u32 %r10, %r5, 1024;"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 256;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%d0], 256, [%r8];"
        "V: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar+8], 0; @!%p4 bra V; ret;",
        "no proxy fence stands between: the reads",
    ),
    "read before the slot is released": Pair(
        OBJECT.replace("COUNT", "32") + "@%p1 bra R;" + WAIT + "st.shared.u32 [%r7], 1; ret; R: add.u32 %r8, %r7, 128;"
        "|ld.shared.u32 %r9, [%r8]; mbarrier.arrive.shared::cta.b64 _, [bar];|"
        "mbarrier.arrive.shared::cta.b64 _, [bar]; ld.shared.u32 %r9, [%r8];| ret;",
        "with no barrier between",
    ),
    "a relaxed arrival publishes what was fenced": Pair(
        OBJECT.replace("COUNT", "32") + "@%p1 bra R;" + WAIT + "ld.shared.u32 %r9, [tile]; ret;"
        "R: @%p0 st.shared.u32 [tile], 5; |fence.acq_rel.cta;||"
        "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar]; ret;",
        "with no barrier between",
    ),
    "cluster barrier": Pair(
        CLUSTER + "st.shared.u32 [tile], 1; barrier.cluster.arrive|.release|.relaxed|.aligned;"
        "barrier.cluster.wait.aligned;"
        "ld.shared::cluster.u32 %r9, [%r21];" + LEAVE,
        "orders the two blocks", blocks=2, cluster=2,
    ),
    "data through a peer's mbarrier": Pair(
        CLUSTER + "@!%p0 bra L; @!%p7 bra B; st.shared::cluster.u32 [%r21], 9;"
        "mbarrier.arrive.release.|cluster|cta|.shared::cluster.b64 _, [%r22]; bra L;"
        "B: W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"
        "ld.shared.u32 %r9, [tile]; L:" + LEAVE,
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
}  # fmt: skip


def variant(body: str, right: bool) -> str:
    return re.sub(r"\|([^|]*)\|([^|]*)\|", lambda found: found[1 if right else 2], body)


def launch(pair: Pair, right: bool, schedule: str, seed: int) -> list[Finding]:
    device = Device(schedule=schedule, seed=seed)
    args = (device.upload(np.arange(2048, dtype=np.uint32)), device.upload(np.zeros(2048, np.uint32)))
    kernel = device.load_ptx(module(variant(pair.body, right), ""))["k"]
    grid, cluster = (pair.blocks, 1, 1), (pair.cluster, 1, 1)
    return kernel.launch(grid=grid, block=(64, 1, 1), args=args, cluster=cluster).findings


@on_schedules
@pytest.mark.parametrize("name", PAIRS)
def test_the_kernel_with_its_edge_is_silent(name: str, schedule: str, seed: int) -> None:
    assert launch(PAIRS[name], True, schedule, seed) == []


@on_schedules
@pytest.mark.parametrize("name", PAIRS)
def test_the_kernel_without_it_is_found(name: str, schedule: str, seed: int) -> None:
    pair = PAIRS[name]
    findings = [finding for finding in launch(pair, False, schedule, seed) if finding.kind is pair.kind]
    assert findings
    if schedule == "friendly":  # which of the two accesses comes first is the schedule's
        assert any(pair.said in finding.message for finding in findings), [finding.message for finding in findings]
