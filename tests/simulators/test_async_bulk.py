"""Bulk copies and reductions: values of every form, both completion mechanisms, and the misuse of each."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from async_kernels import SCHEDULES, module, on_all_schedules, on_few_schedules, run
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

COMPLETES = "mbarrier::complete_tx::bytes"
# %r5, %r6: addresses of the tile and the first mbarrier, which thread 0 has initialised for one arrival.
SETUP = """mov.u32 %r5, tile; mov.u32 %r6, bar; @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
fence.proxy.async.shared::cta; bar.sync 0;"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"
# %r7: the address of this thread's word of the tile.
WORD = "mul.lo.u32 %r7, %r0, 4; add.u32 %r7, %r7, %r5;"
LOAD = f"{WORD} ld.shared.u32 %r8, [%r7]; st.global.u32 [%d2], %r8; ret;"
# The tile holds 5 * thread, visible to the async proxy.
FILL = f"mov.u32 %r5, tile; {WORD} mul.lo.u32 %r8, %r0, 5; st.shared.u32 [%r7], %r8; fence.proxy.async; bar.sync 0;"


@on_all_schedules
@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
def test_a_bulk_load_brings_its_bytes_before_its_phase_completes(space: str, schedule: str, seed: int) -> None:
    body = f"""{SETUP} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.async.bulk.{space}.global.{COMPLETES} [%r5], [%d0], 256, [%r6]; {WAIT} {LOAD}"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], np.arange(64))


@on_all_schedules
def test_several_loads_share_a_phase_and_cache_hints_change_nothing(schedule: str, seed: int) -> None:
    body = f"""{SETUP} mov.u64 %d7, 0; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    setp.lt.u32 %p5, %r0, 16; mul.lo.u32 %r9, %r0, 16; add.u32 %r10, %r5, %r9; mul.wide.u32 %d6, %r0, 16;
    add.s64 %d6, %d6, %d0;
    @%p5 cp.async.bulk.shared::cluster.global.{COMPLETES}.L2::cache_hint [%r10], [%d6], 16, [%r6], %d7;
    {WAIT} {LOAD}"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], np.arange(64))


@on_few_schedules
def test_a_copy_of_no_bytes_needs_no_wait(schedule: str, seed: int) -> None:
    body = f"""{SETUP} @%p0 mbarrier.arrive.shared::cta.b64 _, [bar];
    @%p0 cp.async.bulk.shared::cluster.global.{COMPLETES} [%r5], [%d0], 0, [%r6]; {WAIT} st.global.u32 [%d2], 3; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert (outcome.out[:64] == 3).all()


@on_few_schedules
def test_a_multicast_in_a_cluster_of_one_writes_the_own_block(schedule: str, seed: int) -> None:
    body = f"""{SETUP} mov.u16 %h0, 1; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.async.bulk.shared::cluster.global.{COMPLETES}.multicast::cluster [%r5], [%d0], 256, [%r6], %h0;
    {WAIT} {LOAD}"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], np.arange(64))


@on_all_schedules
def test_a_ring_of_two_stages_carries_a_stream(schedule: str, seed: int) -> None:
    """Thread 0 produces 6 tiles of 64 words through two stages; the threads of the second warp consume them."""
    body = """mov.u32 %r5, tile; mov.u32 %r6, bar; mov.u32 %r10, 0; mov.u32 %r11, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
    @%p0 mbarrier.init.shared::cta.b64 [bar+16], 32; @%p0 mbarrier.init.shared::cta.b64 [bar+24], 32;
    bar.sync 0; @!%p1 bra CONSUME; @!%p0 ret;
    P: and.b32 %r12, %r10, 1; shr.u32 %r13, %r10, 1; and.b32 %r13, %r13, 1; xor.b32 %r14, %r13, 1;
    mul.lo.u32 %r15, %r12, 8; add.u32 %r15, %r15, %r6; mul.lo.u32 %r16, %r12, 256; add.u32 %r16, %r16, %r5;
    E: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15+16], %r14; @!%p4 bra E;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 256; mul.wide.u32 %d6, %r10, 256; add.s64 %d6, %d6, %d0;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%d6], 256, [%r15];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 6; @%p5 bra P; ret;
    CONSUME: and.b32 %r12, %r10, 1; shr.u32 %r13, %r10, 1; and.b32 %r13, %r13, 1;
    mul.lo.u32 %r15, %r12, 8; add.u32 %r15, %r15, %r6; mul.lo.u32 %r16, %r12, 256; add.u32 %r16, %r16, %r5;
    F: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15], %r13; @!%p4 bra F;
    mul.lo.u32 %r17, %r0, 4; add.u32 %r17, %r17, %r16; ld.shared.u32 %r18, [%r17]; add.u32 %r11, %r11, %r18;
    fence.proxy.async.shared::cta; mbarrier.arrive.shared::cta.b64 _, [%r15+16];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 6; @%p5 bra CONSUME; st.global.u32 [%d2], %r11; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    expected = np.arange(6 * 64, dtype=np.uint32).reshape(6, 64).sum(axis=0)[32:]
    np.testing.assert_array_equal(outcome.out[32:64], expected)


@on_all_schedules
def test_a_bulk_store_is_written_by_the_end_of_the_launch(schedule: str, seed: int) -> None:
    body = f"""{FILL} @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group.read 0; ret;"""
    outcome = run(body, schedule, seed)
    assert (outcome.findings, outcome.notes) == ([], [])
    np.testing.assert_array_equal(outcome.out[:64], 5 * np.arange(64))


@on_all_schedules
def test_after_wait_group_read_the_source_may_change(schedule: str, seed: int) -> None:
    body = f"""{FILL} @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;
    st.shared.u32 [%r7], 1; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 5 * np.arange(64))


@on_all_schedules
def test_after_wait_group_the_issuer_may_read_the_target(schedule: str, seed: int) -> None:
    body = f"""{FILL} @!%p0 ret; cp.async.bulk.global.shared::cta.bulk_group [%d1+1024], [%r5], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ld.global.u32 %r9, [%d1+1032]; st.global.u32 [%d1], %r9;
    ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert outcome.out[0] == 10


@on_few_schedules
def test_groups_of_bulk_copies_complete_in_order(schedule: str, seed: int) -> None:
    body = f"""{FILL} @!%p0 ret; cp.async.bulk.global.shared::cta.bulk_group [%d1+1024], [%r5], 128;
    cp.async.bulk.commit_group; cp.async.bulk.global.shared::cta.bulk_group [%d1+2048], [%r5], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 1; ld.global.u32 %r9, [%d1+1032];
    cp.async.bulk.wait_group 0; ld.global.u32 %r10, [%d1+2052]; add.u32 %r9, %r9, %r10;
    st.global.u32 [%d1], %r9; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert outcome.out[0] == 15


@on_few_schedules
def test_a_byte_mask_leaves_the_other_bytes(schedule: str, seed: int) -> None:
    body = f"""{FILL} mov.u16 %h0, 0x0f01;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d1], [%r5], 256, %h0;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; ret;"""
    target = np.full(2048, 0xAABBCCDD, np.uint32)
    outcome = run(body, schedule, seed, target=target)
    assert outcome.findings == []
    moved = (5 * np.arange(64, dtype=np.uint32)).view(np.uint8).reshape(-1, 16)
    expected = target[:64].view(np.uint8).reshape(-1, 16).copy()
    chosen = [0, 8, 9, 10, 11]
    expected[:, chosen] = moved[:, chosen]
    np.testing.assert_array_equal(outcome.out[:64].view(np.uint8).reshape(-1, 16), expected)


@on_all_schedules
def test_a_copy_inside_shared_memory_signals_an_mbarrier(schedule: str, seed: int) -> None:
    body = f"""{SETUP} {FILL} add.u32 %r9, %r5, 2048; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.async.bulk.shared::cluster.shared::cta.{COMPLETES} [%r9], [%r5], 256, [%r6]; {WAIT}
    ld.shared.u32 %r8, [%r7+2048]; st.global.u32 [%d2], %r8; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 5 * np.arange(64))


@on_few_schedules
def test_prefetches_change_nothing(schedule: str, seed: int) -> None:
    body = """mov.u64 %d7, 0; cp.async.bulk.prefetch.L2.global [%d0], 256;
    cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d0], 256, %d7; prefetch.global.L2 [%d0]; ret;"""
    outcome = run(body, schedule, seed)
    assert (outcome.findings, outcome.notes) == ([], [])


Numbers = NDArray[Any]


def reduced(name: str, type_: str, present: Numbers, operand: Numbers) -> Numbers:
    """What numpy says that a reduction leaves."""
    match name:
        case "add":
            return present + operand
        case "min":
            return np.minimum(present, operand)
        case "max":
            return np.maximum(present, operand)
        case "and":
            return present & operand
        case "or":
            return present | operand
        case "xor":
            return present ^ operand
        case "inc":
            return np.where(present >= operand, 0, present + 1).astype(present.dtype)
    return np.where((present == 0) | (present > operand), operand, present - 1).astype(present.dtype)


DTYPES: dict[str, Any] = {
    "u32": np.uint32,
    "s32": np.int32,
    "b32": np.uint32,
    "u64": np.uint64,
    "s64": np.int64,
    "b64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}
GLOBAL_FORMS = [
    *[("add", type_) for type_ in ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16")],
    *[(name, type_) for name in ("min", "max") for type_ in ("u32", "s32", "u64", "s64", "f16", "bf16")],
    *[(name, "u32") for name in ("inc", "dec")],
    *[(name, type_) for name in ("and", "or", "xor") for type_ in ("b32", "b64")],
]
SHARED_FORMS = [
    *[("add", type_) for type_ in ("u32", "s32", "u64")],
    *[(name, type_) for name in ("min", "max") for type_ in ("u32", "s32")],
    *[(name, "u32") for name in ("inc", "dec")],
    *[(name, "b32") for name in ("and", "or", "xor")],
]


def operands(type_: str) -> tuple[Numbers, Numbers]:
    """Two vectors of 256 bytes: present values and operands, exact under one addition or rounded once."""
    dtype = np.dtype(DTYPES[type_])
    random = np.random.default_rng(7)
    count = 256 // dtype.itemsize
    if dtype.kind in "iu":
        raw = random.integers(0, 256, (2, 256), dtype=np.uint8)
        return raw[0].view(dtype), raw[1].view(dtype)
    return random.normal(size=count).astype(dtype), random.normal(size=count).astype(dtype)


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize(("name", "type_"), GLOBAL_FORMS)
def test_bulk_reductions_to_global_memory(name: str, type_: str, schedule: str, seed: int) -> None:
    present, operand = operands(type_.removeprefix("noftz."))
    body = f"""mov.u32 %r5, tile; {WORD} ld.global.u32 %r8, [%d3]; st.shared.u32 [%r7], %r8; fence.proxy.async;
    bar.sync 0; @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{name}.{type_} [%d1], [%r5], 256;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; ret;"""
    target = np.zeros(2048, np.uint32)
    target[:64] = present.view(np.uint32)
    outcome = run(body, schedule, seed, source=operand.view(np.uint32), target=target)
    assert outcome.findings == []
    expected = reduced(name, type_, present, operand)
    np.testing.assert_array_equal(outcome.out[:64].view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize(("name", "type_"), SHARED_FORMS)
def test_bulk_reductions_to_shared_memory(name: str, type_: str, schedule: str, seed: int) -> None:
    present, operand = operands(type_)
    body = f"""{SETUP} {WORD} ld.global.u32 %r8, [%d3]; st.shared.u32 [%r7], %r8; ld.global.u32 %r8, [%d3+256];
    st.shared.u32 [%r7+2048], %r8; fence.proxy.async; bar.sync 0; add.u32 %r9, %r5, 2048;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.{COMPLETES}.{name}.{type_} [%r5], [%r9], 256, [%r6];
    {WAIT} {LOAD}"""
    source = np.concatenate((present.view(np.uint32), operand.view(np.uint32)))
    outcome = run(body, schedule, seed, source=source)
    assert outcome.findings == []
    expected = reduced(name, type_, present, operand)
    np.testing.assert_array_equal(outcome.out[:64].view(np.uint8), expected.view(np.uint8))


@on_all_schedules
def test_reductions_of_many_blocks_add_up(schedule: str, seed: int) -> None:
    body = f"""{FILL} @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r5], 256;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group.read 0; ret;"""
    outcome = run(body, schedule, seed, blocks=5)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out[:64], 25 * np.arange(64))


@on_few_schedules
def test_a_reduction_of_what_nothing_wrote_is_found(schedule: str, seed: int) -> None:
    device = Device(schedule=schedule, seed=seed)
    out = device.allocate((2048,), np.uint32)
    body = f"""{FILL} @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r5], 256;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; ret;"""
    report = device.load_ptx(module(body, ""))["k"].launch(grid=(1, 1, 1), block=(64, 1, 1), args=(out, out))
    assert [finding.kind for finding in report.findings] == [FindingKind.UNINITIALISED]


def test_the_float_reduction_flushes_subnormals() -> None:
    tiny = np.full(64, 1, np.uint32)
    body = f"""mov.u32 %r5, tile; {WORD} st.shared.u32 [%r7], 1; fence.proxy.async; bar.sync 0;
    @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%r5], 256; @%p0 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.wait_group 0; ret;"""
    assert not run(body, target=np.resize(tiny, 2048)).out[:64].any()


LOAD_OF = f"@%p0 cp.async.bulk.shared::cluster.global.{COMPLETES} [{{}}], [{{}}], {{}}, [{{}}]; "
# name: (kernel, kind, what the finding says)
WRONG = {
    "misaligned target": (
        f"{SETUP} add.u32 %r5, %r5, 8; {LOAD_OF.format('%r5', '%d0', 16, '%r6')} ret;",
        FindingKind.MISALIGNED,
        "writes 16 bytes at an address that is not a multiple of 16",
    ),
    "misaligned source": (
        f"{SETUP} {LOAD_OF.format('%r5', '%d0+4', 16, '%r6')} ret;",
        FindingKind.MISALIGNED,
        "reads 16 bytes at an address that is not a multiple of 16",
    ),
    "size that is no multiple of 16": (
        f"{SETUP} {LOAD_OF.format('%r5', '%d0', 24, '%r6')} ret;",
        FindingKind.MISALIGNED,
        "copies a number of bytes that is not a multiple of 16 (24)",
    ),
    "source past its allocation": (
        f"{SETUP} {LOAD_OF.format('%r5', '%d0+8176', 32, '%r6')} ret;",
        FindingKind.OUT_OF_BOUNDS,
        "reads memory past the end of an allocation of 8192 bytes (bytes 8176 to 8207)",
    ),
    "target past shared memory": (
        f"{SETUP} {LOAD_OF.format('%r5+4096', '%d0', 64, '%r6')} ret;",
        FindingKind.OUT_OF_BOUNDS,
        "writes shared memory outside the 4128 bytes of the kernel",
    ),
    "target in a live mbarrier": (
        f"{SETUP} {LOAD_OF.format('%r5+4080', '%d0', 32, '%r6')} {WAIT} ret;",
        FindingKind.BARRIER,
        "writes the bytes of a live mbarrier",
    ),
    "undefined size": (
        f"{SETUP} {LOAD_OF.format('%r5', '%d0', '%r20', '%r6')} ret;",
        FindingKind.UNINITIALISED,
        "decides how many bytes",
    ),
    "mbarrier that nothing initialised": (
        f"{SETUP} {LOAD_OF.format('%r5', '%d0', 16, '%r6+8')} ret;",
        FindingKind.BARRIER,
        "uses an mbarrier that nothing initialised (shared 0x1408)",
    ),
    "block outside the cluster": (
        f"""{SETUP} mov.u16 %h0, 3; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
        @%p0 cp.async.bulk.shared::cluster.global.{COMPLETES}.multicast::cluster [%r5], [%d0], 256, [%r6], %h0;
        {WAIT} {LOAD}""",
        FindingKind.OUT_OF_BOUNDS,
        "copies to a block beyond the 1 of the cluster (mask 0x3, rank 1)",
    ),
    "undefined source of a store": (
        """mov.u32 %r5, tile; @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256;
        @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0; ret;""",
        FindingKind.UNINITIALISED,
        "puts a value that nothing wrote into global memory",
    ),
    "load that nobody waits for": (
        f"""{SETUP} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
        {LOAD_OF.format("%r5", "%d0", 256, "%r6")} ret;""",
        FindingKind.ASYNC,
        "a block exits although nobody saw",
    ),
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
@pytest.mark.parametrize("name", WRONG)
def test_misused_bulk_copies_are_found(name: str, schedule: str, seed: int) -> None:
    body, kind, said = WRONG[name]
    findings = run(body, schedule, seed).findings
    assert any(finding.kind is kind and said in finding.message for finding in findings), findings


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
def test_a_store_without_any_wait_is_a_note(schedule: str, seed: int) -> None:
    body = f"""{FILL} @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r5], 256;
    @%p0 cp.async.bulk.commit_group; ret;"""
    outcome = run(body, schedule, seed)
    assert outcome.findings == []
    assert [note.message for note in outcome.notes] == [
        "threads exit without a wait for their cp.async.bulk.global.shared::cta.bulk_group, which reads shared memory"
    ]
    np.testing.assert_array_equal(outcome.out[:64], 5 * np.arange(64))


def test_bytes_of_the_next_phase_that_come_first_are_found_under_some_schedule() -> None:
    """Two copies of 256 bytes are issued in a phase that expects 256: whichever lands last is left behind."""
    body = f"""{SETUP} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    {LOAD_OF.format("%r5", "%d0", 256, "%r6")} {LOAD_OF.format("%r5+1024", "%d0+256", 256, "%r6")} {WAIT} {LOAD}"""
    said = [
        finding.message
        for seed in range(20)
        for finding in run(body, "adversarial", seed).findings
        if finding.kind is FindingKind.ASYNC
    ]
    assert any("a phase of an mbarrier is complete while cp.async.bulk" in message for message in said), said


# name: (thread 0's instructions, which bring 256 bytes to the tile; whether all of them are sure to be awaited)
BYTES = {
    "expected with the arrival": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; LOAD",
        True,
    ),
    "expected after the copy and before the arrival": (
        "LOAD mbarrier.expect_tx.shared::cta.b64 [bar], 256; mbarrier.arrive.shared::cta.b64 _, [bar];",
        True,
    ),
    "expected after the arrival": (
        "LOAD mbarrier.arrive.shared::cta.b64 _, [bar]; mbarrier.expect_tx.shared::cta.b64 [bar], 256;",
        False,
    ),
    "too few expected before the copy": ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128; LOAD", False),
    "too few expected after the copy": ("LOAD mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;", False),
    "none expected": ("mbarrier.arrive.shared::cta.b64 _, [bar]; LOAD", True),  # the phase was complete at issue
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:3])
@pytest.mark.parametrize("name", BYTES)
def test_a_phase_that_may_complete_without_its_bytes_is_found_whatever_lands_when(
    name: str, schedule: str, seed: int
) -> None:
    parts, awaited = BYTES[name]
    load = LOAD_OF.format("%r5", "%d0", 256, "%r6").removeprefix("@%p0 ")
    body = f"{SETUP} @!%p0 bra J; {parts.replace('LOAD', load)} J: bar.sync 0; {WAIT} ret;"
    message = "more bytes are on their way to it than it expects: it may complete without some of them"
    found = any(message in finding.message for finding in run(body, schedule, seed).findings)
    assert found != awaited


REFUSED = {
    "ignore_oob": f"cp.async.bulk.shared::cta.global.{COMPLETES}.ignore_oob [%r5], [%d0], 16, 0, 0, [%r6];",
    "group to shared": "cp.async.bulk.shared::cluster.global.bulk_group [%r5], [%d0], 16;",
    "reduction from global": (
        f"cp.reduce.async.bulk.shared::cluster.global.{COMPLETES}.add.u32 [%r5], [%d0], 16, [%r6];"
    ),
    "f16 sum that flushes": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%d1], [%r5], 16;",
    "f32 minimum": "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%d1], [%r5], 16;",
    "s64 sum": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%d1], [%r5], 16;",
    "float sum in shared memory": (
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{COMPLETES}.add.f32 [%r5], [%r5], 16, [%r6];"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_forms_outside_the_model_are_refused_by_name(name: str) -> None:
    with pytest.raises(NotModelled, match="cp"):
        run(f"{REFUSED[name]} ret;")
