"""The quantiser with its scale ring on a GPU against torch's amax and cast.

    python -m benchmarks.fp8_quantize_tensor_gpu [EVIDENCE.json]

bf16 [R, C] to e4m3 codes, row by row, transposed, or both, and the largest magnitude of the raw values: ours in one
launch that also publishes the next scale, torch's by `abs().amax()` and a product, a clamp and a cast, after which
nothing is folded yet. All contenders of a shape take turns in one process, as CUDA graphs, over as many sets of buffers
as four times the L2 cache needs.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.gpu_timing import Ratio, Times, take_turns
from benchmarks.mm_fp8_gpu import peers
from benchmarks.report import keep, show
from benchmarks.torch_graph import captured
from tileproof.conformance.environment import capture
from tileproof.kernels.cupy_device import CupyBuffer
from tileproof.kernels.fp8_quantize_tensor import Output, QuantizeTensor
from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, Field

BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPES = ((512, 4096), (4096, 4096), (8192, 8192))
WINDOW = 16
CACHES = 4
OURS, PEER = "quantize", "torch"
LARGEST = 448.0
RECIPROCAL = 3.7

Run = Callable[[], object]


@dataclass(frozen=True)
class Layout:
    """Which codes are written."""

    name: str
    rows: bool
    transposed: bool


LAYOUTS = (Layout("rows", True, False), Layout("transposed", False, True), Layout("both", True, True))


@dataclass(frozen=True)
class Cell:
    """One shape and layout: times of a round over all sets of buffers."""

    rows: int
    columns: int
    layout: str
    route: str
    sets: int
    times: dict[str, Times]

    @property
    def ratio(self) -> Ratio:
        """Ours relative to torch's."""
        return self.times[OURS].over(self.times[PEER])

    def line(self) -> str:
        """In words."""
        each = self.times[OURS].middle / self.sets
        moved = self.rows * self.columns * (2 + (2 if self.layout == "both" else 1))
        head = f"fp8_quantize_tensor {self.rows:5} x {self.columns:5} {self.layout:10} {self.route:11}"
        return f"{head} {each * 1e3:7.1f} us, {moved / each / 1e9:.2f} TB/s  {OURS} / {PEER} {self.ratio}"


class Bench:
    """One shape on a GPU: sets of a tensor, its codes both ways and a ring, and torch's copy of the tensor."""

    def __init__(self, device: RecordingDevice, rows: int, columns: int, sets: int) -> None:
        self.device, self.rows, self.columns = device, rows, columns
        random = np.random.default_rng(rows)
        self.values = random.standard_normal((rows, columns), np.float32).astype(BF16)
        self.kernel = QuantizeTensor(device)
        self.sets = [self._set() for _ in range(sets)]

    def _set(self) -> tuple[CupyBuffer, ...]:
        words = np.zeros(DOUBLE_BUFFERED.size(WINDOW), np.float32)
        words[DOUBLE_BUFFERED.offset(Field.RECIPROCAL, WINDOW)] = RECIPROCAL
        codes = [np.zeros(shape, np.uint8) for shape in ((self.rows, self.columns), (self.columns, self.rows))]
        return tuple(self.device.upload(array) for array in (self.values, *codes, words))

    def ours(self, layout: Layout) -> tuple[list[Run], str]:
        """A launch of each set, and their route."""
        runs: list[Run] = []
        route = ""
        for x, codes, turned, words in self.sets:
            ring = ScaleRing(Tensor.whole(words), DOUBLE_BUFFERED, WINDOW, index=0)
            with self.device.recorded() as launches:
                route = self.kernel(
                    Tensor.whole(x),
                    rows=Output(Tensor.whole(codes), E4M3FN) if layout.rows else None,
                    transposed=Output(Tensor.whole(turned), E4M3FN) if layout.transposed else None,
                    ring=ring,
                ).route
            runs.append(launches[0].run)
        return runs, route

    def theirs(self, torch: Any, layout: Layout) -> list[Run]:
        """torch's work on each of as many tensors."""
        bits = torch.from_numpy(self.values.view(np.int16))
        tensors = [bits.cuda().view(torch.bfloat16) for _ in self.sets]
        factor = torch.tensor(RECIPROCAL, device="cuda")

        def run(x: Any) -> list[Any]:
            codes = (x.float() * factor).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
            kept = [codes] if layout.rows else []
            return [x.abs().amax().float(), *kept, *([codes.t().contiguous()] if layout.transposed else [])]

        return [partial(run, x) for x in tensors]

    def free(self) -> None:
        """Give our memory back."""
        for buffer in (buffer for one in self.sets for buffer in one):
            self.device.free(buffer)


def measure(device: RecordingDevice, torch: Any, cuda: Any, l2_bytes: int) -> list[Cell]:
    """All shapes and layouts."""
    cells = []
    for rows, columns in SHAPES:
        sets = CACHES * l2_bytes // (rows * columns * 4) + 1
        bench = Bench(device, rows, columns, sets)
        for layout in LAYOUTS:
            ours, route = bench.ours(layout)
            contenders = {OURS: _round(ours), PEER: _round(bench.theirs(torch, layout))}
            graphs = {name: captured(torch, run, runs=1) for name, run in contenders.items()}
            with cuda.Stream(non_blocking=True):
                times = dict(take_turns(cuda, graphs))
            cells.append(Cell(rows, columns, layout.name, route, sets, times))
            show(cells[-1].line())
        bench.free()
    return cells


def _round(runs: Sequence[Run]) -> Run:
    return lambda: [run() for run in runs]


def main(arguments: Sequence[str] = ()) -> None:
    """Measure on the first GPU; without one, or without torch, say so."""
    try:
        device, torch, cuda = peers()
    except Refusal as refusal:
        show(f"fp8_quantize_tensor_gpu: not run: {refusal}")
        return
    cells = measure(device, torch, cuda, int(cuda.Device(0).attributes["L2CacheSize"]))
    if arguments:
        evidence = {
            "what": "times of a round of the tensor quantiser and of torch's amax and cast, taking turns, milliseconds",
            "environment": asdict(capture()),
            "torch": torch.__version__,
            "cells": [asdict(cell) for cell in cells],
        }
        keep(evidence, arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
