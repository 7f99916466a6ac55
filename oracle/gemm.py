"""The route-exact product: A·Bᵀ as a kernel with a declared order computes it, bit for bit.

    >>> order = AccumulationOrder(instruction="wgmma.m64n8k32.f32.e4m3.e4m3", arch="sm_90a", assembler="13.0")
    >>> a = np.full((1, 64), 0x01, np.uint8)              # 64 times 2^-9 ...
    >>> a[0, 0] = 0x7E                                    # ... but 448 first
    >>> b = np.full((1, 64), 0x7E, np.uint8)              # times 448
    >>> gemm(order, a, b), exact_product("e4m3", "e4m3", a, b).values()
    (array([[200704.]], dtype=float32), array([[200759.125]]))

Beside a term with exponent 16 the unit keeps multiples of 2^(16 - 13) = 8: 63 products of 0.875 leave no trace.

This file is the definition: it follows the plan of `accumulation_order`, one instruction after the other. Only the
instruction itself has a compiled twin (`matrix_unit`), and `multiply` chooses between them.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.arguments import require_member
from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.matrix_unit import multiply_add
from tileproof.oracle.products.accumulation_order import AccumulationOrder, Chain, Combination
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.matrix_operands import broadcast_batch
from tileproof.oracle.units.operand import ACCUMULATOR_DTYPES

Matrix = npt.NDArray[Any]


def gemm(
    order: AccumulationOrder,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    multiply: Callable[..., Matrix] = multiply_add,
) -> Matrix:
    """A·Bᵀ in the declared order; K = 0 gives +0.

    Args:
        order: what the kernel does.
        a: raw codes [..., M, K], as `matrix_unit.multiply_add` takes them.
        b: raw codes [..., N, K]. Leading dimensions broadcast.
        multiply: one instruction; `matrix_unit.define` is the definition, in Python integers and slow.

    Returns:
        [..., M, N] accumulators: of the instruction's accumulator type, or float32 where a promotion or a split adds
        float16 accumulators. NaN is 0x7FFFFFFF (0x7FFF as float16).

    Raises:
        Refusal: K is ragged and the order does not fill it, or an operand is not the instruction's or does not
            broadcast.
    """
    x, y = _require_rows(order, a, b)
    depth = order.parsed.shape.k
    parts = order.plan(x.shape[-1])
    x, y = _filled(x, depth), _filled(y, depth)
    batch = broadcast_batch(a=x, b=y)
    zeros = np.zeros((*batch, x.shape[-2], y.shape[-2]), ACCUMULATOR_DTYPES[order.parsed.accumulator])

    def chain(steps: Chain) -> Matrix:
        total = zeros
        for k in steps:
            tiles = x[..., k : k + depth], y[..., k : k + depth]
            total = multiply(order.instruction, *tiles, total, arch=order.arch, assembler=order.assembler)
        return total if order.stays_in_unit else widen(total)

    sums = [reduce(add_nearest, map(chain, part)) for part in parts]
    return combine(order.split_k.combination if order.split_k else Combination.ASCENDING, sums)


def combine(combination: Combination, sums: Sequence[Matrix]) -> Matrix:
    """The sum of the parts of a split."""
    require_member(Combination, "combination", combination)
    match combination:
        case Combination.ASCENDING:
            return reduce(add_nearest, sums)
        case Combination.DESCENDING:
            return reduce(add_nearest, sums[::-1])
        case Combination.PAIRWISE:
            rest = list(sums)
            while len(rest) > 1:
                rest = [x if y is None else add_nearest(x, y) for x, y in zip_longest(rest[0::2], rest[1::2])]
            return rest[0]


def add_nearest(x: Matrix, y: Matrix) -> Matrix:
    """x + y outside the matrix unit: float32 to nearest even with the canonical NaN, or int32 that wraps."""
    with np.errstate(all="ignore"):
        return widen(np.asarray(x + y))


def widen(total: Matrix) -> Matrix:
    """An accumulator as it is added outside the unit: float32 with the canonical NaN, or int32."""
    if total.dtype == np.int32:
        return total
    return np.where(np.isnan(total), np.uint32(FLOAT32.nan_code).view(np.float32), total.astype(np.float32))


def _require_rows(order: AccumulationOrder, a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Matrix, Matrix]:
    """A and B with one K; `matrix_unit` checks the codes of every instruction, but K = 0 has none."""
    x, y = np.asarray(a), np.asarray(b)
    for name, codes, operand in (("a", x, order.parsed.a), ("b", y, order.parsed.b)):
        if codes.dtype != operand.code_dtype:
            raise Refusal(f"{name} has type {codes.dtype}; raw codes of {operand.name} are {operand.code_dtype}")
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise Refusal(
            f"a has shape {x.shape} and b {y.shape}; their last dimensions must be one K",
            hint="a is [..., M, K] and b is [..., N, K]",
        )
    return x, y


def _filled(codes: Matrix, depth: int) -> Matrix:
    """The codes with zeros up to a whole number of instructions; the code 0 is the value 0 in every operand type."""
    missing = -codes.shape[-1] % depth
    return np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)]) if missing else codes
