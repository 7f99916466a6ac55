"""Small kernels around tensor copies: what the tests of tensor copies share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.buffer import Buffer
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind, Note

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(8)]]
on_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

PARAM_MAP = "mov.b64 %d0, map; cvta.param.u64 %d0, %d0;"
INIT = "@%p0 mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async.shared::cta; bar.sync 0;"
EXPECT = "mov.u32 %r7, 512; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %r7;"
LOAD = """mov.u32 %r8, tile; mov.u32 %r9, bar; @%p0 cp.async.bulk.tensor.2d.shared::cta.global
    .mbarrier::complete_tx::bytes [%r8], [%d0, {%r1, %r2}], [%r9];""".replace("global\n    ", "global")
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;"
# Every thread takes 8 bytes from the tile to `out`.
OUT = """shl.b32 %r3, %r0, 3; add.u32 %r3, %r3, tile; ld.shared.u64 %d3, [%r3];
    mul.wide.u32 %d4, %r0, 8; add.s64 %d4, %d4, %d2; st.global.u64 [%d4], %d3;"""
FILL = """shl.b32 %r3, %r0, 3; add.u32 %r3, %r3, tile; cvt.u64.u32 %d3, %r0; st.shared.u64 [%r3], %d3;
    fence.proxy.async.shared::cta; bar.sync 0;"""
STORE = """mov.u32 %r8, tile; @%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r1, %r2}], [%r8];
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"""


@dataclass(frozen=True)
class Outcome:
    """What a launch found and left."""

    findings: list[Finding]
    notes: list[Note]
    out: NDArray[np.uint8]
    tensor: NDArray[np.uint8]

    def kinds(self) -> list[FindingKind]:
        """Of the findings, in order."""
        return [finding.kind for finding in self.findings]


def module(body: str) -> str:
    return f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .const .align 64 .b8 fixed[128];
.shared .align 1024 .b8 tile[4096];
.shared .align 8 .b64 bar[64];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out, .param .u32 x, .param .u32 y)
{{
    .reg .pred %p<4>;
    .reg .b16 %h<2>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [in];
    ld.param.u64 %d2, [out];
    ld.param.u32 %r1, [x];
    ld.param.u32 %r2, [y];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    {body}
    ret;
}}
"""


def run(
    body: str,
    *,
    schedule: str = "friendly",
    seed: int = 0,
    corner: tuple[int, int] = (0, 0),
    tensor: Buffer | None = None,
    out: Buffer | None = None,
    device: Device | None = None,
    given: np.void | None = None,
    blocks: int = 1,
    align: int = 64,
    constant: str = "fixed[128];",
    engine: str = "fast",
    **changes: Any,
) -> Outcome:
    """64 threads; the tensor is 64 columns of 8 rows of bytes, its box all of it."""
    device = device or Device(schedule=schedule, seed=seed, engine=engine)
    buffer = tensor or device.upload(np.arange(512, dtype=np.uint64).astype(np.uint8))
    out = out or device.upload(np.full(512, 0xEE, np.uint8))
    arguments: Any = {"shape": (64, 8), "strides_bytes": (64,), "box": (64, 8)} | changes
    made = device.tensor_map(buffer, **arguments) if given is None else given
    args = (made, buffer, out, np.int32(corner[0]), np.int32(corner[1]))
    text = module(body).replace(".param .align 64", f".param .align {align}").replace("fixed[128];", constant)
    report = device.load_ptx(text)["k"].launch(grid=(blocks, 1, 1), block=(64, 1, 1), args=args)
    return Outcome(report.findings, report.notes, out.download(), buffer.download())
