"""Device memory of other libraries as tensors of ours, and back, by DLPack: no copy, no wait.

Whoever brings a tensor promises that the work which wrote it and our launches go to one stream: the producer is asked
for no synchronisation, since it would record an event on another stream than the caller may be capturing.
"""

from typing import Any, Protocol

import numpy as np

from tileproof.kernels.cupy_device import CupyBuffer, CupyDevice
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

BYTE = np.dtype(np.uint8)


class SpeaksDlpack(Protocol):
    """What a library's tensor must have; see the Python array API standard, "Data interchange"."""

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule."""

    def __dlpack_device__(self) -> tuple[Any, int]:
        """Kind and number of the device."""


class _OnOneStream:
    """A producer that is told to synchronise nothing: stream -1 of the standard."""

    def __init__(self, tensor: SpeaksDlpack) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**{**options, "stream": -1})

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._tensor.__dlpack_device__()


def imported(device: CupyDevice, raw: SpeaksDlpack, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """A tensor of ours over another library's memory, which lives as long as the tensor does.

    Args:
        device: the GPU that the memory is on.
        raw: its bytes, uint8, contiguous: DLPack and CuPy need not know the element type.
        shape: extents of the elements.
        dtype: element type.

    Raises:
        Refusal: the bytes are not as many as the elements take, or not contiguous bytes.
    """
    import cupy

    array = cupy.from_dlpack(_OnOneStream(raw))
    if array.dtype != BYTE or not array.flags.c_contiguous:
        raise Refusal(f"the memory is {array.dtype} with strides {array.strides}; it must be contiguous bytes")
    buffer = CupyBuffer(device, array.data if array.size else None, shape, dtype)
    if buffer.nbytes != array.nbytes:
        raise Refusal(f"{array.nbytes} bytes are given; {dtype.name} {shape} takes {buffer.nbytes}")
    return Tensor.whole(buffer)


def exported(tensor: Tensor) -> Any:
    """A whole tensor as a CuPy array of its bytes [n], which other libraries take by DLPack.

    Raises:
        Refusal: a view, or a tensor that does not lie on a GPU.
    """
    import cupy

    buffer = tensor.buffer
    if not isinstance(buffer, CupyBuffer) or Tensor.whole(buffer) != tensor:
        raise Refusal("only a whole tensor on a GPU is exported", hint="export the buffer, and take a view there")
    return cupy.ndarray((buffer.nbytes,), BYTE, memptr=buffer.memory)
