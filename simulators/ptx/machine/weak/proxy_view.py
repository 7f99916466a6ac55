"""Shared memory as the async proxy sees it, where nothing fences generic accesses towards it.

The view of a block is its shared memory as it was at the block's last `fence.proxy.async`, and what copies have written
since: whatever a fence covers is in it. An asynchronous access of which the order says that it races with generic ones
may read the view instead of memory, and may lose against a generic store that the view does not have.
"""

import numpy as np

from tileproof.simulators.ptx.machine.asynchronous.region import Payload
from tileproof.simulators.ptx.machine.memory import Bytes, Lanes, Window

#: Shared memory of a block from which on the proxy sees memory itself: a view costs a copy of it at each fence.
MOST_BYTES = 1 << 15


class ProxyView:
    """The views of the resident blocks.

    Args:
        window: their shared memory.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._values: Bytes = np.zeros(window.data.size, np.uint8)
        self._written: Bytes = np.zeros(window.data.size, np.uint8)

    def fence(self, blocks: Lanes) -> None:
        """The proxy of these blocks sees what is in memory now."""
        window, written = self._window, self._window.track()
        for block in blocks.tolist():
            piece = slice(block * window.stride, (block + 1) * window.stride)
            self._values[piece], self._written[piece] = window.data[piece], written[piece]

    def read(self, index: Lanes) -> Bytes:
        """Bytes of the view, zero where it has none: the race has its finding, and needs no second one."""
        return self._values[index]

    def write(self, index: Lanes, payload: Payload) -> None:
        """A copy writes: its proxy sees it."""
        self._values[index] = payload.data
        self._written[index] = 0xFF if payload.written is None else payload.written

    def newer(self, index: Lanes) -> Payload:
        """Bytes of memory, of which those are `written` that the view does not have."""
        data, written = self._window.data[index], self._window.track()[index]
        differs = (written == 0xFF) & ((data != self._values[index]) | (self._written[index] != 0xFF))
        return Payload(data, np.where(differs, np.uint8(0xFF), np.uint8(0)))
