"""Run on a machine with an H200: sweep fp8_quantize_rows over source bit patterns and hold the GPU to the oracle.

    python tests/h200/quantize_rows.py EVIDENCE.json

Every bfloat16 and float16 value, and 10^8 float32 patterns, are quantised in rows whose first element pins the amax.
With the pin at 448 * 2^e the scale is 2^e exactly, so the row reaches codes and ties in place; with a random pin the
reciprocal is inexact.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.kernels.compile import compile_source
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.fp8_quantize_rows import NAME, SOURCE, QuantizeRows
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.quantize import quantize_rows

Rows = NDArray[Any]
FLOAT32_ROWS, FLOAT32_COLUMNS = 15_000, 8_192  # 1.2e8 elements, of which more than 1e8 are distinct


@dataclass
class Sweep:
    """Counts of one sweep: elements compared, elements and scales that differ, and what the elements reached."""

    name: str
    elements: int = 0
    different_codes: int = 0
    different_scales: int = 0
    distinct_patterns: int = 0
    finite_codes_reached: int = 0
    ties_reached: int = 0
    ties_of: int = 0
    routes: str = ""
    output_sha256: str = ""


def main() -> None:
    device = CupyDevice()
    kernel = QuantizeRows(device)
    module = compile_source(SOURCE, name=f"{NAME}.cu", arch=device.arch)
    start = time.perf_counter()
    sweeps = [
        run("bfloat16, all patterns", kernel, device, all_patterns(np.dtype(ml_dtypes.bfloat16))),
        run("float16, all patterns", kernel, device, all_patterns(np.dtype(np.float16))),
        run("float32, 10^8 patterns", kernel, device, float32_patterns()),
    ]
    evidence = {
        "what": "fp8_quantize_rows on the GPU against oracle.quantize.quantize_rows, byte for byte",
        "kernel": NAME,
        "kernel_source_sha256": hashlib.sha256(SOURCE.encode()).hexdigest(),
        "ptx_sha256": hashlib.sha256(module.ptx.encode()).hexdigest(),
        "compiler": module.compiler,
        "environment": asdict(capture()),
        "seconds": round(time.perf_counter() - start, 1),
        "sweeps": [asdict(sweep) for sweep in sweeps],
    }
    text = json.dumps(evidence, indent=1, default=str) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    wrong = sum(sweep.different_codes + sweep.different_scales for sweep in sweeps)
    incomplete = any(s.finite_codes_reached != 254 or s.ties_reached != s.ties_of for s in sweeps)
    sys.exit(1 if wrong or incomplete else 0)


def run(name: str, kernel: QuantizeRows, device: CupyDevice, batches: Iterator[Rows]) -> Sweep:
    """Quantise all batches on the GPU and by the oracle."""
    sweep = Sweep(name)
    digest = hashlib.sha256()
    codes_seen = np.zeros(256, np.bool_)
    patterns: NDArray[np.bool_] | None = None
    ties = midpoints()
    ties_seen = np.zeros(ties.size, np.bool_)
    routes: set[str] = set()
    for rows in batches:
        codes, scales, route = on_gpu(kernel, device, rows)
        right = quantize_rows(rows)
        sweep.elements += rows.size
        sweep.different_codes += int((codes != right.codes).sum())
        sweep.different_scales += int((scales.view(np.uint32) != right.scales.view(np.uint32)).sum())
        codes_seen[np.unique(codes)] = True
        ties_seen |= np.isin(ties, scaled_exactly(rows, scales))
        bits = rows.view(f"u{rows.dtype.itemsize}")
        if patterns is None:
            patterns = np.zeros(1 << 8 * rows.dtype.itemsize, np.bool_)
        patterns[bits.reshape(-1)] = True
        digest.update(codes.tobytes())
        digest.update(scales.tobytes())
        routes.add(route)
    sweep.distinct_patterns = 0 if patterns is None else int(np.count_nonzero(patterns))
    sweep.finite_codes_reached = int(codes_seen[[c for c in range(256) if c & 0x7F != 0x7F]].sum())
    sweep.ties_reached, sweep.ties_of = int(ties_seen.sum()), ties.size
    sweep.routes = ", ".join(sorted(routes))
    sweep.output_sha256 = digest.hexdigest()
    return sweep


def on_gpu(kernel: QuantizeRows, device: CupyDevice, rows: Rows) -> tuple[Rows, Rows, str]:
    """Codes, scales and the route taken; the outputs are poisoned first."""
    buffers = (
        device.upload(rows),
        device.upload(np.full(rows.shape, 0xA5, np.uint8)),
        device.upload(np.full(rows.shape[:1], np.nan, np.float32)),
    )
    launch = kernel(*(Tensor.whole(buffer) for buffer in buffers))
    codes, scales = buffers[1].download(), buffers[2].download()
    for buffer in buffers:
        device.free(buffer)
    return codes, scales, launch.route


def midpoints() -> Rows:
    """Both signs of every value half way between neighbouring finite e4m3 values, 464 excepted (it is no tie)."""
    values = np.unique(E4M3FN.decode(np.array([c for c in range(128) if c != 0x7F], np.uint8)))
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate((-middle, middle))


def scaled_exactly(rows: Rows, scales: Rows) -> Rows:
    """x / scale of the rows whose scale is a power of two, in float64 (exact)."""
    mantissa, _ = np.frexp(scales)
    chosen = (mantissa == 0.5) & (scales > 2.0**-120)
    relative = rows[chosen].astype(np.float64) / scales[chosen, None].astype(np.float64)
    return np.unique(relative[np.isfinite(relative)])


def all_patterns(dtype: np.dtype[Any]) -> Iterator[Rows]:
    """Rows pinned at 448 * 2^e and at random amax with every smaller value of the type; then every pattern unpinned."""
    everything = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    finite = everything[np.isfinite(everything.astype(np.float32))]
    largest = float(finite.astype(np.float64).max())
    random = np.random.default_rng(2026)
    pins = [448.0 * 2.0**e for e in range(-140, 120)]
    pins += random.choice(np.abs(finite.astype(np.float64)), 200).tolist()
    for pin in pins:
        with np.errstate(over="ignore"):
            pinned = np.array([pin], np.float64).astype(dtype)
        if not 0 < float(pinned[0]) <= largest:
            continue
        small = finite[np.abs(finite.astype(np.float64)) <= float(pinned[0])]
        for row in (np.concatenate((pinned, small)), np.concatenate((pinned, small))[:-1]):
            yield row[None, :]
    yield everything.reshape(256, 256)  # NaN, Inf and neighbours in one row
    yield everything.reshape(1 << 16, 1)  # every pattern alone in its row
    yield np.ascontiguousarray(everything.reshape(256, 256).T)


def float32_patterns() -> Iterator[Rows]:
    """Random mantissas over the exponents that matter to each row's scale, ties and their neighbours, raw bits."""
    random = np.random.default_rng(2027)
    ties = midpoints().astype(np.float32)
    near = np.concatenate((ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))))
    batch = 500
    for first in range(0, FLOAT32_ROWS, batch):
        exponents = random.integers(-110, 110, (batch, 1))
        scale = np.ldexp(1.0, exponents).astype(np.float32)
        if first % (2 * batch):
            scale = scale * random.uniform(1.0, 2.0, (batch, 1)).astype(np.float32)
        shape = (batch, FLOAT32_COLUMNS)
        relative = random.integers(-13, 9, shape)
        bits = random.integers(0, 1 << 23, shape, np.uint32) | np.uint32(127 << 23)
        values = np.ldexp(bits.view(np.float32), relative) * random.choice(np.array([-1, 1], np.float32), shape)
        values = np.clip(values, -448, 448).astype(np.float32) * scale
        values[:, 1 : 1 + near.size] = near * scale
        values[:, 0] = 448 * scale[:, 0]
        yield values
    for _ in range(4):
        raw = random.integers(0, 1 << 32, (1_000, 1_024), np.uint32, endpoint=False)
        yield raw.view(np.float32)


if __name__ == "__main__":
    main()
