"""What every lane of a wave knows: views of clocks, in several planes.

A view is a row of the lane's unit, a map of rows of other units, and bounds of the lane's own: of its own accesses, and
of the groups of its own engines. Planes hold the same kind of knowledge of different strength; all edges move all of
them, except where a plane's line says otherwise:

    ALL           what a lane is ordered after
    READS         and, of reads only, through arrivals on a peer's barrier whose scope does not reach the peer
    ANY_SCOPE     and through edges whose scope does not reach: tells a wrong scope from no synchronisation
    ASYNC_SHARED  what its async proxy may rely on in shared memory: set by proxy fences; lost between units
    ASYNC_GLOBAL  the same in global memory; lost between blocks
    FENCED        what fence.sc of GPU scope, by whomever, stood behind
    SEEN          what strong reads, by whomever, saw of FENCED: a fence.sc of GPU scope makes it known

The last two are for fences that stand across a barrier from the strong access: `__threadfence(); __syncthreads()`, then
one thread's atomic. Two fence.sc are ordered one way or the other, and the other way would contradict what was read
(PTX ISA, "Fence-SC" and "Coherence" axioms); but only if something was read, so the order in which two fences happened
to run is no edge.

READS exists where blocks form clusters, ANY_SCOPE where the program has fences, releases or acquires, the ASYNC ones
where it has proxy fences, the last two where it has fence.sc.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.clocks import Clocks, Held
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT

Views = NDArray[np.int32]
#: int64 [planes, 2]: a row of the unit, and a map of others, in each plane.
Snapshot = Lanes


class Plane(IntEnum):
    """See the head of the file."""

    ALL = 0
    READS = 1
    ANY_SCOPE = 2
    ASYNC_SHARED = 3
    ASYNC_GLOBAL = 4
    FENCED = 5
    SEEN = 6


#: Planes in which a lane knows its own accesses only as far as it said so.
GIVEN_PLANES = (Plane.ASYNC_SHARED, Plane.ASYNC_GLOBAL, Plane.FENCED, Plane.SEEN)


class Knowledge:
    """Views of the lanes of one wave.

    Attributes:
        clocks: of the launch.
        planes: those that the program needs.
        number: a plane's index into the views; of one that is missing, the index of ALL, and -1 for the GIVEN_PLANES.
        views: int32 [planes, lanes, columns].
        ticks: int32 [warps], the clocks of the warps: grow when one of its lanes publishes.
        before_change: called when lanes are about to know, or to have published, other things than their neighbours in
            other blocks.
        minds: uint8 [warps], see `compiled_order`; who changes views says so by `forget_minds`.
        shape: see `compiled_order`.
        engines: likewise.

    Args:
        clocks: of the launch.
        planes: ALL and others, ascending.
        shape: of the wave.
        lanes: of the wave; all start with row 0.
        last: of a wave of the launch that has ended, whose views are used again.
    """

    def __init__(
        self, clocks: Clocks, planes: Iterable[Plane], shape: Lanes, lanes: int, last: "Knowledge | None" = None
    ) -> None:
        self.clocks = clocks
        self.planes = tuple(planes)
        self.number = {plane: -1 if plane in GIVEN_PLANES else 0 for plane in Plane}
        self.number |= {plane: index for index, plane in enumerate(self.planes)}
        self.shape = shape
        size = len(self.planes), lanes, core.VIEW_COLUMNS
        again = last if last is not None and last.views.shape == size else None
        self.views: Views = np.zeros(size, np.int32) if again is None else again.views
        self._changed = False
        if again is None or again.has_changed:
            self.views.fill(0)
            for plane in self.own_planes:
                self.views[plane, :, core.TICK] = core.EVER
        self.ticks = np.ones(lanes >> WARP_SHIFT, np.int32)
        self.minds = np.full(lanes >> WARP_SHIFT, core.UNKNOWN, np.uint8)
        self.engines = clocks.engines
        self.before_change: Callable[[], None] = _nobody_asks
        clocks.holders.append(self._hold)

    @property
    def has_changed(self) -> bool:
        """Whether lanes may know other than they started with."""
        return self._changed or bool(self.engines.max() >= 0)

    @property
    def own_planes(self) -> list[int]:
        """Indices of the planes in which lanes know their own accesses by themselves."""
        return [index for index, plane in enumerate(self.planes) if plane not in GIVEN_PLANES]

    def nothing(self) -> Views:
        """Views of lanes that know nothing."""
        return np.zeros_like(self.views)

    def with_nothing(self) -> Views:
        """The views, and behind them a plane in which nobody knows anything: for -1 among the numbers of planes."""
        return np.concatenate([self.views, np.zeros_like(self.views[:1])])

    def _hold(self, held: Held) -> None:
        hold_views(held, self.views)

    def first_component(self, engine: Engine) -> int:
        """The first component of the engines of this kind, made when they are first used."""
        if self.engines[engine] < 0:
            count = self.shape[core.LANES_PER_UNIT]
            if engine is Engine.WGMMA:
                blocks = count // self.shape[core.LANES_PER_BLOCK]
                count = blocks * -(-self.shape[core.LANES_PER_BLOCK] // 128)
            self.engines[engine] = self.clocks.add_components(int(count))
        return int(self.engines[engine])

    def units(self, lanes: Lanes) -> Lanes:
        """Each lane's unit in the wave."""
        units: Lanes = lanes // self.shape[core.LANES_PER_UNIT]
        return units

    def blocks(self, lanes: Lanes) -> Lanes:
        """Each lane's block in the wave."""
        blocks: Lanes = lanes // self.shape[core.LANES_PER_BLOCK]
        return blocks

    def tick(self, lanes: Lanes) -> None:
        """The lanes have published: what they do from now on is later."""
        self.before_change()
        published = np.zeros(self.ticks.size, np.int32)
        published[lanes >> WARP_SHIFT] = 1
        self.ticks += published

    def snapshot(self) -> Snapshot:
        """Knowledge of nothing, to publish into; the caller holds it."""
        snapshot = np.zeros((len(self.planes), 2), np.int64)
        snapshot[:, 0] = self.clocks.new_rows(len(self.planes))
        return snapshot

    def publish(self, views: Views, lanes: Lanes, into: Snapshot, planes: Iterable[int] | None = None) -> None:
        """Join what lanes know, by these views, into a snapshot of their unit that nobody else sees yet."""
        for plane in range(len(self.planes)) if planes is None else planes:
            self._publish(views, plane, lanes, np.full(lanes.size, into[plane, 0]))
            for which in np.unique(views[plane, lanes, core.FOREIGN]):
                with self.clocks.holding(into[:, 0].tolist(), into[:, 1].tolist()):
                    into[plane, 1] = self.clocks.join_maps(int(into[plane, 1]), int(which))

    def _publish(self, views: Views, plane: int, lanes: Lanes, targets: Lanes) -> None:
        core.publish(self.clocks.rows, views, plane, self.shape, self.engines, self.ticks, lanes, targets)

    def learn(self, views: Views, lanes: Lanes, snapshot: Snapshot, planes: Iterable[int] | None = None) -> None:
        """Join a snapshot of the lanes' unit into views of theirs."""
        for plane in range(len(self.planes)) if planes is None else planes:
            self.learn_row(views, plane, lanes, int(snapshot[plane, 0]))
            self.learn_map(views, plane, lanes, int(snapshot[plane, 1]))

    def learn_row(self, views: Views, plane: int, lanes: Lanes, row: int) -> None:
        """Join a row of the lanes' unit into one plane."""
        self._replace(views, plane, core.ROW, lanes, lambda known: self.clocks.join(known, row))

    def learn_map(self, views: Views, plane: int, lanes: Lanes, which: int) -> None:
        """Join a map of other units into one plane."""
        if which:
            self._replace(views, plane, core.FOREIGN, lanes, lambda known: self.clocks.join_maps(known, which))

    def _replace(self, views: Views, plane: int, column: int, lanes: Lanes, join: Callable[[int], int]) -> None:
        self.clocks.attend()
        present = views[plane, lanes, column]
        self.forget_minds()
        for known in np.unique(present):
            views[plane, lanes[present == known], column] = join(int(known))

    def meet(self, lanes: Lanes, per: int) -> None:
        """The ascending lanes of each group of `per` neighbours, which lies in one block, publish and learn."""
        self._changed = True
        groups, planes = core.count_groups(lanes, per), len(self.planes)
        fresh = self.clocks.take_rows(groups * planes).reshape(planes, groups)
        core.meet(
            self.clocks.rows,
            self.views,
            self.shape,
            self.engines,
            self.ticks,
            self.minds,
            lanes,
            per,
            fresh,
        )
        if self.clocks.has_maps:
            for plane in range(planes):
                self._join_maps(plane, lanes, lanes // per)

    def forget_minds(self) -> None:
        """Rows or maps of views change: nobody knows any more whose are the same."""
        self.before_change()
        self._changed = True
        self.minds[:] = core.UNKNOWN

    def _join_maps(self, plane: int, lanes: Lanes, groups: Lanes) -> None:
        if not self.views[plane, lanes, core.FOREIGN].any():
            return
        for group in np.unique(groups):
            here, joined = lanes[groups == group], 0
            for which in np.unique(self.views[plane, here, core.FOREIGN]):
                with self.clocks.holding(maps=[joined]):
                    joined = self.clocks.join_maps(joined, int(which))
            self.views[plane, here, core.FOREIGN] = joined


def _nobody_asks() -> None:
    pass


def hold_views(held: Held, views: Views) -> None:
    """The rows and maps of views are still needed."""
    held.rows.append(views[..., core.ROW].reshape(-1).astype(np.int64))
    held.maps.append(views[..., core.FOREIGN].reshape(-1).astype(np.int64))
