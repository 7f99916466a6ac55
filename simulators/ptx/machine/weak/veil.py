"""One allocation as its blocks see it: what they have stored and nobody else sees yet, and what they see no longer."""

from collections.abc import Callable

import numpy as np

from tileproof.simulators.ptx.machine.memory import Backing, Bytes, Lanes, Mask
from tileproof.simulators.ptx.machine.weak.held import HeldStores, Rows
from tileproof.simulators.ptx.machine.weak.past import Past

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

    def has_past(self, offsets: Lanes) -> Mask:
        """Which bytes had other values."""
        past: Mask = self._flags[offsets] & _PAST != 0
        return past

    def load(self, offsets: Lanes, blocks: Lanes, since: Lanes, depth: Lanes) -> tuple[Bytes, Bytes]:
        """Bytes as blocks see them by weak loads, and their written bits: own held stores, past values, memory.

        Args:
            offsets: of the bytes, like the others an array of any number of them.
            blocks: who loads.
            since: the time of the block's last acquire.
            depth: how many values back the load would look; 0 for none.
        """
        values, written = self.see_past(offsets, blocks, since, depth)
        found, rows = self.held.find(offsets, blocks)
        if found.any():
            values[found], written[found] = self.held.rows.values[rows[found]], self.held.rows.written[rows[found]]
        return values, written

    def see_past(self, offsets: Lanes, blocks: Lanes, since: Lanes, depth: Lanes) -> tuple[Bytes, Bytes]:
        """The same without what blocks hold."""
        values, written = self._memory(offsets)
        if depth.any():
            found, rows = self._past.find(offsets, blocks, since, depth)
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
            self.mark(now.offsets, now.blocks)
            self.backing.data[now.offsets] = now.values
            if self.backing.written is not None or (now.written != 0xFF).any():
                self.backing.track()[now.offsets] = now.written
            rows = rows.take(np.delete(np.arange(rows.keys.size), first))

    def mark(self, offsets: Lanes, blocks: Lanes) -> None:
        """Blocks write these bytes, or look at them by strong accesses, now: they see nothing older any more."""
        self._flags[offsets] |= _PAST
        self._past.add(offsets, self._clock(), *self._memory(offsets), blocks)

    def forget(self, offsets: Lanes) -> None:
        """Nobody sees older values of these bytes any more."""
        self._past.forget(offsets)

    def is_behind(self, offsets: Lanes, blocks: Lanes, since: Lanes) -> Mask:
        """Which of these blocks could see a past value of the byte."""
        if not len(self._past):
            return np.zeros(offsets.size, np.bool_)
        return self._past.find(offsets, blocks, since, np.ones_like(offsets))[0]
