"""mbarrier objects: counts, phases, states, waits, and every misuse of them."""

import numpy as np
import pytest
from async_kernels import SCHEDULES, on_all_schedules, on_few_schedules, run

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind

INIT = "@%p0 mbarrier.init.shared::cta.b64 [bar], {count}; bar.sync 0;"
WAIT = "W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], {parity}; @!%p4 bra W{n};"


def init(count: int) -> str:
    """Thread 0 initialises the first object."""
    return INIT.format(count=count)


def wait(parity: int, number: int = 0) -> str:
    """All threads that come wait for a phase of the first object."""
    return WAIT.format(n=number, parity=parity)


@on_all_schedules
def test_a_phase_completes_with_its_last_arrival_and_orders_what_came_before(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    mov.u32 %r6, tile; mul.lo.u32 %r2, %r0, 4; add.u32 %r2, %r2, %r6; add.u32 %r3, %r0, 7;
    st.shared.u32 [%r2], %r3;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    {wait(0)}
    xor.b32 %r4, %r0, 33; mul.lo.u32 %r4, %r4, 4; add.u32 %r4, %r4, %r6; ld.shared.u32 %r5, [%r4];
    st.global.u32 [%d2], %r5; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], (np.arange(64) ^ 33) + 7)


@on_all_schedules
def test_phases_alternate_in_parity(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    mov.u32 %r2, 0; mov.u32 %r3, 0;
    L: mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];
    W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p4, [bar], %r3; @!%p4 bra W;
    xor.b32 %r3, %r3, 1; add.u32 %r2, %r2, 1; setp.lt.u32 %p5, %r2, 5; @%p5 bra L;
    st.global.u32 [%d2], %r2; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 5).all()


@on_all_schedules
def test_a_state_names_the_phase_before_the_arrival(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    mbarrier.arrive.shared::cta.b64 %d4, [bar];
    W: mbarrier.test_wait.shared::cta.b64 %p4, [bar], %d4; @!%p4 bra W;
    mbarrier.arrive.shared::cta.b64 %d5, [bar];
    V: mbarrier.try_wait.shared::cta.b64 %p4, [bar], %d5, 1000; @!%p4 bra V;
    setp.ne.b64 %p5, %d4, %d5; selp.u32 %r2, 1, 0, %p5; st.global.u32 [%d2], %r2; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 1).all()


def test_the_pending_count_of_a_state_is_the_one_before_the_arrival() -> None:
    body = f"""{init(100)}
    mbarrier.arrive.shared::cta.b64 %d4, [bar]; mbarrier.pending_count.b64 %r2, %d4; st.global.u32 [%d2], %r2; ret;"""
    np.testing.assert_array_equal(run(body).out[:64], 100 - np.arange(64))


@on_all_schedules
def test_pending_counts_of_one_instruction_are_all_different(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    mbarrier.arrive.shared::cta.b64 %d4, [bar]; mbarrier.pending_count.b64 %r2, %d4; st.global.u32 [%d2], %r2; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(np.sort(outcome.out[:64]), np.arange(1, 65))


@on_all_schedules
def test_an_arrival_may_count_for_many(schedule: str, seed: int) -> None:
    body = f"""{init(192)}
    mbarrier.arrive.shared::cta.b64 _, [bar], 3; {wait(0)} st.global.u32 [%d2], %r0; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], np.arange(64))


@on_all_schedules
def test_dropped_arrivals_are_not_expected_in_later_phases(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    @!%p1 mbarrier.arrive_drop.shared::cta.b64 _, [bar]; @!%p1 ret;
    mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(0, 0)}
    mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(1, 1)}
    st.global.u32 [%d2], 9; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], np.where(np.arange(64) < 32, 9, 0))


@on_all_schedules
def test_expected_bytes_keep_the_phase_open_until_they_are_complete(schedule: str, seed: int) -> None:
    body = f"""{init(1)}
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 1;
    {wait(0)} st.global.u32 [%d2], 5; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 5).all()


@on_all_schedules
def test_bytes_may_come_before_they_are_expected(schedule: str, seed: int) -> None:
    body = f"""{init(1)}
    mbarrier.complete_tx.shared::cta.b64 [bar], 2;
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bar], 128;
    {wait(0)} st.global.u32 [%d2], 5; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 5).all()


@on_few_schedules
def test_expectations_add_up_with_separate_instructions(schedule: str, seed: int) -> None:
    body = f"""{init(1)}
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 3;
    bar.sync 0;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.complete_tx.shared::cta.b64 [bar], 3;
    {wait(0)} st.global.u32 [%d2], 5; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 5).all()


@pytest.mark.parametrize(("parity", "noted"), [(1, False), (3, True), (0xFFFFFFFF, True)])
def test_a_parity_beyond_1_is_noted_and_its_lowest_bit_counts(parity: int, noted: bool) -> None:
    outcome = run(f"{init(1)} {wait(parity)} st.global.u32 [%d2], 3; ret;")
    assert outcome.findings == []
    assert [note.message for note in outcome.notes] == noted * [
        "mbarrier.try_wait.parity.shared::cta.b64 has a parity that is neither 0 nor 1; its lowest bit counts"
    ]
    assert (outcome.out[:64] == 3).all()


def test_a_fresh_object_counts_its_last_odd_phase_as_complete() -> None:
    body = f"{init(1)} {wait(1)} st.global.u32 [%d2], 3; ret;"
    outcome = run(body)
    assert outcome.findings == []
    assert (outcome.out[:64] == 3).all()


@on_few_schedules
def test_generic_addresses_and_registers_name_objects_too(schedule: str, seed: int) -> None:
    body = """cvta.shared.u64 %d6, bar; add.u64 %d6, %d6, 8; mov.u32 %r9, 64;
    @%p0 mbarrier.init.b64 [%d6], %r9; bar.sync 0;
    mbarrier.arrive.b64 _, [%d6];
    W: mbarrier.try_wait.parity.b64 %p4, [%d6], 0; @!%p4 bra W;
    st.global.u32 [%d2], 3; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 3).all()


@on_few_schedules
def test_the_bytes_of_an_invalidated_object_are_ordinary_memory(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(0)} bar.sync 0;
    @%p0 mbarrier.inval.shared::cta.b64 [bar]; bar.sync 0;
    @%p0 st.shared.u32 [bar], 77; bar.sync 0; ld.shared.u32 %r2, [bar]; bar.sync 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 64; bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(0, 1)}
    st.global.u32 [%d2], %r2; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 77).all()


@on_few_schedules
def test_each_block_has_its_own_objects(schedule: str, seed: int) -> None:
    body = f"""{init(64)}
    mov.u32 %r2, %ctaid.x; mul.lo.u32 %r2, %r2, 256; cvt.u64.u32 %d4, %r2; add.u64 %d2, %d2, %d4;
    mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(0)} st.global.u32 [%d2], %r0; ret;"""
    outcome = run(body, schedule, seed, blocks=7)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[: 7 * 64], np.tile(np.arange(64), 7))


# name: (kernel, kind, what the finding says, the thread that it names or None)
WRONG = {
    "count of zero": (f"{init(0)} ret;", FindingKind.BARRIER, "the count is outside 1 to 1048575 (0)", 0),
    "count beyond the limit": (
        f"{init(1 << 20)} ret;",
        FindingKind.BARRIER,
        "the count is outside 1 to 1048575 (1048576)",
        0,
    ),
    "undefined count": (
        "@%p0 mbarrier.init.shared::cta.b64 [bar], %r9; ret;",
        FindingKind.UNINITIALISED,
        "a value that nothing wrote decides the count of mbarrier.init",
        0,
    ),
    "init of a live object": (
        f"{init(1)} @%p0 mbarrier.init.shared::cta.b64 [bar], 1; ret;",
        FindingKind.BARRIER,
        "initialises a live mbarrier: mbarrier.inval must come first (shared 0x1400)",
        0,
    ),
    "init by every thread": (
        "mbarrier.init.shared::cta.b64 [bar], 1; ret;",
        FindingKind.BARRIER,
        "initialises a live mbarrier",
        None,
    ),
    "arrive before init": (
        "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; ret;",
        FindingKind.BARRIER,
        "mbarrier.arrive.shared::cta.b64 uses an mbarrier that nothing initialised (shared 0x1400)",
        0,
    ),
    "wait before init": (
        f"{wait(0)} ret;",
        FindingKind.BARRIER,
        "uses an mbarrier that nothing initialised",
        None,
    ),
    "use that nothing orders after the init": (
        f"@%p0 mbarrier.init.shared::cta.b64 [bar], 64; mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(0)} ret;",
        FindingKind.RACE,
        "mbarrier.arrive.shared::cta.b64 reads shared memory that another thread wrote",
        None,
    ),
    "use after inval": (
        f"{init(1)} @%p0 mbarrier.inval.shared::cta.b64 [bar]; @%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; ret;",
        FindingKind.BARRIER,
        "uses an mbarrier after mbarrier.inval",
        0,
    ),
    "inval twice": (
        f"{init(1)} @%p0 mbarrier.inval.shared::cta.b64 [bar]; @%p0 mbarrier.inval.shared::cta.b64 [bar]; ret;",
        FindingKind.BARRIER,
        "mbarrier.inval.shared::cta.b64 uses an mbarrier after mbarrier.inval",
        0,
    ),
    "ordinary load of a live object": (
        f"{init(1)} @%p0 ld.shared.u32 %r2, [bar]; ret;",
        FindingKind.BARRIER,
        "ld.shared.u32 reads the bytes of a live mbarrier",
        0,
    ),
    "ordinary store to the last byte of a live object": (
        f"{init(1)} mov.u16 %h0, 1; @%p0 st.shared.u8 [bar+7], %h0; ret;",
        FindingKind.BARRIER,
        "st.shared.u8 writes the bytes of a live mbarrier",
        0,
    ),
    "wide store that reaches a live object": (
        f"{init(1)} @%p0 mbarrier.init.shared::cta.b64 [bar+24], 1; @%p0 st.shared.v2.u64 [bar+16], {{0, 0}}; ret;",
        FindingKind.BARRIER,
        "st.shared.v2.u64 writes the bytes of a live mbarrier",
        0,
    ),
    "atomic on a live object": (
        f"{init(1)} @%p0 atom.shared.add.u32 %r2, [bar], 1; ret;",
        FindingKind.BARRIER,
        "updates the bytes of a live mbarrier",
        0,
    ),
    "one arrival too many": (
        f"{init(2)} setp.lt.u32 %p5, %r0, 3; @%p5 mbarrier.arrive.shared::cta.b64 _, [bar]; ret;",
        FindingKind.BARRIER,
        "an arrival more than it expects, or a wait is missing (shared 0x1400 expects 2; phase 0 is complete)",
        None,
    ),
    "count beyond what is pending": (
        f"{init(2)} @%p0 mbarrier.arrive.shared::cta.b64 _, [bar], 3; ret;",
        FindingKind.BARRIER,
        "more often than its phase still waits for (shared 0x1400 expects 2; phase 0 waits for 2, 3 arrive)",
        0,
    ),
    "arrival while only bytes are missing": (
        f"{init(1)} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;"
        "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; ret;",
        FindingKind.BARRIER,
        "phase 0 waits for 0, 1 arrive",
        0,
    ),
    "arrive with a count of zero": (
        f"{init(2)} @%p0 mbarrier.arrive.shared::cta.b64 _, [bar], 0; ret;",
        FindingKind.BARRIER,
        "the count is outside 1 to 1048575 (0)",
        0,
    ),
    "noComplete that completes": (
        f"{init(1)} @%p0 mbarrier.arrive.noComplete.shared::cta.b64 %d4, [bar], 1; ret;",
        FindingKind.BARRIER,
        "completes a phase, which .noComplete must not",
        0,
    ),
    "drop of the last expected arrival": (
        f"{init(1)} @%p0 mbarrier.arrive_drop.shared::cta.b64 _, [bar]; ret;",
        FindingKind.BARRIER,
        "drops the last arrival that an mbarrier expects",
        0,
    ),
    "bytes beyond the range": (
        f"{init(1)} @%p0 mbarrier.expect_tx.shared::cta.b64 [bar], 1048575;"
        "@%p0 mbarrier.expect_tx.shared::cta.b64 [bar], 1; ret;",
        FindingKind.BARRIER,
        "takes the transaction count of an mbarrier out of its range of 1048575 bytes (1048576)",
        0,
    ),
    "completed bytes beyond the range": (
        f"{init(1)} @%p0 mbarrier.complete_tx.shared::cta.b64 [bar], 1048575;"
        "@%p0 mbarrier.complete_tx.shared::cta.b64 [bar], 1048575; ret;",
        FindingKind.BARRIER,
        "out of its range of 1048575 bytes (-2097150)",
        0,
    ),
    "bytes operand beyond the range": (
        f"{init(1)} @%p0 mbarrier.expect_tx.shared::cta.b64 [bar], 1048576; ret;",
        FindingKind.BARRIER,
        "the bytes is outside 0 to 1048575 (1048576)",
        0,
    ),
    "misaligned object": (
        "@%p0 mbarrier.init.shared::cta.b64 [bar+4], 1; ret;",
        FindingKind.MISALIGNED,
        "finds its mbarrier in 8 bytes at an address that is not a multiple of 8 (0x1404)",
        0,
    ),
    "object outside shared memory": (
        "@%p0 mbarrier.init.shared::cta.b64 [bar+32], 1; ret;",
        FindingKind.OUT_OF_BOUNDS,
        "shared memory outside the 4128 bytes of the kernel",
        0,
    ),
    "object in global memory": (
        "@%p0 mbarrier.init.b64 [%d1], 1; ret;",
        FindingKind.OUT_OF_BOUNDS,
        "finds its mbarrier in global memory where shared memory belongs",
        0,
    ),
    "undefined address": (
        "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1; ret;",
        FindingKind.UNINITIALISED,
        "decides the address that mbarrier.init.shared::cta.b64 finds its mbarrier in",
        0,
    ),
    "state of the phase before the last": (
        f"""{init(1)} @!%p0 ret; mbarrier.arrive.shared::cta.b64 %d4, [bar]; {wait(0, 0)}
        mbarrier.arrive.shared::cta.b64 _, [bar]; {wait(1, 1)}
        mbarrier.test_wait.shared::cta.b64 %p5, [bar], %d4; ret;""",
        FindingKind.BARRIER,
        "tests a state that is not of the mbarrier's current phase or the one before (shared 0x1400 is in phase 2)",
        0,
    ),
    "state of another object": (
        f"""{init(1)} @!%p0 ret; mbarrier.init.shared::cta.b64 [bar+8], 1;
        mbarrier.arrive.shared::cta.b64 %d4, [bar];
        mbarrier.test_wait.shared::cta.b64 %p5, [bar+8], %d4; ret;""",
        FindingKind.BARRIER,
        "tests a state that is not of the mbarrier's current phase",
        0,
    ),
    "undefined parity": (
        f"{init(1)} @%p0 mbarrier.test_wait.parity.shared::cta.b64 %p5, [bar], %r9; ret;",
        FindingKind.UNINITIALISED,
        "a value that nothing wrote decides the parity of mbarrier.test_wait",
        0,
    ),
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize("name", WRONG)
def test_misused_objects_are_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said, thread = WRONG[name]
    findings = run(body, schedule, seed).findings
    found = [finding for finding in findings if finding.kind is kind and said in finding.message]
    assert found, findings
    assert thread is None or [t.thread[0] for t in found[0].threads] == [thread]


REFUSED = {
    "layout with reports": "mbarrier.init.layout::v1.shared::cta.b64 [bar], 1;",
    "wait on a peer's object": "mbarrier.try_wait.parity.shared::cluster.b64 %p4, [bar], 0;",
    "state of a peer's object": "mbarrier.arrive.shared::cluster.b64 %d4, [bar];",
    "check_layout": "mbarrier.check_layout.b64 %p4, [bar], 1;",
    "hint of test_wait": "mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], 0, 100;",
    "noComplete without a count": "mbarrier.arrive.noComplete.shared::cta.b64 _, [bar];",
    "gpu scope": "mbarrier.arrive.release.gpu.shared::cta.b64 _, [bar];",
}


@pytest.mark.parametrize("name", REFUSED)
def test_forms_outside_the_model_are_refused_by_name(name: str) -> None:
    with pytest.raises(NotModelled, match="mbarrier"):
        run(f"{REFUSED[name]} ret;")
