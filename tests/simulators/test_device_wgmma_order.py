"""The order of `wgmma`: fences, groups and waits around its registers. Every rule has a wrong and a right kernel."""

import re
from typing import Any

import numpy as np
import pytest

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind, Report

C, E, A, B = (
    ", ".join(f"%{letter}{i}" for i in range(count)) for letter, count in (("c", 4), ("e", 4), ("a", 4), ("b", 4))
)
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
WAIT, WAIT_1 = "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"


def mma(d: str = C, a: str = "%da", n: int = 8) -> str:
    a = a if a.startswith("%d") else f"{{{a}}}"
    return f"wgmma.mma_async.sync.aligned.m64n{n}k32.f32.e4m3.e4m3 {{{d}}}, {a}, %db, 1, 1, 1;"


def store(register: str) -> str:
    return f"st.global.f32 [%out], {register};"


def kernel(body: str) -> str:
    """One warpgroup: shared memory and all registers zero, then the body. %first holds in the first three warps."""
    clear = "\n".join(f"mov.b32 {name}, 0;" for name in ", ".join((C, E, A, B)).split(", "))
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .shared .align 1024 .b8 memory[8192];
    .reg .pred %first, %more;
    .reg .b32 %t, %s, %i, {C}, {E}, {A}, {B};
    .reg .b64 %out, %x, %da, %db;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %x, %t, 4;
    add.s64 %out, %out, %x;
    setp.lt.u32 %first, %t, 96;
    mov.u32 %s, memory;
    shr.u32 %i, %s, 4;
    cvt.u64.u32 %da, %i;
    or.b64 %da, %da, {128 >> 4 << 16 | 256 >> 4 << 32};
    add.s64 %db, %da, {4096 >> 4};
    mad.lo.u32 %s, %t, 64, %s;
    {clear}
    st.shared.v4.u32 [%s], {{{A}}};
    st.shared.v4.u32 [%s+16], {{{A}}};
    st.shared.v4.u32 [%s+32], {{{A}}};
    st.shared.v4.u32 [%s+48], {{{A}}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    {body}
}}
"""


def run(body: str, schedule: str = "friendly", seed: int = 0, **options: Any) -> Report:
    device = Device(schedule=schedule, seed=seed, **options)
    out = device.upload(np.zeros(128, np.float32))
    return device.load_ptx(kernel(body))["k"].launch(grid=(1, 1, 1), block=(128, 1, 1), args=(out,))


#: Without checks of the order of memory, `wgmma` itself is issued by machine code.
ENGINES: list[dict[str, Any]] = [{}, {"order": False}, {"engine": "reference"}]
SCHEDULES = [("friendly", 0), *[("adversarial", seed) for seed in range(3)]]
on_all_schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

DONE = f"{COMMIT} {WAIT} {store('%c0')}"
MISSING = r"wgmma\.mma_async\S* uses registers that were accessed since the last wgmma.fence: one is missing"
BUSY = r"that wgmma\.mma_async\S* at PTX line \d+ may still use: no wgmma.wait_group between covers it"
WRITES_C, WRITES_A = "add.u32 %c1, %t, 0;", "add.u32 %a1, %t, 0;"

#: Rule: wrong body, right body, what the finding says.
RULES = {
    "a fence stands before the first": (f"{mma()} {DONE}", f"{FENCE} {mma()} {DONE}", MISSING),
    "a fence stands after a write of an accumulator": (
        f"{FENCE} {mma()} {COMMIT} {WAIT} {WRITES_C} {mma()} {DONE}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} {WRITES_C} {FENCE} {mma()} {DONE}",
        MISSING,
    ),
    "a fence stands after a read of an accumulator": (
        f"{FENCE} {mma()} {COMMIT} {WAIT} {store('%c2')} {mma()} {DONE}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} {store('%c2')} {FENCE} {mma()} {DONE}",
        MISSING,
    ),
    "a fence stands after a write of A": (
        f"{FENCE} {WRITES_A} {mma(a=A)} {DONE}",
        f"{WRITES_A} {FENCE} {mma(a=A)} {DONE}",
        MISSING,
    ),
    "another shape needs a fence": (
        f"{FENCE} {mma()} {COMMIT} {WAIT} {mma(f'{C}, {E}', n=16)} {DONE}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} {FENCE} {mma(f'{C}, {E}', n=16)} {DONE}",
        MISSING,
    ),
    "another shape needs a wait": (
        f"{FENCE} {mma()} {COMMIT} {FENCE} {mma(f'{C}, {E}', n=16)} {DONE}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} {FENCE} {mma(f'{C}, {E}', n=16)} {DONE}",
        f"accumulates in registers {BUSY}",
    ),
    "the same shape goes on behind a fence without a wait, and another one does not": (
        f"{FENCE} {mma()} {COMMIT} {FENCE} {mma()} {COMMIT} {FENCE} {mma(f'{C}, {E}', n=16)} {DONE}",
        f"{FENCE} {mma()} {COMMIT} {FENCE} {mma()} {COMMIT} {WAIT_1} {FENCE} {mma()} {DONE}",
        f"accumulates in registers {BUSY}",
    ),
    "an accumulator is read after the wait": (
        f"{FENCE} {mma()} {COMMIT} {store('%c0')} {WAIT}",
        f"{FENCE} {mma()} {DONE}",
        rf"st\.global\S* reads a register {BUSY}",
    ),
    "an accumulator is written after the wait": (
        f"{FENCE} {mma()} {COMMIT} {WRITES_C} {WAIT}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} {WRITES_C}",
        rf"add\S* writes a register {BUSY}",
    ),
    "a wait covers what was committed": (
        f"{FENCE} {mma()} {WAIT} {store('%c0')} {COMMIT}",
        f"{FENCE} {mma()} {DONE}",
        rf"st\.global\S* reads a register {BUSY}",
    ),
    "a wait that leaves one group open covers the ones before": (
        f"{FENCE} {mma()} {COMMIT} {mma(E)} {COMMIT} {WAIT_1} {store('%e0')} {WAIT}",
        f"{FENCE} {mma()} {COMMIT} {mma(E)} {COMMIT} {WAIT_1} {store('%c0')} {WAIT} {store('%e0')}",
        rf"st\.global\S* reads a register {BUSY}",
    ),
    "A is not overwritten before the wait": (
        f"{FENCE} {mma(a=A)} {COMMIT} {WRITES_A} {WAIT}",
        f"{FENCE} {mma(a=A)} {COMMIT} {WAIT} {WRITES_A}",
        rf"add\S* writes a register {BUSY}",
    ),
    "A is not read before the wait": (
        f"{FENCE} {mma(a=A)} {COMMIT} {store('%a0')} {WAIT}",
        f"{FENCE} {mma(a=A)} {COMMIT} {WAIT} {store('%a0')}",
        rf"st\.global\S* reads a register {BUSY}",
    ),
    "results are not A of the next before the wait": (
        f"{FENCE} {mma()} {COMMIT} {FENCE} {mma(E, a=C)} {COMMIT} {WAIT}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} {FENCE} {mma(E, a=C)} {COMMIT} {WAIT}",
        f"reads A from registers {BUSY}",
    ),
    "A is no accumulator of the next before the wait": (
        f"{FENCE} {mma(a=A)} {COMMIT} {FENCE} {mma(A)} {COMMIT} {WAIT}",
        f"{FENCE} {mma(a=A)} {COMMIT} {WAIT} {FENCE} {mma(A)} {COMMIT} {WAIT}",
        f"accumulates in registers {BUSY}",
    ),
    "a wgmma is committed before the end": (
        f"{FENCE} {mma()}",
        f"{FENCE} {mma()} {COMMIT}",
        r"threads exit without a wgmma\.commit_group for their wgmma\.mma_async",
    ),
    "a constant is moved in after the wait": (
        f"{FENCE} {mma()} {COMMIT} mov.b32 %c3, 0; {WAIT}",
        f"{FENCE} {mma()} {COMMIT} {WAIT} mov.b32 %c3, 0;",
        rf"mov\S* writes a register {BUSY}",
    ),
    "a renamed accumulator is read after the wait": (
        f"{FENCE} {mma()} {COMMIT} mov.b32 %b0, %c0; {store('%b0')} {WAIT}",
        f"{FENCE} {mma()} {COMMIT} mov.b32 %b0, %c0; {WAIT} {store('%b0')}",
        rf"st\.global\S* reads a register {BUSY}",
    ),
}


@pytest.mark.parametrize("rule", RULES)
@on_all_schedules
def test_what_breaks_a_rule_is_found(rule: str, schedule: str, seed: int) -> None:
    wrong, _, words = RULES[rule]
    report, *others = (run(wrong, schedule, seed, **options) for options in ENGINES)
    assert [finding.kind for finding in report.findings] == [FindingKind.ASYNC], report.findings
    assert re.search(words, report.findings[0].message), report.findings[0].message
    assert report.findings[0].count == 128
    assert all(other.findings == report.findings for other in others)


@pytest.mark.parametrize("rule", RULES)
@on_all_schedules
def test_what_keeps_a_rule_is_silent(rule: str, schedule: str, seed: int) -> None:
    assert all(run(RULES[rule][1], schedule, seed, **options).findings == [] for options in ENGINES)


LATE = "st.shared.u32 [%s], %t;"
#: A thread's own store over an operand: what is wrong, and what the finding says.
OVERWRITTEN = {
    "before the wait": (f"{COMMIT} {LATE} {WAIT}", "its thread has not waited for group 0"),
    "after the wait for the group before": (
        f"{COMMIT} {mma(E)} {COMMIT} {WAIT_1} {LATE} {WAIT}",
        "the wait covers groups below 1, this is 1",
    ),
}


@pytest.mark.parametrize("when", OVERWRITTEN)
@on_all_schedules
def test_an_operand_that_is_overwritten_early_is_found(when: str, schedule: str, seed: int) -> None:
    body, words = OVERWRITTEN[when]
    report = run(f"{FENCE} {mma()} {body}", schedule, seed)
    assert [finding.kind for finding in report.findings] == [FindingKind.RACE]
    assert words in report.findings[0].message


@on_all_schedules
def test_an_operand_may_be_overwritten_after_the_wait(schedule: str, seed: int) -> None:
    assert run(f"{FENCE} {mma()} {COMMIT} {WAIT} {LATE}", schedule, seed).findings == []


@on_all_schedules
def test_an_operand_needs_a_proxy_fence(schedule: str, seed: int) -> None:
    device = Device(schedule=schedule, seed=seed)
    text = kernel(f"{FENCE} {mma()} {DONE}").replace("fence.proxy.async.shared::cta;", "")
    out = device.upload(np.zeros(128, np.float32))
    report = device.load_ptx(text)["k"].launch(grid=(1, 1, 1), block=(128, 1, 1), args=(out,))
    assert {finding.kind for finding in report.findings} == {FindingKind.RACE}
    assert all("no proxy fence stands between" in finding.message for finding in report.findings)


@on_all_schedules
def test_a_chain_of_one_shape_needs_one_fence_and_one_wait(schedule: str, seed: int) -> None:
    assert run(f"{FENCE} {mma()} {mma()} {COMMIT} {mma()} {mma(a=A)} {DONE}", schedule, seed).findings == []


@on_all_schedules
def test_every_warp_needs_its_own_fence(schedule: str, seed: int) -> None:
    report = run(f"@!%first bra ON; {FENCE} ON: {mma()} {DONE}", schedule, seed)
    assert [finding.kind for finding in report.findings] == [FindingKind.ASYNC]
    assert re.search(MISSING, report.findings[0].message)
    assert report.findings[0].count == 32
    assert report.findings[0].threads[0].thread == (96, 0, 0)


@on_all_schedules
def test_accumulators_renamed_around_a_loop_are_silent(schedule: str, seed: int) -> None:
    """As compilers write it: the accumulators of one turn are moved to those of the next while they are in flight."""
    moves = [f"mov.b32 %c{i}, %e{i};" for i in range(4)], [f"mov.b32 %e{i}, %c{i};" for i in range(4)]
    loop = f"""
    mov.u32 %i, 0; {FENCE}
    LOOP: {" ".join(moves[1])} {mma(E)} {COMMIT} {" ".join(moves[0])}
    add.u32 %i, %i, 1; setp.lt.u32 %more, %i, 4; @%more bra LOOP;
    {WAIT} {store("%e0")} {store("%c0")}"""
    assert run(loop, schedule, seed).findings == []


@pytest.mark.parametrize("wrong", [f"{WAIT[:-2]}%t;", f"{WAIT[:-2]}-1;"])
def test_a_wait_for_no_number_of_groups_is_refused(wrong: str) -> None:
    with pytest.raises(NotModelled, match=r"wgmma\.wait_group\S* at PTX line"):
        run(f"{FENCE} {mma()} {COMMIT} {wrong}")
