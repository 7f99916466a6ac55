"""Where differences lie, in words: "all 4 lie in warp 2, lane 3, register 1; in every tile"."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_NAMED = 3
"""Units of a kind that are named one by one."""
STEPS = (2, 4, 8, 16)
"""What numbers of units are divided by to see what they have in common."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Counts by one kind of unit.

    Args:
        kind: "tile", "warp", "fragment", "lane", "register".
        head: what stands over its map.
        counts: differing elements, [down, across].
        of: elements, likewise; a unit without any does not count.
        names: of the units, in row-major order.
    """

    kind: str
    head: str
    counts: NDArray[np.int64]
    of: NDArray[np.int64]
    names: Sequence[str]


def is_particular(grids: Iterable[Grid]) -> bool:
    """Whether the units of some kind that hold differences are few, or have something in common."""
    for grid in grids:
        there, hit = np.flatnonzero(grid.of.ravel()), np.flatnonzero(grid.counts.ravel())
        if len(hit) < len(there) and not _named(grid, hit.tolist(), there.tolist())[0].isdigit():
            return True
    return False


def tell(grids: Iterable[Grid], count: int) -> str:
    """The units that hold all differing elements, and the kinds of which every one has some.

    Args:
        grids: one for each kind.
        count: differing elements.
    """
    some, every = [], []
    for grid in grids:
        there = np.flatnonzero(grid.of.ravel())
        hit = np.flatnonzero(grid.counts.ravel())
        if len(there) == 1:
            continue
        if len(hit) == len(there):
            every.append(grid.kind)
        else:
            some.append(_named(grid, hit.tolist(), there.tolist()))
    who = "the one that differs lies" if count == 1 else f"all {count} lie"
    told = [f"{who} in {', '.join(some)}"] if some else []
    return "; ".join([*told, *([f"in every {_listed(every)}"] if every else [])]) or "the output is one unit"


def _named(grid: Grid, hit: list[int], there: list[int]) -> str:
    names = [grid.names[place] for place in hit]
    if len(names) <= MOST_NAMED:
        return f"{grid.kind}{'s' if len(names) > 1 else ''} {_listed(names)}"
    if grid.kind in ("lane", "register", "element") and (common := _in_common(hit, there)):
        return f"{grid.kind}s with {grid.kind} {common}"
    return f"{len(names)} of {len(there)} {grid.kind}s"


def _in_common(hit: list[int], there: list[int]) -> str:
    """What holds of these numbers and of no other, such as "% 4 = 3" and "/ 4 = 2"."""
    for step in STEPS:
        if hit == [n for n in there if n % step == hit[0] % step]:
            return f"% {step} = {hit[0] % step}"
        if hit == [n for n in there if n // step == hit[0] // step]:
            return f"/ {step} = {hit[0] // step}"
    return ""


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
