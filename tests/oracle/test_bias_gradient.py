"""The sum of a bias's gradient has one order, and another order has other bits."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.bias_gradient import STRANDS, bias_gradient, column_sum
from tileproof.oracle.formats import BFLOAT16
from tileproof.oracle.refusal import Refusal

BF16 = np.dtype(ml_dtypes.bfloat16)


def bits(values: NDArray[np.generic]) -> NDArray[np.uint16]:
    return values.view(np.uint16)


def defined(g: NDArray[np.generic]) -> NDArray[np.uint16]:
    numbers = [[BFLOAT16.number(int(code)) for code in column] for column in bits(g).T]
    return np.array([column_sum(column) for column in numbers], np.uint16)


@pytest.mark.parametrize("rows", [0, 1, 2, STRANDS - 1, STRANDS, STRANDS + 1, 3 * STRANDS + 5])
def test_all_columns_at_once_have_the_bits_of_the_definition(rows: int) -> None:
    random = np.random.default_rng(rows)
    g = (random.standard_normal((rows, 9)) * 2.0 ** random.uniform(-8, 8, (rows, 9))).astype(BF16)
    if rows > 2:
        g[rows // 2, :4] = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(BF16)
        g[0, 1] = -np.inf
    assert bits(bias_gradient(g)).tolist() == defined(g).tolist()


@pytest.mark.parametrize(("order", "total"), [([0, *range(1, 16), 16], 15.0), ([0, 16, *range(1, 16)], 14.0)])
def test_the_order_of_the_rows_decides_the_sum(order: list[int], total: float) -> None:
    """The docstring's example: the large rows cancel in one strand, or one of them swallows a 1 first."""
    g = np.array([[2.0**24], *[[1.0]] * 15, [-(2.0**24)]]).astype(BF16)
    assert bias_gradient(g[order]).astype(np.float64).tolist() == [total]


def test_zeros_of_either_sign_add_up_to_plus_zero() -> None:
    assert bits(bias_gradient(np.full((5, 2), -0.0).astype(BF16))).tolist() == [0, 0]


@pytest.mark.parametrize("g", [np.zeros((2, 2), np.float32), np.zeros(2, BF16)])
def test_another_type_or_number_of_dimensions_is_refused(g: NDArray[np.generic]) -> None:
    with pytest.raises(Refusal, match="must be bfloat16"):
        bias_gradient(g)
