"""What the order core keeps of a launch does not grow with its waves."""

import numpy as np
import pytest
from async_kernels import module
from order_pairs_async import LOAD, ONE, READ, WAIT

from tileproof.simulators.ptx import launch
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.order.clocks import Clocks
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder

BEGIN_WAVE = LaunchOrder.begin_wave


def test_waves_of_one_launch_share_components_and_leave_no_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def begin_wave(self: LaunchOrder, geometry: Geometry) -> Clocks:
        clocks = BEGIN_WAVE(self, geometry)
        seen.append((clocks.rows.shape[1], len(clocks.holders)))
        return clocks

    monkeypatch.setattr(launch, "WAVE_LANES", 64)
    monkeypatch.setattr(LaunchOrder, "begin_wave", begin_wave)
    device = Device(engine="reference")
    args = (device.upload(np.arange(2048, dtype=np.uint32)), device.upload(np.zeros(2048, np.uint32)))
    copies = "cp.async.ca.shared.global [%r7+1024], [%d3], 4; cp.async.wait_all;"
    quiet = READ.replace("st.global.u32 [%d2], %r9;", "")
    kernel = device.load_ptx(module(ONE + copies + LOAD + WAIT + quiet, ""))["k"]
    assert kernel.launch(grid=(6, 1, 1), block=(64, 1, 1), args=args).findings == []
    assert len(seen) == 6
    assert set(seen[1:]) == {seen[1]}
