"""The exact linear layer: worked examples, where its scales come from, and which passes move which ring."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.astrai_linear import Cast, Rings, Saved, backward, cast, forward, product
from tileproof.oracle.formats import E4M3FN, E5M2
from tileproof.oracle.ring.ring_stage import Occasion
from tileproof.oracle.ring.scale_recipe import PURE_E4M3, Role, ScaleRecipe
from tileproof.oracle.scaling.astrai_quantize import Outputs, Stage, quantize

BF16 = np.dtype(ml_dtypes.bfloat16)
Array = NDArray[np.generic]
RECIPE = ScaleRecipe(window=2)


def some(seed: int, *shape: int, size: float = 1.0) -> Array:
    return np.asarray((np.random.default_rng(seed).standard_normal(shape) * size).astype(BF16))


def ones(*shape: int, value: float = 1.0) -> Array:
    return np.full(shape, value).astype(BF16)


def bits(values: Array | None) -> list[int]:
    assert values is not None
    return [int(word) for word in values.view(np.uint16).reshape(-1)]


def test_a_layer_of_powers_of_two_is_exact_up_to_the_scales() -> None:
    """448 · 448 · K codes, by (2 / 448)(3 / 448): 6 K within two roundings, plus the bias."""
    made = forward(ones(3, 5, value=2), ones(4, 5, value=3), Rings.fresh(RECIPE), RECIPE, bias=ones(4, value=10))
    assert made.out.astype(np.float64).tolist() == [[40.0] * 4] * 3
    assert made.out.shape == (3, 4)


def test_the_gradients_of_such_a_layer_are_exact_too() -> None:
    made = forward(ones(3, 5, value=2), ones(4, 5, value=3), Rings.fresh(RECIPE), RECIPE)
    back = backward(ones(3, 4, value=0.5), made.saved, made.rings, RECIPE)
    assert back.input is not None
    assert set(back.input.astype(np.float64).reshape(-1)) == {6.0}
    assert set(back.weight.astype(np.float64).reshape(-1)) == {3.0}
    assert back.bias.astype(np.float64).tolist() == [1.5] * 4


def test_leading_dimensions_are_rows() -> None:
    x, w, g = some(1, 2, 3, 17), some(2, 5, 17), some(3, 2, 3, 5)
    deep, flat = (forward(one, w, Rings.fresh(RECIPE), RECIPE) for one in (x, x.reshape(6, 17)))
    assert deep.out.shape == (2, 3, 5)
    assert bits(deep.out) == bits(flat.out)
    turned, plain = (
        backward(one, made.saved, made.rings, RECIPE) for one, made in ((g, deep), (g.reshape(6, 5), flat))
    )
    assert turned.input is not None
    assert turned.input.shape == (2, 3, 17)
    assert bits(turned.input) == bits(plain.input)
    assert bits(turned.weight) == bits(plain.weight)


def test_the_backward_pass_takes_x_and_w_in_its_own_format_by_the_forward_multipliers() -> None:
    x, w = some(4, 6, 7), some(5, 3, 7)
    made = forward(x, w, Rings.fresh(RECIPE), RECIPE)
    for given, kept in ((x, made.saved.x), (w, made.saved.w)):
        multiplier = np.float32(1) / kept.scale
        right = quantize(given, multiplier, Stage.MULTIPLIER, Outputs(E4M3FN, E5M2))
        assert right.rows is not None
        assert right.transposed is not None
        assert kept.transposed is not None
        assert np.array_equal(kept.rows, right.rows)
        assert np.array_equal(kept.transposed, right.transposed)


def test_a_cast_again_for_the_backward_pass_has_the_codes_that_the_forward_pass_kept() -> None:
    """AstrAI's first stage casts x again in the backward pass; by the kept multiplier that is the same."""
    x = some(6, 6, 7)
    kept, ring = cast(x, Rings.fresh(RECIPE).x, RECIPE, Role.ACTIVATION, Occasion.TRAINING)
    again, after = cast(x, ring, RECIPE, Role.ACTIVATION, Occasion.BACKWARD_RECAST)
    assert kept.transposed is not None
    assert again.transposed is not None
    assert np.array_equal(kept.transposed, again.transposed)
    assert after == ring


def test_a_later_step_is_scaled_by_what_earlier_ones_have_seen() -> None:
    """One step late: the second tensor saturates by the first one's scale, the third no longer."""
    w, rings, outs = ones(1, 1), Rings.fresh(RECIPE), []
    for value in (1.0, 8.0, 8.0):
        made = forward(ones(1, 1, value=value), w, rings, RECIPE)
        outs.append(float(made.out[0, 0]))
        rings = made.rings
    assert outs == [1.0, 1.0, 8.0]


@pytest.mark.parametrize(
    ("training", "weight_changed", "moved"),
    [(True, True, "wx"), (True, False, "x"), (False, True, ""), (False, False, "")],
)
def test_a_pass_moves_the_rings_of_what_it_casts_for_gradients(
    training: bool, weight_changed: bool, moved: str
) -> None:
    x, w = some(7, 4, 5), some(8, 3, 5)
    before = forward(x, w, Rings.fresh(RECIPE), RECIPE).rings
    after = forward(x, w, before, RECIPE, training=training, weight_changed=weight_changed).rings
    found = "".join(name for name in "wxg" if getattr(before, name) != getattr(after, name))
    assert found == moved


def test_the_backward_pass_moves_the_gradients_ring_alone() -> None:
    made = forward(some(9, 4, 5), some(10, 3, 5), Rings.fresh(RECIPE), RECIPE)
    back = backward(some(11, 4, 3), made.saved, made.rings, RECIPE)
    assert replace(back.rings, g=made.rings.g) == made.rings
    assert back.rings.g != made.rings.g


def test_a_shared_activation_is_undone_by_the_scale_of_its_cast() -> None:
    x, first, second = some(12, 4, 5), some(13, 3, 5), some(14, 6, 5)
    one = forward(x, first, Rings.fresh(RECIPE), RECIPE)
    other = forward(one.saved.x, second, Rings.fresh(RECIPE), RECIPE)
    alone = forward(x, second, Rings.fresh(RECIPE), RECIPE)
    assert bits(other.out) == bits(alone.out)
    assert not other.rings.x.initialized


def test_a_scale_outlives_the_folds_of_its_ring() -> None:
    """Two forward passes, then both backward passes: the first one's scales are its own, not the pair's."""
    w, rings, saved = some(15, 3, 5), Rings.fresh(RECIPE), []
    for size in (1.0, 2.0, 8.0):
        made = forward(some(16, 4, 5, size=size), w, rings, RECIPE, weight_changed=rings.w.cast is None)
        rings = made.rings
        saved.append(made.saved)
    assert saved[0].x.scale != saved[2].x.scale, "the pair of the first cast holds another scale by now"
    late = backward(some(17, 4, 3), saved[0], rings, RECIPE)
    early = forward(some(16, 4, 5), w, Rings.fresh(RECIPE), RECIPE)
    soon = backward(some(17, 4, 3), early.saved, early.rings, RECIPE)
    assert bits(late.weight) == bits(soon.weight)


def test_codes_of_a_weight_meet_gradients_of_their_own_format_alone() -> None:
    codes = Cast(np.array([[0x38, 0x40]], np.uint8), None, np.float32(0.5))
    for recipe, has_input in ((RECIPE, False), (ScaleRecipe(2, formats=PURE_E4M3), True)):
        made = forward(ones(1, 2), codes, Rings.fresh(recipe), recipe)
        assert made.out.astype(np.float64).tolist() == [[1.5]]
        assert not made.rings.w.initialized
        back = backward(ones(1, 1), made.saved, made.rings, recipe)
        assert (back.input is not None) == has_input
    assert back.input is not None
    assert back.input.astype(np.float64).tolist() == [[0.5, 1.0]]


def test_no_rows_make_an_empty_output_and_fold_zero() -> None:
    before = forward(ones(1, 3), ones(2, 3), Rings.fresh(RECIPE), RECIPE).rings
    made = forward(ones(0, 3), ones(2, 3), before, RECIPE)
    assert made.out.shape == (0, 2)
    assert made.rings.x.history.tolist() == [1.0, 0.0]


def test_the_inner_extent_is_filled_with_zero_codes() -> None:
    a = np.full((1, 65), 0x38, np.uint8)
    assert product(E4M3FN, a, a, np.float32(1), arch="sm_90a").astype(np.float64).tolist() == [[65.0]]


def test_saved_casts_are_of_what_the_pass_was_given() -> None:
    made = forward(some(18, 2, 3, 4), some(19, 5, 4), Rings.fresh(RECIPE), RECIPE)
    assert isinstance(made.saved, Saved)
    assert made.saved.leading == (2, 3)
    assert (made.saved.x.rows.shape, made.saved.w.rows.shape) == ((6, 4), (5, 4))
