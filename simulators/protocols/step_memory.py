"""What processes can do, as decision trees: asked of the model once for each row and what the answer hangs on.

A *cell* is the packed row of a process. For each thing that a process with this cell may try there is a tree: a node is
a look at a shared number, a leaf what happens. The trees grow as states ask for ways that they have not; so a ring of
eight stages, in which nearly every state has shared numbers of its own, is asked for some thousand ways in all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.asking import Answer, Numbers, ask, questions
from tileproof.simulators.protocols.compiled_search import (
    CELL,
    ROLE_BITS,
    UNKNOWN,
    Memory,
    first_below,
    node_of,
    remember,
)
from tileproof.simulators.protocols.layout import Layout, packed_row, packed_shared, unpacked_row, unpacked_shared
from tileproof.simulators.protocols.model import WAITS, Model
from tileproof.simulators.protocols.movers import Leaf, Movers, bits_of, words_of
from tileproof.simulators.protocols.put_off import PutOff
from tileproof.simulators.protocols.tables import Tables, Words, room_for_cells
from tileproof.simulators.protocols.touched import touched_by

_FIRST_ROOM = 1 << 10
# A look at a wider number is several nodes.
_NODE_BITS = 6


@dataclass(frozen=True)
class _Tree:
    """Whose tree it is: a role, a row of it, and what is tried."""

    role: int
    own: Numbers
    question: tuple[int, int]


class StepMemory:
    """The steps of one model.

    Attributes:
        arrays: as the compiled search takes them.
        movers: which steps may be taken alone.
        put_off: which things beside threads may be put off.
        asked: how often the model was asked.
    """

    def __init__(self, model: Model, layout: Layout, tables: Tables) -> None:
        self._model, self._layout, self._tables = model, layout, tables
        self._ids: dict[int, int] = {}
        self._trees: dict[int, _Tree] = {}
        self._looks: dict[int, tuple[int, int]] = {}
        self._refs = self._leaves = 1
        self.movers = Movers(model, layout)
        self.put_off = PutOff(model, layout, self.movers)
        self.asked = 0
        self.arrays = _empty(layout)

    def learn(self, states: Words, asked: Iterable[tuple[int, int]]) -> None:
        """Ask what some processes can do, each in its state, by one tree or, where its cell is new, by all.

        Raises:
            Refusal: the model is no model: see `asking`.
        """
        before = len(self._ids)
        for words, (process, ref) in zip(states.tolist(), asked, strict=True):
            if ref == CELL:
                self._learn_cell(words, process)
            else:
                self._answer(self._trees[ref], ref, unpacked_shared(self._layout, words))
        if 2 * len(self._ids) > len(self.arrays.table):
            size = 4 * len(self.arrays.table)
            self.arrays = self.arrays._replace(table=np.zeros(size, np.uint64))
            before = 0
        remember(self._tables, self.arrays, before, len(self._ids))
        self.refresh()

    def refresh(self) -> None:
        """Take over which steps may be taken alone, what cells hold, and what things beside threads touch."""
        for leaf, is_alone in self.movers.news():
            self.arrays.alone[leaf] = is_alone
        for key, held in self.movers.held_news():
            if key in self._ids:
                self.arrays.holds[self._ids[key]] = held
        for key, own in self.put_off.cell_news():
            if key in self._ids:
                self.arrays.own[self._ids[key]] = own
        footprints = self.put_off.footprints()
        if footprints is not None:
            self.arrays = self.arrays._replace(shared=footprints[0], rows=footprints[1])

    @property
    def is_stale(self) -> bool:
        """Whether a search must begin anew."""
        return self.movers.is_stale or self.put_off.is_stale

    def begin(self) -> None:
        """A search begins with all that is known."""
        self.refresh()
        self.movers.is_stale = self.put_off.is_stale = False

    def _learn_cell(self, words: Sequence[int], process: int) -> None:
        place, role = self._layout.cells[process], self._layout.roles[process]
        cell = words[place.word] >> place.shift & place.mask
        key = cell << ROLE_BITS | role
        if key in self._ids:
            return
        shared, own = unpacked_shared(self._layout, words), unpacked_row(self._layout, role, cell)
        threads: list[tuple[_Tree, Answer]] = []
        beside: list[tuple[_Tree, Answer]] = []
        for question in questions(self._model.roles[role], own):
            tree = _Tree(role, own, question)
            answer = self._ask(tree, key, shared)
            if answer.code != WAITS or answer.shared_seen:  # else it waits whatever others do
                is_beside = self._model.roles[role].actions[question[0]].beside
                (beside if is_beside else threads).append((tree, answer))
        number, first = len(self._ids), self._refs
        self._ids[key] = number
        while number >= len(self.arrays.keys):
            self._double("keys", "roots", "holds", "own")
        self.arrays.keys[number] = key
        self.arrays.roots[number] = first, first + len(threads), first + len(threads) + len(beside)
        self.arrays.holds[number] = self.movers.enter(key)
        self.arrays.own[number] = self.put_off.enter(role, key)
        self._take_refs(len(threads) + len(beside))
        for ref, (tree, answer) in enumerate((*threads, *beside), first):
            self._trees[ref] = tree
            is_beside = ref >= first + len(threads)
            self.arrays.things[ref] = self.put_off.number(role, tree.question) if is_beside else 0
            self._grow(tree, ref, answer)

    def _ask(self, tree: _Tree, key: int, shared: Numbers) -> Answer:
        self.asked += 1
        answer = ask(self._model, self._model.roles[tree.role], tree.question, shared, tree.own)
        self.movers.hear(tree.role, key, answer)
        self.put_off.hear(tree.role, key, answer)
        return answer

    def _answer(self, tree: _Tree, ref: int, shared: Numbers) -> None:
        key = packed_row(self._layout, tree.role, tree.own) << ROLE_BITS | tree.role
        self._grow(tree, ref, self._ask(tree, key, shared))

    def _grow(self, tree: _Tree, ref: int, answer: Answer) -> None:
        """Give a tree the way of an answer, from its root on."""
        for slot, value in answer.shared_seen.items():
            for shift in range(0, self._layout.shared[slot].bits, _NODE_BITS):
                ref = self._child(tree, ref, slot, shift, value)
        if self.arrays.refs[ref] != UNKNOWN:
            return  # several states of a batch have asked for it
        self.arrays.refs[ref] = 2 * self._leaf(tree, answer)

    def _child(self, tree: _Tree, ref: int, slot: int, shift: int, value: int) -> int:
        """Where a look at some bits of a number leads."""
        place = self._layout.shared[slot]
        bits = min(_NODE_BITS, place.bits - shift)
        if self.arrays.refs[ref] == UNKNOWN:
            new = node_of(place.word, place.shift + shift, (1 << bits) - 1, self._refs)
            self._looks[new] = slot, shift
            self._take_refs(1 << bits)
            self.arrays.refs[ref] = new
        node = int(self.arrays.refs[ref])
        if self._looks.get(node) != (slot, shift):
            words = self._model.roles[tree.role].actions[tree.question[0]].words
            raise Refusal(f"{self._model.name}: {words!r} hangs on more than the numbers that it looks at")
        return first_below(node) + (value >> shift & (1 << bits) - 1)

    def _take_refs(self, count: int) -> None:
        self._refs += count
        while self._refs > len(self.arrays.refs):
            self._double("refs", "things")

    def _leaf(self, tree: _Tree, answer: Answer) -> int:
        leaf = self._leaves
        self._leaves += 1
        if leaf >= len(self.arrays.codes):
            self._double("does", "cells", "codes", "alone")
        before = dict(answer.shared_seen)
        was = tuple(before.get(index, value) for index, value in enumerate(answer.shared))
        old, new = packed_shared(self._layout, was), packed_shared(self._layout, answer.shared)
        # Who waits has changed nothing by adding, so all that it touched it has looked at.
        seen = answer.shared_seen.keys() if answer.code == WAITS else touched_by(answer).seen
        changes = [one ^ other for one, other in zip(old, new, strict=True)]
        self.arrays.does[leaf] = [*changes, *words_of(self._layout, bits_of(self._layout, seen))]
        self.arrays.cells[leaf] = packed_row(self._layout, tree.role, answer.own)
        self.arrays.codes[leaf] = answer.code
        if answer.code != WAITS:
            self.movers.add(Leaf(leaf, tree.role, tree.own, answer))
        return leaf

    def _double(self, *names: str) -> None:
        for name in names:
            array = getattr(self.arrays, name)
            self.arrays = self.arrays._replace(**{name: np.concatenate((array, np.zeros_like(array)))})


def _empty(layout: Layout) -> Memory:
    room, both = _FIRST_ROOM, 2 * layout.words
    return Memory(
        direct=np.zeros(room_for_cells(layout), np.int32),
        table=np.zeros(4 * room, np.uint64),
        keys=np.zeros(room, np.uint64),
        roots=np.zeros((room, 3), np.uint64),
        holds=np.zeros((room, both), np.uint64),
        own=np.zeros((room, 2), np.uint64),
        refs=np.zeros(room, np.uint64),
        does=np.zeros((room, both), np.uint64),
        cells=np.zeros(room, np.uint64),
        codes=np.zeros(room, np.uint64),
        alone=np.zeros(room, np.bool_),
        things=np.zeros(room, np.uint64),
        shared=np.zeros((0, 0, both), np.uint64),
        rows=np.zeros((0, 0, 2), np.uint64),
    )
