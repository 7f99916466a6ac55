"""The order of one wave: what every access is checked against, and every edge between threads.

All methods take ascending lane vectors of the wave. Lanes of one atomic come in the order in which they take turns.
"""

from collections.abc import Callable, Collection
from functools import lru_cache

import numpy as np

from tileproof.simulators.ptx.machine.memory import Backing, Lanes, Mask
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.checks import Checks
from tileproof.simulators.ptx.machine.order.kinds import AccessKind, Engine
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge, Plane, Views
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.order.objects import Objects
from tileproof.simulators.ptx.machine.order.patterns import Patterns, Places
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.program import ASYNCHRONOUS_KINDS, FenceKind, Kind, Program, Scope, StateSpace, Step


class Order:
    """Clocks of the resident threads and engines, and who touched which memory.

    Attributes:
        enabled: accesses are checked.
        synchronises: the program has fences, releases or acquires: strong accesses may publish and learn.
        knowledge: of the lanes.
        checks: of accesses.

    Args:
        program: the kernel.
        reporter: who is resident, and where findings go.
        launch: what outlives the wave.
        window_bytes: bytes of shared memory of one block, padded as in the window.
    """

    def __init__(self, program: Program, reporter: Reporter, launch: LaunchOrder, window_bytes: int) -> None:
        self.enabled = launch.enabled
        if not self.enabled:
            return  # a wave whose order nobody checks must cost little
        geometry = reporter.geometry
        first_unit = launch.units
        clocks = launch.begin_wave(geometry)
        shape = np.zeros(core.SHAPES, np.int64)
        shape[core.LANES_PER_UNIT], shape[core.UNIT_BASE] = geometry.lanes_per_cluster, first_unit
        shape[core.LANES_PER_BLOCK] = geometry.lanes_per_block
        shape[core.WARPS_PER_UNIT] = geometry.lanes_per_cluster // 32
        shape[core.NARROW] = any(_is_narrow(step) for step in program.steps)
        clustered = geometry.blocks_per_cluster > 1
        self.synchronises, proxies, sequential = _uses(program)
        planes = [Plane.ALL]
        planes += [Plane.READS] if clustered else []
        planes += [Plane.ANY_SCOPE] if clustered or self.synchronises else []
        planes += [Plane.ASYNC_SHARED, Plane.ASYNC_GLOBAL] if proxies else []
        planes += [Plane.FENCED, Plane.SEEN] if sequential else []
        self.knowledge = launch.knowledge = Knowledge(clocks, planes, shape, geometry.lanes, launch.knowledge)
        self.patterns = Patterns(self.knowledge, first_unit, geometry.blocks_per_cluster)
        self.objects = Objects(self.knowledge, max(window_bytes, 1))
        by_threads = not clustered and not _has_engines(program)
        self.checks = Checks(
            program, reporter, launch, self.knowledge, by_threads=by_threads, units_meet=self.synchronises
        )
        self.knowledge.before_change = self.checks.unfold
        self._places = {True: launch.places, False: Places()}
        clocks.holders.append(self._places[False].hold)
        self._left = np.full(geometry.resident.size, geometry.threads)
        self._window_bytes = window_bytes
        self._alone = not clustered
        self._threads = geometry.threads * geometry.resident.size

    def access(
        self,
        kind: AccessKind,
        step: Step,
        pc: int,
        lanes: Lanes,
        space: StateSpace,
        backing: Backing,
        offsets: Lanes,
        nbytes: int,
        unchanged: Callable[[], Mask] | None = None,
    ) -> None:
        """Lanes access memory themselves, through the generic proxy: record it, and report what it races with.

        Args:
            kind: how they touch it.
            step: the instruction.
            pc: its index.
            lanes: who.
            space: where.
            backing: the bytes there.
            offsets: each lane's first byte in them.
            nbytes: bytes of each lane; offsets are multiples of it.
            unchanged: for a store, whether memory already holds what each lane stores: such a race is a note.
        """
        if not self.enabled or not lanes.size:
            return
        places = self._places_in(space)
        if kind.strong and places:
            self.checks.forget_ended(places, space, backing, offsets)
        self.checks.access(kind, step, pc, lanes, space, backing, offsets, nbytes, unchanged)

    def async_access(
        self,
        engine: Engine,
        ticks: Lanes,
        step: Step,
        pc: int,
        lanes: Lanes,
        writes: bool,
        space: StateSpace,
        backing: Backing,
        offsets: Lanes,
        nbytes: int,
        barriers: Lanes | None = None,
        *,
        generic: bool = False,
        reduces: bool = False,
    ) -> bool:
        """Lanes issue accesses that an engine performs later: checked now, against what each issuer knows.

        Others are ordered after them once they learn the engine's tick.

        Args:
            engine: who performs them. Of CP_ASYNC, BULK_READ, BULK_WRITE the issuing lane's; of WGMMA the one of the
                issuing lane's warpgroup, whose first lane is given and all of whose lanes are asked what they know; of
                BARRIER the component of a barrier.
            ticks: for each access the group, or the barrier's phase; -1 for its init.
            step: the instruction.
            pc: its index.
            lanes: who issued each access.
            writes: it changes memory.
            space: where.
            backing: the bytes there.
            offsets: first byte of each access in them.
            nbytes: bytes of each access.
            barriers: of BARRIER, for each access the component that `object_init` gave.
            generic: it goes through the generic proxy, as `cp.async` does by itself.
            reduces: it updates elements atomically: it does not race with others of its kind.

        Returns:
            whether it races with an earlier access.
        """
        if not self.enabled or not lanes.size:
            return False
        knowledge = self.knowledge
        flags = engine.flags | core.WRITES * writes
        if not generic and engine is not Engine.CP_ASYNC:
            flags |= core.ASYNC_PROXY
        if reduces:
            flags |= core.REDUCES | core.STRONG | Scope.GPU << core.SCOPE_SHIFT
        if engine is Engine.BARRIER:
            assert barriers is not None
            components = barriers.astype(np.int64)
        elif engine is Engine.WGMMA:
            local = lanes % knowledge.shape[core.LANES_PER_UNIT]
            per_block = int(knowledge.shape[core.LANES_PER_BLOCK])
            groups = local // per_block * -(-per_block // 128) + local % per_block // 128
            components = knowledge.first_component(engine) + groups
        else:
            first = knowledge.first_component(engine)
            components = first + (lanes % knowledge.shape[core.LANES_PER_UNIT] & ~31)
        at = np.broadcast_to(np.asarray(ticks, np.int64), lanes.shape) + (engine is Engine.BARRIER)
        at = np.ascontiguousarray(at)
        return self.checks.issue(step, pc, flags, lanes, space, backing, offsets, nbytes, components, at)

    def learn(self, engine: Engine, lanes: Lanes, bounds: Lanes) -> None:
        """Waits for groups: each lane is now ordered after its own engine's groups below its bound."""
        if not self.enabled:
            return
        self.knowledge.first_component(engine)
        column = core.OWN_ENGINES + engine
        for plane in self.knowledge.own_planes:
            views = self.knowledge.views
            views[plane, lanes, column] = np.maximum(views[plane, lanes, column], bounds)

    def block_arrive(self, lanes: Lanes, keys: Lanes) -> None:
        """`bar.arrive`: the lanes publish to a barrier (its number and 16 times the block) and do not wait for it."""
        if self.enabled and lanes.size:
            self.objects.block_arrive(lanes, keys)
            self.knowledge.tick(lanes)

    def block_barrier(self, lanes: Lanes, keys: Lanes | None = None) -> None:
        """Completed block barriers: the lanes that waited publish and learn, also what `block_arrive` published.

        Lanes of several blocks may come together: each block's barrier is one. Two barriers of one block are two calls.

        Args:
            lanes: those that waited.
            keys: the barriers, where somebody may have arrived without waiting.
        """
        if not self.enabled:
            return
        if lanes.size:
            if lanes.size < self._threads or not self.checks.forget_shared():
                self.knowledge.before_change()
            self.knowledge.meet(lanes, int(self.knowledge.shape[core.LANES_PER_BLOCK]))
        if keys is not None:
            self.objects.block_complete(lanes, self.knowledge.blocks(lanes), keys)

    def epochs(self, lanes: Lanes) -> Lanes:
        """When it is for each lane: what it does now is known to those who `know` of this epoch."""
        epochs: Lanes = self.knowledge.ticks[lanes >> WARP_SHIFT].astype(np.int64)
        return epochs

    def know(self, lanes: Lanes, others: Lanes, epochs: Lanes, *, reads: bool = False) -> Mask:
        """Whether each lane knows of each other lane's epoch, [lanes, others]; see `knows`."""
        return self.knows(lanes[:, np.newaxis], others, epochs, reads=reads)

    def knows(self, lanes: Lanes, others: Lanes, epochs: Lanes, *, reads: bool = False) -> Mask:
        """Whether each lane knows of one other lane's epoch, all of one unit; order is on. The arguments broadcast.

        With `reads` as far as reads go: arrivals on a peer's barrier whose scope does not reach it count too.
        """
        plane = self.knowledge.number[Plane.READS] if reads else 0
        return self._known(self.knowledge.views[plane, lanes, core.ROW], lanes, others, epochs)

    def knows_any(self, lanes: Lanes, others: Lanes, epochs: Lanes) -> Mask:
        """Whether each lane knows of one other lane's epoch, whatever its unit; order is on."""
        per_unit = self.knowledge.shape[core.LANES_PER_UNIT]
        rows = self.knowledge.views[0, lanes, core.ROW]
        away = lanes // per_unit != others // per_unit
        if away.any():
            rows = np.where(away, self._foreign_rows(lanes, others // per_unit), rows)
        return self._known(rows, lanes, others, epochs)

    def _known(self, rows: Lanes, lanes: Lanes, others: Lanes, epochs: Lanes) -> Mask:
        components = others % self.knowledge.shape[core.LANES_PER_UNIT]
        known: Mask = self.knowledge.clocks.rows[rows, components] > epochs
        known |= lanes == others
        return known

    def _foreign_rows(self, lanes: Lanes, units: Lanes) -> Lanes:
        """What each lane knows of one other unit."""
        clocks, maps = self.knowledge.clocks, self.knowledge.views[0, lanes, core.FOREIGN]
        rows, numbers = np.zeros(lanes.size, np.int64), units + self.knowledge.shape[core.UNIT_BASE]
        for which in np.unique(maps):
            entries, here = clocks.maps[slice(*clocks.spans[which])], maps == which
            if len(entries):
                at = np.minimum(np.searchsorted(entries[:, 0], numbers[here]), len(entries) - 1)
                rows[here] = np.where(entries[at, 0] == numbers[here], entries[at, 1], 0)
        return rows

    def warp_barrier(self, lanes: Lanes) -> None:
        """`bar.warp.sync`: the given lanes of each warp are the members of one."""
        if self.enabled and lanes.size:
            self.knowledge.before_change()
            self.knowledge.meet(lanes, WARP)

    def cluster_arrive(self, lanes: Lanes, relaxed: bool) -> None:
        """`barrier.cluster.arrive`: the lanes publish to the barrier's present phase."""
        if self.enabled and lanes.size:
            self.objects.cluster_arrive(lanes, self._published(Scope.CLUSTER, not relaxed))
            self.knowledge.tick(lanes)

    def cluster_complete(self, lanes: Lanes) -> None:
        """The present phase of a cluster barrier is complete, for the blocks of these lanes: it can be learned."""
        if self.enabled and lanes.size:
            self.objects.cluster_complete(lanes)

    def cluster_wait(self, lanes: Lanes, relaxed: bool = False) -> None:
        """`barrier.cluster.wait`: the lanes learn what the last completed phase's arrivals published."""
        if self.enabled and lanes.size:
            self.objects.cluster_wait(lanes)

    def fence(self, lanes: Lanes, acquire: bool, release: bool, scope: Scope, sc: bool = False) -> None:
        """`fence` and `membar`. That one `.sc` fence ran before another orders nothing: it is one schedule's order."""
        if self.enabled:
            self.patterns.fence(lanes, acquire, release, scope, sc)

    def init_fence(self, lanes: Lanes) -> None:
        """`fence.mbarrier_init`: the inits that the lanes made are published by relaxed cluster arrivals too."""
        if self.enabled:
            self.objects.put_inits(lanes, self.patterns.kept(Scope.CLUSTER))

    def proxy_fence(self, lanes: Lanes, spaces: Collection[StateSpace]) -> None:
        """`fence.proxy.async`: what the lanes know, the async proxy may rely on, in GLOBAL, SHARED or both."""
        if not self.enabled:
            return
        knowledge = self.knowledge
        present = knowledge.views[knowledge.number[Plane.ALL], lanes].copy()
        present[:, core.TICK] = knowledge.ticks[lanes >> 5] + 1
        for space, plane in ((StateSpace.SHARED, Plane.ASYNC_SHARED), (StateSpace.GLOBAL, Plane.ASYNC_GLOBAL)):
            if space in spaces:
                knowledge.views[knowledge.number[plane], lanes] = present
        knowledge.forget_minds()
        knowledge.tick(lanes)

    def strong_store(
        self,
        lanes: Lanes,
        space: StateSpace,
        backing: Backing,
        offsets: Lanes,
        nbytes: int,
        scope: Scope,
        release: bool,
    ) -> None:
        """Strong stores, in the order of their turns: what readers of the place may acquire."""
        if self.enabled and self.synchronises:
            self.patterns.store(self._places_in(space), lanes, id(backing), offsets, nbytes, scope, release)

    def strong_load(
        self,
        lanes: Lanes,
        space: StateSpace,
        backing: Backing,
        offsets: Lanes,
        nbytes: int,
        scope: Scope,
        acquire: bool,
    ) -> None:
        """Strong loads."""
        if self.enabled and self.synchronises:
            self.patterns.load(self._places_in(space), lanes, id(backing), offsets, nbytes, scope, acquire)

    def strong_update(
        self,
        lanes: Lanes,
        space: StateSpace,
        backing: Backing,
        offsets: Lanes,
        nbytes: int,
        scope: Scope,
        acquire: bool,
        release: bool,
        reads: bool,
        writes: Mask | None = None,
    ) -> None:
        """Atomics, in the order of their turns.

        Args:
            lanes: who.
            space: where.
            backing: the bytes there.
            offsets: each lane's place.
            nbytes: its size.
            scope: of the atomic.
            acquire: `.acquire` or `.acq_rel`.
            release: `.release` or `.acq_rel`.
            reads: `atom`; a `red` never acquires.
            writes: where not all do: a compare-and-swap that fails only reads.
        """
        if self.enabled and self.synchronises:
            self.patterns.update(
                self._places_in(space), lanes, id(backing), offsets, nbytes, scope, acquire, release, reads, writes
            )

    def exit(self, lanes: Lanes) -> None:
        """The lanes end. A block whose last lane ends gives up its shared memory, as if it wrote all of it.

        Accesses of peers after the end are found where their addresses are looked up.
        """
        if not self.enabled:
            return
        self.checks.tell_what_is_left_out()
        if self._alone:
            return
        blocks = self.knowledge.blocks(lanes)
        np.subtract.at(self._left, blocks, 1)
        for block in np.unique(blocks).tolist():
            known = self.objects.end(block, lanes[blocks == block], self._left[block] == 0)
            if known is not None:
                self.checks.end(block, known, self._window_bytes)

    def object_init(self, lane: int, barrier_key: int) -> int:
        """`mbarrier.init` at this byte of the wave's shared window: the component of the new object, phases from 0."""
        return self.objects.init(lane, barrier_key) if self.enabled else 0

    def arrive(self, lanes: Lanes, barrier_keys: Lanes | int, release: bool, scope: Scope) -> None:
        """Arrivals on mbarriers, one a lane: what the lanes did goes to the barriers' pending phases."""
        if self.enabled and lanes.size:
            keys = np.broadcast_to(np.asarray(barrier_keys, np.int64), lanes.shape)
            self.objects.arrive(lanes, keys, self._published(scope, release), scope)
            self.knowledge.tick(lanes)

    def complete_phase(self, barrier_key: int, phase: int) -> None:
        """A barrier's phase (counted from 0 at its init) is complete: what was published to it can be acquired."""
        if self.enabled:
            self.objects.complete(barrier_key, phase)

    def acquire_phase(
        self, lanes: Lanes, barrier_keys: Lanes | int, phases: Lanes | int, acquire: bool, scope: Scope
    ) -> None:
        """Successful waits, one a lane: each learns the completed phase; a phase of -1 (none was complete) nothing."""
        if self.enabled and lanes.size:
            keys, of = (np.broadcast_to(np.asarray(each, np.int64), lanes.shape) for each in (barrier_keys, phases))
            self.objects.acquire(lanes, keys, of, self.knowledge.views if acquire else self.patterns.awaited(), scope)

    def cp_async_arrive(self, lanes: Lanes, barrier_keys: Lanes | int, bounds: Lanes | int) -> None:
        """A `cp.async.mbarrier.arrive` takes effect: each lane's cp.async groups below its bound go to the barrier.

        `bounds` counts the lane's groups at the instruction, the open one included.
        """
        if self.enabled and lanes.size:
            keys, below = (np.broadcast_to(np.asarray(each, np.int64), lanes.shape) for each in (barrier_keys, bounds))
            self.objects.copies_land(lanes, keys, below)

    def _places_in(self, space: StateSpace) -> Places:
        return self._places[space is StateSpace.GLOBAL]

    def _published(self, scope: Scope, release: bool) -> Views | None:
        """What an arrival publishes: all that is known, or what was fenced; None for nothing."""
        if release:
            return self.knowledge.views
        return self.patterns.fenced[min(scope, Scope.GPU)] if self.patterns.fenced else None


@lru_cache(maxsize=64)
def _uses(program: Program) -> tuple[bool, bool, bool]:
    """Whether a program orders by memory, has fences towards the async proxy, has sequential fences."""
    fences = [step.fence for step in program.steps if step.fence is not None]
    proxies = any(fence.kind is FenceKind.ASYNC_PROXY for fence in fences)
    return any(_orders_by_memory(step) for step in program.steps), proxies, any(fence.sequential for fence in fences)


def _has_engines(program: Program) -> bool:
    """Whether anybody else than threads accesses memory."""
    return any(step.kind in ASYNCHRONOUS_KINDS or step.kind is Kind.WGMMA for step in program.steps)


def _is_narrow(step: Step) -> bool:
    """Whether a strong access reaches less than the GPU."""
    return step.access is not None and step.access.strong and step.access.scope < Scope.GPU


def _orders_by_memory(step: Step) -> bool:
    fences = step.fence is not None and step.fence.kind in (FenceKind.THREADS, FenceKind.MBARRIER_INIT)
    return fences or (step.access is not None and (step.access.acquires or step.access.releases))
