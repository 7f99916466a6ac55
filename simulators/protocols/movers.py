"""Which steps a search may take alone, leaving out every order of them and what others do meanwhile.

A step of a process may be taken alone if it commutes with everything that others can do before it. That is not known
beforehand, so it is *presumed of every action* and watched:

* What the step looked at is **held** by its process from then on, until the process takes another step that is not
  taken alone; what it changed is held so that others may not even look at it.
* If another process changes what is held, or looks at what is held so, they **clash**; two that only add to a number
  do not. All actions that may have held it are then no longer taken alone, and the search begins anew.
* A thing that happens *beside* the thread, a store that is performed late, must not touch the numbers of the row that
  the thread's step touches, and holds for others what the row holds.

Why a clash is always seen: let a run that leaves the reduced search come to the first step `b` that does not commute
with a step `t` which was put off. All steps before `b` commute with `t`, so `t` could have been taken first; then `b`,
which hangs on what it looks at one by one, still goes the same way at least up to its first look at what `t` changed,
or changes what `t` looked at: and `t`'s process, which has not moved on, holds both. Nothing that the search takes
first instead ends that hold. So if no state of the reduced search has a clash, no state at all has one, and the reduced
search finds a broken rule, a state in which nobody can go on, or one without a way to the end whenever there is one. A
process takes only finitely many steps alone without another step: the rows that they lead through form no circle.

Example: a consumer finds its slot full and reads it. Both steps are taken alone, and it holds the barrier's parity and
what the slot holds until it releases the slot. A copy that lands there before is a clash.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tileproof.simulators.protocols.asking import Answer, Numbers
from tileproof.simulators.protocols.compiled_search import ROLE_BITS
from tileproof.simulators.protocols.layout import Layout, packed_row
from tileproof.simulators.protocols.model import AT, GOES, Action, Model
from tileproof.simulators.protocols.tables import Words

_WORD = 64
Held = tuple[int, int]
_NOTHING: Held = (0, 0)


@dataclass(frozen=True)
class Leaf:
    """A step that may happen: its number, of which role, from which row, and what it does."""

    number: int
    role: int
    own: Numbers
    answer: Answer


@dataclass
class _Beside:
    """Numbers of a row that an action beside the thread has looked at, and those that it has changed."""

    action: Action
    seen: set[int]
    changed: set[int] = field(default_factory=set)


class Movers:
    """Steps taken alone, what cells hold, and what is known not to be so.

    Attributes:
        is_stale: what a search has used is no longer so: it must begin anew.
        dropped: actions that are not taken alone, by role and number.
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        self._model, self._layout = model, layout
        self.is_stale = False
        self.dropped: set[tuple[int, int]] = set()
        self._beside = [
            {number: _Beside(action, _guards(action)) for number, action in enumerate(role.actions) if action.beside}
            for role in model.roles
        ]
        self._guards = [
            {AT}.union(*(_guards(action) for action in role.actions if not action.beside)) for role in model.roles
        ]
        self._seen: dict[int, set[int]] = {}
        self._leaves: list[Leaf] = []
        self._alone: dict[int, list[Leaf]] = {}
        self._bits: dict[tuple[int, int], Held] = {}
        self._held: dict[int, Held] = {}
        self._after: dict[int, dict[int, Held]] = {}
        self._entered: set[int] = set()
        self._news: dict[int, bool] = {}
        self._held_news: set[int] = set()

    def hear(self, role: int, key: int, answer: Answer) -> None:
        """Take note of the numbers of a row that an answer has touched."""
        beside = self._beside[role].get(answer.action)
        if beside is None:
            seen = self._seen.setdefault(key, set(self._guards[role]))
            grown = not answer.own_seen <= seen
            seen |= answer.own_seen
            suspects = self._alone.get(key, ()) if grown else ()
        else:
            grown = not (answer.own_seen <= beside.seen and answer.own_changed <= beside.changed)
            beside.seen |= answer.own_seen
            beside.changed |= answer.own_changed
            suspects = [leaf for leaves in self._alone.values() for leaf in leaves] if grown else ()
        if not all(self._is_alone(leaf) for leaf in suspects):
            self._begin_anew()

    def add(self, leaf: Leaf) -> None:
        """Take note of a step."""
        self._leaves.append(leaf)
        self._add(leaf)

    def _add(self, leaf: Leaf) -> None:
        key, after = self._key(leaf, leaf.own), self._key(leaf, leaf.answer.own)
        is_alone = self._is_alone(leaf)
        self._news[leaf.number] = is_alone
        if is_alone:
            self._alone.setdefault(key, []).append(leaf)
            seen, changed = self._touched(leaf.answer)
            what = leaf.role, leaf.answer.action
            self._bits[what] = _both(self._bits.get(what, _NOTHING), (seen, changed))
            self._link(key, after, (seen, changed))
        elif leaf.answer.action in self._beside[leaf.role] and key != after:
            self._link(key, after, _NOTHING)

    def _key(self, leaf: Leaf, own: Numbers) -> int:
        return packed_row(self._layout, leaf.role, own) << ROLE_BITS | leaf.role

    def _is_alone(self, leaf: Leaf) -> bool:
        return self.takes_alone(leaf.role, leaf.own, leaf.answer)

    def takes_alone(self, role: int, own: Numbers, answer: Answer) -> bool:
        """Whether a step is taken alone, as far as its own row can tell."""
        beside = self._beside[role]
        if answer.code != GOES or answer.action in beside or (role, answer.action) in self.dropped:
            return False
        key = packed_row(self._layout, role, own) << ROLE_BITS | role
        seen, changed = self._seen[key], answer.own_changed
        return not any(
            one.changed & seen
            or one.changed & changed
            or one.seen & changed
            or (one.action.at and (own[AT] in one.action.at) != (answer.own[AT] in one.action.at))
            for one in beside.values()
        )

    def _touched(self, answer: Answer) -> tuple[int, int]:
        """Bits of the shared numbers that it looked at, and of those that it changed; words side by side."""
        seen = answer.shared_seen.keys() - answer.shared_added
        return bits_of(self._layout, seen), bits_of(self._layout, answer.shared_changed)

    def _link(self, key: int, after: int, held: Held) -> None:
        """What a cell holds is held by the one after it, too, and more."""
        links = self._after.setdefault(key, {})
        links[after] = _both(links.get(after, _NOTHING), held)
        todo = [key]
        while todo:
            before = todo.pop()
            for behind, more in self._after.get(before, {}).items():
                old = self._held.get(behind, _NOTHING)
                new = _both(old, _both(more, self._held.get(before, _NOTHING)))
                if new != old:
                    self._held[behind] = new
                    self._held_news.add(behind)
                    self.is_stale |= behind in self._entered
                    todo.append(behind)

    def enter(self, key: int) -> Words:
        """A search uses this cell from now on: what it holds."""
        self._entered.add(key)
        return self._words(key)

    def _words(self, key: int) -> Words:
        return np.array([word for bits in self.held_by(key) for word in words_of(self._layout, bits)], np.uint64)

    def held_by(self, key: int) -> Held:
        """Bits that nobody else may change, and those that nobody else may look at, while a process has this cell."""
        return self._held.get(key, _NOTHING)

    def news(self) -> Iterator[tuple[int, bool]]:
        """Steps of which it has changed whether they are taken alone."""
        news, self._news = self._news, {}
        yield from news.items()

    def held_news(self) -> Iterator[tuple[int, Words]]:
        """Cells that hold something else than before."""
        news, self._held_news = self._held_news, set()
        for key in news:
            yield key, self._words(key)

    def drop(self, processes: Iterable[tuple[int, int]], changed: int, looked_at: int) -> None:
        """Some bits were changed or looked at that others hold: what holds them is not taken alone any more.

        Args:
            processes: roles and cells of all that may hold them.
            changed: bits that nobody else was to change.
            looked_at: bits that nobody else was to look at.
        """
        # Changing is looking, too, and then it is those who had changed it that are to blame.
        kind, bits = (1, looked_at) if looked_at else (0, changed)
        suspects: set[tuple[int, int]] = set()
        for role, cell in processes:
            held = self._held.get(cell << ROLE_BITS | role, _NOTHING)[kind]
            if held & bits:
                suspects |= {what for what, of in self._bits.items() if what[0] == role and of[kind] & bits}
        assert suspects, "a clash with nobody"
        self._drop(suspects)

    def break_circles(self) -> None:
        """Drop actions by which a process could go round and round alone; the search must begin anew if there are."""
        done: set[int] = set()
        for start in self._alone:
            if start in done:
                continue
            way: list[tuple[int, Iterator[Leaf]]] = [(start, iter(self._alone[start]))]
            on_way = {start}
            while way:
                leaf = next(way[-1][1], None)
                if leaf is None:
                    on_way.discard(way[-1][0])
                    done.add(way.pop()[0])
                    continue
                after = self._key(leaf, leaf.answer.own)
                if after in on_way:
                    self._drop({(leaf.role, leaf.answer.action)})
                    return
                if after not in done:
                    on_way.add(after)
                    way.append((after, iter(self._alone.get(after, ()))))

    def _drop(self, actions: set[tuple[int, int]]) -> None:
        self.dropped |= actions
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.is_stale = True
        self._held_news |= self._held.keys()
        for each in (self._alone, self._bits, self._held, self._after):
            each.clear()
        for leaf in self._leaves:
            self._add(leaf)


def _guards(action: Action) -> set[int]:
    return {number for which in range(len(action.choices)) for number in action.guards(which)}


def bits_of(layout: Layout, shared: Iterable[int]) -> int:
    """Bits of some shared numbers; words side by side."""
    places = (layout.shared[number] for number in shared)
    return sum(place.mask << place.shift + _WORD * place.word for place in places)


def words_of(layout: Layout, bits: int) -> list[int]:
    """The words of some bits side by side."""
    mask = (1 << _WORD) - 1
    return [bits >> _WORD * word & mask for word in range(layout.words)]


def _both(one: Held, other: Held) -> Held:
    return one[0] | other[0], one[1] | other[1]
