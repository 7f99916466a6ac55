"""What the order remembers takes at most three times the memory that it is about."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device

NBYTES = 1 << 21
MOST = 3
BLOCK = 256
# bytes of each access: (what stores it; what loads it)
ACCESSES = {
    1: ("st.global.u8 [%d0], %r0;", "ld.global.u8 %r0, [%d0];"),
    2: ("st.global.u16 [%d0], %h0;", "ld.global.u16 %h0, [%d0];"),
    4: ("st.global.u32 [%d0], %r0;", "ld.global.u32 %r0, [%d0];"),
    16: ("st.global.v2.u64 [%d0], {%d2, %d2};", "ld.global.v2.u64 {%d2, %d3}, [%d0];"),
}


def module(access: str, nbytes: int) -> str:
    """A kernel whose threads access a buffer one after the other."""
    return f"""
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a)
{{
    .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>;
    ld.param.u64 %d0, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, {BLOCK}, %r1;
    mul.wide.u32 %d1, %r3, {nbytes}; add.s64 %d0, %d0, %d1; mov.u16 %h0, 1; mov.u32 %r0, 1; mov.u64 %d2, 1;
    {access}
    ret;
}}
"""


def remembered(device: Device) -> int:
    """Bytes of all that is allocated for the order of global memory."""
    return device.memory.touched.nbytes


@pytest.mark.parametrize("nbytes", ACCESSES)
def test_kernels_over_a_large_buffer_are_remembered_in_three_times_its_bytes(nbytes: int) -> None:
    device = Device()
    buffer = device.upload(np.zeros(NBYTES, np.uint8))
    kernels = [device.load_ptx(module(access, nbytes))["k"] for access in ACCESSES[nbytes]]
    for kernel in (*kernels, *kernels):
        report = kernel.launch(grid=(NBYTES // nbytes // BLOCK, 1, 1), block=(BLOCK, 1, 1), args=(buffer,))
        assert not report.findings
        assert remembered(device) <= MOST * NBYTES


def test_bytes_that_words_wrote_before_are_remembered_so_too() -> None:
    device = Device()
    buffer = device.upload(np.zeros(NBYTES, np.uint8))
    for nbytes in (16, 4, 2, 1, 4):
        kernel = device.load_ptx(module(ACCESSES[nbytes][0], nbytes))["k"]
        assert not kernel.launch(grid=(NBYTES // nbytes // BLOCK, 1, 1), block=(BLOCK, 1, 1), args=(buffer,)).findings
    assert remembered(device) <= MOST * NBYTES
