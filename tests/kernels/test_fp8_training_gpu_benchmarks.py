"""The benchmarks of the FP8 training kernels on a GPU: their contenders compute what they should."""

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from recording_sim import RecordingSim

from tileproof.kernels.fp8_quantize_tensor import TILE_VECTOR, VECTOR
from tileproof.kernels.mm_fp8_dispatch import Route
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, Field

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import fp8_quantize_tensor_gpu as quantize
from benchmarks import mm_fp8_gpu as product


@pytest.mark.parametrize("contender", [product.OURS, *product.FORCED])
@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
def test_every_contender_of_ours_makes_the_product_of_its_layout(layout: str, contender: str) -> None:
    device: Any = RecordingSim()
    bench = product.Bench(device, product.Shape("test", 48, 32, 96, layout=layout, batch=2))
    contenders, route = bench.contenders()
    assert route is Route.SMALL_LEAN, "few rows"
    a, b = (codes.view(product.E4M3).astype(np.float64) for codes in (bench.a, bench.b))
    right = a @ b * product.SCALE
    found: Any = contenders[contender]()
    assert found == []
    assert product._distance(bench.out.download(), right) < product.ROUNDING
    assert product._distance(bench.out.download().swapaxes(1, 2).reshape(right.shape), right) > product.ROUNDING


@pytest.mark.parametrize("layout", quantize.LAYOUTS, ids=lambda layout: layout.name)
def test_our_quantiser_writes_the_codes_and_the_next_scale_of_each_set(layout: quantize.Layout) -> None:
    device: Any = RecordingSim()
    bench = quantize.Bench(device, 16, 72, sets=2)
    runs, route = bench.ours(layout)
    assert route == (TILE_VECTOR if layout.transposed else VECTOR)
    assert [run() for run in runs] == [[], []]
    values = bench.values.astype(np.float32)
    scaled = values * np.float32(quantize.RECIPROCAL)
    right = np.clip(scaled, -quantize.LARGEST, quantize.LARGEST).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    for _, codes, turned, words in bench.sets:
        assert np.array_equal(codes.download(), right if layout.rows else np.zeros_like(right))
        assert np.array_equal(turned.download(), right.T if layout.transposed else np.zeros_like(right.T))
        scale = words.download()[DOUBLE_BUFFERED.offset(Field.SCALE_1, quantize.WINDOW)]
        assert scale == np.abs(values).max() / np.float32(quantize.LARGEST)
