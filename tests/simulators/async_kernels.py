"""Small kernels around mbarriers and copies: what the tests of asynchronous operations share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, Note

Words = NDArray[np.uint32]

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(20)]]
# The gate has the first ones; the others take their time in `make slow`.
SHORT = 6
_ALL = [*SCHEDULES[:SHORT], *[pytest.param(*drawn, marks=pytest.mark.slow) for drawn in SCHEDULES[SHORT:]]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), _ALL)
on_few_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:3])


@dataclass(frozen=True)
class Outcome:
    """What a launch found and left."""

    findings: list[Finding]
    notes: list[Note]
    out: Words


def module(body: str, shared: str) -> str:
    """A kernel.

    %r0 is the thread, %p0 thread 0, %p1 the first warp; %d0 the address of `in`, %d1 of `out`, %d2 of out[thread], %d3
    of in[thread]. The shared variable `bar` has four mbarriers, `tile` 4096 bytes.
    """
    return f"""
.version 8.6
.target sm_90a
.address_size 64
.shared .align 16 .b8 tile[4096];
.shared .align 8 .b64 bar[4];
{shared}
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .pred %p<16>;
    .reg .b16 %h<8>;
    .reg .b32 %r<32>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [in];
    ld.param.u64 %d1, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d2, %r0, 4;
    add.s64 %d3, %d2, %d0;
    add.s64 %d2, %d2, %d1;
    setp.eq.u32 %p0, %r0, 0;
    setp.lt.u32 %p1, %r0, 32;
    {body}
}}
"""


def run(
    body: str,
    schedule: str = "friendly",
    seed: int = 0,
    *,
    threads: int = 64,
    blocks: int = 1,
    budget: int = 1 << 22,
    source: NDArray[Any] | None = None,
    target: NDArray[Any] | None = None,
    shared: str = "",
    cluster: int = 1,
    engine: str = "fast",
) -> Outcome:
    """Launch a kernel; `in` holds 0, 1, 2, ... and `out` zeros unless given."""
    device = Device(schedule=schedule, seed=seed, step_budget=budget, engine=engine)
    numbers = device.upload(np.arange(2048, dtype=np.uint32) if source is None else source)
    out = device.upload(np.zeros(2048, np.uint32) if target is None else target)
    kernel = device.load_ptx(module(body, shared))["k"]
    report = kernel.launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(numbers, out), cluster=(cluster, 1, 1))
    return Outcome(report.findings, report.notes, out.download())
