"""The time that kernels read: always later, never meaningful.

%clock, %clock64 and %globaltimer are legal values that a result must not depend on; nothing says so if one does. They
go on by a drawn number of cycles at every read, so that a loop that waits for a time ends, and the same seed gives the
same times. A cycle is a nanosecond here.
"""

import numpy as np

from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Step, TimeRegister

_HIGH = (TimeRegister.CLOCK_HIGH, TimeRegister.NANOSECONDS_HIGH)
_LOW = (TimeRegister.CLOCK, TimeRegister.NANOSECONDS_LOW)


def read(wave: Wave, step: Step, selection: Selection) -> None:
    """`mov` from a register that counts time: one value for the lanes that read together."""
    wave.cycles += wave.schedule.delay()
    now = wave.cycles
    if step.time in _HIGH:
        now >>= 32
    elif step.time in _LOW:
        now &= 0xFFFF_FFFF
    lanes = wave.ids(selection)
    wave.registers.write(step.destinations[0], selection, np.full(lanes.size, now, np.uint64), None)
