"""Run on a machine with an H200: an operator captured once and replayed on changed contents of changed range.

    python tests/h200/fp8_a8_graph.py EVIDENCE.json

Both kernels of an operator are in the graph: each replay must give the oracle's bits for the activations that are there
then, quantised anew. `linear_add` finds a residual of its own in its output each time.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.allowed import settle
from tileproof.conformance.contract import Arrays
from tileproof.conformance.environment import capture as environment
from tileproof.conformance.gemm_families import BF16, Extents, generate
from tileproof.conformance.ninfer_gemm import OPERATORS, Operator
from tileproof.conformance.ninfer_gemm_cases import contract_name, widths
from tileproof.kernels.device import CapturesGraphs
from tileproof.kernels.fp8_a8_call_site import CALL_SITES, CallSite
from tileproof.kernels.fp8_a8_operator import Fp8A8Operator, Weight, Workspace
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge
from tileproof.kernels.tensor import Tensor

REPLAYS = 12
FAMILIES = ("normal", "powers", "cancellation", "specials")
RANGES = (0, -20, 20, -60, 40)
"""Powers of two by which the activations of a replay are scaled, so that the quantiser's scales must move."""

GEOMETRIES = {
    "linear": (1280, 1024),
    "linear_add": (1280, 1024),
    "linear_swiglu": (2560, 1024),
    "attn_input_proj": (1792, 1024),
    "gdn_input_proj": (1024, 1024),
}
TOKENS = (2, 16, 65, 128, 257)


@dataclass
class Replays:
    """One graph and what its replays gave."""

    site: str
    route: str
    tokens: int
    launches: list[int] = field(default_factory=list)
    different: list[int] = field(default_factory=list)
    findings: int = 0

    @property
    def right(self) -> bool:
        """Whether every replay ran both kernels and gave the right bits."""
        return not self.findings and not any(self.different) and set(self.launches) == {2}


def main() -> None:
    from tileproof.kernels.cupy_device import CupyDevice

    device, start = CupyDevice(), time.perf_counter()
    found = [
        replayed(device, site, route, Extents(tokens, *GEOMETRIES[site.name]))
        for site in CALL_SITES
        for route in (Route.TMA, Route.CP_ASYNC)
        for tokens in TOKENS
    ]
    evidence = {
        "what": f"operators captured once and replayed {REPLAYS} times on changed contents, against the oracle",
        "environment": asdict(environment()),
        "seconds": round(time.perf_counter() - start, 1),
        "graphs": [asdict(one) for one in found],
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1, default=str) + "\n")
    wrong = [one for one in found if not one.right]
    sys.stdout.write(f"{len(found)} graphs of {REPLAYS} replays, {len(wrong)} wrong\n")
    sys.exit(1 if wrong else 0)


def replayed(
    device: CapturesGraphs, site: CallSite, route: Route, extents: Extents, *, replays: int = REPLAYS
) -> Replays:
    """Capture one call, then replay it on other contents each time."""
    found, operator = Replays(site.name, route, extents.tokens), OPERATORS[contract_name(site)]
    given = generate("normal", extents, np.random.default_rng(1))
    shapes = [(extents.tokens, width) for width in widths(site, extents.rows)]
    x, *outputs = (Tensor.whole(device.allocate(s, BF16)) for s in ((extents.tokens, extents.depth), *shapes))
    weight = Weight(_up(device, given.weight), _up(device, given.weight_scales))
    workspace = Workspace(
        Tensor.whole(device.allocate((extents.tokens, extents.depth), np.dtype(np.uint8))),
        Tensor.whole(device.allocate((extents.tokens,), np.dtype(np.float32))),
    )
    launcher, judge = Fp8A8Operator(device, site), Fp8A8Judge(device)
    launcher(x if site.adds else _up(device, given.x), weight, outputs, workspace, route=route)  # loads the kernels
    with device.capture() as graph:
        launcher(x, weight, outputs, workspace, route=route)
    for index in range(replays):
        values = _contents(extents, index, given.weight, given.weight_scales)
        _put(device, judge, x, values["x"])
        for output in outputs:
            _put(device, judge, output, values["out"] if site.adds else np.full(output.shape, np.nan, BF16))
        reports = graph.replay()
        found.launches.append(len(reports))
        found.findings += sum(len(report.findings) for report in reports)
        found.different.append(_different(operator, values, device.arch, outputs))
    return found


def _contents(extents: Extents, index: int, weight: NDArray[Any], weight_scales: NDArray[Any]) -> Arrays:
    """The activations and the residual of one replay; the weight is the graph's."""
    made = generate(FAMILIES[index % len(FAMILIES)], extents, np.random.default_rng(100 + index))
    with np.errstate(all="ignore"):
        x = (made.x.astype(np.float32) * np.float32(2.0 ** RANGES[index % len(RANGES)])).astype(BF16)
    return {"x": x, "weight": weight, "weight_scales": weight_scales, "out": made.residual}


def _different(operator: Operator, values: Arrays, arch: str, outputs: Sequence[Tensor]) -> int:
    """How many elements of the outputs are wrong."""
    right, count = operator.expected(values, arch), 0
    for name, output in zip(operator.site.outputs, outputs, strict=True):
        seen = output.buffer.download().view(np.uint16)
        expected, observed = settle("BFLOAT16", right[name], [seen])
        count += int((expected != observed).sum())
    return count


def _put(device: CapturesGraphs, judge: Fp8A8Judge, tensor: Tensor, values: NDArray[Any]) -> None:
    """Other contents in the same place."""
    source = device.upload(np.ascontiguousarray(values))
    words = np.dtype(np.uint32), (tensor.size // 2,), (1,)
    judge.put(Tensor(tensor.buffer, *words), Tensor(source, *words))
    device.free(source)


def _up(device: CapturesGraphs, array: NDArray[Any]) -> Tensor:
    return Tensor.whole(device.upload(np.ascontiguousarray(array)))


if __name__ == "__main__":
    main()
