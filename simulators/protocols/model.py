"""What the model checker takes: processes that share a state, each of whose actions is atomic.

A state is small numbers: shared ones, and a row for each process, of which the first says where the process is. An
action is a plain function of four arguments:

    k       the model's constants: extents, and which fault it has
    shared  the shared numbers
    own     the numbers of the process that acts
    which   of several like things it acts on, 0 for most actions

It looks whether it may act. If not it changes nothing and returns WAITS; else it changes `shared` and `own` and returns
GOES, or FIRST_RULE + the number of a rule that is broken by this very action. What hardware does on its own, landing a
copy or performing a store, is an action, too. Waiting is having no action. What an action does depends on nothing but
the numbers that it looks at one by one: the search watches which these are (`asking.py`).

An action sees no other process and not its own number, so that processes of one role may be exchanged with their rows:
an identity that matters is a number in the row.

Example: two processes that each add 1 to a counter by a load and a store have one shared number and two of their own,
where they are and what they loaded. The search finds the state in which both are done and the counter is 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Row(Protocol):
    """Numbers by their index, as actions see them."""

    def __getitem__(self, index: int, /) -> int:
        """One number."""

    def __setitem__(self, index: int, value: int, /) -> None:
        """Change it."""


class Shared(Row, Protocol):
    """The shared numbers, as actions see them."""

    def add(self, index: int, change: int, /) -> None:
        """Add to one without looking at it: what the action does cannot hang on it, so others may add meanwhile."""


Effect = Callable[[Row, Shared, Row, int], int]

WAITS, GOES, FIRST_RULE = range(3)

#: Where a process stands in its own row.
AT = 0


class State(NamedTuple):
    """Shared numbers, and a row for each process, role by role."""

    shared: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Source:
    """The text of a kernel that an action stands for.

    Args:
        file: of the kernel or header.
        text: that occurs there once, a line or a part of one.
    """

    file: str
    text: str


@dataclass(frozen=True)
class Action:
    """Something that a process may do.

    Args:
        words: what, as a trace prints it; `{}` stands for the words of the choice.
        effect: does it.
        at: the places from which it is possible; empty for all.
        choices: words for each value of `which`; one empty text where there is no choice.
        bits: a number of the row: only choices that are bits set in it are possible; None where all are.
        each: the first of some numbers of the row, one for each choice: only those whose number is not 0 are possible;
            None where all are.
        beside: something else than the process's own thread does it, memory, a copy or another thread: it may happen
            before or behind what the thread does next.
        source: what it stands for in a kernel; None for what hardware or a host does.
    """

    words: str
    effect: Effect
    at: tuple[int, ...] = ()
    choices: tuple[str, ...] = ("",)
    bits: int | None = None
    each: int | None = None
    beside: bool = False
    source: Source | None = None

    def guards(self, which: int) -> frozenset[int]:
        """Numbers of a row, besides the place, that say beforehand whether a choice is possible."""
        return frozenset(
            ([] if self.bits is None else [self.bits]) + ([] if self.each is None else [self.each + which])
        )

    def is_possible(self, own: Sequence[int], which: int) -> bool:
        """Whether a row does not rule a choice out beforehand."""
        if self.bits is not None and not own[self.bits] >> which & 1:
            return False
        return self.each is None or own[self.each + which] != 0


@dataclass(frozen=True)
class Field:
    """A number of a state: its name and the most that it can be; the least is 0."""

    name: str
    most: int


@dataclass(frozen=True)
class Role:
    """Processes that run one program.

    Args:
        name: of one of them.
        places: where they can be, by number.
        end: the place of one that is done.
        fields: of a row, behind the place.
        starts: the first row of each process, the place first.
        actions: in the order in which they are tried.
    """

    name: str
    places: tuple[str, ...]
    end: int
    fields: tuple[Field, ...]
    starts: tuple[tuple[int, ...], ...]
    actions: tuple[Action, ...]

    @property
    def row(self) -> tuple[Field, ...]:
        """All fields of a row, the place first."""
        return (Field("at", len(self.places) - 1), *self.fields)


@dataclass(frozen=True)
class Model:
    """A protocol with all its parameters.

    Args:
        name: with the parameters and the fault.
        constants: what actions get as `k`.
        fields: of the shared state.
        start: their first values.
        roles: the processes, role by role.
        rules: what an action may break, in words, by number.
    """

    name: str
    constants: tuple[int, ...]
    fields: tuple[Field, ...]
    start: tuple[int, ...]
    roles: tuple[Role, ...]
    rules: tuple[str, ...]

    @property
    def first(self) -> State:
        """Where every run begins."""
        return State(self.start, tuple(start for role in self.roles for start in role.starts))

    @property
    def processes(self) -> tuple[tuple[Role, int], ...]:
        """Role and number within it, of each process."""
        return tuple((role, number) for role in self.roles for number in range(len(role.starts)))


def array(name: str, most: int, count: int, room: int) -> tuple[Field, ...]:
    """Numbers that actions find by an index: `count` of them, in a room that is the same for all parameters."""
    return tuple(Field(f"{name}[{index}]", most if index < count else 0) for index in range(room))
