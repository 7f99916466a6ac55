"""Run on a machine with a GPU: the tensor quantiser and its scale ring against the oracle, byte for byte.

    python tests/h200/astrai_quantize.py EVIDENCE.json

Three parts: every bfloat16 and float16 value, and random float32 patterns, by many multipliers; every residue of rows
and columns mod the tile for each type, format and layout; sequences of ring steps on 1 to 1,056 blocks.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_quantize_tensor import MAX_BLOCKS, NAME, Output, QuantizeTensor
from tileproof.kernels.source import expanded
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, RING_STAGES
from tileproof.oracle.scaling.astrai_quantize import Outputs, Stage, quantize

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))

from scale_ring_sequence import KINDS, Sequence, take

Array = NDArray[Any]

DTYPES = tuple(np.dtype(kind) for kind in (ml_dtypes.bfloat16, np.float16, np.float32))
FORMATS = (E4M3FN, E5M2)
LAYOUTS = ((True, False), (False, True), (True, True))
WINDOWS = (1, 2, 3, 16, 33)
BLOCKS = (1, 2, 3, 5, 8, 12, 132, 264, MAX_BLOCKS)


@dataclass
class Count:
    """What was compared, and how much of it differs."""

    name: str
    launches: int = 0
    codes: int = 0
    different: int = 0
    seconds: float = 0.0


def main() -> None:
    from tileproof.kernels.cupy_device import CupyDevice

    device = CupyDevice()
    quantizer = QuantizeTensor(device)
    counts = [sweep(device, quantizer, dtype) for dtype in DTYPES]
    counts.append(residues(device, quantizer))
    counts += sequences(device, quantizer, many_sequences(), 200)
    evidence = {
        "what": f"{NAME} on the GPU against oracle.scaling.astrai_quantize and oracle.scale_ring, byte for byte",
        "kernel_source_sha256": hashlib.sha256(expanded(NAME).encode()).hexdigest(),
        "environment": asdict(capture()),
        "counts": [asdict(count) for count in counts],
    }
    text = json.dumps(evidence, indent=1, default=str) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    sys.exit(1 if any(count.different for count in counts) else 0)


def compare(
    count: Count,
    device: Device,
    quantizer: QuantizeTensor,
    x: Array,
    multiplier: np.float32,
    outputs: Outputs,
    blocks: int = MAX_BLOCKS,
) -> None:
    """One launch without a ring, its codes and its maximum."""
    poison = {"rows": np.full(x.shape, 0xA5, np.uint8), "transposed": np.full(x.shape[::-1], 0xA5, np.uint8)}
    buffers = {name: device.upload(array) for name, array in poison.items()}
    given, scale = device.upload(x), device.upload(np.array([multiplier], np.float32))
    amax = device.upload(np.zeros(1, np.float32))
    formats = {"rows": outputs.rows, "transposed": outputs.transposed}
    asked = {name: Output(Tensor.whole(buffers[name]), one) for name, one in formats.items() if one is not None}
    quantizer(
        Tensor.whole(given),
        rows=asked.get("rows"),
        transposed=asked.get("transposed"),
        scale=Tensor.whole(scale),
        amax=Tensor.whole(amax),
        max_blocks=blocks,
    )
    right = quantize(x, multiplier, Stage.MULTIPLIER, outputs)
    count.launches += 1
    for name, codes in (("rows", right.rows), ("transposed", right.transposed)):
        if codes is not None:
            count.codes += codes.size
            count.different += int((buffers[name].download() != codes).sum())
    count.different += int(amax.download().view(np.uint32)[0] != right.amax.view(np.uint32))
    for buffer in (*buffers.values(), given, scale, amax):
        device.free(buffer)


def sweep(device: Device, quantizer: QuantizeTensor, dtype: np.dtype[Any], few: int | None = None) -> Count:
    """Every pattern of a 16-bit type, or 2^22 random ones of float32, by powers of two and by other multipliers."""
    count, start = Count(f"{dtype.name}, patterns"), time.perf_counter()
    random = np.random.default_rng(2028)
    exponents = [*range(-40, 41, 4), 0, -1, 1, -7, 7]
    multipliers = [2.0**e for e in exponents] + list(2.0 ** random.uniform(-20, 20, 16)) + [0.0, np.inf, 1e12]
    for multiplier, format_, layout in list(product(multipliers, FORMATS, LAYOUTS))[:few]:
        if dtype.itemsize == 2:
            x = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(128, 512)
        else:
            x = random.integers(0, 1 << 32, (2048, 2048), np.uint32).view(dtype)
        compare(count, device, quantizer, x, np.float32(multiplier), outputs_of(format_, layout))
    count.seconds = round(time.perf_counter() - start, 1)
    return count


def residues(device: Device, quantizer: QuantizeTensor, few: int | None = None) -> Count:
    """Rows 1 to 33 and columns 1 to 65, for each type, format and layout."""
    count, start = Count("residues of rows and columns"), time.perf_counter()
    random = np.random.default_rng(2029)
    shapes = [(rows, columns) for rows in range(1, 34) for columns in (8, 61)]
    shapes += [(rows, columns) for columns in range(1, 66) for rows in (8, 33)]
    for number, (dtype, format_, layout, shape) in enumerate(list(product(DTYPES, FORMATS, LAYOUTS, shapes))[:few]):
        x = (random.standard_normal(shape) * 100).astype(dtype)
        compare(count, device, quantizer, x, np.float32(1.7), outputs_of(format_, layout), 1 + number % 12)
    count.seconds = round(time.perf_counter() - start, 1)
    return count


def outputs_of(format_: FloatFormat, layout: tuple[bool, bool]) -> Outputs:
    """The same format in each layout that is written, the other one in the transposed half of both."""
    other = FORMATS[1 - FORMATS.index(format_)]
    rows, transposed = layout
    both = rows and transposed
    return Outputs(format_ if rows else None, (other if both else format_) if transposed else None)


def many_sequences() -> Iterator[tuple[Sequence, str]]:
    """Every window and kind double-buffered, every stage, and one to as many blocks as the GPU holds."""
    margins = dict(zip(WINDOWS, (0, 3, -2, 126, -126), strict=True))
    for window, kind in product(WINDOWS, KINDS):
        yield Sequence(DOUBLE_BUFFERED, window, margin=margins[window], target=E5M2 if window % 2 else E4M3FN), kind
    for stage, window in product(RING_STAGES, WINDOWS):
        yield Sequence(stage, window, shape=(33, 65), tiled=True), "wild"
    for blocks, tiled in product(BLOCKS, (False, True)):
        down = 4 if blocks % 4 == 0 else 1
        yield replace(Sequence(blocks=blocks, tiled=tiled), shape=(32 * down, 64 * blocks // down)), "wild"


def sequences(
    device: Device, quantizer: QuantizeTensor, chosen: Iterator[tuple[Sequence, str]], steps: int
) -> list[Count]:
    """Every sequence, step by step; `different` counts tensors and rings that differ."""
    counts = []
    for sequence, kind in chosen:
        start = time.perf_counter()
        rows, columns = sequence.shape
        where = "tiles" if sequence.tiled else "flat"
        count = Count(f"{sequence.stage.name}, window {sequence.window}, {kind}, {where} of {rows} x {columns}")
        for taken in take(device, quantizer, sequence, kind, steps):
            count.launches += 1
            count.codes += rows * columns * (1 + sequence.tiled)
            count.different += len(taken.wrong)
        count.seconds = round(time.perf_counter() - start, 1)
        counts.append(count)
    return counts


if __name__ == "__main__":
    main()
