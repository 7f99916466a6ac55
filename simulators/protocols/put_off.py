"""Which things beside the threads a search may put off: a copy that lands, a store that is performed late.

Where no thread goes alone (`movers.py`), the search need not look at every order of what happens beside. It takes the
steps of all threads, and of the things beside those that touch what these touch:

* A thing is *taken* if it changes what a thread looks at in this state, the numbers of its own row included, or looks
  at what a thread changes. A thread that waits counts with what it looked at, so that whatever can let it go on is
  taken; what processes hold counts, too, so that a clash is seen.
* What is taken counts like a thread's step, and so on until nothing more is touched. Numbers that two only add to do
  not count.
* The others are put off. If nothing that is taken can happen, all are taken.

What a thread touches is known from this very state. What a thing touches is all that it was ever seen to touch, from
any row: its **footprint**. It is learned while the search asks; when it grows, the search begins anew.

Why nothing is lost: what is put off changes nothing that steps which are taken look at, and looks at nothing that they
change, in any order and however often; and lets no other thread go on. So a run that begins with things put off can do
the first step that is taken before them. Let any run lead on from a state of the reduced search. If one of its steps is
taken there, that one comes first; else the search's own steps commute with all of it. From every state that the search
looks at there is a way to the end, which it sees, and nothing is left to do there: so on the way all of the run is
taken. Hence every broken rule, every end and every state without a way to the end is found. The same holds for a step
with a footprint that the search has not learned: what it looks at first that is new is not changed by what is put off.

Example: eight warps have four copies each on their way. Nobody looks at them but a warp that waits for its oldest one,
whose landing is taken; without this, each copy may have landed or not, in 16 ways a warp.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from tileproof.simulators.protocols.asking import Answer, Numbers
from tileproof.simulators.protocols.compiled_search import ROLE_BITS
from tileproof.simulators.protocols.layout import Layout, packed_row
from tileproof.simulators.protocols.model import AT, Action, Model
from tileproof.simulators.protocols.movers import Movers, bits_of, words_of
from tileproof.simulators.protocols.tables import Words
from tileproof.simulators.protocols.touched import NONE, Numbered, Thing, Touched, touched_by


class PutOff:
    """Footprints of what happens beside threads, and what threads touch of their rows.

    Attributes:
        is_stale: what a search has used is no longer all: it must begin anew.
    """

    def __init__(self, model: Model, layout: Layout, movers: Movers) -> None:
        self._layout, self._movers = layout, movers
        self.is_stale = False
        self._things: list[dict[Thing, Touched]] = [
            {
                (number, which): Touched(own_seen=action.guards(which) | ({AT} if action.at else NONE))
                for number, action in enumerate(role.actions)
                if action.beside
                for which in range(len(action.choices))
            }
            for role in model.roles
        ]
        self._guards = [_guards_of_threads(role.actions) for role in model.roles]
        self._threads: dict[int, Touched] = {}
        self._entered: set[int] = set()
        self._news: set[int] = set()
        self._all_news = True

    def hear(self, role: int, key: int, answer: Answer) -> None:
        """Take note of what an action touched."""
        things, thing, touched = self._things[role], (answer.action, answer.which), touched_by(answer)
        if thing in things:
            grown = things[thing] | touched
            if grown != things[thing]:
                things[thing] = grown
                self.is_stale = self._all_news = True
        elif things:
            before = self._of_thread(role, key)
            self._threads[key] = before | Touched(own_seen=touched.own_seen, own_changed=touched.own_changed)
            self._news.add(key)
            if self._that_counts(role, before) != self._that_counts(role, self._threads[key]):
                self.is_stale |= key in self._entered

    def _of_thread(self, role: int, key: int) -> Touched:
        return self._threads.get(key, Touched(own_seen=self._guards[role]))

    def _that_counts(self, role: int, thread: Touched) -> Touched:
        """Of what a thread touches of its row, what things beside it change or look at."""
        things = self._things[role].values()
        changed, seen = (NONE.union(*sets) for sets in zip(*((t.own_changed, t.own_seen) for t in things), strict=True))
        return Touched(own_seen=thread.own_seen & changed, own_changed=thread.own_changed & seen)

    def takes_alone(self, role: int, own: Numbers, answer: Answer) -> bool:
        """Whether a step is taken alone."""
        return self._movers.takes_alone(role, own, answer)

    def things(self, role: int) -> Mapping[Thing, Touched]:
        """What can happen beside a thread, and its footprint."""
        return self._things[role]

    def of_thread(self, role: int, own: Numbers) -> Touched:
        """What the thread with this row touches of it, and of shared numbers what the process holds."""
        key = packed_row(self._layout, role, own) << ROLE_BITS | role
        held, hidden = self._movers.held_by(key)
        seen, changed = (self._numbers(bits) for bits in (held, hidden))
        return Touched(seen, changed) | self._of_thread(role, key)

    def _numbers(self, bits: int) -> Numbered:
        return frozenset(number for number in self._layout.used if bits_of(self._layout, (number,)) & bits)

    def enter(self, role: int, key: int) -> Words:
        """A search uses this cell from now on: bits of it that its thread looks at, and that it changes."""
        self._entered.add(key)
        return self._own(role, self._of_thread(role, key))

    def _own(self, role: int, touched: Touched) -> Words:
        within = self._layout.within[role]
        sets = (touched.own_seen, touched.own_changed)
        return np.array([sum(within[one].mask << within[one].shift for one in numbers) for numbers in sets], np.uint64)

    def cell_news(self) -> Iterator[tuple[int, Words]]:
        """Cells of which the threads touch more than before."""
        news, self._news = self._news, set()
        for key in news:
            role = key & (1 << ROLE_BITS) - 1
            yield key, self._own(role, self._of_thread(role, key))

    def footprints(self) -> tuple[Words, Words] | None:
        """By role and thing: bits of shared numbers and of the row that it changes and looks at; None if as before."""
        if not self._all_news:
            return None
        self._all_news = False
        most = max(map(len, self._things))
        shared = np.zeros((len(self._things), most, 2 * self._layout.words), np.uint64)
        own = np.zeros((len(self._things), most, 2), np.uint64)
        for role, things in enumerate(self._things):
            for number, touched in enumerate(things.values()):
                bits = (bits_of(self._layout, numbers) for numbers in (touched.changed, touched.seen))
                shared[role, number] = [word for each in bits for word in words_of(self._layout, each)]
                own[role, number] = self._own(role, touched)[::-1]
        return shared, own

    def number(self, role: int, thing: Thing) -> int:
        """Of a thing, among those of its role."""
        return list(self._things[role]).index(thing)


def _guards_of_threads(actions: tuple[Action, ...]) -> Numbered:
    """Numbers of a row that all that a thread can do hangs on."""
    guards = (a.guards(which) for a in actions if not a.beside for which in range(len(a.choices)))
    return frozenset({AT}).union(*guards)
