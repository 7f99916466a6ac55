"""Launcher of e4m3_gemm: A·Bᵀ of e4m3 codes, exactly or as a matrix unit of sm_90 computes it, in plain integers.

The rules are written at the head of e4m3_gemm.cu. The definitions are `oracle.exact_product` and `oracle.gemm`; this
twin judges matrices that take too long in numpy.
"""

from enum import Enum
from importlib import resources

import numpy as np

from tileproof.kernels.device import Device
from tileproof.kernels.launcher import (
    MAX_GRID,
    Dimension,
    Kernel,
    Launch,
    Layout,
    Role,
    TensorRule,
    check_tensors,
)
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.products.accumulation_order import AccumulationOrder, KOrder
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Family, Shape

NAME = "e4m3_gemm"
SOURCE = resources.files("tileproof.kernels.reference").joinpath(f"{NAME}.cu").read_text()

# Constants of the source, which a test compares.
TILE = 16
DEPTH = 32

UNIT_EXPONENT = -18
"""The exact sum counts 2^-18, the square of the smallest e4m3 value."""

NOT_A_NUMBER = np.iinfo(np.int64).min
"""What the exact sum is where a NaN takes part."""

MAX_DEPTH = (2**63 - 1) // (448**2 * 2**18)
"""The largest K whose exact sum int64 holds whatever the codes are."""


class Arithmetic(Enum):
    """What is computed; the value names the entry."""

    EXACT = "exact"
    #: wgmma on sm_90.
    WGMMA_SM90 = "wgmma_sm90"
    #: mma m16n8k32 on sm_90, expanded by ptxas 12.8 to 13.0.
    MMA_SM90 = "mma_sm90"
    #: The same, expanded by ptxas 12.4 and 12.6.
    MMA_SM90_EARLY = "mma_sm90_early"

    @property
    def result(self) -> np.dtype[np.int64] | np.dtype[np.float32]:
        """Element type of the output."""
        return np.dtype(np.int64) if self is Arithmetic.EXACT else np.dtype(np.float32)


_ROWS = Dimension("M", maximum=MAX_GRID[1] * TILE)
_COLUMNS = Dimension("N", maximum=MAX_GRID[0])
_DEPTH = Dimension("K", maximum=MAX_DEPTH)
_CODES = (np.dtype(np.uint8),)


class E4m3Gemm:
    """The twin on one device.

    Args:
        device: where a, b and out live.
        source: CUDA C++ text; another one than the shipped is for seeding faults.
    """

    def __init__(self, device: Device, *, source: str = SOURCE) -> None:
        self._kernel = Kernel(device, name=NAME, source=source)

    def __call__(self, arithmetic: Arithmetic, a: Tensor, b: Tensor, out: Tensor) -> Launch:
        """Compute A·Bᵀ; K = 0 writes zeros.

        Args:
            arithmetic: what is computed.
            a: e4m3 codes [M, K], uint8; a row stride of at least K.
            b: e4m3 codes [N, K], uint8; a row stride of at least K.
            out: [M, N] int64 (exact, units of 2^-18) or float32, written; a row stride of at least N.

        Raises:
            Refusal: an argument is not as described, or out overlaps another argument.
            DeviceError: the device failed.
        """
        rules = (
            TensorRule("a", _CODES, (_ROWS, _DEPTH), Layout.ROWS, Role.INPUT),
            TensorRule("b", _CODES, (_COLUMNS, _DEPTH), Layout.ROWS, Role.INPUT),
            TensorRule("out", (arithmetic.result,), (_ROWS, _COLUMNS), Layout.ROWS, Role.OUTPUT),
        )
        extents = check_tensors(self._kernel.device, rules, (a, b, out))
        return self._kernel.launch(
            entry=f"{NAME}_{arithmetic.value}",
            route=arithmetic.value,
            grid=(-(-extents["N"] // TILE), -(-extents["M"] // TILE), 1),
            block=(TILE, TILE, 1),
            args=(
                *(argument for t in (a, b, out) for argument in (np.uint64(t.address), np.int64(t.strides[0]))),
                *(np.int64(extents[name]) for name in "MNK"),
            ),
        )


def twin_of(order: AccumulationOrder) -> Arithmetic:
    """The arithmetic that computes a declared order.

    Raises:
        Refusal: this kernel has no such twin.
    """
    parsed = order.parsed
    chained = order.stays_in_unit and order.k_order is KOrder.ASCENDING and order.arch in ("sm_90", "sm_90a")
    if chained and parsed.operands == ("e4m3", "e4m3") and parsed.accumulator == "f32":
        if parsed.family is Family.WGMMA:
            return Arithmetic.WGMMA_SM90
        if parsed.family is Family.MMA and parsed.shape == Shape(16, 8, DEPTH):
            early = order.assembler in ("12.4", "12.6")
            return Arithmetic.MMA_SM90_EARLY if early else Arithmetic.MMA_SM90
    raise Refusal(
        f"{NAME} has no twin of {order.instruction} on {order.arch} with promotion {order.promotion}, "
        f"split {order.split_k} and k {order.k_order.value}",
        hint="it has e4m3 with float32 accumulators on sm_90, wgmma and mma m16n8k32, as one ascending chain",
    )
