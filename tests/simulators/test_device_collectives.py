"""Warp collectives against definitions in plain Python, whole warps and parts, converged and diverged."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind

Words = NDArray[np.uint32]
ADVERSARIAL = [("adversarial", seed) for seed in range(50)]
on_few_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL[:3]])
on_right_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL])
on_wrong_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL[:20]])
X = np.random.default_rng(5).integers(0, 2**32, 64, np.uint32)
SMALL = np.random.default_rng(6).integers(0, 4, 64, np.uint32)


def launch(
    body: str, x: Words = X, schedule: str = "friendly", seed: int = 0, *, threads: int = 64
) -> tuple[list[Finding], Words]:
    """Run a kernel: %r0 is the thread, %r1 its lane, %r2 = x[thread]; %r3 goes to out[thread] at the label END."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<24>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %laneid;
    mul.wide.u32 %d2, %r0, 4;
    add.s64 %d0, %d0, %d2;
    add.s64 %d1, %d1, %d2;
    ld.global.u32 %r2, [%d0];
    setp.lt.u32 %p0, %r1, 8;
    and.b32 %r4, %r1, 1;
    setp.eq.u32 %p1, %r4, 1;
    mov.u32 %r3, 0;
    {body}
END:
    st.global.u32 [%d1], %r3;
}}
"""
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros(64, np.uint32))
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=(device.upload(x), out))
    return report.findings, out.download()


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The source lane and the predicate, as the PTX ISA's pseudocode of shfl.sync computes them."""
    bval, cval, mask = b & 31, c & 31, (c >> 8) & 31
    max_lane = (lane & mask) | (cval & ~mask)
    min_lane = lane & mask
    if mode == "up":
        j, inside = lane - bval, lane - bval >= max_lane
    elif mode == "down":
        j, inside = lane + bval, lane + bval <= max_lane
    elif mode == "bfly":
        j, inside = lane ^ bval, (lane ^ bval) <= max_lane
    else:
        j = min_lane | (bval & ~mask)
        inside = j <= max_lane
    return (j if inside else lane), inside


@pytest.mark.parametrize("segment", [0, 0x18, 0x1C, 0x10])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_follow_the_pseudocode_of_the_isa(mode: str, segment: int) -> None:
    clamp = 0 if mode == "up" else 31
    for b in (0, 1, 3, 8, 17, 31, 33):
        c = segment << 8 | clamp
        body = f"shfl.sync.{mode}.b32 %r3|%p2, %r2, {b}, {c}, -1; @%p2 xor.b32 %r3, %r3, 1;"
        findings, out = launch(body, X & np.uint32(~1 & 0xFFFF_FFFF))
        assert findings == []
        for t in range(64):
            source, inside = shuffled(mode, t % 32, b, c)
            assert out[t] == (int(X[t // 32 * 32 + source]) & ~1) + inside, (mode, b, c, t)


def test_a_shuffle_may_write_the_register_that_it_reads() -> None:
    findings, out = launch("shfl.sync.bfly.b32 %r2, %r2, 5, 31, -1; mov.u32 %r3, %r2;")
    assert findings == []
    np.testing.assert_array_equal(out, X[np.arange(64) ^ 5])


@on_few_schedules
def test_votes_over_whole_warps(schedule: str, seed: int) -> None:
    body = """
        setp.lt.u32 %p2, %r2, 2;
        vote.sync.ballot.b32 %r3, %p2, -1;
        vote.sync.any.pred %p3, %p2, -1;
        vote.sync.all.pred %p4, %p2, -1;
        vote.sync.uni.pred %p5, !%p2, -1;
        @!%p3 xor.b32 %r3, %r3, 1;
        @%p4 xor.b32 %r3, %r3, 2;
        @%p5 xor.b32 %r3, %r3, 4;"""
    for x in (SMALL, SMALL | np.uint32(2), SMALL & np.uint32(1)):
        findings, out = launch(body, x, schedule, seed)
        assert findings == []
        for t in range(64):
            votes = x[t // 32 * 32 : t // 32 * 32 + 32] < 2
            ballot = sum(int(vote) << lane for lane, vote in enumerate(votes))
            uniform = votes.all() or not votes.any()
            assert out[t] == ballot ^ (not votes.any()) ^ 2 * bool(votes.all()) ^ 4 * bool(uniform)


REDUCTIONS: dict[str, Callable[[Words], int]] = {
    "add.u32": lambda x: int(x.sum(dtype=np.uint64)) & 0xFFFF_FFFF,
    "add.s32": lambda x: int(x.sum(dtype=np.uint64)) & 0xFFFF_FFFF,
    "min.u32": lambda x: int(x.min()),
    "max.u32": lambda x: int(x.max()),
    "min.s32": lambda x: int(x.view(np.int32).min()) & 0xFFFF_FFFF,
    "max.s32": lambda x: int(x.view(np.int32).max()) & 0xFFFF_FFFF,
    "and.b32": lambda x: int(np.bitwise_and.reduce(x)),
    "or.b32": lambda x: int(np.bitwise_or.reduce(x)),
    "xor.b32": lambda x: int(np.bitwise_xor.reduce(x)),
}


@on_few_schedules
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_odd_and_even_lanes(name: str, schedule: str, seed: int) -> None:
    body = f"selp.b32 %r5, 0xAAAAAAAA, 0x55555555, %p1; redux.sync.{name} %r3, %r2, %r5;"
    for diverged in (body, f"@%p1 bra ODD; {body} bra END; ODD: {body}"):
        findings, out = launch(diverged, X, schedule, seed)
        assert findings == []
        expected = [REDUCTIONS[name](X[t // 32 * 32 + t % 2 : t // 32 * 32 + 32 : 2]) for t in range(64)]
        np.testing.assert_array_equal(out, expected)


@on_few_schedules
def test_matches_over_whole_warps(schedule: str, seed: int) -> None:
    findings, out = launch("match.any.sync.b32 %r3, %r2, -1;", SMALL, schedule, seed)
    assert findings == []
    for t in range(64):
        warp = SMALL[t // 32 * 32 : t // 32 * 32 + 32]
        assert out[t] == sum(int(value == SMALL[t]) << lane for lane, value in enumerate(warp))
    body = "cvt.u64.u32 %d4, %r2; match.all.sync.b64 %r3|%p2, %d4, -1; @%p2 xor.b32 %r3, %r3, 0xFFFFFFF0;"
    assert set(launch(body, SMALL, schedule, seed)[1].tolist()) == {0}
    assert set(launch(body, SMALL * np.uint32(0), schedule, seed)[1].tolist()) == {0xF}


def test_elect_gives_one_leader_a_mask_and_the_adversary_another_than_the_lowest_lane() -> None:
    body = """
        elect.sync %r4|%p2, -1;
        elect.sync _|%p3, -1;
        selp.u32 %r5, 256, 0, %p2;
        selp.u32 %r6, 512, 0, %p3;
        add.u32 %r3, %r4, %r5;
        add.u32 %r3, %r3, %r6;"""
    leaders = set()
    for schedule, seed in [("friendly", 0), *ADVERSARIAL]:
        findings, out = launch(body, X, schedule, seed)
        assert findings == []
        leader = int(out[0]) & 31
        leaders.add(leader)
        expected = np.where(np.arange(64) % 32 == leader, 768, 0) + leader
        np.testing.assert_array_equal(out, expected)
        if schedule == "friendly":
            assert leader == 0
    assert len(leaders) > 10


@on_right_schedules
@pytest.mark.parametrize("threads", [64, 40, 5])
def test_collectives_of_diverged_halves_and_of_ragged_warps(threads: int, schedule: str, seed: int) -> None:
    body = """
        @%p1 bra ODD;
        shfl.sync.bfly.b32 %r3, %r2, 2, 31, 0x55555555;
        bra END;
    ODD:
        shfl.sync.idx.b32 %r3, %r2, 1, 31, 0xAAAAAAAA;"""
    findings, out = launch(body, X, schedule, seed, threads=threads)
    lane, warp = np.arange(threads) % 32, np.arange(threads) // 32 * 32
    source = warp + np.where(lane % 2, 1, lane ^ 2)
    exists = source < threads
    np.testing.assert_array_equal(out[:threads][exists], X[source[exists]])
    # What came from lanes that are not there is undefined, and it is stored.
    assert [f.kind for f in findings] == ([] if exists.all() else [FindingKind.UNINITIALISED])


@on_right_schedules
def test_lanes_that_exited_are_not_waited_for(schedule: str, seed: int) -> None:
    findings, out = launch("@%p0 exit; vote.sync.ballot.b32 %r3, %p1, -1;", X, schedule, seed)
    assert findings == []
    expected = np.where(np.arange(64) % 32 < 8, 0, 0xAAAAAA00)
    np.testing.assert_array_equal(out, expected)


@on_right_schedules
def test_lanes_that_exit_while_others_wait_for_them_let_these_go(schedule: str, seed: int) -> None:
    body = "@%p0 bra LEAVE; vote.sync.ballot.b32 %r3, %p1, -1; bra END; LEAVE: add.u32 %r4, %r4, 1; exit;"
    findings, out = launch(body, X, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, np.where(np.arange(64) % 32 < 8, 0, 0xAAAAAA00))


@on_right_schedules
def test_a_group_of_half_of_each_warp_meets_the_other_halves_one_by_one(schedule: str, seed: int) -> None:
    # Threads 32 to 47 wait first; 0 to 15 and 48 to 63 come as one group, which makes the second warp whole only.
    body = """
        setp.lt.u32 %p2, %r1, 16;
        setp.lt.u32 %p3, %r0, 32;
        xor.pred %p4, %p2, %p3;
        @!%p4 bra SECOND;
        @%p3 bra THIRD;
    MEET:
        shfl.sync.bfly.b32 %r3, %r2, 16, 31, -1;
        add.u32 %r3, %r3, 1;
        bra END;
    SECOND:
        bra MEET;
    THIRD:
        bra MEET;"""
    findings, out = launch(body, X, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, X[np.arange(64) ^ 16] + np.uint32(1))


@on_right_schedules
def test_lanes_wait_at_a_collective_for_lanes_with_longer_work(schedule: str, seed: int) -> None:
    body = """
    L:  setp.eq.u32 %p2, %r4, 0;
        @%p2 bra OUT;
        sub.u32 %r4, %r4, 1;
        bra L;
    OUT:
        shfl.sync.down.b32 %r3, %r0, 1, 31, -1;"""
    findings, out = launch("mul.lo.u32 %r4, %r1, 5;" + body, X, schedule, seed)
    assert findings == []
    np.testing.assert_array_equal(out, np.arange(64) + (np.arange(64) % 32 != 31))


WRONG = {
    "half of a warp": (
        "@%p1 bra B; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; B: bar.sync 0;",
        "waits for threads of its member mask that never come (member mask 0xffffffff, present 0x55555555)",
    ),
    "mask without the executing lane": (
        "vote.sync.ballot.b32 %r3, %p1, 0xFF;",
        "vote.sync.ballot.b32 is executed by a thread that its member mask leaves out (mask 0x000000ff)",
    ),
    "syncwarp by some, block barrier by others": (
        "@%p0 bra A; bar.sync 0; bra END; A: bar.warp.sync -1; bar.sync 0;",
        "bar.warp.sync waits for threads of its member mask that never come",
    ),
    "two masks for one collective": (
        "selp.b32 %r5, -1, 0x00FFFFFF, %p0; vote.sync.ballot.b32 %r3, %p1, %r5; bar.sync 0;",
        "waits for threads of its member mask that come with another mask",
    ),
}


@on_wrong_schedules
@pytest.mark.parametrize("name", WRONG)
def test_collectives_without_the_lanes_they_need_are_found(name: str, schedule: str, seed: int) -> None:
    body, said = WRONG[name]
    findings, _ = launch(body, X, schedule, seed)
    assert [f.kind for f in findings] == [FindingKind.DIVERGENCE]
    assert said in findings[0].message


def test_active_mask_is_the_group_that_runs_together() -> None:
    findings, out = launch("@%p0 bra END; activemask.b32 %r3;")
    assert findings == []
    np.testing.assert_array_equal(out, np.where(np.arange(64) % 32 < 8, 0, 0xFFFFFF00))


@pytest.mark.parametrize(
    "body",
    [
        "@%p1 bra B; vote.sync.ballot.b32 %r3, %p1, -1; bra END; B: vote.sync.ballot.b32 %r3, %p1, -1;",
        "shfl.idx.b32 %r3, %r2, 0, 31;",
        "vote.ballot.b32 %r3, %p1;",
        "redux.sync.min.f32 %r3, %r2, -1;",
        "match.some.sync.b32 %r3, %r2, -1;",
    ],
)
def test_other_forms_of_collectives_are_refused_by_name(body: str) -> None:
    with pytest.raises(NotModelled, match=r"(vote|shfl|redux|match)\.\S+ at PTX line \d+"):
        launch(body)
