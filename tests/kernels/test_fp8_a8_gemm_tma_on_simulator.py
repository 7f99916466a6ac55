"""The TMA kernel of the FP8 product against the oracle's route-exact result, on the CPU device."""

from typing import Any

import numpy as np
import pytest
from fp8_a8_call import TILED_ROWS, Call, bits, check

from tileproof.kernels.fp8_a8_call_site import (
    CALL_SITES,
    LINEAR_ADD,
    CallSite,
)
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import Route
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import SHARED_BASES, Device

TOKENS = (1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 513)
DEPTHS = (64, 192, 256, 320, 576)  # one stage; below, at and above the depth of the ring; more than twice around it
# Dynamic shared memory begins at the next multiple of what the kernel declares.
PLACES = (SHARED_BASES[0], SHARED_BASES[4])

every_site = pytest.mark.parametrize("site", CALL_SITES, ids=lambda site: site.name)


@pytest.mark.parametrize("tokens", TOKENS)
def test_the_route_is_right_at_every_edge_of_a_tile(tokens: int) -> None:
    check(Call(LINEAR_ADD, tokens, 128, 64, seed=tokens, pad=16), Route.TMA)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_route_is_right_below_at_and_above_the_depth_of_its_ring(depth: int) -> None:
    check(Call(LINEAR_ADD, 17, 128, depth, seed=depth), Route.TMA)


@every_site
def test_every_call_site_has_the_oracles_bits(site: CallSite) -> None:
    check(Call(site, 17, TILED_ROWS[site], 64, scale=2.0**-14), Route.TMA)


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_every_architecture_has_the_bits_of_its_own_matrix_unit(arch: str) -> None:
    check(Call(LINEAR_ADD, 65, 128, 320), Route.TMA, arch=arch)


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_schedule_changes_nothing(seed: int) -> None:
    base = PLACES[seed % len(PLACES)]
    check(Call(LINEAR_ADD, 65, 128, 576), Route.TMA, schedule="adversarial", seed=seed, shared_base=base)


def test_routes_agree_bit_for_bit() -> None:
    call = Call(LINEAR_ADD, 67, 128, 256)
    tma, tiled = (check(call, route).outputs[0] for route in (Route.TMA, Route.CP_ASYNC))
    assert np.array_equal(bits(tma), bits(tiled))


def test_nan_codes_reach_their_token_alone() -> None:
    outputs = check(Call(LINEAR_ADD, 66, 128, 128, nan_token=64), Route.TMA).outputs[0]
    assert np.all(bits(outputs[64]) == 0x7FFF)
    assert np.all(np.isfinite(np.delete(outputs, 64, axis=0).astype(np.float32)))


def test_an_architecture_without_tensor_copies_is_refused_by_name() -> None:
    device = Device(arch="sm_89")
    with pytest.raises(Refusal, match="linear_add cannot take the route tma: sm_89 has no tensor copies"):
        Call(LINEAR_ADD, 1, 128, 64).run(device, Fp8A8Gemm(device, LINEAR_ADD), Route.TMA)


def test_a_device_that_makes_no_tensor_maps_is_refused_by_name() -> None:
    class Mapless:
        """Everything that a device has, but tensor maps."""

        def __init__(self, device: Device) -> None:
            self._device = device

        def __getattr__(self, name: str) -> Any:
            if name == "tensor_map":
                raise AttributeError(name)
            return getattr(self._device, name)

    device: Any = Mapless(Device())
    with pytest.raises(Refusal, match="the device sim makes no tensor maps"):
        Call(LINEAR_ADD, 1, 128, 64).run(device, Fp8A8Gemm(device, LINEAR_ADD), Route.TMA)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", TOKENS)
def test_the_route_is_right_at_every_edge_and_depth(tokens: int) -> None:
    for depth in DEPTHS:
        check(Call(LINEAR_ADD, tokens, 128, depth, seed=tokens, pad=16), Route.TMA)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_120"])
@pytest.mark.parametrize("tokens", [1, 65, 256, 257])
@every_site
def test_every_call_site_is_right_on_every_architecture(site: CallSite, tokens: int, arch: str) -> None:
    for depth in (64, 320):
        check(Call(site, tokens, TILED_ROWS[site], depth, seed=tokens, scale=2.0**-14), Route.TMA, arch=arch)
