"""The benchmark of the INT8 products on a GPU: its contenders compute what they should, and wrong outputs stop it."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording_sim import RecordingSim

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import int8_gpu as bench_module
from benchmarks.gpu_timing import Times
from tileproof.kernels.int8_arms import wgmma_arm


def test_every_contender_of_ours_is_held_to_the_sums() -> None:
    device: Any = RecordingSim()
    bench = bench_module.Bench(device, bench_module.Shape(17, 128, 128))
    contenders, arm = bench.contenders()
    assert arm == "wgmma-128x128-s4"
    assert len(contenders) == 12
    sums = bench.x.astype(np.int64) @ bench.w.astype(np.int64)
    for name in ("ours", "64x128x64-b1"):
        assert contenders[name]() == []
        bench_module.check(bench, sums)
    sums[3, 5] += 4096
    with pytest.raises(ArithmeticError, match="1 outputs are not those of torch's sums"):
        bench_module.check(bench, sums)


def test_a_ratio_above_one_means_that_ours_is_faster() -> None:
    times = {"ours": Times((1.0, 1.0)), bench_module.PEER: Times((2.0, 2.0))}
    cell = bench_module.Cell(bench_module.SHAPES[0], "128x128x64-b2", times)
    assert cell.speed.middle == 2.0
    slow = bench_module.Cell(bench_module.SHAPES[1], "128x128x64-b2", times | {"ours": Times((8.0, 8.0))})
    assert bench_module.geometric_mean([cell, slow]) == pytest.approx(0.5**0.5)
    assert "torch._int_mm / ours 2.000" in cell.line()


def test_the_shapes_are_ten_and_every_one_has_a_kernel() -> None:
    assert len(bench_module.SHAPES) == 10
    for shape in bench_module.SHAPES:
        assert wgmma_arm(shape.m, shape.n).obstacle(shape.m, shape.n, shape.k) is None


def test_wide_tiles_are_for_many_waves_and_the_deep_ring_for_less_than_one() -> None:
    assert wgmma_arm(8192, 8192).name == "wgmma-128x256-s4"
    assert wgmma_arm(8192, 8064).name == "wgmma-128x128-s3", "no multiple of 256"
    assert wgmma_arm(4096, 384).name == "wgmma-128x128-s4", "96 blocks"
    assert wgmma_arm(4096, 640).name == "wgmma-128x128-s3", "160 blocks"
