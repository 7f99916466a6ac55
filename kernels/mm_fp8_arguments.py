"""What mm_fp8 takes by value: the structure Problem of mm_fp8_problem.cuh, as bytes."""

from dataclasses import dataclass

import numpy as np

from tileproof.kernels.mm_fp8_operands import Lines
from tileproof.kernels.tensor import Tensor

_SOURCE = np.dtype([("codes", np.uint64), ("line_stride", np.int64), ("matrix_stride", np.int64)])
_PROBLEM = np.dtype(
    [
        ("a", _SOURCE),
        ("b", _SOURCE),
        ("rows", np.int64),
        ("columns", np.int64),
        ("depth", np.int64),
        ("scale", np.uint64),
        ("bias", np.uint64),
        ("bias_scale", np.uint64),
        ("out_scale", np.uint64),
        ("out", np.uint64),
        ("out_stride", np.int64),
        ("out_matrix_stride", np.int64),
        ("raster_group", np.int64),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Product:
    """The tensors of a call.

    Args:
        a: [M, K], or a batch of them.
        b: [K, N], or a batch of them.
        out: [M, N], or a batch of them.
        scale: float32 scalar.
        bias: [N]; None for none.
        bias_scale: float32 scalar, of an FP8 bias.
        out_scale: float32 scalar, of an FP8 output.
    """

    a: Lines
    b: Lines
    out: Lines
    scale: Tensor
    bias: Tensor | None
    bias_scale: Tensor | None
    out_scale: Tensor | None

    @property
    def extents(self) -> tuple[int, int, int]:
        """M, N, K."""
        rows, depth = self.a.tensor.shape[-2:]
        return rows, self.b.tensor.shape[-1], depth


def problem(product: Product, raster_group: int) -> np.void:
    """The structure Problem."""
    values = (
        _source(product.a),
        _source(product.b),
        *product.extents,
        *(_address(one) for one in (product.scale, product.bias, product.bias_scale, product.out_scale)),
        product.out.tensor.address,
        product.out.line_stride,
        product.out.matrix_stride,
        raster_group,
    )
    return np.void(np.array(values, _PROBLEM).tobytes())


def _source(lines: Lines) -> tuple[int, int, int]:
    return lines.tensor.address, lines.line_stride, lines.matrix_stride


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.address
