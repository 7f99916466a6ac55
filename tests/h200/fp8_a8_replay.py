"""Run on a machine with an H200: operators of the FP8 product in CUDA graphs, replayed with other contents and ranges.

    python tests/h200/fp8_a8_replay.py EVIDENCE.json

Quantiser and product are captured once. Before each of twelve replays x gets other values, of another range each time,
and the outputs are poisoned, or set to another residual. Afterwards the workspace must hold the oracle's codes and
scales, and every output is held to the integer twin's sums. The graph is asked which kernels it runs, and how often.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.kernels.fp8_a8_call_site import LINEAR, LINEAR_ADD, CallSite
from tileproof.kernels.fp8_a8_operator import Fp8A8Operator, Weight, Workspace
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.launch_graph import LaunchGraph
from tileproof.kernels.recorded_launch import RecordingDevice
from tileproof.kernels.reference.e4m3_gemm import Arithmetic, E4m3Gemm
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge, Sums
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.quantize import quantize_rows

BF16 = np.dtype(ml_dtypes.bfloat16)
REPLAYS = 12
CALLS = (
    *((LINEAR_ADD, tokens, 5120, 6144) for tokens in (1, 128, 1345)),
    *((LINEAR, tokens, 5120, 6144) for tokens in (321, 1024)),
)


@dataclass
class Replayed:
    """What the replays of one graph gave."""

    site: str
    tokens: int
    rows: int
    depth: int
    route: str
    kernels_of_a_replay: dict[str, int]
    replays: int = 0
    codes_different: int = 0
    scales_different: int = 0
    outputs_judged: int = 0
    outputs_different: int = 0

    @property
    def right(self) -> bool:
        """Whether each kernel runs once, and all that it writes is right."""
        once = set(self.kernels_of_a_replay.values()) == {1} and len(self.kernels_of_a_replay) == 2
        wrong = self.codes_different + self.scales_different + self.outputs_different
        named = any(self.route.replace("-", "_") in name for name in self.kernels_of_a_replay)
        return once and named and not wrong and self.replays == REPLAYS


def main() -> None:
    device = RecordingDevice()
    judge, twin = Fp8A8Judge(device), E4m3Gemm(device)
    results = [
        replayed(device, judge, twin, site, tokens, rows, depth, route)
        for site, tokens, rows, depth in CALLS
        for route in (Route.TMA, Route.CP_ASYNC)
    ]
    evidence = {
        "what": "quantiser and product captured once in a graph, replayed with other contents and ranges",
        "environment": asdict(capture()),
        "graphs": [asdict(result) for result in results],
    }
    text = json.dumps(evidence, indent=1, default=str) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    sys.exit(0 if all(result.right for result in results) else 1)


def replayed(
    device: RecordingDevice,
    judge: Fp8A8Judge,
    twin: E4m3Gemm,
    site: CallSite,
    tokens: int,
    rows: int,
    depth: int,
    route: Route,
) -> Replayed:
    """Capture one call and replay it."""
    random = np.random.default_rng(tokens)
    weight = random.integers(0, 0x7F, (rows, depth), np.uint8) | random.integers(0, 2, (rows, depth), np.uint8) << 7
    weight_scales = random.uniform(0.5, 2, rows).astype(BF16)
    shapes = (((tokens, depth), BF16), ((tokens, depth), np.uint8), ((tokens,), np.float32), ((tokens, rows), BF16))
    x, codes, scales, out = (Tensor.whole(device.allocate(shape, np.dtype(dtype))) for shape, dtype in shapes)
    sums, residual = (Tensor.whole(device.allocate((tokens, rows), dtype)) for dtype in (np.dtype(np.float32), BF16))
    given = Weight(*(Tensor.whole(device.upload(each)) for each in (weight, weight_scales)))
    operator = Fp8A8Operator(device, site)
    with device.recorded() as launches:
        operator(x, given, [out], Workspace(codes, scales), route=route)
    graph = LaunchGraph([launch.run for launch in launches])
    result = Replayed(site.name, tokens, rows, depth, route, dict(graph.kernels))
    for values, added in contents(random, tokens, rows, depth):
        put(device, judge, x, values)
        put(device, judge, residual, added)
        judge.put(words(out), words(residual) if site.adds else 0xFFFFFFFF)
        graph.replay()
        right = quantize_rows(values)
        result.replays += 1
        result.codes_different += int((codes.buffer.download() != right.codes).sum())
        result.scales_different += int((scales.buffer.download() != right.scales).sum())
        twin(Arithmetic.MMA_SM90, codes, given.codes, sums)
        verdict = judge.product(Sums(sums, scales, given.scales), out, residual if site.adds else None)
        result.outputs_judged += out.size
        result.outputs_different += verdict.different
    tensors: tuple[Any, ...] = (x, codes, scales, out, sums, residual, given.codes, given.scales)
    for tensor in tensors:
        device.free(tensor.buffer)
    return result


def contents(
    random: np.random.Generator, tokens: int, rows: int, depth: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """x and residual of each replay."""
    for index in range(REPLAYS):
        span = 2.0 ** (3 * index - 16)
        yield (
            (random.standard_normal((tokens, depth)) * span).astype(BF16),
            (random.standard_normal((tokens, rows)) * span * 1e3).astype(BF16),
        )


def put(device: RecordingDevice, judge: Fp8A8Judge, tensor: Tensor, values: NDArray[Any]) -> None:
    """Other contents for a tensor that stays where it is."""
    buffer = device.upload(values)
    judge.put(words(tensor), words(Tensor.whole(buffer)))
    device.free(buffer)


def words(tensor: Tensor) -> Tensor:
    """A whole tensor as 32-bit words."""
    return Tensor(tensor.buffer, np.dtype(np.uint32), (tensor.buffer.nbytes // 4,), (1,))


if __name__ == "__main__":
    main()
