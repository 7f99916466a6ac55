"""What a TMA tensor copy puts where: a box of a tensor, dense in shared memory, then swizzled, the outside filled.

The rows of the box (its innermost dimension) follow each other from the destination on, at a pitch of the row or, under
a swizzle, of the span: a row narrower than the span leaves the rest of its span as it was. Each byte then moves to
`Swizzle.apply(address)` of its absolute address. Elements outside the tensor on either side read as the fill, are
written like any other and count as bytes of the transfer. Example, 64-byte swizzle, box of 32 uint16 × 24 rows at
shared address 0x880: row 1, element 0 has the linear address 0x8C0; bits 8:7 are 01, so it lies at 0x8D0.

Sources, all measured on an H200: tests/golden, h200_tma_2d_u16 (92 copies of rank 2, no swizzle and all three spans,
eight bases, inside and outside the tensor on either side) and h200_tma_boxes (rows narrower than the span, ranks 1 to
3, element sizes, NaN fill, and the requests that the driver or the GPU refused). No manual states the pitch of a narrow
row or the bits of the NaN fill.
"""

from dataclasses import dataclass
from enum import Enum
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.swizzle import CHUNK_BYTES, Swizzle

#: Alignment of a destination in shared memory.
DESTINATION_BYTES = 128

_MAX_BOX = 256
_MAX_RANK = 5
_NAN = bytes((0xF7, 0x7F))

Bytes = npt.NDArray[np.uint8]
Tensor = npt.NDArray[Any]


class Fill(Enum):
    """What an element outside the tensor reads as."""

    ZERO = "zero"
    #: 0x7FF7 in every 16 bits: a quiet NaN of float16, bfloat16 and float32, a signalling NaN of float64.
    NAN = "nan"

    def pattern(self, element_bytes: int) -> bytes:
        """The bytes of one element."""
        return bytes(element_bytes) if self is Fill.ZERO else _NAN * (element_bytes // len(_NAN))


@dataclass(frozen=True, kw_only=True)
class TmaBox:
    """The box of a tensor map, innermost dimension first as in the driver's encoder.

    Raises:
        Refusal: a rank above 5, an extent outside 1 .. 256, a row that is no multiple of 16 bytes or exceeds its
            swizzle span, a NaN fill of one-byte elements, which the driver's encoder refuses as well; or a fill
            that is no `Fill`.
    """

    #: Extents in elements, innermost first.
    extents: tuple[int, ...]
    element_bytes: int
    #: 0, 32, 64 or 128 bytes.
    span_bytes: int = 0
    fill: Fill = Fill.ZERO

    def __post_init__(self) -> None:
        require_member(Fill, "fill", self.fill)
        if not 1 <= len(self.extents) <= _MAX_RANK:
            raise Refusal(f"a box of rank {len(self.extents)}", hint=f"ranks are 1 to {_MAX_RANK}")
        for dimension, extent in enumerate(self.extents):
            if not 1 <= extent <= _MAX_BOX:
                raise Refusal(
                    f"box dimension {dimension} has {extent} elements, the limit is {_MAX_BOX}",
                    hint="split the copy into several boxes",
                )
        if self.row_bytes % CHUNK_BYTES:
            raise Refusal(f"a box row of {self.row_bytes} bytes is no multiple of {CHUNK_BYTES}")
        if self.swizzle.bits and self.row_bytes > self.span_bytes:
            raise Refusal(
                f"a box row of {self.row_bytes} bytes exceeds its swizzle span of {self.span_bytes}",
                hint="split the innermost dimension, or take a wider span",
            )
        if self.fill is Fill.NAN and self.element_bytes < len(_NAN):
            raise Refusal("a NaN fill of one-byte elements", hint="NaN fills take float16, bfloat16, float32, float64")

    @property
    def swizzle(self) -> Swizzle:
        """The address permutation."""
        return Swizzle.tma(self.span_bytes)

    @property
    def row_bytes(self) -> int:
        """Bytes of the innermost dimension."""
        return self.extents[0] * self.element_bytes

    @property
    def pitch_bytes(self) -> int:
        """Bytes from one row to the next in shared memory."""
        return max(self.row_bytes, self.span_bytes)

    @property
    def transfer_bytes(self) -> int:
        """Bytes that a copy writes and its barrier counts, those outside the tensor included."""
        return prod(self.extents) * self.element_bytes

    @property
    def footprint_bytes(self) -> int:
        """Shared memory from the destination to the end of the last row's pitch."""
        return prod(self.extents[1:]) * self.pitch_bytes

    @property
    def linear_offsets(self) -> npt.NDArray[np.int64]:
        """Offset of every transferred byte from the destination before the swizzle, in transfer order."""
        rows = np.arange(prod(self.extents[1:]), dtype=np.int64)[:, np.newaxis] * self.pitch_bytes
        return (rows + np.arange(self.row_bytes)).reshape(-1)


def copy_box(
    memory: Bytes, *, base: int, destination: int, tensor: Tensor, box: TmaBox, corner: tuple[int, ...]
) -> Bytes:
    """Shared memory after one copy from global memory; held to `copy_box_by_element` by the tests.

    Args:
        memory: shared memory before, uint8 [n].
        base: absolute shared address of memory[0].
        destination: absolute shared address that the instruction names.
        tensor: the global tensor, outermost dimension first (numpy order), rank of the box.
        box: extents, innermost first.
        corner: coordinates of the box's first element, innermost first; any may be negative.

    Returns:
        A new array.

    Raises:
        Refusal: a destination that is no multiple of 128 bytes (the GPU: misaligned address), an innermost coordinate
            that is no multiple of 16 bytes (the GPU: illegal instruction), ranks or element sizes that differ, or bytes
            that fall outside `memory`.
    """
    _require_copy(destination, tensor, box, corner)
    chosen = np.empty((*reversed(box.extents), box.element_bytes), np.uint8)
    chosen[...] = np.frombuffer(box.fill.pattern(box.element_bytes), np.uint8)
    source, target = [], []
    for length, extent, start in zip(tensor.shape, reversed(box.extents), reversed(corner), strict=True):
        first, last = max(start, 0), max(min(start + extent, length), max(start, 0))
        source.append(slice(first, last))
        target.append(slice(first - start, last - start))
    inside = np.ascontiguousarray(tensor[tuple(source)])
    chosen[tuple(target)] = inside.view(np.uint8).reshape(*inside.shape, box.element_bytes)
    places = box.swizzle.apply(box.linear_offsets + destination) - base
    _require_inside(int(places.min()), int(places.max()), memory)
    result = memory.copy()
    result[places] = chosen.reshape(-1)
    return result


def copy_box_by_element(
    memory: Bytes, *, base: int, destination: int, tensor: Tensor, box: TmaBox, corner: tuple[int, ...]
) -> Bytes:
    """The definition of `copy_box`, byte by byte; same arguments, result and refusals."""
    _require_copy(destination, tensor, box, corner)
    result = memory.copy()
    outer_positions = product(*(range(extent) for extent in reversed(box.extents[1:])))
    for row, outer in enumerate(outer_positions):
        for column in range(box.extents[0]):
            index = tuple(start + step for start, step in zip(reversed(corner), (*outer, column), strict=True))
            inside = all(0 <= i < length for i, length in zip(index, tensor.shape, strict=True))
            value = tensor[index].tobytes() if inside else box.fill.pattern(box.element_bytes)
            address = destination + row * box.pitch_bytes + column * box.element_bytes
            for byte in range(box.element_bytes):
                place = box.swizzle.apply(address + byte) - base
                _require_inside(place, place, memory)
                result[place] = value[byte]
    return result


def _require_copy(destination: int, tensor: Tensor, box: TmaBox, corner: tuple[int, ...]) -> None:
    if destination < 0 or destination % DESTINATION_BYTES:
        raise Refusal(
            f"destination {destination} is no multiple of {DESTINATION_BYTES} bytes",
            hint=f"align the tile to {max(box.swizzle.atom_bytes, DESTINATION_BYTES)} bytes",
        )
    if not tensor.ndim == len(box.extents) == len(corner):
        raise Refusal(f"tensor of rank {tensor.ndim}, box of {len(box.extents)} and corner of {len(corner)} differ")
    if tensor.itemsize != box.element_bytes:
        raise Refusal(f"tensor elements of {tensor.itemsize} bytes under a box of {box.element_bytes}")
    if corner[0] * box.element_bytes % CHUNK_BYTES:
        raise Refusal(
            f"innermost coordinate {corner[0]} is byte {corner[0] * box.element_bytes} of a row, no multiple of "
            f"{CHUNK_BYTES}",
            hint="start boxes at multiples of 16 bytes; the GPU answers with an illegal instruction",
        )


def _require_inside(first: int, last: int, memory: Bytes) -> None:
    if first < 0 or last >= memory.size:
        raise Refusal(f"the copy reaches bytes {first} to {last} of a memory of {memory.size}")
