"""The order of one wave: what every access is checked against, and every edge between threads.

All methods take ascending lane vectors of the wave. Lanes of one atomic come in the order in which they take turns.
"""

from collections.abc import Callable, Collection

from tileproof.simulators.ptx.machine.memory import Backing, Lanes, Mask
from tileproof.simulators.ptx.machine.order.before import Before
from tileproof.simulators.ptx.machine.order.kinds import AccessKind, Engine
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.program import Program, Scope, StateSpace, Step


class Order:
    """Clocks of the resident threads and engines, and who touched which memory.

    Args:
        program: the kernel.
        reporter: who is resident, and where findings go.
        window_bytes: bytes of shared memory of all resident blocks, padded as in the window.
    """

    def __init__(self, program: Program, reporter: Reporter, window_bytes: int) -> None:
        self._before = Before(program, reporter, window_bytes)

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
        self._before.access(kind, step, pc, lanes, space, offsets, nbytes, unchanged)

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
    ) -> None:
        """Lanes issue accesses that an engine performs later: checked now, against what each issuer knows.

        Others are ordered after them once they learn the engine's tick.

        Args:
            engine: who performs them. Of CP_ASYNC, BULK_READ, BULK_WRITE the issuing lane's; of WGMMA the one of the
                issuing lane's warpgroup, whose first lane is given and all of whose lanes are asked what they know; of
                BARRIER the component of a barrier.
            ticks: for each access the group, or the barrier's phase.
            step: the instruction.
            pc: its index.
            lanes: who issued each access.
            writes: it changes memory.
            space: where.
            backing: the bytes there.
            offsets: first byte of each access in them.
            nbytes: bytes of each access.
            barriers: of BARRIER, for each access the component that `object_init` gave.
        """

    def learn(self, engine: Engine, lanes: Lanes, bounds: Lanes) -> None:
        """Waits for groups: each lane is now ordered after its own engine's groups below its bound."""

    def block_barrier(self, lanes: Lanes, publish_only: Lanes | None = None) -> None:
        """Completed block barriers: `lanes` publish and learn, `publish_only` (`bar.arrive`) publish.

        Lanes of several blocks may come together: each block's barrier is one. Two barriers of one block are two calls.
        """
        self._before.block_barrier(lanes)

    def warp_barrier(self, lanes: Lanes) -> None:
        """`bar.warp.sync`: the given lanes of each warp are the members of one."""
        self._before.warp_barrier(lanes)

    def cluster_arrive(self, lanes: Lanes, relaxed: bool) -> None:
        """`barrier.cluster.arrive`: the lanes publish to the barrier's present phase."""

    def cluster_complete(self, lanes: Lanes) -> None:
        """The present phase of the barriers of these lanes' clusters is complete: what was published can be learned."""

    def cluster_wait(self, lanes: Lanes, relaxed: bool = False) -> None:
        """`barrier.cluster.wait`: the lanes learn what the last completed phase's arrivals published."""

    def fence(self, lanes: Lanes, acquire: bool, release: bool, scope: Scope, sc: bool = False) -> None:
        """`fence` and `membar`."""
        self._before.fence(lanes)

    def proxy_fence(self, lanes: Lanes, spaces: Collection[StateSpace]) -> None:
        """`fence.proxy.async`: what the lanes know, the async proxy may rely on, in GLOBAL, SHARED or both."""

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
        if release:
            self._before.release(lanes)

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
        if acquire:
            self._before.acquire(lanes)

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
        if release:
            self._before.release(lanes)
        if acquire:
            self._before.acquire(lanes)

    def exit(self, lanes: Lanes) -> None:
        """The lanes end. A block whose last lane ends gives up its shared memory, as if it wrote all of it."""

    def object_init(self, lane: int, barrier_key: int) -> int:
        """`mbarrier.init` at this byte of the wave's shared window: the component of the new object, phases from 0."""
        return 0

    def object_invalidate(self, lane: int, barrier_key: int) -> None:
        """`mbarrier.inval`."""

    def arrive(self, lanes: Lanes, barrier_keys: Lanes | int, release: bool, scope: Scope) -> None:
        """Arrivals on mbarriers, one a lane: what the lanes did goes to the barriers' pending phases."""

    def complete_phase(self, barrier_key: int, phase: int) -> None:
        """A barrier's phase (counted from 0 at its init) is complete: what was published to it can be acquired."""

    def acquire_phase(
        self, lanes: Lanes, barrier_keys: Lanes | int, phases: Lanes | int, acquire: bool, scope: Scope
    ) -> None:
        """Successful waits, one a lane: each learns the completed phase; a phase of -1 (none was complete) nothing."""

    def cp_async_arrive(self, lanes: Lanes, barrier_keys: Lanes | int, bounds: Lanes | int) -> None:
        """A `cp.async.mbarrier.arrive` takes effect: each lane's cp.async groups below its bound go to the barrier.

        `bounds` counts the lane's groups at the instruction, the open one included.
        """
