"""Asking a model what a process may do, and watching which numbers the answer hangs on.

An action is a function of the numbers that it looks at, in the order in which it looks: as long as these are the same,
so is the answer, whatever all others are. So nothing is declared that could be declared wrongly.

Example: `if shared[2]: return WAITS` and `shared[0] += 1` looks at number 2, and if that is 0 at number 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import AT, WAITS, Field, Model, Role

Numbers = tuple[int, ...]


class Watched:
    """A row whose numbers can be looked at and changed one by one, and in no other way.

    Attributes:
        seen: by index, what was found there at the first look, in the order of the looks.
        changed: by index, what is there now; changing is looking, too.
        added: indices of those that were added to and not looked at; what was found there is `seen` all the same.
    """

    __slots__ = ("_before", "added", "changed", "seen")

    def __init__(self, before: Sequence[int]) -> None:
        self._before = before
        self.seen: dict[int, int] = {}
        self.changed: dict[int, int] = {}
        self.added: set[int] = set()

    def __getitem__(self, index: int, /) -> int:
        self.added.discard(index)
        return self._now(index)

    def _now(self, index: int) -> int:
        if index in self.changed:
            return self.changed[index]
        if index not in self.seen:
            if index < 0:
                raise IndexError(f"number {index} of a row")
            self.seen[index] = self._before[index]
        return self.seen[index]

    def add(self, index: int, change: int, /) -> None:
        """Add to a number without looking at it."""
        if index not in self.seen:
            self.added.add(index)
        self.changed[index] = self._now(index) + change

    def __setitem__(self, index: int, value: int, /) -> None:
        self[index]
        self.changed[index] = value

    def after(self) -> Numbers:
        """All numbers, the changed ones included."""
        numbers = list(self._before)
        for index, value in self.changed.items():
            numbers[index] = value
        return tuple(numbers)


@dataclass(frozen=True)
class Answer:
    """What an action does in a state, and what that hangs on.

    Args:
        action: number of the action within the role.
        which: of several like things.
        code: that the action answered.
        shared: shared numbers afterwards.
        own: the row afterwards.
        shared_seen: by index, the shared numbers that it looked at or added to, in this order.
        shared_added: indices of those that it only added to.
        own_seen: indices of the row that it looked at; the place that is asked for beforehand is not among them.
        own_changed: indices of the row that it changed.
    """

    action: int
    which: int
    code: int
    shared: Numbers
    own: Numbers
    shared_seen: Mapping[int, int]
    shared_added: frozenset[int]
    own_seen: frozenset[int]
    own_changed: frozenset[int]

    @property
    def shared_changed(self) -> frozenset[int]:
        """Indices of the shared numbers that are others afterwards."""
        return frozenset(index for index, value in self.shared_seen.items() if self.shared[index] != value)


def questions(role: Role, own: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Actions, and which things they act on, that the row of a process does not rule out beforehand."""
    for number, action in enumerate(role.actions):
        if action.at and own[AT] not in action.at:
            continue
        for which in range(len(action.choices)):
            if action.is_possible(own, which):
                yield number, which


def ask(model: Model, role: Role, question: tuple[int, int], shared: Numbers, own: Numbers) -> Answer:
    """What one action does.

    Raises:
        Refusal: it may not act and changed the state, or a number left its range.
    """
    number, which = question
    action, shared_row, own_row = role.actions[number], Watched(shared), Watched(own)
    code = action.effect(list(model.constants), shared_row, own_row, which)
    if code == WAITS and (_is_changed(shared_row) or _is_changed(own_row)):
        raise Refusal(f"{model.name}: {action.words!r} may not act and changed the state")
    check_numbers(model, model.fields, shared_row.changed)
    check_numbers(model, role.row, own_row.changed)
    return Answer(
        number,
        which,
        code,
        shared_row.after(),
        own_row.after(),
        shared_row.seen,
        frozenset(shared_row.added),
        action.guards(which) | own_row.seen.keys(),
        frozenset(own_row.changed),
    )


def _is_changed(row: Watched) -> bool:
    return any(row.seen[index] != value for index, value in row.changed.items())


def check_numbers(model: Model, fields: Sequence[Field], changed: Mapping[int, int]) -> None:
    """Raises: Refusal for a number that is more than its most, or negative."""
    for index, value in changed.items():
        if not 0 <= value <= fields[index].most:
            raise Refusal(f"{model.name}: {fields[index].name} became {value}; it must lie in 0..{fields[index].most}")
