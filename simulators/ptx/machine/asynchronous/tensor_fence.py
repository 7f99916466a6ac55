"""`fence.proxy.tensormap::generic.acquire`: who may use which tensor map in global memory.

A map there is read through a proxy of its own, which a thread of the block that copies must fence after the map's last
write, also where the host or an earlier kernel wrote it (PTX ISA, "membar / fence"; CUDA C++ Programming Guide, "Tensor
Memory Access"). The fence counts as a read of the map; that a map still is what it was at the fence is asked of its
bytes. The fence that releases, on the writer's side, is not asked for.
"""

from typing import TYPE_CHECKING

import numpy as np

from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.machine.order.kinds import AccessKind
from tileproof.simulators.ptx.program import StateSpace, Step
from tileproof.simulators.ptx.tensor_map import ALIGNMENT, NBYTES

if TYPE_CHECKING:
    from tileproof.simulators.ptx.machine.wave import Wave

_FENCE = "fence.proxy.tensormap::generic.acquire"


class MapFences:
    """For each block and address, the threads that fenced the map: when, and what it was."""

    def __init__(self) -> None:
        self._fenced: dict[tuple[int, int], dict[int, tuple[int, bytes]]] = {}

    def acquire(self, wave: "Wave", step: Step, pc: int, lanes: Lanes) -> None:
        """Lanes fence the maps at their addresses; an address that is no map's is left to the copy."""
        assert step.fence is not None
        addresses = wave.registers.read(step.sources[0], lanes)
        addresses = addresses + np.uint64(step.fence.offset & 0xFFFF_FFFF_FFFF_FFFF)
        epochs = wave.order.epochs(lanes) if wave.order.enabled else np.zeros_like(lanes)
        for piece in wave.spaces[StateSpace.GLOBAL].locate(addresses, lanes, NBYTES)[0]:
            positions = np.arange(lanes.size)[piece.positions]
            aligned = piece.offsets % ALIGNMENT == 0
            positions, offsets = positions[aligned], piece.offsets[aligned]
            for start in range(0, NBYTES, ALIGNMENT):
                wave.order.access(
                    AccessKind(False), step, pc, lanes[positions], StateSpace.GLOBAL, piece.backing, offsets + start,
                    ALIGNMENT,
                )  # fmt: skip
            for position, offset in zip(positions.tolist(), offsets.tolist(), strict=True):
                lane = int(lanes[position])
                key = lane // wave.geometry.lanes_per_block, int(addresses[position])
                data = piece.backing.data[offset : offset + NBYTES].tobytes()
                self._fenced.setdefault(key, {})[lane] = int(epochs[position]), data

    def missing(self, wave: "Wave", lane: int, address: int, data: bytes) -> str | None:
        """What a copy by this lane with the map at this address, which is `data`, does wrong."""
        fenced = self._fenced.get((lane // wave.geometry.lanes_per_block, address), {})
        if not fenced:
            return f"uses a tensor map in global memory without {_FENCE} in its block"
        known = [map_then for who, (epoch, map_then) in fenced.items() if _knows(wave, lane, who, epoch)]
        if not known:
            return f"uses a tensor map in global memory, and nothing orders {_FENCE} of its block before that"
        if data not in known:
            return f"uses a tensor map in global memory that was written after {_FENCE} of its block"
        return None


def _knows(wave: "Wave", lane: int, who: int, epoch: int) -> bool:
    return not wave.order.enabled or bool(wave.order.know(np.array([lane]), np.array([who]), np.array([epoch])).all())
