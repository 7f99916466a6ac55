"""How a kernel divides its output: which block tile, warp, lane and register makes an element.

Worked example: mm_fp8 with tiles of 128 x 128 and warps of 64 x 32, each of 4 x 4 fragments of mma.m16n8k32. Element
(75, 141) lies in tile (0, 1); within it at (75, 13), so in the part of warp 1 · 4 + 0 = 4; there at (11, 13), so in
fragment (0, 1) at (11, 5): lane 3 · 4 + 2 = 14, register 1 · 2 + 1 = 3.

Differences are counted over one tile, since every tile is divided alike; what is said of them is evidence of where, and
no explanation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.finding import UnitMap, Units
from tileproof.conformance.unit_words import Grid, is_particular, tell
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.refusal import Refusal

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]

WARP = 32
MAP_ROWS, MAP_COLUMNS = 16, 64
"""Of the map of tiles, at most."""
TILE_LIMIT = 1 << 20
"""Elements of a tile."""
_ACROSS_LANES = ("register", "element")
"""What a lane has several of, which a map shows below each other."""


@dataclass(frozen=True)
class Kind:
    """A kind of unit within a tile.

    Args:
        name: "warp", "fragment", "lane", "register", "step" or "element".
        extents: how many there are, down and across, as they are drawn.
        names: of each, in row-major order.
    """

    name: str
    extents: tuple[int, int]
    names: Sequence[str]


class Divides(Protocol):
    """An output, divided: `Division` where warps have parts of a tile, `ThreadDivision` where threads have elements."""

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of what repeats."""

    @property
    def is_flat(self) -> bool:
        """Whether a tensor of several dimensions is divided as its elements lie in memory, one row."""

    def kinds(self) -> Sequence[Kind]:
        """The units within a tile, as far as they are known."""

    def places(self) -> dict[str, Places]:
        """For each element of a tile the number of its unit of each kind, by name; negative where nothing makes it."""


@dataclass(frozen=True)
class Division:
    """A kernel's output matrix, divided.

    Args:
        tile: rows and columns that a block makes.
        part: rows and columns of the tile that one warp makes, or one warpgroup where the fragment has 128 lanes; None
            where that is not known.
        fragment: of the accumulators, which fill the part row by row; None where it is not known.
        first_warp: the number of the first warp that makes outputs.
        across: parts in a row of them, by which warps are counted; 0 for as many as the tile has.
        words: what a reader must know besides.

    Raises:
        Refusal: extents that are not positive or do not fill each other, a fragment without a part, or a tile beyond
            `TILE_LIMIT` elements.
    """

    tile: tuple[int, int]
    part: tuple[int, int] | None = None
    fragment: FragmentMap | None = None
    first_warp: int = 0
    across: int = 0
    words: str = ""

    def __post_init__(self) -> None:
        nested = [("tile", self.tile), ("warp's part", self.part), ("fragment", self._extents)]
        known = [(name, pair) for name, pair in nested if pair is not None]
        for name, pair in known:
            if min(pair) < 1:
                raise Refusal(f"a {name} of {_by(pair)}", hint="extents are numbers above 0")
        if self.fragment is not None and self.part is None:
            raise Refusal("a fragment is given without the part of the tile that a warp makes", hint="say both")
        for (outer, of), (inner, pair) in pairwise(known):
            if of[0] % pair[0] or of[1] % pair[1]:
                raise Refusal(f"a {outer} of {_by(of)} is not filled by one {inner} of {_by(pair)} or several")
        if prod(self.tile) > TILE_LIMIT:
            raise Refusal(f"a tile of {_by(self.tile)} has {prod(self.tile)} elements; the most is {TILE_LIMIT}")

    @property
    def _extents(self) -> tuple[int, int] | None:
        return (self.fragment.rows, self.fragment.columns) if self.fragment else None

    @property
    def warps(self) -> tuple[int, int]:
        """Warps of a tile as they lie in it, down and across."""
        assert self.part is not None
        return self.tile[0] // self.part[0] * self._stacked, self.tile[1] // self.part[1]

    @property
    def fragments(self) -> tuple[int, int]:
        """Fragments of a part, down and across."""
        assert self.part is not None
        assert self.fragment is not None
        return self.part[0] // self.fragment.rows, self.part[1] // self.fragment.columns

    @property
    def _stacked(self) -> int:
        """Warps that share a part: four of a warpgroup."""
        return self.fragment.lanes // WARP if self.fragment else 1

    @property
    def is_flat(self) -> bool:
        """Matrices are divided by rows and columns."""
        return False

    def kinds(self) -> Sequence[Kind]:
        """Warps, and fragments, lanes and registers where they are known."""
        found = []
        if self.part is not None:
            (down, across), warp = self.warps, self.warp_number
            found.append(Kind("warp", (down, across), [str(warp(i, j)) for i in range(down) for j in range(across)]))
        if self.fragment is not None:
            down, across = self.fragments
            found.append(Kind("fragment", (down, across), [f"({i}, {j})" for i in range(down) for j in range(across)]))
            found += [numbered("lane", WARP), numbered("register", self.fragment.registers)]
        return found

    def warp_number(self, down: int, across: int) -> int:
        """The number, by threads of the block, of a warp by its place in the tile."""
        part = down // self._stacked * (self.across or self.warps[1]) + across
        return self.first_warp + part * self._stacked + down % self._stacked

    def places(self) -> dict[str, Places]:
        """For each element of a tile the number of its warp's place, fragment, lane and register, as far as known.

        Returns:
            By name, each [tile rows, tile columns].
        """
        if self.part is None:
            return {}
        row, column = np.indices(self.tile)
        part = (row // self.part[0], column // self.part[1])
        row, column = row % self.part[0], column % self.part[1]
        if self.fragment is None:
            return {"warp": part[0] * self.warps[1] + part[1]}
        of = self.fragment
        number = of.place_number(row % of.rows * of.columns + column % of.columns) // of.slots
        lane, register = number // of.registers, number % of.registers
        warp_down = part[0] * self._stacked + lane // WARP
        return {
            "warp": warp_down * self.warps[1] + part[1],
            "fragment": row // of.rows * self.fragments[1] + column // of.columns,
            "lane": lane % WARP,
            "register": register,
        }

    def __str__(self) -> str:
        words = [f"tiles of {_by(self.tile)}"]
        if self.part is not None:
            words.append(f"{'warpgroups' if self._stacked > 1 else 'warps'} of {_by(self.part)}")
        if self.fragment is not None:
            words.append(f"accumulators of {self.fragment.instruction}")
        return ", ".join(words) + (f"; {self.words}" if self.words else "")


def numbered(name: str, count: int) -> Kind:
    """A kind whose units are called by their numbers."""
    return Kind(name, (1, count), list(map(str, range(count))))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Elements that differ and that exist: by tile [down, across], and over all tiles [tile rows, tile columns]."""

    tiles: Places
    of_tiles: Places
    inside: Places
    of_inside: Places
    batch: int


def units_of(division: Divides, differs: Mask) -> Units:
    """Where a difference lies, in the units of a division.

    Args:
        division: of the tensor's last two dimensions; further ones are matrices of a batch.
        differs: a mask of the tensor's shape with at least one element set.
    """
    units = _units(division, differs, always=True)
    assert units is not None
    return units


def particular_units_of(division: Divides, differs: Mask) -> Units | None:
    """`units_of`; None where threads have single elements and the difference lies in no units in particular.

    What hangs on values, as a wrong rounding does, is scattered over such threads: a map of it tells nothing.
    """
    return _units(division, differs, always=isinstance(division, Division))


def _units(division: Divides, differs: Mask, *, always: bool) -> Units | None:
    sums = _add_up(division.tile, differs.reshape(1, -1) if division.is_flat else differs)
    kinds, places = {kind.name: kind for kind in division.kinds()}, division.places()
    grids = [_tiles(sums), *(_counted(kind, sums, places[kind.name]) for kind in kinds.values())]
    if not always and not is_particular(grids):
        return None
    drawn = [grid for grid in grids if grid.kind not in _ACROSS_LANES and grid.kind != "lane"]
    own = next((kinds[name] for name in _ACROSS_LANES if name in kinds), None)
    if "lane" in kinds:
        drawn.append(_with_lanes(own, sums, places))
    return Units(str(division), tell(grids, int(differs.sum())), tuple(map(_drawn, drawn)))


def _add_up(tile: tuple[int, int], differs: Mask) -> _Sums:
    """The tiles of a batch stand under each other."""
    matrices = differs.reshape(-1, *differs.shape[-2:]) if differs.ndim > 1 else differs.reshape(1, 1, -1)
    batch, *extents = matrices.shape
    counts = [-(-extent // size) for extent, size in zip(extents, tile, strict=True)]
    numbers = list(map(np.arange, extents))
    edges = [(0, many * size - extent) for many, size, extent in zip(counts, tile, extents, strict=True)]
    whole = np.pad(matrices, [(0, 0), *edges]).reshape(batch, counts[0], tile[0], counts[1], tile[1])
    of_tiles = np.outer(*(np.bincount(number // size) for number, size in zip(numbers, tile, strict=True)))
    pairs = zip(numbers, tile, strict=True)
    of_inside = np.outer(*(np.bincount(number % size, minlength=size) for number, size in pairs))
    return _Sums(
        tiles=whole.sum(axis=(2, 4)).reshape(-1, counts[1]),
        of_tiles=np.tile(of_tiles, (batch, 1)),
        inside=whole.sum(axis=(0, 1, 3)),
        of_inside=batch * of_inside,
        batch=batch,
    )


def _tiles(sums: _Sums) -> Grid:
    down, across = sums.tiles.shape
    each = down // sums.batch
    names = [
        f"({i // each}, {i % each}, {j})" if sums.batch > 1 else f"({i}, {j})"
        for i in range(down)
        for j in range(across)
    ]
    return Grid("tile", f"tiles {_by(sums.tiles.shape)}", sums.tiles, sums.of_tiles, names)


def _counted(kind: Kind, sums: _Sums, numbers: Places) -> Grid:
    """Counts by one kind of unit, over all tiles."""
    head = f"{kind.name}s {_by(kind.extents)}"
    return Grid(kind.name, head, *_by_number(sums, numbers, kind.extents), kind.names)


def _with_lanes(own: Kind | None, sums: _Sums, places: Mapping[str, Places]) -> Grid:
    """What a lane has of its own, registers for example, down, and lanes across, for the map."""
    if own is None:
        return Grid("both", "lanes 0-31 across", *_by_number(sums, places["lane"], (1, WARP)), [])
    count = prod(own.extents)
    numbers = places[own.name] * WARP + places["lane"]
    numbers[(places[own.name] < 0) | (places["lane"] < 0)] = -1
    last = own.names[-1] if own.names[-1].isdigit() else f"{own.names[-2]}, {own.names[-1]}"
    head = f"{own.name}s {own.names[0]}-{last} down, lanes 0-31 across"
    return Grid("both", head, *_by_number(sums, numbers, (count, WARP)), [])


def _by_number(sums: _Sums, numbers: Places, shape: tuple[int, int]) -> tuple[Places, Places]:
    """Elements that differ and elements that exist of each number, as a grid; those of no number are left out."""
    made = numbers.ravel() >= 0
    counted = (
        np.bincount(numbers.ravel()[made], one.ravel()[made], prod(shape)) for one in (sums.inside, sums.of_inside)
    )
    differing, of = (one.astype(np.int64).reshape(shape) for one in counted)
    return differing, of


def _drawn(grid: Grid) -> UnitMap:
    """A grid as marks, with at most so many of them for tiles."""
    counts, of = grid.counts, grid.of
    if grid.kind == "tile":
        counts, of = (_joined(one, MAP_ROWS, MAP_COLUMNS) for one in (counts, of))
    rows = (
        "".join(mark(int(wrong), int(all_)) for wrong, all_ in zip(*pair, strict=True))
        for pair in zip(counts, of, strict=True)
    )
    return UnitMap(grid.head, tuple(rows))


def mark(differing: int, of: int) -> str:
    """` ` no element, `.` none differs, `1` to `9` the tenths that do, `#` all."""
    if of == 0:
        return " "
    if differing == of:
        return "#"
    return str(max(1, 10 * differing // of)) if differing else "."


def _joined(counts: Places, rows: int, columns: int) -> Places:
    """Neighbours added up until no more than so many rows and columns are left."""
    for axis, most in enumerate((rows, columns)):
        edges = [int(part[0]) for part in np.array_split(np.arange(counts.shape[axis]), min(most, counts.shape[axis]))]
        counts = np.add.reduceat(counts, edges, axis=axis)
    return counts


def _by(pair: Sequence[int]) -> str:
    return f"{pair[0]} x {pair[1]}"
