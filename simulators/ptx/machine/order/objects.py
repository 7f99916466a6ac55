"""Barriers that keep what was published to them: mbarriers, and the barrier of a cluster.

Arrivals publish to the pending phase. When the phase is complete, what was published is kept as a snapshot, and waits
learn it; the next phase begins with nothing. An mbarrier is also a component of its unit: copies that signal it are
performed by it, at the phase that they are bound to, and whoever acquires a phase knows the copies of that phase and of
all before it. Its init is its own access too, at tick 0, and phase n is tick n + 1: so a fence can publish inits alone.

An arrival on a peer's barrier of no more than block scope orders reads alone (plane READS): most kernels with clusters
hand back slots in this way, which needs no more. What it does not order is told apart by the plane ANY_SCOPE.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.clocks import Held
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge, Plane, Snapshot, Views
from tileproof.simulators.ptx.program import Scope

# Completed phases that can still be waited for: a parity tells the last two apart.
_KEPT_PHASES = 4
_MORE_COMPONENTS = 16
# Named barriers of a block: number n of block b has the key 16 b + n.
BLOCK_BARRIERS = 16


@dataclass
class Object:
    """One barrier since its init.

    Attributes:
        component: of its unit; of a cluster's barrier -1.
        block: of the wave, where it stands.
        pending: what its own block published to the present phase, if anything.
        far: what peers published.
        phases: completed phases that may still be acquired: what the block published, and what peers did.
    """

    component: int
    block: int
    pending: Snapshot | None = None
    far: Snapshot | None = None
    phases: dict[int, tuple[Snapshot | None, Snapshot | None]] = field(default_factory=dict)

    def snapshots(self) -> Iterator[Snapshot]:
        """All that is kept here."""
        for snapshot in (self.pending, self.far, *chain(*self.phases.values())):
            if snapshot is not None:
                yield snapshot


class Objects:
    """The barriers of one wave.

    Args:
        knowledge: of the wave.
        key_bytes: bytes of the shared window of one block: a key is a byte of the whole window.
    """

    def __init__(self, knowledge: Knowledge, key_bytes: int) -> None:
        self._knowledge = knowledge
        self._clocks = knowledge.clocks
        self._key_bytes = key_bytes
        self._objects: dict[int, Object] = {}
        self._clusters: dict[tuple[int, int], Object] = {}
        self._blocks: dict[int, Snapshot] = {}
        self._ends: dict[int, Object] = {}
        self._spare: dict[int, list[int]] = {}
        self._inits: dict[int, list[int]] = {}  # components of the objects that a lane made
        self._clocks.holders.append(self._hold)

    def _hold(self, held: Held) -> None:
        for object_ in chain(self._objects.values(), self._clusters.values(), self._ends.values()):
            for snapshot in object_.snapshots():
                held.rows.append(snapshot[:, 0])
                held.maps.append(snapshot[:, 1])
        for snapshot in self._blocks.values():
            held.rows.append(snapshot[:, 0])
            held.maps.append(snapshot[:, 1])

    def init(self, lane: int, key: int) -> int:
        """A lane makes a new object at this byte, and knows of it; the object's component."""
        block = key // self._key_bytes
        unit = int(self._unit_of_block(block))
        spare = self._spare.setdefault(unit, self._clocks.barriers[::-1])
        if not spare:
            first = self._clocks.add_components(_MORE_COMPONENTS)
            more = range(first, first + _MORE_COMPONENTS)
            self._clocks.barriers += more
            for other in self._spare.values():
                other[:0] = reversed(more)
        component = spare.pop()
        self._objects[key] = Object(component, block)
        self._inits.setdefault(lane, []).append(component)
        self.put_inits(np.array([lane]), self._knowledge.views)
        return component

    def put_inits(self, lanes: Lanes, views: Views) -> None:
        """The inits that each lane made go into its views."""
        for lane in lanes.tolist():
            if lane not in self._inits:
                continue
            inits = self._knowledge.snapshot()
            self._clocks.rows[np.ix_(inits[self._knowledge.own_planes, 0], np.array(self._inits[lane]))] = 1
            with self._clocks.holding(inits[:, 0].tolist()):
                self._knowledge.learn(views, np.array([lane]), inits, self._knowledge.own_planes)

    def _unit_of_block(self, block: int) -> int:
        shape = self._knowledge.shape
        return block // int(shape[core.LANES_PER_UNIT] // shape[core.LANES_PER_BLOCK])

    def arrive(self, lanes: Lanes, keys: Lanes, views: Views | None, scope: Scope) -> None:
        """Lanes publish to barriers what these views say, None for nothing."""
        if views is None:
            return
        blocks = self._knowledge.blocks(lanes)
        for key in np.unique(keys).tolist():
            object_ = self._objects[key]
            here = keys == key
            near = here & (blocks == object_.block)
            object_.pending = self._published(object_.pending, lanes[near], views, None)
            object_.far = self._published(object_.far, lanes[here & ~near], views, self._crossing(scope))

    def _crossing(self, scope: Scope) -> list[int]:
        """The planes that an arrival on a peer's barrier publishes."""
        number, dropped = self._knowledge.number, {self._knowledge.number[Plane.ASYNC_GLOBAL]}
        if scope < Scope.CLUSTER:
            dropped.add(number[Plane.ALL])
        return [plane for plane in range(len(self._knowledge.planes)) if plane not in dropped]

    def _published(
        self, snapshot: Snapshot | None, lanes: Lanes, views: Views, planes: list[int] | None
    ) -> Snapshot | None:
        if not lanes.size:
            return snapshot
        if snapshot is None:
            snapshot = self._knowledge.snapshot()
        with self._clocks.holding(snapshot[:, 0].tolist(), snapshot[:, 1].tolist()):
            self._knowledge.publish(views, lanes, snapshot, planes)
        return snapshot

    def copies_land(self, lanes: Lanes, keys: Lanes, bounds: Lanes) -> None:
        """Each lane's cp.async groups below its bound go to the barrier, and nothing else of the lane."""
        first = self._knowledge.first_component(Engine.CP_ASYNC)
        components = first + lanes % self._knowledge.shape[core.LANES_PER_UNIT]
        for key in np.unique(keys).tolist():
            object_ = self._objects[key]
            if object_.pending is None:
                object_.pending = self._knowledge.snapshot()
            here = keys == key
            for plane in self._knowledge.own_planes:
                row = self._clocks.rows[object_.pending[plane, 0]]
                row[components[here]] = np.maximum(row[components[here]], bounds[here])

    def complete(self, key: int, phase: int) -> None:
        """A phase is complete."""
        object_ = self._objects[key]
        snapshot = object_.pending
        if snapshot is None:
            snapshot = self._knowledge.snapshot()
        for plane in self._knowledge.own_planes:
            self._clocks.rows[snapshot[plane, 0], object_.component] = phase + 2
        object_.phases[phase] = snapshot, object_.far
        object_.phases.pop(phase - _KEPT_PHASES, None)
        object_.pending = object_.far = None

    def acquire(self, lanes: Lanes, keys: Lanes, phases: Lanes, views: Views, scope: Scope) -> None:
        """Lanes learn completed phases: of what peers published, as much as the scope of the wait reaches."""
        for key in np.unique(keys).tolist():
            for phase in np.unique(phases[keys == key]).tolist():
                here = lanes[(keys == key) & (phases == phase)]
                near, far = self._objects[key].phases.get(phase, (None, None))
                if near is not None:
                    self._knowledge.learn(views, here, near)
                if far is not None:
                    self._knowledge.learn(views, here, far, self._crossing(scope))

    def end(self, block: int, lanes: Lanes, last: bool) -> Snapshot | None:
        """Lanes of a block end; with the last one, what they knew together."""
        object_ = self._ends.setdefault(block, Object(-1, block))
        object_.pending = self._published(object_.pending, lanes, self._knowledge.views, None)
        return object_.pending if last else None

    def block_arrive(self, lanes: Lanes, keys: Lanes) -> None:
        """Lanes publish to barriers of their blocks, whose round they do not wait for."""
        for key in np.unique(keys).tolist():
            if key not in self._blocks:
                self._blocks[key] = self._knowledge.snapshot()
            self._knowledge.publish(self._knowledge.views, lanes[keys == key], self._blocks[key])

    def block_complete(self, lanes: Lanes, blocks: Lanes, keys: Lanes) -> None:
        """Rounds of barriers are complete: the lanes, of these blocks, learn what was published to them."""
        for key in keys.tolist():
            snapshot = self._blocks.pop(key, None)
            here = lanes[blocks == key // BLOCK_BARRIERS]
            if snapshot is not None and here.size:
                with self._clocks.holding(snapshot[:, 0].tolist(), snapshot[:, 1].tolist()):
                    self._knowledge.learn(self._knowledge.views, here, snapshot)

    def cluster_arrive(self, lanes: Lanes, views: Views | None) -> None:
        """Lanes publish to their clusters' barriers."""
        for object_, planes, here in self._shares(lanes):
            if views is not None:
                object_.pending = self._published(object_.pending, here, views, planes)

    def cluster_complete(self, lanes: Lanes) -> None:
        """The present phases of the clusters of these lanes, one for each block, are complete."""
        for object_, _, _ in self._shares(lanes):
            object_.phases, object_.pending = {0: (object_.pending, None)}, None

    def cluster_wait(self, lanes: Lanes) -> None:
        """Lanes learn the last completed phase."""
        for object_, planes, here in self._shares(lanes):
            snapshot, _ = object_.phases.get(0, (None, None))
            if snapshot is not None:
                self._knowledge.learn(self._knowledge.views, here, snapshot, planes)

    def _shares(self, lanes: Lanes) -> Iterator[tuple[Object, list[int], Lanes]]:
        """Who shares what at a cluster's barrier: of the plane ASYNC_GLOBAL a block, of the others the cluster."""
        knowledge = self._knowledge
        alone = knowledge.number[Plane.ASYNC_GLOBAL]
        shares = [(0, knowledge.units(lanes), [plane for plane in range(len(knowledge.planes)) if plane != alone])]
        if alone >= 0:
            shares.append((1, knowledge.blocks(lanes), [alone]))
        for kind, groups, planes in shares:
            for group in np.unique(groups).tolist():
                object_ = self._clusters.setdefault((kind, group), Object(-1, -1))
                yield object_, planes, lanes[groups == group]
