"""One allocation as its blocks see it: what they have stored and nobody else sees yet, and what they see no longer."""

from collections.abc import Callable

import numpy as np

from tileproof.simulators.ptx.machine.memory import Backing, Bytes, Lanes, Mask
from tileproof.simulators.ptx.machine.weak.held import HeldStores, Rows
from tileproof.simulators.ptx.machine.weak.past import Looks, Past, Was

_HELD, _PAST = np.uint8(1), np.uint8(2)


class Veil:
    """Held stores and past values over the bytes of one allocation, which are what everybody sees at last.

    Attributes:
        backing: the allocation.
        held: stores that their block alone sees.

    Args:
        backing: the allocation.
        clock: gives the next time.
    """

    def __init__(self, backing: Backing, clock: Callable[[], int]) -> None:
        self.backing = backing
        self.held = HeldStores()
        self._past = Past()
        self._clock = clock
        self._flags: Bytes = np.zeros(backing.data.size, np.uint8)  # a byte may have rows; most have none

    def hides(self, offsets: Lanes) -> bool:
        """Whether any of these bytes may look different to some block."""
        return bool(self._flags[offsets].any())

    def hold(self, rows: Rows) -> None:
        """Stores that only their block sees from now on."""
        self._flags[rows.offsets] |= _HELD
        self.held.add(rows)

    def holds(self, offsets: Lanes) -> bool:
        """Whether some block may hold back any of these bytes."""
        return bool((self._flags[offsets] & _HELD).any())

    def has_past(self, offsets: Lanes) -> Mask:
        """Which bytes had other values."""
        past: Mask = self._flags[offsets] & _PAST != 0
        return past

    def load(self, looks: Looks) -> tuple[Bytes, Bytes]:
        """Bytes as weak loads see them, and their written bits: the block's held stores, past values, memory."""
        values, written = self.see_past(looks)
        found, rows = self.held.find(looks.offsets, looks.blocks)
        if found.any():
            values[found], written[found] = self.held.rows.values[rows[found]], self.held.rows.written[rows[found]]
        return values, written

    def see_past(self, looks: Looks) -> tuple[Bytes, Bytes]:
        """The same without what blocks hold."""
        values, written = self._memory(looks.offsets)
        if looks.depth.any():
            found, rows = self._past.find(looks)
            values[found], written[found] = self._past.see(rows[found])
        return values, written

    def newest(self, offsets: Lanes) -> Bytes:
        """Bytes as the last store left them that is still held; others as in memory."""
        values = self._memory(offsets)[0]
        rows = self.held.rows.take(np.isin(self.held.rows.offsets, offsets))
        if rows.keys.size:
            rows = rows.take(np.argsort(rows.order, kind="stable"))
            last = dict(zip(rows.offsets.tolist(), rows.values.tolist(), strict=True))
            values = np.array(
                [last.get(at, v) for at, v in zip(offsets.tolist(), values.tolist(), strict=True)], np.uint8
            )
        return values

    def _memory(self, offsets: Lanes) -> tuple[Bytes, Bytes]:
        backing = self.backing
        written = np.full(offsets.size, 0xFF, np.uint8) if backing.written is None else backing.written[offsets]
        return backing.data[offsets], written

    def expose(self, rows: Rows, order: Lanes) -> None:
        """Stores that were held reach memory, in this order of the rows."""
        rows = rows.take(order)
        while rows.keys.size:
            _, first = np.unique(rows.offsets, return_index=True)
            now = rows.take(first)
            self.mark(now.offsets, now.lanes, now.blocks, now.epochs)
            self.backing.data[now.offsets] = now.values
            if self.backing.written is not None or (now.written != 0xFF).any():
                self.backing.track()[now.offsets] = now.written
            rows = rows.take(np.delete(np.arange(rows.keys.size), first))

    def mark(self, offsets: Lanes, lanes: Lanes, blocks: Lanes, epochs: Lanes) -> None:
        """Lanes write these bytes, or look at them by strong accesses, now: their blocks see nothing older any more."""
        self._flags[offsets] |= _PAST
        self._past.add(Was(offsets, *self._memory(offsets), blocks, lanes, epochs), self._clock())

    def forget(self, offsets: Lanes) -> None:
        """Nobody sees older values of these bytes any more."""
        self._past.forget(offsets)

    def is_behind(self, looks: Looks) -> Mask:
        """Which of these lanes could see a past value of the byte."""
        return self._past.find(looks)[0] if len(self._past) else np.zeros(looks.offsets.size, np.bool_)
