"""Operands of mm_fp8 as the kernel takes them: lines of contiguous codes, whatever view they come as.

A view of two inner dimensions has lines along its last dimension if that one's stride is 1, along the other if that
one's is: a transposed view is the same lines under the other layout letter, and nothing is copied. Example: x.t() of a
contiguous x [K, M] is A [M, K] with strides (1, M), lines of M codes, layout letter T.

A first dimension of three is the batch. One of a single matrix, or of stride 0, is the same matrix for every member.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileproof.kernels.launcher import MAX_GRID, Dimension, Layout, Role, TensorRule
from tileproof.kernels.tensor import Tensor, contiguous_strides
from tileproof.oracle.refusal import Refusal

BATCH = Dimension("B", maximum=MAX_GRID[2])
ROWS, COLUMNS = Dimension("M"), Dimension("N")
DEPTH = Dimension("K", minimum=1)


@dataclass(frozen=True)
class Lines:
    """A matrix, or a batch of them, as lines of contiguous elements.

    Args:
        name: the argument's name.
        tensor: as it was given.
        inner: which dimension the lines go along, -1 or -2.
        line_stride: elements from one line to the next.
        matrix_stride: elements from one matrix of the batch to the next; 0 where there is one for all.
    """

    name: str
    tensor: Tensor
    inner: int
    line_stride: int
    matrix_stride: int

    @property
    def batch(self) -> int:
        """Matrices; 1 of a tensor of two dimensions."""
        return batch_of(self.tensor)

    def rule(
        self, dimensions: Sequence[Dimension], dtypes: tuple[np.dtype[Any], ...], role: Role
    ) -> tuple[TensorRule, Tensor]:
        """What is asked of it, as a tensor whose dimensions are in the order of memory.

        Args:
            dimensions: of its two inner dimensions, in its own order.
            dtypes: legal element types.
            role: whether it is read or written.
        """
        shape, strides = self.tensor.shape, self.tensor.strides
        outer = -3 - self.inner
        order = [(strides[outer], shape[outer], dimensions[outer])]
        if len(shape) == 3 and (self.matrix_stride or role is not Role.INPUT):
            order.append((strides[0], shape[0], BATCH))
        order.sort(key=lambda one: -one[0] if one[1] > 1 else 0)
        order.append((strides[self.inner], shape[self.inner], dimensions[self.inner]))
        named = tuple(dimension for _, _, dimension in order)
        rule = TensorRule(self.name, dtypes, named, Layout.ROWS, role)
        extents, steps = tuple(extent for _, extent, _ in order), tuple(stride for stride, _, _ in order)
        if not self.tensor.size:  # nothing lies anywhere
            steps = contiguous_strides(tuple(max(extent, 1) for extent in extents))
        return rule, Tensor(self.tensor.buffer, self.tensor.dtype, extents, steps, self.tensor.offset_bytes)


def batch_of(tensor: Tensor) -> int:
    """Matrices of a tensor of two or three dimensions."""
    return tensor.shape[0] if len(tensor.shape) == 3 else 1


def lines_of(name: str, tensor: Tensor) -> Lines:
    """The lines of an operand.

    Raises:
        Refusal: another number of dimensions, or neither inner dimension is contiguous.
    """
    shape, strides = tensor.shape, tensor.strides
    if len(shape) not in (2, 3):
        raise Refusal(
            f"{name} has {len(shape)} dimensions {shape}; it must have 2 or 3",
            hint="flatten the leading dimensions of one operand into its rows, or all of a batch into one dimension",
        )
    if len(strides) != len(shape):
        raise Refusal(f"{name} has {len(strides)} strides {strides} for {len(shape)} dimensions")
    inner = next((one for one in (-1, -2) if strides[one] == 1), None)
    # NOTE: a dimension of one element takes no step, so its stride may be anything.
    inner = inner or next((one for one in (-1, -2) if shape[one] == 1), None)
    if inner is None:
        raise Refusal(
            f"{name} has strides {strides}; one of its last two must be 1",
            hint="copy it to a contiguous tensor",
        )
    matrix_stride = strides[0] if len(shape) == 3 and shape[0] != 1 else 0
    return Lines(name, tensor, inner, strides[-3 - inner], matrix_stride)


def common_batch(operands: Sequence[Lines]) -> int | None:
    """Matrices of the output; None where every operand has two dimensions.

    Raises:
        Refusal: two operands whose batches differ, neither of them of one matrix.
    """
    if all(len(one.tensor.shape) == 2 for one in operands):
        return None
    first, *others = [one for one in operands if one.batch != 1] or operands[:1]
    for one in others:
        if one.batch != first.batch:
            raise Refusal(
                f"{first.name} has {first.batch} matrices and {one.name} {one.batch}; as many, or one, are legal"
            )
    return first.batch
