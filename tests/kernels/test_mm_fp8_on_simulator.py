"""mm_fp8 against the oracle's route-exact result, on the CPU device."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from mm_fp8_call import LAYOUTS, NAN_CODE, SCALE, Call, check, swapped

from tileproof.kernels.mm_fp8 import BF16, E4M3, E5M2, MmFp8
from tileproof.kernels.mm_fp8_dispatch import Route
from tileproof.kernels.tensor import Tensor
from tileproof.simulators.ptx.device import SHARED_BASES, Device

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_route = pytest.mark.parametrize("route", Route)


# The gate has every variant of the congruous layout and of one crosswise operand each; the slow tests take all.
GATE = {("NT", Route.LARGE), ("NT", Route.LARGE_LEAN), ("NT", Route.SMALL_LEAN)}
GATE |= {("NN", Route.LARGE_LEAN), ("TT", Route.SMALL_LEAN), ("TN", Route.LARGE)}


@pytest.mark.parametrize(
    ("layout", "route"),
    [
        pytest.param(layout, route, marks=() if (layout, route) in GATE else pytest.mark.slow)
        for layout in LAYOUTS
        for route in Route
    ],
)
def test_every_layout_is_right_on_every_variant(layout: str, route: Route) -> None:
    check(Call(m=65, n=70, k=130, layout=layout), route, seed=3)


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_every_number_of_stages_beside_the_depth_of_the_ring_is_right(layout: str) -> None:
    for stages in (1, 2, 3, 4, 5):
        check(Call(m=16, n=16, k=64 * stages, layout=layout, seed=stages), Route.SMALL_LEAN, seed=stages)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@every_route
@every_layout
def test_no_hostile_schedule_changes_a_bit(layout: str, route: Route, seed: int) -> None:
    for stages in (1, 2, 3, 4, 5):
        check(Call(m=65, n=40, k=64 * stages - seed, layout=layout, seed=stages), route, seed=seed)


@every_layout
def test_ragged_extents_are_right(layout: str) -> None:
    for m, n, k in ((1, 1, 1), (31, 15, 64), (19, 13, 37)):
        check(Call(m=m, n=n, k=k, layout=layout, seed=m), Route.SMALL_LEAN)


@pytest.mark.slow
@every_layout
def test_every_residue_of_every_extent_is_right(layout: str) -> None:
    others = cycle((16, 33, 64, 5))
    for residue in range(1, 130):
        for m, n, k in ((residue, next(others), 32), (next(others), residue, 32), (next(others), 7, residue)):
            check(Call(m=m, n=n, k=k, layout=layout, seed=residue), Route.SMALL_LEAN, schedule="friendly")


@every_layout
def test_operands_may_begin_at_any_byte_and_have_any_line_stride(layout: str) -> None:
    for offset, pad in ((15, 1), (16, 0)):
        check(Call(m=20, n=33, k=66, layout=layout, offset=offset, pad=pad), Route.SMALL_LEAN)


@pytest.mark.slow
@every_layout
def test_every_offset_and_padding_is_right(layout: str) -> None:
    for offset in range(17):
        check(Call(m=33, n=32, k=64, layout=layout, offset=offset, pad=(5 * offset) % 17), Route.SMALL_LEAN)


@pytest.mark.parametrize(("a_batch", "b_batch"), [(4, 4), (3, 1), (1, 3), (3, None), (None, 2), (1, 1)])
def test_a_batch_meets_a_batch_or_one_matrix_for_all(a_batch: int | None, b_batch: int | None) -> None:
    for layout in ("NT", "TN"):
        call = Call(m=17, n=18, k=34, layout=layout, a_batch=a_batch, b_batch=b_batch, pad=3)
        check(call, Route.SMALL_LEAN, schedule="friendly")


@pytest.mark.parametrize("format_", [E4M3, E5M2])
@pytest.mark.parametrize("bias", ["", "bf16", "fp8"])
@pytest.mark.parametrize("out", [BF16, E4M3])
def test_every_epilogue_is_right(format_: np.dtype[Any], bias: str, out: np.dtype[Any]) -> None:
    check(Call(m=17, n=70, k=34, format=format_, bias=bias, out=out), Route.SMALL_LEAN, schedule="friendly")


@pytest.mark.parametrize("k", [1, 15, 33, 64])
def test_a_product_of_zeros_leaves_the_bias_exactly(k: int) -> None:
    """A · B = 0 whatever K is: every output is its column's bias, so a stray code or a late rounding shows."""
    device = Device(seed=k)
    bias = (np.arange(1, 34) * 0.37).astype(BF16)
    a = replace(Tensor.whole(device.upload(np.zeros((5, k), np.uint8))), dtype=E4M3)
    b = replace(Tensor.whole(device.upload(np.full((33, k), 0x7E, np.uint8))), dtype=E4M3)
    out = device.allocate((5, 33), BF16)
    scale, given = (Tensor.whole(device.upload(one)) for one in (SCALE, bias))
    launch = MmFp8(device)(a, swapped(b), scale, Tensor.whole(out), bias=given)
    assert launch.report is not None
    assert not launch.report.findings
    assert np.array_equal(out.download().view(np.uint16), np.tile(bias, (5, 1)).view(np.uint16))


@pytest.mark.parametrize(("arch", "format_"), [("sm_89", E4M3), ("sm_120", E5M2)])
def test_every_architecture_has_the_bits_of_its_own_matrix_unit(arch: str, format_: np.dtype[Any]) -> None:
    call = Call(m=17, n=9, k=66, format=format_)
    check(call, Route.SMALL_LEAN, arch=arch, schedule="friendly")
    differs = not np.array_equal(call.expected(arch), call.expected("sm_90a"))
    assert differs == (arch == "sm_89"), "the call tells the units apart"


def test_layouts_agree_bit_for_bit() -> None:
    first, *others = (check(Call(m=20, n=24, k=100, layout=one), Route.SMALL_LEAN) for one in LAYOUTS)
    assert all(np.array_equal(first, one) for one in others)


def test_the_raster_reaches_every_tile_of_a_short_last_group() -> None:
    check(Call(m=9 * 64 + 1, n=65, k=1), Route.SMALL_LEAN, schedule="friendly")


@pytest.mark.parametrize("base", [SHARED_BASES[1], SHARED_BASES[-1]])
def test_no_place_in_shared_memory_matters(base: int) -> None:
    check(Call(m=20, n=20, k=130, layout="TN"), Route.SMALL_LEAN, shared_base=base)


def test_nan_codes_reach_their_row_alone() -> None:
    device = Device()
    codes = np.full((66, 64), 0x38, np.uint8)
    codes[64, 63] = NAN_CODE
    a, b = (replace(Tensor.whole(device.upload(one)), dtype=E4M3) for one in (codes, codes[:8]))
    out = device.allocate((66, 8), BF16)
    MmFp8(device)(a, swapped(b), Tensor.whole(device.upload(SCALE)), Tensor.whole(out), route=Route.LARGE)
    values = out.download()
    assert np.all(values[64].view(np.uint16) == 0x7FFF)
    assert np.all(np.isfinite(np.delete(values, 64, axis=0).astype(np.float32)))
