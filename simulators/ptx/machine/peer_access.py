"""Accesses to a peer's shared memory that nothing orders before the end of the peer's block.

A block's shared memory ends when its last thread exits. Any thread of the block that knows of the access keeps it alive
until then: the usual way is a cluster barrier behind the last access. The last access of each thread to each peer is
kept, and asked for when the peer ends; one that comes later in time is found by itself (`cluster_memory`).
"""

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order.order import Order
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.program import Step

_NEVER = -1


class PeerAccesses:
    """Last accesses of the threads of clusters to their peers.

    Args:
        geometry: who is resident.
        order: who knows what.
        reporter: where findings go.
    """

    def __init__(self, geometry: Geometry, order: Order, reporter: Reporter) -> None:
        self._geometry = geometry
        self._order = order
        self._reporter = reporter
        self._steps: list[Step] = []
        self._epoch: Lanes = np.full((geometry.resident.size, geometry.lanes_per_cluster), _NEVER, np.int64)
        self._step: Lanes = np.zeros_like(self._epoch)

    def record(self, step: Step, lanes: Lanes, blocks: Lanes) -> None:
        """Lanes access the shared memory of these blocks, of which their own do not count."""
        away = np.flatnonzero(lanes // self._geometry.lanes_per_block != blocks)
        if not away.size or not self._order.enabled:
            return
        if not self._steps or self._steps[-1] is not step:
            self._steps.append(step)
        place = blocks[away], lanes[away] % self._geometry.lanes_per_cluster
        self._epoch[place] = self._order.epochs(lanes[away])
        self._step[place] = len(self._steps) - 1

    def end(self, blocks: Lanes) -> None:
        """Blocks whose last thread exits."""
        for block in blocks[(self._epoch[blocks] != _NEVER).any(axis=1)].tolist():
            first = block // self._geometry.blocks_per_cluster * self._geometry.lanes_per_cluster
            away = np.flatnonzero(self._epoch[block] != _NEVER)
            inside = block * self._geometry.lanes_per_block + np.arange(self._geometry.lanes_per_block)
            known = self._order.know(inside, first + away, self._epoch[block, away], reads=True).any(axis=0)
            self._report(block, first + away[~known], self._step[block, away[~known]])

    def _report(self, block: int, lanes: Lanes, steps: Lanes) -> None:
        for number in np.unique(steps).tolist():
            step = self._steps[number]
            message = (
                f"{step.opcode} touches shared memory of a block of the cluster that may have exited: nothing orders "
                "it before that block's end"
            )
            rank = block % self._geometry.blocks_per_cluster
            detail = f" (rank {rank}; a cluster barrier behind the access is missing)"
            self._reporter.report(FindingKind.RACE, message, step.where, lanes[steps == number], detail)
