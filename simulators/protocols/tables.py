"""Where a model's numbers lie, as arrays: all that the compiled search knows of a model."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.protocols.layout import Layout
from tileproof.simulators.protocols.model import AT, Model

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]


class Tables(NamedTuple):
    """What the compiled search knows of a model.

    Args:
        cells: [processes, 8], of each process the word, shift and mask of its cell; its role; the first process of that
            role and the one behind its last; how far the place is shifted within the cell, and the place at the end.
        things: [roles], how many things can happen beside a thread, those of each choice counted.
    """

    cells: Ints
    things: Ints


def tables_of(model: Model, layout: Layout) -> Tables:
    """Arrays of a model."""
    things = [sum(len(action.choices) for action in role.actions if action.beside) for role in model.roles]
    return Tables(np.array(list(_cells(model, layout)), np.int64), np.array(things, np.int64))


def _cells(model: Model, layout: Layout) -> Iterator[Sequence[int]]:
    first = 0
    for number, role in enumerate(model.roles):
        behind = first + len(role.starts)
        at = layout.within[number][AT].shift
        for place in layout.cells[first:behind]:
            yield place.word, place.shift, place.mask, number, first, behind, at, role.end
        first = behind
