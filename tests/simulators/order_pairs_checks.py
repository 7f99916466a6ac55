"""What conflicts with what, and barriers inside a block."""

from order_pair import Pair
from order_pairs_async import MIRROR, OBJECT, WAIT
from order_pairs_memory import later

from tileproof.simulators.ptx.findings import FindingKind

THREAD_32 = "setp.eq.u32 %p2, %r0, 32;"

PAIRS: dict[str, Pair] = {
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
        "bar.arrive 1, 64; @%p0 st.shared.u32 [tile], 2;| ret; C: bar.sync 1, 64; ld.shared.u32 %r9, [tile]; ret;",
        "ld.shared.u32 reads",
    ),
    "bar.arrive in one of two blocks": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 1; and.pred %p3, %p1, %p2; and.pred %p4, %p0, %p2;"
        "|@%p4 st.global.u32 [%d1], 1;|| @%p3 bar.arrive 1, 64; ||@%p4 st.global.u32 [%d1], 1;| @%p3 ret;"
        "bar.sync 1, 64; setp.eq.u32 %p5, %r0, 32; and.pred %p5, %p5, %p2; @%p5 ld.global.u32 %r9, [%d1]; ret;",
        "ld.global.u32 reads", blocks=2,
    ),
    "bar.arrive learns nothing": Pair(
        f"{THREAD_32} @!%p1 bra C; bar.|sync|arrive| 1, 64; @!%p0 ret; R: ld.relaxed.gpu.global.u32 %r3, [%d1+2048];"
        "setp.eq.u32 %p3, %r3, 0; @%p3 bra R; ld.global.u32 %r9, [%d1]; ret;"
        "C: @%p2 st.global.u32 [%d1], 1; bar.sync 1, 64; @%p2 st.relaxed.gpu.global.u32 [%d1+2048], 1; ret;",
        "reads global memory",
    ),
    "write after read": Pair(
        "sub.u32 %r10, 63, %r0; mul.wide.u32 %d4, %r10, 4; add.s64 %d4, %d4, %d1; ld.global.u32 %r9, [%d4];"
        "|bar.sync 0;|| st.global.u32 [%d2], %r0; ret;",
        "writes global memory that another thread read",
    ),
    "after a barrier": Pair(
        f"bar.sync 0; @%p0 st.global.u32 [%d1], 1; |bar.sync 0;|| {THREAD_32} @%p2 ld.global.u32 %r9, [%d1]; ret;",
        "with no barrier between",
    ),
    "after a warp barrier": Pair(
        "bar.warp.sync -1; @%p0 st.global.u32 [%d1], 1; |bar.warp.sync -1;|| setp.eq.u32 %p2, %r0, 1;"
        "@%p2 ld.global.u32 %r9, [%d1]; ret;",
        "__syncwarp() is missing",
    ),
    "every reader counts": Pair(
        "setp.lt.u32 %p2, %r0, 64; @%p2 ld.global.u32 %r9, [%d1]; |bar.sync 0;|@%p1 ret; bar.sync 1, 64;|"
        "setp.eq.u32 %p4, %r0, 64; @%p4 st.global.u32 [%d1], 1; ret;",
        "writes global memory that another thread read", threads=96,
    ),
    "a barrier of two warps of three": Pair(
        "@%p0 st.shared.u32 [tile], 1; setp.lt.u32 %p3, %r0, 64; |bar.sync 0;|@%p3 bar.sync 1, 64;|"
        "setp.eq.u32 %p4, %r0, 64; @%p4 ld.shared.u32 %r9, [tile]; ret;",
        "reads shared memory that another thread wrote", threads=96,
    ),
    "a strong byte against a plain one": Pair(
        f"@%p0 st.global.u8 [%d1], 1; |bar.sync 0;|| {THREAD_32} @%p2 ld.volatile.global.u8 %r3, [%d1]; ret;",
        "with no barrier between",
    ),
    "strong accesses of one block": Pair(
        f"@%p0 st.|volatile.||global.u32 [%d1], 1; {THREAD_32} @%p2 ld.volatile.global.u32 %r3, [%d1]; ret;",
        "with no barrier between",
    ),
    "elements of a vector are strong one by one": Pair(
        "@%p0 st.relaxed.gpu.global.|v2.u32 [%d1], {%r0, %r0}|u64 [%d1], %d0|;"
        f"{THREAD_32} @%p2 st.relaxed.gpu.global.u32 [%d1+4], 1; ret;",
    ),
    "scope of the earlier atomic": Pair(
        "@!%p0 ret; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @%p2 red.relaxed.|gpu|cta|.global.add.u32 [%d1], 1;"
        "@!%p2 red.relaxed.gpu.global.add.u32 [%d1], 1; ret;", "the scope of one", FindingKind.SCOPE, blocks=2,
    ),
    "scope of the later atomic": Pair(
        "@!%p0 ret; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; @%p2 red.relaxed.gpu.global.add.u32 [%d1], 1;"
        "@!%p2 red.relaxed.|gpu|cta|.global.add.u32 [%d1], 1; ret;", "the scope of one", FindingKind.SCOPE, blocks=2,
    ),
    "a plain read before an atomic": Pair(
        later("||ld.global.u32 %r4, [%d1];| red.global.add.u32 [%d1], 1;", "red.global.add.u32 [%d1], 1;"),
        "updates global memory that another thread read", blocks=2,
    ),
    "a compare-and-swap that fails only reads": Pair(
        later("ld.global.u32 %r4, [%d1];", "atom.global.cas.b32 %r4, [%d1], |5|0|, 1;"),
        "updates global memory that another thread read", blocks=2,
    ),
    "a compare-and-swap that fails reads": Pair(
        later("st|.relaxed.gpu||.global.u32 [%d1], 1;", "atom.global.cas.b32 %r4, [%d1], 5, 1;"),
        "reads global memory that another thread wrote", blocks=2,
    ),
    "equal values": Pair(
        f"@%p0 st.global.u32 [%d1], |7|1|; {THREAD_32} @%p2 st.global.u32 [%d1], 7; ret;",
        "writes global memory that another thread wrote",
    ),
    "equal values of too small a scope": Pair(
        later("st.relaxed.cta.global.u32 [%d1], 7;", "st.relaxed.cta.global.u32 [%d1], |7|8|;"),
        "the scope of one", FindingKind.SCOPE, blocks=2,
    ),
    "equal values by one instruction": Pair("st.global.u32 [%d1], |7|%r0|; ret;", "threads write different values"),
    "all lanes read each row of ldmatrix": Pair(
        OBJECT.replace("COUNT", "32") + "setp.eq.u32 %p5, %r0, 32; @%p1 bra R;"
        "@%p5 st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0};"
        + "mbarrier.arrive.shared::cta.b64 _, [bar]; ret; R: setp.lt.u32 %p6, %r0, 8; @!%p6 bra J;" + WAIT
        + "J: |bar.warp.sync -1;|| ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [tile]; ret;",
        "reads shared memory that another thread wrote",
    ),
    "a row of ldmatrix is read by all lanes": Pair(
        OBJECT.replace("COUNT", "1") + "@%p1 bra R;" + WAIT + "setp.eq.u32 %p5, %r0, 32; @%p5 st.shared.u32 [tile], 1;"
        "ret; R: st.shared.u32 [%r7], %r0; bar.warp.sync -1; mad.lo.u32 %r8, %r0, 16, %r5;"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r8];"
        "|bar.warp.sync -1;|| @%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; ret;",
        "writes shared memory that another thread read",
    ),
    "whose row of ldmatrix it is does not matter": Pair(
        "mov.u32 %r5, tile; mad.lo.u32 %r8, %r0, 16, %r5; @!%p1 ret; setp.eq.u32 %p2, %r0, 5; setp.ge.u32 %p3, %r0, 5;"
        "@%p2 st.shared.v4.u32 [%r8], {%r0, %r0, %r0, %r0}; |bar.warp.sync -1;|@%p3 bar.warp.sync -32;|"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r8]; ret;",
        "__syncwarp() is missing",
    ),
    "two launches": Pair(
        f"{THREAD_32} @%p2 ld.global.u32 %r9, [%d1]; |bar.sync 0;|| @%p0 st.global.u32 [%d1], 1; ret;", launches=2
    ),
    "two reads": Pair(
        f"@%p0 ld.global.u32 %r9, [%d1]; {THREAD_32} @%p2 |ld.global.u32 %r9, [%d1]|st.global.u32 [%d1], 1|; ret;",
        "writes global memory that another thread read",
    ),
    "a plain start value, then an atomic": Pair(
        later("||st.global.u32 [%d1], 5;| red.global.add.u32 [%d1], 1;", "red.global.add.u32 [%d1], 1;"),
        "updates global memory that another thread wrote", blocks=2,
    ),
    "barriers add up": Pair(
        "@%p0 st.global.u32 [%d1], 1; setp.lt.u32 %p2, %r0, 64; @!%p2 bra N; bar.sync 1, 64; N: |@%p1 ret;"
        "bar.sync 2, 64;|| setp.eq.u32 %p4, %r0, 64; @%p4 ld.global.u32 %r9, [%d1]; ret;",
        "with no barrier between", threads=96,
    ),
    "a warp barrier is of one warp": Pair(
        f"@%p0 st.global.u32 [%d1], 1; bar.|sync 0|warp.sync -1|; {THREAD_32} @%p2 ld.global.u32 %r9, [%d1]; ret;",
        "__syncthreads() is missing",
    ),
    "arrivals at a barrier add up": Pair(
        "setp.eq.u32 %p2, %r0, 64; setp.ge.u32 %p3, %r0, 64; @%p3 bra R; @!%p1 bra S; |@%p0 st.global.u32 [%d1], 1;"
        "bar.arrive 1, 96;|bar.arrive 1, 96; @%p0 st.global.u32 [%d1], 1;| ret; S: bar.arrive 1, 96; ret;"
        "R: bar.sync 1, 96; @%p2 ld.global.u32 %r9, [%d1]; ret;",
        "reads global memory that another thread wrote", threads=96,
    ),
    "a thread that knows of all arrivals may arrive again": Pair(
        OBJECT.replace("COUNT", "63") + "bar.arrive 1, 64; @!%p0 mbarrier.arrive.shared::cta.b64 _, [bar];"
        "@!%p1 ret; @!%p0 bra J; |" + WAIT + "|| J: bar.arrive 1, 32; ret;",
        "cannot know that its last round is complete", FindingKind.BARRIER,
    ),
    "two lanes of a warp that read together meet": Pair(
        "@!%p1 ret; mov.u32 %r1, 1; ld.global.u32 %r9, [%d3]; setp.eq.u32 %p3, %r0, 1; @%p3 st.global.u32 [%d1], 1;"
        "setp.lt.u32 %p4, %r0, 2; |bar.warp.sync -1;|@%p4 bar.warp.sync 3;| ld.global.u32 %r9, [%d1]; ret;",
        "__syncwarp() is missing",
    ),
}  # fmt: skip
