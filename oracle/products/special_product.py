"""Which sums of products are not finite, and what they are: the rules of `term.special_sum` for whole matrices.

NaN if a factor is NaN, if 0 meets an infinity, or if infinite terms of both signs are added; otherwise the infinity.
Who meets whom is counted by matrix products of 0, 1 and -1, which float64 does exactly.
"""

import numpy as np
import numpy.typing as npt

from tileproof.oracle.products.operand_integers import FINITE, INFINITE, NAN, OperandIntegers

Flags = npt.NDArray[np.bool_]
Small = npt.NDArray[np.int8]


def special_sums(a: OperandIntegers, b: OperandIntegers) -> npt.NDArray[np.float64]:
    """For each sum over K of a [..., M, K] · b [..., N, K]: ±inf or NaN, and 0 where it is finite."""
    if not a.kinds.any() and not b.kinds.any():
        return np.zeros(_meet(a.signs[..., :0], b.signs[..., :0]).shape)
    a_infinite, b_infinite = a.kinds == INFINITE, b.kinds == INFINITE
    positive, negative = (
        _terms_of_sign(a.signs * a_infinite, b.signs, sign) + _terms_of_sign(a.signs, b.signs * b_infinite, sign) > 0
        for sign in (1, -1)
    )
    invalid = (
        (_meet(a_infinite, _is_zero(b)) + _meet(_is_zero(a), b_infinite) > 0)
        | (a.kinds == NAN).any(-1)[..., :, np.newaxis]
        | (b.kinds == NAN).any(-1)[..., np.newaxis, :]
        | (positive & negative)
    )
    return np.where(invalid, np.nan, np.where(positive, np.inf, np.where(negative, -np.inf, 0.0)))


def _is_zero(operand: OperandIntegers) -> Flags:
    return np.asarray((operand.signs == 0) & (operand.kinds == FINITE))


def _terms_of_sign(a: Small, b: Small, sign: int) -> npt.NDArray[np.float64]:
    """Twice the number of terms of one sign, of the signs of the factors."""
    return _meet(np.abs(a), np.abs(b)) + sign * _meet(a, b)


def _meet(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """A·Bᵀ of small integers or flags."""
    return np.asarray(np.matmul(a.astype(np.float64), np.swapaxes(b, -1, -2).astype(np.float64)))
