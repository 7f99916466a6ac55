"""`cp.async`: sizes, zero fill, groups, its mbarrier arrival, and the misuse of each."""

import numpy as np
import pytest
from async_kernels import SCHEDULES, module, on_all_schedules, on_few_schedules, run
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

# %r2: the address of this thread's 16 bytes of the tile; %d4: of its 16 bytes of the input.
MINE = """mul.lo.u32 %r2, %r0, 16; mov.u32 %r3, tile; add.u32 %r2, %r2, %r3;
mul.wide.u32 %d4, %r0, 16; add.s64 %d4, %d4, %d0;"""
# The first word of this thread's 16 bytes to out[thread].
STORE = "ld.shared.u32 %r5, [%r2]; st.global.u32 [%d2], %r5; ret;"


@on_all_schedules
@pytest.mark.parametrize("form", ["ca.shared.global [%r2], [%d4], 4", "ca.shared::cta.global.L2::128B [%r2], [%d4], 8"])
def test_small_copies_move_their_bytes(form: str, schedule: str, seed: int) -> None:
    outcome = run(f"{MINE} cp.async.{form}; cp.async.wait_all; {STORE}", schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 4 * np.arange(64))


@on_all_schedules
@pytest.mark.parametrize("level", ["ca", "cg"])
def test_sixteen_bytes_reach_other_threads_through_a_barrier(level: str, schedule: str, seed: int) -> None:
    body = f"""{MINE} cp.async.{level}.shared.global [%r2], [%d4], 16; cp.async.commit_group; cp.async.wait_group 0;
    bar.sync 0; xor.b32 %r4, %r0, 63; mul.lo.u32 %r4, %r4, 16; add.u32 %r4, %r4, %r3;
    ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r4]; add.u32 %r5, %r5, %r8; st.global.u32 [%d2], %r5; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 8 * (np.arange(64) ^ 63) + 3)


@on_few_schedules
@pytest.mark.parametrize("taken", [0, 1, 4, 7, 15, 16])
def test_bytes_beyond_the_source_size_are_zero(taken: int, schedule: str, seed: int) -> None:
    body = f"""{MINE} mov.u32 %r9, {taken}; cp.async.cg.shared.global [%r2], [%d4], 16, %r9; cp.async.wait_all;
    ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r2]; mul.wide.u32 %d5, %r0, 16; add.s64 %d5, %d5, %d1;
    st.global.v4.u32 [%d5], {{%r5, %r6, %r7, %r8}}; ret;"""
    source = np.random.default_rng(1).integers(0, 1 << 32, 256, dtype=np.uint32)
    outcome = run(body, schedule, seed, source=source)
    assert outcome.findings == []
    expected = source.view(np.uint8).reshape(64, 16).copy()
    expected[:, taken:] = 0
    np.testing.assert_array_equal(outcome.out[:256].view(np.uint8).reshape(64, 16), expected)


@on_few_schedules
@pytest.mark.parametrize(("operand", "zeros"), [("%p1", np.arange(64) < 32), ("!%p1", np.arange(64) >= 32)])
def test_an_ignored_source_gives_zeros(operand: str, zeros: NDArray[np.bool_], schedule: str, seed: int) -> None:
    if operand.startswith("!"):
        body = f"{MINE} not.pred %p6, %p1; cp.async.ca.shared.global [%r2], [%d4], 4, %p6; cp.async.wait_all; {STORE}"
    else:
        body = f"{MINE} cp.async.ca.shared.global [%r2], [%d4], 4, %p1; cp.async.wait_all; {STORE}"
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], np.where(zeros, 0, 4 * np.arange(64)))


def test_a_source_of_no_bytes_is_not_read() -> None:
    body = f"""{MINE} mov.u32 %r9, 0; mov.u64 %d4, 16; cp.async.cg.shared.global [%r2], [%d4], 16, %r9;
    cp.async.wait_all; {STORE}"""
    outcome = run(body)
    assert outcome.findings == []
    assert not outcome.out.any()


@on_all_schedules
def test_a_pipeline_of_groups_waits_for_the_oldest_only(schedule: str, seed: int) -> None:
    body = f"""{MINE} mov.u32 %r10, 0; mov.u32 %r11, 0;
    cp.async.ca.shared.global [%r2], [%d4], 4; cp.async.commit_group;
    add.u32 %r12, %r2, 4; cp.async.ca.shared.global [%r12], [%d4+4], 4; cp.async.commit_group;
    L: cp.async.wait_group 1; and.b32 %r13, %r10, 1; mul.lo.u32 %r13, %r13, 4; add.u32 %r13, %r13, %r2;
    ld.shared.u32 %r14, [%r13]; add.u32 %r11, %r11, %r14;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 3; add.u32 %r15, %r10, 1; mul.wide.u32 %d6, %r15, 4;
    add.s64 %d6, %d6, %d4; @%p5 cp.async.ca.shared.global [%r13], [%d6], 4; cp.async.commit_group;
    setp.lt.u32 %p6, %r10, 4; @%p6 bra L;
    st.global.u32 [%d2], %r11; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 16 * np.arange(64) + 6)


@on_all_schedules
@pytest.mark.parametrize(("count", "form"), [(64, ""), (128, ".noinc")])
def test_an_mbarrier_tracks_copies_of_all_threads(count: int, form: str, schedule: str, seed: int) -> None:
    body = f"""@%p0 mbarrier.init.shared::cta.b64 [bar], {count}; bar.sync 0; {MINE}
    cp.async.ca.shared.global [%r2], [%d4], 4; cp.async.mbarrier.arrive{form}.shared::cta.b64 [bar];
    mbarrier.arrive.shared::cta.b64 _, [bar];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;
    xor.b32 %r4, %r0, 63; mul.lo.u32 %r4, %r4, 16; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];
    st.global.u32 [%d2], %r5; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 4 * (np.arange(64) ^ 63))


@on_few_schedules
def test_what_nothing_wrote_stays_so_on_its_way(schedule: str, seed: int) -> None:
    """The source is the output's end, which nothing wrote: half of the words are written first."""

    body = f"""{MINE} mul.wide.u32 %d5, %r0, 16; add.s64 %d5, %d5, %d1; st.global.u32 [%d5+1024], %r0;
    cp.async.cg.shared.global [%r2], [%d5+1024], 16; cp.async.wait_all; ld.shared.u32 %r5, [%r2];
    ld.shared.u32 %r6, [%r2+4]; st.global.u32 [%d5], %r5; @%p0 st.global.u32 [%d5+4], %r6; ret;"""
    device = Device(schedule=schedule, seed=seed)
    out = device.allocate((512,), np.uint32)
    report = device.load_ptx(module(body, ""))["k"].launch(grid=(1, 1, 1), block=(64, 1, 1), args=(out, out))
    found = [(finding.kind, finding.count) for finding in report.findings]
    assert found == [(FindingKind.UNINITIALISED, 1)]
    np.testing.assert_array_equal(out.download().reshape(-1, 4)[:64, 0], np.arange(64))


# name: (kernel, kind, what the finding says)
WRONG = {
    "misaligned target": (
        f"{MINE} add.u32 %r2, %r2, 8; cp.async.cg.shared.global [%r2], [%d4], 16; cp.async.wait_all; ret;",
        FindingKind.MISALIGNED,
        "cp.async.cg.shared.global writes 16 bytes at an address that is not a multiple of 16",
    ),
    "misaligned source": (
        f"{MINE} cp.async.cg.shared.global [%r2], [%d4+4], 16; cp.async.wait_all; ret;",
        FindingKind.MISALIGNED,
        "cp.async.cg.shared.global reads 16 bytes at an address that is not a multiple of 16",
    ),
    "source past its allocation": (
        f"{MINE} cp.async.cg.shared.global [%r2], [%d4+8192], 16; cp.async.wait_all; ret;",
        FindingKind.OUT_OF_BOUNDS,
        "reads memory past the end of an allocation of 8192 bytes",
    ),
    "source size that reaches past its allocation": (
        f"{MINE} mov.u32 %r9, 8; cp.async.cg.shared.global [%r2], [%d4+8176], 16, %r9; cp.async.wait_all; ret;",
        FindingKind.OUT_OF_BOUNDS,
        "reads memory past the end of an allocation of 8192 bytes",
    ),
    "target outside shared memory": (
        f"{MINE} cp.async.cg.shared.global [%r2+4096], [%d4], 16; cp.async.wait_all; ret;",
        FindingKind.OUT_OF_BOUNDS,
        "writes shared memory outside",
    ),
    "more source than target": (
        f"{MINE} mov.u32 %r9, 17; cp.async.cg.shared.global [%r2], [%d4], 16, %r9; cp.async.wait_all; ret;",
        FindingKind.ASYNC,
        "reads more bytes than the 16 that it writes (17)",
    ),
    "undefined source size": (
        f"{MINE} cp.async.cg.shared.global [%r2], [%d4], 16, %r20; cp.async.wait_all; ret;",
        FindingKind.UNINITIALISED,
        "decides how many bytes cp.async.cg.shared.global reads",
    ),
    "undefined target": (
        f"{MINE} cp.async.cg.shared.global [%r20], [%d4], 16; cp.async.wait_all; ret;",
        FindingKind.UNINITIALISED,
        "decides the address that cp.async.cg.shared.global writes",
    ),
    "target in a live mbarrier": (
        f"{MINE} @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 cp.async.ca.shared.global [bar], [%d4], 8;"
        "cp.async.wait_all; ret;",
        FindingKind.BARRIER,
        "cp.async.ca.shared.global writes the bytes of a live mbarrier",
    ),
    "exit without a wait": (
        f"{MINE} cp.async.cg.shared.global [%r2], [%d4], 16; cp.async.commit_group; ret;",
        FindingKind.ASYNC,
        "threads exit without a wait for their cp.async.cg.shared.global",
    ),
    "exit with the last group in flight": (
        f"{MINE} cp.async.ca.shared.global [%r2], [%d4], 4; cp.async.commit_group;"
        "cp.async.ca.shared.global [%r2+4], [%d4], 4; cp.async.commit_group; cp.async.wait_group 1; ret;",
        FindingKind.ASYNC,
        "threads exit without a wait for their cp.async.ca.shared.global",
    ),
    "mbarrier that nobody waits for": (
        f"@%p0 mbarrier.init.shared::cta.b64 [bar], 64; bar.sync 0; {MINE}"
        "cp.async.ca.shared.global [%r2], [%d4], 4; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar]; ret;",
        FindingKind.ASYNC,
        "a block exits although nobody saw cp.async.mbarrier.arrive.noinc.shared::cta.b64",
    ),
    "one tracked arrival too many": (
        f"@%p0 mbarrier.init.shared::cta.b64 [bar], 63; bar.sync 0; {MINE}"
        "cp.async.ca.shared.global [%r2], [%d4], 4; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"
        "cp.async.wait_all; ret;",
        FindingKind.BARRIER,
        "an arrival more than it expects, or a wait is missing",
    ),
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize("name", WRONG)
def test_misused_copies_are_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said = WRONG[name]
    findings = run(body, schedule, seed).findings
    assert any(finding.kind is kind and said in finding.message for finding in findings), findings


def test_a_target_holds_nothing_defined_until_the_wait() -> None:
    body = f"{MINE} cp.async.ca.shared.global [%r2], [%d4], 4; {STORE.replace('ret;', '')} cp.async.wait_all; ret;"
    kinds = [{finding.kind for finding in run(body, "adversarial", seed).findings} for seed in range(8)]
    assert all(FindingKind.RACE in found for found in kinds)
    assert any(FindingKind.UNINITIALISED in found for found in kinds)


REFUSED = {
    "cg of 8 bytes": "cp.async.cg.shared.global [%r2], [%d4], 8;",
    "size in a register": "cp.async.ca.shared.global [%r2], [%d4], %r0;",
    "to the cluster": "cp.async.ca.shared::cluster.global [%r2], [%d4], 4;",
    "to global memory": "cp.async.ca.global.shared [%d4], [%r2], 4;",
    "groups in a register": "cp.async.wait_group %r0;",
}


@pytest.mark.parametrize("name", REFUSED)
def test_forms_outside_the_model_are_refused_by_name(name: str) -> None:
    with pytest.raises(NotModelled, match=r"cp\.async"):
        run(f"{REFUSED[name]} ret;")
