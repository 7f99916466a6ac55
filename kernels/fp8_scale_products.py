"""Launcher of fp8_scale_products: up to three float32 scalars, each a product of two or a copy of one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.launcher import Dimension, Kernel, Launch, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

NAME = "fp8_scale_products"
SOURCE = kernel_text(NAME)

F32 = np.dtype(np.float32)

MOST = 3
"""Scalars of a launch; a test compares it with the source."""

_ONE = Dimension("one", minimum=1, maximum=1)
_PLACES = (np.uint64, (MOST,))
_SCALARS = np.dtype([("first", *_PLACES), ("second", *_PLACES), ("out", *_PLACES)])


@dataclass(frozen=True)
class Scalar:
    """One scalar to make.

    Args:
        out: float32 [1].
        first: float32 [1].
        second: float32 [1], by which it is multiplied; None for a copy.
    """

    out: Tensor
    first: Tensor
    second: Tensor | None = None


class ScaleProducts:
    """The kernel on one device.

    Args:
        device: where all tensors live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        self._device = device
        self._kernel = Kernel(device, name=NAME, source=source)

    def __call__(self, scalars: Sequence[Scalar]) -> Launch:
        """Make the scalars.

        Raises:
            Refusal: too many, one that is no float32 scalar, or an output that overlaps another argument.
            DeviceError: the device failed.
        """
        if not 0 < len(scalars) <= MOST:
            raise Refusal(f"there are {len(scalars)} scalars to make; a launch takes 1 to {MOST}")
        listed = [
            (TensorRule(f"{name} of scalar {number}", (F32,), (_ONE,), Layout.CONTIGUOUS, role), tensor)
            for number, one in enumerate(scalars)
            for name, role, tensor in (
                ("out", Role.OUTPUT, one.out),
                ("first", Role.INPUT, one.first),
                ("second", Role.INPUT, one.second),
            )
            if tensor is not None
        ]
        check_tensors(self._device, [rule for rule, _ in listed], [tensor for _, tensor in listed])
        return self._kernel.launch(entry=NAME, route=NAME, grid=(1, 1, 1), block=(1, 1, 1), args=(_structure(scalars),))


def _structure(scalars: Sequence[Scalar]) -> np.void:
    made = np.zeros((), _SCALARS)
    for number, one in enumerate(scalars):
        made["first"][number] = one.first.address
        made["second"][number] = 0 if one.second is None else one.second.address
        made["out"][number] = one.out.address
    return np.void(made.tobytes())
