"""A barrier that a warp comes to again although nothing tells it that the round before is complete.

A warp that executed `bar.arrive` does not wait: until it learns that the round is complete, another instruction on that
barrier may count in the same round (PTX ISA, "barrier{.cta}": "Care must be taken to keep a warp from executing more
barrier{.cta} instructions than intended"). It knows from a thread that waited and went on, or when it knows of the
arrivals of all; whichever way it learned that: other barriers, mbarriers, flags.
"""

import numpy as np

from tileproof.simulators.ptx.machine.barrier_state import BARRIERS, Round
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.machine.wave import Wave


def unaware(wave: Wave, lanes: Lanes, numbers: Lanes) -> Lanes:
    """Lanes that come to barriers too early; what was remembered of them is dropped."""
    rounds = wave.block_barriers.rounds
    if not rounds:
        return lanes[:0]
    blocks, early = lanes // wave.geometry.lanes_per_block, [lanes[:0]]
    warps = lanes >> WARP_SHIFT
    for warp, key in sorted(set(zip(warps.tolist(), (blocks * BARRIERS + numbers).tolist(), strict=True))):
        last = rounds.pop((key, warp), None)
        mine = lanes[(warps == warp) & (numbers == key % BARRIERS)]
        if last is not None and not _knows(wave, mine, last):
            early.append(mine)
    return np.concatenate(early)


def remember(wave: Wave, number: int, came: Lanes, waited: Lanes) -> None:
    """Rounds of a barrier, of one or more blocks, are complete: keep them for the warps that did not wait."""
    table = wave.block_barriers
    if not wave.order.enabled or came.size == waited.size:
        return
    blocks, waited_blocks = came // wave.geometry.lanes_per_block, waited // wave.geometry.lanes_per_block
    for block in np.unique(blocks[~np.isin(came, waited)]).tolist():
        here, on = came[blocks == block], waited[waited_blocks == block]
        last = Round(here, table.came_at[number, here], on, wave.order.epochs(on))
        for warp in np.unique(here[~np.isin(here, on)] >> WARP_SHIFT).tolist():
            table.rounds[block * BARRIERS + number, warp] = last


def _knows(wave: Wave, lanes: Lanes, last: Round) -> bool:
    """Whether any of a warp's lanes knows that the round is complete."""
    if wave.order.know(lanes, last.waited, last.went_on_at).any():
        return True
    return bool(wave.order.know(lanes, last.came, last.came_at).all(axis=1).any())
