"""Races in shared memory: each missing barrier is found on every schedule, each right kernel is silent on every one."""

import numpy as np
import pytest

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

ADVERSARIAL = [("adversarial", seed) for seed in range(50)]
on_many_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL])
on_schedules = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *ADVERSARIAL[:20]])


def launch(body: str, schedule: str = "friendly", seed: int = 0, *, threads: int = 64, blocks: int = 1) -> Report:
    """Run a kernel: %r0 is the thread, %r1 its address in s (256 words), %r2 the one of its mirror image."""
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[1024];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<16>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r9, s;
    mad.lo.u32 %r1, %r0, 4, %r9;
    mov.u32 %r3, %ntid.x;
    sub.u32 %r3, %r3, %r0;
    mad.lo.u32 %r2, %r3, 4, %r9;
    sub.u32 %r2, %r2, 4;
    setp.eq.u32 %p0, %r0, 0;
    {body}
    ret;
}}
"""
    device = Device(schedule=schedule, seed=seed)
    out = device.upload(np.zeros(4096, np.uint32))
    return device.load_ptx(text)["k"].launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=(out,))


BARRIER = "bar.sync 0;"
# name: (kernel with ORDER where the barrier belongs, what the message says of the two accesses)
CROSS_WARP = {
    "read after write": (
        "st.shared.u32 [%r1], %r0; ORDER ld.shared.u32 %r4, [%r2];",
        "ld.shared.u32 reads shared memory that another thread wrote",
    ),
    "write after read": (
        "st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r4, [%r2]; ORDER st.shared.u32 [%r1], %r4;",
        "st.shared.u32 writes shared memory that another thread read",
    ),
    "write after write": (
        "st.shared.u32 [%r1], %r0; ORDER st.shared.u32 [%r2], %r0;",
        "st.shared.u32 writes shared memory that another thread wrote",
    ),
    "atomic after write": (
        "st.shared.u32 [%r1], %r0; ORDER red.shared.add.u32 [%r2], 1;",
        "red.shared.add.u32 updates shared memory that another thread wrote",
    ),
    "atomic after read": (
        "st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r4, [%r1]; ORDER red.shared.add.u32 [%r2], 1;",
        "red.shared.add.u32 updates shared memory that another thread read",
    ),
    "read after atomic": (
        "st.shared.u32 [%r1], %r0; bar.sync 0; red.shared.add.u32 [%r1], 1; ORDER ld.shared.u32 %r4, [%r2];",
        "ld.shared.u32 reads shared memory that another thread updated",
    ),
    "write after atomic": (
        "st.shared.u32 [%r1], %r0; bar.sync 0; red.shared.add.u32 [%r1], 1; ORDER st.shared.u32 [%r2], %r0;",
        "st.shared.u32 writes shared memory that another thread updated",
    ),
    "volatile read after plain write": (
        "st.shared.u32 [%r1], %r0; ORDER ld.volatile.shared.u32 %r4, [%r2];",
        "ld.volatile.shared.u32 reads shared memory that another thread wrote",
    ),
    "plain write after volatile read": (
        "st.shared.u32 [%r1], %r0; bar.sync 0; ld.volatile.shared.u32 %r4, [%r2]; ORDER st.shared.u32 [%r1], %r0;",
        "st.shared.u32 writes shared memory that another thread read",
    ),
    "broadcast read by all": (
        "@%p0 st.shared.u32 [s], %r0; ORDER ld.shared.u32 %r4, [s];",
        "ld.shared.u32 reads shared memory that another thread wrote",
    ),
    "one granule of a wider access": (
        "st.shared.u32 [%r1], %r0; ORDER and.b32 %r5, %r0, 15; mad.lo.u32 %r5, %r5, 16, %r9;"
        "ld.shared.v4.u32 {%r4, %r6, %r7, %r8}, [%r5];",
        "ld.shared.v4.u32 reads shared memory that another thread wrote",
    ),
    "a byte of a word": (
        "st.shared.u32 [%r1], %r0; ORDER ld.shared.u8 %r4, [%r2+3];",
        "ld.shared.u8 reads shared memory that another thread wrote",
    ),
}


@on_schedules
@pytest.mark.parametrize("name", CROSS_WARP)
def test_a_missing_syncthreads_is_one_race_with_its_two_lines(name: str, schedule: str, seed: int) -> None:
    body, said = CROSS_WARP[name]
    report = launch(body.replace("ORDER", ""), schedule, seed)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]
    if schedule == "friendly":
        assert said in report.findings[0].message
    assert " at PTX line " in report.findings[0].message  # where the other access stands: the two lines are the cause
    assert "with no barrier between" in report.findings[0].message
    assert len(report.findings[0].threads) >= 2


@on_many_schedules
@pytest.mark.parametrize("name", CROSS_WARP)
def test_the_same_kernels_with_their_barrier_are_silent(name: str, schedule: str, seed: int) -> None:
    report = launch(CROSS_WARP[name][0].replace("ORDER", BARRIER), schedule, seed)
    assert report.findings == []
    assert report.notes == []


SAME_WARP = "st.shared.u32 [%r1], %r0; ORDER ld.shared.u32 %r4, [%r2];"


@on_schedules
@pytest.mark.parametrize("order", ["", "shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;", "vote.sync.any.pred %p1, %p0, -1;"])
def test_within_a_warp_only_syncwarp_orders(order: str, schedule: str, seed: int) -> None:
    report = launch(SAME_WARP.replace("ORDER", order), schedule, seed, threads=32)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]
    assert "of the same warp; __syncwarp() is missing" in report.findings[0].message


@on_many_schedules
@pytest.mark.parametrize("threads", [32, 17])
def test_syncwarp_orders_the_lanes_of_a_warp(threads: int, schedule: str, seed: int) -> None:
    order = "bar.warp.sync -1;"
    assert launch(SAME_WARP.replace("ORDER", order), schedule, seed, threads=threads).findings == []


@on_schedules
def test_syncwarp_does_not_order_two_warps(schedule: str, seed: int) -> None:
    report = launch(SAME_WARP.replace("ORDER", "bar.warp.sync -1;"), schedule, seed)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]
    assert "of another warp; __syncthreads() is missing" in report.findings[0].message


@on_schedules
@pytest.mark.parametrize(
    "body",
    [
        "st.shared.u32 [%r1], %r0; ld.shared.u32 %r4, [%r1]; st.shared.u32 [%r1], %r4;",
        "@%p0 st.shared.u32 [s], %r0; bar.sync 0; red.shared.add.u32 [s], 1; red.shared.add.u32 [s], 2;",
        "@%p0 st.volatile.shared.u32 [s], %r0; ld.volatile.shared.u32 %r4, [s];",
        "@%p0 st.relaxed.cta.shared.u32 [s], %r0; atom.shared.exch.b32 %r4, [s], 5;",
        "mov.u32 %r4, 0; @%p0 ld.shared.u32 %r4, [s+4]; @!%p0 st.shared.u32 [%r1+4], %r0;",
        "mad.lo.u32 %r4, %r0, 2, %r9; cvt.u16.u32 %h1, %r0; st.shared.u16 [%r4], %h1;",
        "ld.shared.u32 %r4, [%r1]; ld.shared.u32 %r4, [%r1]; st.shared.u32 [%r1], %r0;",
        "setp.eq.u32 %p1, %r0, 1; @%p0 ld.shared.u32 %r4, [s]; bar.warp.sync -1; @%p1 ld.shared.u32 %r4, [s];"
        "@%p1 st.shared.u32 [s], %r0;",
    ],
    ids=[
        "own word",
        "atomics",
        "volatile",
        "relaxed",
        "read beside writes",
        "neighbouring halves",
        "own word twice",
        "other intervals",
    ],
)
def test_accesses_that_do_not_conflict_need_no_barrier(body: str, schedule: str, seed: int) -> None:
    assert launch(body, schedule, seed).findings == []


LOOP = """
    mov.u32 %r5, 0;
LOOP:
    st.shared.u32 [%r1], %r5;
    bar.sync 0;
    ld.shared.u32 %r4, [%r2];
    SECOND
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 4;
    @%p1 bra LOOP;
"""


@on_schedules
def test_the_second_barrier_of_a_loop_is_needed(schedule: str, seed: int) -> None:
    report = launch(LOOP.replace("SECOND", ""), schedule, seed)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]
    assert report.findings[0].count > 1


@on_many_schedules
def test_a_loop_with_both_barriers_is_silent(schedule: str, seed: int) -> None:
    assert launch(LOOP.replace("SECOND", "bar.sync 0;"), schedule, seed, threads=96, blocks=3).findings == []


@on_many_schedules
def test_blocks_do_not_race_in_their_own_shared_memory(schedule: str, seed: int) -> None:
    assert launch("@%p0 st.shared.u32 [s], %r0;", schedule, seed, blocks=7).findings == []


def test_every_pair_of_lines_is_a_cause() -> None:
    body = """
        setp.eq.u32 %p1, %r0, 33;
        @%p0 st.shared.u32 [s], %r0;
        @%p1 st.shared.u32 [s+4], %r0;
        setp.lt.u32 %p2, %r0, 16;
        selp.u32 %r5, 0, 4, %p2;
        add.u32 %r5, %r5, %r9;
        ld.shared.u32 %r4, [%r5];
        ld.shared.u32 %r4, [s+4];"""
    messages = [f.message for f in launch(body).findings]
    assert len(messages) == 3
    assert len({message.split(" at PTX line ")[1][:2] for message in messages}) == 2


@on_schedules
def test_different_values_by_one_store_race(schedule: str, seed: int) -> None:
    report = launch("st.shared.u32 [s], %r0;", schedule, seed, threads=32)
    assert {f.kind for f in report.findings} == {FindingKind.RACE}
    if (
        schedule == "friendly"
    ):  # else some threads may go ahead of the others: two stores race, or each part with itself
        assert report.findings[0].count == 32
        assert "threads write different values to one address by one st.shared.u32" in report.findings[0].message


@on_schedules
@pytest.mark.parametrize("threads", [32, 96])
def test_equal_values_are_a_note_on_every_schedule(threads: int, schedule: str, seed: int) -> None:
    report = launch("st.shared.u32 [s], 7;", schedule, seed, threads=threads)
    assert report.findings == []
    assert report.notes
    assert all(note.where.ptx_line == report.notes[0].where.ptx_line for note in report.notes)


def test_different_values_by_one_global_store_race() -> None:
    report = launch("st.global.u32 [%d0], %r0;")
    assert [f.kind for f in report.findings] == [FindingKind.RACE]
    assert launch("st.global.u32 [%d0], 7;").findings == []


FLAG = """
    setp.eq.u32 %p1, %r0, 32;
    @%p0 st.volatile.shared.u32 [s+512], 0;
    bar.sync 0;
    @!%p0 bra READER;
    st.shared.u32 [s], 42;
    FENCE
    st.volatile.shared.u32 [s+512], 1;
    bra DONE;
READER:
    @!%p1 bra DONE;
SPIN:
    ld.volatile.shared.u32 %r4, [s+512];
    setp.eq.u32 %p2, %r4, 0;
    @%p2 bra SPIN;
    FENCE
    ld.shared.u32 %r5, [s];
    st.global.u32 [%d0], %r5;
DONE:
"""


@on_schedules
def test_data_behind_a_flag_without_fences_races(schedule: str, seed: int) -> None:
    report = launch(FLAG.replace("FENCE", ""), schedule, seed)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]


@on_many_schedules
@pytest.mark.parametrize("fence", ["membar.cta;", "fence.acq_rel.cta;", "fence.sc.gpu;"])
def test_data_behind_a_flag_with_fences_is_silent(fence: str, schedule: str, seed: int) -> None:
    assert launch(FLAG.replace("FENCE", fence), schedule, seed).findings == []


@on_many_schedules
def test_release_and_acquire_forms_order_data_behind_a_flag(schedule: str, seed: int) -> None:
    body = FLAG.replace("FENCE", "").replace(
        "st.volatile.shared.u32 [s+512], 1", "st.release.cta.shared.u32 [s+512], 1"
    )
    assert launch(body.replace("ld.volatile", "ld.acquire.cta"), schedule, seed).findings == []


@on_schedules
def test_fences_before_a_barrier_do_not_hide_a_race_behind_it(schedule: str, seed: int) -> None:
    report = launch("membar.gl; bar.sync 0; " + CROSS_WARP["read after write"][0].replace("ORDER", ""), schedule, seed)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]


@on_schedules
def test_a_race_among_32_warps_in_all_of_the_shared_memory_is_found(schedule: str, seed: int) -> None:
    body = "add.u32 %r5, %r0, %r9; xor.b32 %r6, %r5, 1023; st.shared.u8 [%r5], %r0; ld.shared.u8 %r4, [%r6];"
    report = launch(body, schedule, seed, threads=1024)
    assert [f.kind for f in report.findings] == [FindingKind.RACE]
    assert report.findings[0].count >= 32
