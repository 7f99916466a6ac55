"""What a step touches: which numbers it looks at and which it changes, of the shared ones and of its own row.

Example: two processes that only add to a counter touch it, and do not meet; one that looks at it meets both.
"""

from dataclasses import dataclass

from tileproof.simulators.protocols.asking import Answer

Numbered = frozenset[int]
NONE: Numbered = frozenset()
# An action of a role, and which of several like things it acts on.
Thing = tuple[int, int]


@dataclass(frozen=True)
class Touched:
    """Indices of shared numbers, and of those of one's own row. What is changed is looked at, but for what is added to.

    Args:
        seen: shared numbers that are looked at.
        changed: those that are changed or added to.
        own_seen: of the row.
        own_changed: of the row.
    """

    seen: Numbered = NONE
    changed: Numbered = NONE
    own_seen: Numbered = NONE
    own_changed: Numbered = NONE

    def __or__(self, other: "Touched") -> "Touched":
        return Touched(
            self.seen | other.seen,
            self.changed | other.changed,
            self.own_seen | other.own_seen,
            self.own_changed | other.own_changed,
        )

    @property
    def of_others(self) -> "Touched":
        """What another process may touch, too."""
        return Touched(self.seen, self.changed)

    @property
    def of_row(self) -> "Touched":
        """What only the process itself touches."""
        return Touched(own_seen=self.own_seen, own_changed=self.own_changed)

    def meets(self, other: "Touched") -> bool:
        """Whether one changes what the other looks at."""
        return bool(
            self.changed & other.seen
            or self.seen & other.changed
            or self.own_changed & other.own_seen
            or self.own_seen & other.own_changed
        )


def touched_by(answer: Answer) -> Touched:
    """What an action touched."""
    seen = answer.shared_seen.keys() - answer.shared_added
    return Touched(frozenset(seen), answer.shared_changed, answer.own_seen, answer.own_changed)
