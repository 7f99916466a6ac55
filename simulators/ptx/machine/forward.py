"""How far lanes go by themselves: up to instructions that somebody else decides about."""

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.schedule import PATIENCE_STEPS, Turn

NEVER = int(np.iinfo(np.int64).max)


def up_to(pc: Lanes, lanes: Lanes, targets: Mask, branches: Mask) -> Turn:
    """The rearmost of some lanes, up to the next of the instructions or to where others of them stand.

    A branch is a turn by itself: it may lead back, to an instruction that lies behind.

    Args:
        pc: of every lane.
        lanes: who may go, at least one.
        targets: which steps of the program to stop before.
        branches: which steps are branches.
    """
    places = pc[lanes]
    first = int(places.min())
    together = lanes[places == first]
    if branches[first]:
        return Turn(together, first, NEVER, 1)
    ahead = np.flatnonzero(targets[first:] | branches[first:])
    stop = min(int(first + ahead[0]) if ahead.size else NEVER, _meeting(places, first))
    return Turn(together, first, stop, PATIENCE_STEPS)


def _meeting(places: Lanes, first: int) -> int:
    """The next place where others stand."""
    later = places[places > first]
    return int(later.min()) if later.size else NEVER
