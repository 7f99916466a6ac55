"""One launch on both engines, which must give the same: what the tests of the fast engine share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Buffer, Device
from tileproof.simulators.ptx.findings import Report

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.const .align 8 .b8 table[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
    .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<24>, %m<4>; .reg .f32 %f<8>; .reg .b64 %d<16>, %e<4>;
    .shared .align 16 .b8 s[8192];
    .local .align 16 .b8 l[64];
    ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %d2, %r4, 16; add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;
    mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 16, %r5; mov.u32 %r7, l;
"""


def kernel(body: str) -> str:
    """A module: %r4 is the thread, %d3 and %d4 its 16 bytes of a and b, %r6 its 16 bytes of shared memory."""
    return f"{HEAD}{body}\n    ret;\n}}\n"


def run(
    text: str,
    engine: str,
    *,
    threads: int = 64,
    blocks: int = 2,
    schedule: str = "friendly",
    seed: int = 0,
    prepare: Callable[[Device], Sequence[Any]] | None = None,
) -> tuple[Report, list[NDArray[Any]]]:
    """Launch on one engine; the report, and what the buffers among the arguments hold afterwards."""
    device = Device(engine=engine, schedule=schedule, seed=seed)
    arguments = (prepare or _buffers)(device)
    report = device.load_ptx(text)["k"].launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=arguments)
    assert report.engine == engine
    return report, [argument.download() for argument in arguments if isinstance(argument, Buffer)]


def _buffers(device: Device) -> Sequence[Any]:
    a = device.upload((np.arange(2048, dtype=np.uint32) * np.uint32(2654435761)).view(np.uint8))
    return a, device.allocate(8192, np.uint8), np.uint32(7)


def agree(text: str, **settings: Any) -> Report:
    """Both engines give equal outputs, findings, notes and counters; the fast one's report."""
    fast, outputs = run(text, "fast", **settings)
    reference, expected = run(text, "reference", **settings)
    for held, right in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(held, right)
    assert fast.findings == reference.findings
    assert fast.notes == reference.notes
    assert fast.counters == reference.counters
    return fast
