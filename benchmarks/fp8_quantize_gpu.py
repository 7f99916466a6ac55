"""The row quantiser on a GPU against a plain copy, over buffers that no cache keeps.

    python -m benchmarks.fp8_quantize_gpu [EVIDENCE.json]

bf16 [4096, K] to e4m3 codes and scales, for each K of ninfer's model. Both contenders go round as many sets of buffers
as four times the L2 cache needs, and take turns. A copy moves what it reads and what it writes; the
quantiser is credited with each element read once and each code and scale written once.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.gpu_timing import Times, take_turns
from benchmarks.report import keep, show
from tileproof.conformance.environment import capture
from tileproof.kernels.fp8_quantize_rows import QuantizeRows
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

BF16 = np.dtype(ml_dtypes.bfloat16)
TOKENS = 4096
DEPTHS = (5120, 6144, 17408)
CACHES = 4
FLOOR = 0.8  # of the copy's bandwidth

Run = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """One K: bytes that a run moves, and the times of both contenders."""

    depth: int
    sets: int
    quantized_bytes: int
    copied_bytes: int
    quantize: Times
    copy: Times

    @property
    def share(self) -> float:
        """The quantiser's bandwidth relative to the copy's."""
        moved = self.quantized_bytes / self.copied_bytes
        return moved / self.quantize.over(self.copy).middle

    def line(self) -> str:
        """In words."""
        quantized, copied = (
            size / times.middle / 1e9
            for size, times in ((self.quantized_bytes, self.quantize), (self.copied_bytes, self.copy))
        )
        met = "met" if self.share >= FLOOR else "MISSED"
        return (
            f"fp8_quantize_rows {TOKENS} x {self.depth:5}, {self.sets} sets: {quantized:.2f} TB/s, "
            f"a copy {copied:.2f} TB/s, {self.share:.3f} of it (floor {FLOOR}: {met})"
        )


def measure(device: RecordingDevice, cuda: Any, depth: int, l2_bytes: int) -> Measured:
    """Both contenders at one K."""
    x_bytes, codes_bytes = TOKENS * depth * 2, TOKENS * depth
    sets = CACHES * l2_bytes // (x_bytes + codes_bytes) + 1
    kernel = QuantizeRows(device)
    values = np.random.default_rng(depth).standard_normal((TOKENS, depth)).astype(BF16)
    shapes = (((TOKENS, depth), np.uint8), ((TOKENS,), np.float32), ((TOKENS, depth), BF16))
    quantize, copy, buffers = [], [], []
    for _ in range(sets):
        x = device.upload(values)
        codes, scales, other = (device.allocate(shape, np.dtype(dtype)) for shape, dtype in shapes)
        with device.recorded() as launches:
            kernel(*(Tensor.whole(buffer) for buffer in (x, codes, scales)))
        quantize.append(launches[0].run)
        copy.append(_copier(x, other, x_bytes))
        buffers += [x, codes, scales, other]
    times = take_turns(cuda, {"quantize": _round(quantize), "copy": _round(copy)})
    for buffer in buffers:
        device.free(buffer)
    return Measured(depth, sets, x_bytes + codes_bytes + 4 * TOKENS, 2 * x_bytes, times["quantize"], times["copy"])


def _round(runs: Sequence[Run]) -> Run:
    """One run after another, for ever."""
    turn = cycle(runs)
    return lambda: next(turn)()


def _copier(source: Any, target: Any, nbytes: int) -> Run:
    return lambda: target.memory.copy_from_device_async(source.memory, nbytes, _null_stream())


def _null_stream() -> Any:
    import cupy

    return cupy.cuda.Stream.null


def main(arguments: Sequence[str] = ()) -> None:
    """Measure on the first GPU; without one, say so."""
    try:
        device = RecordingDevice()
    except Refusal as refusal:
        show(f"fp8_quantize_gpu: not run: {refusal}")
        return
    import cupy

    l2_bytes = int(cupy.cuda.Device(0).attributes["L2CacheSize"])
    measured = [measure(device, cupy.cuda, depth, l2_bytes) for depth in DEPTHS]
    for one in measured:
        show(one.line())
    if arguments:
        evidence = {
            "what": "bandwidth of fp8_quantize_rows against a device-to-device copy, taking turns, milliseconds",
            "environment": asdict(capture()),
            "l2_bytes": l2_bytes,
            "measured": [{**asdict(one), "share": one.share} for one in measured],
        }
        keep(evidence, arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
