"""Every access against earlier ones, in the shadow of the memory that it touches."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.machine.memory import Backing, Lanes, Mask
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order import compiled_warps
from tileproof.simulators.ptx.machine.order.explanation import Conflict, Explanation
from tileproof.simulators.ptx.machine.order.kinds import AccessKind, Engine
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge, Plane, Snapshot
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.order.patterns import Places
from tileproof.simulators.ptx.machine.order.remembered import Memory
from tileproof.simulators.ptx.machine.order.shadow import Shadow
from tileproof.simulators.ptx.machine.order.touched import Touched
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.program import Program, Scope, StateSpace, Step

_THREADS: Lanes = np.zeros(0, np.int64)
_ALL_LANES = 0xFFFF_FFFF
_FIRST_FOUND = 64
#: Engines, as in the flags of a record, whose accesses are usually plain.
_PLAIN_ENGINES = (Engine.CP_ASYNC + 1, Engine.WGMMA + 1, Engine.BARRIER + 1)


class Checks:
    """Checks and records the accesses of one wave.

    Blocks in lock step usually do the same in their shared memories. After a barrier of all threads the shadow of
    shared memory is folded: what all blocks do alike the fast engine checks and notes for the first one only, until
    something else happens; then it is noted for each block as if it had been from the beginning.

    Args:
        program: the kernel.
        reporter: where findings go.
        launch: what outlives the wave.
        knowledge: of the wave.
        by_threads: only threads of one block each touch shared memory.
        units_meet: a unit may be ordered after another one.
    """

    def __init__(
        self,
        program: Program,
        reporter: Reporter,
        launch: LaunchOrder,
        knowledge: Knowledge,
        *,
        by_threads: bool,
        units_meet: bool,
    ) -> None:
        self._program = program
        self._reporter = reporter
        self._knowledge = knowledge
        self._explanation = Explanation(program, reporter, launch, knowledge)
        warps, steps = knowledge.ticks.size, len(program.steps)
        longest = core.LONGEST_KNOWN_CHAIN if units_meet else core.LONGEST_CHAIN
        if launch.memories is None or launch.memories[0].last.shape[1] < warps:
            launch.memories = (
                Memory(launch.global_memory, warps, steps, longest, _planes(knowledge, Plane.ASYNC_GLOBAL)),
                Memory(launch.shared_memory, warps, steps, core.NO_LIMIT, _planes(knowledge, Plane.ASYNC_SHARED)),
            )
        self.global_memory, self.shared = launch.memories
        self._found: Lanes = np.zeros((_FIRST_FOUND, 3), np.int64)
        self._kept: Lanes = np.zeros((core.KEPT, 3), np.int64)
        self._flags: dict[AccessKind, int] = {}
        geometry = reporter.geometry
        self._window: Shadow | None = None  # of shared memory, once it was touched
        self._units = geometry.clusters
        self._by_threads = by_threads
        self._foldable = self._units > 1 and geometry.threads == geometry.lanes_per_block

    def forget_shared(self) -> bool:
        """All threads of all blocks meet: what they did in shared memory is before what follows, and is forgotten.

        Not where anybody else may touch it, an engine or a peer of the cluster.
        """
        window = self._window
        if not self._by_threads or window is None:
            return False
        whole_lines = window.nbytes // self._units % (1 << (window.shift + core.LINE_SHIFT)) == 0
        self.shared.touched.forget(window, self._foldable and whole_lines)
        return True

    def tell_what_is_left_out(self) -> None:
        """A note where accesses to one place in global memory became too many to be kept."""
        state = self.global_memory.touched.state
        if not state[core.LEFT_OUT]:
            return
        step = self._program.steps[int(state[core.LEFT_OUT]) - 1]
        state[core.LEFT_OUT] = 0
        message = (
            f"more than {core.LONGEST_KNOWN_CHAIN} accesses of one place by {step.opcode} that nothing orders: "
            f"the order of later accesses is checked against the last {core.LONGEST_KNOWN_CHAIN // 2} of them"
        )
        self._reporter.note(message, step.where, 1)

    def unfold(self) -> None:
        """Blocks do no longer the same: from now on each has its own."""
        touched, window = self.shared.touched, self._window
        if not touched.state[core.FOLDED] or window is None:
            return
        touched.state[core.FOLDED] = 0
        if touched.state[core.NEXT_RECORD] == 1:
            return
        self._foldable = False  # it would happen again
        stride = len(window.lines) // self._units
        tables = touched.records, touched.nodes, touched.state
        while not core.unfold(
            window.lines, touched.leaves, *tables, self._knowledge.shape, self._knowledge.ticks, self._units, stride
        ):
            touched.make_room_for(self._units)
            tables = touched.records, touched.nodes, touched.state

    def memory(self, space: StateSpace) -> Memory:
        """The records of a space, of each block for itself."""
        if space is StateSpace.GLOBAL:
            return self.global_memory
        self.unfold()
        return self.shared

    def shadow(self, memory: Memory, backing: Backing, nbytes: int) -> Shadow:
        """The shadow of a backing array, with granules of at most `nbytes`."""
        if backing.shadow is None:
            backing.shadow = memory.touched.shadow(backing.nbytes)
        if nbytes & ((1 << backing.shadow.shift) - 1):
            memory.touched.refine(backing.shadow, nbytes)
        if memory is self.shared:
            self._window = backing.shadow
        return backing.shadow

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
        unchanged: Callable[[], Mask] | None,
    ) -> None:
        """See `Order.access`."""
        flags = self._flags.get(kind)
        if flags is None:
            flags = self._flags[kind] = kind.flags
        memory, shadow = self.memory(space), self.shadow(self.memory(space), backing, nbytes)
        asked, mask = (32, _ALL_LANES) if kind.by_warp else (1, 1)
        for who, places, same in self._apart(kind, lanes, offsets, unchanged):
            weak = not flags & core.STRONG
            if weak and self._pass(memory, shadow, pc, who, places, nbytes, flags, kind.by_warp, _THREADS, _THREADS):
                continue
            count = self._find(memory, shadow, who, places, nbytes, flags, asked)
            if count:
                self._report(step, who, space, flags, count, asked, same)
            self._record(memory, shadow, pc, who, places, nbytes, flags, mask, _THREADS, _THREADS)

    def _apart(
        self, kind: AccessKind, lanes: Lanes, offsets: Lanes, unchanged: Callable[[], Mask] | None
    ) -> Iterator[tuple[Lanes, Lanes, Callable[[], Mask] | None]]:
        """The access in parts that are checked one after the other: block by block where lanes of one instruction may
        race with those of another block.
        """
        if not (kind.strong and kind.writes and kind.scope < Scope.GPU):
            yield lanes, offsets, unchanged
            return
        blocks = self._knowledge.blocks(lanes)
        for block in np.unique(blocks):
            here = blocks == block
            yield lanes[here], offsets[here], None if unchanged is None else partial(_chosen, unchanged, here)

    def issue(
        self,
        step: Step,
        pc: int,
        flags: int,
        lanes: Lanes,
        space: StateSpace,
        backing: Backing,
        offsets: Lanes,
        nbytes: int,
        components: Lanes,
        at: Lanes,
    ) -> bool:
        """See `Order.async_access`: `components` and ticks `at` say who performs each access."""
        memory = self.memory(space)
        shadow = self.shadow(memory, backing, int(np.bitwise_or.reduce(offsets, initial=nbytes)))
        engine = (flags >> core.ENGINE_SHIFT) & core.ENGINE_MASK
        if engine in _PLAIN_ENGINES and not flags & core.STRONG:
            single = flags & core.SINGLE != 0
            if self._pass(memory, shadow, pc, lanes, offsets, nbytes, flags, single, components, at):
                return False
        asked = 128 if engine == Engine.WGMMA + 1 else 1
        count = self._find(memory, shadow, lanes, offsets, nbytes, flags, asked)
        if count:
            self._report(step, lanes, space, flags, count, asked, None)
        self._record(memory, shadow, pc, lanes, offsets, nbytes, flags, 1, components, at)
        return count > 0

    def end(self, block: int, known: Snapshot, nbytes: int) -> None:
        """A block has ended, whose threads knew this: what peers touched there and it does not know of, races."""
        if self._window is None:
            return
        views = self._knowledge.views
        lane = int(block * self._knowledge.shape[core.LANES_PER_BLOCK])
        before = views[:, lane].copy()
        views[:, lane, core.ROW], views[:, lane, core.FOREIGN] = known[:, 0], known[:, 1]
        lanes, offsets = np.array([lane]), np.array([block * nbytes])
        flags = core.WRITES | core.ENDS
        count = self._find(self.shared, self._window, lanes, offsets, nbytes, flags, 1)
        if count:
            self._report(self._program.steps[-1], lanes, StateSpace.SHARED, flags, count, 1, None)
        views[:, lane] = before

    def _pass(
        self,
        memory: Memory,
        shadow: Shadow,
        pc: int,
        lanes: Lanes,
        offsets: Lanes,
        nbytes: int,
        flags: int,
        by_warp: bool,
        components: Lanes,
        at: Lanes,
    ) -> bool:
        """Whether the access is one that nothing speaks against, and is remembered now."""
        knowledge, touched = self._knowledge, memory.touched
        clocks = knowledge.clocks
        while True:
            answer = compiled_warps.pass_warps(
                clocks.rows,
                knowledge.views,
                knowledge.minds,
                clocks.spans,
                clocks.maps,
                knowledge.shape,
                memory.planes[1 if flags & core.ASYNC_PROXY else 0],
                touched.records,
                touched.nodes,
                touched.state,
                memory.last,
                memory.patterns,
                self._kept,
                shadow.lines,
                touched.leaves,
                shadow.shift,
                lanes,
                offsets,
                nbytes,
                flags,
                pc,
                by_warp,
                knowledge.ticks,
                memory.longest,
                components,
                at,
            )
            if answer != compiled_warps.NO_ROOM:
                return bool(answer == compiled_warps.PASSED)
            touched.make_room(lanes.size, lanes.size * (nbytes >> shadow.shift))

    def _find(
        self, memory: Memory, shadow: Shadow, lanes: Lanes, offsets: Lanes, nbytes: int, flags: int, asked: int
    ) -> int:
        knowledge, touched = self._knowledge, memory.touched
        clocks = knowledge.clocks
        planes = memory.planes[1 if flags & core.ASYNC_PROXY else 0]
        views = knowledge.views if planes.min() >= 0 else knowledge.with_nothing()
        while True:
            count = core.find_conflicts(
                clocks.rows,
                views,
                clocks.spans,
                clocks.maps,
                knowledge.shape,
                planes,
                touched.records,
                touched.nodes,
                touched.state,
                shadow.lines,
                touched.leaves,
                shadow.shift,
                lanes,
                offsets,
                nbytes,
                flags,
                asked,
                self._found,
            )
            if count <= len(self._found):
                return count
            self._found = np.zeros((2 * count, 3), np.int64)

    def _record(
        self,
        memory: Memory,
        shadow: Shadow,
        pc: int,
        lanes: Lanes,
        offsets: Lanes,
        nbytes: int,
        flags: int,
        mask: int,
        components: Lanes,
        at: Lanes,
    ) -> None:
        knowledge, touched = self._knowledge, memory.touched
        clocks = knowledge.clocks
        while not core.record_accesses(
            clocks.rows,
            knowledge.views,
            clocks.spans,
            clocks.maps,
            knowledge.shape,
            touched.records,
            touched.nodes,
            touched.state,
            memory.last,
            shadow.lines,
            touched.leaves,
            shadow.shift,
            lanes,
            offsets,
            nbytes,
            flags,
            pc,
            mask,
            knowledge.ticks,
            components,
            at,
            memory.longest,
        ):
            touched.make_room(lanes.size, lanes.size * (nbytes >> shadow.shift))

    def forget_ended(self, places: Places, space: StateSpace, backing: Backing, offsets: Lanes) -> None:
        """Release sequences that a weak store has ended since."""
        touched, shadow = self.memory(space).touched, backing.shadow
        if shadow is None:
            return
        for offset in np.unique(offsets).tolist():
            place = places.find(id(backing), offset)
            if place is not None and self._last_is_weak(touched, shadow, offset >> shadow.shift):
                place.restart()

    @staticmethod
    def _last_is_weak(touched: Touched, shadow: Shadow, granule: int) -> bool:
        tables = touched.records, touched.nodes, touched.state
        weak: bool = core.last_is_weak(shadow.lines, touched.leaves, *tables, shadow.shift, granule)
        return weak

    def _report(
        self,
        step: Step,
        lanes: Lanes,
        space: StateSpace,
        flags: int,
        count: int,
        asked: int,
        unchanged: Callable[[], Mask] | None,
    ) -> None:
        """One finding, or note, for each earlier instruction."""
        found, records = self._found[:count], self.memory(space).touched.records
        places = records[found[:, 1], core.PC]
        same = None if unchanged is None else unchanged()
        for pc in np.unique(places):
            group = found[places == pc]
            positions = np.unique(group[:, 0])
            position, record, source = (int(number) for number in group[0])
            earlier = self._program.steps[int(pc)]
            stored = records[record, core.FLAGS] & (core.WRITES | core.ATOMIC) == core.WRITES
            if same is not None and stored and same[positions].all():
                message = f"{step.opcode} races with a write of the same value at {earlier.where.place}"
                self._reporter.note(message, step.where, positions.size)
                continue
            first = int(lanes[position]) if asked != 32 else int(lanes[position]) & ~31
            who = self._explanation.unaware(Conflict(step, flags, first, space, records, record, source), asked)
            conflict = Conflict(step, flags, who, space, records, record, source)
            kind, message, detail, other = self._explanation.explain(conflict)
            self._reporter.report_race(kind, message, step.where, lanes[positions], detail, earlier.where, other)


def _chosen(unchanged: Callable[[], Mask], here: Mask) -> Mask:
    return unchanged()[here]


def _planes(knowledge: Knowledge, asynchronous: Plane) -> NDArray[np.int64]:
    """For the generic and the async proxy: planes for earlier generic writes, generic reads, async writes and reads."""
    number = knowledge.number
    own, reads, proxy = number[Plane.ALL], number[Plane.READS], number[asynchronous]
    return np.array([[own, reads, own, reads], [proxy, proxy, own, reads]], np.int64)
