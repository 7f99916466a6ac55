"""Arguments of the wrong kind: refused where they come in, and numpy integers reckoned with as Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileproof.oracle import routing, scale_ring
from tileproof.oracle.addresses.tma_tile import TmaBox
from tileproof.oracle.addresses.xor_tile import chunk_swizzle, cp_async_tile
from tileproof.oracle.banks import bank_use
from tileproof.oracle.diagnosis import diagnose_tile
from tileproof.oracle.epilogue import Axis, EpilogueRule
from tileproof.oracle.epilogues.epilogue_array import Operands
from tileproof.oracle.formats import E4M3FN
from tileproof.oracle.gemm import combine, gemm
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.maps.mma_fragments import mma_a
from tileproof.oracle.maps.wgmma_descriptor import MatrixDescriptor
from tileproof.oracle.maps.wgmma_tile import tile_offset
from tileproof.oracle.matrix_unit import define, describe, multiply_add
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.ptx_conversion import scale_code
from tileproof.oracle.products.accumulation_order import AccumulationOrder, SplitK
from tileproof.oracle.products.exact_product import exact_product
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_stage import SEED
from tileproof.oracle.ring.ring_state import fresh
from tileproof.oracle.ring.scale_formula import seed_scale
from tileproof.oracle.ring.scale_recipe import ScaleRecipe
from tileproof.oracle.routes import gemm_dispatch
from tileproof.oracle.routes.coverage import Interval
from tileproof.oracle.routes.gemm_problem import GemmProblem
from tileproof.oracle.routes.int8_lineages import TP4_M4096
from tileproof.oracle.routes.int8_routing import fuses_combine, int8_route
from tileproof.oracle.routes.routing_calibration import ATTENTION, RTX_5090, TMA_SCHEDULE
from tileproof.oracle.scaling import astrai_quantize, int8, mx, scale_rule
from tileproof.oracle.swizzle import Swizzle

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


WGMMA = "wgmma.m64n8k32.f32.e4m3.e4m3"
DECLARED = AccumulationOrder(instruction=WGMMA, arch="sm_90a", assembler="13.0")
DESCRIPTOR = MatrixDescriptor(start=0, leading_bytes=128, stride_bytes=256)
NUMBER = Number.of(1)
X = np.ones((1, 32), np.float32)
CODES = np.zeros((1, 32), np.uint8)


def order(**changes: Any) -> AccumulationOrder:
    return AccumulationOrder(**({"instruction": WGMMA, "arch": "sm_90a", "assembler": "13.0"} | changes))


def step(**changes: Any) -> object:
    return scale_ring.step(fresh(SEED, 2), Amax(np.float32(1)), ScaleRecipe(), **changes)


#: Calls with a text where a member of an enumeration belongs, by the argument that the refusal names.
TEXT_FOR_MEMBER: dict[str, tuple[Callable[[Any], object], str]] = {
    "stage": (lambda text: astrai_quantize.quantize(X, np.float32(2), text), "MULTIPLIER"),
    "stage of a code": (lambda text: astrai_quantize.quantize_code(NUMBER, NUMBER, text, E4M3FN), "STEP"),
    "k_order": (lambda text: order(k_order=text), "ascending"),
    "ragged_k": (lambda text: order(ragged_k=text), "refused"),
    "partition": (lambda text: SplitK(parts=2, tile=32, partition=text), "contiguous"),
    "combination": (lambda text: SplitK(parts=2, tile=32, combination=text), "ascending"),
    "combination of sums": (lambda text: combine(text, [ONE, ONE]), "ascending"),
    "mode": (lambda text: mx.quantize_mx(X, text), "FLOOR"),
    "mode of a block": (lambda text: mx.quantize_mx_block([NUMBER] * 32, text, E4M3FN), "CEIL"),
    "occasion": (lambda text: step(occasion=text), "TRAINING"),
    "role": (lambda text: step(role=text), "x"),
    "division": (lambda text: step(division=text), "QUOTIENT"),
    "division of a seed": (lambda text: seed_scale(NUMBER, E4M3FN, 0, text), "RECIPROCAL"),
    "role of a recipe": (lambda text: ScaleRecipe().ring_format(text), "g"),
    "fill": (lambda text: TmaBox(extents=(16,), element_bytes=1, fill=text), "zero"),
    "access": (lambda text: bank_use(range(0, 128, 4), 4, access=text), "load"),
    "addend": (lambda text: EpilogueRule(name="rule", factors=(Axis.ROW,), addend=text, source=""), "nothing"),
    "output": (lambda text: EpilogueRule(name="rule", factors=(Axis.ROW,), output=text, source=""), "E4M3"),
    "contraction": (lambda text: EpilogueRule(name="rule", factors=(Axis.ROW,), contraction=text, source=""), "NONE"),
    "factor": (lambda text: EpilogueRule(name="rule", factors=(text,), source=""), "[T]"),
    "apply": (lambda text: scale_rule.ScaleRule(name="rule", max_norm=448, apply=text, source=""), "DIVIDE"),
    "step": (lambda text: scale_rule.ScaleRule(name="rule", max_norm=448, step=text, source=""), "DIVIDE"),
    "major": (lambda text: tile_offset(DESCRIPTOR, 0, 0, bits=16, major=text), "K-major"),
    "rounding": (lambda text: scale_code(text, np.zeros(1, np.uint32), True), "rp"),
    "ties": (lambda text: int8.round_integer(NUMBER, text), "EVEN"),
    "ties of a rule": (lambda text: int8.Int8Rule(name="r", scale=scale_rule.VLLM_INT8, ties=text, source=""), "EVEN"),
}


@pytest.mark.parametrize("argument", TEXT_FOR_MEMBER)
def test_a_text_is_no_member_of_an_enumeration(argument: str) -> None:
    call, text = TEXT_FOR_MEMBER[argument]
    with pytest.raises(Refusal, match=f"{argument.split()[0]} is '.*', no member of"):
        call(text)


def test_the_matrix_products_refuse_leading_dimensions_that_do_not_broadcast() -> None:
    a, b = np.zeros((2, 1, 32), np.uint8), np.zeros((3, 1, 32), np.uint8)
    for call in (lambda: gemm(DECLARED, a, b), lambda: exact_product("e4m3", "e4m3", a, b)):
        with pytest.raises(Refusal, match=r"leading dimensions of a and b are \(2,\), \(3,\)"):
            call()


@pytest.mark.parametrize("call", [multiply_add, define, lambda name, *_, **more: describe(name, **more)])
@pytest.mark.parametrize("argument", ["instruction", "arch", "assembler"])
@pytest.mark.parametrize("value", [None, 90, b"sm_90", ["sm_90"]], ids=repr)
def test_a_matrix_unit_takes_names_as_text_only(call: Callable[..., object], argument: str, value: Any) -> None:
    named = {"instruction": WGMMA, "arch": "sm_90", "assembler": "12.8"} | {argument: value}
    with pytest.raises(Refusal, match=argument):
        call(named.pop("instruction"), CODES, CODES, np.zeros((1, 1), np.float32), **named)
    with pytest.raises(Refusal):
        order(**{argument: value})


@pytest.mark.parametrize(
    "name",
    [
        "mma.m016n8k32.f32.e4m3.e4m3",
        "mma.m16n08k32.f32.e4m3.e4m3",
        "mma.m16n8k\u0663\u0662.f32.e4m3.e4m3",
        "mma.m16n8k32.kind::.f32.e4m3.e4m3",
        "mma.m16n8k32..f32.e4m3.e4m3",
        "mma.m0n8k32.f32.e4m3.e4m3",
    ],
)
def test_an_instruction_has_one_spelling(name: str) -> None:
    with pytest.raises(Refusal, match=r"is no shape|nothing stands between|followed by no name"):
        describe(name)


LANES = np.arange(32) * 4

ADDRESSES: dict[str, tuple[Callable[[], object], str]] = {
    "float addresses": (lambda: bank_use(LANES + 0.5, 4), "no integers"),
    "text addresses": (lambda: bank_use([str(lane) for lane in LANES], 4), "no integers"),
    "addresses above int64": (
        lambda: bank_use(np.full(32, 2**63, np.uint64), 4),
        "lane 0: address 9223372036854775808",
    ),
    "float width": (lambda: bank_use(LANES, 4.0), "width_bytes = 4.0"),  # type: ignore[arg-type]
    "rows of 0 bytes": (lambda: diagnose_tile(CODES[0], CODES[0], 0), "rows of 0 bytes"),
    "rows of -64 bytes": (lambda: diagnose_tile(CODES[0], CODES[0], -64), "rows of -64 bytes"),
    "rows of 64.0 bytes": (lambda: diagnose_tile(CODES[0], CODES[0], 64.0), "row_bytes = 64.0"),  # type: ignore[arg-type]
    "float bits": (lambda: Swizzle(1.0, 4, 3), "bits = 1.0"),  # type: ignore[arg-type]
    "text base": (lambda: Swizzle(1, "4", 3), "base = '4'"),  # type: ignore[arg-type]
    "no shift": (lambda: Swizzle(1, 4, None), "shift = None"),  # type: ignore[arg-type]
    "float span": (lambda: Swizzle.tma(64.0), "span_bytes = 64.0"),  # type: ignore[arg-type]
    "list of spans": (lambda: Swizzle.tma([64]), "span_bytes"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_mistyped_address_is_refused(name: str) -> None:
    call, match = ADDRESSES[name]
    with pytest.raises(Refusal, match=match):
        call()


def test_an_idle_lane_may_hold_any_address() -> None:
    addresses = np.arange(0, 128, 4, dtype=np.uint64)
    addresses[5] = 2**64 - 1
    active = np.arange(32) != 5
    assert bank_use(addresses, 4, active=active).passes == 1


def test_a_swizzle_of_numpy_integers_is_that_of_python_integers() -> None:
    assert Swizzle(np.uint8(3), np.uint8(4), np.int8(3)).atom_bytes == 1024  # type: ignore[arg-type]
    assert Swizzle.tma(np.uint8(128)) == Swizzle.tma(128)  # type: ignore[arg-type]
