"""Steps, seconds and memory that the caller sets end every launch, with the findings made until then."""

import re
import time
from typing import Any

import numpy as np
import pytest
from async_kernels import module
from endless import PROVED, UNPROVED

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report
from tileproof.simulators.ptx.machine.budget import BudgetExceeded, StepBudgetExceeded, TimeBudgetExceeded

SECONDS = 0.1
SLACK_S = 3.0  # for a loaded machine; a budget that is not looked at takes minutes or for ever
ENGINES = ("fast", "reference")
RACE = "st.global.u32 [%d1], %r0;"
COUNTS = UNPROVED["a count that decides"]


def launch(body: str, *, blocks: int = 1, threads: int = 64, shared: str = "", **options: Any) -> Report:
    device = Device(**options)
    numbers, out = device.upload(np.arange(2048, dtype=np.uint32)), device.upload(np.zeros(1 << 16, np.uint32))
    kernel = device.load_ptx(module(body, shared))["k"]
    return kernel.launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(numbers, out))


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", PROVED)
def test_a_loop_in_which_nothing_changes_is_a_deadlock_finding(kind: str, engine: str, schedule: str) -> None:
    report = launch(PROVED[kind], engine=engine, schedule=schedule)
    assert [finding.kind for finding in report.findings] == [FindingKind.DEADLOCK]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", UNPROVED)
def test_every_other_loop_ends_with_the_budget_of_seconds_and_says_where_it_was(kind: str, engine: str) -> None:
    with pytest.raises(TimeBudgetExceeded):  # what is compiled at first use is not the launch's time
        launch(UNPROVED[kind], engine=engine, time_budget_s=SECONDS, step_budget=1 << 40)
    started = time.process_time()
    with pytest.raises(TimeBudgetExceeded) as caught:
        launch(UNPROVED[kind], engine=engine, time_budget_s=SECONDS, step_budget=1 << 40)
    assert time.process_time() - started < SECONDS + SLACK_S
    line = 1 + module(UNPROVED[kind], "").split(UNPROVED[kind])[0].count("\n")
    assert caught.value.message == f"kernel k: {SECONDS} s were not enough; the next step is at PTX line {line}"
    assert "time_budget_s" in caught.value.hint


@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
@pytest.mark.parametrize("kind", UNPROVED)
def test_every_other_loop_ends_with_the_budget_of_steps(kind: str, schedule: str) -> None:
    with pytest.raises(StepBudgetExceeded, match=r"kernel k: 50 steps were not enough; the next one is at PTX line"):
        launch(UNPROVED[kind], schedule=schedule, step_budget=50)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_clock_is_looked_at_within_a_step_of_thousands_of_threads(engine: str) -> None:
    body = UNPROVED["an atomic that adds nothing but orders"]
    launch("ret;", engine=engine)
    started = time.process_time()
    with pytest.raises(TimeBudgetExceeded):
        launch(body, blocks=16, threads=1024, engine=engine, time_budget_s=SECONDS)  # one step takes over a minute
    assert time.process_time() - started < SECONDS + SLACK_S


@pytest.mark.parametrize("options", [{"step_budget": 1 << 14}, {"time_budget_s": SECONDS, "step_budget": 1 << 40}])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_found_before_the_budget_ran_out_is_kept(engine: str, options: dict[str, Any]) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        launch(RACE + COUNTS, engine=engine, **options)
    report = caught.value.report
    assert [finding.kind for finding in report.findings] == [FindingKind.RACE]
    assert report.engine == engine
    assert report.counters.thread_instructions > 0


@pytest.mark.parametrize("grid", [(2**31 - 1, 1, 1), (2**31 - 1, 65535, 65535)])
@pytest.mark.parametrize("schedule", ["friendly", "adversarial"])
def test_a_grid_of_billions_of_blocks_ends_in_time(grid: tuple[int, int, int], schedule: str) -> None:
    device = Device(schedule=schedule, time_budget_s=SECONDS)
    buffers = [device.upload(np.zeros(2048, np.uint32)) for _ in range(2)]
    with pytest.raises(TimeBudgetExceeded):
        device.load_ptx(module("ret;", ""))["k"].launch(grid=grid, block=(1024, 1, 1), args=buffers)


@pytest.mark.parametrize("options", [{"step_budget": 0}, {"step_budget": -1}, {"time_budget_s": 0.0}])
def test_a_budget_of_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match=next(iter(options))):
        launch("ret;", **options)


def test_a_wave_that_needs_more_memory_than_is_left_is_refused_before_it_is_taken() -> None:
    with pytest.raises(Refusal) as caught:
        launch(".local .b8 l[500000]; ret;", threads=1024, memory_limit_bytes=64 << 20)
    found = re.search(r"kernel k: 1 resident blocks of 1024 threads need (\d+) bytes", caught.value.message)
    assert found
    assert int(found[1]) > 2 * 1024 * 500_000
    assert f"of the device's {64 << 20} bytes 270336 are in use" in caught.value.message
    assert "memory_limit_bytes" in caught.value.hint


def test_allocations_count_against_the_memory_of_a_launch() -> None:
    device = Device(memory_limit_bytes=1 << 20)
    buffers = [device.allocate((1 << 19) - 100, np.uint8) for _ in range(2)]
    kernel = device.load_ptx(module("ret;", ""))["k"]
    with pytest.raises(Refusal, match="are in use"):
        kernel.launch(grid=(1, 1, 1), block=(32, 1, 1), args=buffers)
    device.free(buffers[0])
    smaller = device.allocate(4, np.uint8)
    assert kernel.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(smaller, buffers[1])).findings == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".local .b8 a[524289]; ret;", "524289 bytes of local memory for a thread: the limit is 524288"),
        (".local .b8 a[140737488355328]; ret;", "140737488355328 bytes of local memory"),
        (".shared .b8 a[1099511627776]; ret;", "bytes of static shared memory: the limit is 49152"),
        (".global .b8 a[1099511627776]; mov.u64 %d4, a; ret;", "allocation of 1099511627776 bytes"),
    ],
)
def test_a_giant_variable_is_refused_with_its_size(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        launch(text)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (".const .b8 c[65537];", "65537 bytes of constants: the limit is 65536"),
        (".const .b8 c[140737488355328];", "bytes of constants"),
    ],
)
def test_more_constants_than_there_are_is_refused(declared: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        launch("ret;", shared=declared)


def test_more_parameters_than_a_kernel_has_is_refused() -> None:
    text = module("ret;", "").replace(".param .u64 out", ".param .u64 out, .param .b8 more[65536]")
    with pytest.raises(Refusal, match="65552 bytes of parameters: the limit is 32764"):
        Device().load_ptx(text)
