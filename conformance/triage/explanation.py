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
    #: It predicts every bit, and there was no time to try whether another cause does.
    EARLY = 2
    #: It predicts every bit, and so does another cause: the data do not tell them apart.
    ALIKE = 3
    #: It predicts all that it speaks about, and that is most of what differs.
    PARTIAL = 4
    #: It predicts some of it and contradicts some, or says only where it is.
    HINT = 5


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

    @property
    def proof(self) -> str:
        """What it rests on: "seen", "proved" or "no proof", and the counts."""
        if self.strength is Strength.SEEN:
            return "seen"
        counts = f"explains {self.explained} of {self.of} elements that differ"
        against = f", contradicts {self.contradicted}" if self.contradicted else ""
        return {
            Strength.PROVED: f"proved: {counts}, and every other element",
            Strength.EARLY: f"no proof: it {counts}, and every other, but not every rule was tried in the time",
            Strength.ALIKE: f"no proof: it {counts}, and every other, but so does another cause",
        }.get(self.strength, f"no proof: {counts}{against}")

    def __str__(self) -> str:
        return f"{self.cause}: {self.text} ({self.proof})"


def rank(explanation: Explanation) -> tuple[int, int]:
    """The order in which explanations are told."""
    return explanation.strength, explanation.contradicted - explanation.explained
