"""A schedule that leaves one thing open: which warp is next to make an instruction whose outcome depends on it.

Without such instructions it is the friendly schedule. With them threads go by themselves up to the *open* ones, atomics
and strong accesses as a rule. Where everybody who can run stands before one, a number says whose turn it is, of the
warps in ascending order. A list of numbers is one interleaving of these instructions, and `options` says how many
numbers there were at each place, so that all can be enumerated:

    block 0: max, add     block 1: max, add     [] = 0 0 1 1, [1] = 1 0 0 1, [0, 1] = 0 1 0 1, ...
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tileproof.simulators.ptx.machine.forward import NEVER, up_to
from tileproof.simulators.ptx.machine.memory import Lanes, Mask
from tileproof.simulators.ptx.machine.schedule import Friendly, Turn
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT
from tileproof.simulators.ptx.program import Kind, Program


class Chosen(Friendly):
    """Follows numbers through one launch; behind the last one it takes 0.

    Attributes:
        options: how many there were to choose from, at each place in turn.
        waves_begun: of blocks that are resident together: only within one the order is chosen.
        most_lanes: of one warp that made an atomic together, whose turns are not chosen.
        unfenced: a thread has come to two open instructions without one of the fences between.

    Args:
        program: the kernel.
        is_open: by step, whether its order is chosen.
        fences: by step, whether it keeps two open ones of a thread apart.
        choices: the numbers.
    """

    def __init__(self, program: Program, is_open: Mask, fences: Mask, choices: Sequence[int]) -> None:
        super().__init__()
        self._open = np.array([*is_open, False])
        self._fences = np.array([*fences, False])
        self._made: set[int] = set()  # lanes with an open instruction behind their last fence
        self._branches = np.array([*(step.kind is Kind.BRANCH for step in program.steps), False])
        self._has_choices = bool(self._open.any())
        self._choices = choices
        self.options: list[int] = []
        self.waves_begun = 0
        self.most_lanes = 0
        self.unfenced = False

    def waves(self, blocks: int, most: int) -> Iterator[Lanes]:
        """See `Schedule.waves`."""
        for wave in super().waves(blocks, most):
            self.waves_begun += 1
            yield wave

    def next_turn(self, pc: Lanes, running: Lanes) -> Turn:
        """See `Schedule.next_turn`."""
        if not self._has_choices:
            return super().next_turn(pc, running)
        free = running[~self._open[pc[running]]]
        if free.size:
            return self._alone(pc, free)
        places = np.stack([running >> WARP_SHIFT, pc[running]], axis=1)
        parties, party = np.unique(places, axis=0, return_inverse=True)
        number = self._choices[len(self.options)] if len(self.options) < len(self._choices) else 0
        self.options.append(len(parties))
        lanes = running[party.reshape(-1) == number]
        self.unfenced |= not self._made.isdisjoint(lanes.tolist())
        self._made.update(lanes.tolist())
        return Turn(lanes, int(pc[lanes[0]]), NEVER, 1)

    def _alone(self, pc: Lanes, lanes: Lanes) -> Turn:
        """The rearmost go on, through a fence by itself."""
        first = int(pc[lanes].min())
        if not self._fences[first]:
            return up_to(pc, lanes, self._open | self._fences, self._branches)
        together = lanes[pc[lanes] == first]
        self._made.difference_update(together.tolist())
        return Turn(together, first, NEVER, 1)

    def lane_order(self, count: int) -> Lanes | None:
        """See `Schedule.lane_order`: ascending, and told."""
        self.most_lanes = max(self.most_lanes, count)
        return None
