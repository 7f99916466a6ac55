"""Delayed scaling: each step casts an operand with the scale of earlier steps, and folds its amax in for later ones.

One step of one operand, in the order of the source:

    1. first use: the host seeds the ring, every history slot and the scale from this tensor (`seed`);
    2. the cast multiplies by 1 / scale; the GEMM reads a scale to undo it (`Step.multiplier`, `Step.dequantize`);
    3. the fold writes amax to history[index] and publishes the next scale (`ring_fold`);
    4. the host advances: index = (index + 1) mod window, and flips the pair where there are two.

Steps 3 and 4 happen together or not at all: which occasions skip them is the stage's (`RingStage.unfolded`). A skipped
call changes no bit.

Example, window 2, E4M3FN, margin 0, after a seed with 8: the amax sequence 8, 1, 1, 1 publishes 8/448, 8/448, 1/448,
1/448: a decreasing amax is felt `window` folds later. A growing one is felt one step late, and the step in between
saturates.

Two stages give a GEMM the scale of another step; `Step.is_consistent` says so. The seed stage reads the slot that its
own fold has rewritten. The double-buffered stage reads the flipped pair when a second linear shares an activation that
the first has cast: the codes are of the old pair, the scale is the new one (inferred from @2fb0b143: the cache keeps no
scale, and the cast itself advances the ring).

`run` is the batch form, many folds of one ring at once; it is held to `step`.

Sources: `ring_stage`.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.number import Kind, Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_fold import FoldRule, Launch, fold
from tileproof.oracle.ring.ring_stage import Field, Occasion, Reading
from tileproof.oracle.ring.ring_state import Cast, RingState, as_bits, as_float32, reciprocal_field, scale_field
from tileproof.oracle.ring.scale_formula import (
    Float32s,
    HostDivision,
    clamp_to_floor,
    float32_bits,
    published_scales,
    reciprocal,
    reciprocals,
    seed_scale,
)
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe


@dataclass(frozen=True)
class Step:
    """One step of one operand: the ring afterwards, and the two float32 values that decide bits."""

    state: RingState
    #: The codes are x · multiplier; None where the operand arrives as FP8.
    multiplier: np.float32 | None
    #: The scale that the GEMM multiplies with.
    dequantize: np.float32
    #: Whether the ring was folded and advanced.
    folded: bool

    @property
    def is_consistent(self) -> bool:
        """Whether the scale that the GEMM reads is the one that the codes were made with."""
        if self.multiplier is None:
            return True
        return float32_bits(reciprocal(FLOAT32.number(as_bits(self.dequantize)))) == as_bits(self.multiplier)


def seed(
    state: RingState,
    amax: Amax,
    recipe: ScaleRecipe,
    role: Role = Role.ACTIVATION,
    division: HostDivision = HostDivision.RECIPROCAL,
) -> RingState:
    """The host's first filling of a ring: all history slots amax (at least 1e-12), pair 0 current and set.

    A tensor with a NaN makes history and scale NaN. The index stays, the counter too.

    Raises:
        Refusal: an empty tensor, which has no maximum.
    """
    if amax.is_empty:
        raise Refusal(
            "an empty tensor has no maximum to seed a ring with", hint="seed with the first tensor that has one"
        )
    largest = Number(Kind.NAN) if amax.has_nan else FLOAT32.number(as_bits(amax.value))
    scale = seed_scale(largest, recipe.ring_format(role), recipe.margin, division)
    state = replace(state, current=0, initialized=True, cast=None)
    state = state.write(Field.HISTORY, *[float32_bits(clamp_to_floor(largest))] * state.window)
    return with_scale(state, float32_bits(scale))


def step(
    state: RingState,
    amax: Amax,
    recipe: ScaleRecipe,
    role: Role = Role.ACTIVATION,
    occasion: Occasion = Occasion.TRAINING,
    *,
    division: HostDivision = HostDivision.RECIPROCAL,
) -> Step:
    """One step of one operand.

    Args:
        state: the ring before it; a ring not yet seeded is seeded with `amax`, on every occasion.
        amax: of the operand, raw.
        recipe: its margin and formats are used; the window is the ring's own.
        role: whose ring it is.
        occasion: why the operand is needed.
        division: how the host divides when it seeds.

    Raises:
        Refusal: as `seed` and `ring_fold.fold`; another role, occasion or division than there is; a cast to be used
            again that was never made.
    """
    require_member(Role, "role", role)
    require_member(Occasion, "occasion", occasion)
    require_member(HostDivision, "division", division)
    if not state.initialized:
        state = seed(state, amax, recipe, role, division)
    if occasion in state.stage.unfolded:
        return _unfolded(state, occasion)
    cast = Cast(as_bits(state.scale), _multiplier(state))
    launch = Launch((0, 1), ()) if amax.is_empty and state.stage.may_launch_nothing else Launch.single(amax.value)
    folded = fold(state, launch, FoldRule(recipe.ring_format(role), recipe.margin))
    read = folded.scale if state.stage.reading is Reading.ALIASED else as_float32(cast.scale)
    return Step(advance(replace(folded, cast=cast)), as_float32(cast.multiplier), read, folded=True)


def advance(state: RingState) -> RingState:
    """The host's part after a fold."""
    return replace(state, index=(state.index + 1) % state.window, current=state.publishing_pair)


@dataclass(frozen=True, eq=False)
class Run:
    """Many steps of one ring, step s at position s."""

    state: RingState
    #: float32 [S].
    multipliers: Float32s
    #: float32 [S].
    dequantize: Float32s


def run(
    state: RingState,
    amaxes: Float32s,
    recipe: ScaleRecipe,
    role: Role = Role.ACTIVATION,
    folds: npt.NDArray[np.bool_] | None = None,
) -> Run:
    """Many steps at once, the window's maximum by sliding over the sequence; equal to `step` after `step`.

    Args:
        state: a seeded ring.
        amaxes: float32 [S], neither negative nor NaN.
        recipe: as for `step`.
        role: as for `step`.
        folds: bool [S]: which steps fold (occasion TRAINING); the others are casts without gradients of a stage that
            does not fold them. All by default.

    Raises:
        Refusal: a ring that is not seeded, whose index is outside the window or whose counter or collected maximum a
            launch cut short has left; an amax that is negative or NaN.
    """
    amaxes = np.asarray(amaxes, np.float32)
    chosen = np.ones(amaxes.shape, np.bool_) if folds is None else folds
    _require_runnable(state, amaxes, chosen)
    sequence = np.concatenate([np.roll(state.history, -state.index), amaxes[chosen]])
    windows = np.lib.stride_tricks.sliding_window_view(sequence, state.window)[1:]
    peaks = np.fmax.reduce(windows, axis=1)
    published = published_scales(peaks, recipe.ring_format(role), recipe.margin)
    scales = np.concatenate([np.array([state.scale]), published])
    before = np.cumsum(chosen) - chosen
    multipliers = np.concatenate([np.array([as_float32(_multiplier(state))]), reciprocals(published)])
    read = before + chosen if state.stage.reading is Reading.ALIASED else before
    final = _after_run(state, sequence, scales, multipliers)
    return Run(final, multipliers[before], scales[read])


def _unfolded(state: RingState, occasion: Occasion) -> Step:
    """A call that leaves the ring alone: which multiplier its codes have, and which scale the GEMM reads."""
    scale = state.scale
    match occasion:
        case Occasion.PREQUANTIZED:
            return Step(state, None, scale, folded=False)
        case Occasion.UNCHANGED_WEIGHT:
            cast = _kept(state, occasion)
            return Step(state, as_float32(cast.multiplier), as_float32(cast.scale), folded=False)
        case Occasion.SHARED_ACTIVATION:
            return Step(state, as_float32(_kept(state, occasion).multiplier), scale, folded=False)
        case Occasion.BACKWARD_RECAST if state.stage.reading is not Reading.ALIASED:
            cast = _kept(state, occasion)
            return Step(state, as_float32(cast.multiplier), as_float32(cast.scale), folded=False)
        case _:
            return Step(state, as_float32(_multiplier(state)), scale, folded=False)


def _kept(state: RingState, occasion: Occasion) -> Cast:
    if state.cast is None:
        raise Refusal(f"no cast to use again ({occasion.value})", hint="take a TRAINING step of this ring first")
    return state.cast


def _multiplier(state: RingState) -> int:
    """What the cast multiplies with: the kept reciprocal, or 1 / scale where the stage keeps none."""
    if Field.RECIPROCAL in state.stage.fields:
        return state.read(reciprocal_field(state.current))
    return float32_bits(reciprocal(FLOAT32.number(as_bits(state.scale))))


def with_scale(state: RingState, scale: int) -> RingState:
    """The state with another current scale, and its reciprocal where the stage keeps one."""
    state = state.write(scale_field(state.current), scale)
    if Field.RECIPROCAL not in state.stage.fields:
        return state
    return state.write(reciprocal_field(state.current), float32_bits(reciprocal(FLOAT32.number(scale))))


def _require_runnable(state: RingState, amaxes: Float32s, folds: npt.NDArray[np.bool_]) -> None:
    if not state.initialized:
        raise Refusal("the ring is not seeded", hint="seed it first; only step() seeds by itself")
    if not 0 <= state.index < state.window:
        raise Refusal(f"index {state.index} is outside the window, 0..{state.window - 1}")
    left = [state.counter]
    if (field := state.stage.maximum_field) is not None:
        left += [state.read(field, slot) for slot in range(state.stage.words(field, state.window))]
    if any(left):
        raise Refusal(
            f"a launch cut short has left counter {state.counter}, collected maximum {max(left[1:], default=0):#010x}",
            hint="fold such a ring launch by launch",
        )
    if amaxes.ndim != 1 or folds.shape != amaxes.shape or folds.dtype != np.bool_:
        raise Refusal(f"amaxes of shape {amaxes.shape} and folds of shape {folds.shape} ({folds.dtype})")
    if np.any(np.isnan(amaxes) | np.signbit(amaxes)):
        raise Refusal("an amax is negative or NaN", hint="measure with Amax.of, which drops NaN")


def _after_run(state: RingState, sequence: Float32s, scales: Float32s, multipliers: Float32s) -> RingState:
    """The ring after the folds; `sequence` is the history from its oldest on and the folded amaxes behind it."""
    folds = len(scales) - 1
    if folds == 0:
        return state
    index = (state.index + folds) % state.window
    history = np.roll(sequence[folds:], index).view(np.uint32)
    state = state.write(Field.HISTORY, *(int(word) for word in history))
    if state.stage.maximum_field is Field.SCRATCH:
        state = state.write(Field.AMAX, as_bits(sequence[-1]))
    for number in range(max(folds - 1, 0), folds + 1):
        pair = (state.current + number) % state.stage.pairs
        state = state.write(scale_field(pair), as_bits(scales[number]))
        if Field.RECIPROCAL in state.stage.fields:
            state = state.write(reciprocal_field(pair), as_bits(multipliers[number]))
    current = (state.current + folds) % state.stage.pairs
    return replace(state, index=index, current=current, cast=Cast(as_bits(scales[-2]), as_bits(multipliers[-2])))
