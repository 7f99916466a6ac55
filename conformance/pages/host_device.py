"""The host as a device: memory of this process, for Python callables. It loads no kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.device import Array, Function
from tileproof.oracle.refusal import Refusal

ALIGNMENT_BYTES = 256
"""Of every buffer, as a GPU's allocations have it."""


@dataclass(eq=False)
class HostBuffer:
    """One allocation.

    Args:
        memory: its bytes.
        shape: extents, outermost first.
        dtype: element type.
    """

    memory: NDArray[np.uint8]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.memory.size

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(self.memory.ctypes.data)

    def download(self) -> Array:
        """A copy of the contents."""
        return self.memory.copy().view(self.dtype).reshape(self.shape)


class HostDevice:
    """Satisfies `tileproof.kernels.device.Device`.

    Args:
        arch: architecture that contracts with rules of one are judged by.
    """

    name = "host"

    def __init__(self, arch: str) -> None:
        self.arch = arch

    def upload(self, array: Array) -> HostBuffer:
        """A buffer that holds a copy of `array`."""
        memory = _aligned(array.nbytes)
        memory[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return HostBuffer(memory, array.shape, array.dtype)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostBuffer:
        """A buffer of undefined contents."""
        kind = np.dtype(dtype)
        return HostBuffer(_aligned(int(np.prod(shape, dtype=np.int64)) * kind.itemsize), tuple(shape), kind)

    def free(self, buffer: HostBuffer) -> None:
        """Nothing: the memory goes with its last user."""

    def load(self, module: CompiledModule) -> Mapping[str, Function]:
        """Refused. Raises: Refusal."""
        raise Refusal(f"{module.name} is a kernel file, which the host does not run", hint="use the target sim or gpu")


def _aligned(nbytes: int) -> NDArray[np.uint8]:
    roomy = np.zeros(nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -roomy.ctypes.data % ALIGNMENT_BYTES
    return roomy[start : start + nbytes]
