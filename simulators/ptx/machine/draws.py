"""What the adversarial schedule draws most often, from states of 64 bits: turns, and when copies land.

It is compiled, because there is a turn for every few steps, and because compiled code issues `cp.async`. A state goes
on by splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

import numpy as np
from numpy.typing import NDArray

from tileproof.oracle.numbers.compiled import compiled, inlined

State = NDArray[np.uint64]
Lanes = NDArray[np.int64]

# Longest drawn turn, in steps.
LONGEST_TURN_STEPS = 64
# Shares of turns: of one warp alone; that end where they meet others; that draw among the instructions where lanes
# stand instead of among the lanes, so that one lane that many others wait for is not kept waiting.
_LONE_TURNS = 0.25
_MEETINGS = 0.75
_BY_PLACE = 0.5
# Share of turns in which some threads go ahead of the others of their warps.
_APART = 0.2
# Shares of copies that land only when they must, and at issue; turns after which others land by themselves, at most.
_LATEST_LANDINGS = 0.6
_LANDINGS_AT_ONCE = 0.1
LONGEST_LANDING_TURNS = 64
#: Of `landing`: only when it must.
LATEST = -1
_NEVER = np.iinfo(np.int64).max
_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_UNIT = 2.0**-53


@inlined
def uniform(state: State) -> float:
    """A number from 0 to 1, and the next state."""
    state[0] += _GOLDEN
    mixed = state[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return np.float64(mixed >> np.uint64(11)) * _UNIT


@inlined
def _below(state: State, count: int) -> int:
    """A number from 0 to below `count`."""
    return int(uniform(state) * count)


@inlined
def _chosen(state: State, pc: Lanes, running: Lanes) -> int:
    """The lane whose instruction the turn begins with."""
    if uniform(state) >= _BY_PLACE:
        return running[_below(state, running.size)]  # type: ignore[no-any-return]
    places = np.unique(pc[running])
    place = places[_below(state, places.size)]
    count = 0
    for lane in running:
        count += pc[lane] == place
    left = _below(state, count)
    for lane in running:
        left -= pc[lane] == place
        if left < 0:
            return lane  # type: ignore[no-any-return]
    return running[0]  # type: ignore[no-any-return]


@inlined
def _group(state: State, pc: Lanes, running: Lanes, lane: int, group: Lanes) -> int:
    """The lanes that run, of those at the instruction of `lane`: its warp, and perhaps others; how many."""
    share, count, last, joins = 0.0, 0, -1, False
    if uniform(state) >= _LONE_TURNS:
        share = np.sqrt(uniform(state))  # more often many than few: whoever falls behind is company later
    for other in running:
        if pc[other] != pc[lane]:
            continue
        warp = other >> 5
        if warp != last:
            last, joins = warp, uniform(state) < share
        if joins or warp == lane >> 5:
            group[count] = other
            count += 1
    return count


@inlined
def _stop(state: State, pc: Lanes, running: Lanes, place: int) -> int:
    """The next instruction at which others stand, if the turn ends there."""
    stop = _NEVER
    for lane in running:
        if place < pc[lane] < stop:
            stop = pc[lane]
    return stop if uniform(state) < _MEETINGS else _NEVER


@compiled
def draw(state: State, pc: Lanes, running: Lanes) -> tuple[Lanes, int, int, NDArray[np.bool_]]:
    """The lanes of a turn, where it ends, its steps at most, and which of its lanes go ahead: none for a common turn.

    Args:
        state: of the draws, uint64 [1].
        pc: program counters, by lane.
        running: lanes that can step, ascending; at least one.
    """
    lane = _chosen(state, pc, running)
    group = np.empty(running.size, np.int64)
    count = _group(state, pc, running, lane, group)
    stop = _stop(state, pc, running, pc[lane])
    ahead = np.zeros(count, np.bool_)
    if uniform(state) < _APART:
        share = uniform(state)
        for position in range(count):
            ahead[position] = uniform(state) < share
    return group[:count], stop, 1 + _below(state, LONGEST_TURN_STEPS), ahead


@compiled
def landing(state: State) -> int:
    """Turns until a copy that is issued now lands by itself, 0 for at once, LATEST for never."""
    kind = uniform(state)
    if kind < _LATEST_LANDINGS:
        return LATEST
    return 0 if kind < _LATEST_LANDINGS + _LANDINGS_AT_ONCE else 1 + _below(state, LONGEST_LANDING_TURNS - 1)
