"""The definition of order that the core is held to: every thread, and everything published, is a set of accesses.

Nothing is compressed: no clocks, no shadow that forgets. Two accesses race if they touch a common byte, one of them
writes, they are not both strong with scopes that include the other, and the earlier one is neither in the set that the
later one's thread knows nor observed, directly or through a chain of atomics, by an atomic in that set. Only a location
at which a race was found is given up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

Known = frozenset[int]
NOTHING: Known = frozenset()
BLOCK, CLUSTER, GPU = 0, 1, 2
#: What a thread's async proxy may rely on in two spaces; what fence.sc stood behind, and what was seen of that.
GIVEN = ("shared", "global", "fenced", "seen")


@dataclass(frozen=True)
class Thread:
    """A thread: numbers of its block and cluster, and of itself."""

    cluster: int
    block: int
    number: int

    def distance(self, other: "Thread") -> int:
        """The smallest scope that includes both."""
        if self.block == other.block:
            return BLOCK
        return CLUSTER if self.cluster == other.cluster else GPU


@dataclass(frozen=True)
class Event:
    """One access. `engine` is None, or what performs it; by_proxy: it goes through the async proxy."""

    number: int
    thread: Thread
    place: int
    nbytes: int
    writes: bool
    strong: bool
    scope: int
    engine: tuple[object, ...] | None = None
    tick: int = 0
    by_proxy: bool = False
    everybody: tuple[Thread, ...] = ()
    atomic: bool = False


@dataclass
class Head:
    """What a strong write published at a place."""

    thread: Thread
    scope: int
    nbytes: int
    known: Known
    proxies: dict[str, Known]


@dataclass
class Place:
    """A release sequence."""

    heads: list[Head] = field(default_factory=list)
    sequential: set[int] = field(default_factory=set)
    writer: tuple[Thread, int, int] | None = None
    own: dict[Thread, Head] = field(default_factory=dict)


@dataclass
class Mind:
    """What a thread knows, may publish by scope, and has seen by distance."""

    known: set[int] = field(default_factory=set)
    proxies: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in GIVEN})
    fenced: dict[int, tuple[Known, dict[str, Known]]] = field(default_factory=dict)
    seen: list[tuple[int, Head]] = field(default_factory=list)
    seen_at: dict[object, list[tuple[int, Head]]] = field(default_factory=dict)


class Model:
    """Threads that access and synchronise."""

    def __init__(self, threads: Iterable[Thread]) -> None:
        self.minds = {thread: Mind() for thread in threads}
        self.events: list[Event] = []
        self.places: dict[object, Place] = {}
        self.given_up: set[tuple[str, int]] = set()
        self.barriers: dict[object, list[tuple[Thread, Known, dict[str, Known]]]] = {}
        self.phases: dict[object, list[tuple[Thread, Known, dict[str, Known]]]] = {}
        self._spaces: dict[int, str] = {}
        #: What an atomic observed, as parts.
        self._observed: dict[int, Known] = {}

    # Accesses.

    def access(self, space: str, event: Event, askers: Iterable[Thread]) -> bool:
        """Record an access; whether it races with an earlier one."""
        races = False
        for place in range(event.place, event.place + event.nbytes):
            if (space, place) in self.given_up:
                continue
            here = [other for other in self._at(space, place) if self._races(space, event, other, askers)]
            if here:
                races = True
                self.given_up.add((space, place))
        self._spaces.setdefault(event.number, space)
        if event.atomic:
            self._observe(space, event)
        self.events.append(event)
        if event.engine is None:
            for thread in event.everybody or (event.thread,):
                self.minds[thread].known.add(self._part(event, thread))
        return races

    def _observe(self, space: str, event: Event) -> None:
        """An atomic reads the last write, and through it what that one read."""
        writes = [other for other in self._at(space, event.place) if other.writes]
        if writes and writes[-1].place == event.place and self._morally_strong(event, writes[-1]):
            part = self._part(writes[-1], writes[-1].thread)
            self._observed[self._part(event, event.thread)] = self._observed.get(part, NOTHING) | {part}

    def _at(self, space: str, place: int) -> list[Event]:
        return [
            event
            for event in self.events
            if self._spaces[event.number] == space and event.place <= place < event.place + event.nbytes
        ]

    @staticmethod
    def _part(event: Event, thread: Thread) -> int:
        """An access of many threads is one of each of them."""
        return event.number * 1024 + (thread.number if event.everybody else 0)

    def _races(self, space: str, event: Event, other: Event, askers: Iterable[Thread]) -> bool:
        if not (event.writes or other.writes) or self._morally_strong(event, other):
            return False
        parts = [self._part(other, thread) for thread in other.everybody or (other.thread,)]
        for asker in askers:
            mind = self.minds[asker]
            known = mind.known
            if event.by_proxy and not other.by_proxy:
                known = mind.proxies[space]
            if event.by_proxy:
                observed = set[int]()
            else:
                observed = set[int]().union(*(self._observed.get(part, NOTHING) for part in known))
            if not all(part in known or part in observed for part in parts):
                return True
        return False

    @staticmethod
    def _morally_strong(event: Event, other: Event) -> bool:
        if not (event.strong and other.strong) or event.by_proxy != other.by_proxy or event.nbytes != other.nbytes:
            return False
        return min(event.scope, other.scope) >= event.thread.distance(other.thread)

    # Edges.

    def engine_done(self, thread: Thread, engine: tuple[object, ...], bound: int) -> None:
        """The thread learns what an engine did below a tick."""
        self.minds[thread].known |= self._of_engine(engine, bound)

    def _of_engine(self, engine: tuple[object, ...], bound: int) -> set[int]:
        return {self._part(e, e.thread) for e in self.events if e.engine == engine and e.tick < bound}

    def meet(self, members: Iterable[Thread], publish_only: Iterable[Thread] = ()) -> None:
        """A barrier of some threads."""
        members = list(members)
        everybody = [*members, *publish_only]
        known = set[int]().union(*(self.minds[thread].known for thread in everybody))
        for space in GIVEN:
            union = set[int]().union(*(self.minds[thread].proxies[space] for thread in everybody))
            for thread in members:
                self.minds[thread].proxies[space] = set(union)
        for thread in members:
            self.minds[thread].known = set(known)

    def fence(self, thread: Thread, acquire: bool, release: bool, scope: int, sequential: bool = False) -> None:
        """First acquire, then release."""
        mind = self.minds[thread]
        sequential = sequential and scope >= GPU
        if acquire:
            for distance, head in mind.seen:
                if distance <= scope:
                    self._learn(thread, head)
            mind.seen = [(distance, head) for distance, head in mind.seen if distance > scope]
        if sequential:
            mind.known |= mind.proxies["seen"]
            mind.proxies["fenced"] = set(mind.known)
        if release:
            for smaller in range(min(scope, GPU) + 1):
                mind.fenced[smaller] = self._snapshot(thread)

    def proxy_fence(self, thread: Thread, spaces: Iterable[str]) -> None:
        """What the thread knows, its async proxy may rely on."""
        for space in spaces:
            self.minds[thread].proxies[space] = set(self.minds[thread].known)

    def _snapshot(self, thread: Thread) -> tuple[Known, dict[str, Known]]:
        mind = self.minds[thread]
        return frozenset(mind.known), {space: frozenset(known) for space, known in mind.proxies.items()}

    def _learn(self, thread: Thread, head: Head) -> None:
        mind = self.minds[thread]
        mind.known |= head.known
        distance = thread.distance(head.thread)
        for space, known in head.proxies.items():
            if distance == BLOCK or (distance == CLUSTER and space == "shared") or space in ("fenced", "seen"):
                mind.proxies[space] |= known

    def read(self, thread: Thread, key: object, nbytes: int, scope: int, acquire: bool) -> None:
        """A strong read."""
        place, mind = self.places.setdefault(key, Place()), self.minds[thread]
        if place.writer is not None and self._pairs(place.writer, (thread, scope, nbytes)):
            mind.proxies["seen"] |= place.sequential
            for head in place.heads:
                distance = thread.distance(head.thread)
                if distance <= min(head.scope, scope):
                    if acquire:
                        self._learn(thread, head)
                    else:
                        mind.seen.append((distance, head))
                        mind.seen_at.setdefault((key, nbytes), []).append((distance, head))
        if acquire:
            for distance, head in mind.seen_at.get((key, nbytes), []):
                if distance <= scope:
                    self._learn(thread, head)

    def write(self, thread: Thread, key: object, nbytes: int, scope: int, release: bool, continues: bool) -> None:
        """A strong write."""
        place, mind = self.places.setdefault(key, Place()), self.minds[thread]
        linked = place.writer is not None and self._pairs(place.writer, (thread, scope, nbytes))
        if not (continues and linked):
            place.heads, place.sequential = [], set()
        place.sequential |= mind.proxies["fenced"]
        place.writer = (thread, scope, nbytes)
        if thread in place.own and place.own[thread].nbytes == nbytes:
            place.heads.append(place.own[thread])
        if release:
            place.heads.append(Head(thread, scope, nbytes, *self._snapshot(thread)))
            place.own[thread] = place.heads[-1]
            return
        for smaller, published in mind.fenced.items():
            if smaller <= scope:
                place.heads.append(Head(thread, smaller, nbytes, *published))

    @staticmethod
    def _pairs(one: tuple[Thread, int, int], other: tuple[Thread, int, int]) -> bool:
        return one[0].distance(other[0]) <= min(one[1], other[1]) and one[2] == other[2]

    def weak_write(self, key: object) -> None:
        """It ends the sequence of its place."""
        if key in self.places:
            self.places[key] = Place(own=self.places[key].own)

    def arrive(self, thread: Thread, barrier: object, release: bool, scope: int) -> None:
        """Publish to a barrier's pending phase."""
        published = self._snapshot(thread) if release else self.minds[thread].fenced.get(min(scope, GPU))
        if published is not None:
            self.barriers.setdefault(barrier, []).append((thread, *published))

    def complete(self, barrier: object) -> None:
        """The pending phase is complete."""
        self.phases[barrier] = self.barriers.pop(barrier, [])

    def acquire_phase(self, thread: Thread, barrier: object) -> None:
        """A wait is over."""
        for who, known, proxies in self.phases.get(barrier, []):
            self._learn(thread, Head(who, GPU, 0, known, proxies))
