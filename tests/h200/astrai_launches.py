"""Run on a machine with a GPU, alone or under compute-sanitizer: one launch of every variant of the training kernels.

    compute-sanitizer --tool racecheck python tests/h200/astrai_launches.py

mm_fp8: every layout and variant, ragged in all extents, more stages of K than any ring has slots, with addresses that
16-byte copies can and cannot take. The quantiser: every element type and layout on grids of one and of two dimensions,
sixteen steps of a ring of each stage. All held to the oracle.
"""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_quantize_tensor import QuantizeTensor
from tileproof.kernels.mm_fp8 import E4M3, E5M2, MmFp8
from tileproof.kernels.mm_fp8_dispatch import Route
from tileproof.oracle.ring.ring_stage import RING_STAGES

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))

from mm_fp8_call import LAYOUTS, Call
from scale_ring_sequence import Sequence, take

DTYPES = tuple(np.dtype(kind) for kind in (ml_dtypes.bfloat16, np.float16, np.float32))


def main() -> None:
    device = CupyDevice()
    outcomes = [*products(device, 130, 136, 330), *quantisers(device, (65, 136))]
    wrong = sum(different for different, _ in outcomes)
    sys.stdout.write(f"{len(outcomes)} launches, {sum(size for _, size in outcomes)} outputs, {wrong} differ\n")
    sys.exit(1 if wrong else 0)


def products(device: Device, m: int, n: int, k: int) -> Iterator[tuple[int, int]]:
    """Outputs that differ from the oracle, and outputs, of each call of mm_fp8."""
    mm = MmFp8(device)
    for number, (layout, route, offset) in enumerate(product(LAYOUTS, Route, (0, 3))):
        dtype = (E4M3, E5M2)[number % 2]
        call = Call(m=m, n=n, k=k, layout=layout, format=dtype, bias="bf16", offset=offset, pad=offset, seed=number)
        launch, outputs = call.run(device, mm, route)
        assert launch.route == route
        yield int((outputs != call.expected(device.arch).view(outputs.dtype)).sum()), outputs.size


def quantisers(device: Device, shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Tensors that differ from the oracle, and codes, of each launch of the quantiser."""
    quantizer = QuantizeTensor(device)
    for stage, dtype, tiled in product(RING_STAGES, DTYPES, (False, True)):
        if dtype != ml_dtypes.bfloat16 and not stage.scratch_slots:
            continue  # a multiplier there is a step, which takes bfloat16 only
        sequence: Any = Sequence(stage, 3, shape=shape, tiled=tiled, dtype=dtype)
        for taken in take(device, quantizer, sequence, "wild", 16):
            yield len(taken.wrong), shape[0] * shape[1] * (1 + tiled)


if __name__ == "__main__":
    main()
