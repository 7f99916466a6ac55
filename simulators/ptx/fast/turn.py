"""One wave's state as the compiled loop sees it, and the call."""

from functools import cache
from typing import Any

import numpy as np

from tileproof.simulators.ptx.fast import layout
from tileproof.simulators.ptx.fast.lower import Bytecode
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Lanes, Window
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace

_WINDOWS = (StateSpace.SHARED, StateSpace.LOCAL, StateSpace.CONST, StateSpace.PARAM)


@cache
def _loop() -> Any:
    """The compiled loop, imported at first use: numba takes longer to load than a small kernel to run."""
    from tileproof.simulators.ptx.fast.loop import run

    return run


class FastTurns:
    """Runs hot steps of a wave's turns.

    Args:
        wave: the machine.
        bytecode: its program.
    """

    def __init__(self, wave: Wave, bytecode: Bytecode) -> None:
        self._wave = wave
        self._bytecode = bytecode
        lanes = wave.geometry.lanes
        self._spaces = _space_table(wave)
        self._global = wave.spaces[StateSpace.GLOBAL]
        self._counters = np.zeros(layout.COUNTERS, np.int64)
        self._scratch = np.zeros(2 * lanes, np.uint64)
        self._chosen = np.zeros((lanes // 2 + 1, 2), np.int64)
        places = 1 << (2 * lanes - 1).bit_length()
        self._keys = np.zeros(places, np.uint64)
        self._stamps = np.zeros(places + 1, np.int64)
        self._frame = np.zeros(layout.FRAME, np.int64)
        self._hot = (bytecode.code[:, layout.OP] != layout.COLD).tolist()
        self._run = _loop()

    def hot(self, pc: int) -> bool:
        """Whether the loop knows the step."""
        return self._hot[pc]

    def run(self, pc: int, stop: int, most: int, runs: Lanes, count: int) -> tuple[int, int]:
        """Run the turn's lanes from `pc` until the loop hands a step back; the new pc and how many steps it made.

        Args:
            pc: the first step.
            stop: the step before which to end.
            most: steps at most.
            runs: the lanes [runs, first and last + 1].
            count: how many they are.
        """
        wave, registers, frame = self._wave, self._wave.registers, self._frame
        assert isinstance(self._global, GlobalMemory)
        frame[: layout.TOGETHER + 1] = (pc, stop, most, 0, count, registers.present, count == registers.present)
        pc = self._run(
            self._bytecode.code,
            self._bytecode.constants,
            self._bytecode.operands,
            registers.values,
            registers.masks,
            registers.known,
            registers.never,
            runs,
            self._chosen,
            self._spaces,
            self._global.table(),
            self._counters,
            self._scratch,
            self._keys,
            self._stamps,
            frame,
        )
        wave.changes += int(self._counters[layout.CHANGES])
        self._counters[layout.CHANGES] = 0
        return pc, int(frame[layout.MADE])

    def finish(self) -> None:
        """Add what was counted to the launch's counters."""
        counters, ours = self._wave.counters, self._counters
        counters.global_bytes_read += int(ours[layout.GLOBAL_READ])
        counters.global_bytes_written += int(ours[layout.GLOBAL_WRITTEN])
        counters.shared_bytes_read += int(ours[layout.SHARED_READ])
        counters.shared_bytes_written += int(ours[layout.SHARED_WRITTEN])
        ours[:] = 0


def runs_of(selection: Selection) -> Lanes:
    """Ascending lanes as [runs, 2]: first and last + 1 of neighbours."""
    if isinstance(selection, slice):
        return np.array([[selection.start, selection.stop]])
    breaks = np.flatnonzero(np.diff(selection) != 1) + 1
    firsts, lasts = np.concatenate(([0], breaks)), np.concatenate((breaks, [selection.size])) - 1
    return np.stack((selection[firsts], selection[lasts] + 1), axis=1)


def _space_table(wave: Wave) -> Lanes:
    table = np.zeros((layout.SPACES, layout.SPACE_COLUMNS), np.int64)
    for index, space in enumerate(_WINDOWS, start=1):
        window = wave.spaces[space]
        assert isinstance(window, Window)
        table[index] = window.line()
    return table
