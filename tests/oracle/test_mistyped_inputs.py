"""Arguments of the wrong kind: refused where they come in, and numpy integers reckoned with as Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileproof.oracle import routing
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes import gemm_dispatch
from tileproof.oracle.routes.coverage import Interval
from tileproof.oracle.routes.gemm_problem import GemmProblem
from tileproof.oracle.routes.int8_lineages import TP4_M4096
from tileproof.oracle.routes.int8_routing import fuses_combine, int8_route
from tileproof.oracle.routes.routing_calibration import ATTENTION, RTX_5090, TMA_SCHEDULE

NOT_WHOLE: list[Any] = [1024.0, np.float32(1024), "1024", None, True, np.array([1024]), b"1", 1j]


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
@pytest.mark.parametrize("position", range(4))
def test_a_route_takes_whole_numbers_only(position: int, value: Any) -> None:
    arguments: list[Any] = [14336, 5120, 1024, 170]
    arguments[position] = value
    with pytest.raises(Refusal, match="no whole number"):
        routing.fp8_a8_tma_applies(*arguments)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.uint32, np.uint64, np.int64])
def test_a_route_of_numpy_integers_is_that_of_python_integers(dtype: type[np.integer[Any]]) -> None:
    for tokens in (0, 1024, 1088, 1536, 4096):
        numbers = 14336, 5120, tokens, 170
        taken = routing.fp8_a8_tma_applies(*map(dtype, numbers))  # type: ignore[arg-type]
        assert taken is routing.fp8_a8_tma_applies(*numbers)
        assert type(routing.waves(TMA_SCHEDULE, *map(dtype, (14336, tokens, 170)))) is int  # type: ignore[arg-type]


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "calibration a list": (lambda: routing.fp8_a8_tma_applies(14336, 5120, 1024, 170, ["rtx5090"]), "calibration"),  # type: ignore[arg-type]
    "calibration a dict": (lambda: routing.tma_widths(1, 1, 1, Interval(1, 2), {}), "calibration"),  # type: ignore[arg-type]
    "no SM to fill": (lambda: routing.waves(TMA_SCHEDULE, 14336, 1024, 0), "0 SMs"),
    "no SM to be cheaper on": (lambda: routing.is_cheaper(RTX_5090, 14336, 1024, 0), "0 SMs"),
    "tokens of a projection": (lambda: routing.linear_route(ATTENTION, 12.0, 170), "tokens"),  # type: ignore[arg-type]
    "float address": (lambda: routing.decline(14336, 5120, 1024, 170, weight_address=16.0), "weight_address"),  # type: ignore[arg-type]
    "float interval": (lambda: Interval(1.0, 2), "first"),  # type: ignore[arg-type]
    "float problem": (lambda: GemmProblem(m=64.0, n=1, k=1, sm_count=1), "m = 64.0"),  # type: ignore[arg-type]
    "text problem": (lambda: GemmProblem(m=64, n=1, k="1", sm_count=1), "k = '1'"),  # type: ignore[arg-type]
    "INT8 float m": (lambda: int8_route(TP4_M4096, 4096.0, 2560, 4096), "m = 4096.0"),  # type: ignore[arg-type]
    "INT8 float planes": (lambda: fuses_combine(16.0), "workspace_planes"),  # type: ignore[arg-type]
    "axis as text": (
        lambda: gemm_dispatch.plan_coverage(
            gemm_dispatch.PLANNED,
            GemmProblem(m=64, n=64, k=64, sm_count=92),
            "m",  # type: ignore[arg-type]
            Interval(1, 2),
        ),
        "axis is 'm'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistyped_argument_is_refused(name: str) -> None:
    call, match = REFUSED[name]
    with pytest.raises(Refusal, match=match):
        call()


def test_a_problem_of_narrow_numpy_integers_does_not_overflow() -> None:
    numbers = {"m": 200, "n": 200, "k": 64, "sm_count": 92, "batch": 255}
    narrow = GemmProblem(**{name: np.uint8(value) for name, value in numbers.items()})  # type: ignore[arg-type]
    assert gemm_dispatch.plan_gemm(gemm_dispatch.PLANNED, narrow) == gemm_dispatch.plan_gemm(
        gemm_dispatch.PLANNED, GemmProblem(**numbers)
    )
