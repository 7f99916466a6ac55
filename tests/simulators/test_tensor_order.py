"""Order of tensor copies: each rule by a right kernel, silent on every schedule, and a wrong one, always found."""

from typing import Any

import numpy as np
import pytest
from tensor_kernels import EXPECT, FILL, INIT, LOAD, OUT, PARAM_MAP, STORE, WAIT, Outcome, run

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(6)]]
BEGIN = PARAM_MAP + INIT + EXPECT
ISSUE, COMMIT, WAIT_READ, WAIT_ALL = (
    STORE.split("@%p0 cp.async.bulk.commit_group;")[0],
    "@%p0 cp.async.bulk.commit_group;",
    "@%p0 cp.async.bulk.wait_group.read 0;",
    "@%p0 cp.async.bulk.wait_group 0;",
)
SYNC = "bar.sync 0;"
PROXY = "fence.proxy.async;"
# A second load into the tile, of the barrier's next phase.
AGAIN = EXPECT + LOAD + WAIT.replace("W", "V").replace("[bar], 0", "[bar], 1")
# Every thread writes, or reads, its own 8 bytes of the tile, or of the tensor.
WRITE_TILE = "shl.b32 %r3, %r0, 3; add.u32 %r3, %r3, tile; mov.b64 %d3, 7; st.shared.u64 [%r3], %d3;"
WRITE_TENSOR = "mul.wide.u32 %d4, %r0, 8; add.s64 %d4, %d4, %d1; mov.b64 %d3, 7; st.global.u64 [%d4], %d3;"
READ_TENSOR = """mul.wide.u32 %d4, %r0, 8; add.s64 %d5, %d4, %d1; ld.global.u64 %d3, [%d5];
    add.s64 %d4, %d4, %d2; st.global.u64 [%d4], %d3;"""

PAIRS = {
    "read after the wait": (BEGIN + LOAD + WAIT + OUT, BEGIN + LOAD + OUT + WAIT),
    "wait by every reader": (
        BEGIN + LOAD + WAIT + OUT,
        BEGIN + LOAD + f"@!%p0 bra N; {WAIT} N:" + OUT,
    ),
    "proxy fence between a write of the tile and its store": (
        PARAM_MAP + WRITE_TILE + PROXY + SYNC + STORE,
        PARAM_MAP + WRITE_TILE + SYNC + STORE,
    ),
    "barrier between the writers and the thread that stores": (
        PARAM_MAP + WRITE_TILE + PROXY + SYNC + STORE,
        PARAM_MAP + WRITE_TILE + PROXY + STORE,
    ),
    "source reused after wait_group.read": (
        PARAM_MAP + FILL + ISSUE + COMMIT + WAIT_READ + SYNC + WRITE_TILE,
        PARAM_MAP + FILL + ISSUE + COMMIT + SYNC + WRITE_TILE,
    ),
    "result read after the full wait": (
        PARAM_MAP + FILL + ISSUE + COMMIT + WAIT_ALL + SYNC + READ_TENSOR,
        PARAM_MAP + FILL + ISSUE + COMMIT + WAIT_READ + SYNC + READ_TENSOR,
    ),
    "slot refilled after its readers": (
        BEGIN + LOAD + WAIT + OUT + PROXY + SYNC + AGAIN,
        BEGIN + LOAD + WAIT + OUT + PROXY + AGAIN,
    ),
    "proxy fence between readers and refill": (
        BEGIN + LOAD + WAIT + OUT + PROXY + SYNC + AGAIN,
        BEGIN + LOAD + WAIT + OUT + SYNC + AGAIN,
    ),
    "proxy fence between a write of the tensor and its load": (
        BEGIN + WRITE_TENSOR + PROXY + SYNC + LOAD + WAIT + OUT,
        BEGIN + WRITE_TENSOR + SYNC + LOAD + WAIT + OUT,
    ),
    "proxy fence of the space that was written": (
        BEGIN + WRITE_TENSOR + "fence.proxy.async.global;" + SYNC + LOAD + WAIT + OUT,
        BEGIN + WRITE_TENSOR + "fence.proxy.async.shared::cta;" + SYNC + LOAD + WAIT + OUT,
    ),
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("name", PAIRS)
def test_the_right_kernel_is_silent_and_the_wrong_one_races(name: str, schedule: str, seed: int) -> None:
    right, wrong = (run(body, schedule=schedule, seed=seed, engine="reference") for body in PAIRS[name])
    assert [finding.message for finding in right.findings] == []
    assert FindingKind.RACE in [finding.kind for finding in wrong.findings]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_blocks_may_reduce_into_one_place_but_not_store(schedule: str, seed: int) -> None:
    reduce = STORE.replace(
        "cp.async.bulk.tensor.2d.global.shared::cta", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"
    )

    def launch(body: str) -> Outcome:
        device = Device(schedule=schedule, seed=seed, engine="reference")
        tensor = device.upload(np.zeros(512, np.uint8))
        words: Any = {"dtype": "uint64", "shape": (8, 8), "strides_bytes": (64,), "box": (8, 8)}
        return run(PARAM_MAP + FILL + body, device=device, tensor=tensor, blocks=4, **words)

    summed = launch(reduce)
    assert [finding.message for finding in summed.findings] == []
    np.testing.assert_array_equal(summed.tensor.view(np.uint64), 4 * np.arange(64))
    assert [finding.kind for finding in launch(STORE).findings] == [FindingKind.RACE]


EVERY_LANE = STORE.replace("@%p0 ", "@%p2 ")  # of the first warp
FIRST_WARP = "setp.lt.u32 %p2, %r0, 32;"


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_warp_may_issue_one_store_together_but_not_two_to_one_place(schedule: str, seed: int) -> None:
    """Every thread copies the tile: equal bytes, a note. One of them copies what lies behind it: a race."""
    right = run(PARAM_MAP + FIRST_WARP + FILL + EVERY_LANE, schedule=schedule, seed=seed)
    assert right.findings == []
    assert [note.count for note in right.notes] == [31]
    assert "threads of a warp copy the same bytes to one place" in right.notes[0].message
    np.testing.assert_array_equal(right.tensor.view(np.uint64), np.arange(64))
    filled = FILL.replace("tile;", "tile; st.shared.u64 [%r3+512], 7;", 1)
    other = "mov.u32 %r8, tile; setp.eq.u32 %p3, %r0, 3; @%p3 add.u32 %r8, %r8, 512;"
    wrong = EVERY_LANE.replace("mov.u32 %r8, tile;", other)
    raced = run(PARAM_MAP + FIRST_WARP + filled + wrong, schedule=schedule, seed=seed)
    assert FindingKind.RACE in raced.kinds()


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_each_thread_of_a_store_made_together_waits_for_itself(schedule: str, seed: int) -> None:
    """Only thread 0 waits, and then the tile is written: the others may still read it."""
    reuse = SYNC + WRITE_TILE
    assert run(PARAM_MAP + FIRST_WARP + FILL + EVERY_LANE + reuse, schedule=schedule, seed=seed).findings == []
    one_waits = EVERY_LANE.replace("@%p2 cp.async.bulk.wait_group", "@%p0 cp.async.bulk.wait_group")
    raced = run(PARAM_MAP + FIRST_WARP + FILL + one_waits + reuse, schedule=schedule, seed=seed)
    assert FindingKind.RACE in raced.kinds()
