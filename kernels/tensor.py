"""A view into a device buffer: element type, extents, strides and where it begins.

Strides count elements and the offset counts bytes, so that a view may begin at any byte: whether a kernel can take it
is for its launcher to say. Python integers do not overflow, hence addresses past 2^31 elements are plain arithmetic.

Example: rows of 129 bf16 values padded to 132, from the second element on: shape (3, 129), strides (132, 1),
offset_bytes 2; its span is (2 * 132 + 128 + 1) * 2 = 786 bytes.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tileproof.kernels.device import Buffer
from tileproof.oracle.arguments import whole


@dataclass(frozen=True)
class Tensor:
    """A strided view; that its numbers are whole is all that is checked before a launch.

    Args:
        buffer: the allocation.
        dtype: element type, which need not be the buffer's.
        shape: extents, outermost first.
        strides: elements from one index to the next, per dimension.
        offset_bytes: from the buffer's first byte to the first element.

    Raises:
        Refusal: an extent, a stride or the offset is no whole number.
    """

    buffer: Buffer
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset_bytes: int = 0

    def __post_init__(self) -> None:
        # NOTE: numpy's integers wrap at their width: 65,536 rows of 65,536 elements, as int32, would be no element.
        object.__setattr__(self, "shape", tuple(whole("an extent", extent) for extent in self.shape))
        object.__setattr__(self, "strides", tuple(whole("a stride", stride) for stride in self.strides))
        object.__setattr__(self, "offset_bytes", whole("offset_bytes", self.offset_bytes))

    @classmethod
    def whole(cls, buffer: Buffer) -> "Tensor":
        """The buffer as it was allocated: contiguous, its own shape and element type."""
        return cls(buffer, buffer.dtype, buffer.shape, contiguous_strides(buffer.shape))

    @property
    def address(self) -> int:
        """Device address of the first element."""
        return self.buffer.address + self.offset_bytes

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element's to the end of the last one's, for strides that are not negative."""
        if self.size == 0:
            return 0
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.itemsize


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements: (T, K) has (K, 1)."""
    return tuple(prod(shape[dimension + 1 :]) for dimension in range(len(shape)))
