"""Random programs of copies, transfers and products on a few slots of shared memory, most of them with races.

Every step is one that both engines know: plain and `cp.async` writes, `ldmatrix`, `stmatrix`, `wgmma`, bulk copies,
barriers, waits and fences, in any order and number. What the engines say of a program must be equal; what is right and
what is wrong is not known.
"""

import random
from collections.abc import Callable

SLOTS, SLOT_BYTES, THREADS = 4, 2048, 128

_HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .shared .align 128 .b8 s[8192];
    .shared .align 8 .b64 full;
    .reg .pred %p, %first, %ready; .reg .b32 %t, %s, %own, %next, %rows, %r<4>, %v<4>, %full, %parity, %i, %size;
    .reg .f32 %f<4>; .reg .b64 %in, %out, %d, %desc, %da, %db, %state;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x; mov.u32 %s, s; mov.u32 %full, full;
    mul.wide.u32 %d, %t, 16; add.s64 %in, %in, %d; mov.u64 %d, 0;
    mov.u32 %i, %ctaid.x; mad.lo.u32 %i, %i, 128, %t; mul.wide.u32 %d, %i, 16; add.s64 %out, %out, %d;
    mad.lo.u32 %own, %t, 16, %s;
    add.u32 %next, %t, 1; and.b32 %next, %next, 127; mad.lo.u32 %next, %next, 16, %s;
    xor.b32 %rows, %t, 32; mad.lo.u32 %rows, %rows, 16, %s;
    shr.u32 %r0, %s, 4; cvt.u64.u32 %desc, %r0; or.b64 %desc, %desc, 68720001024;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
    mov.u32 %v0, %t; mov.u32 %v1, 0; mov.u32 %v2, 0; mov.u32 %v3, 0; mov.u32 %parity, 0;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared::cta.b64 [%full], 1;
"""
_FILL = """    st.shared.v4.u32 [%own], {%v0, %t, %t, %t}; st.shared.v4.u32 [%own+2048], {%v0, %t, %t, %t};
    st.shared.v4.u32 [%own+4096], {%v0, %t, %t, %t}; st.shared.v4.u32 [%own+6144], {%v0, %t, %t, %t};
    fence.proxy.async; bar.sync 0;
"""
_ALL = "cp.async.wait_all; wgmma.wait_group.sync.aligned 0; fence.proxy.async; bar.sync 0;"
_TAIL = """    cp.async.wait_all; wgmma.wait_group.sync.aligned 0; bar.sync 0;
    st.global.v4.u32 [%out], {%v0, %v1, %v2, %v3}; st.global.v4.f32 [%out+8192], {%f0, %f1, %f2, %f3};
    ret;
}
"""


def random_pipeline(seed: int) -> str:
    """The program of a seed."""
    draw = random.Random(seed)
    steps = [draw.choice(_STEPS)(draw) for _ in range(draw.randint(6, 24))]
    careful = draw.choice((0.0, 0.5, 0.95, 1.0))  # how often everything is waited for
    body = "\n    ".join(f"{step} {_ALL if draw.random() < careful else ''}" for step in steps)
    if draw.random() < 0.5:
        body = f"mov.u32 %i, 0;\nagain: {body}\n    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 3; @%p bra again;"
    return f"{_HEAD}{_FILL}    {body}\n{_TAIL}"


def _slot(draw: random.Random) -> int:
    return SLOT_BYTES * draw.randrange(SLOTS)


def _place(draw: random.Random) -> str:
    return f"[{draw.choice(('%own', '%own', '%next', '%rows'))}+{_slot(draw)}]"


def _store(draw: random.Random) -> str:
    guard = draw.choice(("", "", "", "@%first "))
    form = draw.choice(("v4.u32 {}, {{%t, %t, %t, %t}}", "u32 {}, %t"))
    return f"{guard}st.shared.{form.format(_place(draw))};"


def _load(draw: random.Random) -> str:
    return f"ld.shared.u32 %v0, {_place(draw)};"


def _copy(draw: random.Random) -> str:
    form, nbytes = draw.choice((("cg", 16), ("cg", 16), ("ca", 8), ("ca", 4)))
    tail = draw.choice((" cp.async.commit_group;", " cp.async.commit_group;", ""))
    guard = draw.choice(("", "", "", "@%first "))
    size = draw.choice(("", "", ", %size"))
    text = f"cp.async.{form}.shared.global {_place(draw)}, [%in], {nbytes}{size};"
    most = draw.choice((0, 32, 77, 128))
    part = f"setp.lt.u32 %p, %t, {most}; selp.u32 %size, {nbytes}, {draw.choice((0, 0, 0, 4))}, %p; " if size else ""
    return f"{part}{guard}{text}{tail}"


def _load_matrix(draw: random.Random) -> str:
    return f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%v0, %v1, %v2, %v3}}, {_place(draw)};"


def _store_matrix(draw: random.Random) -> str:
    return f"stmatrix.sync.aligned.m8n8.x2.shared.b16 {_place(draw)}, {{%v0, %t}};"


def _product(draw: random.Random) -> str:
    a, b = (SLOT_BYTES * draw.randrange(SLOTS - 1) // 16 for _ in range(2))
    wait = draw.choice((" wgmma.wait_group.sync.aligned 0;", ""))
    return (
        f"add.s64 %da, %desc, {a}; add.s64 %db, %desc, {b}; setp.eq.u32 %ready, 0, 0; wgmma.fence.sync.aligned; "
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%v0, %v1, %v2, %v3}, %da, %db, %ready; "
        f"wgmma.commit_group.sync.aligned;{wait}"
    )


def _bulk(draw: random.Random) -> str:
    """One thread fills a slot; all threads, or that one, wait for it."""
    nbytes, label = draw.choice((256, 1024)), draw.getrandbits(60)
    skip = draw.choice(("", "", f"@!%first bra past_{label};"))
    return (
        f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%full], {nbytes};\n"
        f"    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+{_slot(draw)}], [%in], "
        f"{nbytes}, [%full];\n    {skip}\nwait_{label}: mbarrier.try_wait.parity.shared::cta.b64 %ready, [%full], "
        f"%parity; @!%ready bra wait_{label};\npast_{label}: xor.b32 %parity, %parity, 1;"
    )


def _barrier(draw: random.Random) -> str:
    return draw.choice(("bar.sync 0;", "bar.sync 0;", "bar.sync 0;", "bar.warp.sync -1;"))


def _wait(draw: random.Random) -> str:
    return draw.choice(("cp.async.wait_all;", "cp.async.wait_group 1;", "cp.async.wait_group 0;"))


def _fence(draw: random.Random) -> str:
    return draw.choice(("fence.proxy.async;", "fence.proxy.async.shared::cta;", "wgmma.wait_group.sync.aligned 0;"))


_Step = Callable[[random.Random], str]
_STEPS: list[_Step] = [
    *(_store, _load, _copy, _copy, _load_matrix, _load_matrix, _store_matrix, _product, _bulk),
    *(_barrier, _barrier, _wait, _fence),
]
