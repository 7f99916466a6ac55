"""Tile kernels of gfx928 as wave programs give the int64 oracle's bits, at tails of M, with one and two buffers."""

from collections import Counter as Count
from dataclasses import replace

import numpy as np
import pytest
from tile_cases import BY_NAME, expected, inputs, mismatch

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.kernel_reports import ACCEPTED, KernelReport
from tileproof.simulators.gfx928.machine.operations import Barrier, GlobalLoad, Mmac
from tileproof.simulators.gfx928.tiles.catalogue import ACCEPTED_TILES, GENERIC_TILES, other_buffering
from tileproof.simulators.gfx928.tiles.tile_kernel import BStage, TileKernel
from tileproof.simulators.gfx928.tiles.tile_launch import TileInputs, run_tile
from tileproof.simulators.gfx928.tiles.tile_program import Product, tile_program

REPORTS = {report.shape: report for report in ACCEPTED}
#: TP8 qkv and gate_up are TP4's with another N.
DIFFERENT = [k for k in (*ACCEPTED_TILES, *GENERIC_TILES) if k.name not in ("TP8 M4096 qkv", "TP8 M4096 gate_up")]
BOTH = [variant for kernel in DIFFERENT for variant in (kernel, other_buffering(kernel))]


@pytest.mark.parametrize("kernel", BOTH, ids=str)
@pytest.mark.parametrize("stages", [1, 2])
def test_a_tile_kernel_gives_the_oracles_bits_at_tails_of_m(kernel: TileKernel, stages: int) -> None:
    for m in (kernel.rows - 1, kernel.rows) if stages == 1 else (1, kernel.rows + 1):
        given = inputs(kernel, m, stages)
        run = run_tile(kernel, given)
        assert mismatch(run, given) == (0, 0.0), (m, stages)
        assert (run.findings, run.unwritten) == ((), 0), (m, stages)
        assert run.blocks == -(-m // kernel.rows)


@pytest.mark.parametrize("name", ["TP4 M4096 qkv", "TP8 M4096 down", "GLM TP8 M4096 q_b"])
@pytest.mark.parametrize("fill", [-128, -127, 127, None])
def test_extreme_codes_over_three_stages_and_two_columns_of_blocks(name: str, fill: int | None) -> None:
    kernel = BY_NAME[name]
    given = inputs(kernel, 65, 3, column_tiles=2, fill=fill)
    run = run_tile(kernel, given)
    assert mismatch(run, given) == (0, 0.0)
    assert (run.findings, run.unwritten) == ((), 0)


def test_a_run_counts_what_a_wave_executes() -> None:
    kernel = BY_NAME["TP8 M4096 down"]
    run = run_tile(kernel, inputs(kernel, 65, 3))
    assert run.counters.products == 2 * 3 * kernel.products
    assert run.counters.barriers == 2 * 4
    assert run.counters.global_loads == 2 * (3 * 2 + 2 + 2)  # two a stage, scales of two rows and two columns of tiles


def test_the_tiles_asked_for_are_all_there_with_one_buffer_and_with_two() -> None:
    tiles = {(k.rows, k.columns, k.stage, k.buffers) for k in BOTH}
    accepted = [(64, 128, 64), (128, 64, 64), (64, 64, 64), (128, 128, 64), (256, 64, 64)]
    generic = [(64, 128, 128), (128, 64, 128), (64, 64, 128)]
    assert tiles == {(*tile, buffers) for tile in accepted + generic for buffers in (1, 2)}
    assert {kernel.b for kernel in BOTH} == set(BStage)


@pytest.mark.parametrize("kernel", ACCEPTED_TILES, ids=str)
def test_a_kernel_has_the_resources_that_are_reported(kernel: TileKernel) -> None:
    report = REPORTS[kernel.name]
    assert report.tile is not None
    assert kernel.lds_bytes == report.lds_bytes
    assert kernel.threads == report.threads
    assert (kernel.rows, kernel.columns, kernel.stage, kernel.buffers) == (
        report.tile.rows,
        report.tile.columns,
        report.tile.stage,
        report.tile.buffers,
    )
    assert kernel.stride_a == report.tile.stride_a
    assert kernel.stride_b == (report.tile.stride_b or 0)


@pytest.mark.parametrize("report", [r for r in ACCEPTED if r.barriers], ids=lambda report: report.shape)
def test_a_block_passes_as_many_barriers_as_are_reported(report: KernelReport) -> None:
    program = tile_program(BY_NAME[report.shape], Product(*report.extent), 0, 0)
    assert sum(isinstance(operation, Barrier) for operation in program) == report.barriers


@pytest.mark.parametrize(
    ("name", "products", "loads"),
    [
        ("TP4 M3072 wqkv_a", 8, 2),
        ("TP8 M4096 qkv", 16, 3),
        ("TP8 M4096 o_proj", 16, 3),
        ("TP8 M4096 gate_up", 8, 2),
        ("GLM TP8 M4096 o_proj", 32, 5),
        ("GLM TP8 M4096 fused_qkv_a", 16, 3),
    ],
)
def test_products_and_loads_of_a_stage_are_the_reported_ones(name: str, products: int, loads: int) -> None:
    kernel = BY_NAME[name]
    program = tile_program(kernel, Product(kernel.rows, kernel.columns, kernel.stage), 0, 0)
    count = Count(type(operation) for operation in program if not isinstance(operation, GlobalLoad))
    staged = [op for op in program if isinstance(op, GlobalLoad) and op.buffer in ("x", "w")]
    assert (count[Mmac], len(staged)) == (products, loads)
    assert kernel.products == products


@pytest.mark.parametrize(
    ("name", "stride_a", "stride_b", "blocks", "stages", "reported_millions"),
    [
        ("TP4 M4096 o_proj", 64, 80, 2048, 32, "77.59"),
        ("TP4 M4096 o_proj", 80, 80, 2048, 32, "31.46"),
        ("GLM TP8 M4096 shared_gate_up", 80, 80, 512, 96, "9.44"),
        ("GLM TP8 M4096 shared_gate_up", 88, 72, 512, 96, "3.15"),
    ],
)
def test_the_program_makes_the_bank_conflicts_that_were_counted_on_hardware(
    name: str, stride_a: int, stride_b: int, blocks: int, stages: int, reported_millions: str
) -> None:
    """Reported: 77.6 M, 31.5 M, 9.44 M, 3.15 M."""
    reported = BY_NAME[name]
    kernel = TileKernel(**{**vars(reported), "stride_a": stride_a, "stride_b": stride_b})
    run = run_tile(kernel, inputs(kernel, kernel.rows, 1), count_banks=True)
    assert run.findings == ()
    assert f"{run.counters.lds_conflicts * blocks * stages / 1e6:.2f}" == reported_millions


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rows": 72}, "no multiple"),
        ({"stage": 48}, "no multiple"),
        ({"buffers": 3}, "3 buffers"),
        ({"waves_m": 0}, "0 x 2 waves"),
        ({"waves_m": -2}, "-2 x 2 waves"),
        ({"pack": "none"}, "no layout"),
        ({"stride_a": 62}, "stride 62"),
        ({"rows": 512, "waves_m": 8}, "bytes of LDS"),
    ],
)
def test_a_kernel_that_cannot_be_is_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(Refusal, match=word):
        TileKernel(**{**vars(BY_NAME["GLM TP8 M4096 o_proj"]), "buffers": 2, **change})


@pytest.mark.parametrize(("n", "k"), [(96, 64), (128, 96), (128, 0)])
def test_a_product_that_the_tile_does_not_divide_is_refused(n: int, k: int) -> None:
    with pytest.raises(Refusal, match="a product of"):
        tile_program(BY_NAME["TP8 M4096 down"], Product(64, n, k), 0, 0)


def test_a_pack_that_does_not_hold_a_chunk_side_by_side_is_refused() -> None:
    kernel = TileKernel(**{**vars(BY_NAME["TP8 M4096 down"]), "pack": "contiguous"})
    with pytest.raises(Refusal, match="side by side"):
        run_tile(kernel, inputs(kernel, 64, 1))


def test_operands_of_another_type_or_extent_are_refused() -> None:
    given = inputs(BY_NAME["TP8 M4096 down"], 64, 1)
    for name, array in (("x", given.x.astype(np.int16)), ("w", given.w[1:]), ("x_scale", given.x_scale[1:])):
        with pytest.raises(Refusal, match="not empty"):
            type(given)(**{**vars(given), name: array})


SMALL = BY_NAME["GLM TP8 M4096 shared_gate_up"]
ODD = (1.5, 0.0, -0.0, 2.0**-149, -1.7 * 2.0**-133, 2.0**-126, 2.0**-20, -257 / 256)


def odd_inputs(rows: tuple[float, ...], columns: tuple[float, ...]) -> TileInputs:
    """The small kernel's operands with other scales."""
    given = inputs(SMALL, 20, 1)
    x_scale, w_scale = (
        np.resize(np.array(rows, np.float32), 20),
        np.resize(np.array(columns, np.float32), SMALL.columns),
    )
    return replace(given, x_scale=x_scale, w_scale=w_scale)


@pytest.mark.parametrize("rows", [ODD, (1.9 * 2.0**127, -(2.0**120))])
def test_scales_of_every_size_and_sign_give_the_oracles_bits(rows: tuple[float, ...]) -> None:
    """Zeros of both signs, values below 2^-126 on the way and at the end, infinities by overflow."""
    given = odd_inputs(rows, ODD if rows is ODD else (1.5, -(2.0**-20)))
    run = run_tile(SMALL, given)
    assert run.findings == ()
    assert np.array_equal(run.output.view(np.uint16), expected(given).view(np.uint16))
    assert rows is ODD or np.isinf(run.output.astype(np.float32)).any()


@pytest.mark.parametrize(
    ("rows", "columns"),
    [((np.inf,), (1.0,)), ((1.0,), (np.nan,)), ((1.0,), (-np.inf,)), ((1.9 * 2.0**120,), (1.0, 0.0))],
)
def test_scales_by_which_an_output_may_be_nan_are_refused(rows: tuple[float, ...], columns: tuple[float, ...]) -> None:
    with pytest.raises(Refusal, match="infinity times 0"):
        odd_inputs(rows, columns)


def test_a_block_without_lds_is_not_one_with_the_kernels() -> None:
    with pytest.raises(Refusal, match="0 bytes of LDS"):
        run_tile(SMALL, inputs(SMALL, 5, 1), lds_bytes=0)


def test_the_comparison_sees_one_wrong_bit() -> None:
    kernel = BY_NAME["TP8 M4096 down"]
    given = inputs(kernel, 5, 1)
    run = run_tile(kernel, given)
    run.output.view(np.uint16)[3, 7] ^= 1
    count, largest = mismatch(run, given)
    assert count == 1
    assert largest > 0
    assert expected(given).shape == run.output.shape
