"""One number of a launch, between two ends and a multiple of something."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """What a launcher promises of one number.

    Args:
        words: what it is.
        least: at least this.
        most: at most this.
        multiple: of this.
        parameter: which of the kernel's.
        offset: bytes into it.
        bits: of the number, which has a sign.
        special: name of a special register instead, of a block's or a grid's extents.
    """

    words: str
    least: int
    most: int
    multiple: int = 1
    parameter: int = 0
    offset: int = 0
    bits: int = 32
    special: str = ""

    def holds(self, value: int) -> bool:
        """Whether a launch's number is as promised."""
        return self.least <= value <= self.most and value % self.multiple == 0


def broken(
    facts: Sequence[Fact], parameters: bytes, offsets: Sequence[int], extents: Mapping[str, int]
) -> Iterator[str]:
    """Facts that a launch does not keep to, in words.

    Args:
        facts: what is promised.
        parameters: the parameter area.
        offsets: where each parameter begins in it.
        extents: of block and grid, by special register.
    """
    for fact in facts:
        if fact.special:
            value = extents[fact.special]
        else:
            begin = offsets[fact.parameter] + fact.offset
            value = int.from_bytes(parameters[begin : begin + fact.bits // 8], "little", signed=True)
        if not fact.holds(value):
            yield f"{fact.words} is {value}, not {fact.least} to {fact.most} in steps of {fact.multiple}"
