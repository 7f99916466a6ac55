"""The driver's own encoder of tensor maps, `cuTensorMapEncodeTiled`, called through ctypes.

It runs on the host alone, but needs a current context on a device of sm_90 or later. CuPy does not wrap it.
"""

import ctypes
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from tileproof.oracle.addresses.tensor_map import MAX_RANK, TensorMapRequest
from tileproof.oracle.addresses.tma_tile import Fill
from tileproof.oracle.refusal import Refusal

_LIBRARY = "libcuda.so.1"
_NBYTES, _ALIGNMENT = 128, 64
_FILLS = {Fill.ZERO: 0, Fill.NAN: 1}


def encode(request: TensorMapRequest) -> np.void:
    """The driver's tensor map.

    Raises:
        Refusal: the driver refuses the request, or cannot be loaded.
    """
    result, raw = answer(request)
    if result:
        raise Refusal(
            f"cuTensorMapEncodeTiled answers {result} to {request}",
            hint="the CPU device's tensor_map names the rule that a request breaks",
        )
    return np.void(raw)


def answer(request: TensorMapRequest) -> tuple[int, bytes]:
    """The driver's result, 0 for success, and the 128 bytes."""
    room = ctypes.create_string_buffer(_NBYTES + _ALIGNMENT)
    place = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
    result: int = _encoder()(
        place,
        request.data_type.number,
        request.rank,
        request.address,
        _array(ctypes.c_uint64, request.shape),
        _array(ctypes.c_uint64, request.strides_bytes),
        _array(ctypes.c_uint32, request.box),
        _array(ctypes.c_uint32, request.element_strides),
        int(request.interleave),
        request.swizzle.number,
        int(request.promotion),
        _FILLS[request.fill],
    )
    return result, ctypes.string_at(place, _NBYTES)


def _array(kind: Any, numbers: Iterable[int]) -> Any:
    return (kind * MAX_RANK)(*numbers)


@lru_cache(maxsize=1)
def _encoder() -> Any:
    try:
        function = ctypes.CDLL(_LIBRARY).cuTensorMapEncodeTiled
    except OSError as error:
        raise Refusal(f"the NVIDIA driver cannot be loaded: {error}", hint="use the target sim") from error
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes = [pointer, number, ctypes.c_uint32, *[pointer] * 5, *[number] * 4]
    return function
