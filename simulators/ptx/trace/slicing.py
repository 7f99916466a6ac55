"""The backward slice: from the bytes of one element to everything that made them.

It follows values, not addresses, guards or branches: what decides where an instruction reads or whether it executes is
no part of the element. A choice between two values (`selp`) is: its predicate counts.
"""

from collections.abc import Callable, Mapping

from tileproof.simulators.ptx.machine.memory import Bits
from tileproof.simulators.ptx.program import Kind, Program
from tileproof.simulators.ptx.trace import rules_compute, rules_matrix, rules_memory
from tileproof.simulators.ptx.trace.contribution import Contributions
from tileproof.simulators.ptx.trace.demand import Demand
from tileproof.simulators.ptx.trace.look import Look
from tileproof.simulators.ptx.trace.recorder import Event, Recorder, WaveLog

Rule = Callable[[Look], None]

RULES: Mapping[Kind, Rule] = {
    Kind.ARITHMETIC: rules_compute.arithmetic,
    Kind.PACK: rules_compute.pack,
    Kind.UNPACK: rules_compute.unpack,
    Kind.SHUFFLE: rules_compute.shuffle,
    Kind.VOTE: rules_compute.warp_result,
    Kind.MATCH: rules_compute.warp_result,
    Kind.REDUCE: rules_compute.warp_result,
    Kind.BARRIER: rules_compute.block_result,
    Kind.ELECT: rules_compute.nothing,
    Kind.ACTIVE_MASK: rules_compute.nothing,
    Kind.CLOCK: rules_compute.nothing,
    Kind.MBARRIER: rules_compute.nothing,
    Kind.FRESH: rules_compute.forgotten,
    Kind.LOAD: rules_memory.load,
    Kind.STORE: rules_memory.store,
    Kind.DISCARD: rules_memory.discard,
    Kind.ATOMIC: rules_memory.atomic,
    Kind.COPY: rules_memory.copies,
    Kind.BULK: rules_memory.copies,
    Kind.TENSOR: rules_memory.copies,
    Kind.ASYNC_STORE: rules_memory.copies,
    Kind.MATRIX_LOAD: rules_matrix.load_matrix,
    Kind.MATRIX_STORE: rules_matrix.store_matrix,
    Kind.MATRIX_TRANSPOSE: rules_matrix.transpose_matrix,
    Kind.MMA: rules_matrix.multiply,
    Kind.WGMMA: rules_matrix.multiply,
}
#: Kinds that write memory.
_WRITERS = frozenset(
    {
        Kind.STORE,
        Kind.DISCARD,
        Kind.ATOMIC,
        Kind.COPY,
        Kind.BULK,
        Kind.TENSOR,
        Kind.ASYNC_STORE,
        Kind.MATRIX_STORE,
    }
)


def follow_back(
    program: Program, recorder: Recorder, demand: Demand, rules: Mapping[Kind, Rule] = RULES
) -> Contributions:
    """Follow what is wanted at the launch's end back to its start.

    Args:
        program: the kernel.
        recorder: what the launch did.
        demand: the element's bytes; afterwards, the bytes that came from outside.
        rules: how each kind of step is followed; others follow all their sources.
    """
    contributions = Contributions(program)
    for number, log in reversed(list(enumerate(recorder.waves))):
        demand.enter(log)
        values = log.values.copy()
        for index in range(len(log.events) - 1, -1, -1):
            event = log.events[index]
            look, after = _undo(program, log, event, demand, values)
            if look is not None:
                rules.get(look.step.kind, rules_compute.everything)(look)
                contributions.add((number, index), look, after)
        demand.leave(log)
    return contributions


def _undo(
    program: Program, log: WaveLog, event: Event, demand: Demand, values: Bits
) -> tuple[Look | None, Mapping[int, Bits]]:
    """Put the registers back as they were before an event; what is to be followed, and what it wrote."""
    step, taken, after = program.steps[event.pc], dict[int, Bits](), dict[int, Bits]()
    for written in reversed(event.written):
        if written.slot in demand.live:
            bits = taken.setdefault(written.slot, demand.bits[written.slot] * 0)
            bits[written.lanes] |= demand.take(written.slot, written.lanes)
            after.setdefault(written.slot, values[written.slot].copy())
        values[written.slot][written.lanes] = written.before
    if any(bits.any() for bits in taken.values()) or (step.kind in _WRITERS and demand.memory):
        return Look(program, step, event, log, demand, values, taken), after
    return None, after
