"""What bytes of one allocation held before: the values that a thread which does not know better may still see.

A row says that a byte had a value until a time, when some lane wrote it, or looked at it by a strong access. A thread
may see the value unless its block has itself written the byte or looked at it by a strong access at that time or later,
or it knows of the write: PTX orders nothing else for weak loads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.memory import Bytes, Lanes, Mask
from tileproof.simulators.ptx.machine.weak.columns import Columns

#: Values that a byte had, one behind the other, of which a load may see one.
DEEPEST = 4
#: Rows of one allocation at most; then the older half goes.
MOST_ROWS = 1 << 14


@dataclass(frozen=True)
class Was(Columns):
    """Bytes that lanes write, or look at by strong accesses, and what was there until then.

    Attributes:
        offsets: of the bytes.
        values: of the bytes until then.
        written: which of their bits something had written.
        blocks: whose lanes they are.
        lanes: who.
        epochs: when that was for the lane; see `Order.epochs`.
    """

    offsets: Lanes
    values: Bytes
    written: Bytes
    blocks: Lanes
    lanes: Lanes
    epochs: Lanes

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All of them, in the order of the attributes."""
        return self.offsets, self.values, self.written, self.blocks, self.lanes, self.epochs


@dataclass(frozen=True)
class Looks:
    """Lanes that load bytes, and how far back they would look.

    Attributes:
        offsets: of the bytes.
        blocks: who loads each.
        since: when that block was last told of everything.
        depth: how many values back it would look; 0 for none.
        knows: of these positions, whether the lane there knows of a lane's epoch.
    """

    offsets: Lanes
    blocks: Lanes
    since: Lanes
    depth: Lanes
    knows: Callable[[Lanes, Lanes, Lanes], Mask]


class Past:
    """The rows of one allocation, by byte and time. The last ones are sorted in when somebody looks."""

    def __init__(self) -> None:
        none = np.zeros(0, np.int64)
        self._rows = Was(none, none.astype(np.uint8), none.astype(np.uint8), none, none, none)
        self._times = none
        self._last: list[Was] = []
        self._last_times: list[Lanes] = []
        self._unsorted = 0

    def __len__(self) -> int:
        return self._times.size + self._unsorted

    def add(self, was: Was, time: int) -> None:
        """Bytes had these values until now."""
        self._last.append(was)
        self._last_times.append(np.full(was.offsets.size, time))
        self._unsorted += was.offsets.size
        if self._unsorted > MOST_ROWS:
            self._sort()

    def _sort(self) -> None:
        if not self._last:
            return
        rows, times = Was.of((self._rows, *self._last)), np.concatenate((self._times, *self._last_times))
        self._last, self._last_times, self._unsorted = [], [], 0
        if times.size > MOST_ROWS:  # whoever may see the rest might have seen it without these rows
            kept = times > np.median(times)
            rows, times = rows.take(kept), times[kept]
        order = np.lexsort((times, rows.offsets))
        self._rows, self._times = rows.take(order), times[order]

    def find(self, looks: Looks) -> tuple[Mask, Lanes]:
        """For each byte that is loaded whether an older value is seen, and in which row: the deepest legal one."""
        self._sort()
        first = np.searchsorted(self._rows.offsets, looks.offsets, "left")
        row = np.searchsorted(self._rows.offsets, looks.offsets, "right") - 1
        found, chosen = np.zeros(row.size, np.bool_), np.zeros(row.size, np.int64)
        legal = np.ones(row.size, np.bool_)
        for level in range(DEEPEST):
            legal &= (row - level >= first) & (looks.depth > level)
            here = np.flatnonzero(legal)
            if not here.size:
                break
            at = row[here] - level
            free = (self._times[at] > looks.since[here]) & (self._rows.blocks[at] != looks.blocks[here])
            free &= ~looks.knows(here, self._rows.lanes[at], self._rows.epochs[at])
            legal[here] = free
            chosen[here[free]] = at[free]
            found |= legal
        return found, chosen

    def forget(self, offsets: Lanes) -> None:
        """Nobody sees older values of these bytes any more."""
        self._sort()
        kept = ~np.isin(self._rows.offsets, offsets)
        self._rows, self._times = self._rows.take(kept), self._times[kept]

    def see(self, rows: Lanes) -> tuple[Bytes, Bytes]:
        """Values and written bits of rows."""
        return self._rows.values[rows], self._rows.written[rows]
