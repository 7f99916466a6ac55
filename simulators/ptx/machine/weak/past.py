"""What bytes of one allocation held before: the values that a block which has not looked may still see.

A row says that a byte had a value until a time, when a block wrote it or looked at it by a strong access. A block may
see the value if it has acquired nothing since that time, and has not itself written or looked at the byte at that time
or later: PTX orders nothing else for weak loads.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tileproof.simulators.ptx.machine.memory import Bytes, Lanes, Mask

#: Values that a byte had, one behind the other, of which a load may see one.
DEEPEST = 4
#: Rows of one allocation at most; then the older half goes.
MOST_ROWS = 1 << 14


@dataclass(frozen=True)
class _Rows:
    offsets: Lanes
    times: Lanes
    values: Bytes
    written: Bytes
    blocks: Lanes

    def take(self, chosen: Any) -> "_Rows":
        return _Rows(*(getattr(self, field.name)[chosen] for field in fields(self)))


class Past:
    """The rows of one allocation, by byte and time."""

    def __init__(self) -> None:
        none = np.zeros(0, np.int64)
        self._rows = _Rows(none, none, none.astype(np.uint8), none.astype(np.uint8), none)

    def __len__(self) -> int:
        return self._rows.offsets.size

    def add(self, offsets: Lanes, time: int, values: Bytes, written: Bytes, blocks: Lanes) -> None:
        """Bytes had these values until now."""
        fresh = _Rows(offsets, np.full(offsets.size, time), values, written, blocks)
        rows = _Rows(*(np.concatenate((getattr(self._rows, f.name), getattr(fresh, f.name))) for f in fields(fresh)))
        if rows.times.size > MOST_ROWS:  # whoever may see the rest might have seen it without these rows
            rows = rows.take(rows.times > np.median(rows.times))
        self._rows = rows.take(np.lexsort((rows.times, rows.offsets)))

    def find(self, offsets: Lanes, blocks: Lanes, since: Lanes, depth: Lanes) -> tuple[Mask, Lanes]:
        """For each byte that a block loads the row whose value it sees.

        Args:
            offsets: of the bytes.
            blocks: who loads each.
            since: the time of that block's last acquire.
            depth: how many values back it would look, at least 1.

        Returns:
            whether there is such a row, and which: the deepest legal one within the depth.
        """
        first = np.searchsorted(self._rows.offsets, offsets, "left")
        row = np.searchsorted(self._rows.offsets, offsets, "right") - 1
        found, chosen = np.zeros(offsets.size, np.bool_), np.zeros(offsets.size, np.int64)
        legal = row >= first
        for level in range(DEEPEST):
            at = np.where(legal, row - level, 0)
            legal &= (row - level >= first) & (depth > level)
            if not legal.any():
                break
            legal &= (self._rows.times[at] > since) & (self._rows.blocks[at] != blocks)
            chosen[legal], found = at[legal], found | legal
        return found, chosen

    def forget(self, offsets: Lanes) -> None:
        """Nobody sees older values of these bytes any more."""
        self._rows = self._rows.take(~np.isin(self._rows.offsets, offsets))

    def see(self, rows: Lanes) -> tuple[Bytes, Bytes]:
        """Values and written bits of rows."""
        return self._rows.values[rows], self._rows.written[rows]
