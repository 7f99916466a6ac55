"""`bar.warp.sync` of part of a warp, and by different instructions."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(12)]]


def launch(body: str, schedule: str = "friendly", seed: int = 0) -> tuple[list[Finding], NDArray[np.uint32]]:
    """Findings, and `out`, of two warps: %t is the thread, %l the lane, %p0 the first 16 lanes, %a = &s[thread]."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[512];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<12>, %t, %l, %a;
    .reg .b64 %d<4>, %o;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x; mov.u32 %l, %laneid;
    mul.wide.u32 %d0, %t, 4; add.s64 %o, %o, %d0;
    mov.u32 %a, s; mad.lo.u32 %a, %t, 4, %a;
    setp.lt.u32 %p0, %l, 16;
    {body}
    ret;
}}
"""
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros(64, np.uint32))
    return device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(64, 1, 1), args=(out,)).findings, out.download()


EXCHANGE = "st.shared.u32 [%a], %t; bar.warp.sync {mask}; xor.b32 %r1, %l, 1; sub.u32 %r1, %r1, %l;"
READ = "mad.lo.u32 %r1, %r1, 4, %a; ld.shared.u32 %r2, [%r1]; st.global.u32 [%o], %r2;"
RIGHT = {
    "the half that runs": f"@!%p0 exit; {EXCHANGE.format(mask='0xFFFF')} {READ}",
    "two halves in two branches": (
        f"@%p0 bra A; {EXCHANGE.format(mask='0xFFFF0000')} bra B; A: {EXCHANGE.format(mask='0x0000FFFF')} B: {READ}"
    ),
    "two halves at one instruction": f"selp.u32 %r3, 0xFFFF, 0xFFFF0000, %p0; {EXCHANGE.format(mask='%r3')} {READ}",
    "one warp by two instructions": (
        f"@%p0 bra A; {EXCHANGE.format(mask='-1')} bra B; A: {EXCHANGE.format(mask='-1')} B: {READ}"
    ),
    "members that exit meanwhile": (
        f"@%p0 bra A; mov.u32 %r4, 0; L: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 100; @%p1 bra L; exit;"
        f"A: {EXCHANGE.format(mask='-1')} {READ}"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_members_of_a_mask_meet_and_see_each_others_stores(name: str) -> None:
    lanes = np.arange(64)
    runs = (lanes % 32 < 16) | (name not in ("the half that runs", "members that exit meanwhile"))
    for schedule, seed in SCHEDULES:
        findings, out = launch(RIGHT[name], schedule, seed)
        assert findings == [], (schedule, seed)
        np.testing.assert_array_equal(out, np.where(runs, lanes ^ 1, 0))


# name: (wrong body, kind, what the finding says)
WRONG = {
    "a member that does not come": (
        "@%p0 bar.warp.sync 0x1FFFF; bar.sync 0;",
        FindingKind.DIVERGENCE,
        "bar.warp.sync waits for threads of its member mask that never come (member mask 0x0001ffff",
    ),
    "two masks": (
        "@%p0 bra A; bar.warp.sync 0xFFFF0001; ret; A: bar.warp.sync 0x0001FFFF;",
        FindingKind.DIVERGENCE,
        "bar.warp.sync waits for threads of its member mask",
    ),
    "a lane outside of its mask": (
        "bar.warp.sync 0xFFFF;",
        FindingKind.DIVERGENCE,
        "bar.warp.sync is executed by a thread that its member mask leaves out (mask 0x0000ffff)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_misused_warp_barriers_are_found(name: str) -> None:
    body, kind, said = WRONG[name]
    for schedule, seed in SCHEDULES[:7]:
        findings, _ = launch(body, schedule, seed)
        assert findings[0].kind is kind, (schedule, seed)
        assert said in findings[0].message, (schedule, seed, findings)
