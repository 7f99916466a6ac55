"""Order inside a cluster."""

from order_pair import Pair
from order_pairs_memory import POLL, RELAXED, inside, message

from tileproof.simulators.ptx.findings import FindingKind

CLUSTER = """mov.u32 %r5, tile; mov.u32 %r6, bar; mov.u32 %r20, %cluster_ctarank; xor.b32 %r23, %r20, 1;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r21, %r5, %r23; mapa.shared::cluster.u32 %r22, %r6, %r23; setp.eq.u32 %p7, %r20, 0;"""
LEAVE = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"
WAIT_FOR_PEER = "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"
RED_ASYNC = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r21], %r0, [%r22];"

#: Block 0 signals block 1's barrier, and thread 0 there goes on.
SIGNALLED = CLUSTER + "@!%p0 bra L; @!%p7 bra B; SIGNAL bra L;B:" + WAIT_FOR_PEER + "THEN L:" + LEAVE


def signalled(signal: str, then: str) -> str:
    return SIGNALLED.replace("SIGNAL", signal).replace("THEN", then)


START_UP = CLUSTER.replace("barrier.cluster.arrive.aligned", "FENCE barrier.cluster.arrive.relaxed.aligned")
#: A bulk load of what a peer wrote to global memory, with a proxy fence before it or not.
COPIED = """mov.u32 %r5, tile; mov.u32 %r6, bar; add.u32 %r7, %r6, 8; mbarrier.init.shared::cta.b64 [%r7], 1;
    |fence.proxy.async;|| mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d1], 16, [%r7];
    C: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], 0; @!%p4 bra C;"""

READ_BACK = "ld.global.u32 %r4, [%d1]; st.global.u32 [%d1+4], %r4;"

PAIRS: dict[str, Pair] = {
    "cluster barrier": Pair(
        CLUSTER + "st.shared.u32 [tile], 1; barrier.cluster.arrive|.release|.relaxed|.aligned;"
        "barrier.cluster.wait.aligned;"
        "ld.shared::cluster.u32 %r9, [%r21];" + LEAVE,
        "orders the two blocks", blocks=2, cluster=2,
    ),
    "data through a peer's mbarrier": Pair(
        CLUSTER + "@!%p0 bra L; @!%p7 bra B; st.shared::cluster.u32 [%r21], 9;"
        "mbarrier.arrive.release.|cluster|cta|.shared::cluster.b64 _, [%r22]; bra L;"
        "B:" + WAIT_FOR_PEER + "ld.shared.u32 %r9, [tile]; L:" + LEAVE,
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "write after the arrival": Pair(
        CLUSTER + "|st.shared.u32 [tile], 1; barrier.cluster.arrive.aligned;|"
        "barrier.cluster.arrive.aligned; st.shared.u32 [tile], 1;| barrier.cluster.wait.aligned;"
        "ld.shared::cluster.u32 %r9, [%r21];" + LEAVE,
        "orders the two blocks", blocks=2, cluster=2,
    ),
    "a wait that acquires from the cluster": Pair(
        signalled("st.shared::cluster.u32 [%r21], 9; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];",
            "ld.shared.u32 %r9, [tile];").replace(".acquire.cluster", ".acquire.|cluster|cta|"),
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "reads before an arrival on a peer's mbarrier": Pair(
        CLUSTER.replace("barrier.cluster.arrive", "st.shared.u32 [tile], 1; barrier.cluster.arrive", 1)
        + signalled("|ld.shared.u32 %r9, [tile];|st.shared.u32 [tile], 2;|"
            "mbarrier.arrive.shared::cluster.b64 _, [%r22];", "st.shared::cluster.u32 [%r21], 9;")[len(CLUSTER):],
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "a fence and a relaxed arrival on a peer's mbarrier": Pair(
        signalled("st.shared::cluster.u32 [%r21], 9; fence.acq_rel.|cluster|cta|;"
            "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r22];", "ld.shared.u32 %r9, [tile];"),
        "ld.shared.u32 reads", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "fence.mbarrier_init": Pair(
        START_UP.replace("FENCE", "|fence.mbarrier_init.release.cluster;||")
        + "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];" + WAIT_FOR_PEER + LEAVE,
        "mbarrier.arrive", blocks=2, cluster=2,
    ),
    "a peer has started": Pair(
        CLUSTER.replace("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
            "|barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;||")
        + "@%p0 st.shared::cluster.u32 [%r21], 1;" + LEAVE,
        "may not have started", blocks=2, cluster=2,
    ),
    "a peer is still there": Pair(
        CLUSTER + "@%p0 st.shared::cluster.u32 [%r21], 1; |" + LEAVE.replace("ret;", "") + "|| ret;",
        "that block's end", blocks=2, cluster=2,
    ),
    "atomics of a cluster": Pair(
        "red.relaxed.|cluster|cta|.global.add.u32 [%d1], 1; ret;", "the scope of one", FindingKind.SCOPE, blocks=2,
        cluster=2,
    ),
    "release and acquire of a cluster": Pair(
        message("st.|release|relaxed|.cluster.global.u32 [%d1+2048], 1;",
            "ld.acquire.cluster.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2, cluster=2,
    ),
    "release and acquire of the GPU in a cluster": Pair(
        message("st.|release|relaxed|.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=2, cluster=2,
    ),
    "release and acquire between clusters": Pair(
        message("st.|release|relaxed|.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];"),
        "orders the two", blocks=4, cluster=2,
    ),
    "a release of block scope, handed on in a cluster": Pair(
        message("st.release.|cluster|cta|.global.u32 [%d1+2048], 1; red.relaxed.cluster.global.add.u32 [%d1+2048], 1;",
            "ld.acquire.cluster.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "a fence of the cluster": Pair(
        message("fence.acq_rel.|cluster|cta|; st.relaxed.cluster.global.u32 [%d1+2048], 1;",
            "ld.relaxed.cluster.global.u32 %r3, [%d1+2048]; fence.acq_rel.cluster;"),
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "an acquiring fence of the cluster": Pair(
        message("fence.acq_rel.cluster; st.relaxed.cluster.global.u32 [%d1+2048], 1;",
            "ld.relaxed.cluster.global.u32 %r3, [%d1+2048]; fence.acq_rel.|cluster|cta|;"),
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "proxy fence of the copying block, flag": Pair(
        message("fence.proxy.async; st.release.gpu.global.u32 [%d1+2048], 1;",
            "ld.acquire.gpu.global.u32 %r3, [%d1+2048];").replace(READ_BACK, COPIED),
        "no proxy fence", blocks=2,
    ),
    "proxy fence of the copying block, flag in a cluster": Pair(
        message("fence.proxy.async; st.release.cluster.global.u32 [%d1+2048], 1;",
            "ld.acquire.cluster.global.u32 %r3, [%d1+2048];").replace(READ_BACK, COPIED),
        "no proxy fence", blocks=2, cluster=2,
    ),
    "proxy fence of the copying block, mbarrier": Pair(
        signalled("@%p0 st.global.u32 [%d1], 9; fence.proxy.async;"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];", COPIED),
        "no proxy fence", blocks=2, cluster=2,
    ),
    "proxy fence of the copying block, cluster barrier": Pair(
        CLUSTER + "@!%p7 bra M; @%p0 st.global.u32 [%d1], 9; fence.proxy.async; M: barrier.cluster.arrive.aligned;"
        "barrier.cluster.wait.aligned; @%p7 bra L; @!%p0 bra L;" + COPIED + "L:" + LEAVE,
        "no proxy fence", blocks=2, cluster=2,
    ),
    "a fence and a relaxed cluster barrier": Pair(
        CLUSTER + "st.shared.u32 [tile], 1; |fence.acq_rel.cluster;|| barrier.cluster.arrive.relaxed.aligned;"
        "barrier.cluster.wait.aligned; ld.shared::cluster.u32 %r9, [%r21];" + LEAVE,
        "orders the two blocks", blocks=2, cluster=2,
    ),
    "fence.mbarrier_init is for inits": Pair(
        START_UP.replace("FENCE", "@%p0 st.shared.u32 [tile], 1; fence.mbarrier_init.release.cluster;")
        .replace("arrive.relaxed", "arrive|.release|.relaxed|") + "@%p0 ld.shared::cluster.u32 %r9, [%r21];" + LEAVE,
        "reads shared memory", blocks=2, cluster=2,
    ),
    "a copy from a peer is complete": Pair(
        CLUSTER + "@!%p0 bra L; @%p7 bra Z; st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0}; fence.proxy.async;"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21], [%r5], 16, [%r22]; bra L;"
        "Z: mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16; |W: mbarrier.try_wait.parity.shared::cta.b64 %p4,"
        "[bar], 0; @!%p4 bra W;|| L:" + LEAVE,
        "a block ends and gives up shared memory", blocks=2, cluster=2,
    ),
    "a fence of the own block, through the cluster barrier": Pair(
        CLUSTER + "setp.eq.u32 %p8, %r0, 32; @%p7 bra M; @!%p8 bra M; st.global.v4.u32 [%d1], {%r0, %r0, %r0, %r0};"
        "|fence.proxy.async;|| M: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p7 bra L;"
        "@!%p0 bra L;" + COPIED.replace("|fence.proxy.async;||", "") + "L:" + LEAVE,
        "no proxy fence", blocks=2, cluster=2,
    ),
    "an acquire reaches who released": Pair(
        message("st.release.cluster.global.u32 [%d1+2048], 1;", "ld.relaxed.cluster.global.u32 %r3, [%d1+2048];")
        .replace("@%p3 bra READ;", "@%p3 bra READ; red.relaxed.cluster.global.add.u32 [%d1+2048], 1;"
            "ld.acquire.|cluster|cta|.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "an acquire of block scope reaches no peer's release of GPU scope": Pair(
        message("st.release.gpu.global.u32 [%d1+2048], 1;", "ld.relaxed.gpu.global.u32 %r3, [%d1+2048];")
        .replace("@%p3 bra READ;", "@%p3 bra READ; red.relaxed.gpu.global.add.u32 [%d1+2048], 1;"
            "ld.acquire.|gpu|cta|.global.u32 %r3, [%d1+2048];"),
        "ld.global.u32 reads", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
    "a fence of block scope behind a flag of GPU scope, in a block of a cluster": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p4, %r1, 1; @%p4 ret;"
        + inside("fence.acq_rel.gpu;" + RELAXED, POLL + "|fence.acq_rel.cta;||"),
        "with no barrier between", blocks=2, cluster=2,
    ),
    "the last thread of a block knows of a peer's access": Pair(
        CLUSTER + "@%p7 bra Z; setp.eq.u32 %p8, %r0, 32; @%p8 bra Q; @!%p0 ret;" + WAIT_FOR_PEER
        + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22]; ret;"
        "Q: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra Q;"
        "st.relaxed.gpu.global.u32 [%d1+2052], 1; ret;"
        "Z: @!%p0 ret; st.shared::cluster.u32 [%r21], 9; st.relaxed.gpu.global.u32 [%d1+2048], 1;"
        "X: ld.relaxed.gpu.global.u32 %r3, [%d1+2052]; setp.eq.u32 %p3, %r3, 0; @%p3 bra X;"
        "mbarrier.arrive.release.|cluster|cta|.shared::cluster.b64 _, [%r22];"
        + WAIT_FOR_PEER.replace("W", "V") + "ret;",
        "a block ends", blocks=2, cluster=2,
    ),
    "a read of a peer's memory, and an arrival of block scope": Pair(
        CLUSTER + "@!%p0 ret; @!%p7 bra B; |ld.shared::cluster.u32 %r9, [%r21];|st.shared::cluster.u32 [%r21], 9;|"
        "mbarrier.arrive.shared::cluster.b64 _, [%r22]; ret; B:" + WAIT_FOR_PEER + "ret;",
        "a block ends and gives up", blocks=2, cluster=2,
    ),
    "a barrier's round is known through a peer": Pair(
        CLUSTER + "setp.eq.u32 %p8, %r0, 32; @%p7 bra A; @!%p0 bra L;" + WAIT_FOR_PEER
        + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22]; bra L;"
        "A: @%p1 bra F; bar.sync 1, 64; @%p8 mbarrier.arrive.release.|cluster|cta|.shared::cluster.b64 _, [%r22];"
        "bar.sync 1, 64; bra L; F: bar.arrive 1, 64;" + WAIT_FOR_PEER.replace("W", "V") + "bar.arrive 1, 64; L:"
        + LEAVE,
        "cannot know that its last round is complete", FindingKind.BARRIER, blocks=2, cluster=2,
    ),
    "st.async is of the generic proxy": Pair(
        CLUSTER.replace("barrier.cluster.arrive", "st.shared.u32 [tile], 1; barrier.cluster.arrive", 1)
        + "@!%p0 bra L; @!%p7 bra B;"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r21], %r0, [%r22]; bra L;"
        "B: mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4; |" + WAIT_FOR_PEER + "|| ld.shared.u32 %r9, [tile];"
        "L:" + LEAVE,
        "nobody on it waited for phase 0", blocks=2, cluster=2,
    ),
    "a plain store, then two red.async": Pair(
        CLUSTER + "setp.eq.u32 %p8, %r0, 32; @%p7 bra A; @%p0 st.shared.u32 [tile], 5; bar.warp.sync -1; @!%p0 bra L;"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 8;" + WAIT_FOR_PEER + "bra L;"
        "A: @!%p1 bra S;" + WAIT_FOR_PEER.replace("W", "V") + "bar.warp.sync -1; @!%p0 bra L;" + RED_ASYNC
        + "st.relaxed.gpu.global.u32 [%d1+2048], 1; bra L; S: @!%p8 bra L;"
        "Q: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra Q;"
        "|" + WAIT_FOR_PEER.replace("W", "X") + "||" + RED_ASYNC + "L:" + LEAVE,
        "that another thread wrote", blocks=2, cluster=2,
    ),
    "a barrier of all blocks is none of the cluster": Pair(
        "mov.u32 %r5, tile; mov.u32 %r20, %cluster_ctarank; xor.b32 %r23, %r20, 1;"
        "mapa.shared::cluster.u32 %r21, %r5, %r23; st.shared.u32 [tile+4], 1; barrier.cluster.arrive.aligned;"
        "barrier.cluster.wait.aligned; @%p0 st.shared::cluster.u32 [%r21], 1;"
        "|barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;|bar.sync 0;| @%p0 ld.shared.u32 %r9, [tile];"
        + LEAVE,
        "orders the two blocks", blocks=2, cluster=2,
    ),
    "scope of an acquiring fence in a cluster": Pair(
        message("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d1+2048], 1;",
            "ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; fence.acq_rel.|gpu|cta|;"),
        "does not reach", FindingKind.SCOPE, blocks=2, cluster=2,
    ),
}  # fmt: skip
