"""Shared memory of a cluster: addresses that carry the rank of the block whose memory they name.

Address 0x0100_0408 names byte 8 of the block of rank 1. In the window of `shared::cta` only the block's own rank is
legal, in that of `shared::cluster` every rank is. A peer's memory may be touched once its block is known to have
started, which a thread knows from a cluster barrier, and until it has exited (CUDA C++ Programming Guide,
"Distributed Shared Memory").
"""

from dataclasses import replace

import numpy as np

from tileproof.simulators.ptx.findings import FindingKind
from tileproof.simulators.ptx.layout import RANK_MASK, RANK_SHIFT
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Bits, Fault, Lanes, Mask, Piece, Window
from tileproof.simulators.ptx.machine.warp import WARP_SHIFT


class Acquaintance:
    """Which threads know that all blocks of their cluster have started, and which blocks have exited.

    Attributes:
        met: for every lane, whether it knows.
        gone: for every block, whether all of its threads have exited.
    """

    def __init__(self, geometry: Geometry) -> None:
        self._lanes_per_block = geometry.lanes_per_block
        self.met: Mask = np.full(geometry.lanes, geometry.blocks_per_cluster == 1)
        self.gone: Mask = np.zeros(geometry.resident.size, np.bool_)

    def tell_blocks(self, lanes: Lanes) -> None:
        """Lanes of one barrier tell each other, within their blocks."""
        if self.met[lanes].all():
            return
        blocks = lanes // self._lanes_per_block
        told = np.isin(blocks, blocks[self.met[lanes]])
        self.met[lanes[told]] = True

    def tell_warps(self, lanes: Lanes) -> None:
        """Lanes of one `bar.warp.sync` tell each other, within their warps."""
        if self.met[lanes].all():
            return
        warps = lanes >> WARP_SHIFT
        self.met[lanes[np.isin(warps, warps[self.met[lanes]])]] = True


class ClusterMemory:
    """The shared memory that a thread reaches through one of the two windows; see `Space`.

    Args:
        window: the memory of all resident blocks, at addresses of rank 0.
        geometry: who is which block.
        acquaintance: who may touch whose memory.
        peers: the window of `shared::cluster`, not only that of `shared::cta`.
    """

    def __init__(self, window: Window, geometry: Geometry, acquaintance: Acquaintance, *, peers: bool) -> None:
        self._window = window
        self._geometry = geometry
        self._acquaintance = acquaintance
        self._peers = peers

    def locate(self, addresses: Bits, lanes: Lanes, size: int) -> tuple[list[Piece], list[Fault]]:
        """See `Space.locate`; the address of a peer that may not have started is a fault, and a piece all the same."""
        rank = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
        own = self._geometry.rank[lanes]
        inside = addresses & ~np.uint64(RANK_MASK)
        if (rank == own).all():
            return self._window.locate(inside, lanes, size)
        owners = lanes + (rank - own) * self._geometry.lanes_per_block
        reachable = rank < self._geometry.blocks_per_cluster if self._peers else rank == own
        faults = self._unreachable(np.flatnonzero(~reachable), addresses, rank)
        gone = reachable.copy()
        gone[reachable] = self._acquaintance.gone[owners[reachable] // self._geometry.lanes_per_block]
        gone &= rank != own
        faults += self._fault(
            FindingKind.USE_AFTER_FREE, "shared memory of a block of the cluster that has exited", gone, rank
        )
        unmet = reachable & ~gone & (rank != own) & ~self._acquaintance.met[lanes]
        faults += self._fault(
            FindingKind.RACE,
            "shared memory of a block of the cluster that may not have started, with no cluster barrier before",
            unmet,
            rank,
        )
        good = np.flatnonzero(reachable & ~gone)
        if not good.size:
            return [], faults
        found, outside = self._window.locate(inside[good], owners[good], size)
        pieces = [replace(piece, positions=good[piece.positions]) for piece in found]
        return pieces, faults + [replace(fault, positions=good[fault.positions]) for fault in outside]

    def _unreachable(self, positions: Lanes, addresses: Bits, rank: Lanes) -> list[Fault]:
        if not positions.size:
            return []
        first = int(addresses[positions[0]])
        detail = f" (0x{first:08x}, of rank {int(rank[positions[0]])})"
        if self._peers or rank[positions].max() >= self._geometry.blocks_per_cluster:
            message = f"shared memory of no block of the {self._geometry.blocks_per_cluster} of the cluster"
        else:
            message = "shared memory of another block of the cluster, which only .shared::cluster reaches"
        return [Fault(FindingKind.OUT_OF_BOUNDS, message, positions, detail)]

    def _fault(self, kind: FindingKind, message: str, where: Mask, rank: Lanes) -> list[Fault]:
        positions = np.flatnonzero(where)
        if not positions.size:
            return []
        return [Fault(kind, message, positions, f" (rank {int(rank[positions[0]])})")]
