"""The FP8 product on a GPU: both routes, the selector's choice and `torch._scaled_mm`, at ninfer's shapes.

    python -m benchmarks.fp8_a8_gpu [EVIDENCE.json] [--widths T ...]

All contenders of a cell take turns in one process, launch by launch. Ratios are medians over the repetitions, with the
least and the largest. `unfenced` is the TMA kernel without the fence before a slot's release: what that fence costs.
`torch._scaled_mm` with row-wise scales makes the plain product alone, whatever the call site adds or combines.
Operands stay where they are, so a weight that fits the L2 cache is read from there, for all contenders alike.
"""

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.gpu_timing import Ratio, Times, take_turns
from benchmarks.report import keep, show
from tileproof.conformance.environment import capture
from tileproof.kernels.compile import compile_source
from tileproof.kernels.device import Buffer
from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_calibration import Calibration, calibration_of
from tileproof.kernels.fp8_a8_call_site import NINFER_SHAPES, CallSite
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm, kernel_name, kernel_source
from tileproof.kernels.fp8_a8_selector import CP_ASYNC, TMA, Problem, Route, select, work
from tileproof.kernels.occupancy import occupancy
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.kernels.resources import resources_of
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

BF16 = np.dtype(ml_dtypes.bfloat16)
WIDTHS = (1024, 4096, 8192)
PARTS = {"attn_input_proj": (6, 1, 6, 1), "gdn_input_proj": (5, 3)}
FORCED = (str(Route.TMA), str(Route.CP_ASYNC))
UNFENCED = "#define FP8_A8_RELEASE_FENCE 0\n"
SEED_RESOURCES = {
    Route.TMA: "166 registers, 98816 bytes, 1 block",
    Route.CP_ASYNC: "94 registers, 49152 bytes, 2 blocks",
}

Run = Callable[[], object]


@dataclass(frozen=True)
class Cell:
    """One call site, shape and width: the times of all contenders."""

    site: str
    rows: int
    depth: int
    tokens: int
    selected: Route
    times: dict[str, Times]

    def ratio(self, one: str, other: str) -> Ratio:
        """Of two contenders' times."""
        return self.times[one].over(self.times[other])

    def loss(self, route: str) -> float:
        """A forced route's time relative to the better one's."""
        return max(self.ratio(route, other).middle for other in FORCED)

    @property
    def teraflops(self) -> dict[str, float]:
        """By contender."""
        work = 2.0 * self.rows * self.depth * self.tokens
        return {name: work / times.middle / 1e9 for name, times in self.times.items()}


class Bench:
    """One call site and shape on a GPU, with operands for the widest call."""

    def __init__(self, device: RecordingDevice, site: CallSite, rows: int, depth: int, most: int) -> None:
        random = np.random.default_rng(2026)
        self.device, self.site, self.rows, self.depth = device, site, rows, depth
        unfenced = {Route.TMA: UNFENCED + kernel_source(Route.TMA)}
        self.gemm, self.unfenced = Fp8A8Gemm(device, site), Fp8A8Gemm(device, site, sources=unfenced)
        self.codes, self.weight = _codes(random, most, depth), _codes(random, rows, depth)
        self.scales = random.uniform(0.5, 2, most).astype(np.float32) * np.float32(2.0**-14)
        self.weight_scales = random.uniform(0.5, 2, rows).astype(BF16)
        arrays = (self.codes, self.scales, self.weight, self.weight_scales)
        self.buffers = [device.upload(array) for array in arrays]
        self.outputs = [device.upload(np.zeros((most, width), BF16)) for width in self._widths]

    @property
    def _widths(self) -> tuple[int, ...]:
        parts = PARTS.get(self.site.name, (1,))
        return (self.rows // 2,) if self.site.paired else tuple(self.rows * part // sum(parts) for part in parts)

    def contenders(self, tokens: int, torch: Any | None) -> tuple[dict[str, Run], Route]:
        """Of a width, by name; and the selector's route."""
        made = {
            "tma": self._launch(self.gemm, tokens, Route.TMA)[1],
            "cp-async": self._launch(self.gemm, tokens, Route.CP_ASYNC)[1],
            "unfenced": self._launch(self.unfenced, tokens, Route.TMA)[1],
        }
        route, made["selected"] = self._launch(self.gemm, tokens, None)
        if torch is not None:
            made |= _scaled_mm(torch, self.codes[:tokens], self.weight, self.scales[:tokens], self.weight_scales)
        return made, route

    def _launch(self, gemm: Fp8A8Gemm, tokens: int, route: Route | None) -> tuple[Route, Run]:
        a, scales, b, weight_scales = self.buffers
        operands = Operands(_first(a, tokens), _first(scales, tokens), Tensor.whole(b), Tensor.whole(weight_scales))
        with self.device.recorded() as launches:
            taken = gemm(operands, [_first(buffer, tokens) for buffer in self.outputs], route=route).route
        (launch,) = launches
        return Route(taken), launch.run

    def free(self) -> None:
        """Give all memory back."""
        for buffer in (*self.buffers, *self.outputs):
            self.device.free(buffer)


def measure(
    device: RecordingDevice,
    shapes: Sequence[tuple[CallSite, int, int]],
    widths: Sequence[int],
    names: Collection[str] | None = None,
) -> list[Cell]:
    """All cells; of all contenders, or of those of some names. torch takes part where it is installed."""
    torch = _torch() if names is None else None
    cells = []
    for site, rows, depth in shapes:
        bench = Bench(device, site, rows, depth, max(widths))
        for tokens in widths:
            made, route = bench.contenders(tokens, torch)
            contenders = {name: run for name, run in made.items() if names is None or name in names}
            cells.append(Cell(site.name, rows, depth, tokens, route, dict(take_turns(_cuda(), contenders))))
            show(line(cells[-1]))
        bench.free()
    return cells


def line(cell: Cell) -> str:
    """What one cell says."""
    head = f"{cell.site:16} {cell.rows:6} x {cell.depth:5} T {cell.tokens:5}"
    speed = f"{cell.times['tma'].middle:8.4f} ms, {cell.teraflops['tma']:4.0f} TFLOP/s"
    pairs = [("tma", "cp-async"), ("selected", "cp-async"), ("tma", "unfenced")]
    pairs += [(ours, theirs) for theirs in ("torch fast", "torch") for ours in FORCED]
    ratios = [f"{a} / {b} {cell.ratio(a, b)}" for a, b in pairs if {a, b} <= cell.times.keys()]
    return f"{head}  {speed}  " + "  ".join(ratios)


def token_costs(cell: Cell, sm_count: int, lone_block: float = 1.0) -> float:
    """Tokens that a multiprocessor works on by the TMA kernel, relative to the cp.async kernel."""
    problem = _problem(cell)
    return work(TMA, problem, sm_count) / work(CP_ASYNC, problem, sm_count, lone_block)


def work_ratio(cells: Iterable[Cell], sm_count: int, lone_block: float = 1.0) -> float:
    """What a token of the TMA kernel's work costs relative to the cp.async kernel's: the calibration's constant."""
    return median(cell.ratio(*FORCED).middle / token_costs(cell, sm_count, lone_block) for cell in cells)


def choice(cell: Cell, sm_count: int, arch: str, calibration: Calibration) -> tuple[Route, float]:
    """The selector's route, and its time relative to the better one's."""
    route = select(_problem(cell, arch), sm_count, calibration)
    return route, cell.loss(route)


def worst_choice(cells: Iterable[Cell], sm_count: int, arch: str, calibration: Calibration) -> tuple[float, str]:
    """The largest time of a chosen route relative to the better one's, and where."""
    worst, where = 1.0, "nowhere"
    for cell in cells:
        ratio = choice(cell, sm_count, arch, calibration)[1]
        if ratio > worst:
            worst, where = ratio, f"{cell.site} {cell.rows} x {cell.depth} at T = {cell.tokens}"
    return worst, where


def resources(arch: str) -> list[str]:
    """What each kernel takes of a multiprocessor, beside what ninfer's takes on its own GPU."""
    lines = []
    for route, schedule in ((Route.TMA, TMA), (Route.CP_ASYNC, CP_ASYNC)):
        name = kernel_name(route)
        module = compile_source(
            kernel_source(route), name=f"{name}.cu", arch=arch, defines=("FP8_A8_OUTPUT=LinearAdd",)
        )
        used = resources_of(module.report)[name]
        held = occupancy(arch, used, threads=schedule.threads, dynamic_shared_bytes=schedule.shared_bytes)
        lines.append(
            f"{name} on {arch}: {used.registers} registers, spills {used.spill_store_bytes} bytes stored and "
            f"{used.spill_load_bytes} loaded, {schedule.shared_bytes} bytes of shared memory, {held.blocks} blocks per "
            f"SM; ninfer's: {SEED_RESOURCES[route]}"
        )
    return lines


def _problem(cell: Cell, arch: str = "") -> Problem:
    return Problem(arch=arch, tokens=cell.tokens, rows=cell.rows, depth=cell.depth)


def _scaled_mm(torch: Any, codes: Any, weight: Any, scales: Any, weight_scales: Any) -> dict[str, Run]:
    """The product of the same operands by torch, with and without its fast accumulation."""
    e4m3 = torch.float8_e4m3fn
    a, b = (torch.from_numpy(np.ascontiguousarray(each)).cuda().view(e4m3) for each in (codes, weight))
    scale_a = torch.from_numpy(np.ascontiguousarray(scales)).cuda().reshape(-1, 1)
    scale_b = torch.from_numpy(weight_scales.astype(np.float32)).cuda().reshape(1, -1)

    def product(fast: bool) -> Run:
        return lambda: torch._scaled_mm(
            a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    return {"torch fast": product(True), "torch": product(False)}


def _codes(random: np.random.Generator, rows: int, depth: int) -> Any:
    """Finite codes of every exponent and sign."""
    made = random.integers(0, 256, (rows, depth), np.uint8)
    made[made & 0x7F == 0x7F] ^= 0x40
    return made


def _first(buffer: Buffer, tokens: int) -> Tensor:
    whole = Tensor.whole(buffer)
    return Tensor(buffer, buffer.dtype, (tokens, *whole.shape[1:]), whole.strides)


def _torch() -> Any | None:
    try:
        return import_module("torch")
    except ImportError:
        return None


def _cuda() -> Any:
    import cupy

    return cupy.cuda


def main(arguments: Sequence[str] = ()) -> None:
    """Measure on the first GPU; without one, say so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path, nargs="?")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    options = parser.parse_args(arguments)
    try:
        device = RecordingDevice()
    except Refusal as refusal:
        show(f"fp8_a8_gpu: not run: {refusal}")
        return
    lines = resources(device.arch)
    show("\n".join(lines))
    cells = measure(device, NINFER_SHAPES, options.widths)
    ratio = work_ratio(cells, device.sm_count)
    show(f"a token of the TMA kernel's work costs {ratio:.3f} of the cp.async kernel's")
    calibration = calibration_of(device.arch, device.sm_count)
    worst, where = worst_choice(cells, device.sm_count, device.arch, calibration)
    show(f"by the calibration {calibration.name} the choice is at most {worst:.3f} of the better route, {where}")
    if options.evidence is not None:
        evidence = {
            "what": "times of the FP8 product's routes and of torch._scaled_mm, contenders taking turns, milliseconds",
            "environment": asdict(capture()),
            "torch": getattr(_torch(), "__version__", "none"),
            "sm_count": device.sm_count,
            "resources": lines,
            "work_ratio": ratio,
            "worst_choice": {"calibration": calibration.name, "ratio": worst, "where": where},
            "cells": [asdict(cell) for cell in cells],
        }
        keep(evidence, options.evidence)


if __name__ == "__main__":
    main(sys.argv[1:])
