"""The fold of one quantise launch, block by block: what happens to the words of the ring on the device.

A block of the launch holds the largest magnitude it saw. It

    1. raises the collected maximum to its own: atomicMax on the bit pattern, whose order is that of non-negative
       floats; with scratch slots in slot (y · gx + x) mod 32, so that not every block meets on one address;
    2. takes a ticket, atomicAdd(counter, 1);
    3. if the ticket is gx · gy - 1 it is the last: it writes the collected maximum to history[index], takes the maximum
       of the window (fmaxf: NaN is dropped), publishes scale and reciprocal, and sets counter and collected maxima
       to 0 for the next launch.

Example: grid (2, 2), tickets 0, 1, 2, 3; the block with ticket 3 publishes. Compared with gx - 1 = 1 instead, the
second block publishes, and after its reset of the counter the fourth does too, each the maximum of two blocks: the
later one overwrites the earlier, and the scale is too small for the tensor. AstrAI had that defect on its
two-dimensional grid.

The result does not depend on the order of the blocks, nor on the grid. It does depend on a counter that a launch cut
short has left: then some earlier block is taken for the last, and the counter ends where it began, so that the ring
never recovers by itself.

Sources: the stages' own (`ring_stage`); the seed stage collects its maximum outside the ring, in a word that the host
zeroes before each launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tileproof.oracle.formats import FLOAT32, FloatFormat
from tileproof.oracle.numbers.number import Number
from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import Field
from tileproof.oracle.ring.ring_state import RingState, as_bits, reciprocal_field, scale_field
from tileproof.oracle.ring.scale_formula import below, float32_bits, published_scale, reciprocal


@dataclass(frozen=True)
class Block:
    """One block of a quantise launch: its place in the grid and the largest magnitude it saw, NaN dropped."""

    amax: np.float32
    x: int = 0
    y: int = 0


@dataclass(frozen=True)
class Launch:
    """A quantise launch: its grid and its blocks in the order in which they take their tickets.

    Raises:
        Refusal: a block is missing, comes twice, lies outside the grid, or holds an amax that is negative or NaN.
    """

    grid: tuple[int, int]
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        gx, gy = self.grid
        if sorted((block.x, block.y) for block in self.blocks) != [(x, y) for x in range(gx) for y in range(gy)]:
            raise Refusal(
                f"{len(self.blocks)} blocks do not fill the grid {gx} x {gy} once", hint="name each block of the grid"
            )
        for block in self.blocks:
            if np.isnan(block.amax) or np.signbit(block.amax):
                raise Refusal(
                    f"block ({block.x}, {block.y}) has amax {block.amax}, negative or NaN",
                    hint="fmaxf of magnitudes, from 0, gives neither",
                )

    @classmethod
    def single(cls, amax: np.float32) -> "Launch":
        """A launch of one block."""
        return cls((1, 1), (Block(amax),))


@dataclass(frozen=True)
class FoldRule:
    """The constants that a launch passes to the fold."""

    target: FloatFormat
    margin: int = 0


def fold(state: RingState, launch: Launch, rule: FoldRule) -> RingState:
    """The state after a launch; index and current pair are the host's and stay.

    Args:
        state: the ring before the launch.
        launch: with no block (grid (0, y)) the device does nothing.
        rule: format and margin of the scale.

    Raises:
        Refusal: the index is outside the window and the stage checks it, or a stage that always launches a block is
            given none.
    """
    if state.stage.checks_index and not 0 <= state.index < state.window:
        raise Refusal(
            f"index {state.index} is outside the window, 0..{state.window - 1}",
            hint="the host advances it modulo the window",
        )
    if not launch.blocks and not state.stage.may_launch_nothing:
        raise Refusal(
            f"a launch without a block: the {state.stage.name} stage launches one for an empty tensor too",
            hint="fold Launch.single(np.float32(0))",
        )
    arrival = Arrival(state)
    for block in launch.blocks:
        arrival = arrive(arrival, block, launch.grid, rule)
    return arrival.state


@dataclass(frozen=True)
class Arrival:
    """The ring after a block has arrived, and the collected maximum where that lies outside the ring."""

    state: RingState
    outside: int = 0


def arrive(before: Arrival, block: Block, grid: tuple[int, int], rule: FoldRule) -> Arrival:
    """One block collects, takes its ticket and, if it is the last, publishes."""
    collected = _collect(before, block, grid)
    ticket = collected.state.counter
    state = collected.state.write(Field.COUNTER, (ticket + 1) % 2**32)
    if ticket != grid[0] * grid[1] - 1:
        return Arrival(state, collected.outside)
    peak = max(_collected(collected))
    return Arrival(_clean(publish(_remember(state, peak), rule), peak), collected.outside)


def publish(state: RingState, rule: FoldRule) -> RingState:
    """Writes the scale of the window, and its reciprocal where the stage keeps one."""
    scale = published_scale(window_peak(state), rule.target, rule.margin)
    pair = state.publishing_pair
    state = state.write(scale_field(pair), float32_bits(scale))
    if Field.RECIPROCAL in state.stage.fields:
        state = state.write(reciprocal_field(pair), float32_bits(reciprocal(scale)))
    return state


def window_peak(state: RingState) -> Number:
    """The largest amax of the window, NaN dropped; NaN where nothing else is there."""
    values = [FLOAT32.number(state.read(Field.HISTORY, slot)) for slot in range(state.window)]
    kept = [value for value in values if not value.is_nan]
    return _largest(kept) if kept else values[0]


def _collect(before: Arrival, block: Block, grid: tuple[int, int]) -> Arrival:
    state, amax = before.state, as_bits(block.amax)
    match state.stage.maximum_field:
        case None:
            return Arrival(state, max(before.outside, amax))
        case Field.SCRATCH:
            slots = list(_collected(before))
            slot = (block.y * grid[0] + block.x) % state.stage.scratch_slots
            slots[slot] = max(slots[slot], amax)
            return Arrival(state.write(Field.SCRATCH, *slots))
        case field:
            return Arrival(state.write(field, max(state.read(field), amax)))


def _collected(arrival: Arrival) -> Sequence[int]:
    """The collected maxima: one, or one for each scratch slot."""
    state = arrival.state
    field = state.stage.maximum_field
    if field is None:
        return [arrival.outside]
    return [state.read(field, slot) for slot in range(state.stage.words(field, state.window))]


def _remember(state: RingState, peak: int) -> RingState:
    """history[index] = peak; an index outside the window writes nothing (only the seed stage lets it come this far)."""
    if not 0 <= state.index < state.window:
        return state
    words = list(state.words)
    words[state.stage.offset(Field.HISTORY, state.window) + state.index] = peak
    return replace(state, words=tuple(words))


def _clean(state: RingState, peak: int) -> RingState:
    """What the last block leaves behind: counter 0, collected maxima 0, and beside scratch slots the launch's amax."""
    state = state.write(Field.COUNTER, 0)
    match state.stage.maximum_field:
        case None:
            return state
        case Field.SCRATCH:
            return state.write(Field.SCRATCH, *[0] * state.stage.scratch_slots).write(Field.AMAX, peak)
        case field:
            return state.write(field, 0)


def _largest(values: Sequence[Number]) -> Number:
    largest = values[0]
    for value in values[1:]:
        if below(largest, value):
            largest = value
    return largest
