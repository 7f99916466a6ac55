"""A layer whose training steps are captured on tensors that stay, and replayed on other contents, beside the oracle.

A ring's index and current pair are arguments by value, so a captured step is one phase of the ring: a cycle of graphs
is captured, and replayed in turn. Used by the tests of the gate and by the script for the H200.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from linear_layer import BF16, Layer, poisoned, ring_words, some, whole
from numpy.typing import NDArray

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_linear_state import phases
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge
from tileproof.kernels.tensor import Tensor
from tileproof.oracle import astrai_linear as oracle
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe

Array = NDArray[Any]
Graph = Callable[[], Sequence[Any]]
"""Runs what was captured, and returns the reports of its launches."""

Capture = Callable[[Callable[[], None]], Graph]
"""Calls a function whose launches become a graph."""


@dataclass
class Step:
    """One captured step and the tensors that it writes."""

    replay: Graph
    written: dict[str, Tensor]


@dataclass(frozen=True)
class Extents:
    """Of x [rows, depth] and w [columns, depth]."""

    rows: int = 6
    columns: int = 8
    depth: int = 10


class Loop:
    """See the module.

    Args:
        device: what runs it.
        capture: how its launches become a graph.
        window: of the rings.
        extents: even products, since contents are put word by word.
    """

    def __init__(self, device: Device, capture: Capture, window: int, extents: Extents = Extents()) -> None:
        self.random = np.random.default_rng(window)
        self.device, self._capture = device, capture
        rows, columns, depth = extents.rows, extents.columns, extents.depth
        self.kept: list[Tensor] = []
        self.layer = Layer.of(device, self.some(columns, depth), ScaleRecipe(window), allocate=self.allocate)
        self.layer.step(self.some(rows, depth), self.some(rows, columns))  # seeds the rings and loads the kernels
        self.judge = Fp8A8Judge(device)
        self.shapes = {"x": (rows, depth), "w": (columns, depth), "g": (rows, columns)}
        self.given = {name: whole(device, np.zeros(shape, BF16)) for name, shape in self.shapes.items()}
        self.put("x", np.zeros((rows, depth), BF16))  # loads the kernel that puts
        self.layer.weight.changed(self.given["w"])
        self.counts = self.host()
        self.steps = [self.captured() for _ in range(phases(self.layer.recipe))]

    def some(self, *shape: int, size: float = 1.0) -> Array:
        """Normal values."""
        return some(self.random, *shape, size=size)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """Memory that lives as long as the graphs, which know it by its address alone."""
        self.kept.append(Tensor.whole(self.device.allocate(shape, dtype)))
        return self.kept[-1]

    def host(self) -> list[tuple[int, int]]:
        """What the host counts of each ring."""
        rings = self.layer.linear.states.of(self.layer.weight).rings
        return [(ring.index, ring.current) for ring in rings.values()]

    def captured(self) -> Step:
        """The next step as a graph."""
        self.layer.weight.changed()
        shapes = {"out": self.shapes["g"], "input": self.shapes["x"], "weight": self.shapes["w"]}
        written = {name: poisoned(self.device, shape) for name, shape in shapes.items()}
        written["bias"] = poisoned(self.device, self.shapes["w"][:1])

        def body() -> None:
            made = self.layer.linear.forward(self.given["x"], self.layer.weight, written["out"])
            assert made.saved is not None
            gradients = {name: written[name] for name in ("input", "weight", "bias")}
            self.layer.linear.backward(made.saved, self.given["g"], **gradients)

        return Step(self._capture(body), written)

    def put(self, name: str, values: Array) -> None:
        """Other contents for a tensor that stays where it is."""
        source = self.device.upload(values)
        self.judge.put(words(self.given[name]), words(Tensor.whole(source)))
        self.device.free(source)

    def replay(self, step: Step, size: float) -> tuple[int, int, int]:
        """One step on new contents: launches, findings, and tensors or rings that differ from the oracle's."""
        x, w, g = (self.some(*shape, size=size) for shape in self.shapes.values())
        for name, values in (("x", x), ("w", w), ("g", g)):
            self.put(name, values)
        reports = step.replay()
        recipe, arch = self.layer.recipe, self.device.arch
        made = oracle.forward(x, w, self.layer.rings, recipe, arch=arch)
        back = oracle.backward(g, made.saved, made.rings, recipe, arch=arch)
        self.layer.rings = back.rings
        right = {"out": made.out, "input": back.input, "weight": back.weight, "bias": back.bias}
        different = sum(
            not np.array_equal(step.written[name].buffer.download().view(np.uint16), values.view(np.uint16))
            for name, values in right.items()
            if values is not None
        )
        rings = {Role.WEIGHT: back.rings.w, Role.ACTIVATION: back.rings.x, Role.GRADIENT: back.rings.g}
        found = ring_words(self.layer.linear, self.layer.weight)
        different += sum(found[role] != ring.words for role, ring in rings.items())
        return len(reports), sum(len(report.findings) for report in reports), different


def words(tensor: Tensor) -> Tensor:
    """A whole tensor as 32-bit words."""
    return Tensor(tensor.buffer, np.dtype(np.uint32), (tensor.buffer.nbytes // 4,), (1,))
