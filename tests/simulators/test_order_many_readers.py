"""However many accesses of one place in global memory come before, one that races with a later one is found."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from both_engines import agree, kernel

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.order import compiled_order as core

#: %p0 holds for the first thread, %p1 in the first half of 32 warps, %p3 for the first thread of every warp.
_HALVES = """
    setp.lt.u32 %p1, %r1, 512; and.b32 %r9, %r1, 31; setp.eq.u32 %p3, %r9, 0; setp.eq.u32 %p0, %r1, 0;
    @%p0 st.global.u32 [%d1], %r1; bar.sync 0;
"""
_READS_OF_SECOND_HALF = "not.pred %p4, %p1; and.pred %p4, %p4, %p3; @%p4 ld.global.u32 %r10, [%d1];"
#: By another thread of each warp, since a warp's last reads stand for its earlier ones.
_READS_OF_FIRST_HALF = "".join(
    f"setp.eq.u32 %p2, %r9, {lane}; and.pred %p2, %p2, %p1; @%p2 ld.global.u32 %r10, [%d1];\n"
    for lane in range(core.LONGEST_CHAIN // 16 + 2)
)
_WRITE = "@!%p1 bra DONE; bar.sync 1, 512; @%p0 st.global.u32 [%d1], %r1;\nDONE:"
#: %p1 holds for a thread of the first block, %p2 for one of the sixth.
_BLOCKS = """
    setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r2, 0; and.pred %p1, %p1, %p0; setp.eq.u32 %p2, %r2, 5;
    and.pred %p2, %p2, %p0;
"""
_STRONG = "ld.relaxed.gpu.global.u32 %r10, [%d0];"
_WEAK = "@%p1 ld.global.u32 %r10, [%d0];"
_STRONG_WRITE = "@%p2 st.relaxed.gpu.global.u32 [%d0], %r1;"

one_block = partial(agree, threads=1024, blocks=1)
many_blocks = partial(agree, threads=32, blocks=core.LONGEST_CHAIN + 36)


def test_a_half_of_a_block_that_does_not_meet_the_writer_races_with_it() -> None:
    report = one_block(kernel(_HALVES + _READS_OF_SECOND_HALF + _READS_OF_FIRST_HALF + _WRITE))
    (finding,) = report.findings
    assert (finding.kind, finding.count) == (FindingKind.RACE, 1)


def test_a_half_of_a_block_that_reads_nothing_does_not() -> None:
    assert not one_block(kernel(_HALVES + _READS_OF_FIRST_HALF + _WRITE)).findings


@pytest.mark.parametrize("readers", ["", _STRONG, 3 * _STRONG])
def test_a_weak_read_among_strong_ones_of_other_blocks_races_with_a_strong_write(readers: str) -> None:
    (finding,) = many_blocks(kernel(_BLOCKS + _WEAK + readers + _STRONG_WRITE)).findings
    assert (finding.kind, finding.count) == (FindingKind.RACE, 1)


def test_strong_reads_alone_do_not() -> None:
    assert not many_blocks(kernel(_BLOCKS + 3 * _STRONG + _STRONG_WRITE)).findings


def test_a_read_of_block_scope_among_those_of_a_larger_one_races_with_a_strong_write() -> None:
    narrow = "@%p1 ld.relaxed.cta.global.u32 %r10, [%d0];"
    (finding,) = many_blocks(kernel(_BLOCKS + narrow + _STRONG + _STRONG_WRITE)).findings
    assert finding.count == 1


TOLD = "is checked against the last"
#: The last block, by a count and fences, writes what a thread of every block has read.
_LAST_BLOCK = """
    setp.eq.u32 %p0, %r1, 0; mov.u32 %r9, 1; ld.global.u32 %r10, [%d0]; bar.sync 0; @!%p0 bra DONE;
    fence.acq_rel.gpu; atom.global.add.u32 %r11, [%d1], %r9; setp.ne.u32 %p1, %r11, LAST; @%p1 bra DONE;
    fence.acq_rel.gpu; st.global.u32 [%d0], %r1;
DONE:
"""


def _zeros(device: Device) -> Sequence[Any]:
    return device.upload(np.zeros(64, np.uint8)), device.upload(np.zeros(64, np.uint8)), np.uint32(7)


@pytest.mark.parametrize(
    ("blocks", "left_out"), [(core.LONGEST_KNOWN_CHAIN // 2, 0), (core.LONGEST_KNOWN_CHAIN + 2, 1)]
)
def test_accesses_that_are_too_many_to_be_kept_are_told(blocks: int, left_out: int) -> None:
    text = kernel(_LAST_BLOCK.replace("LAST", str(blocks - 1)))
    report = agree(text, threads=32, blocks=blocks, prepare=_zeros)
    assert not report.findings
    assert [note.count for note in report.notes if TOLD in note.message] == [1] * left_out


def test_blocks_that_nothing_orders_leave_nothing_out_that_is_worth_telling() -> None:
    report = agree(kernel("ld.global.u32 %r10, [%d0];"), threads=32, blocks=core.LONGEST_KNOWN_CHAIN + 2)
    assert not report.findings
    assert not report.notes


@pytest.mark.parametrize(("scope", "findings"), [("gpu", 0), ("cta", 1)])
def test_a_step_of_more_threads_than_the_tables_have_room_for_is_checked(scope: str, findings: int) -> None:
    store = f"mul.wide.u32 %d5, %r1, 4; add.s64 %d5, %d5, %d1; st.relaxed.{scope}.global.u32 [%d5], %r1;"
    assert len(agree(kernel(store), threads=256, blocks=64).findings) == findings
