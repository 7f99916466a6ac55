"""A proven bound on what a matrix unit may lose, for a kernel whose order of accumulation is not known.

Known are the instruction (so the unit, its group size L and its fraction bits F), the most chains of instructions whose
results are added outside the unit, and the most products in one chain. Free are the order of K, which products share a
group, and in which order chains are added.

The proof follows one number, the magnitude that is still *held*: the sum of the magnitudes of all products not yet used
and of all accumulators alive. Call it V. It begins at W, the sum over k of |a'|·|b'|, where x' is x with a subnormal
raised to the smallest normal value, because a unit aligns a subnormal by that exponent. So every term that will ever be
aligned, product or accumulator, has 2^exponent <= V, and every step loses a share of V:

1. *Cutting.* A term loses less than 2^(largest - F) and its magnitude only shrinks, so V falls by what is lost. The
   term with the largest exponent loses nothing (F is no less than the fraction bits of any term), and it is held while
   the others are cut: each of them loses less than the share 2^-F of what is left. A group of L products and C has at
   most L losses.
2. *Converting by cutting* keeps so many fraction bits: one loss of less than the share 2^-kept_bits, and V falls by it.
3. *Rounding to nearest* (float16 results, additions outside the unit) moves a result by at most V·2^-(bits + 1), up or
   down, so V may grow by it.

Losses of kinds 1 and 2 are paid out of V: n of them, each less than the share u of what is left, take less than
V·(1 - (1 - u)^n), which is less than n·u·V and never more than V. Those of kind 3 let V grow to W·(1 + u)^n at most.
With V' = W · (growth of all roundings) and s = the product of all (1 - u):

    |result - exact| <= V'·(1 - s) + (V' - W)

Accumulators that have not met pay each out of its own part of V, so losses are counted along the life of one: for a
chain of 128 products that is then added to others, n is 128 and its groups, whatever K is.

Two absolute amounts join where float16 accumulators make them possible: a subnormal float16 is rounded by at most
2^-25, whatever V is; and terms are aligned to no exponent below the unit's `least_exponent` or that of a subnormal
accumulator, which costs 2^(that - F) a term where the products' unit is finer.

Worked example, Hopper's e4m3 wgmma, K = 32: at most 32 cuts and one conversion, all with u = 2^-13, so the bound is
W·(1 - (1 - 2^-13)^33) = W·0.00402. With 256·256 and 31 products of 7·9/8 = 7.875, each cut to 0 beside 2^16, the error
is 244.1 and the bound is 264.5.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf, nextafter
from typing import Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.numbers.rounding import Rounding
from tileproof.oracle.products.exact_product import ExactProduct, exact_product, round_units
from tileproof.oracle.products.integer_matrix import INT64_LARGEST, multiply_integers
from tileproof.oracle.products.operand_integers import OperandIntegers, read_rows
from tileproof.oracle.products.unit_losses import FLOAT16_LARGEST, Extent, Loss, unit_losses
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Instruction, parse_instruction
from tileproof.oracle.units.unit_table import find_unit


@dataclass(frozen=True, kw_only=True)
class UndeclaredOrder:
    """What is known of a kernel that does not say in which order it adds.

    Raises:
        Refusal: the instruction is unknown, or a count is not positive.
    """

    #: As `matrix_unit.multiply_add` takes it.
    instruction: str
    arch: str
    assembler: str
    #: The most chains of one output whose results are added outside the unit, in float32: split-K parts, promotions.
    chains: int = 1
    #: The most products in one chain, for example a promotion interval; None for as many as there are.
    longest_chain: int | None = None

    def __post_init__(self) -> None:
        find_unit(self.parsed, self.arch, self.assembler)
        for name, value in (("chains", self.chains), ("longest_chain", self.longest_chain)):
            if value is not None and value < 1:
                raise Refusal(f"{name} is {value}; the least is 1", hint="leave it out for a single chain over K")

    @property
    def parsed(self) -> Instruction:
        """The instruction, taken apart."""
        return parse_instruction(self.instruction)


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """The exact product and, for each element, the most that a result may be away from it."""

    product: ExactProduct
    #: [..., M, N] in the product's units; int64, or Python integers (dtype object) where the sums may be too large.
    error: npt.NDArray[Any]

    def values(self) -> npt.NDArray[np.float64]:
        """The bound as float64, for reports; rounded."""
        return np.ldexp(self.error.astype(np.float64), self.product.step)

    def interval(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The least and the greatest float32 within the bound; a monotone epilogue maps results between its images."""
        units, step = self.product.units.astype(self.error.dtype), self.product.step
        low = round_units(units - self.error, step, Rounding.UP)
        return low, round_units(units + self.error, step, Rounding.DOWN)

    def contains(self, results: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each result is within the bound; NaN and infinities must be those of the exact product.

        Args:
            results: accumulators [..., M, N], float32 or float16.
        """
        if results.shape != self.product.units.shape or results.dtype not in (np.float32, np.float16):
            raise Refusal(
                f"results are {results.dtype} {results.shape}; the product is {self.product.units.shape}",
                hint="pass the accumulators as float32 or float16, before any epilogue",
            )
        low, high = self.interval()
        value, special = results.astype(np.float32), self.product.special
        return np.where(
            special == 0, (value >= low) & (value <= high), (value == special) | (np.isnan(value) & np.isnan(special))
        )


def error_bound(order: UndeclaredOrder, a: npt.ArrayLike, b: npt.ArrayLike) -> ErrorBound:
    """The bound for A·Bᵀ, of the magnitudes in the operands themselves.

    Args:
        order: what is known of the kernel.
        a: raw codes [..., M, K].
        b: raw codes [..., N, K]. Leading dimensions broadcast.

    Raises:
        Refusal: no bound is proved for the unit, a float16 accumulator may overflow, or the operands do not fit.
    """
    parsed = order.parsed
    product = exact_product(parsed.a.name, parsed.b.name, a, b)
    x, y = read_rows("a", parsed.a, a), read_rows("b", parsed.b, b)
    held = multiply_integers(_raised(x), _raised(y), x.largest, y.largest).astype(np.float64)
    depth = x.integers.shape[-1]
    extent = Extent(products=depth, chain=min(order.longest_chain or depth, depth), chains=order.chains)
    unit = find_unit(parsed, order.arch, order.assembler).unit
    share, absolute = _total(unit_losses(unit, parsed, extent, product.step), product.step)
    if parsed.accumulator == "f16":
        _require_no_overflow(held, share, product.step)
    # NOTE: each float64 step is moved up by one place, which is at least what its rounding took.
    error = np.floor(np.nextafter(np.nextafter(np.nextafter(held, inf) * share, inf) + absolute, inf))
    return ErrorBound(product, _as_integers(error, product.limit))


def _raised(operand: OperandIntegers) -> npt.NDArray[np.int64]:
    """Magnitudes, a subnormal as the smallest normal value; the exponent that a unit aligns it by."""
    magnitude = np.abs(operand.integers)
    return np.where(magnitude > 0, np.maximum(magnitude, operand.smallest_normal), 0)


@cache
def _total(losses: tuple[Loss, ...], step: int) -> tuple[float, float]:
    """The bound as a share of what is held at the start, and the absolute part in units; neither is too small."""
    kept = growth = 1 << _GRID
    cut_amount = rounded_amount = Fraction(0)
    for loss in losses:
        power = loss.share_bits * loss.count
        if loss.grows:
            growth = -(-growth * (2**loss.share_bits + 1) ** loss.count >> power)
            rounded_amount += loss.absolute
        else:
            kept = kept * (2**loss.share_bits - 1) ** loss.count >> power
            cut_amount += loss.absolute
    # growth · (1 - kept) + (growth - 1), on a grid of 2^-128
    factor = -(-growth * (2 * 2**_GRID - kept) >> _GRID)
    absolute = (rounded_amount * Fraction(factor, 2**_GRID) + cut_amount) / Fraction(2) ** step
    return nextafter((factor - 2**_GRID) / 2**_GRID, inf), nextafter(float(absolute), inf) if absolute else 0.0


_GRID = 128


def _require_no_overflow(held: npt.NDArray[np.float64], share: float, step: int) -> None:
    largest = float(np.ldexp(held.max(initial=0.0) * (1 + share), step))
    if largest > FLOAT16_LARGEST:
        raise Refusal(
            f"magnitudes add up to {largest:.6g}; a float16 accumulator may overflow above {FLOAT16_LARGEST}",
            hint="scale the operands down, or declare the order and compare bits with gemm",
        )


def _as_integers(error: npt.NDArray[np.float64], limit: int) -> npt.NDArray[Any]:
    """int64 where a sum and its bound together fit it."""
    if limit <= INT64_LARGEST // 4:
        return error.astype(np.int64)
    return np.asarray(np.frompyfunc(int, 1, 1)(error), object)
