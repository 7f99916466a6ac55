"""The benchmark of the FP8 product on a GPU: its arithmetic, and that its contenders compute what they should."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recording_sim import RecordingSim

from tileproof.kernels.fp8_a8_calibration import find_calibration
from tileproof.kernels.fp8_a8_call_site import LINEAR
from tileproof.kernels.fp8_a8_selector import Route

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.fp8_a8_calibrate import LIMIT, fit, lone_block
from benchmarks.fp8_a8_gpu import Bench, Cell, line, token_costs, work_ratio, worst_choice
from benchmarks.gpu_timing import REPETITIONS, Ratio, Times, take_turns


def test_contenders_compute_the_same_and_only_the_unfenced_one_is_found() -> None:
    device: Any = RecordingSim()
    bench = Bench(device, LINEAR, 128, 384, 17)
    contenders, route = bench.contenders(17, None)
    assert route is Route.CP_ASYNC, "the width is below the calibration's floor"
    results = {}
    for name, run in contenders.items():
        found: Any = run()
        assert bool(found) == (name == "unfenced")
        results[name] = bench.outputs[0].download().view(np.uint16)
    assert results["tma"].any()
    for name in ("cp-async", "unfenced", "selected"):
        assert np.array_equal(results[name], results["tma"]), name


class Clock:
    """CUDA's events, with a clock that the runs move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runtime = SimpleNamespace(deviceSynchronize=lambda: None)

    def Event(self) -> Any:
        event = SimpleNamespace(at=0.0, synchronize=lambda: None)
        event.record = lambda: setattr(event, "at", self.now)
        return event

    def get_elapsed_time(self, start: Any, end: Any) -> float:
        return float(end.at - start.at)


def test_contenders_take_turns_and_another_is_first_each_time() -> None:
    clock = Clock()
    order: list[str] = []

    def contender(name: str, milliseconds: float) -> Any:
        def run() -> None:
            order.append(name)
            clock.now += milliseconds

        return run

    times = take_turns(clock, {"a": contender("a", 10.0), "b": contender("b", 40.0)})
    assert times["a"].milliseconds == pytest.approx((10.0,) * REPETITIONS)
    assert times["b"].over(times["a"]).middle == pytest.approx(4.0)
    rounds = order[10:]  # after two and three runs of each alone
    assert len(rounds) == REPETITIONS * 3 * 2
    assert rounds[:12] == ["a", "b"] * 3 + ["b", "a"] * 3


def test_a_contender_that_is_slow_after_another_is_not_slower_than_itself() -> None:
    """What a GPU at its limit of power does: everything is slower for a while after a hot run."""
    clock = Clock()
    heat = [0.0]

    def contender(milliseconds: float, hot: float) -> Any:
        def run() -> None:
            clock.now += milliseconds * (1 + heat[0])
            heat[0] = 0.9 * heat[0] + 0.1 * hot

        return run

    times = take_turns(clock, {"a": contender(5.0, 0.2), "same": contender(5.0, 0.2), "hot": contender(5.0, 2.0)})
    assert times["a"].over(times["same"]).middle == pytest.approx(1.0, abs=0.1)


def test_a_ratio_is_taken_repetition_by_repetition() -> None:
    ratio = Times((1.0, 2.0, 9.0)).over(Times((1.0, 4.0, 3.0)))
    assert ratio == Ratio(1.0, 0.5, 3.0)
    assert str(ratio) == "1.000 (0.500-3.000)"


def cell(tokens: int, tma: float, cp_async: float) -> Cell:
    times = {"tma": Times((tma,) * 3), "cp-async": Times((cp_async,) * 3), "unfenced": Times((tma,) * 3)}
    return Cell("linear", 14336, 5120, tokens, Route.TMA, times | {"selected": times["tma"]})


def test_the_work_ratio_undoes_the_waves() -> None:
    """T = 1,024 on 170 multiprocessors: 3 waves of 256 tokens against 6 of 128."""
    assert work_ratio([cell(1024, 0.936, 1.0)], 170) == pytest.approx(0.936)
    assert "1024" in line(cell(1024, 0.936, 1.0))


def test_a_choice_that_costs_time_is_found() -> None:
    calibration = find_calibration("rtx5090")
    good, bad = cell(1024, 0.9, 1.0), cell(1024, 1.2, 1.0)
    assert worst_choice([good], 170, "sm_120", calibration) == (1.0, "nowhere")
    worst, where = worst_choice([good, bad], 170, "sm_120", calibration)
    assert worst == pytest.approx(1.2)
    assert where == "linear 14336 x 5120 at T = 1024"
    assert worst_choice([bad], 170, "sm_120", replace(calibration, min_tokens=2048))[0] == 1.0


def test_a_fit_chooses_within_the_limit_where_the_model_can() -> None:
    """A device on which a token of the TMA kernel costs 0.9, but nothing below 2,048 tokens is worth it."""
    blank = replace(find_calibration("rtx5090"), arch="sm_120", max_tokens=(), margin=0.02)
    cells = [cell(tokens, 1.5 if tokens < 2048 else 0.9 * waves(tokens), 1.0) for tokens in range(512, 8193, 512)]
    fitted = fit(cells, blank)
    assert worst_choice(cells, 170, "sm_120", fitted)[0] <= LIMIT
    assert 1024 < fitted.min_tokens <= 2304
    slow = fit([cell(tokens, 1.2, 1.0) for tokens in (1024, 4096)], blank)
    assert worst_choice([cell(4096, 1.2, 1.0)], 170, "sm_120", slow)[0] == 1.0


def waves(tokens: int) -> float:
    return token_costs(cell(tokens, 1.0, 1.0), 170)


def test_the_cost_of_a_lone_block_is_found_again() -> None:
    """N = 5,120 on 132 multiprocessors: at T = 512 and 896 the last wave of cp.async blocks has 56 and 32."""
    cells = [
        replace(cell(tokens, 0.9 * token_costs(one, 132, 0.6), 1.0), rows=5120)
        for tokens in (384, 512, 768, 896, 1536)
        for one in [replace(cell(tokens, 1.0, 1.0), rows=5120)]
    ]
    assert lone_block(cells, 132) == 0.6
    assert lone_block(cells[:1], 132) == 1.0, "no cell tells"


def test_a_weight_of_its_own_kind_gets_a_ceiling() -> None:
    blank = replace(find_calibration("rtx5090"), arch="sm_120", max_tokens=(), margin=0.02)
    cells = [cell(tokens, 0.9 * waves(tokens), 1.0) for tokens in (1024, 2304, 4096, 8192)]
    odd = [replace(one, rows=5120, depth=6144, times={**one.times, "tma": Times((1.3,) * 3)}) for one in cells[2:]]
    fitted = fit([*cells, *odd], blank)
    assert worst_choice([*cells, *odd], 170, "sm_120", fitted)[0] <= LIMIT


def recorded_cells(name: str) -> list[Cell]:
    """The cells of committed evidence."""
    path = Path(__file__).parents[2] / "docs" / "evidence" / "h200-2026-11-30" / f"{name}.json"
    cells = []
    for one in json.loads(path.read_text())["cells"]:
        times = {name: Times(tuple(each["milliseconds"])) for name, each in one["times"].items()}
        cells.append(Cell(one["site"], one["rows"], one["depth"], one["tokens"], Route(one["selected"]), times))
    return cells


def test_the_h200s_calibration_costs_at_most_three_percent_in_every_measured_cell() -> None:
    calibration, fitted_to = find_calibration("h200"), recorded_cells("fp8_a8_calibration")
    assert calibration.lone_block == lone_block(fitted_to, calibration.sm_count) < 1.0
    measured = work_ratio(fitted_to, calibration.sm_count, calibration.lone_block)
    assert calibration.work_ratio == pytest.approx(measured, rel=0.02), "what is fitted is what is measured"
    assert calibration.min_tokens == min(cell.tokens for cell in fitted_to)
    cells = [*fitted_to, *recorded_cells("fp8_a8_speed")]
    assert len(cells) == 5 * 19 + 7 * 3
    worst, where = worst_choice(cells, calibration.sm_count, calibration.arch, calibration)
    assert worst <= LIMIT, where
    without = fit(fitted_to, replace(calibration, max_tokens=()), lone_blocks=(1.0,))
    assert worst_choice(cells, 132, "sm_90a", without)[0] > LIMIT, "the published model does not do"
    published = replace(find_calibration("rtx5090"), sm_count=132)
    assert worst_choice(cells, 132, "sm_90a", published)[0] > LIMIT, "another device's constants do not do"


def test_the_h200s_calibration_is_what_is_fitted_to_the_evidence() -> None:
    calibration = find_calibration("h200")
    fitted = fit(recorded_cells("fp8_a8_calibration"), replace(calibration, max_tokens=()))
    assert replace(fitted, work_ratio=round(fitted.work_ratio, 3)) == calibration
