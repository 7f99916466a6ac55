"""Blocks that wait for each other: whoever is resident first, all of a wave come to run."""

import numpy as np
import pytest

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

TURNS = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 turn, .param .u32 first)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %d<2>;
    ld.param.u64 %d0, [turn];
    ld.param.u32 %r2, [first];
    mov.u32 %r0, %ctaid.x;
    {order}
W:  ld.acquire.gpu.global.u32 %r1, [%d0];
    setp.ne.u32 %p0, %r1, %r0;
    @%p0 bra W;
    add.u32 %r1, %r1, 1;
    st.release.gpu.global.u32 [%d0], %r1;
}}
"""
FORWARD, BACKWARD = "", "mov.u32 %r1, %nctaid.x; sub.u32 %r1, %r1, 1; sub.u32 %r0, %r1, %r0;"


def launch(order: str, blocks: int, schedule: str, seed: int, *, first: int = 0) -> tuple[Report, int]:
    """The report, and the turn after the last one."""
    device = Device(schedule=schedule, seed=seed, engine="reference")
    turn = device.upload(np.array([first], np.uint32))
    kernel = device.load_ptx(TURNS.format(order=order))["k"]
    report = kernel.launch(grid=(blocks, 1, 1), block=(1, 1, 1), args=(turn, np.uint32(first)))
    return report, int(turn.download()[0])


@pytest.mark.parametrize("order", [FORWARD, BACKWARD], ids=["forward", "backward"])
@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *(("adversarial", seed) for seed in range(12))])
def test_blocks_take_turns_whoever_starts_first(order: str, schedule: str, seed: int) -> None:
    report, turn = launch(order, 6, schedule, seed)
    assert report.findings == []
    assert turn == 6


@pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), ("adversarial", 3)])
def test_a_turn_that_never_comes_is_a_deadlock_of_all_blocks(schedule: str, seed: int) -> None:
    report, _ = launch(FORWARD, 4, schedule, seed, first=77)
    assert [finding.kind for finding in report.findings] == [FindingKind.DEADLOCK]


def test_blocks_that_wait_for_more_blocks_than_fit_a_wave_are_refused() -> None:
    with pytest.raises(NotModelled, match="not started"):
        launch(BACKWARD, 600, "friendly", 0)


STUCK = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p0, %r1, 0;
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d1, %d0, %d1;
    @%p0 st.global.u32 [%d1], 1;
    shr.u32 %r1, %r1, 5;
    bar.sync %r1, 64;
}
"""


@pytest.mark.parametrize("seed", range(6))
def test_blocks_start_although_all_that_run_wait_at_barriers_for_ever(seed: int) -> None:
    device = Device(schedule="adversarial", seed=seed, engine="reference")
    out = device.upload(np.zeros(8, np.uint32))
    report = device.load_ptx(STUCK)["k"].launch(grid=(8, 1, 1), block=(64, 1, 1), args=(out,))
    assert FindingKind.DEADLOCK in {finding.kind for finding in report.findings}
    assert out.download().tolist() == [1] * 8
