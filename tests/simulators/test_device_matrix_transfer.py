"""`ldmatrix`, `stmatrix` and `movmatrix` on the CPU device: an H200's registers and memory, and every wrong use."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.maps.ldmatrix import ldmatrix, load_rows, stmatrix, store_rows
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding, FindingKind, Report

Array = NDArray[Any]

with np.load(Path(__file__).parents[1] / "golden" / "h200_fragments.npz") as file:
    GOLDEN: dict[str, Array] = {name: array for name, array in file.items() if "matrix" in name}
FORMS = sorted({name.rsplit(".", 1)[0] for name in GOLDEN if name.endswith(".image")})
SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(4)]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)


def kernel(body: str, *, target: str = "sm_90a", shared: int = 512) -> str:
    """A kernel with the lane in %t, its 16-byte row's shared address in %a, four words of an image in %i0 to %i3.

    `words` and `out` hold four words a lane: %w0 to %w3 come in, %r0 to %r3 go out at the end.
    """
    rows = range(4)
    return f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 rows, .param .u64 words, .param .u64 out, .param .u64 after)
{{
    .shared .align 16 .b8 memory[{shared}];
    .reg .pred %p<4>;
    .reg .b32 %t, %a, %s, %u, %i<4>, %w<4>, %r<4>, %m<4>;
    .reg .b64 %d<8>, %g;
    ld.param.u64 %d0, [image];
    ld.param.u64 %d1, [rows];
    ld.param.u64 %d2, [words];
    ld.param.u64 %d3, [out];
    ld.param.u64 %d4, [after];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %d5, %t, 16;
    mul.wide.u32 %d6, %t, 4;
    add.s64 %d0, %d0, %d5;
    add.s64 %d1, %d1, %d6;
    add.s64 %d2, %d2, %d5;
    add.s64 %d3, %d3, %d5;
    add.s64 %d4, %d4, %d5;
    mov.u32 %s, memory;
    ld.global.u32 %a, [%d1];
    mad.lo.u32 %a, %a, 16, %s;
    mad.lo.u32 %s, %t, 16, %s;
    ld.global.v4.u32 {{%i0, %i1, %i2, %i3}}, [%d0];
    ld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%d2];
    setp.lt.u32 %p0, %t, 16;
    {"".join(f"mov.u32 %r{row}, 0;" for row in rows)}
    {body}
    st.global.v4.u32 [%d3], {{%r0, %r1, %r2, %r3}};
}}
"""


FILL = "st.shared.v4.u32 [%s], {%i0, %i1, %i2, %i3};"
SYNC = "bar.warp.sync -1;"
KEEP = "ld.shared.v4.u32 {%m0, %m1, %m2, %m3}, [%s]; st.global.v4.u32 [%d4], {%m0, %m1, %m2, %m3};"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];"
STORE = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%a], {%w0, %w1, %w2, %w3};"
PLAIN = np.arange(32, dtype=np.uint32)
IMAGE = np.random.default_rng(1).integers(0, 1 << 32, 128, np.uint32)
WORDS = np.random.default_rng(2).integers(0, 1 << 32, (32, 4), np.uint32)


def launch(
    text: str, rows: Array = PLAIN, image: Array = IMAGE, words: Array = WORDS, *, threads: int = 32, **device: Any
) -> tuple[Report, Array, Array]:
    """The report, registers [32, 4] and shared memory [512 bytes] after."""
    machine = Device(**device)
    out, after = machine.upload(np.zeros((32, 4), np.uint32)), machine.upload(np.zeros(128, np.uint32))
    args = (*(machine.upload(np.ascontiguousarray(x)) for x in (image, rows, words)), out, after)
    report = machine.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(threads, 1, 1), args=args)
    return report, out.download(), after.download().view(np.uint8)


def only(findings: list[Finding], kind: FindingKind, words: str) -> Finding:
    """The one finding, of the kind and with the words that were expected."""
    assert [finding.kind for finding in findings] == [kind], findings
    assert re.search(words, findings[0].message), findings[0].message
    return findings[0]


def listed(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{index}" for index in range(count)) + "}"


@pytest.mark.parametrize("form", FORMS)
@on_all_schedules
def test_rows_and_registers_are_what_an_h200_recorded(form: str, schedule: str, seed: int) -> None:
    mnemonic, _, rest = form.partition(".")
    count, opcode = int(re.findall(r"x(\d)", form)[0]), f"{mnemonic}.sync.aligned.{rest}.shared.b16"
    load = f"{opcode} {listed('r', count)}, [%a];"
    body = load if mnemonic == "ldmatrix" else f"{opcode} [%a], {listed('w', count)};"
    words = np.zeros((32, 4), np.uint32)
    words[:, :count] = GOLDEN[f"{form}.before"]
    text = kernel("\n".join((FILL, SYNC, body, SYNC, KEEP)))
    report, out, after = launch(
        text, GOLDEN[f"{form}.rows"], GOLDEN[f"{form}.image"], words, schedule=schedule, seed=seed
    )
    assert report.findings == []
    assert np.array_equal(after, GOLDEN[f"{form}.memory"].view(np.uint8))
    if mnemonic == "ldmatrix":
        assert np.array_equal(out[:, :count], GOLDEN[f"{form}.after"])


def test_movmatrix_transposes_as_an_h200_recorded() -> None:
    words = np.zeros((32, 4), np.uint32)
    words[:, 0] = GOLDEN["movmatrix.before"]
    report, out, _ = launch(kernel("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %w0;"), words=words)
    assert report.findings == []
    assert np.array_equal(out[:, 0], GOLDEN["movmatrix.after"])


def test_the_order_of_qualifiers_is_free() -> None:
    text = kernel(f"{FILL} {SYNC} {LOAD.replace('m8n8.x4', 'x4.m8n8')}")
    report, out, _ = launch(text)
    assert report.findings == []
    assert np.array_equal(out, load_rows(ldmatrix(4), IMAGE.view(np.uint8).reshape(32, 16)))


@pytest.mark.parametrize("count", [1, 2])
def test_bytes_are_transposed_as_the_map_says(count: int) -> None:
    registers = 2 * count
    body = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {listed('r', registers)}, [%a];"
    report, out, _ = launch(kernel(f"{FILL} {SYNC} {body}", target="sm_100a"), arch="sm_100a")
    transfer = ldmatrix(count, transposed=True, shape="m16n16", bits=8)
    assert report.findings == []
    expected = load_rows(transfer, IMAGE.view(np.uint8).reshape(32, 16)[: transfer.rows])
    assert np.array_equal(out[:, :registers], expected)


def test_stored_bytes_are_transposed_as_the_map_says() -> None:
    body = "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%a], {%w0, %w1, %w2, %w3};"
    report, _, after = launch(kernel(f"{body} {SYNC} {KEEP}", target="sm_100a"), arch="sm_100a")
    assert report.findings == []
    expected = store_rows(stmatrix(4, transposed=True, shape="m16n8", bits=8), WORDS)
    assert np.array_equal(after, expected.reshape(-1))


def test_generic_addresses_in_shared_memory_are_rows() -> None:
    body = f"""{FILL} {SYNC} cvt.u64.u32 %g, %a; cvta.shared.u64 %g, %g;
        {LOAD.replace(".shared", "").replace("%a", "%g")}"""
    report, out, _ = launch(kernel(body))
    assert report.findings == []
    assert np.array_equal(out, load_rows(ldmatrix(4), IMAGE.view(np.uint8).reshape(32, 16)))


def test_a_generic_address_outside_shared_memory_is_found() -> None:
    body = f"mov.u64 %g, %d0; {LOAD.replace('.shared', '').replace('%a', '%g')}"
    report, _, _ = launch(kernel(body))
    only(report.findings, FindingKind.OUT_OF_BOUNDS, r"ldmatrix\S* reads global memory.*only shared")


@pytest.mark.parametrize("body", [f"{FILL} {SYNC} {LOAD}", STORE])
def test_a_misaligned_row_is_found_and_the_others_are_right(body: str) -> None:
    shifted = f"setp.eq.u32 %p1, %t, 9; @%p1 add.u32 %a, %a, 8; {body}"
    report, out, _ = launch(kernel(shifted))
    finding = only(report.findings, FindingKind.MISALIGNED, "16 bytes at an address that is not a multiple of 16")
    assert [thread.thread for thread in finding.threads] == [(9, 0, 0)]
    if body.endswith(LOAD):
        expected = load_rows(ldmatrix(4), IMAGE.view(np.uint8).reshape(32, 16))
        expected[4:8, 1] = 0  # row 9 is row 1 of matrix 1, in lanes 4 to 7
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("body", [f"{FILL} {SYNC} {LOAD}", STORE])
def test_a_row_past_the_end_of_shared_memory_is_found(body: str) -> None:
    rows = PLAIN.copy()
    rows[20] = 32
    report, _, _ = launch(kernel(body), rows)
    finding = only(report.findings, FindingKind.OUT_OF_BOUNDS, "shared memory outside the 512 bytes")
    assert [thread.thread for thread in finding.threads] == [(20, 0, 0)]


def test_rows_that_no_matrix_needs_may_point_anywhere() -> None:
    rows = PLAIN.copy()
    rows[8:] = 1 << 20
    body = f"{FILL} {SYNC} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r0}}, [%a];"
    report, _, _ = launch(kernel(body), rows)
    assert report.findings == []


def test_an_address_that_nothing_wrote_is_found() -> None:
    report, _, _ = launch(kernel(f"{FILL} {SYNC} {LOAD.replace('%a', '%u')}"))
    only(report.findings, FindingKind.UNINITIALISED, "decides the address that ldmatrix")


def test_a_row_that_nothing_wrote_taints_its_elements_only() -> None:
    body = f"setp.ne.u32 %p1, %t, 9; @%p1 {FILL} {SYNC} {LOAD}"
    report, _, _ = launch(kernel(body))
    finding = only(report.findings, FindingKind.UNINITIALISED, "into global memory")
    assert [thread.thread[0] for thread in finding.threads] == [4, 5, 6, 7]
    silent, _, _ = launch(kernel(f"{body} mov.u32 %r1, 0;"))
    assert silent.findings == []


def test_registers_that_nothing_wrote_stay_so_in_memory_and_through_movmatrix() -> None:
    report, _, _ = launch(kernel(f"{STORE.replace('%w2', '%u')} {SYNC} {KEEP}"))
    finding = only(report.findings, FindingKind.UNINITIALISED, "into global memory")
    assert [thread.thread[0] for thread in finding.threads] == list(range(16, 24))
    body = "setp.eq.u32 %p1, %t, 4; @!%p1 mov.u32 %u, 0; movmatrix.sync.aligned.m8n8.trans.b16 %r0, %u;"
    report, _, _ = launch(kernel(body))  # lane 4 holds row 1, columns 0 and 1: column 1, rows 0 and 1 of the transpose
    finding = only(report.findings, FindingKind.UNINITIALISED, "into global memory")
    assert [thread.thread[0] for thread in finding.threads] == [0, 4]


ALL = [LOAD, STORE, "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %w0;", "wgmma.fence.sync.aligned;"]


@pytest.mark.parametrize("body", ALL)
@on_all_schedules
def test_lanes_that_stay_away_are_found(body: str, schedule: str, seed: int) -> None:
    report, _, _ = launch(kernel(f"{FILL} {SYNC} @%p0 {body} bar.sync 0;"), schedule=schedule, seed=seed)
    finding = only(report.findings, FindingKind.DIVERGENCE, "waits for threads of its warp that never come")
    assert finding.count == 16
    report, _, _ = launch(kernel(f"{FILL} {SYNC} @%p0 {body}"), schedule=schedule, seed=seed)
    finding = only(report.findings, FindingKind.DIVERGENCE, "without all threads of the warp: some have exited")
    assert finding.count == 16


@pytest.mark.parametrize("body", ALL)
@on_all_schedules
def test_lanes_that_exited_are_found(body: str, schedule: str, seed: int) -> None:
    leave = "setp.eq.u32 %p1, %t, 3; @%p1 exit;"
    report, _, _ = launch(kernel(f"{FILL} {SYNC} {leave} {body}"), schedule=schedule, seed=seed)
    finding = only(report.findings, FindingKind.DIVERGENCE, "without all threads of the warp: some have exited")
    assert finding.count == 31


def test_a_warp_of_half_the_lanes_is_found() -> None:
    report, _, _ = launch(kernel(f"{FILL} {SYNC} {LOAD}"), threads=16)
    only(report.findings, FindingKind.DIVERGENCE, "have exited or do not exist")


MEET_LATE = "@%p0 bra OTHER; add.u32 %u, %t, 1; bra MEET; OTHER: add.u32 %u, %t, 2; MEET:"


@on_all_schedules
def test_lanes_that_come_one_group_after_the_other_meet(schedule: str, seed: int) -> None:
    report, out, _ = launch(kernel(f"{FILL} {SYNC} {MEET_LATE} {LOAD}"), schedule=schedule, seed=seed)
    assert report.findings == []
    assert np.array_equal(out, load_rows(ldmatrix(4), IMAGE.view(np.uint8).reshape(32, 16)))


# Two accesses of one warp to the same rows, of which one writes. `[%s]` is the lane's own row.
PAIRS = {
    "store, then matrix load": (FILL, LOAD),
    "matrix store, then load": (STORE, "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%s];"),
    "matrix store, then matrix load": (STORE, LOAD),
    "matrix load, then store": (f"{FILL} {SYNC} {LOAD}", FILL),
    "matrix load, then matrix store": (f"{FILL} {SYNC} {LOAD}", STORE),
    "load, then matrix store": (f"{FILL} {SYNC} {KEEP}", STORE),
    "matrix store, then store": (STORE, FILL),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:2])
def test_matrix_accesses_race_unless_the_warp_synchronises(pair: str, schedule: str, seed: int) -> None:
    first, second = PAIRS[pair]
    wrong, _, _ = launch(kernel(f"{first} {second}"), schedule=schedule, seed=seed)
    only(wrong.findings, FindingKind.RACE, "shared memory that another thread")
    right, _, _ = launch(kernel(f"{first} {SYNC} {second}"), schedule=schedule, seed=seed)
    assert right.findings == []


def test_matrix_loads_of_the_same_rows_do_not_race() -> None:
    rows = PLAIN % 3
    report, _, _ = launch(kernel(f"{FILL} {SYNC} {LOAD} {LOAD}"), rows.astype(np.uint32))
    assert report.findings == []


def test_rows_of_one_matrix_store_at_one_address_race() -> None:
    rows = PLAIN.copy()
    rows[1] = 0
    report, _, _ = launch(kernel(STORE), rows)
    finding = only(report.findings, FindingKind.RACE, "different values to one address by one stmatrix")
    assert [thread.thread[0] for thread in finding.threads] == [0, 1]
