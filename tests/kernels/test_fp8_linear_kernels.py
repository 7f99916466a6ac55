"""The small kernels of the linear layer on the CPU device: sums of columns, seeds of rings, products of scales."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linear_layer import BF16, poisoned, some, whole
from numpy.typing import NDArray

from tileproof.kernels import fp8_bias_gradient, fp8_ring_seed, fp8_scale_products
from tileproof.kernels.compile import compile_source
from tileproof.kernels.fp8_bias_gradient import BiasGradient
from tileproof.kernels.fp8_ring_seed import SeedRing
from tileproof.kernels.fp8_scale_products import Scalar, ScaleProducts
from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.kernels.resources import resources_of
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.bias_gradient import STRANDS, bias_gradient
from tileproof.oracle.formats import E4M3FN, E5M2, FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, FOLD_SLOTS, SEED, RingStage
from tileproof.oracle.ring.ring_state import RingState
from tileproof.oracle.ring.scale_recipe import PURE_E4M3, PURE_E5M2, ScaleRecipe
from tileproof.oracle.scale_ring import seed
from tileproof.simulators.ptx.device import Device

Array = NDArray[Any]


def bits(tensor: Tensor) -> list[int]:
    return [int(word) for word in tensor.buffer.download().view(np.uint16).reshape(-1)]


def gradients(random: np.random.Generator, rows: int, columns: int) -> Array:
    """Magnitudes far apart, so that an order is seen, and special values."""
    g = (random.standard_normal((rows, columns)) * 2.0 ** random.uniform(-12, 12, (rows, columns))).astype(BF16)
    if rows > 2:
        g[0, ::5], g[-1, 1::7], g[1, 2::9], g[:, 3::11] = np.nan, np.inf, -np.inf, -0.0
    return g


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (1, 1), (15, 33), (16, 32), (17, 31), (65, 70), (100, 1)])
def test_sums_of_columns_have_the_declared_bits_under_a_hostile_schedule(rows: int, columns: int) -> None:
    device = Device(schedule="adversarial", seed=rows)
    g = gradients(np.random.default_rng(rows), rows, columns)
    out = poisoned(device, (columns,))
    launch = BiasGradient(device)(whole(device, g), out)
    assert launch.report is not None
    assert list(launch.report.findings) == []
    assert bits(out) == bias_gradient(g).view(np.uint16).tolist()


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    __syncthreads();\n", "", "race"),
        ("Index row = strand; row", "Index row = strand + 1 - kStrands; row", "out-of-bounds"),
        ("column >= columns) return", "false) return", "out-of-bounds"),
    ],
)
def test_a_wrong_sum_of_columns_has_a_finding(old: str, new: str, kind: str) -> None:
    source = fp8_bias_gradient.SOURCE
    assert source.count(old) == 1
    device = Device(schedule="adversarial")
    run = BiasGradient(device, source=source.replace(old, new))
    launch = run(whole(device, some(np.random.default_rng(0), 17, 31)), poisoned(device, (31,)))
    assert launch.report is not None
    assert kind in {str(finding.kind.value) for finding in launch.report.findings}


def test_rows_in_blocks_instead_of_strands_have_other_bits() -> None:
    source = fp8_bias_gradient.SOURCE.replace(
        "for (Index row = strand; row < rows; row += kStrands)",
        "for (Index row = strand * ((rows + 15) / 16); row < rows && row < (strand + 1) * ((rows + 15) / 16); ++row)",
    )
    assert source != fp8_bias_gradient.SOURCE
    device = Device(schedule="friendly")
    random = np.random.default_rng(1)
    g = (some(random, 66, 70).astype(np.float64) * 2.0 ** random.uniform(-12, 12, (66, 70))).astype(BF16)
    g[33:] = -g[:33]  # what is left of a sum is what its roundings lost
    out = poisoned(device, (70,))
    BiasGradient(device, source=source)(whole(device, g), out)
    assert bits(out) != bias_gradient(g).view(np.uint16).tolist()


VALUES: dict[str, Array] = {
    "ordinary": some(np.random.default_rng(2), 40, 33),
    "one": np.full((1, 1), -3.0).astype(BF16),
    "zeros": np.zeros((3, 5), BF16),
    "tiny": np.full((3, 5), 1e-30).astype(BF16),
    "nan": np.array([[1.0, np.nan], [np.inf, 2.0]]).astype(BF16),
    "negative nan": (np.array([[0xFFC1, 0x3F80]], np.uint16)).view(BF16),
    "infinite": np.array([[1.0, -np.inf]]).astype(BF16),
    "largest": np.array([[3.3895e38, 1.0]]).astype(BF16),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(("target", "margin", "window"), [(E4M3FN, 0, 3), (E5M2, 2, 33), (E4M3FN, -126, 1)])
def test_a_seeded_ring_is_the_oracles(name: str, target: FloatFormat, margin: int, window: int) -> None:
    device = Device(schedule="adversarial")
    words = np.random.default_rng(3).integers(1, 2**30, DOUBLE_BUFFERED.size(window), np.uint32)
    state = RingState(DOUBLE_BUFFERED, window, tuple(int(word) for word in words))
    recipe = ScaleRecipe(window, margin, PURE_E4M3 if target is E4M3FN else PURE_E5M2)
    tensor = whole(device, words.view(np.float32))
    ring = ScaleRing(tensor, DOUBLE_BUFFERED, window, 0, target, margin)
    launch = SeedRing(device)(whole(device, VALUES[name]), ring)
    assert launch.report is not None
    assert list(launch.report.findings) == []
    right = seed(state, Amax.of(VALUES[name]), recipe).words
    assert tensor.buffer.download().view(np.uint32).tolist() == list(right)


def test_a_seed_takes_more_elements_than_the_block_has_threads() -> None:
    device = Device(schedule="friendly")
    x = np.zeros((5, 1000), BF16)
    x[4, 999] = -7.0
    tensor = whole(device, np.zeros(DOUBLE_BUFFERED.size(2), np.float32))
    SeedRing(device)(whole(device, x), ScaleRing(tensor, DOUBLE_BUFFERED, 2, 0))
    assert tensor.buffer.download()[0] == 7.0


def test_a_seed_without_its_barrier_is_a_race() -> None:
    source = fp8_ring_seed.SOURCE.replace("    __syncthreads();\n", "")
    device = Device(schedule="adversarial")
    tensor = whole(device, np.zeros(DOUBLE_BUFFERED.size(2), np.float32))
    x = whole(device, some(np.random.default_rng(4), 40, 33))
    launch = SeedRing(device, source=source)(x, ScaleRing(tensor, DOUBLE_BUFFERED, 2, 0))
    assert launch.report is not None
    assert "race" in {str(finding.kind.value) for finding in launch.report.findings}


@pytest.mark.parametrize(
    ("stage", "current", "rows", "words"),
    [
        (DOUBLE_BUFFERED, 1, 1, "current pair is 1"),
        (SEED, 0, 1, "seed ring"),
        (DOUBLE_BUFFERED, 0, 0, "no maximum to seed"),
    ],
)
def test_a_ring_or_a_tensor_that_cannot_seed_is_refused(stage: RingStage, current: int, rows: int, words: str) -> None:
    device = Device()
    tensor = whole(device, np.zeros(stage.size(2), np.float32))
    with pytest.raises(Refusal, match=words):
        SeedRing(device)(whole(device, np.ones((rows, 3), BF16)), ScaleRing(tensor, stage, 2, 0, current=current))


def test_a_ring_with_one_pair_and_its_reciprocal_is_seeded_as_well() -> None:
    device = Device(schedule="friendly")
    tensor = whole(device, np.zeros(FOLD_SLOTS.size(2), np.float32))
    SeedRing(device)(whole(device, np.full((1, 1), 448.0).astype(BF16)), ScaleRing(tensor, FOLD_SLOTS, 2, 0))
    assert tensor.buffer.download()[:4].tolist() == [448.0, 448.0, 1.0, 1.0]


def test_scalars_are_products_and_copies() -> None:
    device = Device(schedule="adversarial")
    values = np.array([3.0, 0.1, np.nan, np.inf, 1e-30, 1e-12], np.float32)
    given = whole(device, values)
    made = replace(whole(device, np.full(3, 0xFFFFFFFF, np.uint32)), dtype=np.dtype(np.float32))
    run = ScaleProducts(device)

    def at(tensor: Tensor, number: int) -> Tensor:
        return replace(tensor, shape=(1,), strides=(1,), offset_bytes=4 * number)

    launch = run([Scalar(at(made, 0), at(given, 0), at(given, 1)), Scalar(at(made, 2), at(given, 2))])
    assert launch.report is not None
    assert list(launch.report.findings) == []
    found = made.buffer.download()
    assert found[1] == 0xFFFFFFFF, "what is not asked for is not written"
    assert found.view(np.float32)[0] == np.float32(3) * np.float32(0.1)
    assert found[2] == values.view(np.uint32)[2]
    run([Scalar(at(made, number), at(given, 4), at(given, 5)) for number in range(3)])
    assert made.buffer.download().view(np.float32).tolist() == [float(values[4] * values[5])] * 3


def test_too_many_scalars_and_an_output_over_an_input_are_refused() -> None:
    device = Device()
    one = whole(device, np.zeros(1, np.float32))
    run = ScaleProducts(device)
    for scalars, words in (([], "0 scalars"), ([Scalar(one, one)] * 4, "4 scalars"), ([Scalar(one, one)], "overlaps")):
        with pytest.raises(Refusal, match=words):
            run(scalars)


def test_the_launchers_constants_are_the_sources() -> None:
    def constant(source: str, name: str) -> int:
        found = re.search(rf"constexpr int {name} = (\d+);", source)
        assert found is not None
        return int(found[1])

    assert constant(fp8_bias_gradient.SOURCE, "kStrands") == fp8_bias_gradient.STRANDS == STRANDS
    assert constant(fp8_bias_gradient.SOURCE, "kLanes") == fp8_bias_gradient.LANES
    assert constant(fp8_ring_seed.SOURCE, "kThreads") == fp8_ring_seed.THREADS
    assert constant(fp8_scale_products.SOURCE, "kMost") == fp8_scale_products.MOST


@pytest.mark.parametrize("module", [fp8_bias_gradient, fp8_ring_seed, fp8_scale_products], ids=lambda one: one.NAME)
def test_no_entry_spills(module: Any) -> None:
    compiled = compile_source(module.SOURCE, name=f"{module.NAME}.cu", arch="sm_90a")
    for used in resources_of(compiled.report).values():
        assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes) == (0, 0, 0)
