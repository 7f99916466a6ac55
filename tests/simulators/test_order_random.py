"""The order core against its definition: random traces of accesses and synchronisation, as sets and as clocks."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from order_model import Event, Model, Thread

from tileproof.simulators.ptx.findings import Counters, Findings, Where
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Backing, GlobalMemory
from tileproof.simulators.ptx.machine.order.kinds import AccessKind, Engine
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.order.order import Order
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.program import Access, FenceForm, FenceKind, Kind, Program, Scope, StateSpace, Step

STEPS = 6
LANES_PER_BLOCK = 64
#: Threads that take part: two warps of two lanes.
LOCAL = (0, 1, 32, 33)
WINDOW_BYTES = 64
SCOPES = (Scope.CTA, Scope.CLUSTER, Scope.GPU)


class Kernel:
    """As much of a program as the core asks for."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps


def program(asynchronous: bool = True) -> Program:
    """Steps of no kernel: their lines tell accesses apart, and the others tell the core what it must expect."""
    loads = [Step(Kind.LOAD, f"ld.{line}", Where(line + 1)) for line in range(STEPS)]
    others = [Step(Kind.FENCE, "fence", Where(100), fence=FenceForm(FenceKind.THREADS, sequential=True))]
    narrow = SimpleNamespace(strong=True, scope=Scope.CTA, acquires=False, releases=False)
    others.append(Step(Kind.LOAD, "ld.relaxed.cta", Where(103), access=cast(Access, narrow)))
    if asynchronous:
        others.append(Step(Kind.FENCE, "fence.proxy.async", Where(101), fence=FenceForm(FenceKind.ASYNC_PROXY)))
        others.append(Step(Kind.COPY, "cp.async", Where(102)))
    return cast(Program, Kernel((*loads, *others)))


@dataclass
class Machine:
    """One trace: the core and the model side by side."""

    draw: random.Random
    clusters: int
    blocks_per_cluster: int
    asynchronous: bool = True

    def __post_init__(self) -> None:
        blocks = self.clusters * self.blocks_per_cluster
        grid = (blocks, 1, 1)
        cluster = (self.blocks_per_cluster, 1, 1)
        self.geometry = Geometry(grid, (LANES_PER_BLOCK, 1, 1), np.arange(blocks), 0, WINDOW_BYTES, 0, cluster)
        self.findings = Findings()
        memory = GlobalMemory(1 << 20)
        self.launch = LaunchOrder(memory)
        self.program = program(self.asynchronous)
        self.order = Order(self.program, Reporter(self.geometry, self.findings), self.launch, WINDOW_BYTES)
        self.memories = {"shared": Backing(WINDOW_BYTES * blocks, defined=True), "global": Backing(64, defined=True)}
        self.lanes = [block * LANES_PER_BLOCK + local for block in range(blocks) for local in LOCAL]
        self.threads = {lane: self.thread(lane) for lane in range(blocks * LANES_PER_BLOCK)}
        self.model = Model(self.threads.values())
        self.number = 0
        self.groups = dict.fromkeys(self.lanes, 0)
        self.phases: dict[int, int] = {}
        self.components: dict[int, int] = {}
        self.arrived: set[int] = set()
        self.completed = False
        self.may_wait: set[int] = set()
        self.trace: list[str] = []

    def thread(self, lane: int) -> Thread:
        block = lane // LANES_PER_BLOCK
        return Thread(block // self.blocks_per_cluster, block, lane)

    def pick(self) -> int:
        return self.draw.choice(self.lanes)

    def place(self, lane: int, nbytes: int) -> tuple[str, int]:
        """A space and a byte offset; of shared memory mostly in the lane's own block."""
        if self.draw.random() < 0.5:
            return "global", self.draw.randrange(0, 32, nbytes)
        block = lane // LANES_PER_BLOCK
        if self.draw.random() < 0.3:
            block = block // self.blocks_per_cluster * self.blocks_per_cluster
        return "shared", block * WINDOW_BYTES + self.draw.randrange(0, 32, nbytes)

    def check(self, expected: bool, before: int, space: str, place: int, nbytes: int) -> None:
        found = self.count() > before
        if not found and not expected:
            return
        assert found == expected, (self.trace, space, place, nbytes)

    def count(self) -> int:
        return sum(finding.count for finding in self.findings.report(Counters(), "", 0).findings)

    def access(self) -> None:
        lane, nbytes = self.pick(), self.draw.choice([4, 4, 8])
        space, place = self.place(lane, nbytes)
        if any((space, byte) in self.model.given_up for byte in range(place, place + nbytes)):
            return
        strong = self.draw.random() < 0.35
        writes, atomic = self.draw.random() < 0.5, self.draw.random() < 0.5
        atomic = atomic and writes and strong
        kind = AccessKind(writes, strong, self.draw.choice(SCOPES), atomic, element_bytes=nbytes)
        by_warp = not strong and nbytes == 8 and space == "shared" and self.draw.random() < 0.4
        pc = self.draw.randrange(STEPS)
        self.trace.append(f"{lane} {'by warp' if by_warp else ''} {kind} {space} {place} {nbytes} pc {pc}")
        first = lane // 32 * 32
        askers = [self.threads[first + k] for k in range(32)] if by_warp else [self.threads[lane]]
        if by_warp:
            kind, lane = AccessKind(kind.writes, by_warp=True), first
        event = Event(
            self.next(), self.threads[lane], place, nbytes, kind.writes, strong, kind.scope,
            everybody=tuple(askers) if by_warp else (), atomic=atomic,
        )  # fmt: skip
        before = self.count()
        lanes, offsets = np.array([lane]), np.array([place])
        where = StateSpace.GLOBAL if space == "global" else StateSpace.SHARED
        backing = self.memories[space]
        self.order.access(kind, self.program.steps[pc], pc, lanes, where, backing, offsets, nbytes)
        self.check(self.model.access(space, event, askers), before, space, place, nbytes)
        if not strong and kind.writes:
            for byte in range(place, place + nbytes):
                self.model.weak_write((space, byte))
            return
        if not strong:
            return
        key = (space, place)
        flavour = self.draw.random() < 0.4
        self.trace[-1] += f" flavour {flavour}"
        thread, scope = self.threads[lane], kind.scope
        if not kind.writes:
            self.order.strong_load(lanes, where, backing, offsets, nbytes, scope, flavour)
            self.model.read(thread, key, nbytes, scope, flavour)
        elif not atomic:
            self.trace[-1] += " store"
            self.order.strong_store(lanes, where, backing, offsets, nbytes, scope, flavour)
            self.model.write(thread, key, nbytes, scope, flavour, False)
        else:
            acquire, reads = self.draw.random() < 0.4, self.draw.random() < 0.7
            self.trace[-1] += f" update {acquire} {reads}"
            self.order.strong_update(lanes, where, backing, offsets, nbytes, scope, acquire and reads, flavour, reads)
            if reads:
                self.model.read(thread, key, nbytes, scope, acquire)
            self.model.write(thread, key, nbytes, scope, flavour, True)

    def next(self) -> int:
        self.number += 1
        return self.number

    def barrier(self) -> None:
        block = self.pick() // LANES_PER_BLOCK
        mine = list(range(block * LANES_PER_BLOCK, (block + 1) * LANES_PER_BLOCK))
        if self.draw.random() < 0.4:
            mine = sorted(self.draw.sample([block * LANES_PER_BLOCK + local for local in LOCAL], 3))
        only = [mine.pop()] if self.draw.random() < 0.3 else []
        self.trace.append(f"barrier {mine} {only}")
        key = np.array([16 * block + 3])
        self.order.block_arrive(np.array(only, np.int64), np.repeat(key, len(only)))
        self.order.block_barrier(np.array(mine), key)
        self.model.meet([self.threads[lane] for lane in mine], [self.threads[lane] for lane in only])

    def warp_barrier(self) -> None:
        first = self.pick() // 32 * 32
        lanes = [first, first + 1] if self.draw.random() < 0.5 else list(range(first, first + 32))
        self.trace.append(f"warp barrier {lanes}")
        self.order.warp_barrier(np.array(lanes))
        self.model.meet([self.threads[lane] for lane in lanes])

    def fence(self) -> None:
        lane, scope, which = self.pick(), self.draw.choice(SCOPES), self.draw.choice([1, 2, 3, 3, 3])
        sequential = which == 3 and self.draw.random() < 0.5
        self.trace.append(f"fence {lane} {scope!r} {which} {sequential}")
        self.order.fence(np.array([lane]), bool(which & 1), bool(which & 2), scope, sequential)
        self.model.fence(self.threads[lane], bool(which & 1), bool(which & 2), scope, sequential)

    def copy(self) -> None:
        """A small copy's write, in the generic proxy, or a bulk copy's read or write."""
        lane = self.pick()
        engine = self.draw.choice([Engine.CP_ASYNC, Engine.BULK_READ, Engine.BULK_WRITE])
        space, place = self.place(lane, 8)
        if any((space, byte) in self.model.given_up for byte in range(place, place + 8)):
            return
        writes = engine is not Engine.BULK_READ
        group, pc = self.groups[lane], self.draw.randrange(STEPS)
        self.groups[lane] += self.draw.random() < 0.5
        self.trace.append(f"copy {lane} {engine!r} group {group} {space} {place}")
        event = Event(
            self.next(), self.threads[lane], place, 8, writes, False, 0, (engine, lane), group,
            engine is not Engine.CP_ASYNC,
        )  # fmt: skip
        before = self.count()
        where = StateSpace.GLOBAL if space == "global" else StateSpace.SHARED
        self.order.async_access(
            engine, np.array([group]), self.program.steps[pc], pc, np.array([lane]), writes, where,
            self.memories[space], np.array([place]), 8,
        )  # fmt: skip
        self.check(self.model.access(space, event, [self.threads[lane]]), before, space, place, 8)

    def wait(self) -> None:
        lane, engine = self.pick(), self.draw.choice([Engine.CP_ASYNC, Engine.BULK_READ, Engine.BULK_WRITE])
        bound = self.draw.randrange(self.groups[lane] + 1)
        self.trace.append(f"wait {lane} {engine!r} {bound}")
        self.order.learn(engine, np.array([lane]), np.array([bound]))
        self.model.engine_done(self.threads[lane], (engine, lane), bound)

    def proxy_fence(self) -> None:
        lane, spaces = self.pick(), self.draw.choice([("shared",), ("global",), ("shared", "global")])
        self.trace.append(f"proxy fence {lane} {spaces}")
        names = {"shared": StateSpace.SHARED, "global": StateSpace.GLOBAL}
        self.order.proxy_fence(np.array([lane]), [names[space] for space in spaces])
        self.model.proxy_fence(self.threads[lane], spaces)

    def object(self, lane: int) -> int:
        """The mbarrier of the lane's block."""
        key = lane // LANES_PER_BLOCK * WINDOW_BYTES + 48
        if key not in self.components:
            self.components[key] = self.order.object_init(lane, key)
            self.phases[key] = 0
        return key

    def arrive(self) -> None:
        lane = self.pick()
        key, scope, release = self.object(lane), self.draw.choice(SCOPES[:2]), self.draw.random() < 0.7
        self.trace.append(f"arrive {lane} {key} {scope!r} {release}")
        self.order.arrive(np.array([lane]), key, release, scope)
        self.model.arrive(self.threads[lane], key, release, scope)

    def signalled_copy(self) -> None:
        """A bulk copy that an mbarrier of the block signals."""
        lane = self.pick()
        key, block = self.object(lane), lane // LANES_PER_BLOCK
        place, pc = block * WINDOW_BYTES + self.draw.randrange(0, 32, 8), self.draw.randrange(STEPS)
        if any(("shared", byte) in self.model.given_up for byte in range(place, place + 8)):
            return
        self.trace.append(f"signalled copy {lane} {key} {self.phases[key]} {place}")
        event = Event(
            self.next(), self.threads[lane], place, 8, True, False, 0, ("barrier", key), self.phases[key], True
        )
        before = self.count()
        self.order.async_access(
            Engine.BARRIER, np.array([self.phases[key]]), self.program.steps[pc], pc, np.array([lane]), True,
            StateSpace.SHARED, self.memories["shared"], np.array([place]), 8, np.array([self.components[key]]),
        )  # fmt: skip
        self.check(self.model.access("shared", event, [self.threads[lane]]), before, "shared", place, 8)

    def complete(self) -> None:
        key = self.object(self.pick())
        self.trace.append(f"complete {key} {self.phases[key]}")
        self.order.complete_phase(key, self.phases[key])
        self.model.complete(key)
        self.phases[key] += 1

    def acquire(self) -> None:
        lane = self.pick()
        key = self.object(lane)
        phase = self.phases[key] - 1
        self.trace.append(f"acquire {lane} {key} {phase}")
        self.order.acquire_phase(np.array([lane]), key, phase, True, Scope.CTA)
        if phase >= 0:
            self.model.acquire_phase(self.threads[lane], key)
            self.model.engine_done(self.threads[lane], ("barrier", key), phase + 1)

    def cluster_barrier(self) -> None:
        """All threads of a cluster."""
        cluster = self.thread(self.pick()).cluster
        per = LANES_PER_BLOCK * self.blocks_per_cluster
        lanes = np.arange(cluster * per, (cluster + 1) * per)
        relaxed = self.draw.random() < 0.3
        self.trace.append(f"cluster barrier {cluster} {relaxed}")
        self.order.cluster_arrive(lanes, relaxed)
        self.order.cluster_complete(lanes)
        self.order.cluster_wait(lanes)
        for lane in lanes.tolist():
            self.model.arrive(self.threads[lane], ("cluster", cluster), not relaxed, Scope.CLUSTER)
        self.model.complete(("cluster", cluster))
        for lane in lanes.tolist():
            self.model.acquire_phase(self.threads[lane], ("cluster", cluster))


Operation = Callable[[Machine], None]
THREADS: tuple[Operation, ...] = (
    *(Machine.access,) * 8, Machine.barrier, Machine.warp_barrier, Machine.fence, Machine.fence,
)  # fmt: skip
ASYNCHRONOUS: tuple[Operation, ...] = (
    *THREADS, *(Machine.copy,) * 3, Machine.wait, Machine.wait, Machine.proxy_fence, Machine.proxy_fence,
    Machine.arrive, Machine.arrive, Machine.complete, Machine.acquire, Machine.acquire, Machine.signalled_copy,
)  # fmt: skip


def run(seed: int, clusters: int, blocks_per_cluster: int, operations: tuple[Operation, ...], length: int) -> Machine:
    machine = Machine(random.Random(seed), clusters, blocks_per_cluster, operations is not THREADS)
    for _ in range(length):
        machine.draw.choice(operations)(machine)
    return machine


@pytest.mark.parametrize("part", range(4))
def test_threads_race_exactly_where_the_definition_says(part: int) -> None:
    found = 0
    for seed in range(part * 40, (part + 1) * 40):
        found += run(seed, 1 + seed % 2, 1, THREADS, 60).count()
    assert found > 30, "and there are races among the traces"


@pytest.mark.parametrize("part", range(4))
def test_engines_and_barriers_race_exactly_where_the_definition_says(part: int) -> None:
    found = 0
    for seed in range(part * 40, (part + 1) * 40):
        found += run(seed, 1 + seed % 2, 1, ASYNCHRONOUS, 80).count()
    assert found > 30


CLUSTERS: tuple[Operation, ...] = (*ASYNCHRONOUS, Machine.cluster_barrier, Machine.cluster_barrier)


@pytest.mark.parametrize("part", range(2))
def test_clusters_race_exactly_where_the_definition_says(part: int) -> None:
    found = 0
    for seed in range(part * 8, (part + 1) * 8):
        found += run(seed, 1 + seed % 2, 2, CLUSTERS, 80).count()
    assert found > 5
