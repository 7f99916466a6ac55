"""The CPU device against numba's CUDA simulator: the same tiled float32 product, of one shape, in the same run.

The simulator interprets the Python of a kernel, a thread for every thread; the device executes the PTX that NVRTC makes
of the CUDA C++ twin, with all checks but those of order. The simulator runs in a process of its own, because numba
chooses between simulator and GPU when it is imported. Both times are of the processor, so that other work on the
machine lengthens neither.
"""

import os
import subprocess
import sys
import time
from importlib import resources

import numpy as np

from benchmarks.numba_matmul import TILE
from benchmarks.report import best_seconds, show
from tileproof.kernels.compile import compile_source
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

_SIZE = 128
_RATIO_FLOOR = 1_000.0


def main() -> None:
    """Prints both times, their ratio and its floor."""
    show(f"ptx_peer: {_SIZE} x {_SIZE} x {_SIZE} float32 in tiles of {TILE}, one launch")
    theirs, ours = _simulator_seconds(), _device_seconds()
    show(f"  numba's CUDA simulator {theirs:9.3f} s")
    show(f"  tileproof              {ours:9.6f} s, best of 15")
    ratio = theirs / ours
    show(f"  ratio {ratio:.0f}  (floor {_RATIO_FLOOR:g}: {'met' if ratio >= _RATIO_FLOOR else 'MISSED'})")


def _simulator_seconds() -> float:
    command = [sys.executable, "-m", "benchmarks.numba_matmul", str(_SIZE)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, is_right = done.stdout.split()
    if is_right != "1":
        raise Refusal("numba's simulator gave a wrong product")
    return float(seconds)


def _device_seconds() -> float:
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (2, _SIZE, _SIZE)).astype(np.float32)
    source = resources.files("benchmarks").joinpath("kernels/matmul.cu").read_text()
    device = Device(order=False)
    function = device.load(compile_source(source, name="matmul.cu"))["matmul"]
    c = device.allocate((_SIZE, _SIZE), np.float32)
    args = (device.upload(a), device.upload(b), c, np.int32(_SIZE))
    blocks = _SIZE // TILE
    (seconds,) = best_seconds(
        lambda: function.launch(grid=(blocks, blocks, 1), block=(TILE, TILE, 1), args=args), clock=time.process_time
    )
    if not np.array_equal(c.download(), a @ b):
        raise Refusal("the device gave a wrong product")
    return seconds
