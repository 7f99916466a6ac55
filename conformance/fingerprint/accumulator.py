"""What a fingerprint names: the accumulator of a product, as a record.

    order of K     groups of products, in ascending or descending k, contiguous or interleaved
    fused sum      the products of a group and the running total are aligned to the largest exponent, each cut to
                   so many fraction bits below it, added exactly and converted once
    promotions     after so many elements the running total is added to a wider sum and starts again from zero
    split of K     parts of K are added up by themselves and then to each other

Example, `mma.m16n8k32` with e4m3 on sm_90 as ptxas 12.8 expands it: of every 32 elements first those with k mod 4 in
{0, 1}, then those with k mod 4 in {2, 3}, groups of 16, 25 fraction bits, cut toward zero and converted to a float32
significand of 23 fraction bits by cutting; promoted to a float32 sum, rounded to nearest even, every 32 elements.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from tileproof.oracle.products.accumulation_order import KOrder, SplitK


class Mode(StrEnum):
    """Which neighbour a number becomes that lies between two."""

    TOWARD_ZERO = "toward zero"
    DOWN = "down"
    UP = "up"
    NEAREST_EVEN = "to nearest even"
    NEAREST_AWAY = "to nearest, ties away"


class Join(StrEnum):
    """Where C or a bias is added."""

    START = "the first group starts from it"
    FIRST_PROMOTION = "the promoted sum starts from it"
    LAST = "added to the finished sum, before the output is rounded"
    AFTER_ROUNDING = "added to the rounded output, which is rounded again"


@dataclass(frozen=True)
class Rounding:
    """A significand of so many fraction bits, and how numbers get there."""

    fraction_bits: int
    mode: Mode

    def __str__(self) -> str:
        return f"{self.fraction_bits} fraction bits, {self.mode}"


FLOAT32 = Rounding(23, Mode.NEAREST_EVEN)


@dataclass(frozen=True)
class FusedSum:
    """The arithmetic of one group.

    Args:
        fraction_bits: what each term keeps below the largest exponent; None if nothing was seen to be lost.
        cut: how the rest of a term goes.
        normalised: whether a product of 2 or more counts with its own exponent, not with its factors'.
        result: the running total after a group.
    """

    fraction_bits: int | None = None
    cut: Mode = Mode.TOWARD_ZERO
    normalised: bool = False
    result: Rounding = FLOAT32


@dataclass(frozen=True, kw_only=True)
class Order:
    """In which order K is added up.

    Args:
        group: products of a fused sum; 1 for a chain of multiply-adds.
        period: elements of K over which groups are interleaved, `group` if they are not.
        run: neighbouring elements of a group; `group` if groups are not interleaved.
        k_order: of the steps.
        step: elements whose groups ascend even where the steps descend, such as those of one instruction.
        promotions: elements after which a running total joins the next sum, innermost first.
        split_k: how K is dealt out to parts, if it is.
    """

    group: int
    period: int
    run: int
    k_order: KOrder = KOrder.ASCENDING
    step: int = 0
    promotions: tuple[int, ...] = ()
    split_k: SplitK | None = None

    def __post_init__(self) -> None:
        if self.k_order is KOrder.ASCENDING or self.step < self.period:
            object.__setattr__(self, "step", self.period)

    @property
    def is_interleaved(self) -> bool:
        """Whether a group's elements are no neighbours."""
        return self.period != self.group


@dataclass(frozen=True, kw_only=True)
class Accumulator:
    """All of it.

    Args:
        order: of K.
        fused: of a group.
        sums: of promotions and parts.
        output: the last rounding; None where the output is the accumulator as it stands.
        c: where C joins; None if none is taken.
        bias: likewise.
    """

    order: Order
    fused: FusedSum = field(default_factory=FusedSum)
    sums: Rounding = FLOAT32
    output: Rounding | None = None
    c: Join | None = None
    bias: Join | None = None

    def joined(self, what: str, join: Join) -> "Accumulator":
        """With a place for C ("c") or for the bias ("bias")."""
        return replace(self, c=join) if what == "c" else replace(self, bias=join)
