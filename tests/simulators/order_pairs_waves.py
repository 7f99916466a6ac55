"""Order where the blocks of a launch do not fit into one wave: a later block uses the room of an earlier one."""

from order_pair import Pair
from order_pairs_async import BULK_OUT
from order_pairs_memory import message

WAVE = 64
#: Which block comes first is the schedule's: %p2 holds in the second one. Thread 0 is alone.
SECOND = """@!%p0 ret; atom.relaxed.gpu.global.add.u32 %r1, [%d1+4096], 1; setp.eq.u32 %p2, %r1, 1; mov.u32 %r5, tile;
    mad.lo.u32 %r7, %r0, 4, %r5;"""

PAIRS: dict[str, Pair] = {
    "a flag that an earlier wave has set": Pair(
        message("st.|release|relaxed|.gpu.global.u32 [%d1+2048], 1;", "ld.acquire.gpu.global.u32 %r3, [%d1+2048];")
        .replace("mov.u32 %r1, %ctaid.x;", SECOND),
        "orders the two", blocks=2, wave=WAVE,
    ),
    "what an earlier wave has read": Pair(
        SECOND + "ld.global.u32 %r9, [%d1]; @%p2 st.global.u32 [%d1+|64|0|], 1; ret;",
        "orders the two", blocks=2, wave=WAVE,
    ),
    "a proxy fence of an earlier wave": Pair(
        SECOND + "@!%p2 fence.proxy.async; @!%p2 ret; st.shared.v4.u32 [tile], {%r0, %r0, %r0, %r0};"
        "|fence.proxy.async;||" + BULK_OUT.replace("256", "16") + "cp.async.bulk.wait_group 0; ret;",
        "no proxy fence", blocks=2, wave=WAVE,
    ),
    "a barrier of an earlier wave": Pair(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r0, 32; @%p2 bar.sync 0; @%p2 ret;"
        "@%p3 st.shared.u32 [tile], 1; |bar.sync 0;|| @%p0 ld.shared.u32 %r9, [tile]; ret;",
        "with no barrier between", blocks=2, wave=WAVE,
    ),
    "who ended an earlier wave": Pair(
        "mov.u32 %r1, %ctaid.x; setp.lt.u32 %p2, %r1, 2; setp.eq.u32 %p3, %r0, 32; mov.u32 %r5, tile;"
        "mad.lo.u32 %r7, %r0, 4, %r5; @%p2 st.shared.u32 [%r7], 1; @%p2 ret; @%p3 st.shared.u32 [tile], 1;"
        "|bar.sync 0;|| @%p0 ld.shared.u32 %r9, [tile]; ret;",
        "with no barrier between", blocks=4, cluster=2, wave=2 * WAVE,
    ),
    "a wait of an earlier wave": Pair(
        SECOND + "@%p2 cp.async.ca.shared.global [%r7], [%d3], 4; cp.async.commit_group; @%p2 bra S;"
        "cp.async.wait_group 0; ret; S: |cp.async.wait_group 0;|| ld.shared.u32 %r9, [%r7]; cp.async.wait_group 0;"
        "ret;",
        "has not waited", blocks=2, wave=WAVE,
    ),
}  # fmt: skip
