"""A device whose "kernel" is a Python function over numpy views of its memory: right, or wrong in one way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.ninfer_quantize_cases import DTYPES
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.device import Extent3
from tileproof.oracle.quantize import quantize_rows


@dataclass(frozen=True)
class Rows:
    """What one launch sees: strided views of x, codes and scales, and all memory of the device."""

    x: NDArray[Any]
    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    memory: Mapping[int, NDArray[np.uint8]]


Behaviour = Callable[[Rows], None]


def right(rows: Rows) -> None:
    """The oracle itself."""
    result = quantize_rows(np.ascontiguousarray(rows.x))
    rows.codes[...] = result.codes
    rows.scales[...] = result.scales


@dataclass
class Bytes:
    """A buffer: its own bytes at an address of its own."""

    address: int
    data: NDArray[np.uint8]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return self.data.size

    def download(self) -> NDArray[Any]:
        return self.data.copy().view(self.dtype).reshape(self.shape)


@dataclass
class Report:
    """Nothing to say."""

    findings: Sequence[Any] = ()
    notes: Sequence[object] = ()


@dataclass(eq=False)
class NumpyDevice:
    """Satisfies `tileproof.kernels.device.Device`; runs `behaviour` in place of each entry."""

    behaviour: Behaviour = right
    name: str = "numpy"
    arch: str = "sm_90a"
    memory: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    launches: int = 0
    _next: int = 1 << 20

    def upload(self, array: NDArray[Any]) -> Bytes:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        buffer = Bytes(self._next, data, array.shape, array.dtype)
        self.memory[buffer.address] = data
        self._next += -(-data.size // 4096) * 4096 + 4096
        return buffer

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Bytes:
        return self.upload(np.zeros(shape, dtype))

    def free(self, buffer: Bytes) -> None:
        del self.memory[buffer.address]

    def owns(self, buffer: Bytes) -> bool:
        return buffer.address in self.memory

    def load(self, module: CompiledModule) -> dict[str, "Entry"]:
        names = (f"fp8_quantize_rows_{dtype}_{route}" for dtype in DTYPES for route in ("vector", "scalar"))
        return {name: Entry(self, name) for name in names}

    def view(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...], stride: int) -> NDArray[Any]:
        """A strided view of the memory that holds `address`."""
        base = max(start for start in self.memory if start <= address)
        strides = (stride * dtype.itemsize, dtype.itemsize)[: len(shape)] if len(shape) > 1 else (dtype.itemsize,)
        return np.ndarray(shape, dtype, self.memory[base].data, address - base, strides)


@dataclass(frozen=True)
class Entry:
    """One entry of the kernel."""

    device: NumpyDevice
    name: str

    def launch(
        self,
        *,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Any],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> Report:
        x, x_stride, codes, codes_stride, scales, columns = (int(argument) for argument in args)
        shape = (grid[0], columns)
        dtype = DTYPES[self.name.split("_")[3]]
        view = self.device.view
        self.device.launches += 1
        self.device.behaviour(
            Rows(
                view(x, dtype, shape, x_stride),
                view(codes, np.dtype(np.uint8), shape, codes_stride),
                view(scales, np.dtype(np.float32), shape[:1], 1),
                self.device.memory,
            )
        )
        return Report()
