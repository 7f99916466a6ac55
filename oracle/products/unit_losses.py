"""How often a matrix unit can lose something along K, and how much each time: the data that `error_bound` adds up.

A loss is a share of the magnitude that is still held (see `error_bound` for the word and for the proof), and in a few
cases an absolute amount besides. Shares are counted along the life of one accumulator: what is lost in accumulators
that have not met is paid by each out of its own part. Absolute amounts are counted over all of them.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from tileproof.oracle.formats import FLOAT16, FLOAT32, FloatFormat
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Instruction
from tileproof.oracle.units.unit import Conversion, ExactSum, FusedSum, LateSum, Unit


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A step that moves a result by at most 2^-share_bits of what is held."""

    #: How often it happens, at most, in the life of one accumulator.
    count: int
    share_bits: int
    #: The step rounds to nearest, so it may move a result up; otherwise it cuts, and what is held falls by the loss.
    grows: bool = False
    #: What all such steps of one output may lose besides, whatever is held.
    absolute: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is added up, and in how many pieces."""

    #: K.
    products: int
    #: The most products in one chain of instructions.
    chain: int
    #: The most chains; their results are added outside the unit.
    chains: int

    def groups_of(self, size: int) -> int:
        """The most groups of `size` in all chains, if only the last of each chain may be short."""
        return (self.products + self.chains * (size - 1)) // size


def unit_losses(unit: Unit, instruction: Instruction, extent: Extent, step: int) -> tuple[Loss, ...]:
    """Everything that may be lost in a sum of products.

    Args:
        unit: what executes the instruction.
        instruction: its name, taken apart.
        extent: of the sum.
        step: exponent of the unit of which every product is a multiple.

    Raises:
        Refusal: no bound is proved for this unit.
    """
    outside = _nearest(FLOAT32, extent.chains - 1)
    match unit:
        case FusedSum():
            return *_fused_losses(unit, extent, step), outside
        case LateSum():
            return *_late_losses(unit, instruction.shape.k, extent, step), outside
        case ExactSum():
            return _nearest(FLOAT32, -(-extent.chain // unit.group)), outside
    raise Refusal(
        f"no bound is proved for the unit of {instruction.family}.{instruction.shape}: {type(unit).__name__}",
        hint="declare the order and compare bits with gemm; integer sums are exact in every order",
    )


def _fused_losses(unit: FusedSum, extent: Extent, step: int) -> tuple[Loss, Loss]:
    """Cutting before each group's sum, and converting after it."""
    least = max(unit.least_exponent, unit.conversion.format.min_exponent) - unit.fraction_bits
    absolute = extent.products * Fraction(2) ** least if least > step else Fraction(0)
    cut = Loss(count=extent.chain, share_bits=unit.fraction_bits, absolute=absolute)
    return cut, _conversion(unit.conversion, -(-extent.chain // unit.group), extent.groups_of(unit.group))


def _late_losses(unit: LateSum, k: int, extent: Extent, step: int) -> tuple[Loss, ...]:
    """An expanded instruction starts the f16 unit at 0, so that each instruction is a life of its own until C is added.

    Chained, the two halves are one life; otherwise each is one, and they meet in an addition of their own.
    """
    life = k if unit.chained else k // 2
    instructions = extent.groups_of(k)
    inner = Extent(products=extent.products, chain=life, chains=instructions * (k // life))
    record = unit.unit.conversion.format
    meeting = _nearest(record, 0 if unit.chained else 1)
    return *_fused_losses(unit.unit, inner, step), meeting, _nearest(record, -(-extent.chain // k))


def _conversion(conversion: Conversion, count: int, everywhere: int) -> Loss:
    if not conversion.nearest:
        # Every sum is a multiple of 2^-48 or more, which a subnormal float32 holds exactly.
        return Loss(count=count, share_bits=conversion.kept_bits)
    record = conversion.format
    half_smallest = Fraction(2) ** (record.min_exponent - record.mantissa_bits - 1)
    return replace(_nearest(record, count), absolute=everywhere * half_smallest)


def _nearest(record: FloatFormat, count: int) -> Loss:
    """Additions of two values of a format, to nearest; an addition that ends in a subnormal is exact."""
    return Loss(count=count, share_bits=record.mantissa_bits + 1, grows=True)


#: The largest magnitude that a float16 accumulator can reach without an overflow: from 65,520 on it becomes infinite.
FLOAT16_LARGEST = int(FLOAT16.number(FLOAT16.max_code).magnitude)
