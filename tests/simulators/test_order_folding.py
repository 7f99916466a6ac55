"""Blocks in lock step share one shadow of shared memory until they part: findings are as if each had its own."""

from typing import Any

import pytest
from both_engines import agree, kernel

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.order import compiled_order as core

BLOCKS, THREADS = 4, 64
#: From the second barrier on the shadow is folded. %r6 is the thread's place, %r9 that of its mirror image in the
#: block, %r10 a place of all, %p1 holds in block 2 alone, %p2 in the first warps, %p4 for one thread.
PROLOGUE = """
    xor.b32 %r9, %r1, 63; mad.lo.u32 %r9, %r9, 16, %r5; add.u32 %r10, %r5, 4096;
    xor.b32 %r11, %r1, 1; mad.lo.u32 %r11, %r11, 16, %r5;
    setp.eq.u32 %p1, %r2, 2; setp.lt.u32 %p2, %r1, 32; setp.eq.u32 %p3, %r1, 0; and.pred %p4, %p1, %p3;
    mov.u32 %r12, %r6; @%p1 mov.u32 %r12, %r9;
    st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r8, [%r9]; bar.sync 0;
"""
# name: (what follows; lanes of its finding, and whether block 2 alone has it)
WRONG: dict[str, tuple[str, int, bool]] = {
    "all blocks read too early": (
        "st.shared.u32 [%r6], %r1;\n ld.shared.u32 %r8, [%r9];", BLOCKS * THREADS, False,
    ),
    "one block reads too early": (
        "st.shared.u32 [%r6], %r1;\n @%p1 ld.shared.u32 %r8, [%r9];", THREADS, True,
    ),
    "one block writes too early": (
        "ld.shared.u32 %r8, [%r9];\n @%p1 st.shared.u32 [%r6], %r1;", THREADS, True,
    ),
    "one block reads elsewhere": (
        "st.shared.u32 [%r6], %r1;\n ld.shared.u32 %r8, [%r12];", THREADS, True,
    ),
    "one block writes elsewhere": (
        "st.shared.u32 [%r6], %r1;\n st.shared.u32 [%r12], %r1;", THREADS, True,
    ),
    "a place that all read": (
        "@%p3 st.shared.u32 [%r10], %r1; bar.sync 0;\n ld.shared.u32 %r8, [%r10];\n"
        "@%p4 st.shared.u32 [%r10], %r1;", 1, True,
    ),
    "some threads of each block": (
        "st.shared.u32 [%r6], %r1;\n @%p2 ld.shared.u32 %r8, [%r9];", BLOCKS * 32, False,
    ),
    "an atomic after stores": (
        "st.shared.u32 [%r6], %r1;\n @%p1 atom.shared.add.u32 %r8, [%r9], 1;", THREADS, True,
    ),
    "lanes of a warp": (
        "st.shared.u32 [%r6], %r1;\n ld.shared.u32 %r8, [%r11];", BLOCKS * THREADS, False,
    ),
    "all blocks but one read too early": (
        "st.shared.u32 [%r6], %r1;\n @%p1 bar.sync 0;\n ld.shared.u32 %r8, [%r9];", (BLOCKS - 1) * THREADS, False,
    ),
}  # fmt: skip
RIGHT: dict[str, str] = {
    "barriers between": "st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r8, [%r9];",
    "one block does more": (
        "st.shared.u32 [%r6], %r1;\n @%p1 ld.shared.u32 %r8, [%r6];\n bar.sync 0; @%p1 ld.shared.u32 %r8, [%r9];"
    ),
    "one block goes elsewhere": "st.shared.u32 [%r12], %r1; bar.sync 0; ld.shared.u32 %r8, [%r9];",
    "one block hands on": (
        "st.shared.u32 [%r6], %r1;\n @%p1 red.release.cta.global.add.u32 [%d0], 1;\n"
        "@%p1 ld.acquire.cta.global.u32 %r8, [%d0];\n @%p1 ld.shared.u32 %r8, [%r9];"
    ),
    "one block meets": "st.shared.u32 [%r6], %r1;\n @%p1 bar.sync 0;\n @%p1 ld.shared.u32 %r8, [%r9];",
    "warps meet": "st.shared.u32 [%r6], %r1; bar.warp.sync -1; ld.shared.u32 %r8, [%r11];",
    "half of the warps meet": "st.shared.u32 [%r6], %r1; @%p2 bar.warp.sync -1; @%p2 ld.shared.u32 %r8, [%r11];",
}


#: With accesses of 16 bytes alone, two blocks share a line: a block's memory is a multiple of 64 bytes, lines have 256.
WIDE_STORE, WIDE_LOAD = (
    "st.shared.v4.u32 [%r6], {%r1, %r1, %r1, %r1};",
    "ld.shared.v4.u32 {%r8, %r13, %r14, %r15}, [%r9];",
)
WIDE = PROLOGUE.replace("st.shared.u32 [%r6], %r1;", WIDE_STORE).replace("ld.shared.u32 %r8, [%r9];", WIDE_LOAD)
#: Every line of 16 bytes is touched in part: with more than the tables have room for, once each block has its own.
SCATTERED = "".join(f"st.shared.u8 [%r6+{offset}], %r1;\n" for offset in range(0, 8192, 1024))


@pytest.mark.parametrize("name", WRONG)
def test_a_race_after_blocks_did_the_same_is_found_in_the_blocks_that_have_it(name: str) -> None:
    body, lanes, alone = WRONG[name]
    report = agree(kernel(PROLOGUE + body), threads=THREADS, blocks=BLOCKS)
    (finding,) = report.findings
    assert finding.kind is FindingKind.RACE
    assert finding.count == lanes
    assert not alone or {thread.block for thread in finding.threads} == {(2, 0, 0)}


@pytest.mark.parametrize(
    "body", [f"{WIDE}{WIDE_STORE}\n @%p1 {WIDE_LOAD}", f"{PROLOGUE}{SCATTERED} @%p1 ld.shared.u8 %r8, [%r9];"]
)
def test_so_is_one_after_wide_accesses_and_after_scattered_ones(body: str) -> None:
    (finding,) = agree(kernel(body), threads=THREADS, blocks=BLOCKS).findings
    assert finding.count == THREADS
    assert {thread.block for thread in finding.threads} == {(2, 0, 0)}


def test_wide_and_scattered_accesses_that_are_right_stay_so() -> None:
    mirrored = SCATTERED.replace("%r6", "%r9").replace("st.shared.u8", "ld.shared.u8").replace("], %r1", "]")
    mirrored = mirrored.replace("ld.shared.u8 ", "ld.shared.u8 %r8, ")
    for body in (
        f"{WIDE}{WIDE_STORE} bar.sync 0; @%p1 {WIDE_LOAD}",
        f"{PROLOGUE}{SCATTERED} bar.sync 0; @%p1 {mirrored}",
    ):
        assert not agree(kernel(body), threads=THREADS, blocks=BLOCKS).findings


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_stays_so(name: str) -> None:
    assert not agree(kernel(PROLOGUE + RIGHT[name]), threads=THREADS, blocks=BLOCKS).findings


@pytest.mark.parametrize("name", ["one block reads too early", "all blocks read too early"])
def test_the_shadow_was_folded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records, unfold = [], core.unfold

    def watched(*args: Any) -> bool:
        records.append(int(args[4][core.NEXT_RECORD]) - 1)
        return bool(unfold(*args))

    monkeypatch.setattr(core, "unfold", watched)
    agree(kernel(PROLOGUE + WRONG[name][0]), threads=THREADS, blocks=BLOCKS)
    assert records
    assert THREADS // 32 <= records[0] < BLOCKS * THREADS // 32, "one for each warp of the first block"
