"""Threads that can never get on: a proof that all running threads spin.

A lane whose program counter and registers are what they were, while no memory changed, no mbarrier moved on and nobody
met anybody in between, will come back here for ever. When this holds for every running lane, the launch hangs, whatever
the schedule. Registers that are idle in the loop (see `loops`), such as a count of the rounds, may have changed.
Example: `L: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;` while nobody is left to set the
flag. A spin that ends after a count or a time is no proof of a hang; the step budget ends what else does not end.
"""

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.wave import Status, Wave

# Steps without a change before the first look, which costs a copy of the register file.
QUIET_STEPS = 1024


class SpinWatch:
    """Looks at one wave after every turn."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._changes = wave.changes
        self._steps = 0
        self._renewal = QUIET_STEPS

    def stuck(self, ran: Lanes, steps: int) -> bool:
        """Whether nobody can ever get on, after a turn of the lanes `ran` that made `steps` steps."""
        wave = self._wave
        if wave.changes != self._changes:
            self._changes, self._steps, self._renewal = wave.changes, 0, QUIET_STEPS
            return False
        self._steps += steps
        if self._steps < QUIET_STEPS:
            return False
        if self._steps >= self._renewal:
            self._look()
            return False
        back = self._pc[ran] == wave.pc[ran]
        if back.any():
            self._compare(ran[back])
        return bool(self._cycled[wave.status == Status.RUNNING].all())

    def _compare(self, lanes: Lanes) -> None:
        """Which of these lanes, which are back at the same instruction, come back for ever."""
        wave = self._wave
        differs: Mask = wave.registers.values[:, lanes] != self._values[:, lanes]
        for pc in np.unique(wave.pc[lanes]).tolist():
            here = np.flatnonzero(wave.pc[lanes] == pc)
            changed = np.flatnonzero(differs[:, here].any(axis=1))
            if wave.loops.idle(pc, changed.tolist()):
                self._cycled[lanes[here]] = True
            else:
                same = ~differs[:, here].any(axis=0)
                self._cycled[lanes[here[same]]] = True

    def _look(self) -> None:
        """Remember the present state, each time after twice as many steps (Brent's cycle detection)."""
        self._renewal = 2 * self._steps
        self._pc = self._wave.pc.copy()
        self._values = self._wave.registers.values.copy()
        self._cycled = np.zeros(self._pc.size, np.bool_)
