"""What `bar.red` computes: and, or, or the count of the predicates of the threads that met at a barrier."""

from collections.abc import Sequence

import numpy as np

from tileproof.simulators.ptx.machine.memory import Bits, Lanes
from tileproof.simulators.ptx.machine.registers import EVERY_BIT
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import CollectiveMode, Step


def reduce(wave: Wave, steps: Sequence[Step], groups: Sequence[Lanes]) -> None:
    """Write the result of each block to its lanes; `groups` are the lanes that came by each of `steps`."""
    blocks = wave.geometry.resident.size
    total, true, unknown = (np.zeros(blocks, np.int64) for _ in range(3))
    for step, here in zip(steps, groups, strict=True):
        block = here // wave.geometry.lanes_per_block
        undefined = wave.registers.undefined(step.sources, here)
        np.add.at(total, block, 1)
        np.add.at(true, block, (wave.registers.read(step.sources[0], here) != 0) != step.negated)
        if undefined is not None:
            np.add.at(unknown, block, undefined[0] != 0)
    for step, here in zip(steps, groups, strict=True):
        block = here // wave.geometry.lanes_per_block
        mask = np.where(unknown[block] > 0, EVERY_BIT, np.uint64(0)) if unknown.any() else None
        wave.registers.write(step.destinations[0], here, _result(step.mode, true[block], total[block]), mask)


def _result(mode: CollectiveMode | None, true: Lanes, total: Lanes) -> Bits:
    results = {CollectiveMode.ALL: true == total, CollectiveMode.ANY: true > 0}
    chosen: Bits = results.get(mode, true).astype(np.uint64) if mode is not None else true.astype(np.uint64)
    return chosen
