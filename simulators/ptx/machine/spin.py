"""Threads that can never get on: a proof that all running threads spin.

A lane whose program counter and registers are what they were, while no memory changed and nobody met anybody in
between, will come back here for ever. When this holds for every running lane, the launch hangs, whatever the schedule.
Example: `L: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;` while nobody is left to set the
flag. A spin that counts is not proved; the step budget ends it.
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
            lanes = ran[back]
            same: Mask = (wave.registers.values[:, lanes] == self._values[:, lanes]).all(axis=0)
            self._cycled[lanes[same]] = True
        return bool(self._cycled[wave.status == Status.RUNNING].all())

    def _look(self) -> None:
        """Remember the present state, each time after twice as many steps (Brent's cycle detection)."""
        self._renewal = 2 * self._steps
        self._pc = self._wave.pc.copy()
        self._values = self._wave.registers.values.copy()
        self._cycled = np.zeros(self._pc.size, np.bool_)
