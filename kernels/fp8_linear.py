"""AstrAI's FP8 linear layer: bf16 in and out, products of FP8 codes, scales from rings that its own casts fold.

    forward     w and x are cast to the forward format and, if gradients are recorded, transposed to the backward one
                out = x · wᵀ + bias
    backward    g is cast to the backward format in both orientations
                dX = g · w, dW = gᵀ · x by the codes of the forward pass, dbias = column sums of g itself

`tileproof.oracle.astrai_linear` says it bit by bit. What folds: a cast that gradients are recorded for, once. A pass
without gradients reads the rings. A weight that has not changed since its last such cast keeps its codes and scale. An
activation that another layer has cast comes as `Cast`, and this layer's ring does not move.

Nothing waits for the device, and launches go where the device's launches go, so a step can be captured in a graph.
A ring's index and current pair are frozen in it: `fp8_linear_state.phases` graphs, one a step, make a cycle. Rings must
be seeded before, and the memory that `allocate` gives must live as long as the graphs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from tileproof.kernels import fp8_bias_gradient, fp8_quantize_tensor, fp8_ring_seed, fp8_scale_products, mm_fp8
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_bias_gradient import BiasGradient
from tileproof.kernels.fp8_linear_state import AnyWeight, Cast, LinearState, LinearStates, QuantizedWeight
from tileproof.kernels.fp8_quantize_tensor import Output, QuantizeTensor
from tileproof.kernels.fp8_ring_seed import SeedRing
from tileproof.kernels.fp8_scale_products import Scalar, ScaleProducts
from tileproof.kernels.launcher import Dimension, Launch, Layout, TensorRule, check_tensors
from tileproof.kernels.launcher import Role as Access
from tileproof.kernels.mm_fp8 import MmFp8
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe

BF16 = np.dtype(ml_dtypes.bfloat16)
U8 = np.dtype(np.uint8)
F32 = np.dtype(np.float32)
OPERANDS: Mapping[str, np.dtype[Any]] = {
    E4M3FN.name: np.dtype(ml_dtypes.float8_e4m3fn),
    E5M2.name: np.dtype(ml_dtypes.float8_e5m2),
}

SOURCES: Mapping[str, str] = {
    one.NAME: one.SOURCE for one in (fp8_quantize_tensor, fp8_ring_seed, fp8_scale_products, mm_fp8, fp8_bias_gradient)
}
"""The kernels of a layer, by the stem of their file."""

Allocate = Callable[[tuple[int, ...], np.dtype[Any]], Tensor]
"""Makes device memory for codes and scales: with the caller's allocator it may come from the pool of a graph."""

_TOKENS, _COLUMNS, _DEPTH = Dimension("M"), Dimension("N", minimum=1), Dimension("K", minimum=1)


@dataclass
class Saved:
    """What a forward pass keeps for one backward pass."""

    x: Cast
    w: Cast
    leading: tuple[int, ...]
    state: LinearState
    used: bool = False


@dataclass(frozen=True)
class Pass:
    """What a pass did.

    Args:
        launches: in order.
        folded: roles whose rings were folded and advanced.
        saved: what a backward pass takes; None for a pass without gradients, and for a backward one.
    """

    launches: tuple[Launch, ...]
    folded: tuple[Role, ...]
    saved: Saved | None = None


@dataclass
class _Running:
    """A pass that is being launched."""

    launches: list[Launch] = field(default_factory=list)
    folded: list[Role] = field(default_factory=list)


class Fp8Linear:
    """The layer on one device, for all weights.

    Args:
        device: where all tensors live.
        states: rings of the weights.
        allocate: memory for codes and scales; None for the device's own.
        sources: texts that stand in for the shipped kernels, by name, for seeding faults.
    """

    def __init__(
        self,
        device: Device,
        states: LinearStates,
        *,
        allocate: Allocate | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        text = {**SOURCES, **(sources or {})}
        self.device = device
        self.states = states
        self._allocate = allocate or (lambda shape, dtype: Tensor.whole(device.allocate(shape, dtype)))
        self._quantize = QuantizeTensor(device, source=text[fp8_quantize_tensor.NAME])
        self._seed = SeedRing(device, source=text[fp8_ring_seed.NAME])
        self._scalars = ScaleProducts(device, source=text[fp8_scale_products.NAME])
        self._mm = MmFp8(device, source=text[mm_fp8.NAME])
        self._bias_gradient = BiasGradient(device, source=text[fp8_bias_gradient.NAME])

    def forward(
        self,
        x: Tensor | Cast,
        weight: AnyWeight,
        out: Tensor,
        *,
        bias: Tensor | None = None,
        gradients: bool = True,
    ) -> Pass:
        """out = x · wᵀ + bias.

        Args:
            x: bfloat16 [.., K] of two dimensions or more, contiguous; or the cast of a layer that shares it.
            weight: bfloat16 [N, K], or codes with their scale; x and g have rings by it.
            out: bfloat16 [.., N], contiguous.
            bias: bfloat16 [N].
            gradients: whether a backward pass may follow; without it nothing folds.

        Raises:
            Refusal: an argument is not as described; nothing has been launched then, and no ring has moved.
            DeviceError: the device failed.
        """
        state = self.states.of(weight)
        leading = _leading(x)
        rows = x if isinstance(x, Cast) else flattened("x", x)
        self._check_forward(rows, weight, flattened("out", out), bias, state)
        _check_leading("out", out, leading)
        if gradients and isinstance(rows, Cast) and rows.transposed is None:
            raise Refusal("x was cast by a pass without gradients, and this one records them", hint="cast it anew")
        running = _Running()
        w = self._weight_cast(running, state, weight, gradients)
        a = rows if isinstance(rows, Cast) else self._cast(running, state, Role.ACTIVATION, rows, gradients)
        a, w, scale = self._scales(running, a, w)
        record = state.recipe.formats.forward
        self._multiply(running, record, a.rows, w.rows, scale, flattened("out", out), bias)
        if gradients and not isinstance(weight, QuantizedWeight):
            state.kept = (weight.version, w)
        saved = Saved(a, w, leading, state) if gradients else None
        return Pass(tuple(running.launches), tuple(running.folded), saved)

    def backward(
        self,
        saved: Saved,
        g: Tensor,
        *,
        input: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Pass:
        """The gradients that are asked for.

        Args:
            saved: of a forward pass; it is used once, because each use folds the ring of g.
            g: bfloat16 [.., N], contiguous.
            input: written, bfloat16 [.., K].
            weight: written, bfloat16 [N, K].
            bias: written, bfloat16 [N]; alone it casts and folds nothing.

        Raises:
            Refusal: an argument is not as described, or the weight is FP8 of another format than the gradient.
            DeviceError: the device failed.
        """
        state, rows = saved.state, flattened("g", g)
        self._check_backward(saved, g, input, weight, bias)
        saved.used = True
        running = _Running()
        if input is not None or weight is not None:
            own = self._cast(running, state, Role.GRADIENT, rows, True)
            self._gradients(running, saved, own, input, weight)
        if bias is not None:
            running.launches.append(self._bias_gradient(rows, bias))
        return Pass(tuple(running.launches), tuple(running.folded))

    def _gradients(
        self, running: _Running, saved: Saved, own: Cast, input: Tensor | None, weight: Tensor | None
    ) -> None:
        """The products of the gradient's codes with those of the forward pass."""
        assert own.transposed is not None
        assert saved.x.transposed is not None
        made = self._allocate((3,), F32)
        own_scale, of_input, of_weight = (_element(made, at) for at in range(3))
        scalars = (
            Scalar(own_scale, own.scale),
            Scalar(of_input, own.scale, saved.w.scale),
            Scalar(of_weight, own.scale, saved.x.scale),
        )
        running.launches.append(self._scalars(scalars))
        record = saved.state.recipe.formats.backward
        if input is not None:
            turned = saved.w.transposed or _turned(saved.w.rows)
            self._multiply(running, record, own.rows, turned, of_input, flattened("input", input))
        if weight is not None:
            self._multiply(running, record, own.transposed, saved.x.transposed, of_weight, weight)

    def _weight_cast(self, running: _Running, state: LinearState, weight: AnyWeight, gradients: bool) -> Cast:
        if isinstance(weight, QuantizedWeight):
            return Cast(replace(weight.tensor, dtype=U8), None, weight.scale)
        kept = state.cast_of(weight)
        return kept or self._cast(running, state, Role.WEIGHT, weight.tensor, gradients)

    def _cast(self, running: _Running, state: LinearState, role: Role, x: Tensor, gradients: bool) -> Cast:
        """Codes of [R, C] and the scale that the ring has for them now; with gradients the ring is folded."""
        if role not in state.seeded:
            running.launches.append(self._seed(x, state.rings[role]))
            state.seeded.add(role)
        ring, formats = state.rings[role], state.recipe.formats
        forward = formats.backward if role is Role.GRADIENT else formats.forward
        rows = self._allocate(x.shape, U8)
        transposed = self._allocate(x.shape[::-1], U8) if gradients else None
        launch = self._quantize(
            x,
            rows=Output(rows, forward),
            transposed=None if transposed is None else Output(transposed, formats.backward),
            scale=None if gradients else ring.multiplier,
            ring=ring if gradients else None,
        )
        running.launches.append(launch)
        if gradients:
            state.advance(role)
            running.folded.append(role)
        return Cast(rows, transposed, ring.scale)

    def _scales(self, running: _Running, x: Cast, w: Cast) -> tuple[Cast, Cast, Tensor]:
        """Both casts with scales of their own, and the product of these."""
        made = self._allocate((3,), F32)
        of_x, of_w, of_both = (_element(made, at) for at in range(3))
        scalars = (Scalar(of_x, x.scale), Scalar(of_w, w.scale), Scalar(of_both, x.scale, w.scale))
        running.launches.append(self._scalars(scalars))
        return replace(x, scale=of_x), replace(w, scale=of_w), of_both

    def _multiply(
        self,
        running: _Running,
        record: FloatFormat,
        a: Tensor,
        b: Tensor,
        scale: Tensor,
        out: Tensor,
        bias: Tensor | None = None,
    ) -> None:
        """out [R, C] = a [R, D] · b [C, D]ᵀ."""
        dtype = OPERANDS[record.name]
        running.launches.append(
            self._mm(replace(a, dtype=dtype), replace(_turned(b), dtype=dtype), scale, out, bias=bias)
        )

    def _check_forward(
        self, x: Tensor | Cast, weight: AnyWeight, out: Tensor, bias: Tensor | None, state: LinearState
    ) -> None:
        rules: list[tuple[TensorRule, Tensor]] = []
        if isinstance(x, Cast):
            rules.append((_rule("x", U8, (_TOKENS, _DEPTH)), x.rows))
        else:
            rules.append((_rule("x", BF16, (_TOKENS, _DEPTH)), x))
            _check_seed(state, x)
        if isinstance(weight, QuantizedWeight):
            forward = OPERANDS[state.recipe.formats.forward.name]
            rules.append((_rule("weight", forward, (_COLUMNS, _DEPTH)), weight.tensor))
            rules.append((_rule("the weight's scale", F32, (Dimension("one", 1, 1),)), weight.scale))
        else:
            rules.append((_rule("weight", BF16, (_COLUMNS, _DEPTH)), weight.tensor))
        rules.append((_rule("out", BF16, (_TOKENS, _COLUMNS), Access.OUTPUT), out))
        if bias is not None:
            rules.append((_rule("bias", BF16, (_COLUMNS,)), bias))
        _check(self.device, rules)

    def _check_backward(
        self, saved: Saved, g: Tensor, input: Tensor | None, weight: Tensor | None, bias: Tensor | None
    ) -> None:
        if saved.used:
            raise Refusal(
                "this forward pass has had its backward pass; another one would fold the gradient's ring again",
                hint="run the forward pass again",
            )
        _check_leading("g", g, saved.leading)
        rows = flattened("g", g)
        rules = [(_rule("g", BF16, (_TOKENS, _COLUMNS)), rows), (_rule("w", U8, (_COLUMNS, _DEPTH)), saved.w.rows)]
        if input is not None:
            _check_leading("input", input, saved.leading)
            _check_formats(saved)
            rules.append((_rule("input", BF16, (_TOKENS, _DEPTH), Access.OUTPUT), flattened("input", input)))
        if weight is not None:
            rules.append((_rule("weight", BF16, (_COLUMNS, _DEPTH), Access.OUTPUT), weight))
            if rows.shape[0] == 0:
                raise Refusal("the gradient of the weight is a sum over no rows", hint="leave the pass out")
        if bias is not None:
            rules.append((_rule("bias", BF16, (_COLUMNS,), Access.OUTPUT), bias))
        _check(self.device, rules)
        if rows.size == 0 and input is not None and Role.GRADIENT not in saved.state.seeded:
            raise Refusal("g has no rows to seed its ring with", hint="begin with a tensor that has elements")


def flattened(name: str, tensor: Tensor) -> Tensor:
    """Leading dimensions as rows: [.., C] is [R, C]. Raises: Refusal for one dimension, or a tensor with gaps."""
    if len(tensor.shape) < 2:
        raise Refusal(f"{name} has shape {tensor.shape}; it must have two dimensions or more", hint="as [1, K]")
    packed = contiguous_strides(tensor.shape)
    steps = zip(tensor.shape, tensor.strides, packed, strict=True)
    if tensor.size and any(stride != wanted for extent, stride, wanted in steps if extent > 1):
        raise Refusal(f"{name} has strides {tensor.strides}; it must be contiguous", hint="copy it first")
    shape = (prod(tensor.shape[:-1]), tensor.shape[-1])
    return replace(tensor, shape=shape, strides=contiguous_strides(shape))


def recipe_takes_gradients_of(recipe: ScaleRecipe) -> bool:
    """Whether codes of a quantised weight can meet a gradient's: both have one format."""
    return recipe.formats.forward is recipe.formats.backward


def _leading(x: Tensor | Cast) -> tuple[int, ...]:
    return (x.rows if isinstance(x, Cast) else x).shape[:-1]


def _turned(tensor: Tensor) -> Tensor:
    """The view with rows and columns exchanged."""
    return replace(tensor, shape=tensor.shape[::-1], strides=tensor.strides[::-1])


def _element(scalars: Tensor, at: int) -> Tensor:
    return replace(scalars, shape=(1,), strides=(1,), offset_bytes=scalars.offset_bytes + at * F32.itemsize)


def _rule(
    name: str, dtype: np.dtype[Any], dimensions: tuple[Dimension, ...], role: Access = Access.INPUT
) -> TensorRule:
    return TensorRule(name, (dtype,), dimensions, Layout.CONTIGUOUS, role)


def _check(device: Device, listed: Sequence[tuple[TensorRule, Tensor]]) -> None:
    check_tensors(device, [rule for rule, _ in listed], [tensor for _, tensor in listed])


def _check_leading(name: str, tensor: Tensor, leading: tuple[int, ...]) -> None:
    # NOTE: rows are what counts: a cast that layers share has them flattened.
    if prod(tensor.shape[:-1]) != prod(leading):
        raise Refusal(f"{name} has leading dimensions {tensor.shape[:-1]}; x has {leading}")


def _check_seed(state: LinearState, x: Tensor) -> None:
    if x.size == 0 and Role.ACTIVATION not in state.seeded:
        raise Refusal(
            f"x has shape {x.shape}: an empty tensor has no maximum to seed its ring with",
            hint="begin with a tensor that has elements",
        )


def _check_formats(saved: Saved) -> None:
    if saved.w.transposed is None and not recipe_takes_gradients_of(saved.state.recipe):
        formats = saved.state.recipe.formats
        raise Refusal(
            f"the weight's codes are {formats.forward.name}, and the gradient's {formats.backward.name}:"
            " no product takes both",
            hint="keep the weight in bfloat16, take a recipe of one format, or ask for no gradient of the input",
        )
