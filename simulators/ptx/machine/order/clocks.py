"""Clocks: rows of what is known of one unit, and maps of such rows of other units.

A unit is the blocks that share clocks: a cluster, usually of one block. Its components are its threads and, where the
program uses them, engines and mbarriers. A row is a bound for each component: everything that a component did at a tick
below its bound is known. Rows never change once somebody else can see them, and are shared by all who know the same. A
map gives rows of other units, as learned through global memory; map 0 is empty.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.budget import unwatched
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.order import compiled_order as core

Table = NDArray[np.int32]
_FIRST_ROWS, _FIRST_BYTES = 64, 1 << 20
_FIRST_ENTRIES = 1 << 8


@dataclass
class Held:
    """Rows and maps that somebody still needs."""

    rows: list[Lanes] = field(default_factory=list)
    maps: list[Lanes] = field(default_factory=list)


class Clocks:
    """Rows and maps of one launch.

    Attributes:
        rows: int32 [rows, components]; row 0 knows nothing.
        spans: int64 [maps, 2], the entries of each map.
        maps: int32 [entries, 2], units ascending within a map; map 0 is empty.
        holders: who says which rows and maps are still needed.
        engines: int64 [4], the first component of each kind of engine of threads and warpgroups; -1 without.
        barriers: components of mbarriers, the same ones in every unit.

    Args:
        nothing: int32 [components], row 0: what everybody knows.
        attend: called wherever clocks are joined, which an operation of many lanes may do for long; it may raise.
    """

    def __init__(self, nothing: Table, attend: Callable[[], None] = unwatched) -> None:
        self.attend = attend
        first_rows = max(_FIRST_ROWS, _FIRST_BYTES // nothing.nbytes)
        self.rows: Table = np.zeros((first_rows, nothing.size), np.int32)
        self.rows[0] = nothing
        self._components = nothing.size
        self._free_rows = list(range(first_rows - 1, 0, -1))
        self.spans: Lanes = np.zeros((_FIRST_ROWS, 2), np.int64)
        self._free_maps = list(range(_FIRST_ROWS - 1, 0, -1))
        self.maps: Table = np.zeros((_FIRST_ENTRIES, 2), np.int32)
        self._entries = 0
        self._joined: dict[tuple[int, int], int] = {}
        self._joined_maps: dict[tuple[int, int], int] = {}
        self._held = Held()  # by an operation that is on its way
        self.holders: list[Callable[[Held], None]] = []
        self.engines: Lanes = np.full(4, -1, np.int64)
        self.barriers: list[int] = []

    def add_components(self, count: int) -> int:
        """The first of `count` new components, of which nobody knows anything yet."""
        first = self._components
        self._components += count
        if self._components > self.rows.shape[1]:
            wider = np.zeros((len(self.rows), self._components + self._components // 8), np.int32)
            wider[:, : self.rows.shape[1]] = self.rows
            self.rows = wider
        return first

    @property
    def has_maps(self) -> bool:
        """Whether anybody may know anything of another unit."""
        return self._entries > 0

    def take_rows(self, count: int) -> Lanes:
        """Rows that hold anything. They must be held, by a holder or by `holding`, before more is asked for."""
        if len(self._free_rows) < count:
            self._collect(count, 0)
        fresh = np.array(self._free_rows[-count:], np.int64)
        del self._free_rows[-count:]
        return fresh

    def new_rows(self, count: int) -> Lanes:
        """Rows like row 0, to be held like those of `take_rows`."""
        fresh = self.take_rows(count)
        self.rows[fresh] = self.rows[0]
        return fresh

    @contextmanager
    def holding(self, rows: Iterable[int] = (), maps: Iterable[int] = ()) -> Iterator[None]:
        """Within, these are kept."""
        before = self._held
        self._held = Held(
            [*before.rows, np.array(list(rows), np.int64)], [*before.maps, np.array(list(maps), np.int64)]
        )
        yield
        self._held = before

    def _collect(self, rows: int, maps: int) -> None:
        """Find rows and maps that nobody needs; more of them where that is not enough."""
        held = Held(list(self._held.rows), list(self._held.maps))
        for holder in self.holders:
            holder(held)
        live_maps = _marked(len(self.spans), held.maps)
        for which in np.flatnonzero(live_maps):
            held.rows.append(self.maps[slice(*self.spans[which]), 1].astype(np.int64))
        live_rows = _marked(len(self.rows), held.rows)
        self._joined.clear()
        self._joined_maps.clear()
        self._free_rows = np.flatnonzero(~live_rows)[::-1].tolist()
        self._free_maps = np.flatnonzero(~live_maps)[::-1].tolist()
        if len(self._free_rows) < rows + len(self.rows) // 2:
            self._free_rows = [*range(2 * len(self.rows) + rows - 1, len(self.rows) - 1, -1), *self._free_rows]
            self.rows = _lengthened(self.rows, 2 * len(self.rows) + rows)
        if len(self._free_maps) < maps + len(self.spans) // 2:
            self._free_maps = [*range(2 * len(self.spans) + maps - 1, len(self.spans) - 1, -1), *self._free_maps]
            self.spans = _lengthened(self.spans, 2 * len(self.spans) + maps)
        self._pack(live_maps)

    def _pack(self, live_maps: Mask) -> None:
        """Move the entries of maps together."""
        spans = self.spans[np.flatnonzero(live_maps)]
        packed = [self.maps[first:last] for first, last in spans]
        counts = spans[:, 1] - spans[:, 0]
        ends = np.cumsum(counts)
        self._entries = int(ends[-1])
        kept = np.concatenate(packed)
        if self._entries > len(self.maps) // 2:
            self.maps = np.zeros((2 * len(self.maps), 2), np.int32)
        self.maps[: self._entries] = kept
        self.spans[np.flatnonzero(live_maps)] = np.stack([ends - counts, ends], axis=1)

    def join(self, one: int, other: int) -> int:
        """A row that covers both."""
        if one == other or other == 0:
            return one
        if one == 0:
            return other
        key = (one, other) if one < other else (other, one)
        known = self._joined.get(key)
        if known is None:
            known = self._join(*key)
            self._joined[key] = known
        return known

    def _join(self, one: int, other: int) -> int:
        self.attend()
        covers = core.compare_rows(self.rows, one, other)
        if covers:
            return one if covers == 1 else other
        with self.holding([one, other]):
            fresh = int(self.new_rows(1)[0])
        np.maximum(self.rows[one], self.rows[other], out=self.rows[fresh])
        return fresh

    def join_maps(self, one: int, other: int) -> int:
        """A map that covers both."""
        if one == other or other == 0:
            return one
        if one == 0:
            return other
        key = (one, other) if one < other else (other, one)
        known = self._joined_maps.get(key)
        if known is None:
            with self.holding(maps=key):
                known = self._join_maps(*key)
            self._joined_maps[key] = known
        return known

    def _join_maps(self, one: int, other: int) -> int:
        self.attend()
        entries = np.concatenate([self.maps[slice(*self.spans[which])] for which in (one, other)]).astype(np.int64)
        entries = entries[np.argsort(entries[:, 0], kind="stable")]
        twice = np.flatnonzero(entries[1:, 0] == entries[:-1, 0])
        for place in twice[entries[twice, 1] != entries[twice + 1, 1]]:
            with self.holding(entries[:, 1].tolist()):
                entries[place : place + 2, 1] = self.join(int(entries[place, 1]), int(entries[place + 1, 1]))
        return self.new_map(np.delete(entries, twice, axis=0))

    def with_unit(self, which: int, unit: int, row: int) -> int:
        """A map that also gives this row of a unit."""
        if row == 0:
            return which
        with self.holding([row], [which]):
            return self.join_maps(which, self.new_map(np.array([[unit, row]])))

    def without_unit(self, which: int, unit: int) -> tuple[int, int]:
        """The map without a unit, and the row that it gave of it."""
        entries = self.maps[slice(*self.spans[which])]
        own = entries[:, 0] == unit
        if not own.any():
            return which, 0
        row = int(entries[own, 1][0])
        with self.holding([row], [which]):
            return self.new_map(entries[~own]), row

    def new_map(self, entries: NDArray[np.integer[Any]]) -> int:
        """The map of these entries [n, 2], units ascending; 0 for none."""
        if not len(entries):
            return 0
        if not self._free_maps or self._entries + len(entries) > len(self.maps):
            with self.holding(entries[:, 1].tolist()):
                self._collect(0, 1)
            if self._entries + len(entries) > len(self.maps):
                self.maps = _lengthened(self.maps, 2 * (self._entries + len(entries)))
        which = self._free_maps.pop()
        self.maps[self._entries : self._entries + len(entries)] = entries
        self.spans[which] = self._entries, self._entries + len(entries)
        self._entries += len(entries)
        return which


def _marked(count: int, held: list[Lanes]) -> Mask:
    live = np.zeros(count, np.bool_)
    live[0] = True
    for numbers in held:
        live[numbers] = True
    return live


def _lengthened(table: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros((length, table.shape[1]), table.dtype)
    longer[: len(table)] = table
    return longer
