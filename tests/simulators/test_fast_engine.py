"""The two engines give the same, and the fast one leaves to the reference exactly what it must."""

import numpy as np
import pytest
from both_engines import agree, kernel, run

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind

SIZES = ["u8", "s8", "u16", "s16", "u32", "s32", "f32", "u64", "f64", "b8", "b16"]
VECTORS = ["v2.u8", "v4.u8", "v2.u16", "v4.u16", "v2.u32", "v4.u32", "v2.f32", "v4.f32", "v2.u64", "v2.f64"]


def registers(form: str) -> str:
    """Operands of a vector or a single element, as wide as its type."""
    count = int(form[1]) if form.startswith("v") else 1
    bits = int(form[-2:]) if form[-2:].isdigit() else 8
    names = [f"%{'d' if bits == 64 else 'r'}{8 + i}" for i in range(count)]
    return "{" + ", ".join(names) + "}" if count > 1 else names[0]


def only_exits_are_handed_back(body: str, exits: int = 1) -> None:
    assert agree(kernel(body)).handed_back == exits


@pytest.mark.parametrize("form", [*SIZES, *VECTORS])
def test_every_size_is_loaded_from_and_stored_to_global_memory_in_machine_code(form: str) -> None:
    held = registers(form)
    only_exits_are_handed_back(f"ld.global.{form} {held}, [%d3]; st.global.{form} [%d4], {held};")


@pytest.mark.parametrize("form", [*SIZES, *VECTORS])
def test_every_size_is_loaded_from_and_stored_to_local_memory(form: str) -> None:
    held = registers(form)
    body = f"ld.global.{form} {held}, [%d3]; st.local.{form} [%r7+16], {held}; ld.local.{form} {held}, [%r7+16];"
    only_exits_are_handed_back(f"{body} st.global.{form} [%d4], {held};")


@pytest.mark.parametrize("form", [*SIZES, *VECTORS])
def test_every_size_goes_through_shared_memory(form: str) -> None:
    held = registers(form)
    body = (
        f"ld.global.{form} {held}, [%d3]; st.shared.{form} [%r6], {held}; bar.sync 0; ld.shared.{form} {held}, [%r6];"
    )
    agree(kernel(f"{body} st.global.{form} [%d4], {held};"))


def test_generic_addresses_find_their_space() -> None:
    body = """
    mov.u64 %d5, l; cvta.local.u64 %d5, %d5; cvta.global.u64 %d6, %d3; mov.u64 %d7, table; cvta.const.u64 %d7, %d7;
    ld.u32 %r8, [%d6]; st.u32 [%d5+8], %r8; ld.u32 %r9, [%d5+8]; ld.u32 %r10, [%d7+4]; add.u32 %r9, %r9, %r10;
    st.u32 [%d4], %r9;"""
    only_exits_are_handed_back(body)


def test_constants_and_parameters_are_spread_over_the_lanes() -> None:
    only_exits_are_handed_back("ld.const.u16 %h0, [table+2]; ld.param.u32 %r8, [n]; st.global.u32 [%d4], %r8;")


@pytest.mark.parametrize("threads", [1, 31, 33, 64, 96])
def test_partial_warps_guards_and_selects_agree(threads: int) -> None:
    body = """
    and.b32 %r8, %r1, 3; setp.eq.u32 %p0, %r8, 1; mov.u32 %r9, 5; @%p0 mov.u32 %r9, 9; @!%p0 add.u32 %r9, %r9, %r1;
    selp.b32 %r10, %r9, %r1, %p0; @%p0 st.global.u32 [%d4], %r10; @!%p0 st.global.u32 [%d4+4], %r9;"""
    assert agree(kernel(body), threads=threads).findings == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("ld.global.u32 %r8, [%d0+8192];", FindingKind.OUT_OF_BOUNDS),
        ("st.global.u32 [%d1+-4], %r1;", FindingKind.OUT_OF_BOUNDS),
        ("mov.u64 %d5, 4096; ld.global.u32 %r8, [%d5];", FindingKind.OUT_OF_BOUNDS),
        ("ld.shared.u32 %r8, [%r5+8192];", FindingKind.OUT_OF_BOUNDS),
        ("st.local.u32 [%r7+64], %r1;", FindingKind.OUT_OF_BOUNDS),
        ("ld.param.u64 %d5, [a+24];", FindingKind.OUT_OF_BOUNDS),
        ("mov.u64 %d5, table; cvta.const.u64 %d5, %d5; st.u32 [%d5], %r1;", FindingKind.OUT_OF_BOUNDS),
        ("ld.global.u32 %r8, [%d3+2];", FindingKind.MISALIGNED),
        ("st.global.v2.u32 [%d4+4], {%r1, %r1};", FindingKind.MISALIGNED),
        ("ld.param.u32 %r8, [a+2];", FindingKind.MISALIGNED),
        ("st.global.u32 [%d4], %r20;", FindingKind.UNINITIALISED),
        ("ld.global.u32 %r8, [%e0];", FindingKind.UNINITIALISED),
        ("ld.global.u32 %r8, [%d4]; st.global.u32 [%d4], %r8;", FindingKind.UNINITIALISED),
        ("ld.local.u32 %r8, [%r7]; st.global.u32 [%d4], %r8;", FindingKind.UNINITIALISED),
        ("@%p5 mov.u32 %r8, 1;", FindingKind.UNINITIALISED),
        ("@%p5 bra L; L:", FindingKind.UNINITIALISED),
        ("st.global.u32 [%d1], %r1;", FindingKind.RACE),
        ("shl.b32 %r8, %r1, 31; mad.lo.u32 %r8, %r8, 0, %r1; st.global.u32 [%d1+16], %r8;", FindingKind.RACE),
    ],
)
def test_what_is_wrong_is_handed_back_and_found(body: str, kind: FindingKind) -> None:
    report = agree(kernel(body))
    assert kind in {finding.kind for finding in report.findings}
    assert report.handed_back > 1


def test_a_freed_buffer_is_handed_back_and_found() -> None:
    def freed(device: Device) -> list[object]:
        a = device.upload(np.zeros(8192, np.uint8))
        b = device.upload(np.zeros(8192, np.uint8))
        address = np.uint64(a.address)
        device.free(a)
        return [address, b, np.uint32(1)]

    report = agree(kernel("ld.global.u32 %r8, [%d3];"), prepare=freed)
    assert [finding.kind for finding in report.findings] == [FindingKind.USE_AFTER_FREE]


def test_equal_values_at_one_place_are_a_note_of_both() -> None:
    report = agree(kernel("mov.u32 %r8, 3; st.global.u32 [%d1], %r8;"))
    assert report.findings == []
    assert len(report.notes) == 1


def test_accesses_that_fall_into_two_buffers_agree() -> None:
    body = "setp.lt.u32 %p0, %r1, 32; selp.b64 %d5, %d3, %d4, %p0; st.global.u32 [%d5], %r1;"
    assert agree(kernel(body)).findings == []


def test_a_store_of_undefined_bits_makes_a_defined_buffer_known_byte_by_byte() -> None:
    body = "@!%p0 bra L; L: st.global.u32 [%d3], %r20; ld.global.u32 %r8, [%d3+4]; st.global.u32 [%d4], %r8;"
    assert {f.kind for f in agree(kernel("setp.lt.u32 %p0, %r1, 99; " + body)).findings} == {FindingKind.UNINITIALISED}


def test_diverged_lanes_loop_as_often_as_each_wants() -> None:
    body = """
    and.b32 %r8, %r4, 7; mov.u32 %r9, 1;
    L: setp.eq.u32 %p0, %r8, 0; @%p0 bra OUT; mul.lo.u32 %r9, %r9, 3; sub.u32 %r8, %r8, 1; bra L;
    OUT: st.global.u32 [%d4], %r9;"""
    for schedule, seed in (("friendly", 0), ("adversarial", 1), ("adversarial", 2)):
        assert agree(kernel(body), schedule=schedule, seed=seed).findings == []


@pytest.mark.parametrize(
    "step",
    [
        *[
            f"shfl.sync.{mode}.b32 %r9|%p1, %r8, {by}, {clamp}, -1;"
            for mode, by, clamp in (
                ("up", 3, 0),
                ("down", 5, 31),
                ("bfly", 9, 31),
                ("idx", 4, 31),
                ("idx", 3, 0x181F),
                ("down", 3, 0x181F),
                ("up", 2, 0x1800),
                ("bfly", 6, 0x1C1F),
            )
        ],
        *[
            f"setp.lt.u32 %p0, %r1, {bound}; vote.sync.{mode}.pred %p1, %p0, -1;"
            for bound in (0, 20, 99)
            for mode in ("all", "any", "uni")
        ],
        "setp.lt.u32 %p0, %r1, 20; vote.sync.ballot.b32 %r9, !%p0, -1; setp.ne.u32 %p1, %r9, 0;",
    ],
)
def test_shuffles_and_votes_of_whole_warps_stay_in_machine_code(step: str) -> None:
    body = f"ld.global.u32 %r8, [%d3]; mov.u32 %r9, %r8; {step} selp.b32 %r10, %r9, 7, %p1;"
    only_exits_are_handed_back(f"{body} st.global.v2.u32 [%d4], {{%r9, %r10}};")


def test_packing_and_unpacking_in_place() -> None:
    body = """
    ld.global.u64 %d5, [%d3]; mov.b64 {%r8, %r9}, %d5; mov.b64 %d5, {%r9, %r8}; mov.b32 {%h0, %h1}, %r8;
    mov.b32 %r8, {%h1, %h0}; st.global.u64 [%d4], %d5; st.global.u32 [%d4+8], %r8;"""
    only_exits_are_handed_back(body)


def test_barriers_that_all_threads_meet_at_do_not_end_a_turn() -> None:
    body = "mov.u32 %r8, 0; L: bar.sync 0; add.u32 %r8, %r8, 1; setp.lt.u32 %p0, %r8, 5; @%p0 bra L;"
    assert agree(kernel(body)).findings == []


def test_the_step_budget_ends_an_endless_loop_on_both() -> None:
    for engine in ("fast", "reference"):
        device = Device(engine=engine, step_budget=1000)
        text = kernel("mov.u32 %r8, 0; L: add.u32 %r8, %r8, 1; bra L;")
        a = device.upload(np.zeros(8192, np.uint8))
        with pytest.raises(Refusal, match="1000 steps were not enough"):
            device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(32, 1, 1), args=(a, a, np.uint32(1)))


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(Refusal, match="unknown engine 'quick'"):
        Device(engine="quick")


def test_the_fast_engine_is_the_default() -> None:
    assert run(kernel(""), "fast")[0].handed_back == 1
    assert Device().engine == "fast"
