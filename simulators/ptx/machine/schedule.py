"""Who runs next. A turn is a group of lanes at one instruction, and how far it may go.

`Friendly` runs all resident warps in lock step, the rearmost instruction first, so that diverged lanes meet again at
the first common instruction. `Adversarial` draws warps, diverged groups and numbers of steps by seed. Both are fair: a
group that spins gives way.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT

# A group that ran this many steps while others could run gives way: a spin must not starve the thread it waits for
# (forward progress of diverged threads: CUDA C++ Programming Guide, "Independent Thread Scheduling").
PATIENCE_STEPS = 4096
# So does one that polled this often: strong loads, and atomics that change nothing.
PATIENCE_POLLS = 16
# Cycles between two reads of the time: a wait loop of compiled code takes a few dozen.
SHORTEST_DELAY = 32
LONGEST_DELAY = 4096
# Blocks that the adversarial schedule starts in random order, at most.
SHUFFLED_BLOCKS = 1 << 16
_NEVER = np.iinfo(np.int64).max
DrawState = NDArray[np.uint64]


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
    """Lanes that run together from `pc` until they reach `stop` or have made `steps` steps.

    Attributes:
        ahead: which of the lanes go first as far as threads go by themselves; the others follow to the same place.
            Between two instructions that hold a warp together nothing says that its threads keep step.
    """

    lanes: Lanes
    pc: int
    stop: int
    steps: int
    ahead: Mask | None = None


class Schedule(Protocol):
    """Everything that a GPU leaves open and somebody must choose."""

    def waves(self, blocks: int, most: int) -> Iterator[Lanes]:
        """Linear indices of the blocks that are resident together, at most `most` at a time, until all had a turn."""
        ...

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """A turn for some of the `running` lanes (at least one, ascending); `pc` is indexed by lane."""
        ...

    def room(self, clusters: int) -> int:
        """How many of a wave's clusters are resident at once, as long as they get on."""
        ...

    def progress(self) -> None:
        """The last turn ended by itself, not because its steps were used up."""
        ...

    def weak(self) -> np.random.Generator | None:
        """What draws late stores and stale loads; None if all see every store at once."""
        ...

    def lane_order(self, count: int) -> Lanes | None:
        """The order in which the lanes of one atomic take turns; None for ascending."""
        ...

    def landing_delay(self) -> int | None:
        """Turns until a copy that is issued now lands by itself, 0 for at once; None if only when it must."""
        ...

    def landings(self) -> DrawState | None:
        """The state from which `landing_delay` draws, for compiled code; None where all copies land at issue."""
        ...

    def lands_at_poll(self) -> bool:
        """Whether a copy lands when a wait for it has failed."""
        ...

    def refuses(self, lanes: Lanes) -> Mask:
        """Which lanes' `mbarrier.try_wait` that could come true are false all the same."""
        ...

    def delay(self) -> int:
        """Cycles that pass before a thread reads the time."""
        ...

    def multiprocessors(self, blocks: int, count: int) -> Lanes:
        """The multiprocessor, of `count`, that each of the resident blocks runs on."""
        ...

    def leader(self, members: int) -> int:
        """The lane that `elect.sync` elects from a member mask: the same one each time (PTX ISA, "elect.sync")."""
        ...


def lowest_lane(members: int) -> int:
    """Of a member mask."""
    return (members & -members).bit_length() - 1


class Friendly:
    """Lock step, rearmost first; blocks and lanes in order."""

    def __init__(self) -> None:
        self._skip = 0

    def waves(self, blocks: int, most: int) -> Iterator[Lanes]:
        """See `Schedule.waves`."""
        for start in range(0, blocks, most):
            yield np.arange(start, min(start + most, blocks))

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """See `Schedule.next_turn`."""
        places = pc[running]
        first = int(places.min())
        if int(places.max()) == first:
            self._skip = 0
            return Turn(running, first, _NEVER, PATIENCE_STEPS)
        distinct = np.unique(places)
        chosen = self._skip % distinct.size
        start = int(distinct[chosen])
        stop = int(distinct[chosen + 1]) if chosen + 1 < distinct.size else _NEVER
        self._skip += 1  # `progress` takes it back unless the turn ran out of patience
        return Turn(running[places == start], start, stop, PATIENCE_STEPS)

    def room(self, clusters: int) -> int:
        """See `Schedule.room`: all."""
        return clusters

    def progress(self) -> None:
        """See `Schedule.progress`: start again from the rearmost group."""
        self._skip = 0

    def weak(self) -> np.random.Generator | None:
        """See `Schedule.weak`."""
        return None

    def lane_order(self, count: int) -> Lanes | None:
        """See `Schedule.lane_order`."""
        return None

    def landing_delay(self) -> int | None:
        """See `Schedule.landing_delay`: copies land at issue."""
        return 0

    def landings(self) -> DrawState | None:
        """See `Schedule.landings`."""
        return None

    def lands_at_poll(self) -> bool:
        """See `Schedule.lands_at_poll`."""
        return True

    def refuses(self, lanes: Lanes) -> Mask:
        """See `Schedule.refuses`: none."""
        return np.zeros(lanes.size, np.bool_)

    def delay(self) -> int:
        """See `Schedule.delay`."""
        return SHORTEST_DELAY

    def multiprocessors(self, blocks: int, count: int) -> Lanes:
        """See `Schedule.multiprocessors`."""
        return np.arange(blocks) % count

    def leader(self, members: int) -> int:
        """See `Schedule.leader`: the lowest lane."""
        return lowest_lane(members)


@cache
def _draws() -> ModuleType:
    """What draws most often, compiled; imported at first use, because numba takes long to load."""
    from tileproof.simulators.ptx.machine import draws

    return draws


class Adversarial:
    """Random interleaving of warps, diverged groups and blocks, from one seed.

    A turn runs the lanes of one warp at one instruction alone, or with a drawn share of the other warps that stand
    there; it may end where it would meet others. Lone turns give the wildest interleavings, shared ones the speed.

    Args:
        seed: of all draws.
        lowest_leader: `elect.sync` elects the lowest lane.
    """

    def __init__(self, seed: np.random.SeedSequence, lowest_leader: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        self._weak = np.random.default_rng(seed.spawn(1)[0])
        states = (child.generate_state(1, np.uint64).astype(np.uint64) for child in seed.spawn(2))
        self._turns, self._landings = states
        self._leaders: dict[int, int] = {}
        self._lowest_leader = lowest_leader

    def waves(self, blocks: int, most: int) -> Iterator[Lanes]:
        """See `Schedule.waves`."""
        for start in range(0, blocks, SHUFFLED_BLOCKS):
            order = start + self._random.permutation(min(SHUFFLED_BLOCKS, blocks - start))
            for first in range(0, order.size, most):
                yield order[first : first + most]

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """See `Schedule.next_turn`."""
        lanes, stop, steps, ahead = _draws().draw(self._turns, pc, running)
        return Turn(lanes, int(pc[lanes[0]]), stop, steps, ahead if ahead.any() else None)

    def room(self, clusters: int) -> int:
        """See `Schedule.room`: any number."""
        return int(self._random.integers(1, clusters + 1))

    def progress(self) -> None:
        """See `Schedule.progress`: nothing to remember."""

    def weak(self) -> np.random.Generator | None:
        """See `Schedule.weak`: draws of its own, so that they do not move the interleaving."""
        return self._weak

    def lane_order(self, count: int) -> Lanes | None:
        """See `Schedule.lane_order`."""
        return self._random.permutation(count)

    def landing_delay(self) -> int | None:
        """See `Schedule.landing_delay`: most copies land as late as they may."""
        delay: int = _draws().landing(self._landings)
        return None if delay < 0 else delay

    def landings(self) -> DrawState | None:
        """See `Schedule.landings`."""
        return self._landings

    def lands_at_poll(self) -> bool:
        """See `Schedule.lands_at_poll`."""
        return bool(self._random.random() < _LANDINGS_AT_POLL)

    def refuses(self, lanes: Lanes) -> Mask:
        """See `Schedule.refuses`: mostly a warp's wait fails as a whole, as the hardware has it."""
        if not lanes.size or self._random.random() < _REFUSALS_BY_LANE:
            return np.asarray(self._random.random(lanes.size) < _REFUSALS)
        warps = lanes >> WARP_SHIFT
        first = int(warps[0])
        return np.asarray((self._random.random(int(warps[-1]) - first + 1) < _REFUSALS)[warps - first])

    def delay(self) -> int:
        """See `Schedule.delay`."""
        return int(self._random.integers(SHORTEST_DELAY, LONGEST_DELAY + 1))

    def multiprocessors(self, blocks: int, count: int) -> Lanes:
        """See `Schedule.multiprocessors`."""
        return self._random.permutation(max(blocks, count))[:blocks] % count

    def leader(self, members: int) -> int:
        """See `Schedule.leader`."""
        if self._lowest_leader:
            return lowest_lane(members)
        if members not in self._leaders:
            lanes = [lane for lane in range(32) if members >> lane & 1]
            self._leaders[members] = int(self._random.choice(lanes))
        return self._leaders[members]


# Shares of polls that land what they wait for; and of waits that could come true and do not,
# of which a share fail lane by lane.
_LANDINGS_AT_POLL = 0.4
_REFUSALS = 0.25
_REFUSALS_BY_LANE = 0.25
