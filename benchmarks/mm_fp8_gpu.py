"""mm_fp8 on a GPU against `torch._scaled_mm` with one scale a tensor.

    python -m benchmarks.mm_fp8_gpu [EVIDENCE.json]

All contenders of a shape take turns in one process, as CUDA graphs of ten runs each. Ratios are medians over the
repetitions, with the least and the largest. `mm_fp8` is the dispatcher's choice; `large` and `small` are its two
variants, forced. torch takes NT only: for dX and dW its operands are transposed beforehand, outside of the times, and
a batch is one call a matrix.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.gpu_timing import Ratio, Times, take_turns
from benchmarks.report import keep, show
from benchmarks.torch_graph import RUNS, captured
from tileproof.conformance.environment import capture
from tileproof.kernels.cupy_device import CupyBuffer
from tileproof.kernels.mm_fp8 import BF16, MmFp8
from tileproof.kernels.mm_fp8_dispatch import Route
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
OURS = "mm_fp8"
FORCED = {"large": Route.LARGE, "small": Route.SMALL_LEAN}
PEERS = ("torch fast", "torch")
SCALE = np.array([2.0**-14], np.float32)
ROUNDING = 2.0**-7
"""Of the largest output: two bf16 roundings. A contender that computes something else lies far beyond it."""

Run = Callable[[], object]


@dataclass(frozen=True)
class Shape:
    """One product: batch matrices of [M, K] times [K, N], and how the operands lie in memory."""

    name: str
    m: int
    n: int
    k: int
    layout: str = "NT"
    batch: int = 1

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        return f"{self.name} {batch}{self.m} x {self.n} x {self.k} {self.layout}"


SHAPES = (
    *(Shape("cube", extent, extent, extent) for extent in (512, 1024, 2048, 4096, 8192)),
    Shape("narrow", 64, 8192, 2048),
    Shape("projection", 1024, 1536, 2048),
    Shape("batch", 512, 512, 512, batch=64),
    Shape("batch", 1024, 1024, 2048, batch=8),
    Shape("forward", 512, 4096, 4096),
    Shape("dX", 512, 4096, 4096, layout="NN"),
    Shape("dW", 4096, 4096, 512, layout="TN"),
)


@dataclass(frozen=True)
class Cell:
    """One shape: the route of the dispatcher, all times (of RUNS runs), and how far ours lies from torch's product."""

    shape: Shape
    route: Route
    times: dict[str, Times]
    distance: float

    def ratio(self, one: str, other: str) -> Ratio:
        """Of two contenders' times."""
        return self.times[one].over(self.times[other])

    def line(self) -> str:
        """In words."""
        each = self.times[OURS].middle / RUNS
        work = 2.0 * self.shape.batch * self.shape.m * self.shape.n * self.shape.k
        pairs = [(OURS, peer) for peer in PEERS] + [(name, OURS) for name in FORCED]
        ratios = "  ".join(f"{a} / {b} {self.ratio(a, b)}" for a, b in pairs)
        return f"{self.shape!s:36} {self.route:14} {each * 1e3:8.1f} us, {work / each / 1e9:4.0f} TFLOP/s  {ratios}"


class Bench:
    """One shape on a GPU: operands, and where the product goes."""

    def __init__(self, device: RecordingDevice, shape: Shape) -> None:
        random = np.random.default_rng(2026)
        self.device, self.shape = device, shape
        self.a = _codes(random, shape.batch, shape.m, shape.k)
        self.b = _codes(random, shape.batch, shape.k, shape.n)
        self.stored = [
            _stored(device, codes, letter) for codes, letter in zip((self.a, self.b), shape.layout, strict=True)
        ]
        self.scale = device.upload(SCALE)
        self.out = device.upload(np.zeros((shape.batch, shape.m, shape.n), BF16))

    def contenders(self) -> tuple[dict[str, Run], Route]:
        """The dispatcher's choice and both variants by name, and which of them the choice is."""
        kernel, (a, b) = MmFp8(self.device), self._operands
        routes: tuple[Route | None, ...] = (None, *FORCED.values())
        with self.device.recorded() as launches:
            taken = [
                kernel(a, b, Tensor.whole(self.scale), Tensor.whole(self.out), route=route).route for route in routes
            ]
        return dict(zip((OURS, *FORCED), (launch.run for launch in launches), strict=True)), Route(taken[0])

    @property
    def _operands(self) -> list[Tensor]:
        """[batch, M, K] and [batch, K, N]; of one that is stored the other way round, the view."""
        return [
            whole if letter == "N" else replace(whole, shape=codes.shape, strides=_swapped(whole.strides))
            for codes, letter, whole in zip(
                (self.a, self.b), self.shape.layout, map(Tensor.whole, self.stored), strict=True
            )
        ]

    def free(self) -> None:
        """Give all memory back."""
        for buffer in (*self.stored, self.scale, self.out):
            self.device.free(buffer)


def measure(device: RecordingDevice, torch: Any, cuda: Any, shape: Shape) -> Cell:
    """All contenders of one shape.

    Raises:
        ArithmeticError: ours is not torch's product but for roundings.
    """
    bench = Bench(device, shape)
    ours, route = bench.contenders()
    theirs, product = _theirs(torch, bench.a, bench.b)
    graphs = {name: captured(torch, run) for name, run in (ours | theirs).items()}
    with cuda.Stream(non_blocking=True):
        times = dict(take_turns(cuda, graphs))
    distance = _distance(bench.out.download(), product)
    if distance > ROUNDING:
        raise ArithmeticError(f"{shape}: ours lies {distance} of the largest output from torch's")
    bench.free()
    return Cell(shape, route, times, distance)


def _stored(device: RecordingDevice, codes: Any, letter: str) -> CupyBuffer:
    """Codes [batch, rows, columns], with letter T as [batch, columns, rows]."""
    return device.upload((codes if letter == "N" else np.ascontiguousarray(codes.swapaxes(1, 2))).view(E4M3))


def _swapped(strides: tuple[int, ...]) -> tuple[int, ...]:
    return (strides[0], strides[2], strides[1])


def _theirs(torch: Any, a: Any, b: Any) -> tuple[dict[str, Run], Any]:
    """torch's contenders by name, and the product by the careful one, float32 [batch, M, N]."""
    rows = torch.from_numpy(a).cuda().view(torch.float8_e4m3fn)
    columns = torch.from_numpy(np.ascontiguousarray(b.swapaxes(1, 2))).cuda().view(torch.float8_e4m3fn)
    factor, one = torch.from_numpy(SCALE).cuda(), torch.ones(1, device="cuda")
    pairs = [(x, y.t()) for x, y in zip(rows, columns, strict=True)]

    def products(fast: bool) -> list[Any]:
        return [
            torch._scaled_mm(x, y, scale_a=factor, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
            for x, y in pairs
        ]

    contenders: dict[str, Run] = {"torch fast": partial(products, True), "torch": partial(products, False)}
    return contenders, torch.stack(products(False)).float().cpu().numpy()


def _distance(ours: Any, theirs: Any) -> float:
    """The largest difference relative to the largest output."""
    return float(np.max(np.abs(ours.astype(np.float32) - theirs)) / np.max(np.abs(theirs)))


def _codes(random: np.random.Generator, *shape: int) -> Any:
    """e4m3 codes of values of magnitude up to 2, as a cast of activations has them."""
    return random.uniform(-2, 2, shape).astype(np.float32).astype(E4M3).view(np.uint8)


def peers() -> tuple[RecordingDevice, Any, Any]:
    """The first GPU, torch, and CuPy's cuda. Raises: Refusal naming what is missing."""
    device = RecordingDevice()
    try:
        torch = import_module("torch")
    except ImportError:
        raise Refusal("torch is not installed", hint="it is the peer of this benchmark") from None
    return device, torch, import_module("cupy").cuda


def main(arguments: Sequence[str] = ()) -> None:
    """Measure on the first GPU; without one, or without torch, say so."""
    try:
        device, torch, cuda = peers()
    except Refusal as refusal:
        show(f"mm_fp8_gpu: not run: {refusal}")
        return
    cells = []
    for shape in SHAPES:
        cells.append(measure(device, torch, cuda, shape))
        show(cells[-1].line())
    if arguments:
        evidence: Mapping[str, object] = {
            "what": f"times of {RUNS} runs of mm_fp8 and of torch._scaled_mm, contenders taking turns, milliseconds",
            "environment": asdict(capture()),
            "torch": torch.__version__,
            "sm_count": device.sm_count,
            "cells": [asdict(cell) for cell in cells],
        }
        keep(evidence, arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
