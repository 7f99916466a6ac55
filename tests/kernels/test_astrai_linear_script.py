"""What the H200 script calls right: all rings in every step, two models that have learned; and a part that fails."""

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def script() -> Any:
    path = Path(__file__).parents[1] / "h200" / "astrai_linear.py"
    spec = importlib.util.spec_from_file_location("astrai_linear_script", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Rings:
    """What the script reads of the rings that it has checked."""

    steps: int = 40
    different: int = 0
    compared: int = 100
    folds: int = 10
    first: str = ""
    states: list[int] = field(default_factory=list)


FALLING = [3.0] * 20 + [1.0] * 20


@pytest.mark.parametrize(
    ("rings", "fp8", "is_right"),
    [
        (Rings(), FALLING, True),
        (Rings(different=1), FALLING, False),
        (Rings(steps=39), FALLING, False),
        (Rings(), [3.0] * 40, False),
        (Rings(), [*FALLING[:-1], float("nan")], False),
    ],
    ids=["right", "a word differs", "a step unchecked", "nothing learned", "not a number"],
)
def test_a_training_run_is_right_if_all_rings_are_and_both_models_have_learned(
    script: Any, rings: Rings, fp8: list[float], is_right: bool
) -> None:
    result = script.summary({"fp8": fp8, "bf16": FALLING}, rings)
    assert result["right"] == is_right
    assert script.curves(result).count("\n") == 3


def test_a_part_that_raises_is_wrong_and_says_how(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> dict[str, Any]:
        raise ValueError("no such stream")

    result = script.told("graphs", failing)
    assert result["right"] is False
    assert "no such stream" in result["error"]
    assert "no such stream" in capsys.readouterr().err
    assert script.curves(result) == ""
