"""What processes can do, as decision trees: asked of the model once for each row and what the answer hangs on.

A *cell* is the packed row of a process. For each thing that a process with this cell may try there is a tree: a node is
a look at a shared number, a leaf what happens. The trees grow as states ask for ways that they have not; so a ring of
eight stages, in which nearly every state has shared numbers of its own, is asked for some thousand ways in all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.asking import Answer, Numbers, ask, questions
from tileproof.simulators.protocols.compiled_search import CELL, ROLE_BITS, WAIT, Memory, remember
from tileproof.simulators.protocols.layout import Layout, packed_row, packed_shared, unpacked_row, unpacked_shared
from tileproof.simulators.protocols.model import WAITS, Model
from tileproof.simulators.protocols.movers import Leaf, Movers, bits_of, words_of
from tileproof.simulators.protocols.put_off import PutOff
from tileproof.simulators.protocols.tables import Words
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

    def __init__(self, model: Model, layout: Layout) -> None:
        self._model, self._layout = model, layout
        self._ids: dict[int, int] = {}
        self._trees: dict[int, _Tree] = {}
        self._slots: list[tuple[int, int]] = [(0, 0)]
        self._refs = 1
        self._leaves = 0
        self.movers = Movers(model, layout)
        self.put_off = PutOff(model, layout, self.movers)
        self.asked = 0
        words = layout.words
        self.arrays = Memory(
            np.zeros(4 * _FIRST_ROOM, np.int64),
            np.zeros(_FIRST_ROOM, np.int64),
            np.zeros((_FIRST_ROOM, 3), np.int64),
            np.zeros((_FIRST_ROOM, 2, words), np.uint64),
            np.zeros((_FIRST_ROOM, 2), np.int64),
            np.zeros(_FIRST_ROOM, np.int64),
            np.zeros((_FIRST_ROOM, 4), np.int64),
            np.zeros((_FIRST_ROOM, words), np.uint64),
            np.zeros(_FIRST_ROOM, np.int64),
            np.zeros(_FIRST_ROOM, np.int64),
            np.zeros(_FIRST_ROOM, np.bool_),
            np.zeros((_FIRST_ROOM, words), np.uint64),
            np.zeros(_FIRST_ROOM, np.int64),
            np.zeros((0, 0, 2, words), np.uint64),
            np.zeros((0, 0, 2), np.int64),
        )

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
            self.arrays = self.arrays._replace(table=np.zeros(size, np.int64))
            before = 0
        remember(self.arrays, before, len(self._ids))
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
            keys, roots, holds, own_bits = (_doubled(each) for each in self.arrays[1:5])
            self.arrays = self.arrays._replace(keys=keys, roots=roots, holds=holds, own=own_bits)
        self.arrays.keys[number] = key
        self.arrays.roots[number] = first, first + len(threads), first + len(threads) + len(beside)
        self.arrays.holds[number] = self.movers.enter(key)
        self.arrays.own[number] = self.put_off.enter(role, key)
        self._take_refs(len(threads) + len(beside))
        for ref, (tree, answer) in enumerate((*threads, *beside), first):
            self._trees[ref] = tree
            is_beside = ref >= first + len(threads)
            self.arrays.things[ref] = self.put_off.number(role, tree.question) if is_beside else -1
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
        if self.arrays.refs[ref] != 0:
            return  # several states of a batch have asked for it
        self.arrays.refs[ref] = WAIT if answer.code == WAITS else WAIT - 1 - self._leaf(tree, answer)

    def _child(self, tree: _Tree, ref: int, slot: int, shift: int, value: int) -> int:
        """Where a look at some bits of a number leads."""
        place = self._layout.shared[slot]
        bits = min(_NODE_BITS, place.bits - shift)
        if self.arrays.refs[ref] == 0:
            node = len(self._slots)
            self._slots.append((slot, shift))
            if node >= len(self.arrays.nodes):
                self.arrays = self.arrays._replace(nodes=_doubled(self.arrays.nodes))
            self.arrays.nodes[node] = place.word, place.shift + shift, (1 << bits) - 1, self._refs
            self._take_refs(1 << bits)
            self.arrays.refs[ref] = node
        node = int(self.arrays.refs[ref])
        if node < 0 or self._slots[node] != (slot, shift):
            words = self._model.roles[tree.role].actions[tree.question[0]].words
            raise Refusal(f"{self._model.name}: {words!r} hangs on more than the numbers that it looks at")
        return int(self.arrays.nodes[node, 3]) + (value >> shift & (1 << bits) - 1)

    def _take_refs(self, count: int) -> None:
        self._refs += count
        while self._refs > len(self.arrays.refs):
            refs, things = _doubled(self.arrays.refs), _doubled(self.arrays.things)
            self.arrays = self.arrays._replace(refs=refs, things=things)

    def _leaf(self, tree: _Tree, answer: Answer) -> int:
        leaf = self._leaves
        self._leaves += 1
        if leaf >= len(self.arrays.codes):
            changes, cells, codes, alone, sees = (_doubled(each) for each in self.arrays[7:12])
            self.arrays = self.arrays._replace(changes=changes, cells=cells, codes=codes, alone=alone, sees=sees)
        before = dict(answer.shared_seen)
        was = tuple(before.get(index, value) for index, value in enumerate(answer.shared))
        old, new = packed_shared(self._layout, was), packed_shared(self._layout, answer.shared)
        self.arrays.changes[leaf] = [one ^ other for one, other in zip(old, new, strict=True)]
        self.arrays.cells[leaf] = packed_row(self._layout, tree.role, answer.own)
        self.arrays.codes[leaf] = answer.code
        self.arrays.sees[leaf] = words_of(self._layout, bits_of(self._layout, touched_by(answer).seen))
        self.movers.add(Leaf(leaf, tree.role, tree.own, answer))
        return leaf


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)))
