"""Reads of the time, and traps."""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Step, TimeRegister

_HIGH = (TimeRegister.CLOCK_HIGH, TimeRegister.NANOSECONDS_HIGH)
_LOW = (TimeRegister.CLOCK, TimeRegister.NANOSECONDS_LOW)


class Trapped(Exception):
    """A thread executed a trap: the launch ends here."""


def read_clock(wave: Wave, step: Step, selection: Selection) -> None:
    """`mov` from a register that counts time: one value for the lanes that read together."""
    now = wave.clock.read(wave.schedule.delay())
    if step.time in _HIGH:
        now >>= 32
    elif step.time in _LOW:
        now &= 0xFFFF_FFFF
    lanes = wave.ids(selection)
    wave.registers.write(step.destinations[0], selection, np.full(lanes.size, now, np.uint64), None)


def trap(wave: Wave, step: Step, selection: Selection) -> None:
    """`trap` and `brkpt`: nobody can step after it.

    Raises:
        Trapped: always.
    """
    message = f"{step.opcode} ends the launch: the kernel stopped itself"
    wave.report(FindingKind.DEADLOCK, message, step.where, wave.ids(selection))
    raise Trapped
