"""Happens-before for shared memory: which earlier accesses is this one ordered after?

An access has the epoch (lane, s): its lane, and its warp's interval s, which grows with every synchronisation of the
whole warp that orders memory. Each warp knows a vector clock, one bound for each warp of its block; an earlier access
of lane l in warp w at interval s is ordered before the present one if it is of the same lane, or if s is below the
bound that the present warp knows for w. `bar.sync` gives its participants the union of their clocks; `bar.warp.sync`
over a whole warp opens the warp's next interval; shuffles and votes order nothing.

Example: warp 0 writes s[0] in interval 0, warp 1 reads it with no barrier between: warp 1's bound for warp 0 is 0, and
0 < 0 is false, so this is a race. After one `bar.sync` the bound is 1 and the read is ordered.

Two strong accesses (atomic, volatile, relaxed, acquire, release) never race here: all scopes include the block. Edges
through fences, and order in global memory, are not part of this file yet. Where fences stand so that they may order two
accesses, the answer is "undecided", which the engine refuses instead of calling it a race; a partial `bar.warp.sync`
and a barrier with fewer threads than the block are refused too.
"""

from dataclasses import dataclass, field

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.order.before_shadow import WARP, AccessSet, Earlier, LastWrite, Rows


@dataclass(frozen=True)
class Conflict:
    """Accesses of one instruction without order after earlier ones.

    Attributes:
        positions: indices into the access vector of the present instruction.
        other_lane: lane of the access that the first of them conflicts with.
        other_step: its instruction.
        other_writes: whether it was a write.
        undecided: a release by that warp and an acquire by the present one may order them.
    """

    positions: Lanes
    other_lane: int
    other_step: int
    other_writes: bool
    undecided: bool


@dataclass(frozen=True)
class SharedKind:
    """How a step touches memory: an atomic is a strong write.

    Attributes:
        writes: it changes memory.
        strong: it is morally strong with others of its kind in the block.
        by_warp: every access is one of all lanes of the warp, as a row of `ldmatrix` is.
        lasting: later accesses are checked against it.
    """

    writes: bool
    strong: bool
    by_warp: bool = field(default=False, compare=False)
    lasting: bool = field(default=True, compare=False)


class SharedOrder:
    """Clocks of the resident warps, and the records of who touched their shared memory.

    Args:
        window_bytes: bytes of shared memory of all resident blocks, padded as in the window.
        granule_bytes: bytes of the kernel's smallest access to it.
        blocks: resident blocks.
        warps_per_block: warps of one block.
    """

    def __init__(self, window_bytes: int, granule_bytes: int, blocks: int, warps_per_block: int) -> None:
        self._granule_bytes = granule_bytes
        self._granules = -(-window_bytes // granule_bytes)
        self._warps_per_block = warps_per_block
        warps = blocks * warps_per_block
        self._bounds = np.zeros((warps, warps_per_block), np.int64)  # own column: the warp's current interval
        self._own_column = np.arange(warps) % warps_per_block
        self._released = np.zeros(warps, np.bool_)
        self._acquired = np.zeros(warps, np.bool_)
        self._last_write = LastWrite(self._granules)
        self._sets: dict[SharedKind, AccessSet] = {}

    def barrier(self, lanes: Lanes) -> None:
        """The lanes of completed barriers of whole blocks: the warps of a block get the union of their clocks."""
        warps = np.unique(lanes // WARP)
        present = np.zeros((self._bounds.shape[0], 1), np.bool_)
        present[warps] = True
        per_block = self._bounds.reshape(-1, self._warps_per_block, self._warps_per_block)
        clocks = np.where(present, self._bounds, 0).reshape(per_block.shape)
        union = clocks.max(axis=1)
        columns = self._own_column[warps]
        union[warps // self._warps_per_block, columns] = self._bounds[warps, columns] + 1
        self._bounds[warps] = union[warps // self._warps_per_block]
        self._released[warps] = self._acquired[warps] = False

    def warp_sync(self, warps: Lanes) -> None:
        """`bar.warp.sync` by all lanes that have not exited: the warps' next interval."""
        self._bounds[warps, self._own_column[warps]] += 1

    def release(self, lanes: Lanes) -> None:
        """Fences and `.release`: what the lanes' warps did may be published."""
        self._released[lanes // WARP] = True

    def acquire(self, lanes: Lanes) -> None:
        """Fences and `.acquire`: the lanes' warps may have learned what others published."""
        self._acquired[lanes // WARP] = True

    def access(self, kind: SharedKind, lanes: Lanes, offsets: Lanes, size: int, step: int) -> Conflict | None:
        """Record an access; the conflict with an earlier one, if any."""
        rows = Rows.of(lanes, offsets, size, self._granule_bytes, self._own_column, by_warp=kind.by_warp)
        conflict = self._check(kind, rows)
        if not kind.lasting:
            return conflict
        interval = self._bounds[rows.warp, rows.column]
        if kind.writes and not kind.strong:
            self._last_write.record(rows, interval, step)
            for accesses in self._sets.values():
                accesses.forget(rows.granule)
        else:
            self._set_of(kind).record(rows, interval, step)
        return conflict

    def _set_of(self, kind: SharedKind) -> AccessSet:
        if kind not in self._sets:
            self._sets[kind] = AccessSet(self._granules, self._warps_per_block)
        return self._sets[kind]

    def _check(self, kind: SharedKind, rows: Rows) -> Conflict | None:
        conflict = self._conflict(rows, self._last_write.unordered(rows, self._bounds), True)
        for other, accesses in self._sets.items():
            conflicting = (kind.writes or other.writes) and not (kind.strong and other.strong)
            if conflicting and (conflict is None or conflict.undecided):
                conflict = self._conflict(rows, accesses.unordered(rows, self._bounds), other.writes) or conflict
        return conflict

    def _conflict(self, rows: Rows, earlier: Earlier | None, writes: bool) -> Conflict | None:
        if earlier is None:
            return None
        undecided: Mask = self._released[earlier.lane // WARP] & self._acquired[rows.warp[earlier.rows]]
        chosen = np.flatnonzero(~undecided) if not undecided.all() else np.arange(earlier.rows.size)
        first = int(chosen[0])
        return Conflict(
            np.unique(rows.position[earlier.rows[chosen]]),
            int(earlier.lane[first]),
            int(earlier.step[first]),
            writes,
            bool(undecided.all()),
        )
