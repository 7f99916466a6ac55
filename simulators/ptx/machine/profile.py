"""What is counted only when asked for: instructions by opcode, and what shared memory costs by instruction.

Shared memory is watched from outside: while it is, the compiled engine does not see it and leaves its accesses to the
reference engine's functions, so that both engines count the same.

Passes are those of `oracle.banks`, measured for loads and stores. `ldmatrix` and `stmatrix` count as stores of 16 bytes
by the lanes that give rows, one phase a matrix: inferred. Atomics, asynchronous copies and the operands of `wgmma` have
no rule that is known, and are not counted.
"""

from dataclasses import dataclass

import numpy as np

from tileproof.oracle.banks import Access, BankUse, bank_use
from tileproof.simulators.ptx.findings import Counters, Findings, SharedUse
from tileproof.simulators.ptx.machine.memory import Bits, Fault, Lanes, Piece, Space
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, Program, StateSpace

_RULES = {
    Kind.LOAD: Access.LOAD,
    Kind.STORE: Access.STORE,
    Kind.MATRIX_LOAD: Access.STORE,
    Kind.MATRIX_STORE: Access.STORE,
}
# Addresses that differ by a multiple of it lie in the same bank: 32 banks of 4 bytes.
_PERIOD_BYTES = 128
_IDLE = -1


@dataclass
class _Sum:
    accesses: int = 0
    passes: int = 0
    conflicts: int = 0
    ways: int = 0


class Profile:
    """Counts of one launch.

    Args:
        program: the kernel.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._executed = np.zeros(len(program.steps), np.int64)
        self._pc = 0
        self._sums: dict[int, _Sum] = {}
        self._known: dict[tuple[Access, int, bytes], BankUse] = {}

    def begin(self, wave: Wave) -> None:
        """Watch a wave's shared memory."""
        for space in (StateSpace.SHARED, StateSpace.CLUSTER):
            wave.spaces[space] = _CountedSpace(self, wave.spaces[space])

    def count(self, pc: int, lanes: int) -> None:
        """So many lanes execute a step, which is the current one."""
        self._pc = pc
        self._executed[pc] += lanes

    def access(self, addresses: Bits, lanes: Lanes, nbytes: int) -> None:
        """The current step accesses shared memory; a warp's lanes do it at once."""
        rule = _RULES.get(self._program.steps[self._pc].kind)
        if rule is None:
            return
        warps, row = np.unique(lanes >> WARP_SHIFT, return_inverse=True)
        table = np.full((warps.size, WARP), np.iinfo(np.int64).max)
        table[row, lanes & (WARP - 1)] = addresses.astype(np.int64)
        first = table.min(axis=1) // _PERIOD_BYTES * _PERIOD_BYTES
        idle = table == np.iinfo(np.int64).max
        table -= first[:, np.newaxis]
        table[idle] = _IDLE
        total = self._sums.setdefault(self._pc, _Sum())
        for pattern in table:
            use = self._use(rule, nbytes, pattern)
            total.accesses += 1
            total.passes += use.passes
            total.conflicts += use.conflicts
            total.ways = max(total.ways, use.ways)

    def _use(self, rule: Access, nbytes: int, pattern: Lanes) -> BankUse:
        key = (rule, nbytes, pattern.tobytes())
        use = self._known.get(key)
        if use is None:
            use = bank_use(pattern, nbytes, access=rule, active=pattern != _IDLE)
            self._known[key] = use
        return use

    def report(self, counters: Counters, findings: Findings) -> None:
        """Put the counts into the launch's counters, and a note for each instruction with conflicts."""
        steps = self._program.steps
        for pc in np.flatnonzero(self._executed).tolist():
            opcode = steps[pc].opcode
            line, count = steps[pc].where.ptx_line, int(self._executed[pc])
            counters.opcodes[opcode] = counters.opcodes.get(opcode, 0) + count
            counters.lines[line] = counters.lines.get(line, 0) + count
        for pc, total in sorted(self._sums.items()):
            step = steps[pc]
            use = SharedUse(step.opcode, step.where, total.accesses, total.passes, total.conflicts, total.ways)
            counters.shared.append(use)
            if use.conflicts:
                message = f"{step.opcode} has {use.ways}-way bank conflicts"
                findings.note(message, step.where, total.accesses)


class _CountedSpace:
    """Shared memory whose accesses are counted; see `Space`."""

    def __init__(self, profile: Profile, memory: Space) -> None:
        self._profile = profile
        self._memory = memory

    def locate(self, addresses: Bits, lanes: Lanes, size: int) -> tuple[list[Piece], list[Fault]]:
        """See `Space.locate`."""
        pieces, faults = self._memory.locate(addresses, lanes, size)
        if addresses.size and not faults:  # a wrong access has its finding
            self._profile.access(addresses, lanes, size)
        return pieces, faults
