"""AstrAI's FP8 linear layer, forward and backward, bit for bit: the quantiser, the rings and the product, composed.

    forward     x8, w8     = casts of x [.., K] and w [N, K] by the multipliers of their rings, forward format
                out        = bf16((x8 · w8ᵀ) · (sx · sw) + bias), leading dimensions of x flattened to rows
    backward    g8         = cast of g [.., N] by the multiplier of its ring, backward format
                xb, wb     = x and w cast again to the backward format, by the multipliers of the forward
                dX         = bf16((g8 · wb) · (sg · sw))             no bias
                dW         = bf16((g8ᵀ · xb) · (sg · sx))
                dbias      = sums of the columns of g itself (`bias_gradient`)

Each product is a chain of mma m16n8k32 over its inner extent, ascending, filled with zero codes to a multiple of 64;
with a bias, scale and bias are one fused operation. Products of two scales are one float32 operation each.

Under the hybrid recipe the forward format is e4m3 and the backward e5m2. Example: x = [2], its ring seeded with 2: sx =
2/448, the code 448, and again for the backward pass the code of 448 in e5m2, by the same multiplier.

A scale belongs to a cast (`Cast.scale`), whatever its ring publishes later: an activation that several layers share is
cast by the first, and the others take codes and scale; their rings do not move. Which passes fold is the ring's rule
(`ring_stage.Occasion`); this file only says which occasion a call is.

Sources: 0z5a/AstrAI csrc/gemm/fp8_linear.cu @2fb0b143, csrc/kernels/fp8/ops.cu (ring era); declared here: the order of
the bias's gradient, the fused bias, and the scales of casts that outlive a fold.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tileproof.oracle.bias_gradient import bias_gradient
from tileproof.oracle.epilogue import ASTRAI_LINEAR, Addend, Contraction
from tileproof.oracle.epilogues.epilogue_array import Operands, apply_epilogue
from tileproof.oracle.formats import E4M3FN, FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, Occasion, RingStage
from tileproof.oracle.ring.ring_state import RingState, fresh
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe
from tileproof.oracle.scale_ring import step
from tileproof.oracle.scaling.astrai_quantize import Outputs, Stage, quantize

Array = npt.NDArray[Any]

STAGE_K = 64
"""What the inner extent of a product is filled up to."""

ASSEMBLER = "13.0"
"""The CUDA release of the pinned compiler, by which the sum's expansion on sm_90 is chosen."""


@dataclass(frozen=True, eq=False)
class Cast:
    """An operand's codes, uint8, and the scale that undoes them."""

    #: [R, C], in the forward format; a gradient's in the backward format.
    rows: Array
    #: [C, R], in the backward format; None for codes that arrived as FP8.
    transposed: Array | None
    scale: np.float32


@dataclass(frozen=True)
class Rings:
    """The rings of one weight."""

    w: RingState
    x: RingState
    g: RingState

    @classmethod
    def fresh(cls, recipe: ScaleRecipe, stage: RingStage = DOUBLE_BUFFERED) -> "Rings":
        """As they are allocated: nothing seeded."""
        ring = fresh(stage, recipe.window)
        return cls(ring, ring, ring)


@dataclass(frozen=True, eq=False)
class Saved:
    """What a forward pass keeps for the backward one."""

    x: Cast
    w: Cast
    leading: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Forward:
    """A forward pass: bfloat16 [.., N], the rings after it, and what is kept."""

    out: Array
    rings: Rings
    saved: Saved


@dataclass(frozen=True, eq=False)
class Backward:
    """A backward pass, bfloat16; None for a gradient that there is not."""

    #: [.., K]; None where w is FP8 of another format than the gradient's.
    input: Array | None
    #: [N, K].
    weight: Array
    #: [N].
    bias: Array
    rings: Rings


def forward(
    x: Array | Cast,
    w: Array | Cast,
    rings: Rings,
    recipe: ScaleRecipe,
    *,
    bias: Array | None = None,
    training: bool = True,
    weight_changed: bool = True,
    arch: str = "sm_90a",
) -> Forward:
    """One forward pass.

    Args:
        x: bfloat16 [.., K], or the cast of another layer that shares it.
        w: bfloat16 [N, K], or codes [N, K] of the forward format with their scale, which no ring follows.
        rings: of the weight; those not yet seeded are seeded with what they scale.
        recipe: formats and margin.
        bias: bfloat16 [N].
        training: whether gradients are recorded; a pass without them folds nothing.
        weight_changed: whether the weight has changed since it was cast; otherwise its codes are used again.
        arch: whose matrix unit.

    Raises:
        Refusal: as `scale_ring.step` and `quantize`.
    """
    occasion = Occasion.TRAINING if training else Occasion.NO_GRAD
    leading = x.rows.shape[:-1] if isinstance(x, Cast) else x.shape[:-1]
    if not isinstance(w, Cast):
        weight_occasion = occasion if weight_changed else Occasion.UNCHANGED_WEIGHT
        w, ring = cast(w, rings.w, recipe, Role.WEIGHT, weight_occasion)
        rings = replace(rings, w=ring)
    if not isinstance(x, Cast):
        x, ring = cast(x.reshape(prod(leading), x.shape[-1]), rings.x, recipe, Role.ACTIVATION, occasion)
        rings = replace(rings, x=ring)
    out = product(recipe.formats.forward, x.rows, w.rows, _times(x.scale, w.scale), bias, arch=arch)
    return Forward(out.reshape(*leading, w.rows.shape[0]), rings, Saved(x, w, leading))


def backward(g: Array, saved: Saved, rings: Rings, recipe: ScaleRecipe, *, arch: str = "sm_90a") -> Backward:
    """One backward pass.

    Args:
        g: bfloat16 [.., N].
        saved: of the forward pass.
        rings: of the weight as they are now; only g's moves.
        recipe: of the forward pass.
        arch: whose matrix unit.

    Raises:
        Refusal: as `forward`.
    """
    record = recipe.formats.backward
    rows = g.reshape(prod(g.shape[:-1]), g.shape[-1])
    own, ring = cast(rows, rings.g, recipe, Role.GRADIENT, Occasion.TRAINING)
    assert own.transposed is not None
    assert saved.x.transposed is not None
    turned = saved.w.transposed
    if turned is None and recipe.formats.forward is record:
        turned = np.ascontiguousarray(saved.w.rows.T)
    dx = None
    if turned is not None:
        dx = product(record, own.rows, turned, _times(own.scale, saved.w.scale), arch=arch)
        dx = dx.reshape(*saved.leading, turned.shape[0])
    dw = product(record, own.transposed, saved.x.transposed, _times(own.scale, saved.x.scale), arch=arch)
    return Backward(dx, dw, bias_gradient(rows), replace(rings, g=ring))


def cast(x: Array, ring: RingState, recipe: ScaleRecipe, role: Role, occasion: Occasion) -> tuple[Cast, RingState]:
    """The codes of an operand [R, C] in both orientations, and its ring afterwards."""
    taken = step(ring, Amax.of(x), recipe, role, occasion)
    if taken.multiplier is None:
        raise Refusal(f"{occasion.value}: there is nothing to cast", hint="give a Cast")
    formats = recipe.formats
    rows = formats.backward if role is Role.GRADIENT else formats.forward
    codes = quantize(x, taken.multiplier, Stage.MULTIPLIER, Outputs(rows, formats.backward))
    assert codes.rows is not None
    return Cast(codes.rows, codes.transposed, taken.dequantize), taken.state


def product(
    record: FloatFormat, a: Array, b: Array, scale: np.float32, bias: Array | None = None, *, arch: str
) -> Array:
    """bf16(A·Bᵀ · scale + bias) of codes a [R, D] and b [C, D]: bfloat16 [R, C]."""
    from tileproof.oracle.gemm import gemm  # here: it loads a compiler, and whoever only folds rings needs none
    from tileproof.oracle.products.accumulation_order import AccumulationOrder

    if 0 in (len(a), len(b)):
        return np.zeros((len(a), len(b)), ml_dtypes.bfloat16)
    name = "e4m3" if record is E4M3FN else "e5m2"
    order = AccumulationOrder(instruction=f"mma.m16n8k32.f32.{name}.{name}", arch=arch, assembler=ASSEMBLER)
    sums = gemm(order, _filled(a), _filled(b))
    rule = replace(ASTRAI_LINEAR, addend=Addend.NONE)
    if bias is not None:
        rule = ASTRAI_LINEAR.contracted(Contraction.SCALE)
    return apply_epilogue(rule, Operands(accumulators=sums, factors=(np.asarray(scale),), addend=bias))


def _filled(codes: Array) -> Array:
    return np.pad(codes, [(0, 0), (0, -codes.shape[-1] % STAGE_K)])


def _times(first: np.float32, second: np.float32) -> np.float32:
    with np.errstate(all="ignore"):
        return np.float32(first * second)
