"""What can be said about the GPU device without a GPU: what it refuses before it touches one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

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


class FakeGpu(CupyDevice):
    """A device whose driver keeps what it is asked for."""

    def __init__(self, asked: list[tuple[object, ...]]) -> None:
        driver = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8, funcSetAttribute=lambda *each: asked.append(each)
        )
        self._cupy: Any = SimpleNamespace(cuda=SimpleNamespace(driver=driver))

    @contextmanager
    def current(self, doing: str) -> Iterator[None]:
        """As if."""
        yield

    def synchronize(self) -> None:
        """Nothing to wait for."""


class Kernel:
    """A function of CuPy's with a handle."""

    def __init__(self, handle: int) -> None:
        self.ptr = handle

    def __call__(self, *_: object, **__: object) -> None:
        """As if."""


def handles_that_may_use(shared_bytes: int, allow: Callable[[Any, Any, int], None], launches: int = 2) -> list[object]:
    """Handles for which shared memory was asked, by launches on two devices in turn."""
    asked: list[tuple[object, ...]] = []
    functions = [CupyFunction("f", Kernel(handle), type("Gpu", (FakeGpu,), {"allow_shared_bytes": allow})(asked))
                 for handle in (100, 200)]  # fmt: skip
    for _ in range(launches):
        for function in functions:
            function.launch(grid=(1, 1, 1), block=(1, 1, 1), args=(), shared_bytes=shared_bytes)
    assert all(each[1:] == (8, shared_bytes) for each in asked)
    return [each[0] for each in asked]


def test_shared_memory_is_asked_for_on_every_device() -> None:
    assert handles_that_may_use(98816, CupyDevice.allow_shared_bytes) == [100, 200, 100, 200]
    assert handles_that_may_use(48 * 1024, CupyDevice.allow_shared_bytes) == []


def test_asking_once_in_a_process_leaves_a_device_without() -> None:
    """Bug history of ninfer's pull request 167: the attribute was set once per process."""
    done: set[str] = set()

    def once(device: CupyDevice, function: Any, shared_bytes: int) -> None:
        if "f" not in done:
            CupyDevice.allow_shared_bytes(device, function, shared_bytes)
        done.add("f")

    assert handles_that_may_use(98816, once) == [100]
