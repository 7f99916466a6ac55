"""Which tile AstrAI's FP8 GEMM takes, at each of its stages.

All quotients are of integers, rounded down, as in the source: 5/8 of 92 SMs are 57 tiles.

    fused          one 128 x 64 kernel that casts inside
    ring           m <= 64: 64 x 128, else 128 x 128; crosswise B is staged from k = 8192 on
    lean           m <= 64: 64 x 128, both lean; below 48 tiles 64 x 64 of 3 stages, lean; else 128 x 128
    batched        m <= 64 or below 14/3 tiles an SM: 64 x 64 of 3 stages, lean; else 128 x 128
    base-pair      m <= 64 or below 5/8 tiles an SM: 64 x 64, 2 stages up to 3 small tiles an SM and 3 beyond
    planned        padding rule, then a ladder for crosswise operands and one for congruous operands (`_planned`)

"Tiles" are those of 128 x 128 in the whole batch (in one matrix at the lean stage, which has no batch). A lean ring has
as many slots as stages and a second barrier; a full ring has one slot more.

Example, planned, m = n = 1280, one matrix, 92 SMs, congruous: 100 tiles are 2 waves, 200; narrow tiles are 200, 3 waves
of 53, 159; 159 < 200, so 128 x 64.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from tileproof.oracle.arguments import require_member
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes.coverage import Band, Interval, bands
from tileproof.oracle.routes.gemm_problem import Cta, GemmPlan, GemmProblem, ceil_div

#: Rows of the output that waste half of a 128-row tile.
SMALL_ROWS = 64
#: Contraction length from which a crosswise B is staged, in the first two stages.
STAGED_FROM_K = 8192
#: Tiles below which the lean stage takes small ones: two waves of a 24-SM device.
LEAN_TILES = 48
#: Cost of a 128 x 64 tile in hundredths of a 128 x 128 tile; measured by AstrAI on an L20 (92 SMs).
NARROW_COST = 53
#: Tiles along which the rasters go before they step.
RASTER_GROUP = 8


class Axis(Enum):
    """An extent of the problem."""

    M = "m"
    N = "n"
    K = "k"


@dataclass(frozen=True, kw_only=True)
class DispatchStage:
    """One stage of the dispatch."""

    name: str
    plan: Callable[[GemmProblem], GemmPlan]
    #: Whether it takes batches.
    batched: bool
    source: str
    evidence: Evidence


def plan_gemm(stage: DispatchStage, problem: GemmProblem) -> GemmPlan:
    """The plan of one call.

    Raises:
        Refusal: a batch at a stage that has none.
    """
    if problem.batch > 1 and not stage.batched:
        raise Refusal(f"a batch of {problem.batch} at the {stage.name} stage", hint="that stage multiplies one matrix")
    return stage.plan(problem)


def plan_coverage(
    stage: DispatchStage, problem: GemmProblem, axis: Axis, widths: Interval
) -> tuple[Band[GemmPlan], ...]:
    """Which extents of one axis reach which plan, the rest of the problem fixed."""
    require_member(Axis, "axis", axis)

    def plan(width: int) -> GemmPlan:
        match axis:
            case Axis.M:
                return plan_gemm(stage, replace(problem, m=width))
            case Axis.N:
                return plan_gemm(stage, replace(problem, n=width))
            case Axis.K:
                return plan_gemm(stage, replace(problem, k=width))

    if axis is Axis.K:
        return bands(plan, widths, thresholds=(STAGED_FROM_K,))
    return bands(plan, widths, tiles=(SMALL_ROWS,))


def _fused(problem: GemmProblem) -> GemmPlan:
    return GemmPlan(Cta.TILE_128X64, stages=3)


def _ring(problem: GemmProblem) -> GemmPlan:
    cta = Cta.TILE_64X128 if problem.m <= SMALL_ROWS else Cta.TILE_128X128
    return GemmPlan(cta, stages=2, stages_b=_stages_b(problem), raster=_early_raster(problem))


def _lean(problem: GemmProblem) -> GemmPlan:
    staged, raster = _stages_b(problem), _early_raster(problem)
    if problem.m <= SMALL_ROWS:
        return GemmPlan(Cta.TILE_64X128, stages=2, lean=True, stages_b=staged, raster=raster)
    if problem.tiles(Cta.TILE_128X128) < LEAN_TILES:
        return GemmPlan(Cta.TILE_64X64, stages=3, lean=True, stages_b=staged, raster=raster)
    return GemmPlan(Cta.TILE_128X128, stages=2, stages_b=staged, raster=raster)


def _batched(problem: GemmProblem) -> GemmPlan:
    raster = _early_raster(problem)
    if problem.m <= SMALL_ROWS or problem.tiles(Cta.TILE_128X128) < problem.sm_count * 14 // 3:
        return GemmPlan(Cta.TILE_64X64, stages=3, lean=True, raster=raster)
    return GemmPlan(Cta.TILE_128X128, stages=2, raster=raster)


def _base_pair(problem: GemmProblem) -> GemmPlan:
    raster = _early_raster(problem)
    if problem.m <= SMALL_ROWS or problem.tiles(Cta.TILE_128X128) < problem.sm_count * 5 // 8:
        return GemmPlan(Cta.TILE_64X64, stages=_small_stages(problem), raster=raster)
    return GemmPlan(Cta.TILE_128X128, stages=2, raster=raster)


def _planned(problem: GemmProblem) -> GemmPlan:
    """The last stage. A plain product (A [m][k], B [k][n]) is planned as its transpose, m and n exchanged."""
    if not problem.a_crosswise and problem.b_crosswise:
        problem = problem.transposed
    if _pads_less_when_small(problem):
        return _planned_tile(problem, Cta.TILE_64X64, stages=3 if _any_crosswise(problem) else 2)
    if _any_crosswise(problem):
        if problem.tiles(Cta.TILE_128X128) >= problem.sm_count * 3 // 2:
            return _planned_tile(problem, Cta.TILE_128X128)
        return _planned_tile(problem, Cta.TILE_64X64, stages=3)
    return _planned_tile(problem, *_congruous(problem))


def _congruous(problem: GemmProblem) -> tuple[Cta, int]:
    """The ladder of two congruous operands: from a wave on by cost, below it by how much of the device is filled."""
    big, narrow, sms = problem.tiles(Cta.TILE_128X128), problem.tiles(Cta.TILE_128X64), problem.sm_count
    if big >= sms:
        cheaper = ceil_div(narrow, sms) * NARROW_COST < ceil_div(big, sms) * 100
        return (Cta.TILE_128X64 if cheaper else Cta.TILE_128X128), 2
    if big >= sms * 5 // 8:
        return Cta.TILE_128X128, 2
    if narrow >= sms * 3 // 8:
        return Cta.TILE_128X64, 2
    return Cta.TILE_64X64, _small_stages(problem)


def _planned_tile(problem: GemmProblem, cta: Cta, stages: int = 2) -> GemmPlan:
    """A plan with the raster of its own tile: along the axis with more tiles."""
    rows, columns = cta.value
    along_m = ceil_div(problem.m, rows) >= ceil_div(problem.n, columns)
    return GemmPlan(cta, stages, raster=RASTER_GROUP if along_m else -RASTER_GROUP)


def _pads_less_when_small(problem: GemmProblem) -> bool:
    """Whether 128-row tiles waste half their rows or columns, or only 64 divides both extents."""
    if problem.m <= SMALL_ROWS or problem.n <= SMALL_ROWS:
        return True
    fits_big = problem.m % 128 == 0 and problem.n % 128 == 0
    return not fits_big and problem.m % 64 == 0 and problem.n % 64 == 0


def _small_stages(problem: GemmProblem) -> int:
    """Two stages while all small tiles are resident at three an SM, three beyond."""
    return 3 if problem.tiles(Cta.TILE_64X64) > problem.sm_count * 3 else 2


def _stages_b(problem: GemmProblem) -> bool:
    return problem.b_crosswise and problem.k >= STAGED_FROM_K


def _early_raster(problem: GemmProblem) -> int:
    """Grouped where A or B is stored with its rows contiguous: A [k][m] (crosswise) or B [n][k] (congruous)."""
    return RASTER_GROUP if problem.a_crosswise or not problem.b_crosswise else 0


def _any_crosswise(problem: GemmProblem) -> bool:
    return problem.a_crosswise or problem.b_crosswise


_KERNELS = "0z5a/AstrAI csrc/kernels/fp8/gemm.cuh"

FUSED = DispatchStage(
    name="fused",
    plan=_fused,
    batched=False,
    source="ViperEkura/AstrAI csrc/kernels/fp8/{gemm.cuh,mm.cu} @75304d08",
    evidence=Evidence.DOCUMENTED,
)
RING = DispatchStage(
    name="ring",
    plan=_ring,
    batched=False,
    source=f"{_KERNELS} (ring era)",
    evidence=Evidence.DOCUMENTED,
)
LEAN = DispatchStage(
    name="lean", plan=_lean, batched=False, source=f"{_KERNELS} @01eacbde", evidence=Evidence.DOCUMENTED
)
BATCHED = DispatchStage(
    name="batched",
    plan=_batched,
    batched=True,
    source=f"{_KERNELS} (batch in grid.z, staged B off)",
    evidence=Evidence.DOCUMENTED,
)
BASE_PAIR = DispatchStage(
    name="base-pair",
    plan=_base_pair,
    batched=True,
    source=f"{_KERNELS} (base-pair addressing)",
    evidence=Evidence.DOCUMENTED,
)
PLANNED = DispatchStage(
    name="planned",
    plan=_planned,
    batched=True,
    source="0z5a/AstrAI csrc/kernels/gemm/gemm.cuh, plan_gemm @7dd184a4",
    evidence=Evidence.DOCUMENTED,
)

#: All stages, oldest first.
DISPATCH_STAGES = (FUSED, RING, LEAN, BATCHED, BASE_PAIR, PLANNED)
