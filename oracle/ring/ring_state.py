"""The state of one scale ring: the words of its device buffer, and what the host remembers beside it."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import Field, RingStage


@dataclass(frozen=True)
class Cast:
    """The scale that an operand was last cast with, as bit patterns of float32."""

    scale: int
    multiplier: int


@dataclass(frozen=True)
class RingState:
    """One ring; equal states are equal in every bit.

    Raises:
        Refusal: words that do not fit the stage and the window, or a current pair that does not exist.
    """

    stage: RingStage
    #: Number of amax values in the history.
    window: int
    #: The device buffer, one 32-bit pattern a word.
    words: tuple[int, ...]
    #: Where the next fold writes in the history; the host counts it.
    index: int = 0
    #: The pair of scales that this step reads, 0 or 1.
    current: int = 0
    #: Whether the host has seeded the ring.
    initialized: bool = False
    #: The last cast that was kept; None before the first.
    cast: Cast | None = None

    def __post_init__(self) -> None:
        if self.window < 1 or len(self.words) != self.stage.size(self.window):
            raise Refusal(
                f"{len(self.words)} words are no {self.stage.name} ring with a window of {self.window}",
                hint=f"that takes {self.stage.size(self.window)} words; make one with fresh()",
            )
        if any(not 0 <= word < 2**32 for word in self.words):
            raise Refusal("a word of the ring is wider than 32 bits", hint="words are bit patterns, not values")
        if not 0 <= self.current < self.stage.pairs:
            raise Refusal(f"pair {self.current} does not exist: the {self.stage.name} ring has {self.stage.pairs}")

    def read(self, field: Field, position: int = 0) -> int:
        """One word of a part of the buffer."""
        return self.words[self.stage.offset(field, self.window) + position]

    def write(self, field: Field, *patterns: int) -> "RingState":
        """The state with the first words of a part replaced."""
        start = self.stage.offset(field, self.window)
        return replace(self, words=(*self.words[:start], *patterns, *self.words[start + len(patterns) :]))

    @property
    def history(self) -> npt.NDArray[np.float32]:
        """The amax values, float32 [window], by slot."""
        start = self.stage.offset(Field.HISTORY, self.window)
        return np.array(self.words[start : start + self.window], np.uint32).view(np.float32)

    @property
    def counter(self) -> int:
        """The arrivals that the counter word holds, read as the integer it is."""
        return self.read(Field.COUNTER)

    @property
    def scale(self) -> np.float32:
        """The scale that this step casts with."""
        return as_float32(self.read(scale_field(self.current)))

    @property
    def publishing_pair(self) -> int:
        """The pair that a fold writes: the other one where there are two."""
        return (self.current + 1) % self.stage.pairs


def fresh(stage: RingStage, window: int = 16) -> RingState:
    """A ring as it is allocated: all words zero, nothing seeded."""
    return RingState(stage, window, (0,) * stage.size(window))


def scale_field(pair: int) -> Field:
    """Where the scale of a pair lies."""
    return (Field.SCALE, Field.SCALE_1)[pair]


def reciprocal_field(pair: int) -> Field:
    """Where the reciprocal of a pair lies, in stages that keep it."""
    return (Field.RECIPROCAL, Field.RECIPROCAL_1)[pair]


def as_float32(pattern: int) -> np.float32:
    """The float32 of a bit pattern."""
    return np.float32(np.array(pattern, np.uint32).view(np.float32)[()])


def as_bits(value: np.float32) -> int:
    """The bit pattern of a float32."""
    return int(np.float32(value).view(np.uint32))
