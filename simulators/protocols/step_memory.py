"""What processes can do, asked of the model once for each row and shared state, and kept as changes of bits.

The pairs are few: an election of five blocks has 414,000 states, in which 4,600 pairs occur.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.protocols.compiled_search import ROLE_BITS, Memory, remember
from tileproof.simulators.protocols.definition import moves
from tileproof.simulators.protocols.layout import Layout, packed_row, packed_shared, unpacked_row, unpacked_shared
from tileproof.simulators.protocols.model import Model
from tileproof.simulators.protocols.tables import Tables, Words

_FIRST_ROOM = 1 << 10


class StepMemory:
    """The steps of one model.

    Attributes:
        arrays: as the compiled search takes them.
    """

    def __init__(self, model: Model, layout: Layout, tables: Tables) -> None:
        self._model, self._layout, self._tables = model, layout, tables
        masks = tables.masks.tolist()
        self._masks = masks + [0] * (layout.words - len(masks))
        self._known: set[tuple[int, ...]] = set()
        self._steps = 0
        words = layout.words
        ints = (np.zeros(_FIRST_ROOM, np.int64) for _ in range(2))
        self.arrays = Memory(
            np.zeros(4 * _FIRST_ROOM, np.int64),
            np.zeros((_FIRST_ROOM, words + 1), np.uint64),
            np.zeros((_FIRST_ROOM, 3), np.int64),
            np.zeros((_FIRST_ROOM, words), np.uint64),
            *ints,
        )

    @property
    def known(self) -> int:
        """How many pairs of a row and shared numbers it knows."""
        return len(self._known)

    def learn(self, states: Words, asked: Iterable[tuple[int, int]]) -> None:
        """Ask what some processes can do in some states.

        Raises:
            Refusal: the model is no model: see `definition`.
        """
        before = len(self._known)
        for number, process in asked:
            self._learn(states[number].tolist(), process)
        if 2 * len(self._known) > len(self.arrays.table):
            self.arrays = self.arrays._replace(table=np.zeros(4 * len(self.arrays.table), np.int64))
            before = 0
        remember(self.arrays, self._tables.masks, before, len(self._known))

    def _learn(self, words: Sequence[int], process: int) -> None:
        place, role = self._layout.cells[process], self._layout.roles[process]
        cell = words[place.word] >> place.shift & place.mask
        key = (*(word & mask for word, mask in zip(words, self._masks, strict=True)), cell << ROLE_BITS | role)
        if key in self._known:
            return
        actions = self._model.roles[role].actions
        shared, own = unpacked_shared(self._layout, words), unpacked_row(self._layout, role, cell)
        found = list(moves(self._model, self._model.roles[role], shared, own))
        self._make_room(len(found))
        number, first = len(self._known), self._steps
        private = (index for index, move in enumerate(found, first) if actions[move.action].private)
        self._known.add(key)
        self.arrays.keys[number] = key
        self.arrays.ranges[number] = first, first + len(found), next(private, -1)
        for move in found:
            after = packed_shared(self._layout, move.shared)
            self.arrays.changes[self._steps] = [old ^ new for old, new in zip(key, after, strict=False)]
            self.arrays.cells[self._steps] = packed_row(self._layout, role, move.own)
            self.arrays.codes[self._steps] = move.code
            self._steps += 1

    def _make_room(self, steps: int) -> None:
        """For one more key, and so many steps."""
        if len(self._known) >= len(self.arrays.keys):
            self.arrays = self.arrays._replace(keys=_doubled(self.arrays.keys), ranges=_doubled(self.arrays.ranges))
        while self._steps + steps > len(self.arrays.codes):
            changes, cells, codes = (_doubled(each) for each in self.arrays[3:])
            self.arrays = self.arrays._replace(changes=changes, cells=cells, codes=codes)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)))
