"""The kernels of the FP8 product against the oracle's route-exact result, on the CPU device."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fp8_a8_call import RAGGED_ROWS, TILED_ROWS, Call, bits, check, padded

from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_call_site import (
    ATTN_INPUT_PROJ,
    CALL_SITES,
    LINEAR,
    LINEAR_ADD,
    LINEAR_SWIGLU,
    CallSite,
)
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm, kernel_name
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.kernels.launcher import NOTHING_TO_LAUNCH
from tileproof.kernels.source import expanded
from tileproof.kernels.tensor import Tensor
from tileproof.simulators.ptx import device as cpu
from tileproof.simulators.ptx.device import SHARED_BASES, Device

ARCHITECTURES = ("sm_89", "sm_90a", "sm_120")

every_site = pytest.mark.parametrize("site", CALL_SITES, ids=lambda site: site.name)
every_architecture = pytest.mark.parametrize("arch", ARCHITECTURES)


@every_architecture
def test_every_architecture_has_the_bits_of_its_own_matrix_unit(arch: str) -> None:
    check(Call(LINEAR_ADD, 65, 128, 256), Route.CP_ASYNC, arch=arch)
    check(Call(LINEAR_ADD, 17, 7, 33), Route.FALLBACK, arch=arch)


@pytest.mark.slow
@every_architecture
@every_site
def test_every_call_site_has_the_oracles_bits_on_every_architecture(site: CallSite, arch: str) -> None:
    check(Call(site, 65, TILED_ROWS[site], 384), Route.CP_ASYNC, arch=arch)
    check(Call(site, 17, RAGGED_ROWS[site], 33), Route.FALLBACK, arch=arch)


@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 9, 16, 17, 33, 63, 64, 127, 129, 257])
def test_the_tiled_route_is_right_at_every_edge_of_a_tile(tokens: int) -> None:
    check(Call(LINEAR_ADD, tokens, 128, 128, seed=tokens, pad=16), Route.CP_ASYNC)


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_the_tiled_route_is_right_below_at_and_above_the_depth_of_its_ring(stages: int) -> None:
    check(Call(LINEAR, 33, 128, 128 * stages, seed=stages), Route.CP_ASYNC)


@pytest.mark.parametrize(
    ("tokens", "rows", "depth"), [(1, 1, 1), (16, 8, 32), (15, 7, 31), (65, 8, 33), (1, 17, 100), (63, 1, 64)]
)
def test_the_fallback_is_right_whole_and_ragged(tokens: int, rows: int, depth: int) -> None:
    check(Call(LINEAR_ADD, tokens, rows, depth, pad=3), Route.FALLBACK)


@pytest.mark.parametrize("base", [SHARED_BASES[1], SHARED_BASES[-1]])
def test_the_tiled_route_needs_no_place_of_its_own_in_shared_memory(base: int) -> None:
    check(Call(LINEAR, 9, 128, 256), Route.CP_ASYNC, shared_base=base)


def test_routes_agree_bit_for_bit() -> None:
    call = Call(LINEAR_ADD, 67, 128, 256)
    tiled, fallback = (check(call, route).outputs[0] for route in (Route.CP_ASYNC, Route.FALLBACK))
    assert np.array_equal(bits(tiled), bits(fallback))


def test_a_token_has_the_same_bits_whatever_stands_beside_it() -> None:
    anchor = Call(LINEAR, 65, 128, 256, nan_token=64)
    device = Device()
    gemm = Fp8A8Gemm(device, LINEAR)
    a, scales, b, weight_scales = anchor.operands
    rows = {}
    for tokens in (1, 64, 65):
        operands = Operands(
            *(Tensor.whole(device.upload(part)) for part in (a[:tokens], scales[:tokens], b, weight_scales))
        )
        out = device.allocate((tokens, 128), np.dtype(anchor.residual.dtype))
        gemm(operands, (Tensor.whole(out),), route=Route.CP_ASYNC)
        rows[tokens] = bits(out.download()[0])
    assert np.array_equal(rows[1], rows[64])
    assert np.array_equal(rows[1], rows[65])


def test_nan_codes_reach_their_token_alone() -> None:
    outputs = check(Call(LINEAR, 66, 128, 128, nan_token=64), Route.CP_ASYNC).outputs[0]
    assert np.all(bits(outputs[64]) == 0x7FFF)
    assert np.all(np.isfinite(np.delete(outputs, 64, axis=0).astype(np.float32)))


@pytest.mark.parametrize("scale", [2.0**-17, 2.0**-14])
def test_the_bracket_of_the_exponential_lies_in_the_proven_set(scale: float) -> None:
    call = Call(LINEAR_SWIGLU, 64, 256, 128, scale=scale)
    result = check(call, Route.CP_ASYNC)
    lower, upper = (bits(end) for end in call.expected("sm_90a"))
    (buffer,) = result.buffers
    assert isinstance(buffer, cpu.Buffer)
    for end in buffer.bracket():
        assert np.all((bits(end) == lower) | (bits(end) == upper))


FAR = 2**33 + 16


def reached(name: str, route: Route, source: str | None = None) -> list[int]:
    """Elements from the first one of a tensor, whose rows are FAR apart, to where the kernel looks for its rows.

    So far apart they lie in no allocation of a test, and the finding says which address that was.
    """
    device, bf16 = Device(), np.dtype(Call(LINEAR, 1, 1, 1).residual.dtype)
    codes, scales = np.zeros((2, 128), np.uint8), np.zeros(2, np.float32)
    arrays = (codes, scales, np.zeros((128, 128), np.uint8), np.zeros(128, bf16), np.zeros((2, 128), bf16))
    given = [Tensor.whole(device.upload(array)) for array in arrays]
    index = ("codes", "scales", "weight", "weight_scales", "out").index(name)
    given[index] = replace(given[index], strides=(FAR, 1))
    gemm = Fp8A8Gemm(device, LINEAR_ADD, sources={} if source is None else {route: source})
    report = gemm.prepare(Operands(*given[:4]), given[4:], route).launch().report
    assert report is not None
    found = [re.search(r"in no allocation [(]0x([0-9a-f]+)[)]", finding.message) for finding in report.findings]
    itemsize = given[index].dtype.itemsize
    return [(int(match[1], 16) - given[index].address) // itemsize for match in found if match is not None]


@pytest.mark.parametrize("route", [Route.CP_ASYNC, Route.FALLBACK])
@pytest.mark.parametrize("name", ["codes", "weight", "out"])
def test_offsets_past_32_bits_are_not_cut(name: str, route: Route) -> None:
    row, rest = divmod(reached(name, route)[0], FAR)
    assert 1 <= row < 128
    assert rest < 128


def test_an_offset_that_is_cut_is_noticed() -> None:
    whole = "matrix.out + token * matrix.stride + column"
    source = expanded(kernel_name(Route.FALLBACK))
    assert source.count(whole) == 1
    cut = source.replace(whole, "matrix.out + static_cast<int>(token * matrix.stride) + column")
    assert reached("out", Route.FALLBACK, cut) == []


def test_no_tokens_launch_nothing() -> None:
    device = Device()
    call = Call(LINEAR, 0, 128, 128)
    for route in (None, *Route):
        assert call.run(device, Fp8A8Gemm(device, LINEAR), route).launch.route == NOTHING_TO_LAUNCH


def test_rows_that_are_not_aligned_go_to_the_fallback() -> None:
    device = Device()
    gemm = Fp8A8Gemm(device, LINEAR)
    for pad, route in ((16, Route.CP_ASYNC), (3, Route.FALLBACK)):
        call = replace(Call(LINEAR, 2, 128, 128), pad=pad)
        result = call.run(device, gemm, None)
        assert result.launch.route == route
        assert np.array_equal(bits(result.outputs[0]), bits(call.expected("sm_90a")[0]))


def test_outputs_of_a_split_may_lie_anywhere() -> None:
    """Four outputs in one allocation, each with a row stride of its own."""
    device = Device()
    call = Call(ATTN_INPUT_PROJ, 3, 14 * 128, 128)
    a, scales, b, weight_scales = call.operands
    operands = Operands(*(Tensor.whole(device.upload(part)) for part in (a, scales, b, weight_scales)))
    out = padded(device, np.zeros((3, 14 * 128), call.residual.dtype), 8, -77)
    begins = np.cumsum((0, *call.widths))[:-1]
    parts = [
        Tensor(out.buffer, out.dtype, (3, width), out.strides, int(begin) * 2)
        for begin, width in zip(begins, call.widths, strict=True)
    ]
    rows = [replace(part, shape=(1, part.shape[1])) for part in parts]  # one token: no two outputs interleave
    one = Operands(
        replace(operands.codes, shape=(1, 128)),
        replace(operands.scales, shape=(1,)),
        operands.weight,
        operands.weight_scales,
    )
    Fp8A8Gemm(device, ATTN_INPUT_PROJ)(one, rows, route=Route.CP_ASYNC)
    right = np.concatenate([part[0] for part in call.expected("sm_90a")])
    image = out.buffer.download()
    assert np.array_equal(bits(image[0, : 14 * 128]), bits(right))
    assert np.all(image[1:, : 14 * 128] == 0)
