"""The time that kernels read: always later, never meaningful.

%clock, %clock64 and %globaltimer are legal values that a result must not depend on. They go on by a drawn number of
cycles at every read, so that a loop that waits for a time ends, and the same seed gives the same times. A cycle is a
nanosecond here.
"""

# Any start is legal; this one has bits in the upper half, which %clock_hi shows.
START_CYCLES = 0x0000_0012_3456_7800


class Clock:
    """One clock for all resident blocks."""

    def __init__(self) -> None:
        self._cycles = START_CYCLES

    def read(self, delay: int) -> int:
        """The time in cycles, `delay` cycles after the last read."""
        self._cycles += delay
        return self._cycles
