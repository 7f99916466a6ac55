"""Launcher of fp8_quantize_rows: rows of bf16, f16 or f32 to e4m3 codes and one float32 scale a row.

The rule is written at the head of fp8_quantize_rows.cu. Two routes give the same bits: "vector" takes eight elements a
thread and step and needs aligned rows, "scalar" takes any rows that are legal for the element type.
"""

from importlib import resources

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_architecture import check_fp8
from tileproof.kernels.launcher import (
    MAX_GRID,
    Dimension,
    Kernel,
    Launch,
    Layout,
    Role,
    TensorRule,
    check_tensors,
    is_aligned,
)
from tileproof.kernels.tensor import Tensor

NAME = "fp8_quantize_rows"
SOURCE = resources.files("tileproof.kernels").joinpath(f"{NAME}.cu").read_text()

VECTOR = "vector"
SCALAR = "scalar"

# Constants of the source, which a test compares.
THREADS = 256
LOAD_BYTES = 16
STORE_BYTES = 8
KEPT_BYTES = 36 * 1024

ELEMENTS = {
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
}
"""Element types of x, and how entry names spell them."""

_TOKENS = Dimension("T", maximum=MAX_GRID[0])
_COLUMNS = Dimension("K", minimum=1)

RULES = (
    TensorRule("x", tuple(ELEMENTS), (_TOKENS, _COLUMNS), Layout.ROWS, Role.INPUT),
    TensorRule("codes", (np.dtype(np.uint8),), (_TOKENS, _COLUMNS), Layout.ROWS, Role.OUTPUT),
    TensorRule("scales", (np.dtype(np.float32),), (_TOKENS,), Layout.CONTIGUOUS, Role.OUTPUT),
)


class QuantizeRows:
    """The kernel on one device.

    Args:
        device: where x, codes and scales live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.

    Raises:
        Refusal: the device's architecture has no FP8.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        check_fp8(device.arch, "conversions")
        self._kernel = Kernel(device, name=NAME, source=source)

    def __call__(self, x: Tensor, codes: Tensor, scales: Tensor) -> Launch:
        """Quantise every row of x.

        Args:
            x: [T, K] bfloat16, float16 or float32; a row stride of at least K elements.
            codes: [T, K] uint8, written; a row stride of at least K elements.
            scales: [T] float32, written; contiguous.

        Raises:
            Refusal: an argument is not as described, or an output overlaps another argument.
            DeviceError: the device failed.
        """
        extents = check_tensors(self._kernel.device, RULES, (x, codes, scales))
        route = select_route(x, codes)
        return self._kernel.launch(
            entry=f"{NAME}_{ELEMENTS[x.dtype]}_{route}",
            route=route,
            grid=(extents["T"], 1, 1),
            block=(THREADS, 1, 1),
            args=(
                np.uint64(x.address),
                np.int64(x.strides[0]),
                np.uint64(codes.address),
                np.int64(codes.strides[0]),
                np.uint64(scales.address),
                np.int64(extents["K"]),
            ),
        )


def select_route(x: Tensor, codes: Tensor) -> str:
    """ "vector" if every row of x begins at a 16-byte and every row of codes at an 8-byte boundary, else "scalar"."""
    return VECTOR if is_aligned(x, LOAD_BYTES) and is_aligned(codes, STORE_BYTES) else SCALAR
