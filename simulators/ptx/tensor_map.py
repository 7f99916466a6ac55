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
    MAX_RANK,
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

_MARK, _EDITED = b"tileprTM", b"tileprTE"
_FIELDS = struct.Struct("<8sIQ6B5Q4Q5H5B")
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


@dataclass(frozen=True)
class Fields:
    """What a map's bytes say, as numbers that need not make sense: five dimensions, unused ones as zeros.

    Attributes:
        device: number of the device that the map is for.
        address: of the tensor.
        kind: the driver's number of the element type.
        rank: number of dimensions.
        interleave: the driver's number.
        swizzle: the driver's number.
        fill: 1 for NaN.
        promotion: the driver's number.
        shape: elements of each dimension.
        strides: bytes, from dimension 1 on.
        box: elements of each dimension.
        steps: element strides.
        edited: `tensormap.replace` has changed it, so that nobody has held it to the rules.
    """

    device: int
    address: int = 0
    kind: int = 0
    rank: int = 0
    interleave: int = 0
    swizzle: int = 0
    fill: int = 0
    promotion: int = 0
    shape: tuple[int, ...] = (0,) * 5
    strides: tuple[int, ...] = (0,) * 4
    box: tuple[int, ...] = (0,) * 5
    steps: tuple[int, ...] = (0,) * 5
    edited: bool = False

    def pack(self) -> bytes:
        """The 128 bytes."""
        raw = _FIELDS.pack(
            _EDITED if self.edited else _MARK,
            self.device,
            self.address,
            *(self.kind, self.rank, self.interleave, self.swizzle, self.fill, self.promotion),
            *(*self.shape, *self.strides, *self.box, *self.steps),
        )
        return raw + _checksum(raw)

    @classmethod
    def unpack(cls, raw: bytes) -> "Fields":
        """What 128 bytes say.

        Raises:
            NoTensorMap: they are no map.
        """
        body, check_bytes = raw[: _FIELDS.size], raw[_FIELDS.size :]
        if raw[: len(_MARK)] not in (_MARK, _EDITED):
            raise NoTensorMap("bytes that are no tensor map")
        if check_bytes != _checksum(body):
            raise NoTensorMap("a tensor map whose bytes were changed")
        mark, *words = _FIELDS.unpack(body)
        shape, strides, box, steps = (tuple(words[at : at + n]) for at, n in ((8, 5), (13, 4), (17, 5), (22, 5)))
        device, address, kind, rank, interleave, swizzle, fill, promotion = words[:8]
        modes = (kind, rank, interleave, swizzle, fill, promotion)
        return cls(device, address, *modes, shape, strides, box, steps, mark == _EDITED)


def encode(request: TensorMapRequest, device_number: int) -> np.void:
    """128 bytes that a kernel takes by value, for a request that passed `check`."""
    fields = Fields(
        device_number,
        request.address,
        request.data_type.number,
        request.rank,
        request.interleave,
        request.swizzle.number,
        _FILLS.index(request.fill),
        request.promotion,
        shape=_padded(request.shape, 5),
        strides=_padded(request.strides_bytes, 4),
        box=_padded(request.box, 5),
        steps=_padded(request.element_strides, 5),
    )
    return np.void(fields.pack())


def _padded(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    return numbers + (0,) * (count - len(numbers))


def decode(raw: bytes, architecture: int = _FIRST_ARCHITECTURE) -> TensorMap:
    """The map that 128 bytes hold.

    Args:
        raw: the bytes.
        architecture: whose rules an edited map is held to, here where it is used.

    Raises:
        NoTensorMap: they hold none.
        NotModelled: an edited map that the device does not copy with.
    """
    fields = Fields.unpack(raw)
    request = _request(fields)
    if fields.edited:
        try:
            check(request, architecture)
        except NotModelled:
            raise
        except Refusal as refusal:
            raise NoTensorMap(f"an edited tensor map that the driver would refuse: {refusal}") from None
    return TensorMap(request, fields.device)


def _request(fields: Fields) -> TensorMapRequest:
    rank = fields.rank
    if not 1 <= rank <= MAX_RANK:
        raise NoTensorMap(f"an edited tensor map of rank {rank}")
    try:
        return TensorMapRequest(
            data_type=_TYPES[fields.kind],
            address=fields.address,
            shape=fields.shape[:rank],
            strides_bytes=fields.strides[: rank - 1],
            box=fields.box[:rank],
            element_strides=fields.steps[:rank],
            interleave=Interleave(fields.interleave),
            swizzle=_SWIZZLES[fields.swizzle],
            promotion=Promotion(fields.promotion),
            fill=_FILLS[fields.fill],
        )
    except (KeyError, ValueError, IndexError):
        raise NoTensorMap("an edited tensor map with a number that no element type or mode has") from None


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECK_BYTES).digest()
