"""Our linear layer inside torch: an autograd function, a module, and who queues launches where.

torch's memory comes to our launchers by DLPack and is allocated by torch's allocator, so that a graph that torch
captures owns it. Our launches are recorded by a `RecordingDevice`, that is, checked and not run, and then queued on
torch's current stream, in the thread that asks: torch runs backward passes in threads of its own, on the stream of the
forward.

Each layer logs the largest magnitude of what its rings scale, measured by torch, beside the rings' words.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import torch

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_linear import Fp8Linear
from tileproof.kernels.fp8_linear_state import LinearStates, Weight
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe

DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float32: np.dtype(np.float32),
    torch.uint8: np.dtype(np.uint8),
}
TORCH = {dtype: name for name, dtype in DTYPES.items()}
ROLES = tuple(Role)


class Bridge(Protocol):
    """Where torch and our launchers meet."""

    device: Device

    def tensor(self, given: torch.Tensor) -> Tensor:
        """A contiguous torch tensor as ours."""

    def launching(self) -> Any:
        """A context: launches inside it are queued on torch's stream, in order."""

    def written(self, given: torch.Tensor, ours: Tensor) -> None:
        """To be called when launches have been asked to write `ours`."""

    def share(self, words: int) -> tuple[torch.Tensor, Tensor]:
        """Zeroed float32 memory that both sides see."""


class GpuBridge:
    """On a GPU: one memory, one stream."""

    def __init__(self) -> None:
        from tileproof.kernels.recorded_launch import RecordingDevice

        self.device: Any = RecordingDevice()

    def tensor(self, given: torch.Tensor) -> Tensor:
        """See `Bridge`."""
        from tileproof.kernels.dlpack import imported

        raw = given.detach().view(torch.uint8)
        return imported(self.device, raw, tuple(given.shape), DTYPES[given.dtype])

    @contextmanager
    def launching(self) -> Iterator[None]:
        """See `Bridge`."""
        import cupy

        with self.device.recorded() as launches:
            yield
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            for launch in launches:
                launch.run()

    def written(self, given: torch.Tensor, ours: Tensor) -> None:
        """It is the same memory."""

    def share(self, words: int) -> tuple[torch.Tensor, Tensor]:
        """Memory of ours, which torch takes by DLPack."""
        from tileproof.kernels.dlpack import exported

        ours = Tensor.whole(self.device.upload(np.zeros(words, np.float32)))
        return torch.from_dlpack(exported(ours)).view(torch.float32), ours


class HostBridge:
    """On the CPU device, to try the loop without a GPU: memory is copied there and back."""

    def __init__(self) -> None:
        from tileproof.simulators.ptx.device import Device as Simulator

        self.device: Any = Simulator(schedule="friendly")
        self._shared: list[tuple[torch.Tensor, Tensor]] = []

    def tensor(self, given: torch.Tensor) -> Tensor:
        """See `Bridge`."""
        values = given.detach().contiguous().view(torch.uint8).numpy().view(DTYPES[given.dtype])
        return Tensor.whole(self.device.upload(values.reshape(tuple(given.shape))))

    @contextmanager
    def launching(self) -> Iterator[None]:
        """Launches run at once."""
        yield
        for seen, ours in self._shared:
            self.written(seen, ours)

    def written(self, given: torch.Tensor, ours: Tensor) -> None:
        """Copied back."""
        values = torch.from_numpy(ours.buffer.download().view(np.uint8).reshape(-1))
        given.detach().view(torch.uint8).reshape(-1).copy_(values)

    def share(self, words: int) -> tuple[torch.Tensor, Tensor]:
        """A copy that follows."""
        seen, ours = torch.zeros(words), Tensor.whole(self.device.upload(np.zeros(words, np.float32)))
        self._shared.append((seen, ours))
        return seen, ours


class Runtime:
    """The operator, its rings in one piece of memory, and the log of maxima beside them.

    Args:
        bridge: to the device.
        layers: how many there will be.
        recipe: of all.
    """

    def __init__(self, bridge: Bridge, layers: int, recipe: ScaleRecipe) -> None:
        self.bridge, self.recipe = bridge, recipe
        self.size = DOUBLE_BUFFERED.size(recipe.window)
        self.words, self._memory = bridge.share(layers * len(ROLES) * self.size)
        self.maxima = torch.zeros(layers * len(ROLES), device=self.words.device)
        self._placed = 0
        self.linear = Fp8Linear(bridge.device, LinearStates(self._place, recipe), allocate=self._allocate)

    def _place(self, words: Any) -> Tensor:
        assert not words.any(), "rings begin as zeros"
        assert words.size == self.size
        offset = 4 * self._placed * self.size
        self._placed += 1
        memory = self._memory
        return Tensor(memory.buffer, memory.dtype, (self.size,), (1,), memory.offset_bytes + offset)

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """From torch's allocator, which a graph that is being captured owns."""
        return self.bridge.tensor(torch.empty(shape, dtype=TORCH[dtype], device=self.words.device))

    def log(self, layer: int, role: Role, tensor: torch.Tensor) -> None:
        """The largest magnitude that is a number, measured by torch."""
        wide = tensor.detach().float().abs()
        largest = torch.where(wide.isnan(), torch.zeros_like(wide), wide).amax()
        self.maxima[layer * len(ROLES) + ROLES.index(role)].copy_(largest)


class _Function(torch.autograd.Function):
    """Forward and backward by our operator."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, layer: "Fp8Layer", gradients: bool
    ) -> torch.Tensor:
        """out = x · wᵀ + bias; `gradients` is the caller's mode, since torch switches it off in here."""
        runtime = layer.runtime
        bridge, x = runtime.bridge, x.contiguous()
        out = torch.empty((*x.shape[:-1], w.shape[0]), dtype=torch.bfloat16, device=x.device)
        layer.handle.changed(bridge.tensor(w.contiguous()))
        given, ours = bridge.tensor(x), bridge.tensor(out)
        with bridge.launching():
            made = runtime.linear.forward(
                given,
                layer.handle,
                ours,
                bias=None if bias is None else bridge.tensor(bias),
                gradients=gradients,
            )
        bridge.written(out, ours)
        runtime.log(layer.number, Role.ACTIVATION, x)
        runtime.log(layer.number, Role.WEIGHT, w)
        ctx.layer, ctx.made, ctx.shapes = layer, made, (x.shape, w.shape)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """dX, dW and, if it is asked for, dbias."""
        runtime, g = ctx.layer.runtime, grads[0].contiguous()
        bridge, (x_shape, w_shape) = runtime.bridge, ctx.shapes
        wanted = {"input": x_shape, "weight": w_shape, "bias": w_shape[:1]}
        made: dict[str, torch.Tensor] = {
            name: torch.empty(shape, dtype=torch.bfloat16, device=g.device)
            for (name, shape), needed in zip(wanted.items(), ctx.needs_input_grad, strict=False)
            if needed
        }
        ours = {name: bridge.tensor(tensor) for name, tensor in made.items()}
        given = bridge.tensor(g)
        with bridge.launching():
            runtime.linear.backward(ctx.made.saved, given, **ours)
        for name, tensor in made.items():
            bridge.written(tensor, ours[name])
        runtime.log(ctx.layer.number, Role.GRADIENT, g)
        return made.get("input"), made.get("weight"), made.get("bias"), None, None


class Fp8Layer(torch.nn.Module):
    """A linear layer with float32 parameters, which are rounded to bfloat16 in each pass.

    Args:
        runtime: operator and rings; None for the same layer by torch in bfloat16.
        number: of the layer in the model.
        inputs: K.
        outputs: N.
    """

    def __init__(self, runtime: Runtime | None, number: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self._runtime, self.number = runtime, number
        self.weight = torch.nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)
        self.bias = torch.nn.Parameter(torch.zeros(outputs))
        self._handle: Weight | None = None

    @property
    def runtime(self) -> Runtime:
        """Of a layer that has one."""
        assert self._runtime is not None
        return self._runtime

    @property
    def handle(self) -> Weight:
        """The weight as its rings know it: one object for the life of the layer."""
        if self._handle is None:
            self._handle = Weight(self.runtime.bridge.tensor(self.weight.to(torch.bfloat16)))
        return self._handle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., K] to [.., N], bfloat16."""
        w, bias = self.weight.to(torch.bfloat16), self.bias.to(torch.bfloat16)
        if self._runtime is None:
            return torch.nn.functional.linear(x, w, bias)
        out: torch.Tensor = _Function.apply(x, w, bias, self, torch.is_grad_enabled())
        return out
