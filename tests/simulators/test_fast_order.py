"""Order in machine code: copies, transfers and products that nothing speaks against are made there, and what races is
found as the reference engine finds it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from both_engines import agree
from random_pipelines import random_pipeline

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .shared .align 128 .b8 s[16384];
    .reg .pred %p, %one; .reg .b32 %t, %s, %put, %row, %get, %r<4>, %i, %n; .reg .b64 %in, %out, %d, %da, %db;
    .reg .f32 %f<4>;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x; mov.u32 %s, s;
    mul.wide.u32 %d, %t, 16; add.s64 %in, %in, %d; add.s64 %out, %out, %d;
    mad.lo.u32 %put, %t, 16, %s;                            // the thread's 16 bytes
    xor.b32 %row, %t, 32; mad.lo.u32 %row, %row, 16, %s;    // a row of the warp beside
    setp.eq.u32 %one, 0, 0; mov.u32 %i, 0;
    add.u32 %r0, %t, 1; add.u32 %r1, %t, 2; add.u32 %r2, %t, 3; add.u32 %r3, %t, 4;
    shr.u32 %get, %s, 4; cvt.u64.u32 %da, %get; or.b64 %da, %da, 68720001024; add.s64 %db, %da, 128;
again:
"""
TAIL = """
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra again;
    st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};
    ret;
}
"""
COPY = "cp.async.cg.shared.global [%put], [%in], 16; cp.async.commit_group;"
NEXT = "cp.async.cg.shared.global [%put+2048], [%in], 16; cp.async.commit_group;"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%row];"
PUT = "st.shared.v4.u32 [%put], {%t, %t, %t, %t}; st.shared.v4.u32 [%put+2048], {%t, %t, %t, %t};"
PRODUCT = """wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r0, %r1, %r2, %r3}, %da, %db, %one;
    wgmma.commit_group.sync.aligned;"""
DONE = "wgmma.wait_group.sync.aligned 0;"
FENCE = "fence.proxy.async.shared::cta;"
SYNC = "bar.sync 0;"

#: The body of a loop, and what to leave out of it for a race.
LOOPS: dict[str, tuple[Sequence[str], int]] = {
    "ldmatrix before the barrier": ([PUT, SYNC, LOAD, SYNC], 1),
    "ldmatrix of a slot that is written early": ([PUT, SYNC, LOAD, SYNC], 3),
    "stmatrix and no barrier": (
        [
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%row], {%r0, %r1, %r2, %r3};",
            SYNC,
            "ld.shared.u32 %r0, [%put];",
            SYNC,
        ],
        1,
    ),
    "cp.async, no wait": ([COPY, "cp.async.wait_group 0;", SYNC, LOAD, SYNC], 1),
    "cp.async, no barrier": ([COPY, "cp.async.wait_group 0;", SYNC, LOAD, SYNC], 2),
    "cp.async into a slot that is still read": ([COPY, "cp.async.wait_group 0;", SYNC, LOAD, SYNC], 4),
    "cp.async of the thread itself": ([COPY, "cp.async.wait_group 0;", "ld.shared.u32 %r0, [%put];", SYNC], 1),
    "wgmma without a proxy fence": ([PUT, FENCE, SYNC, PRODUCT, DONE, SYNC], 1),
    "wgmma without a barrier": ([PUT, FENCE, SYNC, PRODUCT, DONE, SYNC], 2),
    "wgmma of a slot that is written early": ([PUT, FENCE, SYNC, PRODUCT, DONE, SYNC], 4),
    "wgmma of what cp.async wrote, no fence": (
        [COPY, NEXT, "cp.async.wait_all;", FENCE, SYNC, PRODUCT, DONE, SYNC],
        3,
    ),
}


def buffers(device: Device, turns: int) -> Sequence[Any]:
    given = np.arange(2048, dtype=np.uint32) * np.uint32(2654435761)
    return device.upload(given), device.upload(np.zeros(2048, np.uint32)), np.uint32(turns)


def handed_back(body: Sequence[str], turns: int, **settings: Any) -> int:
    """By the fast engine; the loop is right on both, and both say the same of it."""
    text = HEAD + "\n".join(body) + TAIL
    report = agree(text, threads=128, blocks=1, prepare=lambda device: buffers(device, turns), **settings)
    assert report.findings == []
    return report.handed_back


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_right_is_made_in_machine_code(name: str) -> None:
    body, _ = LOOPS[name]
    cold = sum(step in (SYNC, FENCE, DONE) for step in body) + (2 if PRODUCT in body else 0)  # wgmma.fence and commit
    turns = 5
    assert handed_back(body, 2 + turns) - handed_back(body, 2) == turns * cold


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_a_race_is_found_as_by_the_reference(name: str, schedule: str) -> None:
    body, missing = LOOPS[name]
    text = HEAD + "\n".join(step for index, step in enumerate(body) if index != missing) + TAIL
    for blocks in (1, 2):
        report = agree(text, threads=128, blocks=blocks, schedule=schedule, prepare=lambda device: buffers(device, 4))
        assert {finding.kind for finding in report.findings} & {FindingKind.RACE, FindingKind.ASYNC}


@pytest.mark.parametrize("seed", range(24))
def test_engines_say_the_same_of_random_pipelines(seed: int) -> None:
    def prepare(device: Device) -> Sequence[Any]:
        return device.upload(np.arange(4096, dtype=np.uint32)), device.upload(np.zeros(8192, np.uint32))

    agree(random_pipeline(seed), threads=128, blocks=1 + seed % 3, prepare=prepare)
