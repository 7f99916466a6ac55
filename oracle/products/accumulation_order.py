"""The order in which a kernel adds up K: with the matrix unit it decides every bit of a float product.

A kernel's order has four choices, and `AccumulationOrder` declares them:

* the instruction, and so the unit: products of one instruction are added as `matrix_unit` says;
* the chain: instructions along K, each starting from the last one's result, in ascending or descending order of k;
* the promotion: after so many elements of K the accumulator is added to a float32 sum and starts again from zero;
* split-K: K is dealt out to parts, each a chain of its own, whose results are added at the end.

Example, K = 160 with k = 32, two contiguous parts of 32-element tiles and a promotion every 64 elements: part 0 has the
instructions at 0, 32, 64 and part 1 those at 96, 128. Part 0 is (0 → 32) ⊕ (64), part 1 is (96 → 128), and the result
is part 0 ⊕ part 1, with → a chain and ⊕ a float32 addition to nearest even.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tileproof.oracle.arguments import require_member
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.units.instruction import Instruction, parse_instruction
from tileproof.oracle.units.unit_table import find_unit


class KOrder(Enum):
    """In which direction a chain runs along K; inside one instruction the unit decides."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class RaggedK(Enum):
    """What happens where K is no multiple of the instruction's k."""

    #: The kernel refuses such a K.
    REFUSED = "refused"
    #: The last instruction's missing elements are zero codes in A and in B.
    ZERO_FILL = "filled with zeros"


class Partition(Enum):
    """How tiles of K are dealt out to the parts of a split."""

    #: Part p has the p-th ⌈tiles / parts⌉ tiles; the last parts may be short or empty.
    CONTIGUOUS = "contiguous"
    #: Part p has the tiles p, p + parts, p + 2 · parts, ...
    INTERLEAVED = "interleaved"


class Combination(Enum):
    """The order in which the parts of a split are added, each time one addition to nearest even."""

    #: ((p0 + p1) + p2) + p3
    ASCENDING = "ascending"
    #: ((p3 + p2) + p1) + p0
    DESCENDING = "descending"
    #: (p0 + p1) + (p2 + p3); of an odd count the last waits for the next round.
    PAIRWISE = "pairwise"


@dataclass(frozen=True, kw_only=True)
class SplitK:
    """A split of K into parts.

    Raises:
        Refusal: a partition or combination that is no member of its enumeration.
    """

    parts: int
    #: Elements of K that stay together; a multiple of the instruction's k.
    tile: int
    partition: Partition = Partition.CONTIGUOUS
    combination: Combination = Combination.ASCENDING

    def __post_init__(self) -> None:
        require_member(Partition, "partition", self.partition)
        require_member(Combination, "combination", self.combination)


Chain: TypeAlias = tuple[int, ...]
"""The first k of each instruction, in the order in which they follow each other."""

Part: TypeAlias = tuple[Chain, ...]
"""Chains that are added to one float32 sum, in order."""


@dataclass(frozen=True, kw_only=True)
class AccumulationOrder:
    """How a kernel adds up K, completely. Sums outside the unit are float32 to nearest even; integers wrap.

    Raises:
        Refusal: the instruction is unknown or block-scaled, or an interval, a tile, a count or a choice is not legal.
    """

    #: As `matrix_unit.multiply_add` takes it, for example "wgmma.m64n128k32.f32.e4m3.e4m3".
    instruction: str
    arch: str
    #: CUDA release of ptxas; see `matrix_unit.multiply_add`.
    assembler: str
    k_order: KOrder = KOrder.ASCENDING
    ragged_k: RaggedK = RaggedK.REFUSED
    #: Elements of K between promotions, a multiple of the instruction's k; None for one chain over all of K.
    promotion: int | None = None
    split_k: SplitK | None = None

    def __post_init__(self) -> None:
        require_member(KOrder, "k_order", self.k_order)
        require_member(RaggedK, "ragged_k", self.ragged_k)
        parsed = self.parsed
        find_unit(parsed, self.arch, self.assembler)
        if parsed.scales or parsed.accumulator == "f64":
            raise Refusal(
                f"{self.instruction} is not chained here: it is block-scaled or accumulates in float64",
                hint="chain matrix_unit.multiply_add over K yourself",
            )
        if self.promotion is not None:
            _require_multiple("promotion", self.promotion, parsed.shape.k)
        if self.split_k:
            _require_multiple("tile", self.split_k.tile, parsed.shape.k)
            if self.split_k.parts < 1:
                raise Refusal(f"split_k has {self.split_k.parts} parts; the least is 1", hint="leave split_k out")

    @property
    def parsed(self) -> Instruction:
        """The instruction, taken apart."""
        return parse_instruction(self.instruction)

    @property
    def stays_in_unit(self) -> bool:
        """Whether one chain is all there is, so that the result is the instruction's accumulator as it stands."""
        return self.promotion is None and self.split_k is None

    def plan(self, k: int) -> tuple[Part, ...]:
        """The parts for K = k, each a sequence of chains; no part and no chain is left out because it is empty.

        Raises:
            Refusal: k is negative, or ragged where that is refused.
        """
        depth = self.parsed.shape.k
        if k < 0 or (k % depth and self.ragged_k is RaggedK.REFUSED):
            raise Refusal(
                f"K = {k} is not a whole number of instructions with k = {depth}",
                hint="declare ragged_k=RaggedK.ZERO_FILL if the kernel fills with zeros",
            )
        return tuple(self._chains(steps) for steps in self._parts(range(0, k, depth)))

    def _parts(self, steps: Sequence[int]) -> list[Sequence[int]]:
        """The instructions of each part, ascending."""
        if self.split_k is None:
            return [steps]
        per_tile, parts = self.split_k.tile // self.parsed.shape.k, self.split_k.parts
        tiles = [steps[first : first + per_tile] for first in range(0, len(steps), per_tile)]
        share = -(-len(tiles) // parts)
        match self.split_k.partition:
            case Partition.CONTIGUOUS:
                dealt = [tiles[part * share : (part + 1) * share] for part in range(parts)]
            case Partition.INTERLEAVED:
                dealt = [tiles[part::parts] for part in range(parts)]
        return [[step for tile in mine for step in tile] for mine in dealt]

    def _chains(self, steps: Sequence[int]) -> Part:
        """One part's instructions in its direction, cut at the promotions."""
        ordered = steps if self.k_order is KOrder.ASCENDING else steps[::-1]
        length = self.promotion // self.parsed.shape.k if self.promotion else max(len(steps), 1)
        return tuple(tuple(ordered[first : first + length]) for first in range(0, max(len(steps), 1), length))


def _require_multiple(name: str, value: int, of: int) -> None:
    if value < of or value % of:
        raise Refusal(f"{name} is {value}; it must be a positive multiple of the instruction's k = {of}")
