"""LDS phases of gfx928: the strides of the accepted kernels, and counts that their authors read from hardware."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tileproof.conformance import cli
from tileproof.oracle.banks import LDS, Access, bank_use
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.lds_counts import COUNTS, ConflictCount
from tileproof.simulators.gfx928.lds_phases import SHOWN_STRIDES, every_stride, stride_use
from tileproof.simulators.gfx928.operand_loads import A_ROW_MAJOR


def test_a_row_stride_of_80_has_fewer_conflicts_than_64() -> None:
    wide, narrow = stride_use(80), stride_use(64)
    assert (narrow.read.conflicts, wide.read.conflicts) == (28, 4)
    assert (narrow.read.ways, wide.read.ways) == (8, 2)  # "8-way -> 2-way"
    assert wide.read.conflicts + wide.write.conflicts < narrow.read.conflicts + narrow.write.conflicts


def test_strides_88_and_72_read_without_conflict() -> None:
    assert [stride_use(stride).read.conflicts for stride in (72, 88, 136)] == [0, 0, 0]


def test_two_reads_of_4_bytes_conflict_at_every_even_word_stride() -> None:
    """As the kernels' comment says of `ds_read2_b32`: two-way in every phase."""
    for stride in (72, 80, 88, 136, 144, 208, 272):
        first = A_ROW_MAJOR.addresses(stride)[:, 0]
        uses = [bank_use(first + part, 4, memory=LDS) for part in (0, 4)]
        assert [use.ways for use in uses] == [2, 2]
        assert sum(use.passes for use in uses) == 8


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: f"{count.kernel} {count.stride_a}/{count.stride_b}")
def test_the_model_gives_every_digit_of_the_conflicts_that_others_counted(count: ConflictCount) -> None:
    assert count.agrees, count.modelled


@pytest.mark.parametrize("count", COUNTS[2:], ids=lambda count: str(count.stride_a))
def test_the_strides_before_the_change_could_not_have_been_64(count: ConflictCount) -> None:
    assert not replace(count, stride_a=64).agrees
    assert not replace(count, stride_a=64, stride_b=64).agrees


def test_a_model_without_the_conflicts_of_writes_does_not_give_the_counts() -> None:
    for count in COUNTS[1:]:
        a, b = stride_use(count.stride_a), stride_use(count.stride_b)
        writes = (
            (count.rows * a.write.conflicts + count.columns * b.write.conflicts) // 16 * count.blocks * count.stages
        )
        assert writes > 0.01e6
        assert f"{(count.modelled - writes) / 1e6:.1f}" != f"{count.modelled / 1e6:.1f}"


def test_other_phases_do_not_give_the_counts() -> None:
    """Phases of 32 lanes of 8 bytes, as one might guess, miss 3.15 M: the counts tell models apart."""
    address = A_ROW_MAJOR.addresses(88)[:, 0]
    doubled = [
        max(np.bincount(np.unique(address[i : i + 32, np.newaxis] // 4 + [0, 1]) % 32)) - 1 for i in range(0, 64, 32)
    ]
    assert sum(doubled) > stride_use(88).read.conflicts


def test_the_write_is_as_wide_as_the_stride_keeps_aligned() -> None:
    widths = {use.stride: use.write_bytes for use in every_stride()}
    assert widths == {64: 16, 68: 4, 72: 8, 80: 16, 88: 8, 136: 8, 144: 16, 208: 16, 272: 16}
    for use in every_stride():
        row = np.arange(64) // (use.row_bytes // 16)
        for width in (4, 8, 16):
            aligned = bool(np.all(row * use.stride % width == 0))
            assert aligned == (width <= use.write_bytes)
            if not aligned:
                with pytest.raises(Refusal, match="no multiple"):
                    bank_use(row * use.stride, width, memory=LDS, access=Access.STORE)


@pytest.mark.parametrize("stride", [62, 60, 66])
def test_a_stride_that_no_tile_can_have_is_refused(stride: int) -> None:
    with pytest.raises(Refusal, match="stride"):
        stride_use(stride)


@pytest.mark.parametrize("row_bytes", [0, -16, 8, 16, 24, 65])
def test_rows_that_are_no_whole_chunks_are_refused(row_bytes: int) -> None:
    with pytest.raises(Refusal, match=f"rows of {row_bytes} bytes"):
        stride_use(80, row_bytes)


def test_the_view_prints_every_stride_with_its_conflicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "gfx928", "--lds"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()[: 1 + len(SHOWN_STRIDES)]
    assert heading.split()[:2] == ["stride", "row"]
    cells = {int(row.split()[0]): re.split(r"\s{2,}", row.strip()) for row in rows}
    assert tuple(cells) == SHOWN_STRIDES
    for use in every_stride():
        row = cells[use.stride]
        assert [int(row[i]) for i in (5, 9, 11)] == [
            use.write.conflicts,
            use.read.conflicts,
            use.byte_read.conflicts,
        ]
    assert int(cells[80][9]) < int(cells[64][9])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["gfx928"], "--occupancy"),
        (["gfx928", "--resources"], "contradict each other"),
        (["fp8_quantize_rows", "--lds"], "no views of"),
        (["gfx928", "--lds", "--arch", "sm_90"], "takes --lds and --occupancy"),
    ],
)
def test_what_cannot_be_shown_of_gfx928_ends_in_one_line_and_code_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", *arguments]) == 2
    assert word in capsys.readouterr().err
