"""Where the elements of one box lie: in the tensor, and in shared memory.

A box is a list of rows, its innermost dimension, in transfer order: dimension 1 runs fastest. Rows that lie outside the
tensor in an outer dimension are outside as a whole; of the others the same columns are inside. Example: uint8, shape
(100, 8), box (64, 4), corner (80, -1): four rows of 64 bytes; row 0 is outside, of rows 1 to 3 bytes 0 to 19 are
inside, from byte 80 of the tensor's rows 0 to 2 on.

An element stride of s walks every s-th index of its dimension, from the corner on; that of dimension 0 is ignored.
Rows follow each other in shared memory at the pitch of `oracle.addresses.tma_tile`; chunks of 16 bytes move by the
swizzle of their absolute address. Measured on an H200: tests/golden, h200_tensor_copies.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from tileproof.oracle.addresses.tensor_map import TensorMapRequest
from tileproof.oracle.swizzle import CHUNK_BYTES, Swizzle
from tileproof.simulators.ptx.machine.memory import Lanes


@dataclass(frozen=True)
class Box:
    """The box of a tensor map at one corner.

    Attributes:
        tensor: the map's fields; not interleaved.
        corner: coordinates of the first element, innermost first.
    """

    tensor: TensorMapRequest
    corner: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of each dimension that are moved."""
        tensor = self.tensor
        outer = zip(tensor.box[1:], tensor.element_strides[1:], strict=True)
        return (tensor.box[0], *(-(-extent // step) for extent, step in outer))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, a multiple of 16."""
        return self.tensor.box[0] * self.tensor.data_type.nbytes

    @property
    def rows(self) -> int:
        """Number of rows."""
        return prod(self.counts[1:])

    @property
    def nbytes(self) -> int:
        """Bytes that a copy moves and its barrier counts, those outside the tensor included."""
        return self.rows * self.row_bytes

    def chunks(self, address: int) -> Lanes:
        """Shared address of every 16 bytes of the transfer, in transfer order.

        Args:
            address: of the box in shared memory.
        """
        pitch = max(self.row_bytes, self.tensor.swizzle.span_bytes)
        rows = address + np.arange(self.rows, dtype=np.int64)[:, np.newaxis] * pitch
        linear = (rows + np.arange(0, self.row_bytes, CHUNK_BYTES)).reshape(-1)
        return Swizzle.tma(self.tensor.swizzle.span_bytes).apply(linear).astype(np.int64)

    def inside(self) -> "Inside":
        """The part of the box that lies in the tensor."""
        size = self.tensor.data_type.nbytes
        first = min(max(-self.corner[0], 0), self.tensor.box[0])
        last = max(min(self.tensor.shape[0] - self.corner[0], self.tensor.box[0]), first)
        rows, offsets = self._rows_inside()
        if first == last:
            rows = offsets = np.zeros(0, np.int64)
        start = self.tensor.address + (self.corner[0] + first) * size
        return Inside(rows, (offsets + start).astype(np.int64), first * size, (last - first) * size)

    def _rows_inside(self) -> tuple[Lanes, Lanes]:
        """Numbers of the rows inside the tensor, and their byte offsets from the tensor's start."""
        good, offsets = np.ones(1, np.bool_), np.zeros(1, np.int64)
        fields = (self.counts[1:], self.tensor.element_strides[1:], self.corner[1:], self.tensor.shape[1:])
        for count, step, start, extent, stride in zip(*fields, self.tensor.strides_bytes, strict=True):
            index = start + step * np.arange(count, dtype=np.int64)
            here = (index >= 0) & (index < extent)
            places = np.where(here, index, 0) * stride
            good = (here[:, np.newaxis] & good).reshape(-1)
            offsets = (places[:, np.newaxis] + offsets).reshape(-1)
        rows = np.flatnonzero(good)
        return rows, offsets[rows]


@dataclass(frozen=True)
class Inside:
    """What of a box lies in the tensor: the same columns of some rows.

    Attributes:
        rows: numbers of the rows, ascending.
        addresses: global address of each row's first byte inside.
        start: bytes from a row's start to there.
        nbytes: bytes of each row.
    """

    rows: Lanes
    addresses: Lanes
    start: int
    nbytes: int

    def places(self, row_bytes: int) -> Lanes:
        """Indices in the transfer of every byte inside, row after row."""
        starts = self.rows[:, np.newaxis] * row_bytes + self.start
        return (starts + np.arange(self.nbytes)).reshape(-1)
