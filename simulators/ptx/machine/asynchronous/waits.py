"""What threads wait for at mbarriers: for the proof and the report of a deadlock, and for waits that fail by chance."""

from typing import TYPE_CHECKING

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes, Mask

if TYPE_CHECKING:
    from tileproof.simulators.ptx.machine.wave import Wave

# Times in a row that `try_wait` may be false although the phase is complete: the ISA sets no bound.
MOST_REFUSALS = 3
NOWHERE = -1


class Waits:
    """The last wait of every lane that has not come true.

    Attributes:
        word: the mbarrier, or NOWHERE.
        phase: the phase that is waited for.
        pc: step index of the wait.
    """

    def __init__(self, lanes: int) -> None:
        self.word = np.full(lanes, NOWHERE, np.int64)
        self.phase, self.pc = np.zeros((2, lanes), np.int32)
        self._refusals = np.zeros(lanes, np.int32)

    def remember(self, lanes: Lanes, words: Lanes, phases: Lanes, pc: int, done: Mask) -> None:
        """The lanes' waits; those that are done leave nothing."""
        self.word[lanes] = np.where(done, NOWHERE, words)
        self.phase[lanes] = phases
        self.pc[lanes] = pc
        self._refusals[lanes[done]] = 0

    def refused(self, wave: "Wave", lanes: Lanes, done: Mask) -> Mask:
        """Which waits that could come true fail all the same."""
        refused = wave.schedule.refuses(lanes) & done & (self._refusals[lanes] < MOST_REFUSALS)
        if refused.any():
            self._refusals[lanes[refused]] += 1
            wave.changes += 1  # the same wait may come true next time: nobody is stuck
        return refused
