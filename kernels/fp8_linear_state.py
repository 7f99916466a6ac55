"""What a linear layer keeps from one pass to the next: the scale rings of each weight, and how a weight finds them.

A weight is an object, and its rings are found by which object it is. Its address says nothing: an allocator hands that
of a dead weight to the next one, which would then cast with scales of another weight's magnitudes. Rings belong to one
recipe; under another recipe a weight gets new ones.

    states = LinearStates(place)
    weight = Weight(tensor)
    states.of(weight)                       # three rings, made on first use, seeded by the first pass
    weight.changed()                        # after the optimiser's step: the next pass casts it anew
    saved = states.snapshot()               # of living weights, in the order of their registration
    LinearStates(place).restore(saved)      # bound by shape, in that order, as weights come

The host counts indices, current pairs and what is seeded; the device holds the words.
"""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, Field
from tileproof.oracle.ring.ring_state import reciprocal_field, scale_field
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe

Words = NDArray[np.float32]
Place = Callable[[Words], Tensor]
"""Puts the words of a ring into memory of the device that stays where it is."""

DELAYED = ScaleRecipe()
"""The usual recipe: a window of 16, no margin, hybrid formats."""

STAGE = DOUBLE_BUFFERED
"""The stage of the ring: the only one in which a product reads the scale of its codes after the fold."""


class Weight:
    """A weight as this family knows it: which object it is.

    Args:
        tensor: bfloat16 [N, K].
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = 0

    def changed(self, tensor: Tensor | None = None) -> None:
        """Its contents are others now; with `tensor` they lie there. Its rings stay."""
        self.version += 1
        if tensor is not None:
            self.tensor = tensor


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A weight that arrives as FP8 codes; no ring follows it, and those of x and g are found by this object.

    Args:
        tensor: codes [N, K] of the forward format, of its FP8 element type.
        scale: float32 [1] that undoes them.
    """

    tensor: Tensor
    scale: Tensor


AnyWeight: TypeAlias = Weight | QuantizedWeight


@dataclass(frozen=True)
class Cast:
    """An operand's codes on the device.

    Args:
        rows: codes [R, C] in the forward format; a gradient's in the backward format.
        transposed: codes [C, R] in the backward format; None where no gradient will be asked for.
        scale: float32 [1] that undoes them, and outlives the ring's next folds.
    """

    rows: Tensor
    transposed: Tensor | None
    scale: Tensor


@dataclass(eq=False)
class LinearState:
    """The rings of one weight.

    Args:
        recipe: that they were made for.
        rings: by role, as the next pass takes them.
        seeded: whose ring has its first scale.
        kept: the last cast of the weight that gradients were recorded for, and the weight's version then.
    """

    recipe: ScaleRecipe
    rings: dict[Role, ScaleRing]
    seeded: set[Role] = field(default_factory=set)
    kept: tuple[int, Cast] | None = None

    def advance(self, role: Role) -> None:
        """The host's part after a fold."""
        self.rings[role] = self.rings[role].advanced()

    def cast_of(self, weight: Weight) -> Cast | None:
        """The kept cast, if the weight has not changed since."""
        return self.kept[1] if self.kept is not None and self.kept[0] == weight.version else None


@dataclass(frozen=True, eq=False)
class SavedRing:
    """One ring in a checkpoint."""

    words: Words
    index: int
    current: int
    seeded: bool


@dataclass(frozen=True, eq=False)
class SavedState:
    """The rings of one weight in a checkpoint."""

    shape: tuple[int, ...]
    rings: Mapping[Role, SavedRing]


@dataclass(frozen=True, eq=False)
class _Entry:
    weight: weakref.ref[AnyWeight]
    shape: tuple[int, ...]
    state: LinearState


class LinearStates:
    """The states of all weights on one device.

    Args:
        place: puts words into the device's memory, `lambda words: Tensor.whole(device.upload(words))` for example.
        recipe: window, margin and formats; `recipe` may be set to another one later.
    """

    def __init__(self, place: Place, recipe: ScaleRecipe = DELAYED) -> None:
        self.recipe = recipe
        self._initial = recipe
        self._place = place
        self._entries: dict[int, _Entry] = {}
        self._pending: list[SavedState] = []

    def of(self, weight: AnyWeight) -> LinearState:
        """The state of a weight under the recipe of now; made, or taken from a checkpoint, where there is none."""
        entry = self._entries.get(id(weight))
        if entry is not None and entry.weight() is weight and entry.state.recipe == self.recipe:
            return entry.state
        if entry is not None:
            del self._entries[id(weight)]
            self._forget_casts()
        state = LinearState(self.recipe, {role: self._fresh(role) for role in Role})
        entry = self._entries[id(weight)] = _Entry(weakref.ref(weight), weight.tensor.shape, state)
        self._claim(entry)
        return state

    def reset(self) -> None:
        """Forget all rings and what is left of a checkpoint; the recipe is the first one again."""
        self._forget_casts()
        self._entries.clear()
        self._pending.clear()
        self.recipe = self._initial

    def snapshot(self) -> tuple[SavedState, ...]:
        """What a checkpoint stores; it waits for the device. States of weights that are gone are dropped."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry.weight() is not None}
        return tuple(
            SavedState(entry.shape, {role: _saved(entry.state, role) for role in Role})
            for entry in self._entries.values()
        )

    def restore(self, saved: tuple[SavedState, ...]) -> None:
        """Take a checkpoint: at once for weights that are here, and for others as they come.

        A weight claims the first state of its shape. One whose rings have another size than the recipe's is claimed
        and not used: those rings stay as they are. Graphs that hold rings must be captured again.
        """
        self._forget_casts()
        self._pending = list(saved)
        for entry in self._entries.values():
            if entry.weight() is not None:
                self._claim(entry)

    def _fresh(self, role: Role) -> ScaleRing:
        window = self.recipe.window
        words = self._place(np.zeros(STAGE.size(window), np.float32))
        return ScaleRing(words, STAGE, window, 0, ring_format(self.recipe, role), self.recipe.margin)

    def _claim(self, entry: _Entry) -> None:
        for number, one in enumerate(self._pending):
            if one.shape == entry.shape:
                del self._pending[number]
                for role in Role:
                    self._restore_ring(entry.state, role, one.rings[role])
                return

    def _restore_ring(self, state: LinearState, role: Role, saved: SavedRing) -> None:
        ring = state.rings[role]
        if saved.words.size != STAGE.size(ring.window):
            return
        words = self._place(with_reciprocal(saved.words, ring.window, saved.current))
        state.rings[role] = replace(ring, words=words, index=saved.index, current=saved.current)
        state.seeded -= {role}
        state.seeded |= {role} if saved.seeded else set()

    def _forget_casts(self) -> None:
        for entry in self._entries.values():
            entry.state.kept = None


def ring_format(recipe: ScaleRecipe, role: Role) -> FloatFormat:
    """Whose largest value a ring divides by: the forward format's for x and w, the backward one's for g."""
    return recipe.formats.backward if role is Role.GRADIENT else recipe.formats.forward


def phases(recipe: ScaleRecipe) -> int:
    """Folds after which a ring's index and current pair are where they began: as many graphs make a cycle."""
    return lcm(recipe.window, STAGE.pairs)


def with_reciprocal(words: Words, window: int, current: int) -> Words:
    """The words with the reciprocal of the current pair computed again."""
    made = words.copy()
    at, scale = (STAGE.offset(of(current), window) for of in (reciprocal_field, scale_field))
    with np.errstate(all="ignore"):
        made[at] = np.float32(1) / words[scale]
    return made


def words_of(ring: ScaleRing) -> Words:
    """A ring's words, downloaded. Raises: Refusal where it holds collected maxima: a launch was cut short."""
    words = _download(ring.words)
    left = [ring.stage.offset(Field.COUNTER, ring.window)]
    first = ring.stage.offset(Field.SCRATCH, ring.window)
    left += range(first, first + ring.stage.scratch_slots)
    if words.view(np.uint32)[left].any():
        raise Refusal("a launch that was cut short has left tickets or maxima in the ring", hint="reset the states")
    return words


def _saved(state: LinearState, role: Role) -> SavedRing:
    ring = state.rings[role]
    return SavedRing(words_of(ring), ring.index, ring.current, role in state.seeded)


def _download(tensor: Tensor) -> Words:
    whole: NDArray[Any] = tensor.buffer.download()
    flat = whole.reshape(-1).view(np.uint8)
    return flat[tensor.offset_bytes : tensor.offset_bytes + tensor.span_bytes].view(np.float32).copy()
