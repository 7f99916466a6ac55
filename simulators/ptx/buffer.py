"""Buffers: what the host sees of the device's global memory."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.machine.bracket_interval import regroup
from tileproof.simulators.ptx.machine.memory import Allocation, GlobalMemory, Mask


class Buffer:
    """A piece of the device's global memory with a shape and a dtype."""

    def __init__(self, allocation: Allocation, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._allocation = allocation
        self.shape = shape
        self.dtype = dtype

    @property
    def address(self) -> int:
        """Device address of the first byte."""
        return self._allocation.base

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return self._allocation.nbytes

    def download(self) -> NDArray[Any]:
        """A copy of the bytes as an array of the buffer's shape and dtype; bytes that nothing wrote read as zero.

        Raises:
            Refusal: the buffer was freed.
        """
        raw = self._live().data[: self.nbytes].copy()
        return raw.view(self.dtype).reshape(self.shape)

    def bracket(self, dtype: DTypeLike | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """The smallest and the largest value that each element may have, in the order of float values.

        The two are equal but for elements that an approximate function left undecided: any value between is right.

        Args:
            dtype: what the elements are, if not the buffer's own type; the result is then flat.

        Raises:
            Refusal: the buffer was freed, its bytes are no whole number of elements, or these have another size than 1,
                2, 4 or 8 bytes.
        """
        kind = self.dtype if dtype is None else np.dtype(dtype)
        size = kind.itemsize
        if self.nbytes % size:
            raise Refusal(f"{self.nbytes} bytes are no whole number of {kind.name}")
        low, high = (self.download().reshape(-1).view(kind) for _ in range(2))
        if dtype is None:
            low, high = low.reshape(self.shape), high.reshape(self.shape)
        if size not in (1, 2, 4, 8):
            raise Refusal(f"a bracket of elements of {size} bytes", hint="view the buffer as numbers of 1, 2, 4 or 8")
        offsets = np.arange(low.size, dtype=np.int64) * size
        interval = self._live().bracket(offsets, size)
        if interval is not None:
            part = regroup(interval, 8 * size, 8 * size)
            for array, codes in ((low, part.low), (high, part.high)):
                array.reshape(-1).view(f"u{size}")[:] = codes.astype(f"u{size}")
        return low, high

    def written(self) -> Mask:
        """For each byte, whether an upload or a kernel wrote all of its bits."""
        allocation = self._live()
        if allocation.written is None:
            return np.ones(self.nbytes, np.bool_)
        whole: Mask = allocation.written[: self.nbytes] == 0xFF
        return whole

    def release(self, memory: GlobalMemory) -> None:
        """Give the bytes back to `memory`.

        Raises:
            Refusal: they were freed before, or belong to another device.
        """
        self.check_owner(memory)
        memory.release(self._live())

    def check_owner(self, memory: GlobalMemory) -> None:
        """Whether the buffer lies in `memory`.

        Raises:
            Refusal: it belongs to another device, whose addresses mean something else here.
        """
        if not self.lies_in(memory):
            raise Refusal(f"the buffer at 0x{self.address:x} belongs to another device", hint="upload it to this one")

    def lies_in(self, memory: GlobalMemory) -> bool:
        """Whether the buffer was allocated in `memory`."""
        return memory.find(self.address) is self._allocation

    def _live(self) -> Allocation:
        if self._allocation.freed:
            raise Refusal(f"the buffer at 0x{self.address:x} was freed", hint="download before free")
        return self._allocation
