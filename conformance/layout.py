"""How a tensor lies in an allocation: red zones, base offset, row padding, and what fills the bytes between.

    | red zone | offset | row 0 | pad | row 1 | pad | row 2 | red zone |

The image of an allocation is a flat uint8 array. An input's image holds a background of the element type: NaN in one
run, the largest finite value in the other, so that a kernel that reads padding changes an output (a maximum that
drops NaN would hide the first alone). An output's image holds poison, one byte pattern a run: a byte that keeps
both poisons was written in neither run, and everything outside the elements must keep its poison.

On a device that knows each allocation's bounds there are no red zones, and the allocation ends with the last element.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.contract import TensorSpec
from tileproof.kernels.device import Buffer, Device
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.formats import source_format

RED_ZONE_BYTES = 512
"""Before and after each tensor; a multiple of every alignment that a base address is asked for."""

POISONS = (0xA5, 0x5A)
"""The output background of each run; the two share no bit, so no constant can pass for both."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """Where one tensor lies in its image.

    Args:
        spec: the tensor.
        lead_bytes: before the first element: red zone and base offset.
        total_bytes: of the whole image.
    """

    spec: TensorSpec
    lead_bytes: int
    total_bytes: int

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements; rows are apart by their length plus the padding, inner dimensions are contiguous."""
        return strides_of(self.spec)

    def background(self, run: int) -> Bytes:
        """The image of an input before its elements are written: NaN, then the largest finite value."""
        item = self.spec.dtype.itemsize
        pattern = np.full(-(-self.total_bytes // item), _filler(self.spec.dtype, run), self.spec.dtype)
        return pattern.view(np.uint8)[: self.total_bytes].copy()

    def poison(self, run: int) -> Bytes:
        """The image of an output before the launch."""
        return np.full(self.total_bytes, POISONS[run], np.uint8)

    def elements(self, image: Bytes) -> NDArray[Any]:
        """The tensor's elements as a strided view into `image`, as unsigned integers of the element's width."""
        width = self.spec.dtype.itemsize
        return np.ndarray(
            self.spec.shape,
            np.dtype(f"u{width}"),
            buffer=image.data,
            offset=self.lead_bytes if 0 not in self.spec.shape else 0,
            strides=tuple(stride * width for stride in self.strides),
        )

    def values(self, image: Bytes) -> NDArray[Any]:
        """A copy of the elements in `image`, contiguous, in their own type."""
        return self.elements(image).copy().view(self.spec.dtype)

    def image(self, values: NDArray[Any], run: int) -> Bytes:
        """The image of an input that holds `values` (the tensor's shape and dtype)."""
        image = self.background(run)
        self.elements(image)[...] = np.ascontiguousarray(values).view(f"u{self.spec.dtype.itemsize}")
        return image

    def owned(self) -> NDArray[np.bool_]:
        """Which bytes of the image belong to elements."""
        image = np.zeros(self.total_bytes, np.uint8)
        elements = self.elements(image)
        elements[...] = np.iinfo(elements.dtype).max
        return np.asarray(image != 0)

    def tensor(self, buffer: Buffer) -> Tensor:
        """The tensor that a launcher takes, in a buffer that holds the image."""
        return Tensor(buffer, self.spec.dtype, self.spec.shape, self.strides, self.lead_bytes)


def has_exact_bounds(device: Device) -> bool:
    """Whether the device itself reports an access outside an allocation: the CPU device does, a GPU does not."""
    return bool(getattr(device, "exact_bounds", device.name == "sim"))


def lay_out(spec: TensorSpec, *, exact_bounds: bool) -> Layout:
    """Place a tensor, with red zones unless the device checks bounds itself."""
    zone = 0 if exact_bounds else RED_ZONE_BYTES
    lead = zone + spec.offset * spec.dtype.itemsize
    span = 0 if 0 in spec.shape else 1 + sum((n - 1) * s for n, s in zip(spec.shape, strides_of(spec), strict=True))
    # NOTE: there is no allocation of nothing, so an empty tensor lies in one of an element.
    return Layout(spec, lead, max(lead + span * spec.dtype.itemsize + zone, spec.dtype.itemsize))


def strides_of(spec: TensorSpec) -> tuple[int, ...]:
    """Strides in elements of a row-major tensor whose rows are followed by `spec.pad` elements."""
    strides = [1]
    for extent in reversed(spec.shape[1:]):
        strides.append(strides[-1] * extent)
    if len(strides) > 1:
        strides[-1] += spec.pad
    return tuple(reversed(strides))


def _filler(dtype: np.dtype[Any], run: int) -> Any:
    if dtype.kind in "iu":
        return (np.iinfo(dtype).min, np.iinfo(dtype).max)[run]
    record = source_format(dtype)
    return (np.nan, float(record.decode(record.max_code)))[run]
