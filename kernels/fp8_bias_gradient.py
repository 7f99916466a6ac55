"""Launcher of fp8_bias_gradient: the sums of the columns of a gradient, in the order that its source declares."""

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_a8_selector import ceil_div
from tileproof.kernels.launcher import Dimension, Kernel, Launch, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor

NAME = "fp8_bias_gradient"
SOURCE = kernel_text(NAME)

BF16 = np.dtype(ml_dtypes.bfloat16)

# Constants of the source, which a test compares.
STRANDS = 16
LANES = 32

_ROWS, _COLUMNS = Dimension("R"), Dimension("C")
_RULES = (
    TensorRule("g", (BF16,), (_ROWS, _COLUMNS), Layout.CONTIGUOUS, Role.INPUT),
    TensorRule("out", (BF16,), (_COLUMNS,), Layout.CONTIGUOUS, Role.OUTPUT),
)


class BiasGradient:
    """The kernel on one device.

    Args:
        device: where all tensors live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        self._device = device
        self._kernel = Kernel(device, name=NAME, source=source)

    def __call__(self, g: Tensor, out: Tensor) -> Launch:
        """Add up the columns of g; none of no rows gives +0.

        Args:
            g: bfloat16 [R, C], contiguous.
            out: bfloat16 [C].

        Raises:
            Refusal: an argument is not as described.
            DeviceError: the device failed.
        """
        extents = check_tensors(self._device, _RULES, (g, out))
        return self._kernel.launch(
            entry=NAME,
            route=NAME,
            grid=(ceil_div(extents["C"], LANES), 1, 1),
            block=(STRANDS * LANES, 1, 1),
            args=(np.uint64(g.address), np.int64(extents["R"]), np.int64(extents["C"]), np.uint64(out.address)),
        )
