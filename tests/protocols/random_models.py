"""Models drawn by seed: a few processes that look at and change a few numbers, some of them wrong in some way."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.simulators.protocols.model import FIRST_RULE, GOES, WAITS, Action, Effect, Field, Model, Role, Row

AT, OWED = 0, 1
MOST = 2


@dataclass(frozen=True)
class _Drawn:
    """What an action looks at, what it then changes, where it goes, and what it must not find."""

    waits_for: Sequence[tuple[int, int]]
    changes: Sequence[tuple[int, int]]
    adds: int
    goes_to: int
    owes: int
    forbids: tuple[int, int]

    def effect(self, k: Row, shared: Row, own: Row, which: int) -> int:
        """Look at numbers in their order, then change them."""
        if any(shared[slot] != value for slot, value in self.waits_for):
            return WAITS
        for slot, value in self.changes:
            shared[slot] = value
        if self.adds >= 0:
            shared[self.adds] = (shared[self.adds] + 1) % (MOST + 1)
        own[AT] = self.goes_to
        if self.owes:
            own[OWED] = self.owes
        slot, value = self.forbids
        return FIRST_RULE if slot >= 0 and shared[slot] == value else GOES


def _performs(slot: int, value: int) -> Effect:
    def effect(k: Row, shared: Row, own: Row, which: int) -> int:
        own[OWED] = own[OWED] & ~(1 << which)
        shared[slot] = value
        return GOES

    return effect


def random_model(seed: int) -> Model:
    """A model of one or two roles."""
    draw = random.Random(seed)
    slots = draw.randint(2, 4)
    roles = tuple(_role(draw, f"role {number}", slots) for number in range(draw.randint(1, 2)))
    fields = tuple(Field(f"number {slot}", MOST) for slot in range(slots))
    return Model(f"seed {seed}", (), fields, (0,) * slots, roles, ("what is forbidden",))


def _role(draw: random.Random, name: str, slots: int) -> Role:
    places = draw.randint(3, 6)
    actions = [
        Action(f"{place} {number}", _drawn(draw, place, places, slots).effect, (place,))
        for place in range(places - 1)
        for number in range(1 + (draw.random() < 0.2))
    ]
    if draw.random() < 0.4:
        late = _performs(draw.randrange(slots), draw.randint(0, MOST))
        actions.append(Action("performs {}", late, (), ("one", "another"), OWED, beside=True))
    if draw.random() < 0.15:
        apart = _drawn(draw, 0, places, slots).effect
        actions.append(Action("beside", apart, tuple(draw.sample(range(places - 1), 2)), beside=True))
    starts = ((0, 0),) * draw.randint(1, 3)
    return Role(name, tuple(map(str, range(places))), places - 1, (Field("owed", 3),), starts, tuple(actions))


def _drawn(draw: random.Random, place: int, places: int, slots: int) -> _Drawn:
    def some(chance: float) -> list[tuple[int, int]]:
        return [(slot, draw.randint(0, MOST)) for slot in range(slots) if draw.random() < chance]

    goes_to = place + 1 if draw.random() < 0.9 else draw.randrange(places)
    looks = [(slot, 0 if draw.random() < 0.7 else value) for slot, value in some(0.3)]
    adds = draw.randrange(slots) if draw.random() < 0.2 else -1
    owes = draw.randint(1, 3) if draw.random() < 0.2 else 0
    forbids = (draw.randrange(slots), draw.randint(1, MOST)) if draw.random() < 0.15 else (-1, 0)
    return _Drawn(looks, some(0.15), adds, goes_to, owes, forbids)
