"""How a kernel divides its output: which block tile, warp, lane and register makes an element.

Worked example: mm_fp8 with tiles of 128 x 128 and warps of 64 x 32, each of 4 x 4 fragments of mma.m16n8k32. Element
(75, 141) lies in tile (0, 1); within it at (75, 13), so in the part of warp 1 · 4 + 0 = 4; there at (11, 13), so in
fragment (0, 1) at (11, 5): lane 3 · 4 + 2 = 14, register 1 · 2 + 1 = 3.

Differences are counted over one tile, since every tile is divided alike; what is said of them is evidence of where, and
no explanation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.finding import UnitMap, Units
from tileproof.conformance.unit_words import Grid, tell
from tileproof.oracle.maps.fragment_map import FragmentMap
from tileproof.oracle.refusal import Refusal

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]

WARP = 32
MAP_ROWS, MAP_COLUMNS = 16, 64
"""Of the map of tiles, at most."""
TILE_LIMIT = 1 << 20
"""Elements of a tile."""


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


@dataclass(frozen=True, eq=False)
class _Sums:
    """Elements that differ and that exist: by tile [down, across], and over all tiles [tile rows, tile columns]."""

    tiles: Places
    of_tiles: Places
    inside: Places
    of_inside: Places
    batch: int


def units_of(division: Division, differs: Mask) -> Units:
    """Where a difference lies, in the units of a division.

    Args:
        division: of the tensor's last two dimensions; further ones are matrices of a batch.
        differs: a mask of the tensor's shape with at least one element set.
    """
    sums = _add_up(division.tile, differs)
    grids = [_tiles(sums), *_within(division, sums)]
    drawn = [grid for grid in grids if grid.kind not in ("register", "lane")]
    if division.fragment is not None:
        drawn.append(_registers_and_lanes(division, sums))
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


def _within(division: Division, sums: _Sums) -> list[Grid]:
    """Counts by warp, fragment, lane and register, over all tiles."""
    places = division.places()
    kinds: list[tuple[str, tuple[int, int], list[str]]] = []
    if division.part is not None:
        (down, across), warp = division.warps, division.warp_number
        kinds.append(("warp", (down, across), [str(warp(i, j)) for i in range(down) for j in range(across)]))
    if division.fragment is not None:
        down, across = division.fragments
        kinds.append(("fragment", (down, across), [f"({i}, {j})" for i in range(down) for j in range(across)]))
        kinds += [
            (kind, (1, size), list(map(str, range(size))))
            for kind, size in (("lane", WARP), ("register", division.fragment.registers))
        ]
    return [
        Grid(kind, f"{kind}s {_by(shape)}", *_by_number(sums, places[kind], shape), names)
        for kind, shape, names in kinds
    ]


def _registers_and_lanes(division: Division, sums: _Sums) -> Grid:
    """Registers down and lanes across, for the map."""
    assert division.fragment is not None
    shape = (division.fragment.registers, WARP)
    places = division.places()
    counts = _by_number(sums, places["register"] * WARP + places["lane"], shape)
    return Grid("both", f"registers 0-{shape[0] - 1} down, lanes 0-31 across", *counts, [])


def _by_number(sums: _Sums, numbers: Places, shape: tuple[int, int]) -> tuple[Places, Places]:
    """Elements that differ and elements that exist of each number, as a grid."""
    counted = (np.bincount(numbers.ravel(), one.ravel(), prod(shape)) for one in (sums.inside, sums.of_inside))
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
