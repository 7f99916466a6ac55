"""An explanation with its proof: how much of what was observed it predicts."""

from dataclasses import dataclass
from enum import IntEnum

from tileproof.conformance.triage.cause import Cause


class Strength(IntEnum):
    """How well an explanation stands, strongest first."""

    #: It was seen: the device or the runner observed the cause itself.
    SEEN = 0
    #: It predicts every bit of every output, those that are right among them, and no other cause does.
    PROVED = 1
    #: It predicts every bit, and so does another cause: the data do not tell them apart.
    ALIKE = 2
    #: It predicts all that it speaks about, and that is most of what differs.
    PARTIAL = 3
    #: It predicts some of it and contradicts some, or says only where it is.
    HINT = 4


@dataclass(frozen=True)
class Explanation:
    """One explanation.

    Args:
        cause: what is wrong.
        text: in words, with the numbers that it rests on.
        strength: whether that is a proof.
        explained: elements that differ and that it predicts.
        of: elements that differ.
        contradicted: elements that it predicts wrongly.
    """

    cause: Cause
    text: str
    strength: Strength
    explained: int = 0
    of: int = 0
    contradicted: int = 0

    @property
    def is_proof(self) -> bool:
        """Whether the cause was seen, or every bit is predicted."""
        return self.strength in (Strength.SEEN, Strength.PROVED)

    def __str__(self) -> str:
        if self.strength is Strength.SEEN:
            return f"{self.cause}: {self.text} (seen)"
        counts = f"explains {self.explained} of {self.of} elements that differ"
        if self.strength is Strength.PROVED:
            return f"{self.cause}: {self.text} (proved: {counts}, and every other element)"
        if self.strength is Strength.ALIKE:
            return f"{self.cause}: {self.text} (no proof: it {counts}, and every other, but so does another cause)"
        against = f", contradicts {self.contradicted}" if self.contradicted else ""
        return f"{self.cause}: {self.text} (no proof: {counts}{against})"


def rank(explanation: Explanation) -> tuple[int, int]:
    """The order in which explanations are told."""
    return explanation.strength, explanation.contradicted - explanation.explained
