"""Models drawn by seed: processes that order things which then happen beside them, and others that look at these."""

import random
from dataclasses import dataclass

from tileproof.simulators.protocols.model import FIRST_RULE, GOES, WAITS, Action, Field, Model, Role, Row, Shared

AT, ON_THE_WAY = 0, 1
SLOTS = 2
NUMBERS = 2
#: A counter begins here, so that it has room for all that is added and taken.
BEGIN = 8
# What a place of a thread is for.
ORDERS, AWAITS, COUNTS, SETS = range(4)


@dataclass(frozen=True)
class _Place:
    """What a thread does at a place, with which slot or number, and what it then finds wrong."""

    kind: int
    slot: int
    value: int
    forbids: int
    goes_to: int

    def effect(self, k: Row, shared: Shared, own: Row, which: int) -> int:
        counter = NUMBERS + self.slot
        if self.kind == ORDERS:
            if own[ON_THE_WAY + self.slot]:
                return WAITS
            own[ON_THE_WAY + self.slot] = 1
            shared.add(counter, 1)
        elif self._waits(shared, own):
            return WAITS
        elif self.kind == SETS:
            shared[self.slot] = self.value
        own[AT] = self.goes_to
        return FIRST_RULE if self.forbids >= 0 and shared[counter] == BEGIN + self.forbids else GOES

    def _waits(self, shared: Shared, own: Row) -> bool:
        if self.kind == AWAITS:
            return bool(own[ON_THE_WAY + self.slot])
        return self.kind == COUNTS and self.value > 0 and shared[NUMBERS + self.slot] != BEGIN


@dataclass(frozen=True)
class _Landing:
    """What lands: takes from its counter, or sets a number, and may look at one."""

    takes: bool
    sets: int
    forbids: int

    def effect(self, k: Row, shared: Shared, own: Row, which: int) -> int:
        own[ON_THE_WAY + which] = 0
        shared.add(NUMBERS + which, -1 if self.takes else 1)
        if self.sets >= 0:
            shared[which] = self.sets
        return FIRST_RULE if self.forbids >= 0 and shared[self.forbids] == 2 else GOES


def random_ring(seed: int) -> Model:
    """A model of one or two roles."""
    draw = random.Random(seed)
    roles = tuple(_role(draw, f"role {number}") for number in range(draw.randint(1, 2)))
    numbers = tuple(Field(f"number {one}", 2) for one in range(NUMBERS))
    counters = tuple(Field(f"counter {one}", 31) for one in range(SLOTS))
    start = (0,) * NUMBERS + (BEGIN,) * SLOTS
    return Model(f"ring {seed}", (), (*numbers, *counters), start, roles, ("what is forbidden",))


def _role(draw: random.Random, name: str) -> Role:
    places = draw.randint(3, 5)
    actions = [Action(str(place), _place(draw, place).effect, (place,)) for place in range(places - 1)]
    landing = _Landing(draw.random() < 0.8, _one_of(draw, 0.3, 2), _one_of(draw, 0.15, NUMBERS))
    words = tuple(map(str, range(SLOTS)))
    actions.append(Action("{} lands", landing.effect, choices=words, each=ON_THE_WAY, beside=True))
    own = tuple(Field(f"on the way {slot}", 1) for slot in range(SLOTS))
    starts = ((0, 0, 0),) * draw.randint(1, 3)
    return Role(name, tuple(map(str, range(places))), places - 1, own, starts, tuple(actions))


def _place(draw: random.Random, place: int) -> _Place:
    kind = draw.choices((ORDERS, AWAITS, COUNTS, SETS), (5, 2, 2, 1))[0]
    forbids = draw.randint(0, 3) if draw.random() < 0.12 else -1
    return _Place(kind, draw.randrange(SLOTS), draw.randint(0, 2), forbids, place + 1)


def _one_of(draw: random.Random, chance: float, count: int) -> int:
    return draw.randrange(count) if draw.random() < chance else -1
