"""Why two accesses race, in words: both of them, and the edge that is missing."""

from dataclasses import dataclass, replace
from typing import Any

from tileproof.simulators.ptx.findings import FindingKind, Thread
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge, Plane
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.program import Program, StateSpace, Step

_ENGINES = {
    Engine.CP_ASYNC: "cp.async",
    Engine.BULK_READ: "the bulk copy's read of its source",
    Engine.BULK_WRITE: "the bulk copy's write",
    Engine.WGMMA: "wgmma",
    Engine.BARRIER: "the copy",
}


@dataclass(frozen=True)
class Conflict:
    """An access and an earlier one that it is not ordered after.

    Attributes:
        step: the present instruction.
        flags: of the present access.
        lane: who makes or issues it, and does not know the earlier one.
        space: where.
        records: of this space.
        record: of the earlier access.
        source: its lane in its warp.
    """

    step: Step
    flags: int
    lane: int
    space: StateSpace
    records: Any
    record: int
    source: int

    @property
    def earlier_flags(self) -> int:
        """Of the earlier access."""
        return int(self.records[self.record, core.FLAGS])

    @property
    def earlier_engine(self) -> Engine | None:
        """Who performed the earlier access, unless a thread did."""
        engine = (self.earlier_flags >> core.ENGINE_SHIFT) & core.ENGINE_MASK
        if engine == Engine.BARRIER + 1 and self.records[self.record, core.AT] == 0:
            return None  # its init
        return Engine(engine - 1) if engine else None


class Explanation:
    """Explains conflicts of one wave.

    Args:
        program: the kernel.
        reporter: who is resident.
        launch: who has run before.
        knowledge: of the wave.
    """

    def __init__(self, program: Program, reporter: Reporter, launch: LaunchOrder, knowledge: Knowledge) -> None:
        self._program = program
        self._geometry = reporter.geometry
        self._launch = launch
        self._knowledge = knowledge

    def unaware(self, conflict: Conflict, asked: int) -> int:
        """Of the lanes that must know the earlier access, from the conflict's on, the first that does not."""
        for lane in range(conflict.lane, conflict.lane + asked):
            if not self._knows(replace(conflict, lane=lane), Plane.ALL):
                return lane
        return conflict.lane

    def explain(self, conflict: Conflict) -> tuple[FindingKind, str, str, Thread]:
        """Kind and message of the finding, its detail, and the thread of the earlier access."""
        records, record = conflict.records, conflict.record
        warp = int(records[record, core.WARP_OF])
        other = self._launch.thread(self._geometry, warp, conflict.source)
        earlier = self._program.steps[int(records[record, core.PC])]
        kind, cause, missing = self._cause(conflict, warp, earlier)
        memory = "global" if conflict.space is StateSpace.GLOBAL else "shared"
        who = "its own thread" if self._same_thread(conflict, warp) else "another thread"
        message = (
            f"{conflict.step.opcode} {_verb(conflict.flags)} {memory} memory that {who} "
            f"{_past(conflict.earlier_flags)} at {earlier.where.place}, {cause}"
        )
        near = self._geometry.thread(conflict.lane).block == other.block
        name = f"thread {other.thread}" if near else f"block {other.block} thread {other.thread}"
        if conflict.flags & core.ENDS:
            message = f"a block ends and gives up shared memory that a peer {_past(conflict.earlier_flags)} at "
            message += f"{earlier.where.place}, {cause}"
        return kind, message, f" ({earlier.opcode} of {name}{missing})", other

    def _same_thread(self, conflict: Conflict, warp: int) -> bool:
        shape = self._knowledge.shape
        lane = warp * 32 + conflict.source - int(shape[core.UNIT_BASE] * shape[core.LANES_PER_UNIT])
        return lane == conflict.lane

    def _cause(self, conflict: Conflict, warp: int, earlier: Step) -> tuple[FindingKind, str, str]:
        """Kind, cause, and what is said of the earlier access."""
        flags, earlier_flags = conflict.flags, conflict.earlier_flags
        if (flags | earlier_flags) & core.NON_COHERENT:
            return FindingKind.RACE, "and ld.global.nc may only read what nothing writes during the kernel", ""
        if flags & core.ENDS:
            return FindingKind.RACE, "and nothing orders that before the end of the block whose memory it is", ""
        if flags & core.ASYNC_PROXY and not earlier_flags & core.ASYNC_PROXY and self._knows(conflict, Plane.ALL):
            return FindingKind.RACE, "and no proxy fence stands between: " + self._proxy(conflict), ""
        if self._knowledge.number[Plane.ANY_SCOPE] and self._knows(conflict, Plane.ANY_SCOPE):
            return FindingKind.SCOPE, "and the scope of what synchronises them does not reach from one to the other", ""
        if _only_scope_is_short(flags, earlier_flags):
            return FindingKind.SCOPE, "and the scope of one of the two does not reach the other thread", ""
        if conflict.earlier_engine is not None:
            return FindingKind.RACE, self._engine(conflict, conflict.earlier_engine, warp), ""
        mine = self._geometry.thread(conflict.lane)
        if self._launch.thread(self._geometry, warp, conflict.source).block != mine.block:
            return FindingKind.RACE, "with nothing between that orders the two blocks", ""
        base = int(self._knowledge.shape[core.UNIT_BASE] * self._knowledge.shape[core.WARPS_PER_UNIT])
        same_warp = warp == base + (conflict.lane >> 5)
        whose, missing = ("the same warp", "__syncwarp()") if same_warp else ("another warp", "__syncthreads()")
        return FindingKind.RACE, "with no barrier between", f" of {whose}; {missing} is missing"

    def _knows(self, conflict: Conflict, plane: Plane) -> bool:
        number, clocks = self._knowledge.number[plane], self._knowledge.clocks
        return bool(
            core.knows(
                clocks.rows,
                self._knowledge.views,
                clocks.spans,
                clocks.maps,
                self._knowledge.shape,
                conflict.records,
                number,
                conflict.lane,
                conflict.record,
                conflict.source,
            )
        )

    def _proxy(self, conflict: Conflict) -> str:
        what = "writes" if conflict.earlier_flags & core.WRITES else "reads"
        return f"the {what} are not fenced towards the async proxy (fence.proxy.async) before {conflict.step.opcode}"

    def _engine(self, conflict: Conflict, engine: Engine, warp: int) -> str:
        """What the present thread would have to know of an engine."""
        tick = int(conflict.records[conflict.record, core.AT])
        what = _ENGINES[engine]
        if engine is Engine.BARRIER:
            phase = tick - 1
            return (
                f"and no path leads here from the end of {what}: nobody on it waited for phase {phase} of its mbarrier"
            )
        own = self._same_thread(conflict, warp) or engine is Engine.WGMMA
        bound = int(self._knowledge.views[0, conflict.lane, core.OWN_ENGINES + engine])
        if own and bound:
            return (
                f"and no path leads here from the end of {what}: the wait covers groups below {bound}, this is {tick}"
            )
        if own:
            return f"and no path leads here from the end of {what}: its thread has not waited for group {tick}"
        return (
            f"and no path leads here from the end of {what}: its thread waits for group {tick} too late, or no barrier "
            "follows the wait"
        )


def _verb(flags: int) -> str:
    if flags & (core.ATOMIC | core.REDUCES):
        return "updates"
    return "writes" if flags & core.WRITES else "reads"


def _past(flags: int) -> str:
    if flags & (core.ATOMIC | core.REDUCES):
        return "updated"
    return "wrote" if flags & core.WRITES else "read"


def _only_scope_is_short(flags: int, earlier: int) -> bool:
    """Whether two accesses conflict for no other reason: strong both, of one size and one proxy."""
    if not flags & earlier & core.STRONG or (flags ^ earlier) & (core.ASYNC_PROXY | core.REDUCES):
        return False
    return ((flags ^ earlier) >> core.SIZE_SHIFT) & 15 == 0
