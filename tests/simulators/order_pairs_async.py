"""Groups of copies, mbarriers, and the async proxy."""

from order_pair import Pair

from tileproof.simulators.ptx.findings import FindingKind

OBJECT = """mov.u32 %r5, tile; mov.u32 %r6, bar; @%p0 mbarrier.init.shared::cta.b64 [bar], COUNT;
    @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1; bar.sync 0; mad.lo.u32 %r7, %r0, 4, %r5;"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"
LOAD = """@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d0], 256, [%r6];"""
READ = "ld.shared.u32 %r9, [%r7]; st.global.u32 [%d2], %r9; ret;"
MIRROR = "sub.u32 %r10, 63, %r0; mad.lo.u32 %r10, %r10, 4, %r5;"
BULK_OUT = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256; cp.async.bulk.commit_group;"

ONE = OBJECT.replace("COUNT", "1")
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [bar];"
THREAD_32 = "setp.eq.u32 %p2, %r0, 32;"
SECOND_WAIT = WAIT.replace("W:", "V:").replace("bra W", "bra V").replace(", 0", ", 1")
REDUCE_OUT = """cp|.reduce||.async.bulk.global.shared::cta.bulk_group|.add.u32|| [%d1], [%r5], 256;
    cp.async.bulk.commit_group;"""

REDUCE_16 = """cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r5], 16; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""


def used(use: str) -> str:
    """Thread 0 initialises, and a neighbour uses the object."""
    return (
        "mov.u32 %r5, tile; mov.u32 %r6, bar; setp.eq.u32 %p2, %r0, 1; @%p0 mbarrier.init.shared::cta.b64 [bar], 1;"
        f"|bar.warp.sync -1;|| @%p2 bra U; ret; U: {use} ret;"
    )


PAIRS: dict[str, Pair] = {
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
    "a copy of the own warp": Pair(
        ONE + "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.wait_all; |bar.warp.sync -1;|| xor.b32 %r10, %r7, 4;"
        "ld.shared.u32 %r9, [%r10]; ret;",
        "no barrier follows the wait",
    ),
    "only who waits knows": Pair(
        ONE + MIRROR + "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group;"
        "||@%p0| cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r9, [%r10]; cp.async.wait_group 0; ret;",
        "and no path leads here from the end of cp.async",
    ),
    "two copies to one place": Pair(
        ONE + "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group; |cp.async.wait_group 0;||"
        "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group; cp.async.wait_group 0;" + READ,
        "its own thread wrote",
    ),
    "the source of a copy": Pair(
        ONE + "cp.async.ca.shared.global [%r7], [%d2], 4; |cp.async.wait_all;|| st.global.u32 [%d2], 5;"
        "cp.async.wait_all; ret;",
        "writes global memory that its own thread read",
    ),
    "cp.async is of the generic proxy": Pair(
        ONE + "cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.wait_all; |fence.proxy.async.shared::cta;||"
        "bar.sync 0; @!%p0 ret;" + BULK_OUT + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence stands between: the writes",
    ),
    "an arrival for copies": Pair(
        OBJECT.replace("COUNT", "64") + MIRROR + "cp.async.ca.shared.global [%r7], [%d3], 4;"
        "|cp.async.mbarrier.arrive.noinc.shared::cta.b64|mbarrier.arrive.shared::cta.b64 _,| [bar];" + WAIT
        + "ld.shared.u32 %r9, [%r10]; cp.async.wait_all; ret;",
        "and no path leads here from the end of cp.async",
    ),
    "an arrival for copies is for nothing else": Pair(
        OBJECT.replace("COUNT", "64") + MIRROR + "st.shared.u32 [%r7], %r0; |mbarrier.arrive.shared::cta.b64 _,|"
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64| [bar];" + WAIT + "ld.shared.u32 %r9, [%r10]; ret;",
        "with no barrier between",
    ),
    "an arrival for copies is for the earlier ones": Pair(
        OBJECT.replace("COUNT", "64") + MIRROR
        + "|cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group;|| "
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"
        "||cp.async.commit_group; cp.async.ca.shared.global [%r7], [%d3], 4;|" + WAIT
        + "ld.shared.u32 %r9, [%r10]; cp.async.wait_all; ret;",
        "and no path leads here from the end of cp.async",
    ),
    "the full wait frees the source too": Pair(
        ONE + "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0; @!%p0 bra J;"
        + BULK_OUT + "|cp.async.bulk.wait_group 0;|| J: bar.sync 0; st.shared.u32 [%r7], 1; bar.sync 0;"
        "@%p0 cp.async.bulk.wait_group 0; ret;",
        "the bulk copy's read of its source",
    ),
    "async after async needs no fence": Pair(
        ONE + "@!%p0 ret;" + LOAD + "|" + WAIT + "||" + BULK_OUT + "cp.async.bulk.wait_group 0; ret;",
        "nobody on it waited for phase 0",
    ),
    "the proxy fence comes after the write": Pair(
        ONE + "|st.shared.u32 [%r7], %r0; fence.proxy.async;|fence.proxy.async; st.shared.u32 [%r7], %r0;| bar.sync 0;"
        "@!%p0 ret;" + BULK_OUT + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence",
    ),
    "the fence's space, of a load": Pair(
        ONE + "st.global.u32 [%d2], %r0; fence.proxy.async.|global|shared::cta|; bar.sync 0; @!%p0 ret;"
        + LOAD.replace("[%d0]", "[%d1]") + WAIT + "ret;",
        "no proxy fence",
    ),
    "global writes are fenced": Pair(
        ONE + "st.global.u32 [%d2], %r0; |fence.proxy.async;|| bar.sync 0; @!%p0 ret;"
        + LOAD.replace("[%d0]", "[%d1]") + WAIT + "ret;",
        "no proxy fence",
    ),
    "the source of a bulk load": Pair(
        ONE + LOAD.replace("[%d0]", "[%d1]") + "|" + WAIT + "|| st.global.u32 [%d2], 5; |bar.sync 0;|" + WAIT
        + "| ret;",
        "writes global memory that",
    ),
    "bulk reductions into one place": Pair(
        ONE + "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0; @!%p0 ret;" + REDUCE_OUT
        + "cp.async.bulk.wait_group 0; ret;",
        "the bulk copy's write", blocks=2,
    ),
    "a plain store, then two bulk reductions": Pair(
        ONE + "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r0, 32; and.pred %p3, %p3, %p2;"
        "@%p0 st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0}; @%p3 st.global.v4.u32 [%d1], {%r0, %r0, %r0, %r0};"
        "fence.proxy.async; bar.sync 0; @!%p0 ret; @!%p2 bra S;" + REDUCE_16
        + "|st.release|st.relaxed|.gpu.global.u32 [%d1+2048], 1; ret;"
        "S: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra S; fence.proxy.async;"
        + REDUCE_16 + "ret;",
        "that another thread wrote", blocks=2,
    ),
    "a byte read beside a bulk reduction": Pair(
        ONE + "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0; @!%p0 ret;"
        + REDUCE_OUT.replace("|.reduce||", ".reduce").replace("|.add.u32||", ".add.u32")
        + "|cp.async.bulk.wait_group 0;|| ld.relaxed.gpu.global.u8 %r9, [%d1]; cp.async.bulk.wait_group 0; ret;",
        "the bulk copy's write",
    ),
    "a relaxed wait acquires with a fence": Pair(
        OBJECT.replace("COUNT", "64") + MIRROR + "st.shared.u32 [%r7], %r0; mbarrier.arrive.shared::cta.b64 _, [bar];"
        + WAIT.replace("parity", "parity.relaxed.cta") + "|fence.acq_rel.cta;|| ld.shared.u32 %r9, [%r10]; ret;",
        "with no barrier between",
    ),
    "a copy of the next phase": Pair(
        ONE + "@!%p0 ret;" + LOAD + WAIT + LOAD.replace("[%r5]", "[%r7+1024]") + "|" + SECOND_WAIT + "||"
        "ld.shared.u32 %r9, [tile+1024];" + SECOND_WAIT.replace("V", "X") + "ret;",
        "nobody on it waited for phase 1",
    ),
    "arrivals of the next phase": Pair(
        OBJECT.replace("COUNT", "2") + f"{THREAD_32} @%p2 bra R; @!%p0 ret; {ARRIVE} {ARRIVE}" + WAIT
        + f"st.shared.u32 [tile], 1; {ARRIVE} |{ARRIVE}|| st.relaxed.gpu.global.u32 [%d1+2048], 1; ret;"
        "R: ld.relaxed.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra R;"
        + SECOND_WAIT.replace(", 1", ", |1|0|") + "ld.shared.u32 %r9, [tile]; ret;",
        "with no barrier between",
    ),
    "arrivals of the phase before": Pair(
        ONE + f"{THREAD_32} @%p2 bra R; @!%p0 ret;" + WAIT.replace("parity", "parity.|acquire|relaxed|.cta") + ARRIVE
        + SECOND_WAIT + f"ld.shared.u32 %r9, [tile]; ret; R: st.shared.u32 [tile], 1; {ARRIVE} ret;",
        "with no barrier between",
    ),
    "init before an arrival": Pair(used(ARRIVE), "reads shared memory that another thread wrote"),
    "init before an expectation": Pair(
        used("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;"), "mbarrier.expect_tx"
    ),
    "init before a wait": Pair(
        used("mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], 1;"), "mbarrier.test_wait"
    ),
    "init before an arrival for copies": Pair(
        used("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];" + WAIT), "cp.async.mbarrier.arrive"
    ),
    "init before a copy that signals": Pair(used(LOAD.replace("@%p0 ", "") + WAIT), "cp.async.bulk"),
    "a phase is complete with all of its copies": Pair(
        ONE + "@!%p0 ret; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], |512|256|;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d0], 256, [%r6];"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5+256], [%d0], 256, [%r6];" + WAIT
        + "ret;", "a phase of an mbarrier is complete while", FindingKind.ASYNC, seed=1,
    ),
    "fenced, then a flag": Pair(
        ONE + "@!%p0 bra R; st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0}; |fence.proxy.async;||"
        "st.release.gpu.global.u32 [%d1+2048], 1; ret;"
        f"R: {THREAD_32} @!%p2 ret; Q: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra Q;"
        + BULK_OUT.replace("256", "16").replace("%d1", "%d2") + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence", FindingKind.RACE,
    ),
    "the issuer's fence reaches through an mbarrier": Pair(
        ONE + "@%p1 bra R; setp.eq.u32 %p2, %r0, 32; @!%p2 ret;" + WAIT
        + BULK_OUT.replace("256", "16") + "cp.async.bulk.wait_group 0; ret;"
        "R: @!%p0 ret; st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0}; |fence.proxy.async;||" + ARRIVE + "ret;",
        "no proxy fence",
    ),
    "arrivals add up": Pair(
        OBJECT.replace("COUNT", "2") + f"{THREAD_32} @%p2 bra S; @!%p0 bra W; |st.shared.u32 [tile], 1; {ARRIVE}|"
        f"{ARRIVE} st.shared.u32 [tile], 1;| bra W; S: {ARRIVE}" + WAIT + "ld.shared.u32 %r9, [tile]; ret;",
        "with no barrier between",
    ),
    "arrivals for copies add up": Pair(
        OBJECT.replace("COUNT", "2") + f"{THREAD_32} @%p2 bra S; @!%p0 bra W;"
        "cp.async.ca.shared.global [%r5], [%d3], 4;"
        "|cp.async.mbarrier.arrive.noinc.shared::cta.b64|mbarrier.arrive.shared::cta.b64 _,| [bar]; bra W;"
        "S: cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];" + WAIT + "ld.shared.u32 %r9, [tile];"
        "cp.async.wait_all; ret;",
        "and no path leads here from the end of cp.async",
    ),
    "global memory fenced, then a flag": Pair(
        ONE + "@!%p0 bra R; st.global.v4.u32 [%d1], {%r0, %r0, %r0, %r0}; |fence.proxy.async;||"
        "st.release.gpu.global.u32 [%d1+2048], 1; ret;"
        f"R: {THREAD_32} @!%p2 ret; Q: ld.acquire.gpu.global.u32 %r3, [%d1+2048]; setp.eq.u32 %p3, %r3, 0; @%p3 bra Q;"
        + LOAD.replace("@%p0 ", "").replace("[%d0], 256", "[%d1], 16").replace("256", "16") + WAIT + "ret;",
        "no proxy fence",
    ),
    "one lane of a warp that read together waits": Pair(
        ONE + "st.shared.u32 [%r7], %r0; fence.proxy.async; bar.sync 0;" + LOAD + "@!%p1 ret; ld.global.u32 %r9, [%d3];"
        "@%p0 mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], 0; |" + WAIT + "||" + READ,
        "phase 0",
    ),
}  # fmt: skip
