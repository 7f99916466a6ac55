"""How often a matrix unit can lose something along K, and how much each time: the data that `error_bound` adds up.

A loss is a share of the magnitude that is still held (see `error_bound` for the word and for the proof), and in a few
cases an absolute amount besides.
"""

from dataclasses import dataclass

from tileproof.oracle.formats import FLOAT16, FLOAT32, FloatFormat
from tileproof.oracle.instruction import Instruction
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.unit import Conversion, ExactSum, FusedSum, LateSum, Unit


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A step that happens `count` times and moves a result by at most 2^-share_bits of what is held."""

    count: int
    share_bits: int
    #: The step rounds to nearest, so it may move a result up; otherwise it cuts, and what is held falls by the loss.
    grows: bool = False
    #: Exponent of an absolute amount that each step may lose besides; None where there is none.
    floor: int | None = None


def unit_losses(
    unit: Unit, instruction: Instruction, *, products: int, partial_sums: int, step: int
) -> tuple[Loss, ...]:
    """Everything that may be lost in a sum of products.

    Args:
        unit: what executes the instruction.
        instruction: its name, taken apart.
        products: K.
        partial_sums: accumulators that are added outside the unit; each may end in a group that is not full.
        step: exponent of the unit of which every product is a multiple.

    Raises:
        Refusal: no bound is proved for this unit.
    """
    outside = Loss(count=partial_sums - 1, share_bits=FLOAT32.mantissa_bits + 1, grows=True)
    match unit:
        case FusedSum():
            groups = _groups(products, unit.group, partial_sums)
            return *_fused_losses(unit, products, groups, step), outside
        case LateSum():
            instructions = _groups(products, instruction.shape.k, partial_sums)
            late = Loss(
                count=instructions * (1 if unit.chained else 2),
                share_bits=unit.unit.conversion.format.mantissa_bits + 1,
                grows=True,
            )
            return *_fused_losses(unit.unit, products, 2 * instructions, step), late, outside
        case ExactSum():
            groups = _groups(products, unit.group, partial_sums)
            return Loss(count=groups, share_bits=FLOAT32.mantissa_bits + 1, grows=True), outside
    raise Refusal(
        f"no bound is proved for the unit of {instruction.family}.{instruction.shape}: {type(unit).__name__}",
        hint="declare the order and compare bits with gemm; integer sums are exact in every order",
    )


def _fused_losses(unit: FusedSum, products: int, groups: int, step: int) -> tuple[Loss, Loss]:
    """Cutting before the sum and converting after it."""
    least = max(unit.least_exponent, unit.conversion.format.min_exponent) - unit.fraction_bits
    cut = Loss(count=products, share_bits=unit.fraction_bits, floor=least if least > step else None)
    return cut, _conversion_loss(unit.conversion, groups)


def _conversion_loss(conversion: Conversion, groups: int) -> Loss:
    if not conversion.nearest:
        # Every sum is a multiple of 2^-48 or more, which a subnormal float32 holds exactly.
        return Loss(count=groups, share_bits=conversion.kept_bits)
    return Loss(count=groups, share_bits=conversion.kept_bits + 1, grows=True, floor=_half_smallest(conversion.format))


def _half_smallest(record: FloatFormat) -> int:
    """Exponent of half the smallest subnormal value."""
    return record.min_exponent - record.mantissa_bits - 1


def _groups(products: int, size: int, partial_sums: int) -> int:
    """The most groups of `size` that `products` fill if each of `partial_sums` may end in one that is not full."""
    return (products + partial_sums * (size - 1)) // size


#: The largest magnitude that a float16 accumulator can reach without an overflow: from 65,520 on it becomes infinite.
FLOAT16_LARGEST = int(FLOAT16.number(FLOAT16.max_code).magnitude)
