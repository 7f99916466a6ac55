"""The script for the H200, on the CPU device at small extents: it counts, and what is wrong counts."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileproof.kernels.int8_arms import ARMS, TUNED_TILES, WGMMA_ARMS
from tileproof.kernels.int8_router import Family, Tuned
from tileproof.simulators.ptx.device import Device

K, N = 128, 64
FAMILY = Family(
    "small",
    decodes=False,
    tuned=(Tuned("tall", lambda m, n, k: (m, n, k) == (33, N, K), "64x64x64-b2", "n-major"),),
    packs={(K, N): "n-major"},
)


def script() -> Any:
    path = Path(__file__).parents[1] / "h200" / "int8_full.py"
    spec = importlib.util.spec_from_file_location("int8_full_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_weight_of_production_and_every_m_are_in_it() -> None:
    module = script()
    weights = module.production_weights()
    assert {name for name, _, _ in weights} >= {"panel-64", "fragment-pairs", "stage-64-n128-k8"}
    assert ("n-major", 1024, 4096) in weights
    families = module.FAMILIES
    assert {len(module.weights_of(family)) for family in families.values()} == {1, 4, 6}
    assert {1, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 3071, 3073, 4095, 4097} <= set(module.ROWS)


def test_every_kernel_that_takes_a_product_is_forced() -> None:
    forced = script().forced
    assert set(forced(16, 128, 128, "panel-64")) == {*ARMS}
    assert set(forced(129, 256, 64, "n-major")) == {
        *(arm.name for arm in TUNED_TILES),
        *WGMMA_ARMS,
        "scalar",
    }
    assert "scalar" in set(forced(4096, 128, 128, "n-major"))


def test_packs_and_products_agree_with_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = script(), Device(schedule="friendly")
    tally = module.Tally()
    module.packs(device, tally, [("panel-64", 32, 64)])
    assert (tally.launches, tally.different, dict(tally.arms)) == (4, 0, {"vector": 2, "scalar": 2})
    tally = module.Tally()
    some = ("decode-fused", "decode-partial", "64x64x64-b2")
    takes = module.forced
    monkeypatch.setattr(module, "forced", lambda *given: [arm for arm in takes(*given) if arm in some])
    module.products(device, tally, FAMILY, K, N, (16, 33))
    assert (tally.different, tally.wrong) == (0, [])
    assert tally.arms["64x64x64-b2"] == 3, "forced twice and chosen once"
    assert tally.arms.keys() == {*some, "scalar"}


def test_a_wrong_output_is_counted() -> None:
    tally = script().Tally()
    right = np.arange(6).reshape(2, 3)
    tally.add("a call", "scalar", np.where(right == 4, 9, right), right)
    assert (tally.different, tally.values) == (1, 6)
    assert tally.wrong == ["a call: 1 of 6 differ, the first at flat index 4"]


@pytest.mark.parametrize("m", [16, 33])
def test_the_right_outputs_are_those_of_plain_integers(m: int) -> None:
    module = script()
    given = module.generate("uniform", m, 8, 16, np.random.default_rng(m))
    sums = given.x.astype(np.int64) @ given.w.astype(np.int64)
    values = sums.astype(np.float32) * given.x_scale[:, None] * given.w_scale
    assert np.array_equal(module.outputs(given), values.astype(module.BF16).view(np.uint16))
