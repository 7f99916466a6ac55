"""Captured graphs: launches that are collected, not run, and replayed on what the buffers hold then."""

import numpy as np
import pytest

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

# out[i] += x[i] * scale
TEXT = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 out, .param .u64 x, .param .u32 scale)
{
    .reg .b32 %r<6>;
    .reg .b64 %d<5>;
    ld.param.u64 %d0, [out];
    ld.param.u64 %d1, [x];
    ld.param.u32 %r0, [scale];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d0, %d2;
    add.s64 %d4, %d1, %d2;
    ld.global.u32 %r2, [%d3];
    ld.global.u32 %r3, [%d4];
    mad.lo.u32 %r4, %r3, %r0, %r2;
    st.global.u32 [%d3], %r4;
    ret;
}
"""


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_a_replay_sees_the_buffers_of_then_and_the_values_of_the_capture(schedule: str) -> None:
    device = Device(schedule=schedule)
    add = device.load_ptx(TEXT)["add"]
    x, out = device.upload(np.arange(32, dtype=np.uint32)), device.upload(np.zeros(32, np.uint32))
    scale = np.array([2], np.uint32)
    with device.capture() as graph:
        assert add.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(out, x, scale[0])).findings == []
        scale[0] = 3
        add.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(out, out, scale[0]))
    assert not out.download().any()
    reports = graph.replay()
    assert [report.findings for report in reports] == [[], []]
    np.testing.assert_array_equal(out.download(), 8 * np.arange(32))
    add.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(x, x, np.uint32(0)))  # a launch between replays runs at once
    graph.replay()
    np.testing.assert_array_equal(out.download(), (8 + 2) * 4 * np.arange(32))


def test_a_buffer_that_is_freed_before_the_replay_is_found() -> None:
    device = Device()
    add = device.load_ptx(TEXT)["add"]
    x, out = device.upload(np.arange(32, dtype=np.uint32)), device.upload(np.zeros(32, np.uint32))
    with device.capture() as graph:
        add.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(out, x, np.uint32(1)))
    device.free(x)
    (report,) = graph.replay()
    assert [f.kind for f in report.findings] == [FindingKind.USE_AFTER_FREE]


def test_an_illegal_launch_is_refused_at_the_capture_and_captures_do_not_nest() -> None:
    device = Device()
    add, out = device.load_ptx(TEXT)["add"], device.upload(np.zeros(32, np.uint32))
    with device.capture() as graph:
        with pytest.raises(Refusal, match="2 arguments: the kernel add takes 3"):
            add.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(np.uint64(0), np.uint64(0)))
        with pytest.raises(Refusal, match="a graph is being captured already"), device.capture():
            pass
        add.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(out, out, np.uint32(1)))
        with pytest.raises(Refusal, match="a graph is being captured: nothing can run"):
            graph.replay()
    assert [report.findings for report in graph.replay()] == [[]]
