"""Arguments of the wrong kind: refused where they come in, and numpy integers reckoned with as Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileproof.oracle import routing
from tileproof.oracle.addresses.xor_tile import chunk_swizzle, cp_async_tile
from tileproof.oracle.epilogues.epilogue_array import Operands
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.maps.mma_fragments import mma_a
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes import gemm_dispatch
from tileproof.oracle.routes.coverage import Interval
from tileproof.oracle.routes.gemm_problem import GemmProblem
from tileproof.oracle.routes.int8_lineages import TP4_M4096
from tileproof.oracle.routes.int8_routing import fuses_combine, int8_route
from tileproof.oracle.routes.routing_calibration import ATTENTION, RTX_5090, TMA_SCHEDULE

#: Any: mistyped on purpose.
PANEL: Any = PACKS["panel-64"]
TILE: Any = cp_async_tile()
FRAGMENT = mma_a(16, 16, 16)
ONE = np.ones((1, 1), np.float32)

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
    "float K": (lambda: PANEL.offset(0, 0, 8.0, 64), "K = 8.0"),
    "float N of an unpack": (lambda: PANEL.unpack(np.zeros(512, np.int8), 8, 64.0), "N = 64.0"),
    "float k": (lambda: PANEL.offset(1.0, 0, 8, 64), "k has type float64"),
    "float array n": (lambda: PANEL.offset(0, np.array([1.5]), 8, 64), "n has type float64"),
    "bool k": (lambda: PANEL.offset(True, 0, 8, 64), "k = True"),
    "float offset": (lambda: PANEL.locate(1.0, 8, 64), "offset has type float64"),
    "unsigned offset above int64": (lambda: PANEL.locate(np.array([2**64 - 1], np.uint64), 8, 64), "2\\^63"),
    "fill above its type": (lambda: PACKS["scale-128x4"].pack(np.zeros((1, 1), np.uint8), fill=256), "fill 256"),
    "float fill": (lambda: PACKS["scale-128x4"].pack(np.zeros((1, 1), np.uint8), fill=1.5), "fill = 1.5"),  # type: ignore[arg-type]
    "float row of a tile": (lambda: TILE.offset(1.0, 0), "row has type float64"),
    "float byte of a tile": (lambda: TILE.offset(0, np.array([0.5])), "byte has type float64"),
    "negative bits": (lambda: chunk_swizzle(-1, 3, 128), "-1 bits"),
    "negative row": (lambda: chunk_swizzle(3, 3, -128), "-128 bytes"),
    "row below a chunk": (lambda: chunk_swizzle(0, 3, 8), "8 bytes"),
    "float shift": (lambda: chunk_swizzle(3, 3.0, 128), "shift = 3.0"),  # type: ignore[arg-type]
    "bias_scale a Python float": (
        lambda: Operands(accumulators=ONE, factors=(), bias_scale=0.1),  # type: ignore[arg-type]
        "bias_scale is a float",
    ),
    "out_scale a float64": (
        lambda: Operands(accumulators=ONE, factors=(), out_scale=np.float64(0.1)),  # type: ignore[arg-type]
        "out_scale is a float64",
    ),
    "big-endian matrix": (lambda: FRAGMENT.gather(np.zeros((16, 16), ">u2")), "byte order"),
    "big-endian view": (lambda: FRAGMENT.scatter(np.zeros((32, 4), np.uint32), ">u2"), "byte order"),
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
        gemm_dispatch.PLANNED,
        GemmProblem(**numbers),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint16, np.int32, np.uint64])
def test_offsets_of_numpy_integers_are_those_of_python_integers(dtype: type[np.integer[Any]]) -> None:
    expected = PANEL.offset(100, 70, 120, 64 * 2)
    shape = *PANEL.stored_shape(dtype(120), dtype(64)), PANEL.size(dtype(120), dtype(64))
    assert shape == (120, 64, 7680)
    assert all(type(number) is int for number in shape)
    wide = np.int32(128) if dtype is np.int8 else dtype(128)
    assert PANEL.offset(dtype(100), dtype(70), dtype(120), wide) == expected
    assert PANEL.locate(np.int64(expected), dtype(120), wide) == (100, 70)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint64])
def test_a_tile_of_narrow_numpy_integers_does_not_overflow(dtype: type[np.integer[Any]]) -> None:
    rows, bytes_ = np.arange(100, dtype=dtype), np.full(100, 127, dtype)
    expected = [TILE.offset(row, 127) for row in range(100)]
    assert TILE.offset(rows, bytes_).tolist() == expected
    assert TILE.offset(dtype(99), dtype(127)) == expected[99]
