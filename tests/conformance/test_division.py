"""Differences by tile, warp and lane: in each of our kernels one register of one lane is changed, and that is told."""

from dataclasses import dataclass

import numpy as np
import pytest

from tileproof.conformance.contract import EditedSource
from tileproof.conformance.division import Division, mark, units_of
from tileproof.conformance.failure_units import unit_lines
from tileproof.conformance.finding import UnitMap
from tileproof.conformance.our_divisions import MMA, chosen_mm_fp8, int8_gemm, mm_fp8
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import run_case
from tileproof.conformance.show import source_of
from tileproof.conformance.target import Coordinates, Schedule, Target, open_device
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
)


@pytest.mark.parametrize("change", CHANGES, ids=[change.case.split("/")[2] for change in CHANGES])
def test_a_changed_register_is_told_by_its_tile_warp_lane_and_number(change: Change) -> None:
    _, text = source_of(change.kernel)
    assert text.count(change.before) == 1
    condition = IF_IT_IS.format(warp=change.warp, lane=change.lane)
    edited = text.replace(*change.made) if change.made[0] else text
    edited = edited.replace(change.before, f"{condition}{change.statement}\n{change.before}")
    result = run_case(find_case(change.case), open_device(FRIENDLY), kernel_source=EditedSource(change.kernel, edited))
    told = [one.mismatch.units for one in result.findings if one.tensor == "out" and one.mismatch]
    assert [units.where for units in told if units] == [change.where]


def test_an_element_has_the_place_that_the_module_works_out() -> None:
    division = mm_fp8("128x128-s2")
    assert division is not None
    places = {name: int(numbers[75, 13]) for name, numbers in division.places().items()}
    assert places == {"warp": 4, "fragment": 1, "lane": 14, "register": 3}


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
    assert int8_gemm("scalar", 4) is None
    assert chosen_mm_fp8((5,), 9) == mm_fp8("64x64-s3-lean")
    assert chosen_mm_fp8((2, 5), 9) is None, "rows of two matrices are one"
    assert chosen_mm_fp8((4096,), 4096) is None, "devices choose differently"


@pytest.mark.parametrize("rows", [(), ("",), ("..", "."), ("..", ".x"), ("\x1b[31m",)])
def test_a_map_of_a_damaged_file_is_refused(rows: tuple[str, ...]) -> None:
    with pytest.raises(Refusal, match="no rectangle of marks"):
        UnitMap("warps", rows)
