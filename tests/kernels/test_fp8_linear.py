"""The linear layer on the CPU device: its bits are the oracle's, its rings move by the rules, and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from linear_layer import BF16, Layer, poisoned, ring_words, some, whole

from tileproof.kernels.fp8_linear import Fp8Linear, Pass, flattened
from tileproof.kernels.fp8_linear_state import LinearStates, QuantizedWeight, Weight
from tileproof.kernels.tensor import Tensor
from tileproof.oracle import astrai_linear as oracle
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.scale_recipe import PURE_E4M3, PURE_E5M2, Role, ScaleRecipe
from tileproof.simulators.ptx.device import Device

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
FORWARD = ["fp8_quantize_tensor", "fp8_quantize_tensor", "fp8_scale_products", "mm_fp8"]
BACKWARD = ["fp8_quantize_tensor", "fp8_scale_products", "mm_fp8", "mm_fp8", "fp8_bias_gradient"]


HYBRID = ScaleRecipe(2)


def layer(recipe: ScaleRecipe = HYBRID, n: int = 9, k: int = 17, **options: Any) -> Layer:
    random = np.random.default_rng([n, k])
    return Layer.of(Device(**{"schedule": "adversarial", **options}), some(random, n, k), recipe)


def kernels(made: Pass) -> list[str]:
    return [launch.kernel for launch in made.launches]


def test_training_steps_have_the_oracles_bits_and_rings_under_a_hostile_schedule() -> None:
    tested, random = layer(), np.random.default_rng(1)
    for number, size in enumerate((1.0, 8.0, 0.25)):
        bias = some(random, 9) if number % 2 else None
        made, back = tested.step(some(random, 2, 5, 17, size=size), some(random, 2, 5, 9, size=1 / size), bias)
        tested.update(some(random, 9, 17, size=size))
        assert made.folded == (Role.WEIGHT, Role.ACTIVATION)
        assert back.folded == (Role.GRADIENT,)
    assert (kernels(made), kernels(back)) == (FORWARD, BACKWARD)
    assert tested.findings == []


@pytest.mark.parametrize("formats", [PURE_E4M3, PURE_E5M2], ids=lambda formats: formats.name)
def test_a_recipe_of_one_format_has_the_oracles_bits(formats: Any) -> None:
    tested, random = layer(ScaleRecipe(3, margin=1, formats=formats)), np.random.default_rng(2)
    tested.step(some(random, 5, 17), some(random, 5, 9))
    assert tested.findings == []


def test_a_pass_without_gradients_folds_nothing_and_keeps_nothing() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(3)
    x = some(random, 5, 17)
    first, _ = tested.forward(x, gradients=False)
    assert kernels(first) == ["fp8_ring_seed", FORWARD[0], "fp8_ring_seed", *FORWARD[1:]], "it seeds all the same"
    before = ring_words(tested.linear, tested.weight)
    made, _ = tested.forward(x, gradients=False)
    assert (made.folded, made.saved) == ((), None)
    assert ring_words(tested.linear, tested.weight) == before


def test_a_pass_under_checkpointing_has_the_bits_of_its_recomputation() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(4)
    tested.step(some(random, 5, 17), some(random, 5, 9))
    tested.update(some(random, 9, 17, size=3))
    x = some(random, 5, 17, size=2)
    _, first = tested.forward(x, gradients=False)
    _, again = tested.forward(x)
    assert np.array_equal(first.out.view(np.uint16), again.out.view(np.uint16))


def test_a_weight_is_cast_and_folded_once_between_two_changes() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(5)
    tested.step(some(random, 5, 17), some(random, 5, 9))
    made, _ = tested.step(some(random, 5, 17), some(random, 5, 9))
    assert made.folded == (Role.ACTIVATION,)
    assert kernels(made) == FORWARD[1:]
    tested.weight.changed()
    made, _ = tested.step(some(random, 5, 17), some(random, 5, 9))
    assert made.folded == (Role.WEIGHT, Role.ACTIVATION)


def test_gradients_of_an_early_pass_have_its_own_scales_after_later_passes_have_folded() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(6)
    passes = [tested.forward(some(random, 5, 17, size=size)) for size in (1.0, 4.0, 16.0)]
    for made, right in passes[::-1]:
        tested.backward(some(random, 5, 9), made.saved, right.saved)


def test_layers_that_share_an_activation_cast_and_fold_it_once() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(7)
    device, linear = tested.device, tested.linear
    x, values, g = some(random, 5, 17), some(random, 6, 17), some(random, 5, 6)
    first, right_first = tested.forward(x)
    assert first.saved is not None
    other, out = Weight(whole(device, values)), poisoned(device, (5, 6))
    made = linear.forward(first.saved.x, other, out)
    right = oracle.forward(right_first.saved.x, values, oracle.Rings.fresh(tested.recipe), tested.recipe)
    assert np.array_equal(out.buffer.download(), right.out.view(np.uint16))
    assert made.folded == (Role.WEIGHT,)
    assert made.saved is not None
    grad = poisoned(device, (6, 17))
    linear.backward(made.saved, whole(device, g), weight=grad)
    assert np.array_equal(
        grad.buffer.download(), oracle.backward(g, right.saved, right.rings, tested.recipe).weight.view(np.uint16)
    )


def quantized(device: Device, random: np.random.Generator) -> tuple[QuantizedWeight, oracle.Cast]:
    codes = np.asarray(E4M3FN.encode(random.standard_normal((9, 17)) * 64), np.uint8)
    scale = np.float32(0.75 / 64)
    weight = QuantizedWeight(replace(whole(device, codes), dtype=E4M3), whole(device, np.array([scale])))
    return weight, oracle.Cast(codes, None, scale)


@pytest.mark.parametrize("recipe", [ScaleRecipe(2), ScaleRecipe(2, formats=PURE_E4M3)], ids=["hybrid", "e4m3"])
def test_a_quantised_weight_is_taken_as_it_is(recipe: ScaleRecipe) -> None:
    device, random = Device(schedule="friendly"), np.random.default_rng(8)
    linear = Fp8Linear(device, LinearStates(lambda words: whole(device, words), recipe))
    weight, codes = quantized(device, random)
    x, g = some(random, 5, 17), some(random, 5, 9)
    out, dx, dw = (poisoned(device, shape) for shape in ((5, 9), (5, 17), (9, 17)))
    made = linear.forward(whole(device, x), weight, out)
    right = oracle.forward(x, codes, oracle.Rings.fresh(recipe), recipe)
    assert np.array_equal(out.buffer.download(), right.out.view(np.uint16))
    assert made.folded == (Role.ACTIVATION,)
    assert made.saved is not None
    back = oracle.backward(g, right.saved, right.rings, recipe)
    if back.input is None:
        with pytest.raises(Refusal, match="no product takes both"):
            linear.backward(made.saved, whole(device, g), input=dx, weight=dw)
        linear.backward(made.saved, whole(device, g), weight=dw)
    else:
        linear.backward(made.saved, whole(device, g), input=dx, weight=dw)
        assert np.array_equal(dx.buffer.download(), back.input.view(np.uint16))
    assert np.array_equal(dw.buffer.download(), back.weight.view(np.uint16))


def test_the_gradient_of_a_bias_alone_casts_nothing() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(9)
    made, _ = tested.forward(some(random, 5, 17))
    assert made.saved is not None
    g, db = some(random, 5, 9), poisoned(tested.device, (9,))
    back = tested.linear.backward(made.saved, whole(tested.device, g), bias=db)
    assert (kernels(back), back.folded) == (["fp8_bias_gradient"], ())


def test_no_rows_are_a_pass_that_folds_zero() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(10)
    tested.step(some(random, 5, 17), some(random, 5, 9))
    made, _ = tested.forward(np.zeros((0, 17), BF16))
    assert Role.ACTIVATION in made.folded
    assert tested.rings.x.history[tested.rings.x.index - 1] == 0
    assert made.saved is not None
    empty = [poisoned(tested.device, shape) for shape in ((0, 9), (9, 17))]
    with pytest.raises(Refusal, match="sum over no rows"):
        tested.linear.backward(made.saved, empty[0], weight=empty[1])


def _one_dimension(given: dict[str, Any], device: Device) -> None:
    given["x"] = replace(given["x"], shape=(17,), strides=(1,))


def _gaps(given: dict[str, Any], device: Device) -> None:
    given["x"] = replace(given["x"], shape=(2, 2, 17), strides=(51, 17, 1))


def _float16(given: dict[str, Any], device: Device) -> None:
    given["x"] = whole(device, np.zeros((5, 17), np.float16))


def _another_depth(given: dict[str, Any], device: Device) -> None:
    given["x"] = whole(device, np.zeros((5, 18), BF16))


def _rows_of_the_output(given: dict[str, Any], device: Device) -> None:
    given["out"] = poisoned(device, (6, 9))


def _bias_of_another_width(given: dict[str, Any], device: Device) -> None:
    given["bias"] = whole(device, np.zeros(8, BF16))


def _no_bias_elements(given: dict[str, Any], device: Device) -> None:
    given["bias"] = whole(device, np.zeros(0, BF16))


def _fp8_bias(given: dict[str, Any], device: Device) -> None:
    given["bias"] = replace(whole(device, np.zeros(9, np.uint8)), dtype=E4M3)


def _strange_device(given: dict[str, Any], device: Device) -> None:
    given["x"] = whole(Device(), np.zeros((5, 17), BF16))


def _codes_of_another_format(given: dict[str, Any], device: Device) -> None:
    codes = replace(whole(device, np.zeros((9, 17), np.uint8)), dtype=np.dtype(ml_dtypes.float8_e5m2))
    given["weight"] = QuantizedWeight(codes, whole(device, np.ones(1, np.float32)))


def _no_rows_to_seed_with(given: dict[str, Any], device: Device) -> None:
    given["x"] = whole(device, np.zeros((0, 17), BF16))
    given["out"] = poisoned(device, (0, 9))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_one_dimension, "two dimensions or more"),
        (_gaps, "must be contiguous"),
        (_float16, "x has element type float16"),
        (_another_depth, "K = 17, but x has K = 18"),
        (_rows_of_the_output, "M = 6|leading dimensions"),
        (_bias_of_another_width, "bias has N = 8"),
        (_no_bias_elements, "bias has N = 0"),
        (_fp8_bias, "bias has element type float8_e4m3fn"),
        (_strange_device, "another device"),
        (_codes_of_another_format, "weight has element type float8_e5m2"),
        (_no_rows_to_seed_with, "no maximum to seed"),
    ],
)
def test_a_call_that_is_not_as_described_is_refused_before_anything_moves(
    change: Callable[[dict[str, Any], Device], None], words: str
) -> None:
    device = Device(schedule="friendly")
    linear = Fp8Linear(device, LinearStates(lambda words: whole(device, words), ScaleRecipe(2)))
    weight = Weight(whole(device, np.ones((9, 17), BF16)))
    given: dict[str, Any] = {
        "x": whole(device, np.ones((5, 17), BF16)),
        "weight": weight,
        "out": poisoned(device, (5, 9)),
        "bias": whole(device, np.zeros(9, BF16)),
    }
    change(given, device)
    with pytest.raises(Refusal, match=words):
        linear.forward(**given)
    state = linear.states.of(weight)
    assert (state.seeded, state.kept) == (set(), None)
    assert all(ring.index == 0 for ring in state.rings.values())


def test_a_pass_has_one_backward_pass() -> None:
    tested, random = layer(schedule="friendly"), np.random.default_rng(11)
    made, right = tested.forward(some(random, 5, 17))
    tested.backward(some(random, 5, 9), made.saved, right.saved)
    assert made.saved is not None
    with pytest.raises(Refusal, match="has had its backward pass"):
        tested.linear.backward(made.saved, whole(tested.device, some(random, 5, 9)), bias=poisoned(tested.device, (9,)))


def test_a_cast_without_gradients_is_not_shared_with_a_pass_that_records_them() -> None:
    tested = layer(schedule="friendly")
    device = tested.device
    codes = whole(device, np.zeros((5, 17), np.uint8))
    from tileproof.kernels.fp8_linear_state import Cast

    shared = Cast(codes, None, whole(device, np.ones(1, np.float32)))
    with pytest.raises(Refusal, match="without gradients"):
        tested.linear.forward(shared, tested.weight, poisoned(device, (5, 9)))


def test_three_dimensions_are_flattened_without_a_copy() -> None:
    device = Device()
    tensor = whole(device, np.zeros((2, 3, 5), BF16))
    rows = flattened("x", tensor)
    assert (rows.shape, rows.strides, rows.address) == ((6, 5), (5, 1), tensor.address)
    assert isinstance(rows, Tensor)
