"""GEMM tiles on the CPU device, one core: processor seconds of a launch, and how they grow.

The kernels stand in `kernels/`: e4m3 with `cp.async`, `ldmatrix` and `mma`, with `wgmma` behind ordinary stores, and
with `wgmma` behind tensor copies. Every result is held to the oracle's bits. Floors in seconds are for launches whose
order is not checked, under the friendly schedule; what the checks may cost is a multiple of that, and what a hostile
schedule may cost a multiple of the checked launch.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt

from benchmarks.report import best_seconds, show
from tileproof.kernels.compile import compile_source
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Buffer, Device, Function
from tileproof.simulators.ptx.findings import Report

Codes = npt.NDArray[np.uint8]

_ARCH, _ASSEMBLER = "sm_90a", "13.0"


@dataclass(frozen=True)
class _Kernel:
    """A GEMM kernel whose block makes a square tile of the output.

    Attributes:
        name: of the file and the entry.
        instruction: what it chains along K.
        tile: rows and columns of a block's outputs.
        threads: of a block.
        floor: seconds of one tile with K = `floor_depth`.
        shared_bytes: dynamic shared memory.
        has_maps: it takes tensor maps of a and b instead of their addresses.
    """

    name: str
    instruction: str
    tile: int
    threads: int
    floor: float
    floor_depth: int = 4096
    shared_bytes: int = 0
    has_maps: bool = False


_KERNELS = (
    _Kernel("e4m3_gemm_mma", "mma.m16n8k32.f32.e4m3.e4m3", 64, 128, 0.10),
    _Kernel("e4m3_gemm_wgmma", "wgmma.m64n128k32.f32.e4m3.e4m3", 128, 256, 1.0),
    _Kernel(
        "e4m3_gemm_tma", "wgmma.m64n128k32.f32.e4m3.e4m3", 128, 256, 1.0, shared_bytes=4 * 128 * 128, has_maps=True
    ),
)
_DEPTHS = (1024, 2048, 4096)
_BLOCKS = (1, 2, 4, 8)
#: How many times as long a launch may take whose order is checked.
_MOST_FOR_ORDER = 2.0
#: How many times as long a checked launch may take under a hostile schedule.
_MOST_FOR_HOSTILE = 3.0
#: Per unit of work, the last point of a curve may cost this much more than the first.
_LINEAR = 1.25


def main() -> None:
    """Prints times, floors and curves."""
    for kernel in _KERNELS:
        show(f"ptx_gemm: {kernel.name}, {kernel.tile} x {kernel.tile} outputs a block, best of 5")
        runner, ordered = _Runner(kernel, order=False), _Runner(kernel, order=True)
        seconds = runner.seconds(1, kernel.floor_depth)
        met = "met" if seconds <= kernel.floor else "MISSED"
        show(f"  one tile, K {kernel.floor_depth}  {seconds:8.4f} s  (floor {kernel.floor:g} s: {met})")
        checked = ordered.seconds(1, kernel.floor_depth)
        show(f"    with checks of order {_multiple(checked, seconds, _MOST_FOR_ORDER)}")
        hostile = _Runner(kernel, order=True, schedule="adversarial").seconds(1, kernel.floor_depth)
        show(f"    and a hostile schedule {_multiple(hostile, checked, _MOST_FOR_HOSTILE)}")
        _curve("K", _DEPTHS, [runner.seconds(1, depth) for depth in _DEPTHS])
        _curve("blocks", _BLOCKS, [runner.seconds(count, _DEPTHS[0]) for count in _BLOCKS])


def _multiple(seconds: float, base: float, most: float) -> str:
    met = "met" if seconds <= most * base else "MISSED"
    return f"{seconds:7.4f} s  ({seconds / base:.2f} times that; floor {most:g}: {met})"


def _curve(what: str, points: Sequence[int], seconds: Sequence[float]) -> None:
    costs = [second / point for point, second in zip(points, seconds, strict=True)]
    line = ", ".join(f"{point}: {second:.4f} s" for point, second in zip(points, seconds, strict=True))
    linear = "linear" if costs[-1] <= _LINEAR * costs[0] else "NOT LINEAR"
    show(f"  over {what:<7} {line}  ({linear}: the last costs {costs[-1] / costs[0]:.2f} of the first a unit)")


class _Runner:
    """One kernel on one device."""

    def __init__(self, kernel: _Kernel, *, order: bool, schedule: str = "friendly") -> None:
        self._kernel = kernel
        self._device = Device(_ARCH, order=order, schedule=schedule)
        source = resources.files("benchmarks").joinpath(f"kernels/{kernel.name}.cu").read_text()
        module = compile_source(source, name=f"{kernel.name}.cu", arch=_ARCH)
        self._function: Function = self._device.load(module)[kernel.name]

    def seconds(self, blocks: int, depth: int) -> float:
        """The time of one launch of so many blocks side by side; the result was right.

        Raises:
            Refusal: it was not, or the device found something.
        """
        tile, device = self._kernel.tile, self._device
        a, b = _codes(tile, depth, 1), _codes(tile * blocks, depth, 2)
        out = device.allocate((tile, tile * blocks), np.float32)
        buffers = (device.upload(a), device.upload(b), out)
        inputs = [self._map(buffer) for buffer in buffers[:2]] if self._kernel.has_maps else buffers[:2]
        reports: list[Report] = []

        def run() -> None:
            reports.append(
                self._function.launch(
                    grid=(blocks, 1, 1),
                    block=(self._kernel.threads, 1, 1),
                    args=(*inputs, out, np.int32(tile * blocks), np.int32(depth)),
                    shared_bytes=self._kernel.shared_bytes,
                )
            )

        (best,) = best_seconds(run, repeats=5, clock=time.process_time)
        expected = gemm(self._order(), a, b)
        if reports[-1].findings or not np.array_equal(out.download().view(np.uint32), expected.view(np.uint32)):
            raise Refusal(f"{self._kernel.name}: another result than the oracle's, or findings {reports[-1].findings}")
        for buffer in buffers:
            device.free(buffer)
        return best

    def _map(self, codes: Buffer) -> np.void:
        rows, depth = codes.shape
        return self._device.tensor_map(codes, shape=(depth, rows), strides_bytes=(depth,), box=(128, 128), swizzle=128)

    def _order(self) -> AccumulationOrder:
        return AccumulationOrder(
            instruction=self._kernel.instruction, arch=_ARCH, assembler=_ASSEMBLER, ragged_k=RaggedK.ZERO_FILL
        )


def _codes(rows: int, depth: int, seed: int) -> Codes:
    """Random finite codes."""
    codes = np.random.default_rng(seed).integers(0, 256, (rows, depth), np.uint8)
    return np.where(codes & 0x7F == 0x7F, codes ^ 0x40, codes).astype(np.uint8)
