"""Release and acquire patterns: fences, strong accesses, and what was published at places in memory.

A fence of scope s keeps what its lane knows for the strong writes that follow it (`fenced`, for s and every smaller
scope); a relaxed strong read keeps what it saw for the acquiring fences that follow it (`awaited`, by the distance of
who published it); `.release` and `.acquire` forms do both at once (PTX ISA, "Release and Acquire Patterns").

At a place stand the *heads* of its present release sequence: a plain strong store begins a new one, an atomic continues
it if it and the last writer are morally strong, and a weak store ends it. Who reads the place takes the heads whose
scope includes it, if its own scope includes them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.clocks import Held
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge, Plane, Snapshot, Views, hold_views
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.program import Scope

# Distances of who published from who reads: in the block, in the cluster, on the GPU.
_DISTANCES = 3
_Reading = tuple[int, tuple[int, int], int, Scope, bool]  # lane, place, bytes, scope, whether it acquires


@dataclass(frozen=True)
class Party:
    """A strong access, as far as its partners are concerned: numbers of unit and block are the launch's."""

    unit: int
    block: int
    scope: Scope
    nbytes: int

    def reaches(self, other: "Party") -> bool:
        """Whether the scope includes the other's thread."""
        return self.scope >= self.distance(other)

    def distance(self, other: "Party") -> Scope:
        """The smallest scope that includes both."""
        if self.block == other.block:
            return Scope.CTA
        return Scope.CLUSTER if self.unit == other.unit else Scope.GPU

    def pairs_with(self, other: "Party") -> bool:
        """Whether two accesses of one place are morally strong."""
        return self.reaches(other) and other.reaches(self) and self.nbytes == other.nbytes


@dataclass(frozen=True)
class Head:
    """What one strong write published, and who it was."""

    party: Party
    snapshot: Snapshot


@dataclass
class Place:
    """What has been published at one place since its release sequence began.

    Attributes:
        writer: the last strong write.
        near: heads of block or cluster scope.
        blocks: heads of GPU scope, those of each block as one.
        outside: of the same heads, in each plane, a map of their units' rows and of all they knew of others.
        any_scope: a map of all heads, however the scopes were.
        sequential: of all writes, a map of what fence.sc stood before them (plane FENCED).
        own: for each lane of the launch its last release at this place.
        version: grows with every write.
    """

    writer: Party | None = None
    near: list[Head] = field(default_factory=list)
    blocks: dict[int, Head] = field(default_factory=dict)
    outside: Lanes = field(default_factory=lambda: np.zeros(len(Plane), np.int64))
    any_scope: int = 0
    sequential: int = 0
    own: dict[int, Head] = field(default_factory=dict)
    version: int = 0

    def restart(self) -> None:
        """The sequence has ended."""
        self.writer, self.near, self.blocks, self.any_scope, self.sequential = None, [], {}, 0, 0
        self.outside = np.zeros(len(Plane), np.int64)

    def snapshots(self) -> Iterator[Snapshot]:
        """All that is kept here."""
        yield from (head.snapshot for head in (*self.near, *self.blocks.values(), *self.own.values()))


class Places:
    """Places in global memory, of a launch, or in the shared memory of a wave."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], Place] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def find(self, backing: int, offset: int) -> Place | None:
        """The place, if anything was published there."""
        return self._places.get((backing, offset))

    def begin(self, backing: int, offset: int) -> Place:
        """The place, made if it is new."""
        return self._places.setdefault((backing, offset), Place())

    def hold(self, held: Held) -> None:
        """See `Clocks.holders`."""
        for place in self._places.values():
            held.maps.append(place.outside)
            held.maps.append(np.array([place.any_scope, place.sequential]))
            for snapshot in place.snapshots():
                held.rows.append(snapshot[:, 0])
                held.maps.append(snapshot[:, 1])


class Patterns:
    """Fences and strong accesses of the lanes of one wave.

    Args:
        knowledge: of the wave.
        first_unit: number of the wave's first unit in the launch.
        blocks_per_unit: of the launch.
    """

    def __init__(self, knowledge: Knowledge, first_unit: int, blocks_per_unit: int) -> None:
        self._knowledge = knowledge
        self._clocks = knowledge.clocks
        self._first_unit = first_unit
        self._blocks_per_unit = blocks_per_unit
        self.fenced: list[Views] = []
        self._awaited: list[Views] = []
        # What a lane's relaxed reads of a place and size saw, and how far away, for an acquire of it that follows.
        self._seen: dict[tuple[int, int, int, int], list[tuple[Scope, Snapshot]]] = {}
        # The version of a place that a reading has taken already.
        self._taken: dict[_Reading, int] = {}
        self._wide = knowledge.number[Plane.ANY_SCOPE]  # there is one where anything is published
        self._exact = [plane for plane in range(len(knowledge.planes)) if plane != self._wide]
        self._sequential, self._seen_plane = knowledge.number[Plane.FENCED], knowledge.number[Plane.SEEN]
        self._outward = [plane for plane in knowledge.own_planes if plane != self._wide]
        self._outward += [plane for plane in (self._sequential, self._seen_plane) if plane >= 0]
        # What a unit's blocks tell each other: not what one's async proxy may rely on in global memory.
        crossing = -1 if blocks_per_unit == 1 else knowledge.number[Plane.ASYNC_GLOBAL]
        self._inward = [plane for plane in self._exact if plane != crossing]
        knowledge.clocks.holders.append(self._hold)

    def _hold(self, held: Held) -> None:
        for views in (*self.fenced, *self._awaited):
            hold_views(held, views)
        for seen in self._seen.values():
            for _, snapshot in seen:
                held.rows.append(snapshot[:, 0])
                held.maps.append(snapshot[:, 1])

    def fence(self, lanes: Lanes, acquire: bool, release: bool, scope: Scope, sequential: bool = False) -> None:
        """First what was awaited is known, then what is known may be published: one fence may do both."""
        self._make_room()
        scope = min(scope, Scope.GPU)
        if acquire:
            self._learn_awaited(lanes, scope)
        if sequential and scope == Scope.GPU:
            self._learn_seen(lanes)
        if release:
            self._keep(lanes, scope, sequential)

    def _learn_seen(self, lanes: Lanes) -> None:
        """A fence.sc comes after those whose writes were seen before it."""
        knowledge, seen = self._knowledge, self._knowledge.number[Plane.SEEN]
        views = knowledge.views
        for plane in knowledge.own_planes:
            self._move(views[seen], plane, lanes)

    def _move(self, source: Views, plane: int, lanes: Lanes) -> None:
        """Join one plane of views into what the lanes know in a plane."""
        views = self._knowledge.views
        for row in np.unique(source[lanes, core.ROW]):
            self._knowledge.learn_row(views, plane, lanes[source[lanes, core.ROW] == row], int(row))
        for which in np.unique(source[lanes, core.FOREIGN]):
            self._knowledge.learn_map(views, plane, lanes[source[lanes, core.FOREIGN] == which], int(which))

    def kept(self, scope: Scope) -> Views:
        """What relaxed writes and arrivals of a scope publish."""
        self._make_room()
        return self.fenced[scope]

    def awaited(self) -> Views:
        """Where relaxed waits on barriers of the block keep what they saw for a fence."""
        self._make_room()
        return self._awaited[Scope.CTA]

    def _make_room(self) -> None:
        if not self.fenced:
            self.fenced = [self._knowledge.nothing() for _ in range(_DISTANCES)]
            self._awaited = [self._knowledge.nothing() for _ in range(_DISTANCES)]

    def _learn_awaited(self, lanes: Lanes, scope: Scope) -> None:
        for distance, awaited in enumerate(self._awaited):
            for plane in range(len(self._knowledge.planes)):
                if distance <= scope:
                    self._move(awaited[plane], plane, lanes)
                    awaited[plane, lanes] = 0

    def _keep(self, lanes: Lanes, scope: Scope, sequential: bool) -> None:
        knowledge = self._knowledge
        present = knowledge.views[:, lanes].copy()
        for plane in knowledge.own_planes:
            present[plane, :, core.TICK] = knowledge.ticks[lanes >> WARP_SHIFT] + 1
        if sequential and scope == Scope.GPU:
            knowledge.views[self._sequential, lanes] = present[self._sequential] = present[Plane.ALL]
        for smaller, fenced in enumerate(self.fenced):
            if smaller <= scope:
                fenced[:, lanes] = present
            else:
                fenced[self._wide, lanes] = present[self._wide]
        knowledge.tick(lanes)

    def store(
        self, places: Places, lanes: Lanes, backing: int, offsets: Lanes, nbytes: int, scope: Scope, release: bool
    ) -> None:
        """Strong stores, in the order of their turns: each begins a new sequence at its place."""
        if not places and not self._publishes(lanes, scope, release):
            return
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
            place = places.find(backing, offset)
            if place is None and not self._publishes(np.array([lane]), scope, release):
                continue
            place = places.begin(backing, offset)
            place.restart()
            self._write(place, lane, self._party(lane, scope, nbytes), release)
        if release:
            self._knowledge.tick(lanes)

    def load(
        self, places: Places, lanes: Lanes, backing: int, offsets: Lanes, nbytes: int, scope: Scope, acquire: bool
    ) -> None:
        """Strong loads."""
        if not places and not self._seen:
            return
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
            self._read(places, (backing, offset), lane, self._party(lane, scope, nbytes), acquire)

    def update(
        self,
        places: Places,
        lanes: Lanes,
        backing: int,
        offsets: Lanes,
        nbytes: int,
        scope: Scope,
        acquire: bool,
        release: bool,
        reads: bool,
        writes: Mask | None,
    ) -> None:
        """Atomics, in the order of their turns. Lanes of one warp do not learn from each other at one place."""
        if not places and not self._seen and not self._publishes(lanes, scope, release):
            return
        turns = list(zip(lanes.tolist(), offsets.tolist(), strict=True))
        left = Counter((lane >> WARP_SHIFT, offset) for lane, offset in turns)
        waiting: dict[tuple[int, int], list[int]] = {}
        for index, (lane, offset) in enumerate(turns):
            if reads:
                self._read(places, (backing, offset), lane, self._party(lane, scope, nbytes), acquire)
            group = lane >> WARP_SHIFT, offset
            left[group] -= 1
            if writes is None or writes[index]:
                waiting.setdefault(group, []).append(lane)
            if left[group]:
                continue
            for sibling in waiting.pop(group, []):
                self._continue(places, (backing, offset), sibling, self._party(sibling, scope, nbytes), release)
        if release:
            self._knowledge.tick(lanes)

    def _continue(self, places: Places, where: tuple[int, int], lane: int, party: Party, release: bool) -> None:
        """An atomic's write: the sequence goes on if writer and atomic are morally strong."""
        place = places.find(*where)
        if place is None and not self._publishes(np.array([lane]), party.scope, release):
            return
        place = places.begin(*where)
        if place.writer is not None and not place.writer.pairs_with(party):
            any_scope = place.any_scope
            place.restart()
            place.any_scope = any_scope
        self._write(place, lane, party, release)

    def _publishes(self, lanes: Lanes, scope: Scope, release: bool) -> bool:
        """Whether strong writes of the lanes publish anything."""
        if release or (self.fenced and self.fenced[Scope.CTA][:, lanes, core.TICK].any()):
            return True
        return self._sequential >= 0 and bool(self._knowledge.views[self._sequential, lanes, : core.TICK + 1].any())

    def _party(self, lane: int, scope: Scope, nbytes: int) -> Party:
        shape = self._knowledge.shape
        unit = self._first_unit + lane // int(shape[core.LANES_PER_UNIT])
        block = self._first_unit * self._blocks_per_unit + lane // int(shape[core.LANES_PER_BLOCK])
        return Party(unit, block, min(scope, Scope.GPU), nbytes)  # one GPU is the whole system

    def _lane_number(self, lane: int) -> int:
        return self._first_unit * int(self._knowledge.shape[core.LANES_PER_UNIT]) + lane

    def _write(self, place: Place, lane: int, party: Party, release: bool) -> None:
        """A strong write publishes all that its lane knows, or what it fenced, and again what it released here.

        The earlier release keeps its scope: it is the first operation of the release pattern, which must be morally
        strong with the last one of the acquire pattern (PTX ISA, "Synchronizes").
        """
        place.writer = party
        place.version += 1
        own = place.own.get(self._lane_number(lane))
        if own is not None and own.party.nbytes == party.nbytes:
            self._put(place, own.party, own.snapshot)
        if self._sequential >= 0:
            self._put_sequential(place, lane, party)
        if release:
            head = place.own[self._lane_number(lane)] = Head(party, self._snapshot(self._knowledge.views, lane))
            self._put(place, party, head.snapshot)
            return
        for scope in self._fenced_scopes(lane, party.scope):
            self._put(place, replace(party, scope=scope), self._snapshot(self.fenced[scope], lane))

    def _put_sequential(self, place: Place, lane: int, party: Party) -> None:
        snapshot = self._snapshot(self._knowledge.views, lane)
        row, which = snapshot[self._sequential].tolist()
        with self._clocks.holding(maps=[which]):
            outside = self._clocks.with_unit(which, party.unit, row)
        with self._clocks.holding(maps=[outside]):
            place.sequential = self._clocks.join_maps(place.sequential, outside)

    def _snapshot(self, views: Views, lane: int) -> Snapshot:
        snapshot = self._knowledge.snapshot()
        self._knowledge.publish(views, np.array([lane]), snapshot)
        return snapshot

    def _fenced_scopes(self, lane: int, scope: Scope) -> list[Scope]:
        """The scopes at which a relaxed write of a scope publishes: what two fences keep alike, the larger one does."""
        if not self.fenced:
            return []
        kept = [self.fenced[level][:, lane] for level in range(scope + 1)]
        differs = [not np.array_equal(one, other) for one, other in pairwise(kept)]
        return [
            Scope(level)
            for level in range(scope + 1)
            if kept[level][0, core.TICK] and (level == scope or differs[level])
        ]

    def _put(self, place: Place, party: Party, snapshot: Snapshot) -> None:
        """Add a head to a place."""
        rows, maps = snapshot[:, 0].tolist(), snapshot[:, 1].tolist()
        with self._clocks.holding(rows, maps):
            outside = self._clocks.with_unit(maps[self._wide], party.unit, rows[self._wide])
            place.any_scope = self._clocks.join_maps(place.any_scope, outside)
            if party.scope < Scope.GPU:
                place.near.append(Head(party, snapshot))
                return
            for plane in self._outward:
                outside = self._clocks.with_unit(maps[plane], party.unit, rows[plane])
                place.outside[plane] = self._clocks.join_maps(int(place.outside[plane]), outside)
            place.blocks[party.block] = Head(party, self._joined(place.blocks.get(party.block), snapshot))

    def _joined(self, head: Head | None, other: Snapshot) -> Snapshot:
        if head is None:
            return other
        one, joined = head.snapshot, head.snapshot.copy()
        for plane in range(len(joined)):
            with self._clocks.holding(joined[:, 0].tolist(), joined[:, 1].tolist()):
                joined[plane, 0] = self._clocks.join(int(one[plane, 0]), int(other[plane, 0]))
            with self._clocks.holding(joined[:, 0].tolist(), joined[:, 1].tolist()):
                joined[plane, 1] = self._clocks.join_maps(int(one[plane, 1]), int(other[plane, 1]))
        return joined

    def _read(self, places: Places, where: tuple[int, int], lane: int, party: Party, acquire: bool) -> None:
        """What a strong read of a place learns, or keeps for a fence."""
        place = places.find(*where)
        reading = (lane, where, party.nbytes, party.scope, acquire)
        if place is not None and self._taken.get(reading) != place.version:
            self._make_room()
            self._take(place, where, lane, party, acquire)
            self._taken[reading] = place.version
        key = (lane, *where, party.nbytes)
        if acquire and key in self._seen:
            for distance, snapshot in self._seen[key]:
                if distance <= party.scope:
                    self._knowledge.learn(self._knowledge.views, np.array([lane]), snapshot, self._exact)
            self._seen[key] = [each for each in self._seen[key] if each[0] > party.scope]

    def _take(self, place: Place, where: tuple[int, int], lane: int, party: Party, acquire: bool) -> None:
        who = np.array([lane])
        targets = [self._knowledge.views] * _DISTANCES if acquire else self._awaited
        self._learn_outside(targets[Scope.CTA], self._wide, who, place.any_scope, party.unit)
        if place.writer is not None and not place.writer.pairs_with(party):
            return
        if place.sequential:
            self._learn_outside(self._knowledge.views, self._seen_plane, who, place.sequential, party.unit)
        seen: list[tuple[Scope, Snapshot]] = []
        for distance, snapshot in self._visible(place, party):
            self._knowledge.learn(targets[distance], who, snapshot, self._inward)
            seen.append((distance, snapshot))
        if party.scope >= Scope.GPU and place.outside.any():
            for plane in self._outward:
                self._learn_outside(targets[Scope.GPU], plane, who, int(place.outside[plane]), party.unit)
            outside = np.stack([np.zeros_like(place.outside), place.outside], axis=1)
            seen.append((Scope.GPU, outside))
        if seen and not acquire:
            self._seen.setdefault((lane, *where, party.nbytes), []).extend(seen)

    def _visible(self, place: Place, party: Party) -> Iterator[tuple[Scope, Snapshot]]:
        """Heads of the reader's own unit, with the distance of who published them."""
        own = range(party.unit * self._blocks_per_unit, (party.unit + 1) * self._blocks_per_unit)
        for head in chain(place.near, (place.blocks[block] for block in own if block in place.blocks)):
            if head.party.reaches(party) and party.reaches(head.party):
                yield head.party.distance(party), head.snapshot

    def _learn_outside(self, views: Views, plane: int, who: Lanes, which: int, unit: int) -> None:
        rest, row = self._clocks.without_unit(which, unit)
        with self._clocks.holding([row], [rest]):
            self._knowledge.learn_row(views, plane, who, row)
            self._knowledge.learn_map(views, plane, who, rest)
