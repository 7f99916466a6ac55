"""Models of a few lines, each right or wrong in one way."""

import itertools
from dataclasses import replace

from tileproof.simulators.protocols.model import FIRST_RULE, GOES, WAITS, Action, Field, Model, Role, Row

AT, SEEN = 0, 1
LOADS, STORES, DONE = range(3)


def _loads(k: Row, shared: Row, own: Row, which: int) -> int:
    own[SEEN], own[AT] = shared[0], STORES
    return GOES


def _stores(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[0], own[AT] = own[SEEN] + 1, DONE
    own[SEEN] = 0
    shared[1] += 1
    return FIRST_RULE if shared[1] == k[0] and shared[0] != k[0] else GOES


def counter(processes: int, most: int = 8) -> Model:
    """Processes that add 1 to a counter, by a load and a store: all but the first may be lost."""
    role = Role(
        "adder",
        ("loads", "stores", "done"),
        DONE,
        (Field("seen", most),),
        ((LOADS, 0),) * processes,
        (Action("loads", _loads, (LOADS,)), Action("stores", _stores, (STORES,))),
    )
    fields = (Field("counter", most), Field("stored", most))
    return Model("counter", (processes,), fields, (0, 0), (role,), ("an addition is lost",))


def _takes(k: Row, shared: Row, own: Row, which: int) -> int:
    lock = (own[SEEN] + own[AT]) % 2 if k[0] else own[AT]
    if shared[lock]:
        return WAITS
    shared[lock] = 1
    own[AT] += 1
    return GOES


def _gives_back(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[0] = shared[1] = 0
    own[AT] = 3
    return GOES


def locks(crosswise: bool) -> Model:
    """Two processes that take two locks, in one order or in opposite ones."""
    role = Role(
        "taker",
        ("wants one", "wants another", "has both", "done"),
        3,
        (Field("first", 1),),
        ((0, 0), (0, 1)),
        (Action("takes a lock", _takes, (0, 1)), Action("gives both back", _gives_back, (2,))),
    )
    fields = (Field("lock[0]", 1), Field("lock[1]", 1))
    return Model("locks", (int(crosswise),), fields, (0, 0), (role,), ())


def _goes_round(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[0] ^= 1
    return GOES


def _leaves(k: Row, shared: Row, own: Row, which: int) -> int:
    if shared[0] != k[0]:
        return WAITS
    own[AT] = 1
    return GOES


def roundabout(exits: bool) -> Model:
    """Something that can always go on; whether it can ever leave is the question."""
    actions = (Action("goes round", _goes_round, (0,)), Action("leaves", _leaves, (0,)))
    role = Role("driver", ("drives", "has left"), 1, (), ((0,),), actions)
    return Model("roundabout", (1 if exits else 2,), (Field("side", 1),), (0,), (role,), ())


def _changes_and_waits(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[0] = 1
    return WAITS


def dishonest() -> Model:
    """An action that changes the state and says that it waits."""
    role = Role("liar", ("lies", "done"), 1, (), ((0,),), (Action("lies", _changes_and_waits, (0,)),))
    return Model("dishonest", (), (Field("flag", 1),), (0,), (role,), ())


def _looks(k: Row, shared: Row, own: Row, which: int) -> int:
    own[SEEN], own[AT] = shared[0], 1
    return GOES


def _looks_again(k: Row, shared: Row, own: Row, which: int) -> int:
    own[AT] = 2
    return GOES if shared[0] == own[SEEN] else FIRST_RULE


def _disturbs(k: Row, shared: Row, own: Row, which: int) -> int:
    shared[0], own[AT] = 1, 2
    return GOES


def disturbed(order: tuple[int, ...]) -> Model:
    """One that looks at a number twice, and one that changes it; in either order of the roles."""
    fields = (Field("seen", 1),)
    looker = Role("looker", ("looks", "looks again", "done"), 2, fields, ((0, 0),), ())
    looks = (Action("looks", _looks, (0,)), Action("looks again", _looks_again, (1,)))
    roles = (
        replace(looker, actions=looks),
        replace(looker, name="other", actions=(Action("disturbs", _disturbs, (0,)),)),
    )
    ordered = tuple(roles[one] for one in order)
    return Model("disturbed", (), (Field("number", 1),), (0,), ordered, ("found another number than before",))


def _circles(k: Row, shared: Row, own: Row, which: int) -> int:
    own[AT] ^= 1
    return GOES


def _comes(k: Row, shared: Row, own: Row, which: int) -> int:
    own[AT] = 2
    return FIRST_RULE


def beside_a_circle() -> Model:
    """One that goes round for itself for ever, and another that does wrong in its first step."""
    places = ("here", "there", "done")
    goes_round = Role("walker", places, 0, (), ((0,),), (Action("goes round", _circles, (0, 1)),))
    comes = Role("other", places, 2, (), ((0,),), (Action("comes", _comes, (0,)),))
    return Model("circle", (), (Field("number", 1),), (0,), (goes_round, comes), ("the other has come",))


def forgetful() -> Model:
    """An action that looks at another number each time it is asked."""
    times = itertools.count()

    def looks_about(k: Row, shared: Row, own: Row, which: int) -> int:
        if shared[next(times) % 2] > own[AT]:
            return WAITS
        own[AT] += 1
        shared[2] = own[AT]
        return GOES

    role = Role("looker", ("0", "1", "2", "3"), 3, (), ((0,), (0,)), (Action("looks about", looks_about, (0, 1, 2)),))
    fields = (Field("one", 1), Field("other", 1), Field("last", 3))
    return Model("forgetful", (), fields, (0, 0, 0), (role,), ())
