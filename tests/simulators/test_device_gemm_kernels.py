"""The GEMM kernels of the benchmarks: the oracle's bits and no findings on both engines; what breaks them is found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.kernels.compile import compile_source
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Report

Array = NDArray[Any]
KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernels"
DEPTH = 512


@dataclass(frozen=True)
class Kernel:
    name: str
    instruction: str
    tile: int
    threads: int
    shared_bytes: int = 0


MMA = Kernel("e4m3_gemm_mma", "mma.m16n8k32.f32.e4m3.e4m3", 64, 128)
WGMMA = Kernel("e4m3_gemm_wgmma", "wgmma.m64n128k32.f32.e4m3.e4m3", 128, 256)
TMA = Kernel("e4m3_gemm_tma", "wgmma.m64n128k32.f32.e4m3.e4m3", 128, 256, 4 * 128 * 128)
every_kernel = pytest.mark.parametrize("kernel", [MMA, WGMMA, TMA], ids=lambda kernel: kernel.name)


def codes(rows: int, seed: int) -> Array:
    """Finite codes."""
    drawn = np.random.default_rng(seed).integers(0, 256, (rows, DEPTH), np.uint8)
    return np.where(drawn & 0x7F == 0x7F, drawn ^ 0x40, drawn).astype(np.uint8)


def run(kernel: Kernel, source: str, **options: Any) -> tuple[Report, Array]:
    """One block's launch."""
    device, tile = Device(**options), kernel.tile
    given: list[Any] = [device.upload(codes(tile, seed)) for seed in (1, 2)]
    out = device.allocate((tile, tile), np.float32)
    if kernel is TMA:
        form: dict[str, Any] = {"shape": (DEPTH, tile), "strides_bytes": (DEPTH,), "box": (128, 128), "swizzle": 128}
        given = [device.tensor_map(buffer, **form) for buffer in given]
    report = device.load(compile_source(source, name=f"{kernel.name}.cu"))[kernel.name].launch(
        grid=(1, 1, 1),
        block=(kernel.threads, 1, 1),
        args=(*given, out, np.int32(tile), np.int32(DEPTH)),
        shared_bytes=kernel.shared_bytes,
    )
    return report, out.download()


def source_of(kernel: Kernel) -> str:
    return (KERNELS / f"{kernel.name}.cu").read_text()


@every_kernel
@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize(
    "options",
    [{}, {"order": False}, {"schedule": "adversarial", "seed": 1}],
    ids=["friendly", "without order", "adversarial"],
)
def test_a_tile_has_the_oracles_bits(kernel: Kernel, engine: str, options: dict[str, Any]) -> None:
    report, result = run(kernel, source_of(kernel), engine=engine, **options)
    order = AccumulationOrder(
        instruction=kernel.instruction, arch="sm_90a", assembler="13.0", ragged_k=RaggedK.ZERO_FILL
    )
    assert report.findings == []
    expected = gemm(order, codes(kernel.tile, 1), codes(kernel.tile, 2))
    assert np.array_equal(result.view(np.uint32), expected.view(np.uint32))


@every_kernel
def test_both_engines_count_alike(kernel: Kernel) -> None:
    reports = [run(kernel, source_of(kernel), engine=engine, order=False)[0] for engine in ("fast", "reference")]
    assert reports[0].counters == reports[1].counters


WAIT = 'asm volatile("cp.async.wait_group 1;" ::: "memory");'
PROXY_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
BARRIER = "__syncthreads();"
WRONG = {
    "a wait that covers one group too few": (MMA, WAIT, WAIT.replace("1;", "2;"), 1),
    "no barrier before the slot is filled again": (MMA, BARRIER, "", 2),
    "no proxy fence": (WGMMA, PROXY_FENCE, "", 1),
    "no barrier before the tiles are overwritten": (WGMMA, BARRIER, "", 2),
    "a tensor copy over a slot that is still read": (TMA, BARRIER, "", 2),
    "another phase": (TMA, "tile / kStages & 1", "(tile / kStages + 1) & 1", 1),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_what_breaks_a_kernel_is_found(name: str, engine: str) -> None:
    kernel, right, wrong, which = WRONG[name]
    before, after = source_of(kernel).split(right)[:which], source_of(kernel).split(right)[which:]
    assert after
    source = right.join(before) + wrong + right.join(after)
    report, _ = run(kernel, source, engine=engine)
    assert report.findings
