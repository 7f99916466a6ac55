"""Models of a few lines, each right or wrong in one way."""

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
