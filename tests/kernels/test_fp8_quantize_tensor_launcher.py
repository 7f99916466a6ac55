"""What the tensor quantiser's launcher refuses, which route and grid it takes, and what its source promises."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileproof.kernels import fp8_quantize_tensor as launcher
from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.fp8_quantize_tensor import NAME, SOURCE, Output, QuantizeTensor, grid_of, select_route
from tileproof.kernels.fp8_scale_ring import ScaleRing
from tileproof.kernels.resources import resources_of
from tileproof.kernels.source import expanded
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import E2M1FN, E4M3FN, E5M2
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED, SEED, SELF_CLEANING, RingStage
from tileproof.oracle.scaling.astrai_quantize import Outputs, Stage, quantize
from tileproof.simulators.ptx.device import Device

BF16, F32, U8 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.uint8)
ROWS, COLUMNS = 8, 16
VARIANTS = [("E4m3", "Nothing"), ("Nothing", "E5m2"), ("E5m2", "E4m3")]


class Call:
    """A legal call, whose parts a test may replace."""

    def __init__(self, dtype: np.dtype[Any] = BF16, stage: RingStage = DOUBLE_BUFFERED) -> None:
        self.device = Device(schedule="friendly")
        self.quantizer = QuantizeTensor(self.device)
        self.x = self.tensor(np.ones((ROWS, COLUMNS)).astype(dtype))
        self.rows: Output | None = Output(self.tensor(np.zeros((ROWS, COLUMNS), np.uint8)))
        self.transposed: Output | None = None
        words = np.zeros(stage.size(2), np.float32)
        self.ring: ScaleRing | None = ScaleRing(self.tensor(words), stage, 2, 0)
        self.scale: Tensor | None = None
        self.amax: Tensor | None = None
        self.max_blocks = 4

    def tensor(self, array: Any) -> Tensor:
        return Tensor.whole(self.device.upload(array))

    def changed_ring(self, **changes: Any) -> None:
        assert self.ring is not None
        self.ring = replace(self.ring, **changes)

    def __call__(self) -> Any:
        return self.quantizer(
            self.x,
            rows=self.rows,
            transposed=self.transposed,
            scale=self.scale,
            ring=self.ring,
            amax=self.amax,
            max_blocks=self.max_blocks,
        )


def test_the_call_is_legal_that_the_refusals_change() -> None:
    assert Call()().route == "vector"


def _no_outputs(call: Call) -> None:
    call.rows = None


def _foreign_format(call: Call) -> None:
    call.rows = Output(call.tensor(np.zeros((ROWS, COLUMNS), np.uint8)), E2M1FN)


def _no_scale(call: Call) -> None:
    call.ring = None


def _amax_beside_a_ring_that_collects(call: Call) -> None:
    call.amax = call.tensor(np.zeros(1, np.float32))


def _strided(call: Call) -> None:
    call.x = replace(call.tensor(np.ones((ROWS, 20)).astype(BF16)), shape=(ROWS, COLUMNS))


def _untransposed(call: Call) -> None:
    call.transposed = Output(call.tensor(np.zeros((ROWS, COLUMNS), np.uint8)))


def _outputs_overlap(call: Call) -> None:
    assert call.rows is not None
    call.transposed = Output(replace(call.rows.codes, shape=(COLUMNS, ROWS), strides=(ROWS, 1)))


def _scale_in_the_ring(call: Call) -> None:
    assert call.ring is not None
    call.scale = call.ring.multiplier


def _short_ring(call: Call) -> None:
    call.changed_ring(words=call.tensor(np.zeros(DOUBLE_BUFFERED.size(2) - 1, np.float32)))


def _three_dimensions(call: Call) -> None:
    call.x = call.tensor(np.ones((2, 4, COLUMNS)).astype(BF16))


def _other_type(call: Call) -> None:
    call.x = call.tensor(np.ones((ROWS, COLUMNS)))


def _blocks(count: Any) -> Callable[[Call], None]:
    def change(call: Call) -> None:
        call.max_blocks = count

    return change


REFUSALS: dict[str, tuple[Callable[[Call], None], str]] = {
    "no outputs": (_no_outputs, "nothing to write"),
    "format": (_foreign_format, "rows have format E2M1FN"),
    "no scale": (_no_scale, "neither a scale nor a ring"),
    "amax": (_amax_beside_a_ring_that_collects, "a double-buffered ring collects the maximum itself"),
    "strided": (_strided, "x must be contiguous"),
    "untransposed": (_untransposed, "transposed has C = 8"),
    "overlap": (_outputs_overlap, r"transposed \(output\) overlaps rows"),
    "scale in the ring": (_scale_in_the_ring, r"ring \(input and output\) overlaps scale"),
    "short ring": (_short_ring, "ring has words = 39; the least is 40"),
    "rank": (_three_dimensions, "x has 3 dimensions"),
    "type": (_other_type, "x has element type float64"),
    "no blocks": (_blocks(0), "max_blocks is 0"),
    "too many blocks": (_blocks(1057), r"max_blocks is 1057; it must lie in 1..1056"),
    "index": (lambda call: call.changed_ring(index=2), "index 2, outside its window of 2"),
    "negative index": (lambda call: call.changed_ring(index=-1), "index -1"),
    "window": (lambda call: call.changed_ring(window=0), "a window of 0"),
    "margin": (lambda call: call.changed_ring(margin=127), "margin 127"),
    "half a margin": (lambda call: call.changed_ring(margin=0.5), "margin = 0.5 of type float is no whole number"),
    "no margin": (lambda call: call.changed_ring(margin=math.nan), "margin = nan of type float"),
    "index and a half": (lambda call: call.changed_ring(index=1.5), "index = 1.5 of type float"),
    "a pair of truth": (lambda call: call.changed_ring(current=True), "current = True of type bool"),
    "a window of text": (lambda call: call.changed_ring(window="2"), "window = '2' of type str"),
    "a block and a half": (_blocks(1.5), "max_blocks = 1.5 of type float"),
    "pair": (lambda call: call.changed_ring(current=2), "no pair 2"),
    "target": (lambda call: call.changed_ring(target=E2M1FN), "scales for E2M1FN"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_call_that_is_not_legal_is_refused_by_name(name: str) -> None:
    change, words = REFUSALS[name]
    call = Call()
    change(call)
    with pytest.raises(Refusal, match=words):
        call()


def test_a_step_takes_bf16_only() -> None:
    with pytest.raises(Refusal, match="x has element type float16; by the step of a self-cleaning ring"):
        Call(np.dtype(np.float16), SELF_CLEANING)()


def test_a_seed_ring_needs_a_place_to_collect() -> None:
    call = Call(stage=SEED)
    with pytest.raises(Refusal, match="a seed ring has no place"):
        call()
    call.amax = call.tensor(np.zeros(1, np.float32))
    assert call().route == "vector"


def test_a_ring_of_another_device_is_refused() -> None:
    call, other = Call(), Call()
    call.ring = other.ring
    with pytest.raises(Refusal, match="ring lies on another device"):
        call()


def test_a_cast_alone_folds_nothing() -> None:
    call = Call()
    call.ring, call.scale = None, call.tensor(np.array([0.1], np.float32))
    report = call().report
    assert list(report.findings) == []
    assert call.rows is not None
    right = quantize(np.ones((ROWS, COLUMNS), BF16), np.float32(0.1), Stage.MULTIPLIER, Outputs(E4M3FN))
    np.testing.assert_array_equal(call.rows.codes.buffer.download(), right.rows)


def test_a_maximum_that_the_caller_has_not_zeroed_stays() -> None:
    call = Call(stage=SEED)
    call.amax = call.tensor(np.array([7.0], np.float32))
    call()
    assert call.amax.buffer.download()[0] == 7.0
    assert call.ring is not None
    assert call.ring.words.buffer.download()[0] == 7.0


@pytest.mark.parametrize(
    ("shape", "tiled", "most", "grid"),
    [
        ((0, 5), False, 9, (1, 1, 1)),
        ((0, 5), True, 9, (1, 1, 1)),
        ((1, 2048), False, 9, (1, 1, 1)),
        ((1, 2049), False, 9, (2, 1, 1)),
        ((100, 2048), False, 9, (9, 1, 1)),
        ((32, 64), True, 9, (1, 1, 1)),
        ((33, 65), True, 9, (2, 2, 1)),
        ((1000, 256), True, 9, (4, 2, 1)),
        ((1000, 6400), True, 9, (9, 1, 1)),
        ((2**40, 2**20), True, 1056, (1056, 1, 1)),
    ],
)
def test_a_grid_has_a_block_for_each_piece_of_work_up_to_the_most(
    shape: tuple[int, int], tiled: bool, most: int, grid: tuple[int, int, int]
) -> None:
    assert grid_of(shape, is_tiled=tiled, max_blocks=most) == grid


@pytest.mark.parametrize(
    ("x", "rows", "route"), [(0, 0, "vector"), (16, 16, "vector"), (8, 0, "scalar"), (0, 8, "scalar")]
)
def test_rows_alone_go_by_sixteen_bytes(x: int, rows: int, route: str) -> None:
    call = Call()
    assert call.rows is not None
    moved = Output(replace(call.rows.codes, offset_bytes=rows))
    assert select_route(replace(call.x, offset_bytes=x), moved, None) == route


@pytest.fixture(scope="module", params=VARIANTS, ids="-".join)
def module(request: pytest.FixtureRequest) -> CompiledModule:
    rows, transposed = request.param
    return compile_source(SOURCE, name=f"{NAME}.cu", defines=(f"FP8_ROWS={rows}", f"FP8_TRANSPOSED={transposed}"))


def test_arithmetic_is_ieee_and_nothing_is_spilled(module: CompiledModule) -> None:
    assert not re.search(r"\.ftz|\.approx|\bfma\.|\.local", module.ptx)
    assert len(module.entries) == 6
    for used in resources_of(module.report).values():
        assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes) == (0, 0, 0)
        assert used.registers <= 40, "six blocks of 256 threads share a multiprocessor"


def test_the_launchers_constants_are_the_sources() -> None:
    for name, value in (
        ("kThreads", launcher.THREADS),
        ("kVector", launcher.VECTOR_ELEMENTS),
        ("kTileRows", launcher.TILE_ROWS),
        ("kTileColumns", launcher.TILE_COLUMNS),
    ):
        assert f"constexpr int {name} = {value};" in SOURCE
    assert launcher.CHUNK_ROWS == 8
    assert "kChunkWords = 2;" in SOURCE


def test_assembly_stands_in_the_instruction_header_alone() -> None:
    assert not re.search(r"\basm\b", SOURCE)
    parts = expanded(NAME).split("#line 1 ")
    assert {part.split('"')[1].rsplit("/", 1)[-1] for part in parts if re.search(r"\basm\b", part)} == {"cvt.cuh"}


def test_e5m2_is_a_format_of_its_own() -> None:
    call = Call()
    call.rows = Output(call.tensor(np.zeros((ROWS, COLUMNS), np.uint8)), E5M2)
    call.ring, call.scale = None, call.tensor(np.array([1e6], np.float32))
    call()
    assert set(call.rows.codes.buffer.download().reshape(-1)) == {0x7B}
