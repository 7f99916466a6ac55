"""The script that judges full geometries on a GPU judges small ones on the CPU device, right and wrong ones."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileproof.kernels.fp8_a8_call_site import ATTN_INPUT_PROJ, LINEAR_ADD, LINEAR_SWIGLU, CallSite
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.reference.e4m3_gemm import E4m3Gemm
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge
from tileproof.kernels.source import expanded
from tileproof.simulators.ptx.device import Device


@pytest.fixture(scope="module")
def script() -> Any:
    path = Path(__file__).parents[1] / "h200" / "fp8_a8_full.py"
    spec = importlib.util.spec_from_file_location("fp8_a8_full", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    module.PAST = 3
    module.SAMPLE_TOKENS, module.SAMPLE_COLUMNS = 4, 8
    return module


def judged(script: Any, site: CallSite, rows: int, source: str | None = None) -> Any:
    device = Device()
    operator = script.Operator(device, site, rows, 128, 3, "every exponent")
    if source is not None:
        operator.gemm = Fp8A8Gemm(device, site, sources={Route.TMA: source})
    return script.run(operator, Fp8A8Judge(device), E4m3Gemm(device), (1, 3), "every exponent")


def test_right_kernels_are_found_right(script: Any) -> None:
    result = judged(script, LINEAR_ADD, 128)
    assert result.right
    assert result.launches == {"tma": 2, "cp-async": 2}
    assert result.outputs_judged == 3 * (1 + 3) * 128
    assert result.sampled > 0


@pytest.mark.slow
@pytest.mark.parametrize(("site", "rows"), [(LINEAR_SWIGLU, 128), (ATTN_INPUT_PROJ, 14 * 128)])
def test_outputs_of_pairs_and_of_a_split_are_judged(script: Any, site: CallSite, rows: int) -> None:
    result = judged(script, site, rows)
    assert result.right
    assert result.outputs_judged == 3 * (1 + 3) * (rows // 2 if site.paired else rows)


def test_a_wrong_kernel_is_found_wrong_in_every_way(script: Any) -> None:
    source = expanded("fp8_a8_gemm_tma")
    swizzle = "(segment ^ row / 2 % kSegments)"
    assert source.count(swizzle) == 1
    result = judged(script, LINEAR_ADD, 128, source.replace(swizzle, "(segment ^ row % kSegments)"))
    assert not result.right
    assert result.different > 0
    assert result.words_that_differ_between_routes > 0
    assert result.sampled_different > 0
    assert result.words_written_past_the_end == 0


def test_edges_of_every_tile_are_sampled(script: Any) -> None:
    found = script.edges(np.random.default_rng(0), 300, 64, 32)
    assert {0, 63, 64, 127, 128, 191, 192, 255, 256, 299} <= set(found.tolist())
    assert found.size >= 28
