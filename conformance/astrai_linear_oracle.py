"""A program of the linear layer in the oracle, with an account of its own of weights, casts and rings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.astrai_linear_setting import Setting
from tileproof.oracle.astrai_linear import Cast, Forward, Rings, backward, forward
from tileproof.oracle.ring.ring_registry import restore_ring
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED
from tileproof.oracle.ring.ring_state import fresh
from tileproof.oracle.ring.scale_recipe import ScaleRecipe

Array = NDArray[Any]


@dataclass
class Entry:
    """The rings of one weight."""

    recipe: ScaleRecipe
    rings: Rings


@dataclass
class Layer:
    """One weight: its contents, its rings if it has any, and whether its kept cast is of these contents."""

    contents: Array | Cast
    entry: Entry | None = None
    is_cast: bool = False


class OracleSession:
    """The program's session; `outputs` and `words` are its results.

    Args:
        of: the shape.
        margin: of the first recipe.
        values: inputs of the case by name.
        arch: whose matrix unit.
        with_gradients: whether backward passes run.
    """

    def __init__(
        self, of: Setting, margin: int, values: Mapping[str, Array], arch: str, *, with_gradients: bool
    ) -> None:
        self.steps = of.steps
        self.outputs: dict[str, dict[int, Array]] = {name: {} for name in ("out", "dx", "dw", "dbias")}
        self._of, self._values, self._arch, self._with_gradients = of, values, arch, with_gradients
        self._first = self._recipe = of.recipe(margin)
        self._layers: dict[int, Layer] = {}
        self._made: list[Entry] = []
        self._passes: dict[int, tuple[Entry, Forward]] = {}

    @property
    def words(self) -> Array:
        """Of all rings in the order in which they were made, float32."""
        rings = [ring for entry in self._made for ring in (entry.rings.w, entry.rings.x, entry.rings.g)]
        return np.concatenate([np.array(ring.words, np.uint32) for ring in rings]).view(np.float32)

    def update(self, step: int, weight: int = 0) -> None:
        """See `Session`."""
        if self._of.is_quantised:
            contents: Array | Cast = Cast(self._values["codes"], None, np.float32(self._values["scale"][0]))
        else:
            contents = self._values["w"][step]
        layer = self._layers.setdefault(weight, Layer(contents))
        layer.contents, layer.is_cast = contents, False

    def forward(self, step: int, *, weight: int = 0, gradients: bool = True, shared: bool = False) -> None:
        """See `Session`."""
        layer = self._layers[weight]
        entry = self._entry(layer)
        made = forward(
            self._passes[step - 1][1].saved.x if shared else self._values["x"][step],
            layer.contents,
            entry.rings,
            entry.recipe,
            bias=self._values.get("bias"),
            training=gradients,
            weight_changed=not layer.is_cast,
            arch=self._arch,
        )
        entry.rings = made.rings
        layer.is_cast = layer.is_cast or gradients
        self.outputs["out"][step] = made.out.reshape(*self._of.tokens, self._of.columns)
        self._passes[step] = entry, made

    def backward(self, step: int) -> None:
        """See `Session`."""
        if not self._with_gradients:
            return
        entry, made = self._passes[step]
        back = backward(self._values["g"][step], made.saved, entry.rings, entry.recipe, arch=self._arch)
        entry.rings = back.rings
        assert back.input is not None
        self.outputs["dx"][step] = back.input.reshape(*self._of.tokens, self._of.depth)
        self.outputs["dw"][step], self.outputs["dbias"][step] = back.weight, back.bias

    def renew(self) -> None:
        """See `Session`."""
        self._layers[0] = Layer(self._layers[0].contents)

    def change_margin(self) -> None:
        """See `Session`."""
        self._recipe = replace(self._recipe, margin=self._recipe.margin + 1)

    def reset(self) -> None:
        """See `Session`."""
        self._recipe = self._first
        for layer in self._layers.values():
            layer.entry, layer.is_cast = None, False

    def restore(self) -> None:
        """See `Session`: weight 1 is the only one alive, and weight 2 will claim its rings."""
        saved = self._layers[1].entry
        assert saved is not None
        empty = fresh(DOUBLE_BUFFERED, self._of.window)
        rings = Rings(*(restore_ring(empty, one) for one in (saved.rings.w, saved.rings.x, saved.rings.g)))
        self._layers = {2: Layer(self._layers[1].contents, Entry(self._recipe, rings))}

    def _entry(self, layer: Layer) -> Entry:
        if layer.entry is None or layer.entry.recipe != self._recipe:
            if layer.entry is not None:
                for one in self._layers.values():
                    one.is_cast = False
            layer.entry = Entry(self._recipe, Rings.fresh(self._recipe))
            self._made.append(layer.entry)
        return layer.entry
