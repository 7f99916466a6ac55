"""Atomics: every operation against Python integers, one lane after the other, in memory of either kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import Finding

SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(5)]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
MASK = {4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}


def launch(
    body: str, x: NDArray[Any], cells: NDArray[Any], schedule: str = "friendly", seed: int = 0, *, threads: int = 96
) -> tuple[list[Finding], NDArray[Any], NDArray[Any]]:
    """Run a kernel: %d4 = x[thread], %d5 = &cells[0], %d6 = &old[thread], %p0 is thread 0; cells and old afterwards."""
    size = x.itemsize
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 s[64];
.visible .entry k(.param .u64 x, .param .u64 cells, .param .u64 old)
{{
    .reg .pred %p<4>;
    .reg .f32 %f<4>;
    .reg .b32 %r<8>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d5, [cells];
    ld.param.u64 %d6, [old];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d1, %r0, {size};
    add.s64 %d0, %d0, %d1;
    add.s64 %d6, %d6, %d1;
    ld.global.u{8 * size} %d4, [%d0];
    cvt.u32.u64 %r4, %d4;
    mov.b32 %f4, %r4;
    setp.eq.u32 %p0, %r0, 0;
    {body}
}}
""".replace(".reg .f32 %f<4>", ".reg .f32 %f<8>")
    device = Device(schedule=schedule, seed=seed)
    held, old = device.upload(cells), device.upload(np.zeros_like(x))
    report = device.load_ptx(text)["k"].launch(
        grid=(1, 1, 1), block=(threads, 1, 1), args=(device.upload(x), held, old)
    )
    return report.findings, held.download(), old.download()


def signed(value: int, size: int) -> int:
    return value - (MASK[size] + 1) if value > MASK[size] >> 1 else value


OPERATIONS: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "add.u32": (4, lambda old, x: old + x),
    "add.s32": (4, lambda old, x: old + x),
    "add.u64": (8, lambda old, x: old + x),
    "min.u32": (4, min),
    "max.u64": (8, max),
    "min.s32": (4, lambda old, x: min(old, x, key=lambda value: signed(value, 4))),
    "max.s64": (8, lambda old, x: max(old, x, key=lambda value: signed(value, 8))),
    "and.b32": (4, lambda old, x: old & x),
    "or.b64": (8, lambda old, x: old | x),
    "xor.b32": (4, lambda old, x: old ^ x),
    "exch.b32": (4, lambda old, x: x),
    "exch.b64": (8, lambda old, x: x),
    "inc.u32": (4, lambda old, x: 0 if old >= x else old + 1),
    "dec.u32": (4, lambda old, x: x if old == 0 or old > x else old - 1),
}


def in_turns(
    size: int, function: Callable[[int, int], int], start: int, operands: NDArray[Any]
) -> tuple[int, list[int]]:
    """One lane after the other, ascending: the last value, and what each lane got back."""
    value, before = start, []
    for operand in operands.tolist():
        before.append(value)
        value = function(value, operand) & MASK[size]
    return value, before


@pytest.mark.parametrize("crowd", [5, 96], ids=["few lanes", "crowded"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_lanes_of_one_address_take_turns_and_get_the_old_values(name: str, crowd: int) -> None:
    size, function = OPERATIONS[name]
    dtype = np.dtype(f"u{size}")
    bound = 40 if name[:3] in ("inc", "dec") else MASK[size] + 1
    x = np.random.default_rng(size).integers(0, bound, 96, dtype)
    start = 7 if bound == 40 else int(x[0]) ^ 5
    operand = "%r4" if size == 4 else "%d4"
    result = operand
    store = f"st.global.u{8 * size} [%d6], {result};"
    body = f"setp.lt.u32 %p1, %r0, {crowd}; @!%p1 ret; atom.global.{name} {result}, [%d5], {operand}; {store} ret;"
    findings, cells, old = launch(body, x, np.array([start, 9], dtype))
    last, before = in_turns(size, function, start, x[:crowd])
    assert findings == []
    assert cells.tolist() == [last, 9]
    assert old[:crowd].tolist() == before


@pytest.mark.parametrize("crowd", [5, 96], ids=["few lanes", "crowded"])
def test_compare_and_swap_succeeds_and_fails_in_turns(crowd: int) -> None:
    x = np.random.default_rng(9).integers(0, 4, 96, np.uint32)
    body = f"""
        setp.lt.u32 %p1, %r0, {crowd};
        @!%p1 ret;
        and.b32 %r5, %r0, 1;
        mul.wide.u32 %d7, %r5, 4;
        add.s64 %d5, %d5, %d7;
        add.u32 %r1, %r4, 1;
        and.b32 %r1, %r1, 3;
        atom.global.cas.b32 %r2, [%d5], %r4, %r1;
        st.global.u32 [%d6], %r2;
        ret;"""
    findings, cells, old = launch(body, x, np.array([1, 2], np.uint32))
    assert findings == []
    for cell in (0, 1):
        value = cell + 1
        for thread in range(cell, crowd, 2):
            assert old[thread] == value
            value = (value + 1) & 3 if value == x[thread] else value
        assert cells[cell] == value


@on_all_schedules
@pytest.mark.parametrize("name", ["add.u32", "min.s32", "xor.b32", "and.b32", "inc.u32"])
def test_reductions_in_shared_memory_over_several_cells(name: str, schedule: str, seed: int) -> None:
    size, function = OPERATIONS[name]
    x = np.random.default_rng(1).integers(0, 2**32, 96, np.uint32)
    body = f"""
        and.b32 %r1, %r0, 3;
        mov.u32 %r2, s;
        mad.lo.u32 %r2, %r1, 4, %r2;
        setp.lt.u32 %p1, %r0, 4;
        @%p1 st.shared.u32 [%r2], 6;
        bar.sync 0;
        red.shared.{name} [%r2], {"9" if name == "inc.u32" else "%r4"};
        bar.sync 0;
        @!%p1 ret;
        ld.shared.u32 %r3, [%r2];
        mul.wide.u32 %d7, %r0, 4;
        add.s64 %d7, %d7, %d5;
        st.global.u32 [%d7], %r3;
        ret;"""
    findings, cells, _ = launch(body, x, np.zeros(4, np.uint32), schedule, seed)
    assert findings == []
    operands = x if name != "inc.u32" else np.full_like(x, 9)
    assert cells.tolist() == [in_turns(size, function, 6, operands[cell::4])[0] for cell in range(4)]


@on_all_schedules
def test_compare_and_swap_builds_a_lock_free_sum(schedule: str, seed: int) -> None:
    x = np.random.default_rng(2).integers(0, 2**32, 96, np.uint32)
    body = """
        ld.relaxed.gpu.global.u32 %r1, [%d5];
    L:  add.u32 %r2, %r1, %r4;
        atom.relaxed.gpu.global.cas.b32 %r3, [%d5], %r1, %r2;
        setp.ne.u32 %p1, %r3, %r1;
        mov.u32 %r1, %r3;
        @%p1 bra L;
        ret;"""
    findings, cells, _ = launch(body, x, np.array([3], np.uint32), schedule, seed)
    assert findings == []
    assert cells[0] == (3 + int(x.sum(dtype=np.uint64))) & 0xFFFF_FFFF


@on_all_schedules
@pytest.mark.parametrize(
    "lane_work", ["", "mov.u32 %r2, %r0; W: sub.u32 %r2, %r2, 1; setp.gt.s32 %p2, %r2, 0; @%p2 bra W;"]
)
def test_a_spin_lock_lets_every_thread_in(lane_work: str, schedule: str, seed: int) -> None:
    body = f"""
        {lane_work}
    L:  atom.acquire.gpu.global.cas.b32 %r1, [%d5], 0, 1;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra L;
        ld.volatile.global.u32 %r3, [%d5+4];
        add.u32 %r3, %r3, %r4;
        st.volatile.global.u32 [%d5+4], %r3;
        st.release.gpu.global.u32 [%d5], 0;
        ret;"""
    x = np.arange(40, dtype=np.uint32) + 1
    findings, cells, _ = launch(body, x, np.zeros(2, np.uint32), schedule, seed, threads=40)
    assert findings == []
    assert cells.tolist() == [0, 820]


def float_add(space: str) -> str:
    address = "[%d5]" if space == "global" else "[s]"
    body = f"red.{space}.add.f32 {address}, %f4; ret;"
    if space == "shared":
        body = f"ld.global.u32 %r5, [%d5]; st.shared.u32 [s], %r5; {body[:-4]} ld.shared.u32 %r5, [s];"
        body += "st.global.u32 [%d5], %r5; ret;"
    return body


@pytest.mark.parametrize("space", ["global", "shared"])
def test_float_add_flushes_subnormals_in_global_memory_only(space: str) -> None:
    tiny = np.array([0x0000_0400], np.uint32)  # a subnormal
    findings, cells, _ = launch(float_add(space), tiny, np.array([0x0000_0300], np.uint32), threads=1)
    assert findings == []
    assert cells[0] == (0 if space == "global" else 0x0000_0700)
    findings, cells, _ = launch(float_add(space), tiny, np.array([0x8080_0000], np.uint32), threads=1)
    assert cells[0] == (0x8080_0000 if space == "global" else 0x807F_FC00)


def test_the_order_of_float_additions_is_the_schedules() -> None:
    x = np.array([2.0**24, 1.0, 1.0, -(2.0**24)] * 8, np.float32).view(np.uint32)
    results = set()
    for schedule, seed in [("friendly", 0), *[("adversarial", seed) for seed in range(10)]]:
        findings, cells, _ = launch(float_add("global"), x, np.zeros(1, np.uint32), schedule, seed, threads=32)
        assert findings == []
        results.add(float(cells.view(np.float32)[0]))
    assert len(results) > 2


def test_old_values_come_in_a_drawn_order_under_the_adversary() -> None:
    x = np.ones(32, np.uint32)
    body = "atom.global.add.u32 %r1, [%d5], %r4; st.global.u32 [%d6], %r1; ret;"
    orders = set()
    for schedule, seed in SCHEDULES:
        _, _, old = launch(body, x, np.zeros(1, np.uint32), schedule, seed, threads=32)
        assert sorted(old.tolist()) == list(range(32))
        orders.add(tuple(old.tolist()))
        if schedule == "friendly":
            assert old.tolist() == list(range(32))
    assert len(orders) == len(SCHEDULES)


def test_guarded_atomics_touch_memory_only_where_the_guard_holds() -> None:
    x = np.ones(96, np.uint32)
    findings, cells, _ = launch("@!%p0 red.global.add.u32 [%d5], %r4; ret;", x, np.zeros(1, np.uint32))
    assert findings == []
    assert cells[0] == 95


@pytest.mark.parametrize(
    "instruction",
    [
        "atom.global.add.s64 %d7, [%d5], %d4;",
        "atom.global.add.f16x2 %r1, [%d5], %r4;",
        "atom.global.add.noftz.f32 %f1, [%d5], %f4;",
        "atom.global.min.f32 %f1, [%d5], %f4;",
        "atom.global.exch.b16 %r1, [%d5], %r4;",
        "atom.global.min.noftz.f16x2 %r1, [%d5], %r4;",
        "red.shared.add.v2.f32 [%r1], {%f4, %f4};",
        "red.global.add.v8.f32 [%d5], {%f4, %f4};",
        "multimem.red.global.add.u32 [%d5], %r4;",
        "red.global.exch.b32 [%d5], %r4;",
        "red.async.relaxed.cluster.global.add.u32 [%d5], %r4;",
        "atom.local.add.u32 %r1, [%d5], %r4;",
    ],
)
def test_other_atomics_are_refused_by_name(instruction: str) -> None:
    opcode = instruction.split()[0]
    with pytest.raises(NotModelled, match=opcode.replace(".", r"\.") + r" at PTX line \d+"):
        launch(instruction + " ret;", np.zeros(32, np.uint32), np.zeros(1, np.uint32))
