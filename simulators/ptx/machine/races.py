"""Races in shared memory, as findings and notes: an access against earlier ones, and the lanes of one store."""

from collections.abc import Callable, Sequence

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.addressing import verb
from tileproof.simulators.ptx.machine.memory import Bits, Lanes, Mask
from tileproof.simulators.ptx.machine.order import AccessKind, Conflict
from tileproof.simulators.ptx.machine.shadow import WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, Step

_PAST = {Kind.LOAD: "read", Kind.STORE: "wrote", Kind.ATOMIC: "updated"}
_PAST |= {Kind.MATRIX_LOAD: "read", Kind.MATRIX_STORE: "wrote"}


def check_order(
    wave: Wave,
    step: Step,
    pc: int,
    kind: AccessKind,
    lanes: Lanes,
    offsets: Lanes,
    unchanged: Callable[[], Mask] | None = None,
) -> None:
    """Record an access to shared memory and report what it races with.

    Args:
        wave: the machine.
        step: the access's instruction.
        pc: its index.
        kind: how it touches memory.
        lanes: who accesses.
        offsets: where, in bytes of the window of all resident blocks.
        unchanged: for a store, whether memory already holds what each lane stores.

    Raises:
        NotModelled: fences may order the accesses, which is not modelled.
    """
    conflict = wave.order.access(kind, lanes, offsets, step.access_bytes, pc)
    if conflict is None:
        return
    earlier = wave.program.steps[conflict.other_step]
    if conflict.undecided:
        raise NotModelled(
            f"{step.opcode} at {step.where}: its order after {earlier.opcode} at {earlier.where} hangs on fences and "
            "flags, which are not modelled for shared memory",
            hint="a barrier between the two is modelled",
        )
    racing = lanes[conflict.positions]
    if unchanged is not None and conflict.other_writes and unchanged()[conflict.positions].all():
        wave.note(
            f"{step.opcode} races with a write of the same value at {earlier.where.place}", step.where, racing.size
        )
        return
    message = (
        f"{step.opcode} {verb(step)} shared memory that another thread {_PAST[earlier.kind]} at {earlier.where.place}, "
        "with no barrier between"
    )
    detail = _detail(wave, conflict, int(racing[0]))
    wave.report_race(message, step.where, racing, detail, earlier.where, conflict.other_lane)


def _detail(wave: Wave, conflict: Conflict, lane: int) -> str:
    earlier = wave.program.steps[conflict.other_step]
    other = wave.geometry.thread(conflict.other_lane).thread
    same_warp = lane >> WARP_SHIFT == conflict.other_lane >> WARP_SHIFT
    whose, missing = ("of the same warp", "__syncwarp()") if same_warp else ("of another warp", "__syncthreads()")
    return f" ({earlier.opcode} of thread {other} {whose}; {missing} is missing)"


def check_overlap(wave: Wave, step: Step, lanes: Lanes, offsets: Lanes, values: Sequence[Bits]) -> None:
    """Lanes of one weak store at one place: with different values a race, with equal ones a note.

    Which of several values stays is undefined (CUDA C++ Programming Guide, "SIMT Architecture").
    """
    if bool(np.all(offsets[1:] > offsets[:-1])):
        return
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    repeats = ordered[1:] == ordered[:-1]  # accesses are aligned to their size: they coincide or do not touch
    if not repeats.any():
        return
    equal = np.ones(repeats.size, np.bool_)
    for element in values:
        equal &= element[order[1:]] == element[order[:-1]]
    if (repeats & ~equal).any():
        first = np.flatnonzero(repeats & ~equal)
        hit = lanes[np.unique(order[np.concatenate((first, first + 1))])]
        wave.report(
            FindingKind.RACE, f"threads write different values to one address by one {step.opcode}", step.where, hit
        )
    if (repeats & equal).any():
        count = int((repeats & equal).sum())
        wave.note(f"threads write equal values to one address by one {step.opcode}", step.where, count)
