"""The exact product of two matrices of codes, A·Bᵀ, in integers: what every kernel is measured against.

A finite code is a whole multiple of its format's smallest step, so a product of two codes is a whole multiple of the
product of the steps, and a sum of products is an integer in that unit:

    types        unit     largest product           largest K in int64    largest K in float64
    e4m3 e4m3    2^-18    448² = 2^35.6 units       175,304,787           171,196
    e5m2 e5m2    2^-32    57344² = 2^63.6 units     none: one fills it    none
    s8   s8      1        128² = 2^14 units         2^49 - 1              2^39

Worked example, e4m3: 448 is 229,376 · 2^-9, so 448 · 448 is 52,613,349,376 · 2^-18, and 2^53 / 52,613,349,376 is
171,196.08: float64 holds every partial sum of 171,196 such products, in whatever order they are added, and no more.

`exact_dot` is the definition, on exact numbers; `exact_product` takes whole matrices (`integer_matrix`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.formats import FLOAT32
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.numbers.rounding import Overflow, Rounding
from tileproof.oracle.products.integer_matrix import FLOAT64_EXACT, multiply_integers
from tileproof.oracle.products.operand_integers import operand_type, read_rows
from tileproof.oracle.products.special_product import special_sums
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.matrix_operands import broadcast_batch
from tileproof.oracle.units.term import decode_operand, special_sum


@dataclass(frozen=True, eq=False)
class ExactProduct:
    """Exact sums of products, [..., M, N]."""

    #: In units of 2^step: int64 where no sum of K such products can leave it, otherwise Python integers (dtype object).
    units: npt.NDArray[Any]
    #: Exponent of the unit.
    step: int
    #: float64: ±inf or NaN where an operand makes the sum so, and 0 where the sum is `units`.
    special: npt.NDArray[np.float64]
    #: The largest magnitude that any sum of K products of these types can have, in units.
    limit: int

    def values(self) -> npt.NDArray[np.float64]:
        """The sums as float64, exactly.

        Raises:
            Refusal: K products of these types can leave the integers that float64 holds.
        """
        if self.limit > FLOAT64_EXACT:
            raise Refusal(
                f"K such products can sum to {self.limit} units of 2^{self.step}; "
                f"float64 holds every integer only to {FLOAT64_EXACT}",
                hint="use the integers in `units`, or `rounded`",
            )
        return np.asarray(np.ldexp(self.units.astype(np.float64), self.step) + self.special)

    def rounded(self, rounding: Rounding = Rounding.NEAREST_EVEN) -> npt.NDArray[np.float32]:
        """The sums as float32, rounded once."""
        return np.asarray(round_units(self.units, self.step, rounding) + self.special.astype(np.float32))


def exact_dot(a_type: str, b_type: str, a: Sequence[int], b: Sequence[int]) -> Number:
    """The definition: the exact sum of products of two rows of raw codes (values of an integer type).

    NaN if a factor is NaN, if 0 meets an infinity, or if infinite terms of both signs are added; a zero sum is +0.
    """
    x_type, y_type = operand_type(a_type), operand_type(b_type)
    if x_type.record is None or y_type.record is None:
        return Number.of(sum(x * y for x, y in zip(a, b, strict=True)))
    products = [decode_operand(x_type, x) * decode_operand(y_type, y) for x, y in zip(a, b, strict=True)]
    if special := special_sum(products):
        return Number(special.kind, special.negative)
    return Number.of(sum((product.value for product in products), Fraction(0)))


def exact_product(a_type: str, b_type: str, a: npt.ArrayLike, b: npt.ArrayLike) -> ExactProduct:
    """A·Bᵀ, exactly.

    Args:
        a_type: operand type of A by its name in an instruction, for example "e4m3", "e5m2", "f16" or "s8".
        b_type: operand type of B.
        a: raw codes [..., M, K] of the type's code type (values of an integer type). K = 0 gives zeros.
        b: raw codes [..., N, K]. Leading dimensions broadcast.

    Raises:
        Refusal: a type whose integers are wider than 62 bits (bf16, tf32, f32, f64), or operands that do not fit.
    """
    x, y = read_rows("a", operand_type(a_type), a), read_rows("b", operand_type(b_type), b)
    depth = x.integers.shape[-1]
    if y.integers.shape[-1] != depth:
        raise Refusal(
            f"a has K = {depth}, but b has K = {y.integers.shape[-1]}", hint="a is [..., M, K] and b is [..., N, K]"
        )
    broadcast_batch(a=x.integers, b=y.integers)
    return ExactProduct(
        units=multiply_integers(x.integers, y.integers, x.largest, y.largest),
        step=x.step + y.step,
        special=special_sums(x, y),
        limit=depth * x.largest * y.largest,
    )


def round_units(units: npt.NDArray[Any], step: int, rounding: Rounding) -> npt.NDArray[np.float32]:
    """units · 2^step as float32, rounded once; the unit is at least 2^-48, so that no result is subnormal."""
    whole, places = (units, 0) if units.dtype == np.int64 else _narrowed(units)
    codes = FLOAT32.encode(whole, rounding=rounding, overflow=Overflow.INF)
    return np.asarray(np.ldexp(codes.view(np.float32), places + np.int64(step)))


def _narrowed(units: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Python integers as int64 · 2^places; the lowest bit says whether anything below it was lost.

    62 bits are kept, so that a rounding to 24 bits sees on which side of a boundary the integer lies.
    """
    places = np.frompyfunc(lambda unit: max(0, unit.bit_length() - 62), 1, 1)(units)
    kept = units >> places
    kept = kept | ((kept << places) != units)
    return np.asarray(kept, np.int64), np.asarray(places, np.int64)
