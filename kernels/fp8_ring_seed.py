"""Launcher of fp8_ring_seed: a scale ring of the double-buffered stage, filled from the first tensor that it scales."""

import ml_dtypes
import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.fp8_scale_ring import LARGEST, ScaleRing
from tileproof.kernels.launcher import Dimension, Kernel, Launch, Layout, Role, TensorRule, check_tensors
from tileproof.kernels.source import kernel_text
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

NAME = "fp8_ring_seed"
SOURCE = kernel_text(NAME)

BF16 = np.dtype(ml_dtypes.bfloat16)

THREADS = 1024
"""Of the only block; a test compares it with the source."""

_X = TensorRule("x", (BF16,), (Dimension("R"), Dimension("C")), Layout.CONTIGUOUS, Role.INPUT)
_SEED = np.dtype(
    [
        *((name, np.uint64) for name in ("history", "scale", "reciprocal")),
        ("largest", np.float32),
        *((name, np.int32) for name in ("margin", "window")),
    ],
    align=True,
)


class SeedRing:
    """The kernel on one device.

    Args:
        device: where all tensors live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        self._device = device
        self._kernel = Kernel(device, name=NAME, source=source)

    def __call__(self, x: Tensor, ring: ScaleRing) -> Launch:
        """Fill the history and the first pair; the rest of the ring stays.

        Args:
            x: bfloat16 [R, C], contiguous, not empty.
            ring: that keeps reciprocals; its current pair is the first.

        Raises:
            Refusal: an argument is not as described.
            DeviceError: the device failed.
        """
        if x.size == 0:
            raise Refusal(
                f"x has shape {x.shape}: an empty tensor has no maximum to seed a ring with",
                hint="begin with a tensor that has elements",
            )
        if not ring.keeps_reciprocals or ring.current != 0:
            raise Refusal(
                f"a {ring.stage.name} ring whose current pair is {ring.current} is not seeded here",
                hint="take a ring that keeps reciprocals, with pair 0 current",
            )
        ring.check(self._device)
        check_tensors(self._device, (_X, ring.rule), (x, ring.words))
        return self._kernel.launch(
            entry=NAME,
            route=NAME,
            grid=(1, 1, 1),
            block=(THREADS, 1, 1),
            args=(np.uint64(x.address), np.int64(x.size), _structure(ring)),
        )


def _structure(ring: ScaleRing) -> np.void:
    made = np.zeros((), _SEED)
    made["history"] = ring.history.address
    made["scale"] = ring.scale.address
    made["reciprocal"] = ring.multiplier.address
    made["largest"] = LARGEST[ring.target.name]
    made["margin"] = ring.margin
    made["window"] = ring.window
    return np.void(made.tobytes())
