"""Tensor copies on the device: where the map lies, what is undefined, bounds, and what each misuse is called."""

from typing import Any

import numpy as np
import pytest
from tensor_kernels import EXPECT, FILL, INIT, LOAD, OUT, PARAM_MAP, STORE, WAIT, Outcome, on_schedules, run

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind


@on_schedules
def test_a_load_is_complete_after_its_wait_and_a_store_after_its_group(schedule: str, seed: int) -> None:
    loaded = run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT + OUT, schedule=schedule, seed=seed)
    assert loaded.kinds() == []
    np.testing.assert_array_equal(loaded.out, np.arange(512) % 256)
    stored = run(PARAM_MAP + FILL + STORE, schedule=schedule, seed=seed)
    assert stored.kinds() == []
    np.testing.assert_array_equal(stored.tensor.view(np.uint64), np.arange(64))


def test_what_a_load_has_not_brought_yet_is_undefined() -> None:
    late = [run(PARAM_MAP + INIT + EXPECT + LOAD + OUT + WAIT, schedule="adversarial", seed=seed) for seed in range(8)]
    assert all(FindingKind.RACE in outcome.kinds() for outcome in late)
    assert any(FindingKind.UNINITIALISED in outcome.kinds() for outcome in late)
    right = PARAM_MAP + INIT + EXPECT + LOAD + WAIT + OUT
    assert all(not run(right, schedule="adversarial", seed=seed).findings for seed in range(8))


def test_a_map_in_global_memory_needs_a_fence_of_its_proxy_in_its_block() -> None:
    copied = "".join(f"ld.param.b64 %d5, [map+{n}]; st.global.b64 [%d1+{512 + n}], %d5;" for n in range(0, 128, 8))
    begin = f"@%p0 bra C; bra E; C: {copied} E: bar.sync 0; add.s64 %d0, %d1, 512;"
    fence = "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;"
    released = "fence.proxy.tensormap::generic.release.gpu;"
    rest = INIT + EXPECT + LOAD + WAIT + OUT

    def outcome(body: str, blocks: int = 1) -> Outcome:
        device = Device()
        buffer = device.upload(np.arange(1024, dtype=np.uint64).astype(np.uint8))
        return run(body, device=device, tensor=buffer, blocks=blocks)

    right = outcome(begin + fence + rest)
    assert right.findings == []
    np.testing.assert_array_equal(right.out, np.arange(512) % 256)
    for wrong in (begin + rest, begin + released + rest, begin + fence.replace("%d0", "%d1") + rest):
        found = outcome(wrong)
        assert [finding.kind for finding in found.findings] == [FindingKind.RACE]
        assert "fence.proxy.tensormap" in found.findings[0].message
        np.testing.assert_array_equal(found.out, np.arange(512) % 256)
    assert run(PARAM_MAP + rest).findings == []


def test_the_fence_of_a_map_stands_after_its_last_write_and_before_the_copy() -> None:
    """Thread 0 writes the map and copies; another thread may fence."""
    copied = "".join(f"ld.param.b64 %d5, [map+{n}]; st.global.b64 [%d1+{512 + n}], %d5;" for n in range(0, 128, 8))
    begin = f"@!%p0 bra E; {copied} E: bar.sync 0; add.s64 %d0, %d1, 512;"
    fence = "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;"
    other = f"setp.eq.u32 %p2, %r0, 32; @%p2 {fence}"
    rest = EXPECT + LOAD + WAIT + OUT
    again = "@!%p0 bra F; ld.global.b64 %d5, [%d1+512]; st.global.b64 [%d1+512], 0; st.global.b64 [%d1+520], %d5; F:"

    def outcome(body: str) -> Outcome:
        device = Device()
        buffer = device.upload(np.arange(1024, dtype=np.uint64).astype(np.uint8))
        return run(body, device=device, tensor=buffer)

    for right in (f"{INIT}{begin}@%p0 {fence}{rest}", f"{INIT}{begin}{other} bar.sync 0; {rest}"):
        assert outcome(right).findings == []
    unordered = outcome(f"{INIT}{begin}{other}{rest}")
    assert [finding.kind for finding in unordered.findings] == [FindingKind.RACE]
    assert "nothing orders fence.proxy.tensormap" in unordered.findings[0].message
    early = outcome(INIT + begin.replace(" E: bar.sync 0;", " E:") + f"{other} bar.sync 0; {rest}")
    assert [finding.kind for finding in early.findings] == [FindingKind.RACE]
    assert "fence.proxy.tensormap::generic.acquire.gpu reads global memory that another" in early.findings[0].message
    modified = outcome(f"{INIT}{begin}@%p0 {fence}{again}{rest}")
    assert "was written after fence.proxy.tensormap" in modified.findings[0].message


def test_a_map_may_lie_in_constant_memory() -> None:
    device = Device()
    buffer = device.upload((np.arange(512) % 256).astype(np.uint8))
    raw = device.tensor_map(buffer, shape=(64, 8), strides_bytes=(64,), box=(64, 8)).tobytes()
    body = "mov.b64 %d0, fixed; cvta.const.u64 %d0, %d0;" + INIT + EXPECT + LOAD + WAIT + OUT
    constant = f"fixed[128] = {{{', '.join(map(str, raw))}}};"
    outcome = run(body, device=device, tensor=buffer, constant=constant)
    assert outcome.findings == []
    np.testing.assert_array_equal(outcome.out, np.arange(512) % 256)


def test_bytes_that_are_no_map_or_not_written_are_told() -> None:
    zeros = run("mov.b64 %d0, fixed; cvta.const.u64 %d0, %d0;" + INIT + EXPECT + LOAD)
    assert FindingKind.ASYNC in zeros.kinds()
    assert "bytes that are no tensor map" in zeros.findings[0].message
    device = Device()
    fresh = device.allocate(1024, np.uint8)
    nothing = run("add.s64 %d0, %d1, 512;" + INIT + EXPECT + LOAD, device=device, tensor=fresh)
    assert nothing.kinds()[0] is FindingKind.UNINITIALISED
    buffer = device.upload(np.zeros(512, np.uint8))
    raw = bytearray(device.tensor_map(buffer, shape=(64, 8), strides_bytes=(64,), box=(64, 8)).tobytes())
    raw[20] ^= 1
    changed = run(PARAM_MAP + INIT + EXPECT + LOAD, given=np.void(bytes(raw)))
    assert "whose bytes were changed" in changed.findings[0].message


def test_a_map_of_another_device_is_refused() -> None:
    other = Device()
    strange = other.tensor_map(other.upload(np.zeros(512, np.uint8)), shape=(64, 8), strides_bytes=(64,), box=(64, 8))
    with pytest.raises(Refusal, match="another device"):
        run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT, given=strange)


def test_a_map_must_be_aligned_to_64_bytes() -> None:
    assert run(PARAM_MAP + "add.s64 %d0, %d0, 8;" + INIT + EXPECT + LOAD).kinds()[0] is FindingKind.MISALIGNED


def test_interleaved_copies_are_not_modelled() -> None:
    body = PARAM_MAP + INIT + EXPECT + LOAD.replace("2d", "3d").replace("%r2}", "%r2, %r2}")
    right: dict[str, Any] = {"shape": (64, 8, 1), "strides_bytes": (64, 512), "box": (64, 8, 1)}
    assert run(body + WAIT + OUT, **right).kinds() == []
    with pytest.raises(NotModelled, match="interleaved"):
        run(body + WAIT + OUT, interleave=16, **right)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"corner": (8, 0)}, FindingKind.MISALIGNED),
        ({"shape": (64, 8, 1), "strides_bytes": (64, 512), "box": (64, 8, 1)}, FindingKind.ASYNC),
        ({"body": "mov.u32 %r8, tile; add.u32 %r8, %r8, 64;"}, FindingKind.MISALIGNED),
        ({"body": "mov.u32 %r8, 0x100000;"}, FindingKind.OUT_OF_BOUNDS),
        ({"body": "mov.u32 %r1, %r15;"}, FindingKind.UNINITIALISED),
    ],
    ids=["column by 8 bytes", "rank of the map", "address by 64", "beyond shared memory", "undefined coordinate"],
)
def test_each_illegal_load_and_store_has_one_finding(wrong: dict[str, Any], kind: FindingKind) -> None:
    change = dict(wrong)
    extra = change.pop("body", "")
    for whole in (INIT + EXPECT + LOAD + WAIT, FILL + STORE):
        before, after = whole.split("mov.u32 %r8, tile;")
        body = before + (extra if "%r8" in extra else "mov.u32 %r8, tile;" + extra) + after
        kinds = run(PARAM_MAP + body, **change).kinds()
        assert kinds[0] is kind
        if kind in (FindingKind.MISALIGNED, FindingKind.OUT_OF_BOUNDS):
            assert kinds == [kind]  # the barrier counts the bytes all the same


def test_only_loads_start_at_negative_coordinates() -> None:
    loaded = run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT + OUT, corner=(-16, -1))
    assert loaded.kinds() == []
    assert (loaded.out[:64] == 0).all()
    np.testing.assert_array_equal(loaded.out.reshape(8, 64)[1:, 16:], (np.arange(512) % 256).reshape(8, 64)[:7, :48])
    stored = run(PARAM_MAP + FILL + STORE, corner=(0, -1))
    assert stored.kinds() == [FindingKind.OUT_OF_BOUNDS]
    assert "negative coordinate" in stored.findings[0].message
    assert run(PARAM_MAP + FILL + STORE, corner=(16, 3)).kinds() == []


@pytest.mark.parametrize(("body", "verb"), [(INIT + EXPECT + LOAD + WAIT, "reads"), (FILL + STORE, "writes")])
def test_a_tensor_beyond_its_allocation_and_a_freed_one_are_found(body: str, verb: str) -> None:
    large = run(PARAM_MAP + body, shape=(64, 9), corner=(0, 1))
    assert large.kinds() == [FindingKind.OUT_OF_BOUNDS]
    assert verb in large.findings[0].message
    assert run(PARAM_MAP + body, shape=(64, 8), corner=(0, 1)).kinds() == []
    device = Device()
    freed = device.upload(np.zeros(512, np.uint8))
    made = device.tensor_map(freed, shape=(64, 8), strides_bytes=(64,), box=(64, 8))
    device.free(freed)
    outcome = run(PARAM_MAP + body, device=device, given=made)
    assert outcome.kinds() == [FindingKind.USE_AFTER_FREE]


def test_a_store_past_a_ragged_row_overwrites_its_chunk_and_says_so() -> None:
    ragged = run(PARAM_MAP + FILL + STORE, shape=(56, 7))
    assert ragged.kinds() == []
    assert (ragged.tensor.reshape(8, 8, 8)[:7, 7, 0] == np.arange(7, 56, 8)).all()  # columns 56 to 63
    assert any("beyond the end of the tensor's rows" in note.message for note in ragged.notes)
    assert not run(PARAM_MAP + FILL + STORE, shape=(48, 7)).notes
    device = Device()
    tight = device.upload(np.zeros(7 * 64 + 56, np.uint8))
    beyond = run(PARAM_MAP + FILL + STORE, device=device, tensor=tight, shape=(56, 8))
    assert beyond.kinds() == [FindingKind.OUT_OF_BOUNDS]


def test_undefined_bytes_count_only_inside_the_tensor() -> None:
    half = FILL.replace("st.shared", "setp.lt.u32 %p2, %r0, 32; @%p2 st.shared")
    assert run(PARAM_MAP + half + STORE, shape=(64, 4)).kinds() == []
    assert run(PARAM_MAP + half + STORE).kinds() == [FindingKind.UNINITIALISED]
    device = Device()
    fresh = device.allocate(512, np.uint8)
    assert run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT, device=device, tensor=fresh).kinds() == []
    used = run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT + OUT, device=device, tensor=fresh)
    assert used.kinds() == [FindingKind.UNINITIALISED]
    outside = run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT + OUT, device=device, tensor=fresh, corner=(0, 8))
    assert outside.kinds() == []


def test_reductions_of_a_type_that_has_none_are_found() -> None:
    reduce = STORE.replace(
        "cp.async.bulk.tensor.2d.global.shared::cta", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"
    )
    words: dict[str, Any] = {"dtype": "uint32", "shape": (16, 8), "strides_bytes": (64,), "box": (16, 8)}
    summed = run(PARAM_MAP + FILL + reduce, **words)
    assert summed.kinds() == []
    before = (np.arange(512) % 256).astype(np.uint8).view(np.uint32)
    np.testing.assert_array_equal(summed.tensor.view(np.uint32)[::2], before[::2] + np.arange(64, dtype=np.uint32))
    wrong = run(PARAM_MAP + FILL + reduce, dtype="uint8")
    assert wrong.kinds() == [FindingKind.ASYNC]
    assert "uint8" in wrong.findings[0].message


def test_a_box_counts_whole_at_its_barrier() -> None:
    few = run(PARAM_MAP + INIT + EXPECT.replace("512", "448") + LOAD + WAIT, corner=(0, 1))
    assert FindingKind.DEADLOCK in few.kinds()
    assert run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT, corner=(0, 1)).kinds() == []


@on_schedules
def test_many_blocks_each_bring_their_own_box(schedule: str, seed: int) -> None:
    place = "mov.u32 %r2, %ctaid.x; mul.wide.u32 %d4, %r2, 64; add.s64 %d2, %d2, %d4;"
    one_row = OUT.replace("st.global", "setp.lt.u32 %p2, %r0, 8; @%p2 st.global")
    body = PARAM_MAP + place + INIT + EXPECT.replace("512", "64") + LOAD + WAIT + one_row
    outcome = run(body, schedule=schedule, seed=seed, blocks=8, box=(64, 1))
    assert outcome.kinds() == []
    np.testing.assert_array_equal(outcome.out, np.arange(512) % 256)


def test_a_copy_over_a_live_mbarrier_is_found() -> None:
    over = LOAD.replace("mov.u32 %r8, tile;", "mov.u32 %r8, tile; add.u32 %r8, %r8, 3840;")
    assert FindingKind.BARRIER in run(PARAM_MAP + INIT + EXPECT + over + WAIT).kinds()
    before = LOAD.replace("mov.u32 %r8, tile;", "mov.u32 %r8, tile; add.u32 %r8, %r8, 3584;")
    assert run(PARAM_MAP + INIT + EXPECT + before + WAIT).kinds() == []


def test_a_parameter_aligned_to_128_bytes_holds_a_map_as_well() -> None:
    outcome = run(PARAM_MAP + INIT + EXPECT + LOAD + WAIT + OUT, align=128)
    assert outcome.kinds() == []
    np.testing.assert_array_equal(outcome.out, np.arange(512) % 256)
