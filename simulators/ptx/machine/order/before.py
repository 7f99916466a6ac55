"""The order of shared memory through barriers alone, until the new core stands."""

from collections.abc import Callable

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.machine.order.shared_order import SharedKind, SharedOrder
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.program import Kind, Program, StateSpace, Step

_PAST = {Kind.LOAD: "read", Kind.STORE: "wrote", Kind.ATOMIC: "updated"}
_PAST |= {Kind.MATRIX_LOAD: "read", Kind.MATRIX_STORE: "wrote"}
_VERBS = {Kind.LOAD: "reads", Kind.STORE: "writes", Kind.ATOMIC: "updates"}
_VERBS |= {Kind.MATRIX_LOAD: "reads", Kind.MATRIX_STORE: "writes", Kind.WGMMA: "reads"}


class Before:
    """Shared memory only."""

    def __init__(self, program: Program, wave: Reporter, window_bytes: int) -> None:
        geometry = wave.geometry
        self._wave = wave
        self._program = program
        self._order = SharedOrder(
            window_bytes, self._program.shared_granule, geometry.resident.size, geometry.warps_per_block
        )

    def block_barrier(self, lanes: Lanes) -> None:
        """See `Order.block_barrier`."""
        self._order.barrier(lanes)

    def warp_barrier(self, lanes: Lanes) -> None:
        """See `Order.warp_barrier`."""
        self._order.warp_sync(np.unique(lanes >> WARP_SHIFT))

    def fence(self, lanes: Lanes) -> None:
        """See `Order.fence`."""
        self._order.release(lanes)
        self._order.acquire(lanes)

    def release(self, lanes: Lanes) -> None:
        """`.release`."""
        self._order.release(lanes)

    def acquire(self, lanes: Lanes) -> None:
        """`.acquire`."""
        self._order.acquire(lanes)

    def access(
        self,
        kind: AccessKind,
        step: Step,
        pc: int,
        lanes: Lanes,
        space: StateSpace,
        offsets: Lanes,
        nbytes: int,
        unchanged: Callable[[], Mask] | None,
    ) -> None:
        """See `Order.access`.

        Raises:
            NotModelled: fences may order the accesses.
        """
        wave = self._wave
        if space is not StateSpace.SHARED or wave.geometry.blocks_per_cluster > 1:
            return
        form = SharedKind(kind.writes, kind.strong, kind.by_warp, step.kind is not Kind.WGMMA)
        conflict = self._order.access(form, lanes, offsets, nbytes, pc)
        if conflict is None:
            return
        earlier = self._program.steps[conflict.other_step]
        if conflict.undecided:
            raise NotModelled(
                f"{step.opcode} at {step.where}: its order after {earlier.opcode} at {earlier.where} hangs on fences "
                "and flags, which are not modelled for shared memory",
                hint="a barrier between the two is modelled",
            )
        racing = lanes[conflict.positions]
        if unchanged is not None and conflict.other_writes and unchanged()[conflict.positions].all():
            wave.note(
                f"{step.opcode} races with a write of the same value at {earlier.where.place}", step.where, racing.size
            )
            return
        message = (
            f"{step.opcode} {_VERBS[step.kind]} shared memory that another thread {_PAST[earlier.kind]} at "
            f"{earlier.where.place}, with no barrier between"
        )
        other = wave.geometry.thread(conflict.other_lane)
        same_warp = int(racing[0]) >> WARP_SHIFT == conflict.other_lane >> WARP_SHIFT
        whose, missing = ("of the same warp", "__syncwarp()") if same_warp else ("of another warp", "__syncthreads()")
        detail = f" ({earlier.opcode} of thread {other.thread} {whose}; {missing} is missing)"
        wave.report_race(FindingKind.RACE, message, step.where, racing, detail, earlier.where, other)
