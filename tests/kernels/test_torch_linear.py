"""The training loop of the H200 script on the CPU device, where torch is installed: near losses, rings that agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "h200"))


@pytest.mark.slow
def test_a_transformer_trained_through_torch_keeps_its_rings_beside_the_oracle() -> None:
    torch = pytest.importorskip("torch")
    from torch_linear import HostBridge, Runtime
    from train import Rings, Size, built, language

    from tileproof.oracle.ring.scale_recipe import ScaleRecipe

    size, steps = Size(blocks=1, width=16, heads=2, batch=2, length=8), 3
    text = language(np.random.default_rng(8), size, steps)
    runtime = Runtime(HostBridge(), size.layers, ScaleRecipe(2))
    rings = Rings(runtime)

    def trained(given: Any, after: Callable[[], None]) -> NDArray[np.float64]:
        trainer = built(given, size, torch.device("cpu"))
        return np.array(trainer.run(text, lambda number: trainer.step(), after))

    fp8 = trained(runtime, lambda: rings.check(runtime.words, runtime.maxima))
    bf16 = trained(None, lambda: None)
    assert (rings.different, rings.first, rings.folds) == (0, "", steps * size.layers * 3)
    assert np.isfinite(fp8).all()
    assert np.abs(fp8 - bf16).max() < 0.1, "FP8 differs from bfloat16 by its rounding alone"
