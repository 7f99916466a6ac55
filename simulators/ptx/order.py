"""Happens-before for shared memory: which earlier accesses is this one ordered after?

An access has the epoch (lane, s): its lane, and its warp's interval s, which grows with every synchronisation of the
whole warp that orders memory. Each warp knows a vector clock, one bound for each warp of its block; an earlier access
of lane l in warp w at interval s is ordered before the present one if it is of the same lane, or if s is below the
bound that the present warp knows for w. `bar.sync` gives its participants the union of their clocks; `bar.warp.sync`
over a whole warp opens the warp's next interval; shuffles and votes order nothing.

Example: warp 0 writes s[0] in interval 0, warp 1 reads it with no barrier between: warp 1's bound for warp 0 is 0, and
0 < 0 is false, so this is a race. After one `bar.sync` the bound is 1 and the read is ordered.

Strong accesses (atomics) conflict with weak ones only, and never evict the record of a weak one. Edges through fences,
mbarriers and asynchronous copies, and order in global memory, are not part of this file yet; what would need them to be
exact (a partial `bar.warp.sync`, a barrier with fewer threads than the block) is refused by the engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileproof.simulators.ptx.memory import Bits, Lanes, Mask

WARP = 32
_NOBODY = -1
_WEAK, _STRONG = 0, 1


@dataclass(frozen=True)
class Conflict:
    """Two accesses without order.

    Attributes:
        position: index into the access vector of the present instruction.
        byte: byte offset in the shared window of all resident blocks.
        other_lane: the earlier access's lane.
        earlier: "write" or "read".
        other_step: index of the earlier access's instruction.
    """

    position: int
    byte: int
    other_lane: int
    earlier: str
    other_step: int


class SharedOrder:
    """Clocks of the resident warps, and per byte of shared memory the last weak and strong write and the reads since.

    Args:
        window_bytes: bytes of shared memory of all resident blocks, padded as in the window.
        warps: resident warps.
        warps_per_block: warps of one block.
    """

    def __init__(self, window_bytes: int, warps: int, warps_per_block: int) -> None:
        self._warps_per_block = warps_per_block
        self._bounds = np.zeros((warps, warps_per_block), np.int32)  # own column: the warp's current interval
        self._writer = np.full((2, window_bytes), _NOBODY, np.int32)
        self._write_interval = np.zeros((2, window_bytes), np.int32)
        self._write_step = np.zeros((2, window_bytes), np.int32)
        self._read_lanes = np.zeros((window_bytes, warps_per_block), np.uint32)
        self._read_interval = np.zeros((window_bytes, warps_per_block), np.int32)
        self._read_step = np.zeros(window_bytes, np.int32)

    def barrier(self, lanes: Lanes) -> None:
        """The lanes of one block's completed `bar.sync`: all get the union of the participants' clocks."""
        warps = np.unique(lanes // WARP)
        columns = warps % self._warps_per_block
        union = self._bounds[warps].max(axis=0)
        union[columns] = self._bounds[warps, columns] + 1
        self._bounds[warps] = union

    def warp_sync(self, warps: Lanes) -> None:
        """`bar.warp.sync` by all lanes that have not exited: the warps' next interval."""
        self._bounds[warps, warps % self._warps_per_block] += 1

    def read(self, lanes: Lanes, offsets: Lanes, size: int, step: int) -> Conflict | None:
        """A weak load: record it; the first conflict with an unordered write, if any."""
        positions, who, where = _spread(lanes, offsets, size)
        conflict = self._unordered_write(positions, who, where, (_WEAK, _STRONG))
        warp = (who // WARP) % self._warps_per_block
        now = self._bounds[who // WARP, warp]
        fresh = self._read_interval[where, warp] != now
        self._read_lanes[where[fresh], warp[fresh]] = 0
        self._read_interval[where, warp] = now
        np.bitwise_or.at(self._read_lanes, (where, warp), np.uint32(1) << (who % WARP).astype(np.uint32))
        self._read_step[where] = step
        return conflict

    def strong_read(self, lanes: Lanes, offsets: Lanes, size: int) -> Conflict | None:
        """A strong load (`.volatile`, `.relaxed`, `.acquire`): conflicts with unordered weak writes only.

        It is not recorded: a later weak write that is not ordered after it stays unseen.
        """
        positions, who, where = _spread(lanes, offsets, size)
        return self._unordered_write(positions, who, where, (_WEAK,))

    def write(self, lanes: Lanes, offsets: Lanes, size: int, step: int) -> Conflict | None:
        """A weak store: record it; the first conflict with an unordered read or write, if any."""
        positions, who, where = _spread(lanes, offsets, size)
        conflict = self._unordered_write(positions, who, where, (_WEAK, _STRONG))
        conflict = conflict or self._unordered_read(positions, who, where)
        self._record_write(_WEAK, who, where, step)
        self._read_lanes[where] = 0  # checked above: a later conflict with these reads would name this write
        return conflict

    def atomic(self, lanes: Lanes, offsets: Lanes, size: int, step: int) -> Conflict | None:
        """A strong read-modify-write: conflicts with unordered weak accesses only."""
        positions, who, where = _spread(lanes, offsets, size)
        conflict = self._unordered_write(positions, who, where, (_WEAK,))
        conflict = conflict or self._unordered_read(positions, who, where)
        self._record_write(_STRONG, who, where, step)
        return conflict

    def _record_write(self, layer: int, who: Lanes, where: Lanes, step: int) -> None:
        self._writer[layer, where] = who
        self._write_interval[layer, where] = self._bounds[who // WARP, (who // WARP) % self._warps_per_block]
        self._write_step[layer, where] = step

    def _unordered_write(self, positions: Lanes, who: Lanes, where: Lanes, layers: tuple[int, ...]) -> Conflict | None:
        for layer in layers:
            writer = self._writer[layer, where]
            column = (writer // WARP) % self._warps_per_block
            bound = self._bounds[who // WARP, column]
            bad = (writer != _NOBODY) & (writer != who) & (self._write_interval[layer, where] >= bound)
            if bad.any():
                first = int(np.flatnonzero(bad)[0])
                byte = int(where[first])
                return Conflict(
                    int(positions[first]), byte, int(writer[first]), "write", int(self._write_step[layer, byte])
                )
        return None

    def _unordered_read(self, positions: Lanes, who: Lanes, where: Lanes) -> Conflict | None:
        unordered = self._read_interval[where] >= self._bounds[who // WARP]
        readers = np.where(unordered, self._read_lanes[where], np.uint32(0))
        own = (who // WARP) % self._warps_per_block
        rows = np.arange(who.size)
        readers[rows, own] &= ~(np.uint32(1) << (who % WARP).astype(np.uint32))
        if not readers.any():
            return None
        first, warp = (int(index) for index in np.argwhere(readers)[0])
        lane = int(readers[first, warp]).bit_length() - 1
        block_lane = int(who[first]) // (WARP * self._warps_per_block) * WARP * self._warps_per_block
        byte = int(where[first])
        return Conflict(
            int(positions[first]), byte, block_lane + warp * WARP + lane, "read", int(self._read_step[byte])
        )


def same_instruction_writes(offsets: Lanes, size: int, values: Sequence[Bits]) -> tuple[Mask, Mask] | None:
    """Lanes of one store that write one address: (with different values, with equal values); None if there are none.

    Which of several values stays is undefined (CUDA C++ Programming Guide, "SIMT Architecture": one of the writes is
    performed, which one is undefined).
    """
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    repeats = ordered[1:] < ordered[:-1] + size
    if not repeats.any():
        return None
    equal = ordered[1:] == ordered[:-1]
    for element in values:
        equal &= element[order[1:]] == element[order[:-1]]
    different = np.zeros(offsets.size, np.bool_)
    same = np.zeros(offsets.size, np.bool_)
    different[order[1:]] = repeats & ~equal
    same[order[1:]] = repeats & equal
    return different, same


def _spread(lanes: Lanes, offsets: Lanes, size: int) -> tuple[Lanes, Lanes, Lanes]:
    """One row for each byte: position in the access vector, lane, byte offset."""
    positions = np.repeat(np.arange(lanes.size), size)
    where = (offsets[:, None] + np.arange(size)).reshape(-1)
    return positions, lanes[positions], where
