"""Routes of the three systems: published facts, independent transcriptions, and every width one by one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileproof.oracle import routing
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes import gemm_dispatch, int8_routing
from tileproof.oracle.routes.coverage import Band, Interval, bands, reaching
from tileproof.oracle.routes.gemm_dispatch import (
    BASE_PAIR,
    BATCHED,
    DISPATCH_STAGES,
    FUSED,
    LEAN,
    PLANNED,
    RING,
    Axis,
    DispatchStage,
    plan_coverage,
    plan_gemm,
)
from tileproof.oracle.routes.gemm_problem import Cta, GemmPlan, GemmProblem
from tileproof.oracle.routes.int8_lineages import (
    GLM_TP8_M4096,
    LINEAGES,
    TP4_M16,
    TP4_M3072,
    TP4_M4096,
    TP8_M4096,
    Extent,
    Guard,
    Lineage,
    Phase,
)
from tileproof.oracle.routes.int8_routing import (
    DECODE_LAST_M,
    STATED_DECODE_LAST_M,
    Arm,
    Unsupported,
    fallback_pack,
    fuses_combine,
    int8_coverage,
    int8_route,
    phase_of,
    unsupported,
)
from tileproof.oracle.routes.routing_calibration import (
    ATTENTION,
    CALIBRATIONS,
    CP_ASYNC_SCHEDULE,
    GDN,
    GEOMETRIES,
    MLP,
    RESIDUAL_6144,
    RESIDUAL_17408,
    RTX_5090,
    TMA_SCHEDULE,
    VOCABULARY,
    GemmSchedule,
    Geometry,
    find_geometry,
)
from tileproof.oracle.routing import Decline, LinearRoute, decline, fp8_a8_tma_applies

SMS = 170
PREFILL = Interval(1024, 8192)

#: The published widths on 170 SMs, 1,024 to 8,192, and how many of them are no multiple of 64.
PUBLISHED = {
    ATTENTION: (
        3780,
        "1024 1345-1536 1729-1792 2113-2304 2497-2560 2881-3072 3265-3328 3649-3840 4033-4096 4225-4864 4993-5376 "
        "5441-5632 5825-6144 6209-6400 6593-6912 6977-7168 7361-7680 7745-7936 8129-8192",
    ),
    GDN: (
        3717,
        "1153-1280 1473-1536 2177-2304 2497-2560 3201-3328 3521-3584 3713-3840 4033-4352 4417-4608 4737-4864 "
        "5057-5376 5441-5632 5761-5888 6081-6656 6785-6912 7105-8192",
    ),
    MLP: (
        5292,
        "1153-1280 1473-1536 1729-1792 1921-2048 2241-2304 2369-2560 2689-2816 3009-3072 3201-3328 3393-3840 "
        "3905-4096 4225-4608 4673-5376 5441-6656 6721-8192",
    ),
    RESIDUAL_6144: (1134, "1024 1601-2048 2689-3072 3777-4096"),
    RESIDUAL_17408: (2772, "1024 1601-2048 2689-3072 3777-4352 4865-5376 5953-6400 7041-7424 8129-8192"),
}
each_published = pytest.mark.parametrize("geometry", PUBLISHED, ids=lambda geometry: geometry.name)


def shape(geometry: Geometry) -> tuple[int, int]:
    return geometry.out_features, geometry.in_features


# ninfer: what its authors published.


@each_published
def test_the_published_widths_take_the_tma_kernel(geometry: Geometry) -> None:
    count, intervals = PUBLISHED[geometry]
    taken = routing.tma_widths(*shape(geometry), SMS, PREFILL)
    assert " ".join(map(str, taken)) == intervals
    assert sum(len(widths) - widths.count_multiples(64) for widths in taken) == count


def test_of_32_widths_20_decline_and_12_are_taken() -> None:
    """1024..1520 in steps of 16 on 14336 x 5120; 3 of the 12 and 5 of the 20 are whole cp.async tiles."""
    widths = range(1024, 1521, 16)
    taken = [tokens for tokens in widths if fp8_a8_tma_applies(14336, 5120, tokens, SMS)]
    assert (len(widths), len(taken)) == (32, 12)
    assert [tokens for tokens in taken if tokens % 64 == 0] == [1024, 1408, 1472]
    assert [tokens for tokens in taken if tokens % 64] == [1360, 1376, 1392, 1424, 1440, 1456, 1488, 1504, 1520]
    whole = [tokens for tokens in widths if tokens % 64 == 0 and tokens not in taken]
    assert whole == [1088, 1152, 1216, 1280, 1344]


@pytest.mark.parametrize(
    ("geometry", "widths"),
    [
        (ATTENTION, (1024, 1345, 4096, 4288)),
        (GDN, (1153, 2560, 4096, 4160)),
        (MLP, (1153, 4096, 4288)),
        (RESIDUAL_6144, (1664, 4001)),
        (RESIDUAL_17408, (4001, 4160, 12288)),
    ],
    ids=lambda value: value.name if isinstance(value, Geometry) else "",
)
def test_the_widths_that_the_source_pins_are_taken(geometry: Geometry, widths: Sequence[int]) -> None:
    assert all(fp8_a8_tma_applies(*shape(geometry), tokens, SMS) for tokens in widths)


def test_widths_that_the_source_names_as_declined() -> None:
    assert not any(fp8_a8_tma_applies(*shape(GDN), tokens, SMS) for tokens in (1024, 2048))
    assert not any(fp8_a8_tma_applies(*shape(RESIDUAL_6144), tokens, SMS) for tokens in (4097, 5120, 8192, 12288))
    assert not fp8_a8_tma_applies(*shape(RESIDUAL_17408), 10240, SMS)


def test_what_the_model_would_take_below_the_floor() -> None:
    below = range(64, 1024, 64)
    taken = {
        geometry.name: [tokens for tokens in below if routing.is_cheaper(RTX_5090, geometry.out_features, tokens, SMS)]
        for geometry in (ATTENTION, GDN, MLP, RESIDUAL_6144)
    }
    assert taken == {
        "attn_input": [256, 640, 704, 768],
        "gdn_input": [192, 256, 512],
        "mlp_gate_up": [256, 768],
        "residual_6144": [576, 640, 704, 768, 832, 896, 960],
    }


def test_waves_worked_by_hand() -> None:
    assert [routing.waves(TMA_SCHEDULE, 14336, tokens, 170) for tokens in (1024, 1025, 1088)] == [3, 4, 4]
    assert [routing.waves(CP_ASYNC_SCHEDULE, 14336, tokens, 170) for tokens in (1024, 1025, 1088)] == [6, 6, 6]


# ninfer: an independent transcription.


def transcribed(n: int, k: int, tokens: int, sms: int, name: str = "rtx5090") -> bool:
    """Section by section from the source, costs in fractions."""
    port = name == "rtx5090-port"
    if (n, k) == (248320, 5120) or n % 128 or k % 64 or tokens < 1024 or (port and k < 256):
        return False
    if (n, k) == (5120, 6144) and tokens > 4096:
        return False
    if name == "rtx5090-whole-tiles" and tokens % 64:
        return False
    if (tokens + 255) // 256 > 65535:
        return False
    if port and tokens >= 2048:
        return True
    if sms <= 0:
        return False
    tma = Fraction((n // 128) * ((tokens + 255) // 256), sms).__ceil__() * 256 * Fraction(936, 1000)
    mma = Fraction((n // 128) * ((tokens + 63) // 64), 2 * sms).__ceil__() * 2 * 64 * Fraction(98, 100)
    return tma < mma


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)
def test_coverage_equals_the_transcription_at_every_width(geometry: Geometry, calibration: str) -> None:
    covered = routing.tma_coverage(*shape(geometry), SMS, Interval(0, 9000), calibration)
    expected = [transcribed(*shape(geometry), tokens, SMS, calibration) for tokens in range(9001)]
    assert [band.route for band in covered for _ in range(len(band.widths))] == expected


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 300).map(lambda blocks: blocks * 128) | st.integers(1, 40000),
    st.integers(1, 300).map(lambda blocks: blocks * 64) | st.integers(1, 20000),
    st.integers(0, 20000) | st.integers(0, 2**31 - 1),
    st.integers(-1, 300),
    st.sampled_from(sorted(CALIBRATIONS)),
)
def test_the_predicate_equals_the_transcription(n: int, k: int, tokens: int, sms: int, calibration: str) -> None:
    assert fp8_a8_tma_applies(n, k, tokens, sms, calibration) == transcribed(n, k, tokens, sms, calibration)


@given(st.integers(1, 2**23))
def test_float64_costs_decide_ties_as_fractions_do(factor: int) -> None:
    """245 waves of TMA cost what 468 of cp.async cost: not cheaper. One more of the other turns it."""
    tma, mma = 245 * factor, 468 * factor
    for extra, cheaper in ((0, False), (1, True), (-1, False)):
        cost = float(tma * 256) * RTX_5090.work_ratio
        assert (cost < float((mma + extra) * 128) * (1.0 - RTX_5090.margin)) == cheaper


@each_published
def test_the_verdict_is_constant_between_multiples_of_64(geometry: Geometry) -> None:
    for multiple in range(1088, 8192, 64):
        verdicts = {
            fp8_a8_tma_applies(*shape(geometry), tokens, SMS) for tokens in (multiple + 1, multiple + 33, multiple + 64)
        }
        assert len(verdicts) == 1


def test_conditions_are_told_in_the_sources_order() -> None:
    def why(n: int = 14336, k: int = 5120, tokens: int = 1024, sms: int = SMS, name: str = "rtx5090", **at: int) -> Any:
        return decline(n, k, tokens, sms, name, **at)

    assert why() is None
    assert why(n=248320) is Decline.NO_ROUTE
    assert why(n=14337, tokens=5) is Decline.NOT_TILED
    assert why(k=5121) is Decline.NOT_TILED
    assert why(k=192, name="rtx5090-port", tokens=2048) is Decline.SHORT_K
    assert why(k=256, name="rtx5090-port", tokens=2048) is None
    for address in (0, 8, 24):
        assert why(activation_address=address, tokens=5) is Decline.ADDRESS
        assert why(weight_address=address) is Decline.ADDRESS
    assert why(weight_scale_address=2) is None
    assert why(weight_scale_address=2, name="rtx5090-port") is Decline.SCALE_ADDRESS
    assert why(tokens=1023) is Decline.TOO_NARROW
    assert why(n=5120, k=6144, tokens=4096) is None
    assert why(n=5120, k=6144, tokens=4097) is Decline.TOO_WIDE
    assert why(tokens=1345, name="rtx5090-whole-tiles") is Decline.PARTIAL_TILE
    assert why(tokens=65535 * 256) is None
    assert why(tokens=65535 * 256 + 1, sms=0) is Decline.GRID
    assert why(sms=0) is Decline.UNKNOWN_DEVICE
    assert why(tokens=1088) is Decline.NOT_CHEAPER
    assert why(tokens=2112, name="rtx5090") is Decline.NOT_CHEAPER
    assert why(tokens=2112, name="rtx5090-port") is None


def test_other_devices_have_other_widths() -> None:
    taken = {sms: routing.tma_widths(14336, 5120, sms, PREFILL) for sms in (84, 132, 170)}
    assert len(set(taken.values())) == 3


@pytest.mark.parametrize(
    ("geometry", "adds_residual", "first"),
    [
        (ATTENTION, False, 12),
        (GDN, False, 11),
        (RESIDUAL_6144, False, 25),
        (RESIDUAL_17408, False, 25),
        (RESIDUAL_6144, True, 22),
        (RESIDUAL_17408, True, 25),
    ],
    ids=lambda value: value.name if isinstance(value, Geometry) else str(value),
)
def test_activations_are_quantised_from_a_width_on(geometry: Geometry, adds_residual: bool, first: int) -> None:
    def route(tokens: int) -> LinearRoute:
        return routing.linear_route(geometry, tokens, SMS, adds_residual=adds_residual)

    assert route(first - 1) is LinearRoute.A16
    assert route(first) is LinearRoute.CP_ASYNC


def test_the_mlp_is_quantised_at_one_token_and_from_five_on() -> None:
    routes = [routing.linear_route(MLP, tokens, SMS) for tokens in range(1, 7)]
    a16, a8 = LinearRoute.A16, LinearRoute.CP_ASYNC
    assert routes == [a8, a16, a16, a16, a8, a8]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)
def test_linear_coverage_equals_the_route_of_every_width(geometry: Geometry) -> None:
    covered = routing.linear_coverage(geometry, SMS, Interval(1, 4500))
    expected = [routing.linear_route(geometry, tokens, SMS) for tokens in range(1, 4501)]
    assert [band.route for band in covered for _ in range(len(band.widths))] == expected
    if geometry is VOCABULARY:
        assert covered == (Band(Interval(1, 4500), LinearRoute.A16),)
    assert find_geometry(*shape(geometry)) is geometry


# AstrAI: transcriptions of each stage, and figures from its comments.


def up(value: Fraction) -> int:
    return value.__ceil__()


def transcribed_plan(stage: str, p: GemmProblem) -> tuple[tuple[int, int], int, bool, bool, int]:
    """(tile, stages, lean, staged B, raster), written from the source's if-ladders on trans flags."""
    trans_a, trans_b = p.a_crosswise, not p.b_crosswise
    m, n = p.m, p.n
    tiles = p.batch * up(Fraction(m, 128)) * up(Fraction(n, 128))
    small = p.batch * up(Fraction(m, 64)) * up(Fraction(n, 64))
    raster = 8 if trans_a or trans_b else 0
    staged = not trans_b and p.k >= 8192
    deep = 3 if small > 3 * p.sm_count else 2
    match stage:
        case "fused":
            return (128, 64), 3, False, False, 0
        case "ring":
            return ((64, 128) if m <= 64 else (128, 128)), 2, False, staged, raster
        case "lean":
            if m <= 64:
                return (64, 128), 2, True, staged, raster
            return ((64, 64), 3, True, staged, raster) if tiles < 48 else ((128, 128), 2, False, staged, raster)
        case "batched":
            if m <= 64 or tiles < p.sm_count * 14 // 3:
                return (64, 64), 3, True, False, raster
            return (128, 128), 2, False, False, raster
        case "base-pair":
            if m <= 64 or tiles < p.sm_count * 5 // 8:
                return (64, 64), deep, False, False, raster
            return (128, 128), 2, False, False, raster
    if not trans_a and not trans_b:
        m, n, trans_a, trans_b = n, m, True, True
    crosswise = trans_a + (not trans_b)
    narrow = p.batch * up(Fraction(m, 128)) * up(Fraction(n, 64))

    def result(tile: tuple[int, int], stages: int) -> tuple[tuple[int, int], int, bool, bool, int]:
        along_m = up(Fraction(m, tile[0])) >= up(Fraction(n, tile[1]))
        return tile, stages, False, False, 8 if along_m else -8

    only_64 = m % 64 == 0 and n % 64 == 0 and (m % 128 != 0 or n % 128 != 0)
    if min(m, n) <= 64 or only_64:
        return result((64, 64), 3 if crosswise else 2)
    if crosswise:
        return result((128, 128), 2) if tiles >= p.sm_count * 3 // 2 else result((64, 64), 3)
    if tiles >= p.sm_count:
        cheaper = up(Fraction(narrow, p.sm_count)) * 53 < up(Fraction(tiles, p.sm_count)) * 100
        return result((128, 64), 2) if cheaper else result((128, 128), 2)
    if tiles >= p.sm_count * 5 // 8:
        return result((128, 128), 2)
    return result((128, 64), 2) if narrow >= p.sm_count * 3 // 8 else result((64, 64), deep)


def as_tuple(plan: GemmPlan) -> tuple[tuple[int, int], int, bool, bool, int]:
    return plan.cta.value, plan.stages, plan.lean, plan.stages_b, plan.raster


extents = st.integers(1, 700) | st.integers(1, 64).map(lambda tiles: tiles * 64) | st.sampled_from([8191, 8192, 8193])
problems = st.builds(
    GemmProblem,
    m=extents,
    n=extents,
    k=extents,
    sm_count=st.sampled_from([1, 24, 92, 132, 170]),
    batch=st.integers(1, 5),
    a_crosswise=st.booleans(),
    b_crosswise=st.booleans(),
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(DISPATCH_STAGES), problems)
def test_plans_equal_the_transcription(stage: DispatchStage, problem: GemmProblem) -> None:
    problem = problem if stage.batched else replace(problem, batch=1)
    assert as_tuple(plan_gemm(stage, problem)) == transcribed_plan(stage.name, problem)


def cube(side: int, sm_count: int = 92, **more: Any) -> GemmProblem:
    return GemmProblem(m=side, n=side, k=side, sm_count=sm_count, **more)


def test_plans_that_the_sources_comments_name() -> None:
    def tile(stage: DispatchStage, problem: GemmProblem) -> Cta:
        return plan_gemm(stage, problem).cta

    assert Cta.TILE_64X64.value == (64, 64)
    assert cube(512).tiles(Cta.TILE_128X128) == 16
    assert cube(512).tiles(Cta.TILE_64X64) == 64
    assert tile(LEAN, cube(512)) is Cta.TILE_64X64
    assert tile(LEAN, replace(cube(768), n=1024)) is Cta.TILE_128X128  # 48 tiles
    assert tile(LEAN, replace(cube(768), n=896)) is Cta.TILE_64X64  # 42
    assert tile(BATCHED, GemmProblem(m=1792, n=1024, k=2048, sm_count=24)) is Cta.TILE_128X128  # 112 tiles
    assert tile(BATCHED, GemmProblem(m=1408, n=1280, k=2048, sm_count=24)) is Cta.TILE_64X64  # 110
    assert tile(BATCHED, GemmProblem(m=512, n=512, k=512, batch=64, sm_count=92)) is Cta.TILE_128X128
    assert tile(BASE_PAIR, cube(1280)) is Cta.TILE_128X128  # 100 tiles, 1.09 waves
    assert tile(BASE_PAIR, GemmProblem(m=1024, n=896, k=64, sm_count=92)) is Cta.TILE_64X64  # 56 tiles of 57
    assert tile(PLANNED, cube(1280)) is Cta.TILE_128X64  # 3 · 53 < 2 · 100
    assert tile(FUSED, cube(1280)) is Cta.TILE_128X64
    assert [tile(RING, replace(cube(512), m=m)) for m in (64, 65)] == [Cta.TILE_64X128, Cta.TILE_128X128]


def test_a_plain_product_is_planned_as_its_transpose() -> None:
    plain = GemmProblem(m=4096, n=512, k=256, sm_count=92, b_crosswise=True)
    mirrored = GemmProblem(m=512, n=4096, k=256, sm_count=92, a_crosswise=True)
    assert plain.transposed == mirrored
    assert plan_gemm(PLANNED, plain) == plan_gemm(PLANNED, mirrored)
    assert plan_gemm(PLANNED, plain).raster == -8
    assert plan_gemm(BASE_PAIR, plain) != plan_gemm(BASE_PAIR, mirrored)


@pytest.mark.parametrize("stage", DISPATCH_STAGES, ids=lambda stage: stage.name)
@pytest.mark.parametrize(("a_crosswise", "b_crosswise"), [(False, False), (True, False), (False, True), (True, True)])
def test_plan_coverage_equals_the_plan_of_every_extent(
    stage: DispatchStage, a_crosswise: bool, b_crosswise: bool
) -> None:
    problem = GemmProblem(m=1000, n=640, k=9000, sm_count=24, a_crosswise=a_crosswise, b_crosswise=b_crosswise)
    for axis, last in ((Axis.M, 1500), (Axis.N, 700)):
        covered = plan_coverage(stage, problem, axis, Interval(1, last))
        expected = [
            plan_gemm(stage, replace(problem, m=width) if axis is Axis.M else replace(problem, n=width))
            for width in range(1, last + 1)
        ]
        assert [band.route for band in covered for _ in range(len(band.widths))] == expected
    covered = plan_coverage(stage, problem, Axis.K, Interval(8000, 8300))
    expected = [plan_gemm(stage, replace(problem, k=width)) for width in range(8000, 8301)]
    assert [band.route for band in covered for _ in range(len(band.widths))] == expected


# metainfer: guards.


GUARD_EDGES = [
    (TP4_M4096, "qkv", (4096, 2560, 4096), [(4095, 2560, 4096), (4096, 2561, 4096), (4096, 2560, 4095)]),
    (TP4_M4096, "o_proj", (4096, 4096, 2048), [(4097, 4096, 2048)]),
    (TP4_M4096, "gate_up", (4096, 768, 4096), [(4095, 768, 4096)]),
    (TP4_M4096, "down", (4096, 4096, 384), [(4096, 4096, 385)]),
    (TP8_M4096, "qkv", (128, 1280, 4096), [(127, 1280, 4096), (128, 1281, 4096), (128, 1280, 4097)]),
    (TP8_M4096, "o_proj", (4096, 4096, 1024), [(4095, 4096, 1024)]),
    (TP8_M4096, "gate_up", (4096, 384, 4096), [(4095, 384, 4096)]),
    (TP8_M4096, "down", (128, 256, 192), [(127, 256, 192), (128, 255, 192), (128, 192, 192), (128, 256, 193)]),
    (GLM_TP8_M4096, "fused_qkv_a", (128, 2624, 6144), [(127, 2624, 6144)]),
    (GLM_TP8_M4096, "kv_b", (64, 3584, 512), [(63, 3584, 512), (65, 3584, 512), (96, 3584, 512), (64, 3584, 511)]),
    (GLM_TP8_M4096, "q_b", (17, 2048, 2048), [(17, 2049, 2048)]),
    (GLM_TP8_M4096, "o_proj", (4096, 6144, 2048), [(4095, 6144, 2048)]),
    (GLM_TP8_M4096, "shared_down", (4096, 6144, 256), [(4096, 6144, 512)]),
    (GLM_TP8_M4096, "shared_gate_up", (4096, 512, 6144), [(4096, 511, 6144)]),
    (TP4_M16, "qkv", (16, 2560, 4096), [(15, 2560, 4096), (2, 2560, 4096)]),
    (TP4_M16, "o_proj", (16, 4096, 2048), [(17, 4096, 2048)]),
    (TP4_M16, "gate_up", (16, 768, 4096), [(16, 704, 4096)]),
    (TP4_M16, "down", (16, 4096, 384), [(16, 6144, 768)]),
    (TP4_M3072, "wqkv_a", (33, 64, 64), [(32, 64, 64), (33, 65, 64), (33, 64, 65)]),
]


@pytest.mark.parametrize(
    ("lineage", "name", "inside", "outside"), GUARD_EDGES, ids=[f"{row[0].name} {row[1]}" for row in GUARD_EDGES]
)
def test_guards_accept_and_decline_at_their_edges(
    lineage: Lineage, name: str, inside: tuple[int, int, int], outside: list[tuple[int, int, int]]
) -> None:
    route = int8_route(lineage, *inside)
    assert (route.arm, route.kernel) == (Arm.TUNED, name)
    for call in outside:
        assert int8_route(lineage, *call).kernel != name


def test_no_call_reaches_two_guards_of_a_lineage() -> None:
    def meet(a: Extent, b: Extent) -> bool:
        values = {a.exactly, b.exactly} - {None} or {a.at_least * b.at_least * a.multiple_of * b.multiple_of}
        return any(value is not None and a.accepts(value) and b.accepts(value) for value in values)

    def overlap(a: Guard, b: Guard) -> bool:
        return meet(a.m, b.m) and meet(a.n, b.n) and meet(a.k, b.k)

    for lineage in LINEAGES.values():
        assert not any(overlap(a, b) for a, b in combinations(lineage.guards, 2))
        assert all(overlap(guard, guard) for guard in lineage.guards)


def weights_of(lineage: Lineage) -> list[tuple[int, int]]:
    """(N, K) of each guard, and two that no guard knows."""
    known = [
        (guard.n.exactly or guard.n.multiple_of * 2, guard.k.exactly or guard.k.multiple_of) for guard in lineage.guards
    ]
    return [*known, (192, 256), (100, 72)]


@pytest.mark.parametrize("lineage", LINEAGES.values(), ids=LINEAGES)
@pytest.mark.parametrize("decode_last_m", [DECODE_LAST_M, STATED_DECODE_LAST_M])
def test_int8_coverage_equals_the_route_of_every_m(lineage: Lineage, decode_last_m: int) -> None:
    for n, k in weights_of(lineage):
        covered = int8_coverage(lineage, n, k, Interval(1, 4200), decode_last_m)
        flat = [band.route for band in covered for _ in range(len(band.widths))]
        assert flat == [int8_route(lineage, m, n, k, decode_last_m) for m in range(1, 4201)]


def test_routes_beside_the_guards() -> None:
    arm = int8_route(GLM_TP8_M4096, 4096, 256, 256)
    assert (arm.arm, arm.kernel, arm.pack) == (Arm.TILED, "64x128x128", "contiguous")
    assert int8_route(TP8_M4096, 4096, 192, 256).kernel == "128x64x128"
    assert int8_route(TP8_M4096, 4096, 192, 200).arm is Arm.SCALAR
    scalar = int8_route(TP4_M4096, 4095, 4096, 2048)
    assert (scalar.arm, scalar.pack) == (Arm.SCALAR, "panel-64")  # it decodes the pack
    paired = int8_route(TP4_M16, 2, 4096, 2048)
    assert (paired.phase, paired.arm, paired.pack) == (Phase.DECODE, Arm.SCALAR, "fragment")


def test_decode_ends_at_16_unless_32_is_asked_for() -> None:
    assert DECODE_LAST_M == 16
    assert [phase_of(m) for m in (1, 16, 17, 32, 33)] == [Phase.DECODE] * 2 + [Phase.PREFILL] * 3
    assert [phase_of(m, 32) for m in (17, 32, 33)] == [Phase.DECODE, Phase.DECODE, Phase.PREFILL]
    q_b = int8_coverage(GLM_TP8_M4096, 2048, 2048, Interval(1, 100))
    assert reaching(q_b, int8_route(GLM_TP8_M4096, 50, 2048, 2048)) == (Interval(17, 100),)
    q_b = int8_coverage(GLM_TP8_M4096, 2048, 2048, Interval(1, 100), 32)
    assert reaching(q_b, int8_route(GLM_TP8_M4096, 50, 2048, 2048)) == (Interval(33, 100),)


def test_every_pack_is_a_known_layout_that_holds_its_weight() -> None:
    for lineage in LINEAGES.values():
        for weight in lineage.packed:
            layout = PACKS[weight.pack]
            assert 0 <= layout.offset(weight.k - 1, weight.n - 1, weight.k, weight.n) < weight.k * weight.n
            assert fallback_pack(lineage, weight.k, weight.n) == weight.pack
        assert fallback_pack(lineage, 64, 64) == "contiguous"


def test_one_guard_is_wider_than_its_pack() -> None:
    """TP8 down takes any N % 128 == 0 at K = 192, but only N = 4096 is packed: [k][n] is read as [n][k]."""
    tuned = int8_route(TP8_M4096, 128, 256, 192)
    assert (tuned.arm, tuned.pack) == (Arm.TUNED, "n-major")
    assert fallback_pack(TP8_M4096, 192, 256) == "contiguous"
    for lineage in LINEAGES.values():
        wide = [guard.name for guard in lineage.guards if guard.pack != "contiguous" and guard.n.exactly is None]
        assert wide == (["down"] if lineage is TP8_M4096 else [])


def test_the_combine_is_fused_from_16_planes_on() -> None:
    assert [fuses_combine(planes) for planes in (0, 15, 16, 17)] == [False, False, True, True]


def test_every_reason_of_an_unsupported_call_is_told() -> None:
    assert unsupported(TP4_M4096, 2560, 4096) == ()
    assert unsupported(TP4_M4096, 2561, 4096) == (Unsupported.SHAPE,)
    everything = unsupported(
        TP4_M4096, 1, 1, has_bias=True, output_is_bf16=False, operands_fit=False, contiguous=False, prepared=False
    )
    assert everything == tuple(Unsupported)


# Coverage itself.


def test_bands_join_equal_neighbours_and_keep_single_widths() -> None:
    covered = bands(lambda width: width == 128, Interval(100, 200), tiles=(64,))
    assert [(str(band.widths), band.route) for band in covered] == [
        ("100-127", False),
        ("128", True),
        ("129-200", False),
    ]
    assert [len(band.widths) for band in covered] == [28, 1, 72]
    assert Interval(65, 128).count_multiples(64) == 1
    assert Interval(1, 63).count_multiples(64) == 0


def test_a_missing_cut_is_a_wrong_coverage() -> None:
    """Why every coverage is held to the rule itself: without its threshold, 4,097 is hidden behind 4,096."""
    covered = bands(lambda width: width > 4096, Interval(4000, 5000), tiles=(1000,))
    assert [band.route for band in covered for _ in range(len(band.widths))] != [w > 4096 for w in range(4000, 5001)]


# Refusals.


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: fp8_a8_tma_applies(14336, 5120, 1024, 170, "h200"), "no calibration is called 'h200'"),
        (lambda: fp8_a8_tma_applies(0, 5120, 1024, 170), "a weight of 0 x 5120 is empty"),
        (lambda: fp8_a8_tma_applies(128, 64, -1, 170), r"-1 tokens are outside 0\.\.2147483647"),
        (lambda: fp8_a8_tma_applies(128, 64, 2**31, 170), "2147483648 tokens are outside"),
        (lambda: decline(128, 64, 1024, 170, weight_address=-16), "address -16 is negative"),
        (lambda: routing.linear_route(MLP, 0, 170), "0 tokens need no route"),
        (lambda: routing.linear_route(MLP, 9, 170, adds_residual=True), "linear_add has no projection mlp_gate_up"),
        (lambda: cube(0), "m = 0 is below 1"),
        (lambda: plan_gemm(RING, cube(64, batch=2)), "a batch of 2 at the ring stage"),
        (lambda: phase_of(0), "m = 0 is below 1"),
        (lambda: phase_of(5, 20), "decode up to M = 20 is stated nowhere"),
        (lambda: int8_route(TP4_M16, 16, 0, 64), "a weight of K = 64, N = 0 is empty"),
        (lambda: fuses_combine(-1), "a workspace of -1 planes"),
        (lambda: Interval(3, 2), r"the interval 3\.\.2 is empty"),
        (lambda: bands(bool, Interval(1, 2), tiles=(0,)), "a tile of 0 has no multiples"),
    ],
)
def test_refusals_name_value_and_limit(act: Callable[[], object], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        act()


# Known-bad twins: the battery accepts the rules and rejects each of them.


def battery() -> None:
    """The published facts and the edges; raises AssertionError for a rule that is wrong."""
    for geometry in PUBLISHED:
        test_the_published_widths_take_the_tma_kernel(geometry)
    test_of_32_widths_20_decline_and_12_are_taken()
    test_conditions_are_told_in_the_sources_order()
    test_the_mlp_is_quantised_at_one_token_and_from_five_on()
    test_plans_that_the_sources_comments_name()
    test_a_plain_product_is_planned_as_its_transpose()
    grid = [
        GemmProblem(m=m, n=n, k=8192, sm_count=24, a_crosswise=a, b_crosswise=b)
        for m in (64, 65, 128, 192, 320, 640)
        for n in (64, 65, 192, 1024, 2048)
        for a in (False, True)
        for b in (False, True)
    ]
    for stage in DISPATCH_STAGES:
        for problem in grid:
            assert as_tuple(plan_gemm(stage, problem)) == transcribed_plan(stage.name, problem)
    for row in GUARD_EDGES:
        test_guards_accept_and_decline_at_their_edges(*row)
    test_routes_beside_the_guards()
    test_decode_ends_at_16_unless_32_is_asked_for()
    test_the_combine_is_fused_from_16_planes_on()


def calibrated(**changes: Any) -> tuple[Any, str, Any]:
    return routing, "find_calibration", lambda name: replace(CALIBRATIONS[name], **changes)


def without_margin_ties(calibration: Any, n: int, tokens: int, sms: int) -> bool:
    tma, mma = routing.waves(TMA_SCHEDULE, n, tokens, sms), routing.waves(CP_ASYNC_SCHEDULE, n, tokens, sms)
    return tma * 256 * 0.936 < mma * 128


def waves_only(calibration: Any, n: int, tokens: int, sms: int) -> bool:
    return routing.waves(TMA_SCHEDULE, n, tokens, sms) * 0.936 < routing.waves(CP_ASYNC_SCHEDULE, n, tokens, sms) * 0.98


def other_waves(schedule: GemmSchedule, n: int, tokens: int, sms: int) -> int:
    return -(-(n // schedule.block_rows * (tokens // schedule.block_tokens)) // (schedule.blocks_per_sm * sms))


def rounded_up(problem: GemmProblem) -> GemmPlan:
    tiles = problem.tiles(Cta.TILE_128X128)
    if problem.m <= 64 or 8 * tiles < problem.sm_count * 5:
        return GemmPlan(Cta.TILE_64X64, stages=3, raster=0)
    return GemmPlan(Cta.TILE_128X128, stages=2)


def any_order(lineage: Lineage, m: int, n: int, k: int, decode_last_m: int = DECODE_LAST_M) -> int8_routing.Int8Route:
    """Generic arms before the guards."""
    for rows, columns, stage in lineage.arms:
        if n % columns == 0 and k % stage == 0:
            return int8_routing.Int8Route(phase_of(m), Arm.TILED, f"{rows}x{columns}x{stage}", "contiguous")
    return REAL_ROUTE(lineage, m, n, k, decode_last_m)


REAL_ROUTE = int8_routing.int8_route
ATLEAST = Extent.accepts

TWINS: dict[str, tuple[Any, str, Any]] = {
    "floor one lower": calibrated(min_tokens=1023),
    "floor one higher": calibrated(min_tokens=1025),
    "no ceiling": calibrated(max_tokens=()),
    "ceiling one lower": calibrated(max_tokens=(((5120, 6144), 4095),)),
    "ceiling one higher": calibrated(max_tokens=(((5120, 6144), 4097),)),
    "ceiling of the other residual": calibrated(max_tokens=(((5120, 17408), 4096),)),
    "ratio of another device": calibrated(work_ratio=0.9555),
    "no margin": calibrated(margin=0.0),
    "margin of 5 %": calibrated(margin=0.05),
    "whole tiles still asked for": calibrated(whole_tiles=True),
    "margin on the wrong side of the comparison": (routing, "is_cheaper", without_margin_ties),
    "waves without their work": (routing, "is_cheaper", waves_only),
    "token tiles rounded down": (routing, "waves", other_waves),
    "two TMA blocks on an SM": (routing, "TMA_SCHEDULE", replace(TMA_SCHEDULE, blocks_per_sm=2)),
    "one cp.async block on an SM": (routing, "CP_ASYNC_SCHEDULE", replace(CP_ASYNC_SCHEDULE, blocks_per_sm=1)),
    "grid of 65534": (routing, "MAX_GRID_Y", 65534),
    "addresses aligned to 8": (routing, "ADDRESS_ALIGNMENT", 8),
    "64 rows are not small": (gemm_dispatch, "SMALL_ROWS", 63),
    "65 rows are small": (gemm_dispatch, "SMALL_ROWS", 65),
    "small tiles below 42 only": (gemm_dispatch, "LEAN_TILES", 42),
    "small tiles below 49": (gemm_dispatch, "LEAN_TILES", 49),
    "staged from 8193": (gemm_dispatch, "STAGED_FROM_K", 8193),
    "narrow tile at 67": (gemm_dispatch, "NARROW_COST", 67),
    "raster along the short axis": (gemm_dispatch, "RASTER_GROUP", -8),
    "crosswise of the transposed flipped": (
        GemmProblem,
        "transposed",
        property(lambda p: replace(p, m=p.n, n=p.m, a_crosswise=not p.b_crosswise, b_crosswise=not p.a_crosswise)),
    ),
    "crosswise ignored": (gemm_dispatch, "_any_crosswise", lambda problem: False),
    "no padding rule": (gemm_dispatch, "_pads_less_when_small", lambda problem: False),
    "always deep": (gemm_dispatch, "_small_stages", lambda problem: 3),
    "guards after the generic arms": (int8_routing, "int8_route", any_order),
    "at least means more than": (
        Extent,
        "accepts",
        lambda extent, value: ATLEAST(extent, value) and (extent.at_least == 1 or value > extent.at_least),
    ),
    "multiples not asked for": (
        Extent,
        "accepts",
        lambda extent, value: ATLEAST(replace(extent, multiple_of=1), value),
    ),
    "fused at 15 planes": (int8_routing, "FUSED_WORKSPACE_PLANES", 15),
    "packs not decoded": (int8_routing, "fallback_pack", lambda lineage, k, n: "contiguous"),
}


@contextmanager
def patched(patch: tuple[Any, str, Any]) -> Iterator[None]:
    target, name, value = patch
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(target, name, value)
        if name in globals():
            monkeypatch.setitem(globals(), name, value)
        yield


def test_the_battery_accepts_the_rules() -> None:
    battery()


@pytest.mark.parametrize("name", TWINS)
def test_the_battery_rejects_a_twin(name: str) -> None:
    with patched(TWINS[name]), pytest.raises((AssertionError, Refusal)):
        battery()


@pytest.mark.parametrize(("stage", "twin"), [(BASE_PAIR, rounded_up)])
def test_a_threshold_that_is_not_rounded_down_is_seen(
    stage: DispatchStage, twin: Callable[[GemmProblem], GemmPlan]
) -> None:
    """5/8 of 92 SMs are 57.5 tiles: 57 tiles are enough for the source, not for the twin."""
    problem = GemmProblem(m=128 * 57, n=128, k=64, sm_count=92)
    assert plan_gemm(stage, problem).cta is Cta.TILE_128X128
    assert twin(problem).cta is Cta.TILE_64X64


def test_a_calibration_of_another_device_gives_other_widths() -> None:
    assert routing.tma_widths(14336, 5120, 132, PREFILL) != routing.tma_widths(14336, 5120, RTX_5090.sm_count, PREFILL)
