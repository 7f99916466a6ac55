"""The CPU device: thread-instructions a second on saxpy and a tiled sgemm, start-up, and how cost grows with work.

Friendly schedule, one core, kernels compiled by NVRTC as ours are, multiply-adds written as fma. The checks are those
of execution (bounds, lifetime, alignment, definedness) and in a second run those of order too. Times are of the
processor, not of the clock on the wall, so that a busy machine counts less; that of start-up is of the clock, the least
of several.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import show
from tileproof.kernels.compile import compile_source
from tileproof.simulators.ptx.device import Device, Function
from tileproof.simulators.ptx.findings import Report

SOURCE = r"""
constexpr int kTile = 16;

extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}

extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int n, int depth) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < depth; start += kTile) {
    left[threadIdx.y][threadIdx.x] = a[row * depth + start + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum = fmaf(left[threadIdx.y][i], right[i][threadIdx.x], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""
_FLOOR, _ORDERED_FLOOR, _STARTUP_S = 500.0, 300.0, 1.5
_THREADS, _SIZE, _DEPTH = 1 << 20, 256, 256
_REPEATS = 7
#: A process that has everything in its caches: import, load, one launch of a small kernel.
_STARTUP = """
import sys
import numpy as np
from tileproof.simulators.ptx.device import Device
device = Device()
x = device.upload(np.ones(1024, np.float32))
kernel = device.load_ptx(open(sys.argv[1]).read())["saxpy"]
report = kernel.launch(grid=(4, 1, 1), block=(256, 1, 1), args=(np.float32(2), x, x, np.int32(1024)))
assert report.engine == "fast"
"""


def main() -> None:
    """Prints speeds, the floors they must reach, and two curves."""
    ptx = compile_source(SOURCE, name="ptx_engine.cu").ptx
    _startup(ptx)
    for order, floor in ((False, _FLOOR), (True, _ORDERED_FLOOR)):
        show(f"thread-instructions a second, order {'on' if order else 'off'}, best of {_REPEATS}")
        _speed("saxpy", _saxpy(ptx, _THREADS, order=order), floor)
        _speed("sgemm 16x16", _sgemm(ptx, _SIZE, _DEPTH, order=order), floor)
    _curve("saxpy, blocks", (1 << 9, 1 << 11, 1 << 13), lambda blocks: _saxpy(ptx, 256 * blocks, order=False))
    _curve("sgemm, K", (64, 256, 1024), lambda depth: _sgemm(ptx, 128, depth, order=False))


def _saxpy(ptx: str, threads: int, *, order: bool) -> Callable[[], Report]:
    device = Device(order=order)
    x, y = (device.upload(np.ones(threads, np.float32)) for _ in range(2))
    kernel: Function = device.load_ptx(ptx)["saxpy"]
    arguments = np.float32(2), x, y, np.int32(threads)
    return lambda: kernel.launch(grid=(threads // 256, 1, 1), block=(256, 1, 1), args=arguments)


def _sgemm(ptx: str, size: int, depth: int, *, order: bool) -> Callable[[], Report]:
    device = Device(order=order)
    a, b = device.upload(np.ones((size, depth), np.float32)), device.upload(np.ones((depth, size), np.float32))
    arguments = a, b, device.allocate((size, size), np.float32), np.int32(size), np.int32(depth)
    kernel: Function = device.load_ptx(ptx)["sgemm"]
    return lambda: kernel.launch(grid=(size // 16, size // 16, 1), block=(16, 16, 1), args=arguments)


def _best(launch: Callable[[], Report]) -> tuple[float, Report]:
    """Seconds of the processor for the fastest launch."""
    report, times = launch(), []
    assert not report.findings
    assert report.engine == "fast"
    for _ in range(_REPEATS):
        started = time.process_time()
        report = launch()
        times.append(time.process_time() - started)
    return min(times), report


def _speed(name: str, launch: Callable[[], Report], floor: float) -> None:
    seconds, report = _best(launch)
    speed = report.counters.thread_instructions / seconds / 1e6
    verdict = "met" if speed >= floor else "MISSED"
    show(f"  {name:14} {speed:6.0f} M/s  (floor {floor:g}: {verdict}), {report.handed_back} steps handed back")


def _curve(name: str, works: Sequence[int], prepare: Callable[[int], Callable[[], Report]]) -> None:
    """Cost must grow linearly: the cost of a unit of work stays the same, or falls."""
    costs = [_best(prepare(work))[0] / work * 1e6 for work in works]
    verdict = "linear" if costs[-1] <= 1.3 * costs[0] else "MORE THAN LINEAR"
    points = ", ".join(f"{work}: {cost:.1f}" for work, cost in zip(works, costs, strict=True))
    show(f"  {name}: microseconds a unit at {points}  ({verdict})")


def _startup(ptx: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = (sys.executable, "-c", _STARTUP, str(Path(file.name)))
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # bytecode is one of the caches
        times, used = [], []
        for _ in range(_REPEATS):
            started, before = time.perf_counter(), os.times()
            subprocess.run(command, check=True, env=environment)
            times.append(time.perf_counter() - started)
            after = os.times()
            used.append(sum(after[2:4]) - sum(before[2:4]))  # of children, in user and in system mode
    seconds, of_processor = min(times[1:]), min(used[1:])  # the first fills the caches
    verdict = "met" if seconds <= _STARTUP_S else "MISSED"
    show(
        f"start-up of a process with warm caches: {seconds:.2f} s, {of_processor:.2f} s of the processor"
        f"  (limit {_STARTUP_S:g} s: {verdict})"
    )
