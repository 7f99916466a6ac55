"""Which clusters of a wave have started. The others wait for room.

A GPU starts blocks in any order and as many as it has room for. The schedule draws how many of a wave start at once;
another one starts when one has ended, and when all that run can only wait, for then a GPU with more room would get on:
threads may wait for blocks that have not started, as long as all of them fit a wave.
"""

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.schedule import Schedule
from tileproof.simulators.ptx.machine.wave import Status, Wave


class Residency:
    """The clusters of one wave, in the order in which they start.

    Args:
        wave: all of its lanes that are threads run.
        schedule: says how many clusters start at once.
    """

    def __init__(self, wave: Wave, schedule: Schedule) -> None:
        self._wave = wave
        self._status = wave.status.reshape(-1, wave.geometry.lanes_per_cluster)
        self._room = self._started = schedule.room(len(self._status))
        waiting = self._status[self._started :]
        waiting[waiting == Status.RUNNING] = Status.NOT_STARTED

    def running(self) -> Lanes:
        """Lanes that can step; empty when nobody is left to start either."""
        if self._wave.registers.present == 0:
            return np.zeros(0, np.int64)
        if self._started < len(self._status):
            self._fill()
        lanes: Lanes = (self._wave.status == Status.RUNNING).nonzero()[0]
        while not lanes.size and self.admit():
            lanes = (self._wave.status == Status.RUNNING).nonzero()[0]
        return lanes

    def admit(self) -> bool:
        """Start one more cluster; whether there was one."""
        if self._started == len(self._status):
            return False
        row = self._status[self._started]
        row[row == Status.NOT_STARTED] = Status.RUNNING
        self._started += 1
        self._wave.changes += 1
        return True

    def _fill(self) -> None:
        """As many run as there is room for."""
        ended = int((self._status[: self._started] == Status.EXITED).all(axis=1).sum())
        while self._started - ended < self._room and self.admit():
            pass
