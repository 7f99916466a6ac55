"""Who runs next. A turn is a group of lanes at one instruction, and how far it may go.

`Friendly` runs all resident warps in lock step, the rearmost instruction first, so that diverged lanes meet again at
the first common instruction. `Adversarial` draws a warp, one of its diverged groups and a number of steps by seed. Both
are fair: a group that spins gives way.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.memory import Lanes
from tileproof.simulators.ptx.order import WARP

# A group that ran this many steps while others could run gives way: a spin must not starve the thread it waits for
# (forward progress of diverged threads: CUDA C++ Programming Guide, "Independent Thread Scheduling").
PATIENCE_STEPS = 4096
# Longest drawn turn of the adversarial schedule, in steps.
LONGEST_TURN_STEPS = 64
# Lanes of one wave: numpy is fastest per lane between a few thousand and some ten thousand lanes.
WAVE_LANES = 8192
_NEVER = np.iinfo(np.int64).max


class ScheduleName(StrEnum):
    """Names of the schedules."""

    FRIENDLY = "friendly"
    ADVERSARIAL = "adversarial"

    @classmethod
    def parse(cls, name: str) -> "ScheduleName":
        """The schedule of this name.

        Raises:
            Refusal: there is none.
        """
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(cls)
            raise Refusal(f"unknown schedule {name!r}", hint=f"one of: {known}") from None


@dataclass(frozen=True)
class Turn:
    """Lanes that run together from `pc` until they reach `stop` or have made `steps` steps."""

    lanes: Lanes
    pc: int
    stop: int
    steps: int


class Schedule(Protocol):
    """Chooses turns."""

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """A turn for some of the `running` lanes (at least one); `pc` is indexed by lane."""
        ...

    def progress(self) -> None:
        """The last turn ended by itself, not because its steps were used up."""
        ...

    def wave(self, blocks: Lanes, most: int) -> Lanes:
        """The blocks that become resident together, at least one and at most `most`, out of those that are left."""
        ...


class Friendly:
    """Lock step, rearmost first; blocks in order."""

    def __init__(self) -> None:
        self._skip = 0

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """See `Schedule.next_turn`."""
        places = pc[running]
        first = int(places.min())
        if int(places.max()) == first:
            self._skip = 0
            return Turn(running, first, _NEVER, _NEVER)
        distinct = np.unique(places)
        chosen = self._skip % distinct.size
        start = int(distinct[chosen])
        stop = int(distinct[chosen + 1]) if chosen + 1 < distinct.size else _NEVER
        self._skip += 1  # `progress` takes it back unless the turn ran out of patience
        return Turn(running[places == start], start, stop, PATIENCE_STEPS)

    def progress(self) -> None:
        """See `Schedule.progress`: start again from the rearmost group."""
        self._skip = 0

    def wave(self, blocks: Lanes, most: int) -> Lanes:
        """See `Schedule.wave`."""
        return blocks[:most]


class Adversarial:
    """Random interleaving of warps, diverged groups and blocks, from one seed."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._random = np.random.default_rng(seed)

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """See `Schedule.next_turn`."""
        lane = int(running[self._random.integers(running.size)])
        warp = running[running // WARP == lane // WARP]
        group = warp[pc[warp] == pc[lane]]
        return Turn(group, int(pc[lane]), _NEVER, int(self._random.integers(1, LONGEST_TURN_STEPS + 1)))

    def progress(self) -> None:
        """See `Schedule.progress`: nothing to remember."""

    def wave(self, blocks: Lanes, most: int) -> Lanes:
        """See `Schedule.wave`."""
        count = int(self._random.integers(1, min(most, blocks.size) + 1))
        return self._random.permutation(blocks)[:count]
