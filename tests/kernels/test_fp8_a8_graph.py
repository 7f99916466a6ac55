"""An operator captured once and replayed on changed contents of changed range, on the CPU device.

Both kernels of an operator are in the graph: each replay must give the oracle's bits for the activations that are there
then, quantised anew. `linear_add` finds a residual of its own in its output each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.conformance.allowed import settle
from tileproof.conformance.contract import Arrays
from tileproof.conformance.gemm_families import BF16, Extents, generate
from tileproof.conformance.ninfer_gemm import OPERATORS, Operator
from tileproof.conformance.ninfer_gemm_cases import contract_name, widths
from tileproof.kernels.fp8_a8_call_site import CALL_SITES, LINEAR_ADD, LINEAR_SWIGLU, CallSite
from tileproof.kernels.fp8_a8_operator import Fp8A8Operator, Weight, Workspace
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge
from tileproof.kernels.tensor import Tensor
from tileproof.simulators.ptx.device import Device

REPLAYS = 12
FAMILIES = ("normal", "powers", "cancellation", "specials")
RANGES = (0, -20, 20, -60, 40)
"""Powers of two by which the activations of a replay are scaled, so that the quantiser's scales must move."""


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


def replayed(device: Device, site: CallSite, route: Route, extents: Extents, *, replays: int = REPLAYS) -> Replays:
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


def _put(device: Device, judge: Fp8A8Judge, tensor: Tensor, values: NDArray[Any]) -> None:
    """Other contents in the same place."""
    source = device.upload(np.ascontiguousarray(values))
    words = np.dtype(np.uint32), (tensor.size // 2,), (1,)
    judge.put(Tensor(tensor.buffer, *words), Tensor(source, *words))
    device.free(source)


def _up(device: Device, array: NDArray[Any]) -> Tensor:
    return Tensor.whole(device.upload(np.ascontiguousarray(array)))


@pytest.mark.parametrize(("site", "route"), [(LINEAR_ADD, Route.TMA), (LINEAR_SWIGLU, Route.CP_ASYNC)], ids=str)
def test_twelve_replays_on_changed_contents_give_the_oracles_bits(site: CallSite, route: Route) -> None:
    found = replayed(Device(), site, route, Extents(2, 128, 128))
    assert found.right, found
    assert len(found.different) == REPLAYS


@pytest.mark.slow
@pytest.mark.parametrize("route", [Route.TMA, Route.CP_ASYNC, Route.FALLBACK])
@pytest.mark.parametrize("site", CALL_SITES, ids=lambda site: site.name)
def test_every_call_site_may_be_replayed_on_every_route(site: CallSite, route: Route) -> None:
    rows = {"attn_input_proj": 14 * 128, "gdn_input_proj": 8 * 128}.get(site.name, 128)
    found = replayed(Device(schedule="adversarial"), site, route, Extents(17, rows, 128), replays=4)
    assert found.right, found
