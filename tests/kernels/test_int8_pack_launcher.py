"""What the launcher of int8_pack refuses, before anything is compiled."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tileproof.kernels.int8_pack import EDGE, PATCH_THREADS, SCALAR_THREADS, SOURCE, Int8Pack, Route
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

I8 = np.dtype(np.int8)


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device(schedule="friendly")


def tensors(sim: Device, k: int, n: int) -> tuple[Tensor, Tensor]:
    return Tensor.whole(sim.upload(np.zeros((k, n), I8))), Tensor.whole(sim.allocate((k * n,), I8))


def test_constants_are_those_of_the_source() -> None:
    for name, value in (("kEdge", EDGE), ("kPatchThreads", PATCH_THREADS), ("kScalarThreads", SCALAR_THREADS)):
        assert re.search(rf"constexpr \w+ {name} = {value};", SOURCE)


@pytest.mark.parametrize(
    ("k", "n", "layout", "message"),
    [
        (64, 65, "panel-64", "panel-64: K = 64, N = 65 are no multiples"),
        (128, 32, "fragment-pairs", "K = 128, N = 32 are no multiples of 256 and 32"),
        (64, 64, "marlin-8bit", "no kernel reads weights packed as 'marlin-8bit'"),
        (17, 32, "n-major", "pack in vectors: K = 17 is no multiple of 16, along which n-major runs"),
        (16, 33, "contiguous", "pack in vectors: N = 33 is no multiple of 16"),
    ],
)
def test_a_shape_that_the_order_does_not_take_is_refused(
    k: int, n: int, layout: str, message: str, sim: Device
) -> None:
    with pytest.raises(Refusal, match=re.escape(message)):
        Int8Pack(sim).pack(*tensors(sim, k, n), layout, route=Route.VECTOR)


def test_buffers_that_do_not_fit_or_overlap_are_refused(sim: Device) -> None:
    raw, packed = tensors(sim, 16, 16)
    pack = Int8Pack(sim).pack
    with pytest.raises(Refusal, match=r"packed has 255 elements; K = 16, N = 16 take 256"):
        pack(raw, replace(packed, shape=(255,)), "n-major")
    with pytest.raises(Refusal, match=r"raw has element type uint8; it must be int8"):
        pack(replace(raw, dtype=np.dtype(np.uint8)), packed, "n-major")
    with pytest.raises(Refusal, match="must be contiguous"):
        pack(replace(raw, shape=(8, 16), strides=(32, 1)), replace(packed, shape=(128,)), "n-major")
    with pytest.raises(Refusal, match=r"packed \(output\) overlaps raw \(input\)"):
        pack(raw, Tensor(raw.buffer, I8, (256,), (1,)), "n-major")


def test_an_address_decides_between_vectors_and_bytes(sim: Device) -> None:
    raw, packed = tensors(sim, 16, 32)
    inside = Tensor(packed.buffer, I8, (256,), (1,), 1)
    pack = Int8Pack(sim).pack
    assert pack(raw, packed, "n-major").route == Route.VECTOR
    assert pack(replace(raw, shape=(16, 16), strides=(16, 1)), inside, "n-major").route == Route.SCALAR
    with pytest.raises(Refusal, match="packed begins 1 bytes past a multiple of 16"):
        pack(replace(raw, shape=(16, 16), strides=(16, 1)), inside, "n-major", route=Route.VECTOR)


@pytest.mark.parametrize("route", ["vector", "bogus"])
def test_a_route_by_another_type_is_refused(route: str, sim: Device) -> None:
    """Its name would pass for the route in every comparison but the one that guards the addresses."""
    with pytest.raises(Refusal, match=f"route is '{route}'"):
        Int8Pack(sim).pack(*tensors(sim, 16, 16), "n-major", route=route)  # type: ignore[arg-type]
