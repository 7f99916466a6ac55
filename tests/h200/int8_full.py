"""Run on a machine with an H200: packs and INT8 products at production shape, every byte held to the oracle.

    python tests/h200/int8_full.py EVIDENCE.json [--families NAME ...]

Packs: every weight of `oracle.layouts` that metainfer's kernels read, both ways, in vectors and in bytes. Products:
every weight of every family at every M, through the router and through each kernel that takes it, against exact int64
sums. Graphs: a fused decode and a tile, captured once, replayed twelve times on other contents.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.conformance.metainfer_w8a8_families import Inputs, generate
from tileproof.kernels.device import Device
from tileproof.kernels.int8_arms import ARMS, WGMMA_ARMS, WGMMA_PACK
from tileproof.kernels.int8_layouts import WEIGHT_LAYOUTS
from tileproof.kernels.int8_pack import Int8Pack, Route
from tileproof.kernels.int8_router import FAMILIES, Family
from tileproof.kernels.int8_w8a8 import W8A8, Weight, Workspace
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import METAINFER_W8A8
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.products.integer_matrix import multiply_integers

BF16 = np.dtype(ml_dtypes.bfloat16)
ROWS = (1, 2, 4, 8, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 3071, 3072, 3073, 4095, 4096, 4097)
EXTREME_ROWS = (16, 129, 4096)
PLANES = 16
M3072_WEIGHT = (4096, 1536)
REPLAYS = 12
TURNED, POISON = 0x55, 0xA5A5


@dataclass
class Tally:
    """What was compared, and what differed."""

    launches: int = 0
    values: int = 0
    different: int = 0
    wrong: list[str] = field(default_factory=list)
    arms: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, arm: str, seen: NDArray[Any], right: NDArray[Any]) -> None:
        """One launch."""
        wrong = int((seen != right).sum())
        self.launches += 1
        self.values += seen.size
        self.different += wrong
        self.arms[arm] = self.arms.get(arm, 0) + 1
        if wrong:
            at = int(np.flatnonzero((seen != right).reshape(-1))[0])
            self.wrong.append(f"{what}: {wrong} of {seen.size} differ, the first at flat index {at}")


@dataclass
class Evidence:
    """What one run compared; kept after every weight, so that a run cut short leaves what it had."""

    packs: Tally = field(default_factory=Tally)
    products: Tally = field(default_factory=Tally)
    weights: list[str] = field(default_factory=list)
    graphs: list[dict[str, Any]] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """What differs, in words."""
        graphs = [
            f"graph of {graph['route']}: {graph['different']} differ" for graph in self.graphs if graph["different"]
        ]
        return [*self.packs.wrong, *self.products.wrong, *graphs]

    def line(self) -> str:
        """Where the run stands."""
        packed, computed = self.packs, self.products
        last = self.weights[-1] if self.weights else "no weight"
        return (
            f"{last}: packs {packed.launches} launches, {packed.values} bytes, {packed.different} differ; "
            f"products {computed.launches} launches, {computed.values} outputs, {computed.different} differ"
        )

    def keep(self, path: Path) -> None:
        """As JSON."""
        what = "packed weights, INT8 products and graphs of them, every byte against the oracle"
        said = {"what": what, "environment": asdict(capture()), **asdict(self)}
        path.write_text(json.dumps(said, indent=1, default=str) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    given = parser.parse_args()
    from tileproof.kernels.recorded_launch import RecordingDevice

    device = RecordingDevice()
    evidence = Evidence()
    packs(device, evidence.packs, production_weights())
    for name in given.families:
        for k, n in weights_of(FAMILIES[name]):
            products(device, evidence.products, FAMILIES[name], k, n, ROWS)
            evidence.weights.append(f"{name} {k} x {n}")
            sys.stdout.write(evidence.line() + "\n")
            sys.stdout.flush()
            evidence.keep(given.evidence)
    evidence.graphs = [
        replayed(device, FAMILIES["TP4 M16"], 16, 4096, 2560),
        replayed(device, FAMILIES["TP4 M4096"], 4096, 2048, 4096),
    ]
    evidence.keep(given.evidence)
    sys.stdout.write("\n".join([evidence.line(), *evidence.wrong(), *map(str, evidence.graphs)]) + "\n")
    sys.exit(1 if evidence.wrong() else 0)


def production_weights() -> list[tuple[str, int, int]]:
    """Order, K and N of every weight that is stored so."""
    return [(name, use.k, use.n) for name, layout in WEIGHT_LAYOUTS.items() for use in layout.record.uses]


def weights_of(family: Family) -> list[tuple[int, int]]:
    """K and N of the family's weights."""
    return list(family.packs) or [M3072_WEIGHT]


def packs(device: Device, tally: Tally, weights: Sequence[tuple[str, int, int]]) -> None:
    """Every weight, both ways, on both routes."""
    launcher = Int8Pack(device)
    for name, k, n in weights:
        raw = np.random.default_rng(k + n).integers(-128, 128, (k, n)).astype(np.int8)
        right = WEIGHT_LAYOUTS[name].record.pack(raw)
        for route in Route:
            stored, packed, back = (
                Tensor.whole(device.upload(each)) for each in (raw, ~right, np.full_like(raw, TURNED))
            )
            launcher.pack(stored, packed, name, route=route)
            launcher.unpack(packed, back, name, route=route)
            for what, tensor, wanted in (("pack", packed, right), ("unpack", back, raw)):
                tally.add(f"{what} {name} {route} K={k} N={n}", route, tensor.buffer.download(), wanted)
            _free(device, stored, packed, back)


class Setting:
    """A weight on a device, with activations for the most rows, and the outputs that it must give."""

    def __init__(self, device: Device, family: Family, k: int, n: int, rows: int, data: str) -> None:
        self.device, self.k, self.n, self.name = device, k, n, f"{family.name} K={k} N={n} {data}"
        self.given = generate(data, rows, n, k, np.random.default_rng(20260724 + rows + n + k))
        self.right = outputs(self.given)
        self.raw = Tensor.whole(device.upload(self.given.w))
        self.packed = Tensor.whole(device.upload(np.full(k * n, TURNED, np.int8)))
        self.w_scale = Tensor.whole(device.upload(self.given.w_scale))
        self.x = Tensor.whole(device.upload(self.given.x))
        self.x_scale = Tensor.whole(device.upload(self.given.x_scale))
        self.arrivals = Tensor.whole(device.upload(np.zeros(-(-n // 64), np.uint64)))

    def run(self, operator: W8A8, weight: Weight, m: int, arm: str | None, tally: Tally) -> None:
        """One call, on the first m rows, and what came of it."""
        device = self.device
        out = Tensor.whole(device.upload(np.full((m, self.n), POISON, np.uint16).view(BF16)))
        planes = Tensor.whole(device.upload(np.full((PLANES, m, self.n), -1, np.int32))) if m <= 32 else None
        launch = operator(
            Tensor(self.x.buffer, self.x.dtype, (m, self.k), self.x.strides),
            weight,
            Tensor(self.x_scale.buffer, self.x_scale.dtype, (m,), (1,)),
            self.w_scale,
            out,
            arm=arm,
            workspace=None if planes is None else Workspace(planes, self.arrivals),
        )
        seen = out.buffer.download().view(np.uint16)
        tally.add(f"{self.name} M={m} {launch.route}", launch.route, seen, self.right[:m])
        self.renew_counters(launch.route)
        _free(device, out, *(() if planes is None else (planes,)))

    def renew_counters(self, route: str) -> None:
        """New counters: launches with unlike numbers of parts must not share them."""
        if route == "decode-fused":
            counters = self.arrivals.buffer
            self.device.free(counters)
            self.arrivals = Tensor.whole(self.device.upload(np.zeros(counters.shape, np.uint64)))

    def free(self) -> None:
        """Give all memory back."""
        _free(self.device, self.raw, self.packed, self.w_scale, self.x, self.x_scale, self.arrivals)


def products(device: Device, tally: Tally, family: Family, k: int, n: int, rows: Sequence[int]) -> None:
    """One weight at all M through the router and every kernel, and of extremes through the router."""
    operator = W8A8(device, family)
    for data in ("uniform", "extremes"):
        setting = Setting(device, family, k, n, max(rows), data)
        weight = operator.prepare(setting.raw, setting.packed)
        wanted = rows if data == "uniform" else [m for m in rows if m in EXTREME_ROWS]
        for m in wanted:
            setting.run(operator, weight, m, None, tally)
            if data == "uniform":
                for arm in forced(m, n, k, weight.pack):
                    setting.run(operator, weight, m, arm, tally)
        setting.free()


def forced(m: int, n: int, k: int, pack: str) -> Iterator[str]:
    """The kernels that are forced for a product."""
    for name, arm in (ARMS | (WGMMA_ARMS if pack == WGMMA_PACK else {})).items():
        if arm.obstacle(m, n, k) is None:
            yield name


def outputs(given: Inputs) -> NDArray[np.uint16]:
    """The right outputs as raw bits, uint16 [M, N]."""
    columns = np.ascontiguousarray(given.w.T).astype(np.int64)
    sums = multiply_integers(given.x.astype(np.int64), columns, 128, 128).astype(np.int32)
    found = apply_epilogue(METAINFER_W8A8, Operands(accumulators=sums, factors=(given.x_scale, given.w_scale)))
    return np.asarray(found).view(np.uint16)


def replayed(device: Any, family: Family, m: int, k: int, n: int) -> dict[str, Any]:
    """One call captured in a graph; the buffers keep their addresses, and nothing is cleared between replays."""
    from tileproof.kernels.launch_graph import LaunchGraph

    setting, operator = Setting(device, family, k, n, m, "uniform"), W8A8(device, family)
    weight = operator.prepare(setting.raw, setting.packed)
    out = Tensor.whole(device.allocate((m, n), BF16))
    planes = Tensor.whole(device.allocate((PLANES if m <= 32 else 1, m, n), np.dtype(np.int32)))
    workspace = Workspace(planes, setting.arrivals)
    with device.recorded() as launches:
        route = operator(setting.x, weight, setting.x_scale, setting.w_scale, out, workspace=workspace).route
    graph = LaunchGraph([launch.run for launch in launches])
    different = 0
    for replay in range(REPLAYS):
        other = generate("uniform", m, 1, k, np.random.default_rng(replay))
        changed = Inputs(other.x, setting.given.w, other.x_scale, setting.given.w_scale)
        for tensor, values in ((setting.x, changed.x), (setting.x_scale, changed.x_scale)):
            tensor.buffer.memory.copy_from_host(values.ctypes.data, values.nbytes)  # type: ignore[attr-defined]
        graph.replay()
        different += int((out.buffer.download().view(np.uint16) != outputs(changed)).sum())
    counters = sorted(set(setting.arrivals.buffer.download().tolist()))
    setting.free()
    _free(device, out, planes)
    kernels = dict(graph.kernels)
    return {
        "route": route,
        "m": m,
        "replays": REPLAYS,
        "different": different,
        "kernels": kernels,
        "counters": counters,
    }


def _free(device: Device, *tensors: Tensor) -> None:
    for tensor in tensors:
        device.free(tensor.buffer)


if __name__ == "__main__":
    main()
