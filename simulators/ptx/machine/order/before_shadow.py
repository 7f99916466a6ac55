"""Who touched which granule of shared memory: the records that an access is checked against.

A granule is as many bytes as the kernel's smallest access to shared memory; accesses are aligned to their size, so each
covers whole granules and nothing is lost against records for each byte. Records are arrays of zeros that the operating
system provides at first touch: 227 KiB with 32 warps reserve address space, and take memory only where the kernel goes.

Example: with accesses of 4 and 16 bytes granules have 4 bytes; a 16-byte store at byte 32 is recorded in granules 8 to
11.
"""

from dataclasses import dataclass

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes, Mask

WARP = 32
WARP_SHIFT = 5
ALL_LANES = np.uint32(0xFFFF_FFFF)


@dataclass(frozen=True)
class Rows:
    """An access taken apart: one row for each lane, or whole warp, and granule.

    Attributes:
        position: index into the access's lane vector.
        lane: the lane, or one that stands for its warp.
        warp: its warp.
        column: its warp's place in the block.
        granule: index into the records.
        by_warp: each row is an access by all lanes of the warp.
    """

    position: Lanes
    lane: Lanes
    warp: Lanes
    column: Lanes
    granule: Lanes
    by_warp: bool

    @classmethod
    def of(
        cls, lanes: Lanes, offsets: Lanes, size: int, granule_bytes: int, columns: Lanes, *, by_warp: bool = False
    ) -> "Rows":
        """Rows of accesses of `size` bytes at aligned byte offsets; `columns` is each warp's place in its block."""
        each = size // granule_bytes
        granule = offsets // granule_bytes
        position = np.arange(lanes.size)
        if each > 1:
            position = np.repeat(position, each)
            lanes = lanes[position]
            granule = (granule[:, None] + np.arange(each)).reshape(-1)
        warp = lanes >> WARP_SHIFT
        return cls(position, lanes, warp, columns[warp], granule, by_warp)

    @property
    def first_lane(self) -> Lanes:
        """The first lane of each row's block."""
        return (self.warp - self.column) << WARP_SHIFT


@dataclass(frozen=True)
class Earlier:
    """Rows that an earlier access is not ordered before.

    Attributes:
        rows: indices of the rows.
        lane: for each, the earlier access's lane.
        step: for each, its instruction.
    """

    rows: Lanes
    lane: Lanes
    step: Lanes


class LastWrite:
    """The last weak write of every granule. Races with older ones were reported when this one was made."""

    def __init__(self, granules: int) -> None:
        # Lane of the block + 1, negative where it stands for its whole warp; 0 for none.
        self._writer = np.zeros(granules, np.int32)
        self._interval = np.zeros(granules, np.int32)
        self._step = np.zeros(granules, np.int32)

    def record(self, rows: Rows, interval: Lanes, step: int) -> None:
        """The rows' lanes write, in their warps' present intervals."""
        writer = rows.lane - rows.first_lane + 1
        self._writer[rows.granule] = -writer if rows.by_warp else writer
        self._interval[rows.granule] = interval
        self._step[rows.granule] = step

    def unordered(self, rows: Rows, bounds: Lanes) -> Earlier | None:
        """Writes by other lanes that are not ordered before the rows; `bounds` [warps, warps of a block]."""
        stored = self._writer[rows.granule]
        writer = np.maximum(np.abs(stored) - 1, 0)
        bad = self._interval[rows.granule] >= bounds[rows.warp, writer >> WARP_SHIFT]
        bad &= stored != 0
        if not rows.by_warp:
            bad &= (stored < 0) | (writer != rows.lane - rows.first_lane)
        if not bad.any():
            return None
        found = np.flatnonzero(bad)
        return Earlier(found, rows.first_lane[found] + writer[found], self._step[rows.granule[found]].astype(np.int64))


class AccessSet:
    """Accesses since the last weak write: for every granule and warp of the block, the lanes of the latest interval.

    Older intervals of a warp need no record: whoever is ordered after the latest one is ordered after them too.
    """

    def __init__(self, granules: int, warps_per_block: int) -> None:
        self._warps_per_block = warps_per_block
        self._lanes = np.zeros(granules * warps_per_block, np.uint32)
        self._interval = np.zeros(granules * warps_per_block, np.int32)
        self._step = np.zeros(granules * warps_per_block, np.int32)

    def record(self, rows: Rows, interval: Lanes, step: int) -> None:
        """The rows' lanes access, in their warps' present intervals."""
        place = rows.granule * self._warps_per_block + rows.column
        stale = self._interval[place] != interval
        self._lanes[place[stale]] = 0
        self._interval[place] = interval
        self._step[place] = step
        if rows.by_warp:
            self._lanes[place] = ALL_LANES
            return
        bit = np.uint32(1) << (rows.lane & (WARP - 1)).astype(np.uint32)
        # A lane comes once for each granule, so adding its bit where it is not set is the same as or-ing it in.
        np.add.at(self._lanes, place, bit & ~self._lanes[place])

    def forget(self, granules: Lanes) -> None:
        """A weak write that was checked against these accesses stands for them from now on."""
        self._lanes.reshape(-1, self._warps_per_block)[granules] = 0

    def unordered(self, rows: Rows, bounds: Lanes) -> Earlier | None:
        """Accesses by other lanes that are not ordered before the rows; the first such lane of each row."""
        lanes = self._lanes.reshape(-1, self._warps_per_block)[rows.granule]
        touched = np.flatnonzero(lanes.any(axis=1))
        if not touched.size:
            return None
        lanes, granule = lanes[touched], rows.granule[touched]
        lanes[self._interval.reshape(-1, self._warps_per_block)[granule] < bounds[rows.warp[touched]]] = 0
        if not rows.by_warp:
            own = np.uint32(1) << (rows.lane[touched] & (WARP - 1)).astype(np.uint32)
            lanes[np.arange(touched.size), rows.column[touched]] &= ~own
        bad: Mask = np.any(lanes, axis=1)
        if not bad.any():
            return None
        found = touched[bad]
        column = (lanes[bad] != 0).argmax(axis=1)
        bits = lanes[bad, column]
        lowest = np.log2(bits & (~bits + np.uint32(1))).astype(np.int64)  # of a power of two: exact
        step = self._step.reshape(-1, self._warps_per_block)[granule[bad], column].astype(np.int64)
        return Earlier(found, rows.first_lane[found] + (column << WARP_SHIFT) + lowest, step)
