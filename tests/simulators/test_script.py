"""A schedule by script: it decides who comes first, breaks no wait, and ends in the friendly one."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.machine.script import Move, Script

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"

# Each warp takes a ticket and stores it in its place.
TICKETS = f"""{HEAD}.visible .entry tickets(.param .u64 out, .param .u64 counter) {{
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [counter];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    setp.ne.u32 %p, %r2, 0;
    @%p bra $end;
    atom.global.add.u32 %r3, [%rd2], 1;
    shr.u32 %r1, %r1, 5;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd3, %rd1, %rd3;
    st.global.u32 [%rd3], %r3;
$end:
    ret;
}}"""

# Warp 1 waits for warp 0's flag, then both take tickets.
FLAG = TICKETS.replace("tickets(", "flag(").replace(
    "    atom.global.add.u32 %r3, [%rd2], 1;\n",
    """    setp.lt.u32 %p, %r1, 32;
    @%p bra $raise;
$wait:
    ld.acquire.gpu.global.u32 %r3, [%rd2+4];
    setp.eq.u32 %p, %r3, 0;
    @%p bra $wait;
    bra $take;
$raise:
    st.release.gpu.global.u32 [%rd2+4], 1;
$take:
    atom.global.add.u32 %r3, [%rd2], 1;
""",
)


def tickets(text: str, kernel: str, order: list[int], warps: int = 2) -> list[int]:
    """The ticket of each warp, where the script has them come in this order."""
    device = Device()
    device.follow(Script(kernel, tuple(Move(range(warp, warp + 1), "atom.global.add") for warp in order)))
    out, counter = device.upload(np.zeros(warps, np.uint32)), device.upload(np.zeros(2, np.uint32))
    report = device.load_ptx(text)[kernel].launch(grid=(1, 1, 1), block=(32 * warps, 1, 1), args=(out, counter))
    assert report.findings == []
    assert device.scripted is not None
    assert device.scripted.made == len(order)
    return list(out.download())


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_the_script_decides_who_comes_first(order: list[int]) -> None:
    found = tickets(TICKETS, "tickets", order, 3)
    assert [found[warp] for warp in order] == [0, 1, 2]


def test_a_script_breaks_no_wait() -> None:
    """Warp 1 is to come first and waits for warp 0, which goes on, up to its own ticket and no further."""
    assert tickets(FLAG, "flag", [1, 0]) == [1, 0]


def test_a_move_that_never_comes_is_given_up() -> None:
    device = Device()
    device.follow(Script("tickets", (Move(range(1), "bar.sync"),)))
    out, counter = device.upload(np.zeros(1, np.uint32)), device.upload(np.zeros(2, np.uint32))
    report = device.load_ptx(TICKETS)["tickets"].launch(grid=(1, 1, 1), block=(32, 1, 1), args=(out, counter))
    assert report.findings == []
    assert list(out.download()) == [0]


def test_launches_of_other_kernels_and_later_ones_run_as_the_device_has_them() -> None:
    device = Device()
    device.follow(Script("another", (Move(range(1), "atom"),)))
    out, counter = device.upload(np.zeros(2, np.uint32)), device.upload(np.zeros(2, np.uint32))
    kernel = device.load_ptx(TICKETS)["tickets"]
    assert kernel.launch(grid=(1, 1, 1), block=(64, 1, 1), args=(out, counter)).engine == "fast"
    assert device.scripted is None
    device.follow(Script("tickets", ()))
    assert kernel.launch(grid=(1, 1, 1), block=(64, 1, 1), args=(out, counter)).engine == "reference"
    device.follow(None)
    assert kernel.launch(grid=(1, 1, 1), block=(64, 1, 1), args=(out, counter)).engine == "fast"
