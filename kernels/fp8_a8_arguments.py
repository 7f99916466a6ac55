"""What the FP8 product kernels take by value: the structures of fp8_a8_product.cuh and fp8_a8_output.cuh, as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileproof.kernels.tensor import Tensor

PARTS = 4
"""Outputs of the policy Split."""

NOWHERE = 1 << 62
"""The first row of a part that does not exist: past every weight."""

_PRODUCT = np.dtype(
    [
        ("activations", np.uint64),
        ("activation_stride", np.int64),
        ("activation_scales", np.uint64),
        ("weights", np.uint64),
        ("weight_stride", np.int64),
        ("weight_scales", np.uint64),
        ("tokens", np.int64),
        ("rows", np.int64),
        ("depth", np.int64),
    ]
)
_MATRIX = np.dtype([("out", np.uint64), ("stride", np.int64)])
_SPLIT = np.dtype([("out", np.uint64, PARTS), ("stride", np.int64, PARTS), ("begin", np.int64, PARTS)])


@dataclass(frozen=True)
class Operands:
    """The inputs of the product.

    Args:
        codes: e4m3 codes of the activations [T, K], uint8.
        scales: float32 [T].
        weight: e4m3 codes [N, K], uint8.
        weight_scales: bfloat16 [N].
    """

    codes: Tensor
    scales: Tensor
    weight: Tensor
    weight_scales: Tensor

    @property
    def tokens(self) -> int:
        """T."""
        return self.codes.shape[0]

    @property
    def rows(self) -> int:
        """N."""
        return self.weight.shape[0]

    @property
    def depth(self) -> int:
        """K."""
        return self.codes.shape[1]


def product(operands: Operands) -> np.void:
    """The structure Product."""
    values = (
        operands.codes.address,
        operands.codes.strides[0],
        operands.scales.address,
        operands.weight.address,
        operands.weight.strides[0],
        operands.weight_scales.address,
        operands.tokens,
        operands.rows,
        operands.depth,
    )
    return _structure(_PRODUCT, values)


def parameters(policy: str, outputs: Sequence[Tensor], begins: Sequence[int]) -> np.void:
    """The Parameters of an output policy.

    Args:
        policy: its name.
        outputs: what it writes.
        begins: the weight row at which each output begins.
    """
    if policy != "Split":
        return _structure(_MATRIX, (outputs[0].address, outputs[0].strides[0]))
    missing = PARTS - len(outputs)
    return _structure(
        _SPLIT,
        (
            [output.address for output in outputs] + [0] * missing,
            [output.strides[0] for output in outputs] + [0] * missing,
            [*begins] + [NOWHERE] * missing,
        ),
    )


def _structure(dtype: np.dtype[Any], values: tuple[Any, ...]) -> np.void:
    return np.void(np.array(values, dtype).tobytes())
