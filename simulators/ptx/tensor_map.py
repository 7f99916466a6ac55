"""Tensor maps of the CPU device: the driver's rules for them, and 128 bytes of our own that hold one.

`encode` accepts and refuses what `cuTensorMapEncodeTiled` does, in the order of the rules below. The result is passed
to a kernel by value, like the driver's; its bytes are ours: a mark, the fields, and a checksum, so that bytes that are
no tensor map, or one of another device, are recognised when a copy uses them.

The rules come from CUDA 13.0, cuda.h, and were held to the driver on an H200 (docs/evidence, tensor_map.json; a sample
in tests/golden/h200_tensor_map.npz). Where the two differ, the driver wins:

* A box holds at most 233,472 bytes (228 KiB), counted as the product of box[i] // element_strides[i], dimension 0
  included, times the element's bytes. No manual states it. A stride beyond the box makes a factor 0.
* Addresses end below 2^57.
* `box[0]` must be a multiple of 16 bytes with an interleave as well.
* An interleave of 32 bytes takes every swizzle; the manual asks for 32.
* Strides need not cover a row, and may be 0; `shape` and `box` are independent.
* On sm_90 the packed types and the swizzles with chunks of 32 or 64 bytes are refused.
"""

import struct
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from tileproof.oracle.addresses.tensor_map import (
    Interleave,
    Promotion,
    SwizzleMode,
    TensorMapRequest,
    TensorType,
)
from tileproof.oracle.addresses.tma_tile import Fill
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.operation import NotModelled

#: Bytes of a tensor map, and their alignment in memory (PTX ISA, "Tensor-Map").
NBYTES = 128
ALIGNMENT = 64

_FIRST_ARCHITECTURE = 90
_FIRST_PACKED = 100
_ADDRESS_LIMIT = 1 << 57
_SHAPE_LIMIT = 1 << 32
_STRIDE_LIMIT = 1 << 40
_BOX_LIMIT = 256
_ELEMENT_STRIDE_LIMIT = 8
_BOX_BYTES_LIMIT = 228 * 1024
_CHUNK = 16

_MARK = b"tileprTM"
_FIELDS = struct.Struct("<8sIQ6B5I4Q5B5B")
_CHECK_BYTES = NBYTES - _FIELDS.size
_TYPES = {member.number: member for member in TensorType}
_SWIZZLES = {mode.number: mode for mode in SwizzleMode}
_FILLS = (Fill.ZERO, Fill.NAN)


@dataclass(frozen=True)
class TensorMap:
    """A request that passed the rules, and the device that it is for."""

    request: TensorMapRequest
    device_number: int


class NoTensorMap(Exception):
    """Why 128 bytes are no tensor map of this device."""


def check(request: TensorMapRequest, architecture: int) -> None:
    """Hold a request to the driver's rules.

    Args:
        request: what is asked for.
        architecture: compute capability times ten.

    Raises:
        Refusal: the driver answers CUDA_ERROR_INVALID_VALUE; the message says which rule.
        NotModelled: a map of sm_100 or later that the device does not copy with.
    """
    if architecture < _FIRST_ARCHITECTURE:
        raise Refusal(f"a tensor map on sm_{architecture}", hint="tensor maps need sm_90 or later")
    _check_modes(request, architecture)
    granule = 32 if request.interleave is Interleave.BYTES_32 else _CHUNK
    _multiple("address", request.address, granule)
    _within("address", request.address, 0, _ADDRESS_LIMIT - 1)
    for dimension in range(request.rank):
        _within(f"shape[{dimension}]", request.shape[dimension], 1, _SHAPE_LIMIT)
        _within(f"box[{dimension}]", request.box[dimension], 1, _BOX_LIMIT)
        _within(f"element_strides[{dimension}]", request.element_strides[dimension], 1, _ELEMENT_STRIDE_LIMIT)
    for index, stride in enumerate(request.strides_bytes):
        _multiple(f"strides_bytes[{index}]", stride, granule)
        _within(f"strides_bytes[{index}]", stride, 0, _STRIDE_LIMIT - 1)
    _check_box(request)


def _check_modes(request: TensorMapRequest, architecture: int) -> None:
    if request.interleave is not Interleave.NONE and request.rank < 3:
        raise Refusal(f"an interleaved tensor of rank {request.rank}", hint="interleaved tensors have rank 3 to 5")
    if request.fill is Fill.NAN and not request.data_type.is_float:
        raise Refusal(f"a NaN fill of {request.data_type.label} elements", hint="NaN fills take floating-point types")
    name = None
    if request.data_type.packed:
        name = f"elements of type {request.data_type.label}"
    elif not request.swizzle.moves_chunks_of_16:
        name = f"the swizzle {request.swizzle.label}"
    if name is not None and architecture < _FIRST_PACKED:
        raise Refusal(f"{name} on sm_{architecture}", hint=f"they need sm_{_FIRST_PACKED} or later")
    if name is not None:
        raise NotModelled(f"a tensor map with {name} is not modelled", hint="16-byte chunks and whole bytes are")


def _check_box(request: TensorMapRequest) -> None:
    row = request.box[0] * request.data_type.nbytes
    if row % _CHUNK:
        raise Refusal(
            f"box[0] = {request.box[0]} elements of {request.data_type.nbytes} bytes are {row} bytes, no multiple "
            f"of {_CHUNK}"
        )
    span = request.swizzle.span_bytes
    if request.interleave is Interleave.NONE and span and row > span:
        raise Refusal(
            f"a box row of {row} bytes exceeds its swizzle span of {span}",
            hint="split the innermost dimension, or take a wider span",
        )
    total = request.data_type.nbytes
    for extent, step in zip(request.box, request.element_strides, strict=True):
        total *= extent // step
    if total > _BOX_BYTES_LIMIT:
        raise Refusal(
            f"box {request.box} holds {total} bytes, the limit is {_BOX_BYTES_LIMIT}",
            hint="split the copy into several boxes",
        )


def _multiple(name: str, value: int, granule: int) -> None:
    if value % granule:
        raise Refusal(f"{name} = {value:#x} is no multiple of {granule} bytes")


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Refusal(f"{name} = {value} is outside {least} .. {most}")


def encode(request: TensorMapRequest, device_number: int) -> np.void:
    """128 bytes that a kernel takes by value, for a request that passed `check`."""
    pad = 5 - request.rank
    raw = _FIELDS.pack(
        _MARK,
        device_number,
        request.address,
        *(request.data_type.number, request.rank, request.interleave, request.swizzle.number),
        *(_FILLS.index(request.fill), request.promotion),
        *(extent - 1 for extent in request.shape),
        *(0,) * pad,
        *request.strides_bytes,
        *(0,) * (4 - len(request.strides_bytes)),
        *(extent - 1 for extent in request.box),
        *(0,) * pad,
        *request.element_strides,
        *(1,) * pad,
    )
    return np.void(raw + _checksum(raw))


def decode(raw: bytes) -> TensorMap:
    """The map that 128 bytes hold.

    Raises:
        NoTensorMap: they hold none.
    """
    body, check_bytes = raw[: _FIELDS.size], raw[_FIELDS.size :]
    if raw[: len(_MARK)] != _MARK:
        raise NoTensorMap("bytes that are no tensor map")
    if check_bytes != _checksum(body):
        raise NoTensorMap("a tensor map whose bytes were changed")
    _, device, address, kind, rank, interleave, swizzle, fill, promotion, *numbers = _FIELDS.unpack(body)
    shape, strides, box, steps = numbers[:5], numbers[5:9], numbers[9:14], numbers[14:19]
    request = TensorMapRequest(
        data_type=_TYPES[kind],
        address=address,
        shape=tuple(extent + 1 for extent in shape[:rank]),
        strides_bytes=tuple(strides[: rank - 1]),
        box=tuple(extent + 1 for extent in box[:rank]),
        element_strides=tuple(steps[:rank]),
        interleave=Interleave(interleave),
        swizzle=_SWIZZLES[swizzle],
        promotion=Promotion(promotion),
        fill=_FILLS[fill],
    )
    return TensorMap(request, device)


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECK_BYTES).digest()
