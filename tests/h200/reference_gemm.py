"""Run on a machine with an H200: hold the integer CUDA twin e4m3_gemm to the numpy definition, and time it.

    python tests/h200/reference_gemm.py EVIDENCE.json

Every arithmetic is compared bit for bit with oracle.exact_product and oracle.gemm on 512^3 and on ragged shapes with
padded rows, for codes of every exponent, for one large product among small ones, and with NaN codes. Then a full-size
product, too large for numpy, is timed and checked against itself in pieces: rows of the definition, drawn at random.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.reference.e4m3_gemm import NAME, NOT_A_NUMBER, SOURCE, Arithmetic, E4m3Gemm
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK
from tileproof.oracle.products.exact_product import exact_product

Codes = NDArray[np.uint8]

ORDERS = {
    arithmetic: AccumulationOrder(
        instruction=f"{instruction}.f32.e4m3.e4m3", arch="sm_90a", assembler=assembler, ragged_k=RaggedK.ZERO_FILL
    )
    for arithmetic, instruction, assembler in (
        (Arithmetic.WGMMA_SM90, "wgmma.m64n128k32", "13.0"),
        (Arithmetic.MMA_SM90, "mma.m16n8k32", "13.0"),
        (Arithmetic.MMA_SM90_EARLY, "mma.m16n8k32", "12.6"),
    )
}
SHAPES = ((512, 512, 512), (512, 512, 512), (129, 257, 4000), (1, 1025, 5121), (300, 1, 33), (65, 66, 31), (7, 9, 0))
FULL_SIZE = (4096, 14336, 5120)
SAMPLED_ROWS, SAMPLED_COLUMNS = 16, 512


@dataclass
class Comparison:
    """One product on the GPU against its definition."""

    arithmetic: str
    shape: str
    family: str
    elements: int
    different: int
    seconds_on_gpu: float
    output_sha256: str


def main() -> None:
    device = CupyDevice()
    twin = E4m3Gemm(device)
    start = time.perf_counter()
    comparisons = [
        compare(device, twin, arithmetic, family, a, b)
        for family, a, b in cases(np.random.default_rng(2026))
        for arithmetic in Arithmetic
    ]
    comparisons += [full_size(device, twin, arithmetic) for arithmetic in Arithmetic]
    evidence = {
        "what": "e4m3_gemm on the GPU against oracle.exact_product and oracle.gemm, bit for bit",
        "kernel": NAME,
        "kernel_source_sha256": hashlib.sha256(SOURCE.encode()).hexdigest(),
        "environment": asdict(capture()),
        "seconds": round(time.perf_counter() - start, 1),
        "comparisons": [asdict(comparison) for comparison in comparisons],
    }
    text = json.dumps(evidence, indent=1, default=str) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    sys.exit(1 if any(comparison.different for comparison in comparisons) else 0)


def cases(random: np.random.Generator) -> Iterator[tuple[str, Codes, Codes]]:
    """Each shape with each family of codes."""
    for m, n, k in SHAPES:
        a, b = wide(random, m, k), wide(random, n, k)
        yield "every exponent", a, b
        large_a, large_b = a & np.uint8(0x9F), b & np.uint8(0x9F)
        large_a[:, :1] = large_b[:, :1] = 0x7E
        yield "one large product", large_a, large_b
        if k:
            a[random.integers(m), random.integers(k)] = 0xFF
            b[random.integers(n), random.integers(k)] = 0x7F
            yield "NaN in a row and in a column", a, b


def wide(random: np.random.Generator, rows: int, depth: int) -> Codes:
    """Finite codes of every exponent and sign."""
    codes = random.integers(0, 256, (rows, depth), np.uint8)
    return np.where(codes & 0x7F == 0x7F, codes ^ 0x40, codes).astype(np.uint8)


def defined(arithmetic: Arithmetic, a: Codes, b: Codes) -> NDArray[Any]:
    if arithmetic is not Arithmetic.EXACT:
        return gemm(ORDERS[arithmetic], a, b)
    product = exact_product("e4m3", "e4m3", a, b)
    return np.where(product.special == 0, product.units, NOT_A_NUMBER)


def on_gpu(
    device: CupyDevice, twin: E4m3Gemm, arithmetic: Arithmetic, a: Codes, b: Codes
) -> tuple[NDArray[Any], float]:
    """The product of rows followed by NaN codes, written beside a poison that must stay, and the seconds it took."""
    (m, k), n, pad = a.shape, len(b), 5
    buffers = (
        device.upload(np.pad(a, ((0, 0), (0, pad)), constant_values=0x7F)),
        device.upload(np.pad(b, ((0, 0), (0, pad)), constant_values=0xFF)),
        device.upload(np.full((m, n + pad), -77, arithmetic.result)),
    )
    start = time.perf_counter()
    twin(
        arithmetic,
        Tensor(buffers[0], a.dtype, a.shape, (k + pad, 1)),
        Tensor(buffers[1], b.dtype, b.shape, (k + pad, 1)),
        Tensor(buffers[2], np.dtype(arithmetic.result), (m, n), (n + pad, 1)),
    )
    seconds = time.perf_counter() - start
    written = buffers[2].download()
    for buffer in buffers:
        device.free(buffer)
    if not np.all(written[:, n:] == -77):
        raise AssertionError(f"{arithmetic.value} {a.shape} {b.shape}: written beside the output")
    return written[:, :n], seconds


def compare(device: CupyDevice, twin: E4m3Gemm, arithmetic: Arithmetic, family: str, a: Codes, b: Codes) -> Comparison:
    """All elements of one product."""
    result, seconds = on_gpu(device, twin, arithmetic, a, b)
    return judged(arithmetic, f"{len(a)} x {len(b)} x {a.shape[1]}", family, result, defined(arithmetic, a, b), seconds)


def full_size(device: CupyDevice, twin: E4m3Gemm, arithmetic: Arithmetic) -> Comparison:
    """Random rows and columns of a product of real size."""
    random = np.random.default_rng(7)
    m, n, k = FULL_SIZE
    a, b = wide(random, m, k), wide(random, n, k)
    result, seconds = on_gpu(device, twin, arithmetic, a, b)
    rows, columns = random.integers(0, m, SAMPLED_ROWS), random.integers(0, n, SAMPLED_COLUMNS)
    right = defined(arithmetic, a[rows], b[columns])
    sampled = np.ascontiguousarray(result[np.ix_(rows, columns)])
    return judged(arithmetic, f"{m} x {n} x {k}", "every exponent, sampled", sampled, right, seconds)


def judged(
    arithmetic: Arithmetic, shape: str, family: str, result: NDArray[Any], right: NDArray[Any], seconds: float
) -> Comparison:
    bits = f"u{result.dtype.itemsize}"
    result = np.ascontiguousarray(result)
    return Comparison(
        arithmetic=arithmetic.value,
        shape=shape,
        family=family,
        elements=result.size,
        different=int((result.view(bits) != np.ascontiguousarray(right).view(bits)).sum()),
        seconds_on_gpu=round(seconds, 4),
        output_sha256=hashlib.sha256(result.tobytes()).hexdigest(),
    )


if __name__ == "__main__":
    main()
