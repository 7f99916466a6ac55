"""An operator in a graph: what runs on a GPU does the same on the CPU device, at a small size."""

import sys
from pathlib import Path

import pytest

from tileproof.conformance.gemm_families import Extents
from tileproof.kernels import device as protocol
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.fp8_a8_call_site import CALL_SITES, LINEAR_ADD, LINEAR_SWIGLU, CallSite
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.simulators.ptx.device import Device

sys.path.insert(0, str(Path(__file__).parents[1] / "h200"))
import fp8_a8_graph

_CPU: type[protocol.CapturesGraphs] = Device  # held to the protocol by the type checker
_GPU: type[protocol.CapturesGraphs] = CupyDevice


@pytest.mark.parametrize(
    ("site", "route"), [(LINEAR_ADD, Route.TMA), (LINEAR_SWIGLU, Route.CP_ASYNC)], ids=lambda value: str(value)
)
def test_twelve_replays_on_changed_contents_give_the_oracles_bits(site: CallSite, route: Route) -> None:
    found = fp8_a8_graph.replayed(Device(), site, route, Extents(2, 128, 128))
    assert found.right, found
    assert len(found.different) == 12


@pytest.mark.slow
@pytest.mark.parametrize("route", [Route.TMA, Route.CP_ASYNC, Route.FALLBACK])
@pytest.mark.parametrize("site", CALL_SITES, ids=lambda site: site.name)
def test_every_call_site_may_be_replayed_on_every_route(site: CallSite, route: Route) -> None:
    rows = {"attn_input_proj": 14 * 128, "gdn_input_proj": 8 * 128}.get(site.name, 128)
    found = fp8_a8_graph.replayed(Device(schedule="adversarial"), site, route, Extents(17, rows, 128), replays=4)
    assert found.right, found


def test_what_a_graph_holds_from_its_capture_is_found_if_it_should_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay on contents that the graph does not see."""
    monkeypatch.setattr(fp8_a8_graph, "_put", lambda device, judge, tensor, values: None)
    found = fp8_a8_graph.replayed(Device(), LINEAR_ADD, Route.CP_ASYNC, Extents(2, 128, 128), replays=2)
    assert not found.right
