"""The two published occupancy laws of gfx928 against every accepted kernel; neither predicts anything."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tileproof.conformance import cli
from tileproof.oracle.addresses.lds_tile import LdsTile
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.kernel_reports import ACCEPTED, KernelReport
from tileproof.simulators.gfx928.occupancy import (
    LAW_512_KIB,
    LAW_65536,
    Verdict,
    judge,
    judge_all,
    predicted_blocks,
    separating,
)

BY_SHAPE = {report.shape: report for report in ACCEPTED}


def verdicts(verdict: Verdict) -> set[tuple[str, str]]:
    return {(j.law.name, j.report.shape) for judged in judge_all() for j in judged if j.verdict is verdict}


def test_the_first_law_is_refuted_by_one_report_and_fits_the_eleven_others_with_all_figures() -> None:
    assert verdicts(Verdict.TOO_STRICT) == {("65,536", "GLM TP8 M4096 o_proj")}
    report = BY_SHAPE["GLM TP8 M4096 o_proj"]
    assert math.prod((report.registers or 0, report.threads, report.blocks or 0)) == 77_312
    decided = [first for first, _ in judge_all() if first.verdict is not Verdict.UNDECIDED]
    assert len(decided) == 12
    assert sum(not j.verdict.refutes for j in decided) == 11


def test_the_second_law_is_refuted_where_registers_are_said_to_stop_a_block() -> None:
    assert verdicts(Verdict.TOO_LAX) == {("512 KiB", "TP4 M4096 down"), ("512 KiB", "TP8 M4096 qkv")}


def test_a_law_that_allows_what_is_reported_is_exact_and_one_that_allows_more_is_loose() -> None:
    first = {shape for law, shape in verdicts(Verdict.EXACT) if law == "65,536"}
    assert len(first) == 10
    assert verdicts(Verdict.LOOSE) == {
        ("65,536", "TP8 M4096 o_proj"),
        ("512 KiB", "TP8 M4096 o_proj"),
        ("512 KiB", "TP4 M4096 qkv"),
        ("512 KiB", "GLM TP8 M4096 kv_b"),
        ("512 KiB", "GLM TP8 M4096 q_b"),
        ("512 KiB", "GLM TP8 M4096 shared_down, iteration 9"),
    }


def test_the_laws_contradict_each_other_on_these_kernels() -> None:
    assert LAW_512_KIB.registers == 2 * LAW_65536.registers
    assert {report.shape for report in separating()} == {
        "TP4 M4096 qkv",
        "TP8 M4096 qkv",
        "GLM TP8 M4096 kv_b",
        "GLM TP8 M4096 q_b",
        "GLM TP8 M4096 o_proj",
        "GLM TP8 M4096 shared_down, iteration 9",
    }


def test_a_report_without_registers_or_blocks_decides_nothing() -> None:
    report = BY_SHAPE["TP4 M16 down"]
    for law in (LAW_65536, LAW_512_KIB):
        assert judge(law, report).verdict is Verdict.UNDECIDED
        assert judge(law, report).allowed is None
        assert judge(law, replace(report, registers=None, blocks=2)).verdict is Verdict.UNDECIDED


def test_nothing_is_predicted() -> None:
    with pytest.raises(Refusal, match="contradict each other"):
        predicted_blocks()


@pytest.mark.parametrize(("threads", "lds_bytes"), [(100, 1024), (0, 1024), (256, 65_537), (256, 0)])
def test_a_report_that_no_block_can_have_is_refused(threads: int, lds_bytes: int) -> None:
    with pytest.raises(Refusal, match="threads"):
        judge(LAW_65536, replace(BY_SHAPE["TP8 M4096 qkv"], threads=threads, lds_bytes=lds_bytes))


@pytest.mark.parametrize("change", [{"registers": 0}, {"registers": -5}, {"blocks": 0}])
def test_a_report_without_a_register_or_a_block_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="registers, "):
        judge(LAW_65536, replace(BY_SHAPE["TP8 M4096 qkv"], **change))


@pytest.mark.parametrize("report", [r for r in ACCEPTED if r.tile and r.tile.stride_b], ids=lambda r: r.shape)
def test_reported_lds_bytes_follow_from_tile_and_strides(report: KernelReport) -> None:
    tile = report.tile
    assert tile is not None
    assert tile.stride_b is not None
    a = LdsTile(tile.rows, tile.stage, tile.stride_a).size_bytes
    b = LdsTile(tile.columns, tile.stage, tile.stride_b).size_bytes
    assert tile.buffers * (a + b) == report.lds_bytes


def test_the_view_lists_every_kernel_the_failures_and_what_separates(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "gfx928", "--occupancy"]) == 0
    out = capsys.readouterr().out
    assert all(report.shape in out for report in ACCEPTED)
    assert "65,536: GLM TP8 M4096 o_proj: 151 x 256 x 2 = 77,312 registers, refuted: allows fewer" in out
    assert "512 KiB: TP8 M4096 qkv" in out
    assert "nothing is predicted" in out
