"""Where a model's numbers lie, as arrays: all that the compiled search knows of a model."""

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.protocols.layout import Layout
from tileproof.simulators.protocols.model import AT, Model

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]

NARROW_BITS = 20
"""Cells of so many bits are looked up by themselves, wider ones by a hash."""
NOWHERE = (1 << 64) - 1


class Tables(NamedTuple):
    """What the compiled search knows of a model.

    Args:
        places: [processes], of the cell of each the word, from bit 4 on the shift, from bit 10 on how many bits it has,
            and in bit 16 whether the process is not the first of its role.
        roles: [processes], number of the role of each.
        firsts: [processes], the first one of its role.
        behinds: [processes], the one behind its role's last.
        at: [processes], how far the place is shifted within the cell.
        ends: [processes], the place at the end.
        directs: [processes], from where on its cells are looked up by themselves; `NOWHERE` where they are too wide.
        direct: [roles], the same by role.
        things: [roles], how many things can happen beside a thread, those of each choice counted.
    """

    places: Words
    roles: Words
    firsts: Words
    behinds: Words
    at: Words
    ends: Words
    directs: Words
    direct: Words
    things: Words


def tables_of(model: Model, layout: Layout) -> Tables:
    """Arrays of a model."""
    roles = layout.roles
    first = [roles.index(role) for role in range(len(model.roles))]
    direct = _direct(layout)
    return Tables(
        places=_words(
            place.word | place.shift << 4 | place.bits << 10 | (process != first[role]) << 16
            for process, (place, role) in enumerate(zip(layout.cells, roles, strict=True))
        ),
        roles=_words(roles),
        firsts=_words(first[role] for role in roles),
        behinds=_words(first[role] + roles.count(role) for role in roles),
        at=_words(layout.within[role][AT].shift for role in roles),
        ends=_words(model.roles[role].end for role in roles),
        directs=_words(direct[role] for role in roles),
        direct=_words(direct),
        things=_words(sum(len(each.choices) for each in role.actions if each.beside) for role in model.roles),
    )


def _words(values: Iterable[int]) -> Words:
    return np.array(list(values), np.uint64)


def _direct(layout: Layout) -> list[int]:
    begins = [0, *accumulate(_narrow_cells(layout))]
    return [begin if cells else NOWHERE for begin, cells in zip(begins, _narrow_cells(layout), strict=False)]


def room_for_cells(layout: Layout) -> int:
    """How many cells there can be that are looked up by themselves."""
    return sum(_narrow_cells(layout))


def _narrow_cells(layout: Layout) -> list[int]:
    """By role, how many cells there can be if they are looked up by themselves, else 0."""
    bits = (sum(place.bits for place in places) for places in layout.within)
    return [1 << count if count <= NARROW_BITS else 0 for count in bits]
