"""Waits at mbarriers that cannot come true: proved at once, with the object, its phase, and what it misses."""

import time

import pytest
from async_kernels import SCHEDULES, on_all_schedules, on_few_schedules, run

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.budget import StepBudgetExceeded

# A pipeline of two stages: thread 0 loads 4 tiles, the second warp consumes them. `full` are the objects 0 and 1,
# `empty` 2 and 3.
PIPELINE = """mov.u32 %r5, tile; mov.u32 %r6, bar; mov.u32 %r10, 0; mov.u32 %r11, 0;
@%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
@%p0 mbarrier.init.shared::cta.b64 [bar+16], {empty}; @%p0 mbarrier.init.shared::cta.b64 [bar+24], {empty};
bar.sync 0; @!%p1 bra CONSUME; @!%p0 ret;
P: and.b32 %r12, %r10, 1; shr.u32 %r13, %r10, 1; and.b32 %r13, %r13, 1; xor.b32 %r14, %r13, {producer};
mul.lo.u32 %r15, %r12, 8; add.u32 %r15, %r15, %r6; mul.lo.u32 %r16, %r12, 256; add.u32 %r16, %r16, %r5;
E: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15+16], %r14; @!%p4 bra E;
{expect}
mul.wide.u32 %d6, %r10, 256; add.s64 %d6, %d6, %d0;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%d6], 256, [%r15];
add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 4; @%p5 bra P; ret;
CONSUME: and.b32 %r12, %r10, 1; shr.u32 %r13, %r10, 1; and.b32 %r13, %r13, 1; xor.b32 %r13, %r13, {consumer};
mul.lo.u32 %r15, %r12, 8; add.u32 %r15, %r15, %r6; mul.lo.u32 %r16, %r12, 256; add.u32 %r16, %r16, %r5;
{wait}
mul.lo.u32 %r17, %r0, 4; add.u32 %r17, %r17, %r16; ld.shared.u32 %r18, [%r17]; add.u32 %r11, %r11, %r18;
fence.proxy.async.shared::cta; {release}
add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 4; @%p5 bra CONSUME; st.global.u32 [%d2], %r11; ret;"""
RIGHT = {
    "empty": "32",
    "producer": "1",
    "consumer": "0",
    "expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 256;",
    "wait": "F: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15], %r13; @!%p4 bra F;",
    "release": "mbarrier.arrive.shared::cta.b64 _, [%r15+16];",
}
# What is wrong: (parts that differ, what the finding says)
FAULTS = {
    "more bytes expected than come": (
        {"expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 272;"},
        "mbarrier shared 0x1400 of block (0, 0, 0) is in phase 0 (parity 0), which misses 16 bytes; 32 threads wait at",
    ),
    "expectation without an arrival": (
        {"expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r15], 256;"},
        "mbarrier shared 0x1400 of block (0, 0, 0) is in phase 0 (parity 0), which misses 1 of 1 arrivals",
    ),
    "an arrival that never comes": (
        {"empty": "33"},
        "mbarrier shared 0x1410 of block (0, 0, 0) is in phase 0 (parity 0), which misses 1 of 33 arrivals; "
        "1 thread waits at PTX line",
    ),
    "no release": ({"release": ""}, "which misses 32 of 32 arrivals; 1 thread waits at PTX line"),
    "parity of the producer one ahead": (
        {"producer": "0"},
        "mbarrier shared 0x1410 of block (0, 0, 0) is in phase 0 (parity 0), which misses 32 of 32 arrivals; "
        "1 thread waits at PTX line",
    ),
    "a wait that sleeps and counts": (
        {
            "empty": "33",
            "wait": "mov.u32 %r20, 0; mov.u32 %r21, 16; F: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15], %r13;"
            "add.u32 %r20, %r20, 1; min.u32 %r21, %r21, 1024; nanosleep.u32 %r21; shl.b32 %r21, %r21, 1; @!%p4 bra F;",
        },
        "which misses 1 of 33 arrivals",
    ),
}


def pipeline(**parts: str) -> str:
    """The pipeline with some parts replaced."""
    return PIPELINE.format(**{**RIGHT, **parts})


@on_all_schedules
def test_the_right_pipeline_ends(schedule: str, seed: int) -> None:
    outcome = run(pipeline(), schedule, seed)
    assert outcome.findings == []
    assert outcome.out[32] == sum(32 + 64 * tile for tile in range(4))


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize("name", FAULTS)
def test_a_deadlocked_pipeline_says_what_is_missing_where(name: str, schedule: str, seed: int, engine: str) -> None:
    parts, said = FAULTS[name]
    start = time.process_time()
    findings = run(pipeline(**parts), schedule, seed, engine=engine).findings
    assert time.process_time() - start < 1.0
    found = [finding for finding in findings if finding.kind is FindingKind.DEADLOCK]
    assert len(found) == 1, findings
    assert said in found[0].message
    assert "threads wait at mbarriers for phases that nothing is left to complete" in found[0].message


@on_few_schedules
def test_fewer_bytes_expected_than_come_is_found_where_they_are_issued(schedule: str, seed: int) -> None:
    body = pipeline(expect="mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 128;")
    found = run(body, schedule, seed).findings
    assert found[0].kind is FindingKind.ASYNC
    assert "more bytes are on their way to it than it expects" in found[0].message
    assert "(shared 0x1400: 256 of 128 expected)" in found[0].message


@on_few_schedules
def test_the_consumer_of_a_phase_that_is_never_produced_hangs(schedule: str, seed: int) -> None:
    """The consumer takes a fifth tile: the object has nothing in its phase, the one before it is long complete."""
    body = pipeline().replace(
        "setp.lt.u32 %p5, %r10, 4; @%p5 bra CONSUME", "setp.lt.u32 %p5, %r10, 5; @%p5 bra CONSUME"
    )
    found = run(body, schedule, seed).findings
    assert [finding.kind for finding in found] == [FindingKind.DEADLOCK]
    assert "which misses 1 of 1 arrivals, so nothing has come in it: is the phase before it meant?" in found[0].message
    assert found[0].count == 32


@on_few_schedules
def test_threads_at_other_barriers_are_counted(schedule: str, seed: int) -> None:
    body = """@%p0 mbarrier.init.shared::cta.b64 [bar], 2; bar.sync 0; @%p1 bra B;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W; B: bar.sync 0; ret;"""
    found = run(body, schedule, seed).findings
    assert [finding.kind for finding in found] == [FindingKind.DEADLOCK]
    assert "misses 2 of 2 arrivals; 32 threads wait" in found[0].message
    assert "32 other threads wait at barriers or collectives" in found[0].message


@on_few_schedules
def test_blocks_that_have_not_started_cannot_help(schedule: str, seed: int) -> None:
    body = """@%p0 mbarrier.init.shared::cta.b64 [bar], 65; bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [bar];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W; ret;"""
    found = run(body, schedule, seed, threads=1024 if schedule == "friendly" else 64, blocks=9).findings
    assert {finding.kind for finding in found} <= {FindingKind.DEADLOCK, FindingKind.BARRIER}
    assert found


def test_a_count_that_ends_the_wait_is_no_deadlock() -> None:
    body = """@%p0 mbarrier.init.shared::cta.b64 [bar], 65; bar.sync 0; mov.u32 %r3, 0;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; add.u32 %r3, %r3, 1; setp.gt.u32 %p5, %r3, 900;
    or.pred %p4, %p4, %p5; @!%p4 bra W; st.global.u32 [%d2], %r3; ret;"""
    outcome = run(body)
    assert outcome.findings == []
    assert (outcome.out[:64] == 901).all()


def test_a_time_that_ends_the_wait_is_no_deadlock() -> None:
    body = """@%p0 mbarrier.init.shared::cta.b64 [bar], 65; bar.sync 0; mov.u64 %d5, %globaltimer;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; mov.u64 %d6, %globaltimer; sub.u64 %d6, %d6, %d5;
    setp.gt.u64 %p5, %d6, 30000; or.pred %p4, %p4, %p5; @!%p4 bra W; st.global.u32 [%d2], 6; ret;"""
    outcome = run(body)
    assert outcome.findings == []
    assert (outcome.out[:64] == 6).all()


def test_a_wait_whose_end_hangs_on_a_count_without_end_takes_the_budget() -> None:
    """The count decides a branch, so nothing is proved: 2^32 rounds would end it."""
    body = """@%p0 mbarrier.init.shared::cta.b64 [bar], 65; bar.sync 0; mov.u32 %r3, 1;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; add.u32 %r3, %r3, 1; setp.eq.u32 %p5, %r3, 0;
    or.pred %p4, %p4, %p5; @!%p4 bra W; ret;"""
    with pytest.raises(StepBudgetExceeded):
        run(body, budget=6000)


@on_few_schedules
def test_a_spin_on_memory_that_counts_is_proved_too(schedule: str, seed: int) -> None:
    body = """@%p0 st.shared.u32 [tile], 0; bar.sync 0; mov.u32 %r3, 0;
    L: ld.volatile.shared.u32 %r2, [tile]; add.u32 %r3, %r3, 1; setp.eq.u32 %p4, %r2, 0; @%p4 bra L; ret;"""
    found = run(body, schedule, seed).findings
    assert [finding.kind for finding in found] == [FindingKind.DEADLOCK]
    assert "threads spin on a value that no thread is left to change" in found[0].message
