"""The dispatcher of mm_fp8 is held to the oracle's rule, its records to the source."""

from itertools import product

import pytest

from tileproof.kernels.compile import CompiledModule, CompileError, compile_source
from tileproof.kernels.mm_fp8 import BF16, E4M3, NAME, OUTPUTS, SOURCE, variant
from tileproof.kernels.mm_fp8_dispatch import SCHEDULES, SEED_TOP, Layout, Route, raster_group, select
from tileproof.kernels.occupancy import PLAIN_SHARED_BYTES, occupancy
from tileproof.kernels.resources import resources_of
from tileproof.oracle.routes import gemm_dispatch
from tileproof.oracle.routes.gemm_dispatch import BATCHED, plan_gemm
from tileproof.oracle.routes.gemm_problem import GemmProblem

LAYOUTS = [Layout(a, b) for a, b in product((False, True), repeat=2)]
EXTENTS = (1, 64, 65, 128, 129, 512, 1024, 2048, 2049, 4096, 8192)


@pytest.mark.parametrize("sm_count", [1, 24, 92, 132, 170])
def test_the_choice_is_the_oracles(sm_count: int) -> None:
    for layout, rows, columns, batch in product(LAYOUTS, EXTENTS, EXTENTS, (1, 4, 64)):
        problem = GemmProblem(
            m=rows,
            n=columns,
            k=64,
            sm_count=sm_count,
            batch=batch,
            a_crosswise=layout.a_crosswise,
            b_crosswise=layout.b_crosswise,
        )
        plan, schedule = plan_gemm(BATCHED, problem), SCHEDULES[select(rows, columns, batch, sm_count)]
        assert plan.cta.value == (schedule.extent, schedule.extent)
        assert (plan.stages, plan.lean, plan.stages_b) == (schedule.stages, schedule.lean, False)
        assert max(plan.raster, 1) == raster_group(layout)


def test_the_choice_changes_at_the_thresholds() -> None:
    """14/3 of 132 multiprocessors are 616 tiles, and 64 rows are small whatever the columns."""
    assert select(128 * 22, 128 * 28, 1, 132) is Route.LARGE
    assert select(128 * 5, 128 * 41, 3, 132) is Route.SMALL_LEAN, "615 tiles"
    assert select(64, 128 * 1000, 1, 132) is Route.SMALL_LEAN
    assert select(65, 128 * 1000, 1, 132) is Route.LARGE
    assert select(8192, 8192, 1, 0) is Route.SMALL_LEAN, "an unknown device"
    assert SEED_TOP.small_rows == gemm_dispatch.SMALL_ROWS
    assert SEED_TOP.raster_group == gemm_dispatch.RASTER_GROUP


def compiled(route: Route, layout: Layout, *claims: str) -> CompiledModule:
    text = SOURCE + "".join(f"static_assert({claim});\n" for claim in claims)
    return compile_source(text, name=f"{NAME}.cu", defines=variant(layout, route, E4M3, BF16))


@pytest.mark.parametrize("route", Route)
def test_a_schedule_is_the_sources(route: Route) -> None:
    schedule, layout = SCHEDULES[route], Layout(a_crosswise=True, b_crosswise=False)
    extents = f"Block::kRows == {schedule.extent} && Block::kColumns == {schedule.extent}"
    shared = f"sizeof(Shared) == {schedule.shared_bytes(layout)}"
    compiled(route, layout, extents, shared, f"Block::kThreads == {schedule.threads}")


def test_a_schedule_that_is_not_the_sources_does_not_compile() -> None:
    layout = Layout(a_crosswise=False, b_crosswise=False)
    with pytest.raises(CompileError, match="static assertion failed"):
        compiled(Route.SMALL_LEAN, layout, f"sizeof(Shared) == {SCHEDULES[Route.SMALL].shared_bytes(layout)}")


@pytest.mark.parametrize("route", [Route.LARGE, Route.SMALL_LEAN])
def test_two_blocks_share_a_multiprocessor_and_next_to_nothing_spills(route: Route) -> None:
    layout, schedule = Layout(a_crosswise=True, b_crosswise=True), SCHEDULES[route]
    used = resources_of(compiled(route, layout).report)[NAME]
    assert used.spill_store_bytes + used.spill_load_bytes <= 16
    shared = schedule.shared_bytes(layout)
    assert shared <= PLAIN_SHARED_BYTES, "no launcher has to opt in"
    assert occupancy("sm_90a", used, threads=schedule.threads, dynamic_shared_bytes=shared).blocks >= 2


def test_every_float_operation_says_how_it_rounds() -> None:
    for output in OUTPUTS:
        defines = variant(Layout(a_crosswise=False, b_crosswise=False), Route.SMALL_LEAN, E4M3, output)
        ptx = compile_source(SOURCE, name=f"{NAME}.cu", defines=defines).ptx
        assert "fma.rn.f32" in ptx
        assert not any(f"{name}.f32" in ptx for name in ("mul", "add", "fma"))
