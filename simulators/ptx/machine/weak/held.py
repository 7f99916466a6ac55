"""Weak stores that so far only their own block sees, byte by byte, of one allocation.

A row is one byte of one block. Its key is the byte's offset and the block, so that the rows of a byte stand together;
rows are sorted by key, and a block has one row of a byte at most: its own later store replaces an earlier one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.memory import Bytes, Lanes, Mask
from tileproof.simulators.ptx.machine.weak.columns import Columns

BLOCK_BITS = 20


@dataclass(frozen=True)
class Rows(Columns):
    """Bytes of stores.

    Attributes:
        keys: offset << BLOCK_BITS | block, ascending.
        values: of the bytes.
        written: which of their bits something wrote.
        lanes: who stored them.
        epochs: when that was for the lane; see `Order.epochs`.
        order: of the stores among each other, as they were executed.
    """

    keys: Lanes
    values: Bytes
    written: Bytes
    lanes: Lanes
    epochs: Lanes
    order: Lanes

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All of them, in the order of the attributes."""
        return self.keys, self.values, self.written, self.lanes, self.epochs, self.order

    @property
    def offsets(self) -> Lanes:
        """Of the bytes in the allocation."""
        offsets: Lanes = self.keys >> BLOCK_BITS
        return offsets

    @property
    def blocks(self) -> Lanes:
        """Whose stores they are."""
        blocks: Lanes = self.keys & ((1 << BLOCK_BITS) - 1)
        return blocks

    def joined(self, others: "Rows") -> "Rows":
        """These and later rows; of one key the last row stays."""
        both = Rows.of((self, others))
        both = both.take(np.argsort(both.keys, kind="stable"))
        last = np.ones(both.keys.size, np.bool_)
        last[:-1] = both.keys[1:] != both.keys[:-1]
        return both.take(last)


def keys_of(offsets: Lanes, blocks: Lanes) -> Lanes:
    """The keys of bytes and blocks."""
    keys: Lanes = offsets << BLOCK_BITS | blocks
    return keys


def nothing() -> Rows:
    """No rows."""
    none: NDArray[Any] = np.zeros(0, np.int64)
    return Rows(none, none.astype(np.uint8), none.astype(np.uint8), none, none, none)


class HeldStores:
    """The rows of one allocation. Those of the last stores are sorted in when somebody looks."""

    def __init__(self) -> None:
        self._rows = nothing()
        self._last: list[Rows] = []
        self._unsorted = 0

    def __len__(self) -> int:
        return self._rows.keys.size + self._unsorted

    @property
    def rows(self) -> Rows:
        """All rows."""
        if self._last:
            self._rows = self._rows.joined(Rows.of(self._last))
            self._last, self._unsorted = [], 0
        return self._rows

    def add(self, rows: Rows) -> None:
        """Further stores, in the order in which they were made."""
        self._last.append(rows)
        self._unsorted += rows.keys.size

    def remove(self, chosen: Mask) -> Rows:
        """Rows that are held no longer."""
        gone = self.rows.take(chosen)
        self._rows = self.rows.take(~chosen)
        return gone

    def drop(self, rows: Rows) -> None:
        """Stores of these bytes and blocks are overwritten before anybody else has seen them."""
        self._rows = self.rows.take(~np.isin(self.rows.keys, rows.keys))

    def others(self, rows: Rows) -> Mask:
        """Which stores are of the same bytes and blocks as these, and of other lanes or earlier epochs of theirs.

        Somebody may know of such a store and not of the later one: it cannot be replaced, as if it had not been.
        """
        found, at = self.find(rows.offsets, rows.blocks)
        differs = np.zeros(self.rows.keys.size, np.bool_)
        at = at[found]
        same = (self.rows.lanes[at] == rows.lanes[found]) & (self.rows.epochs[at] == rows.epochs[found])
        differs[at[~same]] = True
        return differs

    def find(self, offsets: Lanes, blocks: Lanes) -> tuple[Mask, Lanes]:
        """Whether a block has a row of a byte, and which."""
        keys = keys_of(offsets, blocks)
        if not self.rows.keys.size:
            return np.zeros(keys.shape, np.bool_), np.zeros(keys.shape, np.int64)
        at = np.minimum(np.searchsorted(self.rows.keys, keys), self.rows.keys.size - 1)
        found: Mask = self.rows.keys[at] == keys
        return found, at
