"""What the TMA kernel of the FP8 product takes before all else: the tensor maps of its two operands.

Both describe rows of K codes, of which one copy takes 64 bytes of each of a tile's rows, swizzled by 64. A token past
the end is a row outside the tensor, which arrives as zeros. The maps are made for every launch and passed by value, so
that nothing outlives it.
"""

import numpy as np

from tileproof.kernels.device import Device, EncodesTensorMaps
from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_selector import TMA
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal

SWIZZLE_BYTES = 64
"""Span of the swizzle, which is one row of a stage: a test compares it with the source."""


def tensor_maps(device: Device, operands: Operands, *, paired: bool) -> np.void:
    """The structure Maps of fp8_a8_gemm_tma.cu: 256 bytes.

    Args:
        device: where the operands live.
        operands: of the product; what the TMA route asks of them is `fp8_a8_selector.obstacle`'s.
        paired: whether a tile's weight rows come from two places, in a box each.

    Raises:
        Refusal: the device makes no tensor maps, or refuses one of these.
    """
    if not isinstance(device, EncodesTensorMaps):
        raise Refusal(f"the device {device.name} makes no tensor maps", hint="choose another route")
    weight_rows = TMA.block_rows // 2 if paired else TMA.block_rows
    activations = _rows_of(device, operands.codes, TMA.block_tokens)
    weights = _rows_of(device, operands.weight, weight_rows)
    return np.void(activations.tobytes() + weights.tobytes())


def _rows_of(device: EncodesTensorMaps, codes: Tensor, box_rows: int) -> np.void:
    rows, depth = codes.shape
    return device.tensor_map(
        codes,
        dtype="uint8",
        shape=(depth, rows),
        strides_bytes=(codes.strides[0],),
        box=(TMA.block_k, box_rows),
        swizzle=SWIZZLE_BYTES,
        fill="zero",
    )
