"""A program of the linear layer on a device: the operator under test, on the tensors of a case."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.conformance.astrai_linear_setting import Setting
from tileproof.kernels.device import Buffer, Device
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED

F32 = np.dtype(np.float32)
FORMATS = {
    "E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "E5M2": np.dtype(ml_dtypes.float8_e5m2),
}

STEMS = ("mm_fp8_arguments", "mm_fp8", "fp8_scale_ring", "fp8_quantize_tensor", "fp8_linear_state", "fp8_linear")
"""The host files of the layer, each importing earlier ones only."""


@dataclass
class Memory:
    """What an operator allocates while a program runs, all of which is given back.

    Args:
        device: where.
    """

    device: Device
    buffers: list[Buffer] = field(default_factory=list)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """Undefined contents."""
        self.buffers.append(self.device.allocate(shape, dtype))
        return Tensor.whole(self.buffers[-1])

    def place(self, words: Any) -> Tensor:
        """A copy of host memory."""
        self.buffers.append(self.device.upload(words))
        return Tensor.whole(self.buffers[-1])

    def free(self) -> None:
        """Give everything back."""
        for buffer in self.buffers:
            self.device.free(buffer)
        self.buffers.clear()


class DeviceSession:
    """The program's session; `launches` are what it did.

    Args:
        modules: the layer's host files by stem.
        linear: the operator, whose states are replaced.
        memory: that the operator allocates from.
        of: the shape.
        margin: of the first recipe.
        given: tensors of the case by name.
    """

    def __init__(
        self,
        modules: Mapping[str, ModuleType],
        linear: Any,
        memory: Memory,
        of: Setting,
        margin: int,
        given: Mapping[str, Tensor],
    ) -> None:
        self.steps = of.steps
        self.launches: list[Launch] = []
        self._state: Any = modules["fp8_linear_state"]
        self._linear, self._memory, self._of, self._given = linear, memory, of, given
        self._placed = 0
        self._linear.states = self._state.LinearStates(self._place, of.recipe(margin))
        self._weights: dict[int, Any] = {}
        self._passes: dict[int, Any] = {}

    def update(self, step: int, weight: int = 0) -> None:
        """See `Session`."""
        if self._of.is_quantised:
            codes = replace(self._given["codes"], dtype=FORMATS[self._of.formats.forward.name])
            self._weights.setdefault(weight, self._state.QuantizedWeight(codes, self._given["scale"]))
            return
        tensor = part(self._given["w"], step)
        if weight in self._weights:
            self._weights[weight].changed(tensor)
        else:
            self._weights[weight] = self._state.Weight(tensor)

    def forward(self, step: int, *, weight: int = 0, gradients: bool = True, shared: bool = False) -> None:
        """See `Session`."""
        x = self._passes[step - 1].saved.x if shared else part(self._given["x"], step)
        out, bias = part(self._given["out"], step), self._given.get("bias")
        made = self._linear.forward(x, self._weights[weight], out, bias=bias, gradients=gradients)
        self._passes[step] = made
        self.launches += made.launches

    def backward(self, step: int) -> None:
        """See `Session`."""
        if "g" not in self._given:
            return
        wanted = {"input": "dx", "weight": "dw", "bias": "dbias"}
        written = {name: part(self._given[short], step) for name, short in wanted.items()}
        made = self._linear.backward(self._passes[step].saved, part(self._given["g"], step), **written)
        self.launches += made.launches

    def renew(self) -> None:
        """See `Session`."""
        tensor = self._weights.pop(0).tensor
        self._passes.clear()
        self._weights[0] = self._state.Weight(tensor)

    def change_margin(self) -> None:
        """See `Session`."""
        states = self._linear.states
        states.recipe = replace(states.recipe, margin=states.recipe.margin + 1)

    def reset(self) -> None:
        """See `Session`."""
        self._linear.states.reset()

    def restore(self) -> None:
        """See `Session`."""
        del self._weights[0]
        saved, recipe = self._linear.states.snapshot(), self._linear.states.recipe
        self._weights.clear()
        self._linear.states = self._state.LinearStates(self._memory.place, recipe)
        self._linear.states.restore(saved)

    def _place(self, words: Any) -> Tensor:
        """The next ring of the case's tensor; memory of its own for one that the case does not know."""
        size = DOUBLE_BUFFERED.size(self._of.window)
        rings = self._given["rings"]
        first = self._placed * size
        if words.any() or words.size != size or first + size > rings.size:
            return self._memory.place(words)
        self._placed += 1
        offset = rings.offset_bytes + first * F32.itemsize
        return replace(rings, shape=(size,), strides=(1,), offset_bytes=offset)


def part(stacked: Tensor, step: int) -> Tensor:
    """The tensor of one step."""
    shape = stacked.shape[1:]
    offset = stacked.offset_bytes + step * stacked.strides[0] * stacked.dtype.itemsize
    return replace(stacked, shape=shape, strides=contiguous_strides(shape), offset_bytes=offset)
