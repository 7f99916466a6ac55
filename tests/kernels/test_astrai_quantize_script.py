"""The script that holds a GPU to the oracle holds the CPU device to it, and counts what a wrong kernel gets wrong."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scale_ring_sequence import Sequence

from tileproof.conformance.faults import fault
from tileproof.kernels.fp8_quantize_tensor import SOURCE, QuantizeTensor, grid_of
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, RING_STAGES
from tileproof.simulators.ptx.device import Device


@pytest.fixture(scope="module")
def script() -> Any:
    path = Path(__file__).parents[1] / "h200" / "astrai_quantize.py"
    spec = importlib.util.spec_from_file_location("astrai_quantize_script", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def quantizer(device: Device, name: str | None) -> QuantizeTensor:
    source = fault(name).kernel_source() if name else None
    return QuantizeTensor(device, source=SOURCE if source is None else source.text)


@pytest.mark.parametrize(("name", "is_right"), [(None, True), ("codes-half-dropped", False)])
def test_a_sweep_counts_the_codes_that_differ(script: Any, name: str | None, is_right: bool) -> None:
    device = Device(schedule="friendly")
    count = script.sweep(device, quantizer(device, name), np.dtype(ml_dtypes.bfloat16), few=1)
    assert (count.launches, count.codes) == (1, 1 << 16)
    assert (count.different == 0) == is_right


def test_residues_are_compared_launch_by_launch(script: Any) -> None:
    device = Device(schedule="friendly")
    count = script.residues(device, quantizer(device, None), few=5)
    assert (count.launches, count.different) == (5, 0)


@pytest.mark.parametrize(("name", "is_right"), [(None, True), ("ring-window-one-short", False)])
def test_sequences_count_the_rings_that_differ(script: Any, name: str | None, is_right: bool) -> None:
    device = Device(schedule="friendly")
    (count,) = script.sequences(device, quantizer(device, name), iter([(Sequence(window=1), "rising")]), 3)
    assert count.launches == 3
    assert (count.different == 0) == is_right


def test_the_sequences_of_the_gpu_have_every_stage_window_and_up_to_1056_blocks(script: Any) -> None:
    chosen = [sequence for sequence, _ in script.many_sequences()]
    assert {one.stage.name for one in chosen} == {stage.name for stage in RING_STAGES}
    assert {one.window for one in chosen} == {1, 2, 3, 16, 33}
    grids = {
        grid_of(one.shape, is_tiled=one.tiled, max_blocks=one.blocks) for one in chosen if one.stage is DOUBLE_BUFFERED
    }
    assert {(1056, 1, 1), (264, 4, 1), (132, 1, 1), (1, 1, 1)} <= grids
