"""A linear layer on a device beside the oracle's: each pass is run by both and held to each other, bits and rings.

Used by the tests of the gate and by the script for the H200; nothing here needs a GPU or forbids one.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_linear import Fp8Linear, Pass
from tileproof.kernels.fp8_linear import Saved as KernelSaved
from tileproof.kernels.fp8_linear_state import LinearStates, Weight, words_of
from tileproof.kernels.tensor import Tensor
from tileproof.oracle import astrai_linear as oracle
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe

Array = NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
POISON = 0x7FC1


@dataclass
class Layer:
    """One weight, its operator and its oracle."""

    device: Device
    linear: Fp8Linear
    weight: Weight
    values: Array
    rings: oracle.Rings
    findings: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, device: Device, values: Array, recipe: ScaleRecipe, **options: Any) -> "Layer":
        """A layer of a weight, with states of its own."""
        states = LinearStates(lambda words: Tensor.whole(device.upload(words)), recipe)
        linear = Fp8Linear(device, states, **options)
        return cls(device, linear, Weight(whole(device, values)), values, oracle.Rings.fresh(recipe))

    @property
    def recipe(self) -> ScaleRecipe:
        """The recipe of now."""
        return self.linear.states.recipe

    def update(self, values: Array) -> None:
        """The optimiser's step: other contents."""
        self.values = values
        self.weight.changed(whole(self.device, values))

    def forward(self, x: Array, bias: Array | None = None, *, gradients: bool = True) -> tuple[Pass, oracle.Forward]:
        """A forward pass of both, which must agree."""
        out = poisoned(self.device, (*x.shape[:-1], self.values.shape[0]))
        changed = self.linear.states.of(self.weight).cast_of(self.weight) is None
        made = self.linear.forward(
            whole(self.device, x),
            self.weight,
            out,
            bias=None if bias is None else whole(self.device, bias),
            gradients=gradients,
        )
        right = oracle.forward(
            x,
            self.values,
            self.rings,
            self.recipe,
            bias=bias,
            training=gradients,
            weight_changed=changed,
            arch=self.device.arch,
        )
        self.rings = right.rings
        self._agree(made, {"out": (out, right.out)})
        return made, right

    def backward(self, g: Array, saved: KernelSaved | None, kept: oracle.Saved) -> tuple[Pass, oracle.Backward]:
        """A backward pass of both, which must agree."""
        assert saved is not None
        right = oracle.backward(g, kept, self.rings, self.recipe, arch=self.device.arch)
        assert right.input is not None
        wanted = {"input": right.input, "weight": right.weight, "bias": right.bias}
        given = {name: poisoned(self.device, values.shape) for name, values in wanted.items()}
        made = self.linear.backward(saved, whole(self.device, g), **given)
        self.rings = right.rings
        self._agree(made, {name: (given[name], wanted[name]) for name in wanted})
        return made, right

    def step(self, x: Array, g: Array, bias: Array | None = None) -> tuple[Pass, Pass]:
        """A forward and a backward pass."""
        made, right = self.forward(x, bias)
        back, _ = self.backward(g, made.saved, right.saved)
        return made, back

    def _agree(self, made: Pass, outputs: dict[str, tuple[Tensor, Array]]) -> None:
        for launch in made.launches:
            self.findings += [] if launch.report is None else launch.report.findings
        for name, (tensor, right) in outputs.items():
            found = tensor.buffer.download()
            wrong = int((found.view(np.uint16) != right.view(np.uint16)).sum())
            assert not wrong, f"{name}: {wrong} of {right.size} differ"
        assert ring_words(self.linear, self.weight) == {
            Role.WEIGHT: self.rings.w.words,
            Role.ACTIVATION: self.rings.x.words,
            Role.GRADIENT: self.rings.g.words,
        }


def ring_words(linear: Fp8Linear, weight: Weight) -> dict[Role, tuple[int, ...]]:
    """The words of all rings of a weight, as bit patterns."""
    rings = linear.states.of(weight).rings
    return {role: tuple(int(word) for word in words_of(ring).view(np.uint32)) for role, ring in rings.items()}


def whole(device: Device, values: Array) -> Tensor:
    """A tensor that holds a copy."""
    return Tensor.whole(device.upload(values))


def poisoned(device: Device, shape: tuple[int, ...]) -> Tensor:
    """A bfloat16 tensor of NaN."""
    return replace(whole(device, np.full(shape, POISON, np.uint16)), dtype=BF16)


def some(random: np.random.Generator, *shape: int, size: float = 1.0) -> Array:
    """Normal values of a size."""
    return (random.standard_normal(shape) * size).astype(BF16)
