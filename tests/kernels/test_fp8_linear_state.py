"""How weights find their rings, lose them, and find them again in a checkpoint; held to the oracle's registry."""

import gc
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from linear_layer import BF16, whole

from tileproof.kernels.fp8_linear_state import (
    LinearState,
    LinearStates,
    SavedState,
    Weight,
    Words,
    phases,
    with_reciprocal,
    words_of,
)
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_registry import restore_ring
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, Field
from tileproof.oracle.ring.ring_state import fresh
from tileproof.oracle.ring.scale_recipe import PURE_E5M2, Role, ScaleRecipe
from tileproof.oracle.scale_ring import advance, seed, step
from tileproof.simulators.ptx.device import Device

RECIPE = ScaleRecipe(window=2)


@dataclass
class Memory:
    """A device, and what was placed on it."""

    device: Device = field(default_factory=Device)
    placed: list[Tensor] = field(default_factory=list)

    def place(self, words: Words) -> Tensor:
        """A new buffer."""
        self.placed.append(whole(self.device, words))
        return self.placed[-1]

    def weight(self, *shape: int) -> Weight:
        """A weight with memory of its own."""
        return Weight(whole(self.device, np.zeros(shape, BF16)))

    def states(self, recipe: ScaleRecipe = RECIPE) -> LinearStates:
        """Rings in this memory."""
        return LinearStates(self.place, recipe)


def marked(memory: Memory, state: LinearState, amax: float) -> None:
    """The state as one fold of such a maximum leaves its rings."""
    for role in Role:
        ring = state.rings[role]
        oracle = step(fresh(DOUBLE_BUFFERED, ring.window), Amax(np.float32(amax)), RECIPE, role).state
        words = memory.place(np.array(oracle.words, np.uint32).view(np.float32))
        state.rings[role] = replace(ring, words=words, index=oracle.index, current=oracle.current)
        state.seeded.add(role)


def scale_of(state: LinearState) -> float:
    ring = state.rings[Role.WEIGHT]
    at = (ring.scale.address - ring.words.address) // 4
    return float(words_of(ring)[at])


def test_a_weight_finds_its_rings_again_and_a_change_of_its_contents_keeps_them() -> None:
    memory = Memory()
    states, weight = memory.states(), memory.weight(3, 4)
    state = states.of(weight)
    weight.changed(whole(memory.device, np.ones((3, 4), BF16)))
    assert states.of(weight) is state
    assert len(memory.placed) == len(Role)
    assert all(not words_of(ring).any() for ring in state.rings.values())


def test_another_weight_at_the_address_of_a_dead_one_gets_rings_of_its_own() -> None:
    memory = Memory()
    states, dead = memory.states(), memory.weight(3, 4)
    tensor = dead.tensor
    marked(memory, states.of(dead), 5.0)
    del dead
    gc.collect()
    heir = Weight(tensor)
    assert states.of(heir).seeded == set()


@pytest.mark.parametrize(
    "recipe", [ScaleRecipe(3), ScaleRecipe(2, margin=1), ScaleRecipe(2, formats=PURE_E5M2)], ids=str
)
def test_another_recipe_gets_rings_of_its_own_and_voids_every_kept_cast(recipe: ScaleRecipe) -> None:
    memory = Memory()
    states, weight, bystander = memory.states(), memory.weight(3, 4), memory.weight(3, 4)
    state, other = states.of(weight), states.of(bystander)
    other.kept = (0, None)  # type: ignore[assignment]
    states.recipe = recipe
    made = states.of(weight)
    assert made is not state
    assert made.recipe == recipe
    assert {ring.window for ring in made.rings.values()} == {recipe.window}
    assert {ring.margin for ring in made.rings.values()} == {recipe.margin}
    assert made.rings[Role.WEIGHT].target is recipe.formats.forward
    assert made.rings[Role.GRADIENT].target is recipe.formats.backward
    assert other.kept is None
    assert states.of(weight) is made


def test_a_reset_forgets_rings_and_checkpoint_and_restores_the_first_recipe() -> None:
    memory = Memory()
    states, weight = memory.states(), memory.weight(3, 4)
    marked(memory, states.of(weight), 5.0)
    saved = states.snapshot()
    states.recipe = ScaleRecipe(7)
    states.restore(saved)
    states.reset()
    assert states.recipe == RECIPE
    assert states.of(weight).seeded == set()
    assert states.of(memory.weight(3, 4)).seeded == set(), "nothing of the checkpoint is left"


def test_a_checkpoint_restores_words_indices_and_pairs_to_the_bit() -> None:
    memory = Memory()
    states, weight = memory.states(), memory.weight(3, 4)
    state = states.of(weight)
    marked(memory, state, 5.0)
    other = memory.states()
    other.restore(states.snapshot())
    found = other.of(memory.weight(3, 4))
    assert found.seeded == set(Role)
    for role in Role:
        ring, right = found.rings[role], state.rings[role]
        assert (ring.index, ring.current, ring.target) == (right.index, right.current, right.target)
        assert np.array_equal(words_of(ring).view(np.uint32), words_of(right).view(np.uint32))


def test_weights_claim_a_checkpoint_by_shape_in_the_order_of_their_registration() -> None:
    memory = Memory()
    states = memory.states()
    weights = [memory.weight(3, 4), memory.weight(5, 6), memory.weight(3, 4)]
    for number, weight in enumerate(weights, start=1):
        marked(memory, states.of(weight), 448.0 * number)
    other = memory.states()
    other.restore(states.snapshot())
    assert scale_of(other.of(memory.weight(5, 6))) == 2.0
    assert [scale_of(other.of(weight)) for weight in (memory.weight(3, 4), memory.weight(3, 4))] == [1.0, 3.0]


def test_the_state_of_a_dead_weight_is_no_part_of_a_checkpoint() -> None:
    memory = Memory()
    states, dead, living = memory.states(), memory.weight(3, 4), memory.weight(3, 4)
    marked(memory, states.of(dead), 448.0)
    marked(memory, states.of(living), 896.0)
    del dead
    gc.collect()
    other = memory.states()
    other.restore(states.snapshot())
    assert scale_of(other.of(memory.weight(3, 4))) == 2.0


def test_rings_of_another_size_are_claimed_and_stay_as_they_are() -> None:
    memory = Memory()
    states = memory.states()
    marked(memory, states.of(memory_weight := memory.weight(3, 4)), 5.0)
    other = memory.states(ScaleRecipe(3))
    other.restore(states.snapshot())
    assert memory_weight is not None
    assert other.of(memory.weight(3, 4)).seeded == set()


def test_a_weight_that_is_here_takes_its_part_of_a_checkpoint_at_once() -> None:
    memory = Memory()
    states, weight = memory.states(), memory.weight(3, 4)
    marked(memory, states.of(weight), 448.0)
    saved = states.snapshot()
    marked(memory, states.of(weight), 896.0)
    state = states.of(weight)
    state.kept = (0, None)  # type: ignore[assignment]
    states.restore(saved)
    assert scale_of(state) == 1.0
    assert state.kept is None, "its codes are of the scale of before"


@pytest.mark.parametrize("folds", [0, 1, 2])
def test_a_restored_ring_is_the_oracles(folds: int) -> None:
    """Never seeded, the reciprocal of the scale 0 is infinite until it is."""
    ring = fresh(DOUBLE_BUFFERED, 3)
    if folds:
        ring = seed(ring, Amax(np.float32(3)), RECIPE)
    for _ in range(folds):
        ring = advance(step(ring, Amax(np.float32(7)), RECIPE).state)
    words = np.array(ring.words, np.uint32).view(np.float32)
    made = with_reciprocal(words, 3, ring.current)
    assert tuple(made.view(np.uint32).tolist()) == restore_ring(fresh(DOUBLE_BUFFERED, 3), ring).words


def test_a_ring_that_a_launch_cut_short_has_left_is_not_saved() -> None:
    memory = Memory()
    states, weight = memory.states(), memory.weight(3, 4)
    ring = states.of(weight).rings[Role.WEIGHT]
    words = np.zeros(DOUBLE_BUFFERED.size(2), np.float32)
    words.view(np.uint32)[DOUBLE_BUFFERED.offset(Field.COUNTER, 2)] = 1
    states.of(weight).rings[Role.WEIGHT] = replace(ring, words=memory.place(words))
    with pytest.raises(Refusal, match="cut short"):
        states.snapshot()


@pytest.mark.parametrize(("window", "cycle"), [(1, 2), (2, 2), (3, 6), (16, 16), (33, 66)])
def test_after_a_cycle_of_folds_the_host_counts_as_before(window: int, cycle: int) -> None:
    memory = Memory()
    recipe = ScaleRecipe(window)
    ring = first = memory.states(recipe).of(memory.weight(3, 4)).rings[Role.WEIGHT]
    seen = []
    for _ in range(cycle):
        seen.append((ring.index, ring.current))
        ring = ring.advanced()
    assert (ring, phases(recipe), len(set(seen))) == (first, cycle, cycle)


def test_a_checkpoint_has_shape_and_rings_by_role() -> None:
    memory = Memory()
    states, weight = memory.states(), memory.weight(3, 4)
    states.of(weight)
    (saved,) = states.snapshot()
    assert isinstance(saved, SavedState)
    assert (saved.shape, set(saved.rings)) == ((3, 4), set(Role))
