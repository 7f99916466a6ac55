"""The script of launches for compute-sanitizer, on the CPU device: it counts, and what is wrong counts."""

import importlib.util
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileproof.kernels.launcher import Launch
from tileproof.simulators.ptx.device import Device


def script() -> Any:
    path = Path(__file__).parents[1] / "h200" / "astrai_launches.py"
    spec = importlib.util.spec_from_file_location("astrai_launches_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_launches_of_the_script_agree_with_the_oracle() -> None:
    module, device = script(), Device()
    assert list(islice(module.products(device, 18, 24, 72), 2)) == [(0, 18 * 24)] * 2
    quantised = list(islice(module.quantisers(device, (9, 24)), 17))
    assert [wrong for wrong, _ in quantised] == [0] * 17
    assert {codes for _, codes in quantised} == {9 * 24, 9 * 24 * 2}, "flat and tiled"


def test_a_wrong_output_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = script(), Device()
    honest = module.Call.run

    def off_by_one(self: Any, *given: Any) -> tuple[Launch, Any]:
        launch, outputs = honest(self, *given)
        outputs.flat[3] ^= np.uint16(1)
        return launch, outputs

    monkeypatch.setattr(module.Call, "run", off_by_one)
    assert next(module.products(device, 18, 24, 72)) == (1, 18 * 24)
