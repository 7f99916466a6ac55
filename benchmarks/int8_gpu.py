"""The INT8 products on a GPU, scales and rounding included, against `torch._int_mm`, which has neither.

    python -m benchmarks.int8_gpu [EVIDENCE.json]

All contenders of a shape take turns in one process, as CUDA graphs of ten runs each. Ratios are medians over the
repetitions, with the least and the largest; above 1 ours is faster. `ours` is what `wgmma_arm` says; every other tile
that takes the shape is timed beside it. torch's second operand is W as it is stored for it, [N, K] transposed.

    python -m benchmarks.int8_gpu --decode [EVIDENCE.json]

times the tuned decode kernels by MetaInfer's protocol: 100 runs first, then 30 samples of 100 replays, median and p90.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from benchmarks.gpu_timing import Ratio, Times, take_turns
from benchmarks.mm_fp8_gpu import peers
from benchmarks.report import keep, show
from benchmarks.torch_graph import RUNS, captured
from tileproof.conformance.environment import capture
from tileproof.kernels.int8_arms import TUNED_TILES, WGMMA, TileArm, WgmmaArm, wgmma_arm
from tileproof.kernels.int8_gemm import BF16, Int8Gemm, Product
from tileproof.kernels.int8_router import TP4_M16
from tileproof.kernels.int8_w8a8 import W8A8, Workspace
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal

OURS, PEER = "ours", "torch._int_mm"
PACK = "n-major"
WARM_RUNS, SAMPLES, REPLAYS = 100, 30, 100

Run = Callable[[], object]


@dataclass(frozen=True)
class Shape:
    """One product."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k}"


SHAPES = tuple(
    Shape(*extents)
    for extents in (
        (3072, 1536, 4096),
        (4096, 2560, 4096),
        (4096, 4096, 2048),
        (4096, 768, 4096),
        (4096, 4096, 384),
        (4096, 1280, 4096),
        (4096, 4096, 1024),
        (4096, 384, 4096),
        (4096, 4096, 192),
        (8192, 8192, 8192),
    )
)


@dataclass(frozen=True)
class Cell:
    """One shape: all times, of RUNS runs."""

    shape: Shape
    arm: str
    times: dict[str, Times]

    @property
    def speed(self) -> Ratio:
        """torch's time relative to ours."""
        return self.times[PEER].over(self.times[OURS])

    def line(self) -> str:
        """In words."""
        each = self.times[OURS].middle / RUNS
        work = 2.0 * self.shape.m * self.shape.n * self.shape.k
        others = {name: times.middle / RUNS for name, times in self.times.items() if name not in (OURS, PEER)}
        best = min(others, key=others.__getitem__) if others else self.arm
        return (
            f"{self.shape!s:20} {self.arm:14} {each * 1e3:8.1f} us, {work / each / 1e9:5.0f} TOP/s  "
            f"{PEER} / {OURS} {self.speed}  best tile {best} {others.get(best, each) * 1e3:.1f} us"
        )


class Bench:
    """One shape on a GPU: operands, and where the product goes."""

    def __init__(self, device: RecordingDevice, shape: Shape) -> None:
        random = np.random.default_rng(20260724)
        self.device, self.shape = device, shape
        self.x = random.integers(-127, 128, (shape.m, shape.k)).astype(np.int8)
        self.w = random.integers(-127, 128, (shape.k, shape.n)).astype(np.int8)
        self.scales = [random.random(size).astype(np.float32) * np.float32(0.01) for size in (shape.m, shape.n)]
        arrays = (self.x, PACKS[PACK].pack(self.w), *self.scales, np.zeros((shape.m, shape.n), BF16))
        self.buffers = [device.upload(array) for array in arrays]

    @property
    def product(self) -> Product:
        """The call."""
        x, weight, x_scale, w_scale, out = map(Tensor.whole, self.buffers)
        return Product(x=x, weight=weight, pack=PACK, x_scale=x_scale, w_scale=w_scale, out=out)

    def contenders(self) -> tuple[dict[str, Run], str]:
        """Ours and every tile that takes the shape, by name; and which kernel ours is."""
        gemm, shape, arm = Int8Gemm(self.device), self.shape, wgmma_arm(self.shape.m, self.shape.n).name
        tiles: tuple[TileArm | WgmmaArm, ...] = (*TUNED_TILES, *WGMMA)
        takes = [tile.name for tile in tiles if tile.obstacle(shape.m, shape.n, shape.k) is None]
        names = {OURS: arm} | {name: name for name in takes if name != arm}
        with self.device.recorded() as launches:
            for name in names.values():
                gemm(self.product, name)
        return {name: launch.run for name, launch in zip(names, launches, strict=True)}, arm

    def free(self) -> None:
        """Give all memory back."""
        for buffer in self.buffers:
            self.device.free(buffer)


def measure(device: RecordingDevice, torch: Any, cuda: Any, shape: Shape) -> Cell:
    """All contenders of one shape.

    Raises:
        ArithmeticError: an output of ours is not that of torch's sums.
    """
    bench = Bench(device, shape)
    ours, arm = bench.contenders()
    theirs, sums = _theirs(torch, bench.x, bench.w)
    graphs = {name: captured(torch, run) for name, run in (ours | {PEER: theirs}).items()}
    with cuda.Stream(non_blocking=True):
        times = dict(take_turns(cuda, graphs))
    check(bench, sums)
    bench.free()
    return Cell(shape, arm, times)


def check(bench: Bench, sums: Any) -> None:
    """Raises: ArithmeticError where outputs are not bf16 of the scaled sums, int32 [M, N]."""
    x_scale, w_scale = bench.scales
    right = (sums.astype(np.float32) * x_scale[:, np.newaxis] * w_scale).astype(BF16)
    wrong = int((bench.buffers[-1].download().view(np.uint16) != right.view(np.uint16)).sum())
    if wrong:
        raise ArithmeticError(f"{bench.shape}: {wrong} outputs are not those of torch's sums")


def _theirs(torch: Any, x: Any, w: Any) -> tuple[Run, Any]:
    """torch's contender, and its sums."""
    rows = torch.from_numpy(x).cuda()
    columns = torch.from_numpy(np.ascontiguousarray(w.T)).cuda().t()
    return partial(torch._int_mm, rows, columns), torch._int_mm(rows, columns).cpu().numpy()


def decode(device: RecordingDevice) -> list[dict[str, Any]]:
    """Median and p90 of the tuned decode kernels, in microseconds, by MetaInfer's protocol."""
    import cupy

    from tileproof.kernels.launch_graph import LaunchGraph

    found, operator = [], W8A8(device, TP4_M16)
    for (k, n), pack in TP4_M16.packs.items():
        bench = Bench(device, Shape(16, n, k))
        one = bench.product
        weight = operator.prepare(Tensor.whole(device.upload(bench.w)), one.weight)
        planes = Tensor.whole(device.allocate((16, 16, n), np.dtype(np.int32)))
        space = Workspace(planes, Tensor.whole(device.upload(np.zeros(n // 64, np.uint64))))
        with device.recorded() as launches:
            route = operator(one.x, weight, one.x_scale, one.w_scale, one.out, workspace=space).route
        graph = LaunchGraph([launch.run for launch in launches for _ in range(REPLAYS)])
        graph.replay()
        samples = []
        for _ in range(SAMPLES):
            before, after = cupy.cuda.Event(), cupy.cuda.Event()
            before.record()
            graph.replay()
            after.record()
            after.synchronize()
            samples.append(1e3 * cupy.cuda.get_elapsed_time(before, after) / REPLAYS)
        check(bench, bench.x.astype(np.int64) @ bench.w.astype(np.int64))
        middle, high = statistics.median(samples), float(np.quantile(samples, 0.9))
        found.append({"k": k, "n": n, "pack": pack, "route": route, "median_us": middle, "p90_us": high})
        show(f"M 16, K {k}, N {n} {route}: median {middle:.2f} us, p90 {high:.2f} us")
    return found


def geometric_mean(cells: Sequence[Cell]) -> float:
    """Of torch's times relative to ours."""
    return exp(statistics.fmean(log(cell.speed.middle) for cell in cells))


def main(arguments: Sequence[str] = ()) -> None:
    """Measure on the first GPU; without one, or without torch, say so."""
    try:
        device, torch, cuda = peers()
    except Refusal as refusal:
        show(f"int8_gpu: not run: {refusal}")
        return
    paths = [argument for argument in arguments if argument != "--decode"]
    evidence: dict[str, object] = {"environment": asdict(capture()), "torch": torch.__version__}
    if "--decode" in arguments:
        evidence |= {"what": "decode kernels, microseconds a call, in graphs of 100", "decode": decode(device)}
    else:
        cells = []
        for shape in SHAPES:
            cells.append(measure(device, torch, cuda, shape))
            show(cells[-1].line())
        worst = min(cells, key=lambda cell: cell.speed.middle)
        show(f"geometric mean {geometric_mean(cells):.3f}, worst {worst.speed} at {worst.shape}")
        what = f"times of {RUNS} runs of the INT8 products and of torch._int_mm, taking turns, milliseconds"
        evidence |= {"what": what, "geometric_mean": geometric_mean(cells), "cells": [asdict(cell) for cell in cells]}
    if paths:
        keep(evidence, paths[0])


if __name__ == "__main__":
    main(sys.argv[1:])
