"""What reaches the driver's encoder, and what comes back; a driver of our own stands in for libcuda."""

import ctypes
from typing import Any

import numpy as np
import pytest

from tileproof.kernels import driver_tensor_map
from tileproof.oracle.addresses.tensor_map import TensorMapArguments, TensorMapRequest
from tileproof.oracle.refusal import Refusal

ARGUMENTS: TensorMapArguments = {
    "dtype": "bfloat16",
    "shape": (256, 40, 7),
    "strides_bytes": (512, 20480),
    "box": (32, 8, 2),
    "swizzle": 64,
    "fill": "nan",
    "element_strides": (1, 2, 3),
    "interleave": 16,
    "l2_promotion": 256,
}


class Encoder:
    """Answers `result`, and keeps what it was asked."""

    def __init__(self, result: int) -> None:
        self.result = result
        self.asked: list[Any] = []

    def __call__(self, place: int, *arguments: Any) -> int:
        assert place % 64 == 0
        ctypes.memmove(place, bytes(range(128)), 128)
        self.asked = [list(each) if isinstance(each, ctypes.Array) else each for each in arguments]
        return self.result


def request(**changes: Any) -> TensorMapRequest:
    arguments: Any = {**ARGUMENTS, **changes}
    return TensorMapRequest.of(0x7F00_0000_0100, arguments)


def test_every_argument_reaches_the_driver_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(0)
    monkeypatch.setattr(driver_tensor_map, "_encoder", lambda: encoder)
    made = driver_tensor_map.encode(request())
    assert isinstance(made, np.void)
    assert made.tobytes() == bytes(range(128))
    kind, rank, address, shape, strides, box, steps, *modes = encoder.asked
    assert (kind, rank, address) == (9, 3, 0x7F00_0000_0100)
    assert (shape[:3], strides[:2], box[:3], steps[:3]) == ([256, 40, 7], [512, 20480], [32, 8, 2], [1, 2, 3])
    assert modes == [1, 2, 3, 1]


def test_a_refusal_of_the_driver_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_tensor_map, "_encoder", lambda: Encoder(1))
    with pytest.raises(Refusal, match="answers 1"):
        driver_tensor_map.encode(request())
    assert driver_tensor_map.answer(request())[0] == 1


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_tensor_map, "_LIBRARY", "libcuda-of-nobody.so")
    driver_tensor_map._encoder.cache_clear()
    with pytest.raises(Refusal, match="cannot be loaded"):
        driver_tensor_map.encode(request())
    driver_tensor_map._encoder.cache_clear()
