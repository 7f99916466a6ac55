"""What can be said about the GPU device without a GPU: what it refuses before it touches one."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tileproof.kernels.cupy_device import CupyBuffer, CupyDevice, CupyFunction
from tileproof.kernels.device import Argument, Buffer, Device, KnowsItsBuffers
from tileproof.oracle.refusal import Refusal

_DEVICE_PROTOCOL: type[Device] = CupyDevice  # held to the protocols by the type checker
_BUFFER_PROTOCOL: type[Buffer] = CupyBuffer
_OWNER_PROTOCOL: type[KnowsItsBuffers] = CupyDevice


def test_a_missing_cupy_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(Refusal, match=r"CuPy cannot be imported(.|\n)*tileproof\[gpu\]"):
        CupyDevice()


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (0, "the NVIDIA driver is missing; the least is CUDA 13.0"),
        (12080, "the NVIDIA driver supports CUDA 12.8; the least is CUDA 13.0"),
    ],
)
def test_a_missing_or_old_driver_is_refused_with_its_version(
    monkeypatch: pytest.MonkeyPatch, driver: int, message: str
) -> None:
    fake = ModuleType("cupy")
    fake.cuda = SimpleNamespace(runtime=SimpleNamespace(driverGetVersion=lambda: driver))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setitem(sys.modules, "cupy.cuda", ModuleType("cupy.cuda"))
    monkeypatch.setitem(sys.modules, "cupy.cuda.function", ModuleType("cupy.cuda.function"))
    with pytest.raises(Refusal) as caught:
        CupyDevice()
    assert message in str(caught.value)


@pytest.mark.parametrize("argument", [7, 0.5, True, None, "x", [1]])
def test_an_argument_of_unknown_width_is_refused_before_the_launch(argument: Argument) -> None:
    function = CupyFunction("f", None, CupyDevice.__new__(CupyDevice))
    with pytest.raises(Refusal, match=r"argument 1 of f is .* whose width is unknown"):
        function.launch(grid=(1, 1, 1), block=(1, 1, 1), args=(np.int32(1), argument))
