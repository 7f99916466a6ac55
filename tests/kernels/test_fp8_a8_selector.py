"""The selector is held to the oracle's rule, its records to the sources, its obstacles to their words."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tileproof.kernels import fp8_a8_gemm as launcher
from tileproof.kernels import fp8_a8_selector as selector
from tileproof.kernels.fp8_a8_calibration import PUBLISHED, calibration_of, calibrations, find_calibration
from tileproof.kernels.fp8_a8_gemm import kernel_source
from tileproof.kernels.fp8_a8_selector import CP_ASYNC, TMA, Problem, Route, obstacle, select, work
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.routes.routing_calibration import CALIBRATIONS, GEOMETRIES, VOCABULARY
from tileproof.oracle.routing import fp8_a8_tma_applies

PROBLEM = Problem(arch="sm_120", tokens=1024, rows=14336, depth=5120)
RTX_5090 = find_calibration("rtx5090")


@pytest.mark.parametrize("geometry", [one for one in GEOMETRIES if one is not VOCABULARY], ids=lambda one: one.name)
@pytest.mark.parametrize("sm_count", [170, 132, 1, 0])
def test_the_choice_is_the_oracles_for_every_width(geometry: Any, sm_count: int) -> None:
    for tokens in (
        *range(1, 1088, 31),
        *(edge for tile in range(1024, 8256, 64) for edge in (tile, tile + 1)),
        300_000,
    ):
        problem = Problem(arch="sm_120", tokens=tokens, rows=geometry.out_features, depth=geometry.in_features)
        taken = select(problem, sm_count, RTX_5090) is Route.TMA
        assert taken == fp8_a8_tma_applies(geometry.out_features, geometry.in_features, tokens, sm_count), tokens


def test_a_published_calibration_has_the_oracles_constants() -> None:
    for name in calibrations().keys() & CALIBRATIONS.keys():
        ours, theirs = calibrations()[name], CALIBRATIONS[name]
        for field in ("device", "arch", "sm_count", "work_ratio", "margin", "min_tokens"):
            assert getattr(ours, field) == getattr(theirs, field), field
        assert theirs.date.startswith(ours.date)
        assert {((one.rows, one.depth), one.tokens) for one in ours.max_tokens} == set(theirs.max_tokens)


def test_a_device_has_the_calibration_of_its_architecture() -> None:
    for arch, sm_count in (("sm_120", 170), ("sm_120a", 0), ("sm_120a", 84)):
        assert calibration_of(arch, sm_count) is RTX_5090
    assert calibration_of("sm_90a", 132).name == calibration_of("sm_90", 0).name == "h200"
    assert calibration_of("sm_89", 128).name == PUBLISHED, "one that has none takes the published one"


def test_two_small_blocks_fill_waves_at_least_as_well_as_a_large_one() -> None:
    """So where a token of the TMA kernel costs as much as one of the other's, no width is worth it."""
    h200 = replace(find_calibration("h200"), work_ratio=0.981, lone_block=1.0)
    for rows in (5120, 14336, 16384, 34816):
        for tokens in range(64, 16384, 64):
            problem = Problem(arch="sm_90a", tokens=tokens, rows=rows, depth=5120)
            assert select(problem, h200.sm_count, h200) is Route.CP_ASYNC


def test_a_last_wave_of_lone_blocks_costs_what_the_calibration_says() -> None:
    """N = 5,120 at T = 512 on 132 multiprocessors: 320 blocks are 264 and 56, or 80 of the TMA kernel."""
    problem = Problem(arch="sm_90a", tokens=512, rows=5120, depth=5120)
    assert work(TMA, problem, 132, 0.53) == 256
    assert work(CP_ASYNC, problem, 132) == 256
    assert work(CP_ASYNC, problem, 132, 0.53) == pytest.approx(1.53 * 128)
    assert work(CP_ASYNC, replace(problem, tokens=640), 132, 0.53) == 256, "400 blocks: 136 are too many to be alone"
    assert work(CP_ASYNC, replace(problem, rows=264 * 128, tokens=64), 132, 0.53) == 128, "no last wave"
    calibration = replace(RTX_5090, work_ratio=0.9, min_tokens=0)
    assert select(problem, 132, calibration) is Route.TMA
    assert select(problem, 132, replace(calibration, lone_block=0.53)) is Route.CP_ASYNC


def test_a_gate_on_whole_tiles_of_tokens_would_be_found() -> None:
    """As ninfer pull request 167 had it until it was reviewed: widths that the other tile divides, or none."""
    gated = [
        tokens
        for tokens in range(1345, 1537)
        if not fp8_a8_tma_applies(14336, 5120, tokens, 170, "rtx5090-whole-tiles")
    ]
    ours = [replace(PROBLEM, tokens=tokens) for tokens in gated]
    assert len(gated) == 189
    assert all(select(problem, 170, RTX_5090) is Route.TMA for problem in ours)


def test_an_unknown_calibration_is_refused() -> None:
    with pytest.raises(Refusal, match="no calibration is called 'h100'"):
        find_calibration("h100")


@pytest.mark.parametrize(
    ("change", "route", "says"),
    [
        ({"rows": 14400}, Route.CP_ASYNC, "N = 14400 is no multiple of 128"),
        ({"depth": 5184}, Route.CP_ASYNC, "K = 5184 is no multiple of 128"),
        ({"depth": 5184}, Route.TMA, None),
        ({"depth": 5152}, Route.TMA, "K = 5152 is no multiple of 64"),
        ({"begins": (0, 192)}, Route.CP_ASYNC, "an output begins at weight row 192"),
        ({"misaligned": ("weight",)}, Route.TMA, "weight is not aligned to 16 bytes"),
        ({"scales_aligned": False}, Route.CP_ASYNC, "weight_scales is not aligned to 4 bytes"),
        ({"tokens": 65535 * 64 + 1}, Route.CP_ASYNC, "is 65536 tiles of 64 tokens; the most is 65535"),
        ({"tokens": 65535 * 64 + 1}, Route.TMA, None),
        ({"arch": "sm_89"}, Route.TMA, "sm_89 has no tensor copies"),
        ({"arch": "sm_89"}, Route.CP_ASYNC, None),
        ({"arch": "sm_101a"}, Route.TMA, "the shared memory of sm_101a is not known"),
        ({"depth": 1 << 31}, Route.TMA, "K = 2147483648 is beyond the coordinates of a tensor copy"),
        ({"depth": (1 << 31) - 64}, Route.TMA, None),
        ({"rows": 1 << 31}, Route.TMA, "N = 2147483648 is beyond the coordinates"),
    ],
)
def test_what_a_route_cannot_take_is_said_in_words(change: dict[str, Any], route: Route, says: str | None) -> None:
    found = obstacle(route, replace(PROBLEM, **change))
    assert found == says if says is None or found is None else says in found
    assert obstacle(Route.FALLBACK, replace(PROBLEM, **change)) is None


def test_a_tile_that_shared_memory_does_not_hold_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector, "TMA", replace(selector.TMA, stages=5, shared_bytes=123392))
    assert obstacle(Route.TMA, PROBLEM) == "a block takes 123392 bytes of shared memory; sm_120 gives it 101376"
    assert obstacle(Route.TMA, replace(PROBLEM, arch="sm_90a")) is None
    assert select(PROBLEM, 170, RTX_5090) is Route.CP_ASYNC


def test_each_choice_is_reached() -> None:
    assert select(PROBLEM, 170, RTX_5090) is Route.TMA
    assert select(replace(PROBLEM, tokens=1023), 170, RTX_5090) is Route.CP_ASYNC
    assert select(replace(PROBLEM, rows=14337), 170, RTX_5090) is Route.FALLBACK
    assert select(PROBLEM, 170, RTX_5090, (Route.CP_ASYNC,)) is Route.CP_ASYNC
    assert select(replace(PROBLEM, depth=5184), 0, RTX_5090) is Route.FALLBACK, "an unknown device declines"


def constants(source: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", source)}


def test_the_records_are_the_sources() -> None:
    tiled, fallback = constants(kernel_source(Route.CP_ASYNC)), constants(kernel_source(Route.FALLBACK))
    assert CP_ASYNC.block_tokens == tiled["kTokens"]
    assert CP_ASYNC.block_k == tiled["kDepth"]
    assert CP_ASYNC.stages == tiled["kStages"]
    assert CP_ASYNC.threads == tiled["kThreads"]
    assert CP_ASYNC.blocks_per_sm == tiled["kBlocksPerSm"]
    assert CP_ASYNC.shared_bytes == CP_ASYNC.stages * (CP_ASYNC.block_tokens + CP_ASYNC.block_rows) * CP_ASYNC.block_k
    assert fallback["kThreads"] == launcher.FALLBACK_THREADS
    assert launcher.FALLBACK_TOKENS == 16 * launcher.FALLBACK_THREADS // 32
    assert "kWarpTokens = 16, kWarpOutputs = 8;" in kernel_source(Route.FALLBACK)
    assert launcher.FALLBACK_OUTPUTS == 8
