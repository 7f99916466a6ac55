"""Differences by tile, warp and lane: in each of our kernels one register of one lane is changed, and that is told."""

from dataclasses import dataclass

import numpy as np
import pytest

from tileproof.conformance.contract import EditedSource
from tileproof.conformance.division import Division, mark, particular_units_of, units_of
from tileproof.conformance.failure_units import unit_lines
from tileproof.conformance.finding import UnitMap
from tileproof.conformance.our_divisions import MMA, chosen_mm_fp8, int8_gemm, mm_fp8
from tileproof.conformance.our_thread_divisions import (
    CHUNK,
    OWN_ROWS,
    ROW_THREADS,
    ROW_VECTOR,
    SCALAR_THREADS,
    flat_codes,
    int8_pack,
    int8_scalar,
    row_codes,
    tile_codes,
)
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.conformance.show import source_of
from tileproof.conformance.target import Coordinates, Schedule, Target, open_device
from tileproof.conformance.thread_division import ThreadDivision, strided
from tileproof.kernels import fp8_quantize_tensor
from tileproof.oracle.maps.wgmma_fragments import wgmma_d
from tileproof.oracle.refusal import Refusal

FRIENDLY = Coordinates(Target.SIM, schedule=Schedule.FRIENDLY)
IF_IT_IS = "if (threadIdx.x / 32 == {warp} && threadIdx.x % 32 == {lane}) "


@dataclass(frozen=True)
class Change:
    """An addition to one register: where in the source, what, in which case, and what must be told."""

    kernel: str
    case: str
    before: str
    statement: str
    warp: int
    lane: int
    where: str
    made: tuple[str, str] = ("", "")
    """A text that must stand otherwise for the statement to compile."""
    output: str = "out"


CHANGES = (
    Change(
        "fp8_a8_gemm_tma",
        "ninfer_linear/fp8_a8_gemm/tma/T257.N128.K64/on-grid/0",
        "    stage_sums<Output>",
        "sum[1][2][3] += 1e6f;",
        3,
        5,
        "the one that differs lies in tile (0, 0), warp 3, fragment (1, 2), lane 5, register 3",
    ),
    Change(
        "fp8_a8_gemm_cp_async",
        "ninfer_linear_swiglu/fp8_a8_gemm/cp-async/T65.N256.K128/on-grid/0",
        "    stage_sums<Output>",
        "sum[0][3][0] += 1e6f;",
        4,
        17,
        "all 2 lie in tiles (0, 0) and (0, 1), warp 4, fragment (0, 3), lane 17, register 0",
    ),
    Change(
        "fp8_a8_gemm_fallback",
        "ninfer_linear/fp8_a8_gemm/fallback/T65.N9.K33/on-grid/0",
        "#pragma unroll\n    for (int j = 0; j < 4; ++j) {\n        const Index token",
        "sum[0][1] += 1e6f;",
        2,
        30,
        "the one that differs lies in tile (0, 0), warp 2, lane 30, register 1",
    ),
    Change(
        "mm_fp8",
        "astrai_mm_fp8/mm_fp8/128x128-s2/Ba0.Bb0.M129.N129.K64.nte4m3/on-grid/0",
        "    stage_sums<Block",
        "sum[3][1][2] += 1e6f;",
        6,
        12,
        "the one that differs lies in tile (0, 0), warp 6, fragment (3, 1), lane 12, register 2",
    ),
    Change(
        "mm_fp8",
        "astrai_mm_fp8/mm_fp8/64x64-s3-lean/Ba2.Bb2.M33.N40.K32.nte4m3/on-grid/0",
        "    stage_sums<Block",
        "sum[1][0][1] += 1e6f;",
        1,
        0,
        "all 2 lie in warp 1, fragment (1, 0), lane 0, register 1; in every tile",
    ),
    Change(
        "mm_fp8",
        "astrai_linear/fp8_linear/training/P0.S3.B0.M5.N9.K17.W2.e4m3e5m2/rising/0",
        "    stage_sums<Block",
        "sum[0][0][1] += 1e6f;",
        0,
        3,
        "all 3 lie in fragment (0, 0), lane 3, register 1; in every tile",
    ),
    Change(
        "int8_gemm_tile",
        "metainfer_w8a8_gemm/int8_gemm/256x64x64-b1/M256.N128.K64.S0.nk8/uniform/0",
        "    write_outputs(",
        "sums.of[3][2][1] += 1 << 24;",
        5,
        9,
        "all 2 lie in warp 5, fragment (3, 2), lane 9, register 1; in every tile",
        ("const Sums<BlockTile> sums", "Sums<BlockTile> sums"),
    ),
    Change(
        "int8_gemm_wgmma",
        "metainfer_w8a8_gemm/int8_gemm/wgmma-128x256-s4/M128.N256.K16.S0.nk8/uniform/0",
        "        const Origin of_part",
        "if (part == 1) sums[part].of[0][7][2] += 1 << 24;",
        6,
        21,
        "the one that differs lies in warp 6, fragment (0, 1), lane 21, register 30",
    ),
    Change(
        "int8_gemm_decode",
        "metainfer_w8a8_gemm/int8_gemm/decode-fused/M17.N128.K128.S1.nk8/uniform/0",
        "    int* plane =",
        "sums.of[0][1][3] += 1 << 24;",
        2,
        7,
        "all 2 lie in warp 2, fragment (0, 1), lane 7, register 3; in every tile",
        ("const Sums<BlockTile>& sums, Origin origin, int part)", "Sums<BlockTile> sums, Origin origin, int part)"),
    ),
    Change(
        "int8_gemm_scalar",
        "metainfer_w8a8_gemm/int8_gemm/scalar/M2.N200.K16.S0.nk8/uniform/0",
        "    const unsigned bits",
        "sum += 1 << 24;",
        1,
        30,
        "all 4 lie in warp 1, lane 30; in every tile",
    ),
    Change(
        "fp8_quantize_rows",
        "ninfer_quantize/fp8_quantize_rows/vector/T2.K2120.bf16/on-grid/0",
        "        *reinterpret_cast<uint2*>(codes + k) = words;",
        "words.x ^= 1u << 24;",
        0,
        5,
        "all 4 lie in warp 0, lane 5, element 3; in every tile and step",
        ("        const uint2 words = {scaled_word", "        uint2 words = {scaled_word"),
        output="codes",
    ),
    Change(
        "fp8_quantize_rows",
        "ninfer_quantize/fp8_quantize_rows/vector/T2.K1029.bf16.xpad3.cpad3/on-grid/0",
        "    }\n}\n\ntemplate <class Element, bool kVectorRoute>",
        "codes[k] ^= 1;",
        0,
        2,
        "all 2 lie in warp 0, lane 2, element tail; in every tile",
        output="codes",
    ),
    Change(
        "fp8_quantize_rows",
        "ninfer_quantize/fp8_quantize_rows/scalar/T2.K300.bf16.xoff1/on-grid/0",
        "    }\n}\n\ntemplate <class Element, bool kVectorRoute>",
        "codes[k] ^= 1;",
        1,
        7,
        "all 4 lie in warp 1, lane 7; in every tile and step",
        output="codes",
    ),
    Change(
        "fp8_quantize_tensor",
        "astrai_quantize/fp8_quantize_tensor/vector/R3.C1000.B12.S4.W16.bf16re4m3/ties/0",
        "        *reinterpret_cast<uint2*>(cast.codes + i) = words;",
        "words.y ^= 1u << 8;",
        3,
        9,
        "all 2 lie in warp 3, lane 9, element 5; in every step",
        ("        const uint2 words = {code_word", "        uint2 words = {code_word"),
        output="rows",
    ),
    Change(
        "fp8_quantize_tensor",
        "astrai_quantize/fp8_quantize_tensor/tile-vector/R40.C128.B12.S4.W16.bf16re4m3te5m2/ties/0",
        "            store_pair<Rows, kVectorRoute>(cast, row + warp",
        "if (i == 2) values[1] = values[1] == 0.0f ? 1.0f : -values[1];",
        1,
        11,
        "all 4 lie in warp 1, lane 11, element 5; in every tile",
        output="rows",
    ),
    Change(
        "fp8_quantize_tensor",
        "astrai_quantize/fp8_quantize_tensor/tile-vector/R40.C128.B12.S4.W16.bf16re4m3te5m2/ties/0",
        "    store_chunk<kVectorRoute>(cast, row + chunk",
        "columns[own][chunk * kChunkWords + 1] ^= 1u << 16;",
        2,
        13,
        "all 2 lie in tiles (0, 0) and (1, 0), warp 2, lane 13, element 6",
        output="transposed",
    ),
    *(
        Change(
            "int8_pack",
            f"metainfer_pack/int8_pack/vector/K512.N64.{order}/random/0",
            f"{store}(to, patch, of, turned);",
            "turned.words[3][1] ^= 0xff00u;",
            1,
            3,
            f"all 2 lie in warp 1, lane 3, element {element}; in every step",
            (
                f"{store}(to, patch, of, {load}(from, patch, of).transposed());",
                f"Square turned = {load}(from, patch, of).transposed();\n        {store}(to, patch, of, turned);",
            ),
            output=output,
        )
        for order, output, store, load, element in (
            ("f16k32", "packed", "store_runs", "load_rows", 16 * 5 + 3),
            ("f32k256", "packed", "store_runs", "load_rows", 16 * 5 + 3),
            ("unf32k256", "raw", "store_rows", "load_runs", 16 * 3 + 5),
        )
    ),
    Change(
        "int8_pack",
        "metainfer_pack/int8_pack/scalar/K9.N100.nk8/random/0",
        '}\n\nextern "C" __global__ void __launch_bounds__(kPatchThreads)\n    int8_pack_vector',
        "to[kPack ? packed : raw] ^= 1;",
        4,
        31,
        "all 3 lie in steps 0, 1 and 2, warp 4, lane 31",
        output="packed",
    ),
)


@pytest.mark.parametrize("change", CHANGES, ids=[change.case.split("/")[2] for change in CHANGES])
def test_a_changed_register_is_told_by_its_tile_warp_lane_and_number(change: Change) -> None:
    _, text = source_of(change.kernel)
    condition = IF_IT_IS.format(warp=change.warp, lane=change.lane)
    edited = text.replace(*change.made) if change.made[0] else text
    assert edited.count(change.before) == 1
    edited = edited.replace(change.before, f"{condition}{change.statement}\n{change.before}")
    result = run_case(find_case(change.case), open_device(FRIENDLY), kernel_source=EditedSource(change.kernel, edited))
    told = [one.mismatch.units for one in result.findings if one.tensor == change.output and one.mismatch]
    assert [units.where for units in told if units] == [change.where]


def test_an_element_has_the_place_that_the_module_works_out() -> None:
    division = mm_fp8("128x128-s2")
    assert division is not None
    places = {name: int(numbers[75, 13]) for name, numbers in division.places().items()}
    assert places == {"warp": 4, "fragment": 1, "lane": 14, "register": 3}


@pytest.mark.parametrize(
    ("division", "steps"),
    [
        (row_codes("vector", 5000), 3),
        (row_codes("scalar", 300), 2),
        (flat_codes("vector", 4099), 2),
        (tile_codes(transposed=False), 1),
        (tile_codes(transposed=True), 1),
        (int8_scalar(), 1),
        (int8_pack("scalar", "n-major", (9, 100), packs=True), 4),
        *(
            (int8_pack("vector", order, (512, 128), packs=packs), 4)
            for order in ("contiguous", "n-major", "fragment", "fragment-pairs")
            for packs in (False, True)
        ),
    ],
)
def test_no_two_elements_of_a_tile_are_the_same_one_of_one_thread(division: ThreadDivision, steps: int) -> None:
    kinds, places = {kind.name: kind for kind in division.kinds()}, division.places()
    assert len(kinds["step"].names) == steps if steps > 1 else "step" not in kinds
    rows = np.stack([places[name] for name in ("step", "warp", "lane", "element")]).reshape(4, -1)
    assert rows.min() >= 0
    assert len(np.unique(rows, axis=1).T) == division.tile[0] * division.tile[1]
    assert all(places[name].max() < len(kinds[name].names) for name in kinds)


def test_what_hangs_on_values_is_not_drawn_by_threads_and_what_lies_in_one_lane_is() -> None:
    division, random = row_codes("vector", 2048), np.random.default_rng(0)
    assert division is not None
    scattered, one_lane = random.random((3, 2048)) < 0.1, np.zeros((3, 2048), np.bool_)
    one_lane[:, 8 * 37 + 2] = True
    assert particular_units_of(division, scattered) is None
    units = particular_units_of(division, one_lane)
    assert units is not None
    assert units.where == "all 3 lie in warp 1, lane 5, element 2; in every tile"
    assert unit_lines(units)[2].endswith("elements 0-7 down, lanes 0-31 across")
    tail, short = row_codes("vector", 5003), row_codes("vector", 7)
    assert tail is not None
    assert short is not None
    assert [kind.name for kind in tail.kinds()] == ["step", "warp", "lane", "element"]
    assert [kind.name for kind in short.kinds()] == ["warp", "lane"], "single elements alone"
    assert particular_units_of(Division((64, 64), (32, 32), MMA), scattered) is not None


def test_constants_of_threads_are_those_of_the_sources() -> None:
    for kernel, name, value in (
        ("fp8_quantize_rows", "kThreads", ROW_THREADS),
        ("fp8_quantize_rows", "kVector", ROW_VECTOR),
        ("int8_gemm_scalar", "kScalarThreads", SCALAR_THREADS),
        ("fp8_quantize_tensor", "kThreads", fp8_quantize_tensor.THREADS),
        ("fp8_quantize_tensor", "kVector", fp8_quantize_tensor.VECTOR_ELEMENTS),
        ("fp8_quantize_tensor", "kTileRows", fp8_quantize_tensor.TILE_ROWS),
        ("fp8_quantize_tensor", "kTileColumns", fp8_quantize_tensor.TILE_COLUMNS),
    ):
        assert f"constexpr int {name} = {value};" in source_of(kernel)[1], f"{kernel}: {name}"
    assert OWN_ROWS == fp8_quantize_tensor.TILE_ROWS // (fp8_quantize_tensor.THREADS // 32)
    assert CHUNK == 2 * 4, "kChunkWords words"


@pytest.mark.parametrize("size", [0, 1 << 21])
def test_what_is_empty_or_too_large_to_draw_has_no_division(size: int) -> None:
    assert row_codes("vector", size) is None
    assert flat_codes("scalar", size) is None
    assert int8_pack("scalar", "n-major", (1, size), packs=True) is None
    assert row_codes("empty", 64) is None
    with pytest.raises(Refusal, match=f"a tile of {size} elements"):
        ThreadDivision((1, size), 32, ["0"], lambda: strided(size, 1, 32), "words")


def test_every_place_of_a_tile_holds_one_element() -> None:
    """Of all kernels: warp, fragment, lane and register together number the elements of a tile."""
    for division in (mm_fp8("64x64-s3"), int8_gemm("256x64x64-b1", 9), int8_gemm("wgmma-128x256-s4", 9)):
        assert division is not None
        places = np.stack(list(division.places().values())).reshape(4, -1)
        assert len(np.unique(places, axis=1).T) == division.tile[0] * division.tile[1]


def test_a_warpgroup_counts_four_warps_and_a_producer_before_them_is_counted_too() -> None:
    division = Division((128, 64), (64, 64), wgmma_d(64, 32, 32), first_warp=4)
    differs = np.zeros((128, 64), np.bool_)
    differs[64 + 16 * 2, :] = True
    units = units_of(division, differs)
    assert units.where == "all 64 lie in warp 10, lanes with lane / 4 = 0, 16 of 32 registers"


def test_what_all_have_in_common_is_told_and_what_they_have_not_is_counted() -> None:
    division = Division((64, 64), (32, 32), MMA)
    quads, rows = np.zeros((128, 128), np.bool_), np.zeros((128, 128), np.bool_)
    quads[:, 6::8] = True
    assert units_of(division, quads).where == (
        "all 2048 lie in lanes with lane % 4 = 3, registers 0 and 2; in every tile, warp and fragment"
    )
    rows[5:7] = True
    assert units_of(division, rows).where == (
        "all 256 lie in tiles (0, 0) and (0, 1), warps 0 and 1, 4 of 8 fragments, 8 of 32 lanes, registers 0 and 1"
    )
    assert units_of(division, ~(rows & False)).where == "in every tile, warp, fragment, lane and register"


def test_the_maps_stand_beside_each_other_and_stay_small() -> None:
    differs = np.zeros((4096, 8192), np.bool_)
    differs[:, 2::8] = True
    units = units_of(Division((128, 256), (64, 256), wgmma_d(128, 32, 32)), differs)
    lines = unit_lines(units)
    assert len(lines) <= 2 + 2 * 17
    assert max(map(len, lines)) <= 120
    assert [len(one.rows) for one in units.maps] == [16, 8, 1, 64]


def test_marks_say_tenths_and_an_absent_unit_has_none() -> None:
    assert [mark(*pair) for pair in ((0, 0), (0, 5), (1, 100), (55, 100), (99, 100), (5, 5))] == [*" .159#"]


def test_a_route_without_tiles_has_no_division() -> None:
    assert mm_fp8("empty") is None
    assert chosen_mm_fp8((5,), 9) == mm_fp8("64x64-s3-lean")
    assert chosen_mm_fp8((2, 5), 9) is None, "rows of two matrices are one"
    assert chosen_mm_fp8((4096,), 4096) is None, "devices choose differently"


@pytest.mark.parametrize("rows", [(), ("",), ("..", "."), ("..", ".x"), ("\x1b[31m",)])
def test_a_map_of_a_damaged_file_is_refused(rows: tuple[str, ...]) -> None:
    with pytest.raises(Refusal, match="no rectangle of marks"):
        UnitMap("warps", rows)
