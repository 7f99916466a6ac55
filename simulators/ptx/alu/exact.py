"""binary64 arithmetic in exact rational numbers: the forms that no numpy operation rounds right.

That is a fused multiply-add, and any rounding but to nearest. Slow, one element at a time, and rare in kernels.
"""

from collections.abc import Callable
from fractions import Fraction
from math import inf, isfinite, nextafter

import numpy as np

from tileproof.simulators.ptx.alu.ieee import Doubles, Rounding

Term = tuple[float, float]
"""A product of two factors; a plain operand x is (x, 1)."""


def round_fraction(value: Fraction, rounding: Rounding) -> float:
    """The binary64 number that a value other than zero rounds to."""
    try:
        nearest = float(value)  # Python rounds a fraction to nearest even, subnormals included
    except OverflowError:
        nearest = inf if value > 0 else -inf
    if rounding is Rounding.NEAREST_EVEN:
        return nearest
    upward = rounding is Rounding.UP or (rounding is Rounding.ZERO and value < 0)
    if isfinite(nearest) and nearest == value:
        return nearest
    beyond = nearest > value if isfinite(nearest) else nearest > 0
    if upward:
        return nearest if beyond else nextafter(nearest, inf)
    return nextafter(nearest, -inf) if beyond else nearest


def _sum(terms: tuple[Term, ...], rounding: Rounding) -> float:
    values = [left * right for left, right in terms]
    factors = [factor for term in terms for factor in term]
    if not all(map(isfinite, factors)):
        # A product of finite factors must not overflow to an infinity that cancels a true one.
        return sum(0.0 if isfinite(left) and isfinite(right) else left * right for left, right in terms)
    exact = sum(Fraction(left) * Fraction(right) for left, right in terms)
    if exact:
        return round_fraction(Fraction(exact), rounding)
    zeros = [np.copysign(1.0, left) * np.copysign(1.0, right) for left, right in terms]
    if len(set(zeros)) == 1 and not any(values):
        return -0.0 if zeros[0] < 0 else 0.0
    return -0.0 if rounding is Rounding.DOWN else 0.0


def _elementwise(function: Callable[..., float], operands: tuple[Doubles, ...]) -> Doubles:
    arrays = np.broadcast_arrays(*operands)
    flat = [function(*elements) for elements in zip(*(array.ravel().tolist() for array in arrays), strict=True)]
    return np.array(flat, np.float64).reshape(arrays[0].shape)


def fused(a: Doubles, b: Doubles, c: Doubles, rounding: Rounding) -> Doubles:
    """a · b + c, rounded once."""
    return _elementwise(lambda x, y, z: _sum(((x, y), (z, 1.0)), rounding), (a, b, c))


def add(a: Doubles, b: Doubles, rounding: Rounding) -> Doubles:
    """a + b, rounded once."""
    return _elementwise(lambda x, y: _sum(((x, 1.0), (y, 1.0)), rounding), (a, b))


def multiply(a: Doubles, b: Doubles, rounding: Rounding) -> Doubles:
    """a · b, rounded once."""
    return _elementwise(lambda x, y: _sum(((x, y),), rounding), (a, b))
