"""Kernels without an end, of every kind, for `async_kernels.module`: what each body does for ever."""

INIT = "@%p0 mbarrier.init.shared::cta.b64 [bar], COUNT; bar.sync 0;"
AGAIN = "setp.eq.u32 %p4, %r2, 0; @%p4 bra L; ret;"

#: The device proves that nobody gets on.
PROVED = {
    "a branch to itself": "L: bra L;",
    "a flag that nobody sets": f"L: ld.volatile.global.u32 %r2, [%d1]; {AGAIN}",
    "an acquire of it": f"L: ld.acquire.gpu.global.u32 %r2, [%d1]; {AGAIN}",
    "an atomic that adds nothing": f"L: atom.global.add.u32 %r2, [%d1], 0; {AGAIN}",
    "the same, with a count": f"mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; atom.global.add.u32 %r2, [%d1], 0; {AGAIN}",
    "a swap that fails": f"L: atom.global.cas.b32 %r2, [%d1], 1, 1; {AGAIN}",
    "an mbarrier that nobody completes": INIT.replace("COUNT", "1")
    + "L: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra L; ret;",
    "sleep": "L: nanosleep.u32 1000000; bra L;",
}

#: Something changes in each round, so only a budget ends it.
UNPROVED = {
    "a count that decides": "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.ne.u32 %p4, %r2, 0; @%p4 bra L; ret;",
    "an mbarrier, with a count that decides": INIT.replace("COUNT", "1")
    + "mov.u32 %r3, 1; L: add.u32 %r3, %r3, 1; setp.eq.u32 %p5, %r3, 0; @%p5 ret; "
    + "mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra L; ret;",
    "an atomic that adds nothing but orders": f"L: atom.acq_rel.gpu.global.add.u32 %r2, [%d1], 0; {AGAIN}",
    "an atomic that counts": "L: atom.global.add.u32 %r2, [%d1], 1; bra L;",
    "barriers": "L: bar.sync 0; bra L;",
    "warp barriers": "L: bar.warp.sync -1; bra L;",
    "shuffles": "L: shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1; bra L;",
    "stores": "L: st.global.u32 [%d2], %r0; bra L;",
    "the clock": "L: mov.u64 %d6, %clock64; setp.ne.s64 %p4, %d6, 0; @%p4 bra L; ret;",
    "fences": "L: fence.sc.sys; bra L;",
    "copies": "L: cp.async.ca.shared.global [tile], [%d0], 16; cp.async.commit_group; bra L;",
    "bulk copies": "L: @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [tile], 256; "
    "@%p0 cp.async.bulk.commit_group; bra L;",
    "phases": INIT.replace("COUNT", "64") + "L: mbarrier.arrive.shared::cta.b64 _, [bar]; bra L;",
}
