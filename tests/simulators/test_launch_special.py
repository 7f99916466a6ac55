"""Times, places and register counts: values that are legal, by seed, and instructions that change no value."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(8)]]


def launch(
    body: str,
    schedule: str = "friendly",
    seed: int = 0,
    *,
    threads: int = 128,
    blocks: int = 3,
    directives: str = "",
    device: Device | None = None,
) -> tuple[list[Finding], NDArray[np.uint64]]:
    """Findings, and out[block, thread]: %o = &out[block, thread], %t the thread, %p0 the first warpgroup."""
    text = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {directives}
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>, %t;
    .reg .b64 %d<8>, %o;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x;
    mad.lo.u32 %r0, %r0, %r1, %t; mul.wide.u32 %d0, %r0, 8; add.s64 %o, %o, %d0;
    setp.lt.u32 %p0, %t, 128;
    {body}
    ret;
}}
"""
    machine = device or Device(schedule=schedule, seed=seed)
    out = machine.upload(np.zeros((blocks, threads), np.uint64))
    report = machine.load_ptx(text)["k"].launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(out,))
    return report.findings, out.download()


@pytest.mark.parametrize(
    "read",
    [
        "mov.u64 %d1, %clock64; {wait} mov.u64 %d2, %clock64;",
        "mov.u64 %d1, %globaltimer; {wait} mov.u64 %d2, %globaltimer;",
        "mov.u32 %r2, %clock; {wait} mov.u32 %r3, %clock; cvt.u64.u32 %d1, %r2; cvt.u64.u32 %d2, %r3;",
    ],
)
def test_time_goes_on_by_the_seed(read: str) -> None:
    body = read.format(wait="nanosleep.u32 100; bar.sync 0;") + "sub.u64 %d3, %d2, %d1; st.global.u64 [%o], %d3;"
    for schedule, seed in SCHEDULES:
        findings, passed = launch(body, schedule, seed)
        assert findings == []
        assert (passed > 0).all()
        assert (passed < 1 << 32).all()
        np.testing.assert_array_equal(launch(body, schedule, seed)[1], passed)


def test_halves_of_the_time_are_those_of_the_whole() -> None:
    body = """
        mov.u64 %d1, %clock64; mov.u32 %r2, %clock_hi; shr.u64 %d1, %d1, 32; cvt.u64.u32 %d2, %r2;
        sub.u64 %d3, %d2, %d1;
        mov.u64 %d4, %globaltimer; mov.u32 %r3, %globaltimer_hi; shr.u64 %d4, %d4, 32; cvt.u64.u32 %d5, %r3;
        sub.u64 %d5, %d5, %d4; or.b64 %d3, %d3, %d5;
        mov.u32 %r4, %globaltimer_lo; st.global.u64 [%o], %d3;"""
    findings, out = launch(body)
    assert findings == []
    assert not out.any()


def test_a_loop_that_waits_for_a_time_ends() -> None:
    body = """
        mov.u64 %d1, %globaltimer;
    L:  nanosleep.u32 1000; mov.u64 %d2, %globaltimer; sub.u64 %d2, %d2, %d1;
        setp.lt.u64 %p1, %d2, 20000;
        @%p1 bra L;
        st.global.u64 [%o], %d2;"""
    for schedule, seed in SCHEDULES[:4]:
        findings, out = launch(body, schedule, seed, blocks=1)
        assert findings == []
        assert (out >= 20000).all()


def test_places_are_legal_and_drawn() -> None:
    body = """
        mov.u32 %r2, %smid; mov.u32 %r3, %nsmid; mul.wide.u32 %d1, %r3, 65536; cvt.u64.u32 %d2, %r2;
        add.u64 %d1, %d1, %d2; st.global.u64 [%o], %d1;"""
    drawn = set()
    for schedule, seed in SCHEDULES:
        findings, out = launch(body, schedule, seed)
        assert findings == []
        assert (out >> 16 == 132).all()
        assert (out & 0xFFFF < 132).all()
        assert (out == out[:, :1]).all()
        drawn.add(tuple(out[:, 0].tolist()))
    assert len(drawn) > 4


def test_every_launch_of_a_device_is_another_grid() -> None:
    device, body = Device(), "mov.u64 %d1, %gridid; st.global.u64 [%o], %d1;"
    first, second = (int(launch(body, device=device)[1][0, 0]) for _ in range(2))
    assert second == first + 1


def test_hints_about_other_grids_change_nothing() -> None:
    body = "griddepcontrol.wait; griddepcontrol.launch_dependents; st.global.u64 [%o], 7;"
    findings, out = launch(body)
    assert findings == []
    assert (out == 7).all()


RIGHT = {
    "less and more": (
        "@%p0 bra A; setmaxnreg.inc.sync.aligned.u32 128; bra B; A: setmaxnreg.dec.sync.aligned.u32 40; B:",
        ".maxnreg 88",
    ),
    "unknown at first": (
        "@%p0 bra A; setmaxnreg.inc.sync.aligned.u32 232; bra B; A: setmaxnreg.dec.sync.aligned.u32 24; B:",
        ".maxntid 256, 1, 1",
    ),
    "the same": ("setmaxnreg.inc.sync.aligned.u32 64; setmaxnreg.dec.sync.aligned.u32 64;", ".maxnreg 64"),
    "down and up": (
        "setmaxnreg.dec.sync.aligned.u32 24; bar.sync 0; setmaxnreg.inc.sync.aligned.u32 80;",
        ".maxnreg 80",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_legal_register_counts_are_silent(name: str) -> None:
    body, directives = RIGHT[name]
    for schedule, seed in SCHEDULES:
        assert launch(body, schedule, seed, threads=256, directives=directives)[0] == []


# name: (wrong body, directives, kind, what the finding says)
WRONG = {
    "more that is less": (
        "setmaxnreg.inc.sync.aligned.u32 64;",
        ".maxnreg 80",
        FindingKind.BARRIER,
        "raises the number of registers to fewer than the warp has (64 from 80)",
    ),
    "less that is more": (
        "setmaxnreg.dec.sync.aligned.u32 40; bar.sync 0; setmaxnreg.dec.sync.aligned.u32 64;",
        "",
        FindingKind.BARRIER,
        "lowers the number of registers to more than the warp has (64 from 40)",
    ),
    "one warp alone": (
        "setp.lt.u32 %p1, %t, 32; @%p1 setmaxnreg.dec.sync.aligned.u32 40; bar.sync 0;",
        "",
        FindingKind.DIVERGENCE,
        "is not executed by all four warps of a warpgroup in the same way",
    ),
    "part of a warp": (
        "setp.lt.u32 %p1, %t, 16; @%p1 setmaxnreg.dec.sync.aligned.u32 40; bar.sync 0;",
        "",
        FindingKind.DIVERGENCE,
        "waits for threads of its warp that never come",
    ),
    "more than the block has": (
        "@%p0 bra A; setmaxnreg.inc.sync.aligned.u32 160; bra B; A: setmaxnreg.dec.sync.aligned.u32 40; B:",
        ".maxnreg 88",
        FindingKind.DEADLOCK,
        "waits for registers that the block does not have (its warps ask for 800 a lane together, and began with 704)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_illegal_register_counts_are_found(name: str) -> None:
    body, directives, kind, said = WRONG[name]
    for schedule, seed in SCHEDULES:
        findings, _ = launch(body, schedule, seed, threads=256, directives=directives)
        assert findings[0].kind is kind, (schedule, seed)
        assert said in findings[0].message
