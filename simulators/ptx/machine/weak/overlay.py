"""The weak behaviour of one wave: late stores and stale loads of global memory, drawn by seed.

Each block holds back some of its weak stores. They are visible inside the block at once, and outside when the seed says
so, when the block accesses the bytes by a strong or an asynchronous access, when a release covers them, and at the end.
A weak load may see a value that was overwritten, unless its thread knows of the write, or its block has itself written
the byte or looked at it by a strong access. Strong accesses go to memory at once and in order,
and asynchronous copies read and write memory itself. So what may differ from memory that all threads share at once is
this: weak stores come late, weak loads come early. `fence.sc` makes its block's stores visible, all of them, and its
past values invisible: that is what forbids store buffering.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from tileproof.simulators.ptx.machine.asynchronous.region import Payload, Region
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Backing, Bits, Bytes, Lanes, Mask
from tileproof.simulators.ptx.machine.weak.held import BLOCK_BITS, Rows, keys_of
from tileproof.simulators.ptx.machine.weak.past import DEEPEST, Looks
from tileproof.simulators.ptx.machine.weak.proxy_view import ProxyView
from tileproof.simulators.ptx.machine.weak.veil import Veil
from tileproof.simulators.ptx.program import StateSpace

if TYPE_CHECKING:
    from tileproof.simulators.ptx.machine.order.order import Order

#: Bytes that a wave's blocks hold back at most; further stores are visible at once.
MOST_HELD = 1 << 13
#: A launch draws one of each: the share of weak stores that are held, of weak loads that look back, and of turns before
#: which some held stores become visible.
_HELD_SHARES = (0.5, 0.9, 1.0)
_STALE_SHARES = (0.0, 0.5, 0.9)
_EXPOSING_TURNS = (0.0, 0.02, 0.2)
_SHOWN_SHARE = 0.5


class Overlay:
    """What the blocks of one wave see differently.

    Args:
        draw: by seed.
        geometry: who is resident.
        order: what releases cover; without it they cover all of their block.
        view: of shared memory by the async proxy; None where it sees memory itself.
        late: stores to global memory may come late.
    """

    def __init__(
        self,
        draw: np.random.Generator,
        geometry: Geometry,
        order: "Order",
        view: ProxyView | None = None,
        *,
        late: bool = True,
    ) -> None:
        self._draw = draw
        self._late = late
        self._lanes_per_block = geometry.lanes_per_block
        self._order = order
        self._view = view
        # When each block was last told of everything, by `fence.sc` or, without an order, by any acquire; and when it
        # last fenced global memory towards the async proxy.
        self._acquired, self._fenced = np.zeros((2, geometry.resident.size), np.int64)
        self._time = 0
        self._veils: list[Veil] = []
        self._stores = 0
        self._can_hold = geometry.resident.size < 1 << BLOCK_BITS
        self._held_share = draw.choice(_HELD_SHARES)
        self._stale_share = draw.choice(_STALE_SHARES)
        self._exposing_turns = draw.choice(_EXPOSING_TURNS)

    def store(
        self, backing: Backing, offsets: Lanes, size: int, values: Bits, masks: Bits | None, lanes: Lanes
    ) -> None:
        """Weak stores of values with undefined-bit masks (None: all defined): some are held, the rest are made."""
        if not self._late:
            backing.store(offsets, size, values, masks)
            return
        late = self._draw.random(lanes.size) < self._held_share
        if backing.brackets is not None or not self._has_room():
            late[:] = False  # intervals are not held
        veil = self._veil(backing)
        self._stores += 1
        held = veil.holds(_bytes(offsets, size))
        if held:
            self._expose(veil, veil.held.others(self._rows(offsets, size, values, masks, lanes)))
        for now in (True, False):
            chosen = np.flatnonzero(late != now)
            if chosen.size:
                mask = None if masks is None else masks[chosen]
                part = offsets[chosen], size, values[chosen], mask, lanes[chosen]
                self._store_now(veil, *part, held=held) if now else veil.hold(self._rows(*part))

    def _store_now(
        self, veil: Veil, offsets: Lanes, size: int, values: Bits, masks: Bits | None, lanes: Lanes, *, held: bool
    ) -> None:
        """Stores that all see at once; their blocks may have `held` earlier ones of the bytes back."""
        if held:
            veil.held.drop(self._rows(offsets, size, values, masks, lanes))
        self._mark(veil, _bytes(offsets, size), np.repeat(lanes, size))
        veil.backing.store(offsets, size, values, masks)

    def _rows(self, offsets: Lanes, size: int, values: Bits, masks: Bits | None, lanes: Lanes) -> Rows:
        index, lanes_of = _bytes(offsets, size), np.repeat(lanes, size)
        return Rows(
            keys_of(index, lanes_of // self._lanes_per_block),
            _raw(values, size),
            np.full(index.size, 0xFF, np.uint8) if masks is None else ~_raw(masks, size),
            lanes_of,
            self._epochs(lanes_of),
            np.full(index.size, self._stores),
        )

    def load(self, backing: Backing, offsets: Lanes, size: int, lanes: Lanes) -> tuple[Bits, Bits | None]:
        """Values and undefined-bit masks (None: all defined) as weak loads see them."""
        veil = backing.veil
        if veil is None or not veil.hides(index := _bytes(offsets, size)):
            return backing.load(offsets, size)
        depth = np.repeat(self._depths(veil, index, lanes.size), size)
        raw, written = veil.load(self._looks(index, np.repeat(lanes, size), depth))
        return _values(raw, written, size)

    def load_incoherent(self, backing: Backing, offsets: Lanes, size: int, lanes: Lanes) -> tuple[Bits, Bits | None]:
        """The same for `ld.global.nc`, which may see whatever was there during the kernel."""
        veil = backing.veil
        if veil is None or not veil.hides(index := _bytes(offsets, size)):
            return backing.load(offsets, size)
        depth, nobody = np.repeat(self._depths(veil, index, lanes.size), size), np.full(index.size, -1)
        return _values(*veil.see_past(Looks(index, nobody, nobody, depth, _nobody_knows)), size)

    def _depths(self, veil: Veil, index: Lanes, count: int) -> Lanes:
        """How many values back so many loads look."""
        if veil.backing.brackets is not None or not veil.has_past(index).any():
            return np.zeros(count, np.int64)
        stale = self._draw.random(count) < self._stale_share
        return np.where(stale, self._draw.integers(1, DEEPEST + 1, count), 0)

    def newest(self, backing: Backing, offsets: Lanes, size: int) -> tuple[Bits, Bits | None]:
        """Values as the last stores left them, whoever sees them, and undefined bits of memory."""
        values, masks = backing.load(offsets, size)
        veil = backing.veil
        if veil is None or not veil.hides(index := _bytes(offsets, size)):
            return values, masks
        return _words(veil.newest(index), size), masks

    def touch(self, backing: Backing, offsets: Lanes, nbytes: int, lanes: Lanes, *, writes: bool) -> None:
        """Before strong or asynchronous accesses: what their blocks hold of the bytes comes first, and they see
        nothing older afterwards."""
        veil = backing.veil
        if not self._late or (veil is None and not writes):
            return
        veil = self._veil(backing)
        index, lanes_of = _bytes(offsets, nbytes), np.repeat(lanes, nbytes)
        found, rows = veil.held.find(index, lanes_of // self._lanes_per_block)
        if found.any():
            self._expose(veil, np.isin(np.arange(veil.held.rows.keys.size), rows[found]))
        if not writes:
            behind = veil.is_behind(self._looks(index, lanes_of, np.ones_like(index)))
            index, lanes_of = index[behind], lanes_of[behind]
        if index.size:
            veil.mark(index, lanes_of, lanes_of // self._lanes_per_block, self._epochs(lanes_of))

    def read_async(self, region: Region, lane: int, payload: Payload, *, races: bool) -> Payload:
        """What a copy that was issued by this lane reads of a region, of which memory holds `payload`.

        It sees nothing that its block holds back, and perhaps what was in global memory before other blocks wrote,
        unless its block has fenced the async proxy since; in shared memory perhaps its proxy's view, where it races.
        """
        if payload.held is not None:
            return payload
        if region.space is StateSpace.SHARED:
            if self._view is None or not races or not self._looks_back():
                return payload
            return Payload(self._view.read(region.index), payload.written)
        veil, index = region.backing.veil, region.index
        if veil is None or not veil.has_past(index).any() or not self._looks_back():
            return payload
        block = np.full(index.size, lane // self._lanes_per_block)
        values, written = veil.see_past(Looks(index, block, self._fenced[block], np.ones_like(block), _nobody_knows))
        return Payload(values, None if (written == 0xFF).all() else written)

    def overtakes(self, region: Region) -> Payload | None:
        """Generic stores to shared memory that a copy races with and that come after it: what they wrote.

        `written` tells which bytes; None where they come before the copy.
        """
        if self._view is None or region.space is not StateSpace.SHARED or not self._looks_back():
            return None
        return self._view.newer(region.index)

    def write_async(self, region: Region, lane: int, payload: Payload) -> None:
        """Before a copy that was issued by this lane writes a region: its block's held stores are first, all see it."""
        if region.space is StateSpace.SHARED:
            if self._view is not None:
                self._view.write(region.index, payload)
        elif region.backing.veil is not None:
            issuers = np.full(region.offsets.size, lane)
            self.touch(region.backing, region.offsets, region.nbytes, issuers, writes=False)
            region.backing.veil.forget(region.index)

    def read_operand(self, offsets: Lanes, nbytes: int, chunks: Bytes) -> Bytes:
        """What `wgmma` reads of shared memory where it races with generic stores, of which memory holds `chunks`."""
        if self._view is None or not self._looks_back():
            return chunks
        return self._view.read(_bytes(offsets, nbytes)).reshape(-1, nbytes)

    def fence_async(self, lanes: Lanes, spaces: Collection[StateSpace]) -> None:
        """Lanes fence these spaces towards the async proxy."""
        blocks = np.unique(lanes // self._lanes_per_block)
        if StateSpace.GLOBAL in spaces:
            self.release(lanes)
            self._fenced[blocks] = self._time
        if StateSpace.SHARED in spaces and self._view is not None:
            self._view.fence(blocks)

    def misbehaves(self) -> bool:
        """Whether something that the ISA leaves undefined shows."""
        return bool(self._draw.random() < _SHOWN_SHARE)

    def _looks_back(self) -> bool:
        return bool(self._draw.random() < self._stale_share)

    def release(self, lanes: Lanes) -> None:
        """Lanes publish to other blocks: what they know of their blocks' stores becomes visible."""
        lanes = np.unique(lanes)
        for veil in self._veils:
            if len(veil.held):
                self._expose(veil, self._covered(lanes, veil.held.rows))

    def acquire(self, lanes: Lanes) -> None:
        """Lanes learn of other blocks; where nobody knows of what, their blocks see nothing older than now."""
        if not self._order.enabled:
            self._acquired[lanes // self._lanes_per_block] = self._time

    def sequential(self, lanes: Lanes) -> None:
        """`fence.sc`: all that the lanes' blocks hold becomes visible, and nothing older is."""
        blocks = np.unique(lanes // self._lanes_per_block)
        for veil in self._veils:
            self._expose(veil, np.isin(veil.held.rows.blocks, blocks))
        self._acquired[blocks] = self._time

    def tick(self) -> None:
        """A turn begins: perhaps some held stores become visible."""
        if self._veils and self._draw.random() < self._exposing_turns:
            share = self._draw.random()
            for veil in self._veils:
                self._expose(veil, self._draw.random(veil.held.rows.keys.size) < share)

    def drain(self) -> bool:
        """All stores become visible and all past values invisible; whether there was anything."""
        hidden = any(len(veil.held) for veil in self._veils) or bool((self._acquired < self._time).any())
        for veil in self._veils:
            self._expose(veil, np.ones(veil.held.rows.keys.size, np.bool_))
        self._acquired[:] = self._time
        return hidden

    def end(self) -> None:
        """The wave ends: memory is what everybody sees."""
        self.drain()
        for veil in self._veils:
            veil.backing.set_veil(None)
        self._veils.clear()

    def _has_room(self) -> bool:
        return self._can_hold and sum(len(veil.held) for veil in self._veils) <= MOST_HELD

    def _mark(self, veil: Veil, index: Lanes, lanes: Lanes) -> None:
        """Lanes write bytes; those without a past need none where there is much already."""
        if not self._has_room():
            past = veil.has_past(index)
            index, lanes = index[past], lanes[past]
        if index.size:
            veil.mark(index, lanes, lanes // self._lanes_per_block, self._epochs(lanes))

    def _epochs(self, lanes: Lanes) -> Lanes:
        return self._order.epochs(lanes) if self._order.enabled else np.zeros_like(lanes)

    def _looks(self, index: Lanes, lanes: Lanes, depth: Lanes) -> Looks:
        """Lanes that load bytes: they know what the order says, or everything until their block's last acquire."""
        blocks = lanes // self._lanes_per_block

        def knows(positions: Lanes, others: Lanes, epochs: Lanes) -> Mask:
            return self._order.knows_any(lanes[positions], others, epochs)

        return Looks(index, blocks, self._acquired[blocks], depth, knows if self._order.enabled else _nobody_knows)

    def _veil(self, backing: Backing) -> Veil:
        if backing.veil is not None:
            return backing.veil
        veil = Veil(backing, self._next_time)
        backing.set_veil(veil)
        self._veils.append(veil)
        return veil

    def _next_time(self) -> int:
        self._time += 1
        return self._time

    def _expose(self, veil: Veil, chosen: Mask) -> None:
        if chosen.any():
            rows = veil.held.remove(chosen)
            veil.expose(rows, self._draw.permutation(rows.keys.size))

    def _covered(self, lanes: Lanes, rows: Rows) -> Mask:
        """Rows that some lane of their block knows of."""
        blocks = lanes // self._lanes_per_block
        if not self._order.enabled:
            return np.isin(rows.blocks, blocks)
        first, last = np.searchsorted(blocks, rows.blocks, "left"), np.searchsorted(blocks, rows.blocks, "right")
        row = np.repeat(np.arange(rows.keys.size), last - first)
        lane = lanes[np.arange(row.size) - np.repeat(np.cumsum(last - first) - last, last - first)]
        known = self._order.knows(lane, rows.lanes[row], rows.epochs[row])
        return np.bincount(row[known], minlength=rows.keys.size) > 0


def _nobody_knows(positions: Lanes, others: Lanes, epochs: Lanes) -> Mask:
    return np.zeros(positions.size, np.bool_)


def _bytes(offsets: Lanes, size: int) -> Lanes:
    """The bytes of elements, one element after the other."""
    index: Lanes = (offsets[:, None] + np.arange(size)).reshape(-1)
    return index


def _values(raw: Bytes, written: Bytes, size: int) -> tuple[Bits, Bits | None]:
    """Bytes of elements as values and undefined-bit masks."""
    masks = _words(~written, size)
    return _words(raw, size), masks if masks.any() else None


def _raw(values: Bits, size: int) -> Bytes:
    """The bytes of elements of these values."""
    raw: Bytes = values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size].reshape(-1)
    return raw


def _words(raw: Bytes, size: int) -> Bits:
    """Bytes of elements as their values."""
    wide = np.zeros((raw.size // size, 8), np.uint8)
    wide[:, :size] = raw.reshape(-1, size)
    words: Bits = wide.view("<u8").reshape(-1).astype(np.uint64)
    return words
