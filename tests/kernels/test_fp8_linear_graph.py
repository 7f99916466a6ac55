"""Training steps captured once and replayed on other contents, on the CPU device: a cycle of graphs, one a phase.

A ring's index and current pair are arguments by value, so a captured step is one phase of the ring. After a cycle the
host counts as before, and the first graph is right again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from linear_layer import BF16, Layer, poisoned, ring_words, some, whole
from numpy.typing import NDArray

from tileproof.kernels.fp8_linear_state import phases
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge
from tileproof.kernels.tensor import Tensor
from tileproof.oracle import astrai_linear as oracle
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe
from tileproof.simulators.ptx.device import Device

Array = NDArray[Any]
ROWS, COLUMNS, DEPTH = 6, 8, 10


@dataclass
class Step:
    """One captured step and the tensors that it writes."""

    graph: Any
    written: dict[str, Tensor]


class Loop:
    """A layer whose steps are captured on tensors that stay, and replayed in turn."""

    def __init__(self, window: int) -> None:
        self.random = np.random.default_rng(window)
        self.device = Device(schedule="friendly")
        self.layer = Layer.of(self.device, self.some(COLUMNS, DEPTH), ScaleRecipe(window))
        self.layer.step(self.some(ROWS, DEPTH), self.some(ROWS, COLUMNS))  # seeds the rings and loads the kernels
        self.judge = Fp8A8Judge(self.device)
        shapes = {"x": (ROWS, DEPTH), "w": (COLUMNS, DEPTH), "g": (ROWS, COLUMNS)}
        self.given = {name: whole(self.device, np.zeros(shape, BF16)) for name, shape in shapes.items()}
        self.put("x", np.zeros((ROWS, DEPTH), BF16))  # loads the kernel that puts
        self.layer.weight.changed(self.given["w"])
        self.counts = self.host()
        self.steps = [self.captured() for _ in range(phases(self.layer.recipe))]

    def some(self, *shape: int, size: float = 1.0) -> Array:
        return some(self.random, *shape, size=size)

    def host(self) -> list[tuple[int, int]]:
        rings = self.layer.linear.states.of(self.layer.weight).rings
        return [(ring.index, ring.current) for ring in rings.values()]

    def captured(self) -> Step:
        linear, weight = self.layer.linear, self.layer.weight
        weight.changed()
        shapes = {"out": (ROWS, COLUMNS), "input": (ROWS, DEPTH), "weight": (COLUMNS, DEPTH), "bias": (COLUMNS,)}
        written = {name: poisoned(self.device, shape) for name, shape in shapes.items()}
        with self.device.capture() as graph:
            made = linear.forward(self.given["x"], weight, written["out"])
            assert made.saved is not None
            gradients = {name: written[name] for name in ("input", "weight", "bias")}
            linear.backward(made.saved, self.given["g"], **gradients)
        return Step(graph, written)

    def put(self, name: str, values: Array) -> None:
        source = self.device.upload(values)
        self.judge.put(words(self.given[name]), words(Tensor.whole(source)))
        self.device.free(source)

    def replay(self, step: Step, size: float) -> tuple[int, int, int]:
        """One step on new contents: launches, findings, and tensors or rings that differ from the oracle's."""
        x, w, g = (self.some(*self.given[name].shape, size=size) for name in ("x", "w", "g"))
        for name, values in (("x", x), ("w", w), ("g", g)):
            self.put(name, values)
        reports = step.graph.replay()
        recipe = self.layer.recipe
        made = oracle.forward(x, w, self.layer.rings, recipe)
        back = oracle.backward(g, made.saved, made.rings, recipe)
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
    return Tensor(tensor.buffer, np.dtype(np.uint32), (tensor.buffer.nbytes // 4,), (1,))


@pytest.mark.parametrize("window", [1, 3])
def test_replayed_steps_have_the_oracles_bits_and_rings_through_three_cycles(window: int) -> None:
    loop = Loop(window)
    assert loop.host() == loop.counts, "after a cycle the host counts as before"
    sizes = 2.0 ** loop.random.uniform(-6, 6, 3 * len(loop.steps))
    for number, size in enumerate(sizes):
        assert loop.replay(loop.steps[number % len(loop.steps)], float(size)) == (9, 0, 0), number


def test_one_graph_replayed_for_every_step_is_wrong_from_the_second_on() -> None:
    """It reads the pair that it read before, and writes the slot of the window that it wrote before."""
    loop = Loop(2)
    _, _, first = loop.replay(loop.steps[0], 1.0)
    _, _, second = loop.replay(loop.steps[0], 64.0)
    assert (first, second > 0) == (0, True)
