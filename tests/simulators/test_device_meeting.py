"""Lanes of a warp meet at a collective although they come in groups that mix warps."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device

# Every thread loops (tid * 7) % 13 times, so each warp comes to the shuffles in many groups; then the warps reduce.
DIVERGED_THEN_REDUCED = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry reduce(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    mul.lo.u32 %r2, %r1, 7;
    rem.u32 %r3, %r2, 13;
    mov.u32 %r4, 0;
loop:
    setp.ge.u32 %p1, %r4, %r3;
    @%p1 bra done;
    add.u32 %r4, %r4, 1;
    bra loop;
done:
    mov.u32 %r5, %r1;
    shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1;
    add.u32 %r5, %r5, %r6;
    shfl.sync.bfly.b32 %r6, %r5, 8, 31, -1;
    add.u32 %r5, %r5, %r6;
    shfl.sync.bfly.b32 %r6, %r5, 4, 31, -1;
    add.u32 %r5, %r5, %r6;
    shfl.sync.bfly.b32 %r6, %r5, 2, 31, -1;
    add.u32 %r5, %r5, %r6;
    shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;
    add.u32 %r5, %r5, %r6;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r5;
    ret;
}
"""


@pytest.mark.parametrize("seed", range(40))
def test_groups_that_mix_warps_meet_only_when_every_lane_has_come(seed: int) -> None:
    device = Device(schedule="adversarial", seed=seed)
    out = device.allocate((256,), np.uint32)
    report = device.load_ptx(DIVERGED_THEN_REDUCED)["reduce"].launch(grid=(1, 1, 1), block=(256, 1, 1), args=(out,))
    assert report.findings == []
    expected = np.repeat(np.arange(256, dtype=np.uint32).reshape(8, 32).sum(axis=1), 32)
    np.testing.assert_array_equal(out.download(), expected)
