"""The tables behind the slots of shadows: records of accesses, and chained sets of them.

They grow until they are large; then what no slot leads to any more goes, and numbers start again.
"""

from weakref import WeakSet

import numpy as np

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.shadow import Shadow

_FIRST_ROOM = 1 << 14
# Tables smaller than the shadows that lead to them, or than the first of these, grow without asking what is still of
# use; from the second size on they are always asked.
_SMALL, _COLLECTED_FROM = 1 << 16, 1 << 20
# Numbers have 26 bits in a slot.
_MOST = 1 << 26


class Touched:
    """Records and sets of the accesses to global memory, or to the shared memory of a wave.

    Attributes:
        records: see `compiled_order`.
        nodes: likewise.
        state: likewise.
        collections: grows whenever numbers change: who remembers numbers forgets them.
        moves: grows whenever slots of a shadow move: who remembers where they were forgets it.
    """

    def __init__(self) -> None:
        self.records = np.zeros((_FIRST_ROOM, core.RECORD_COLUMNS), np.int32)
        self.nodes = np.zeros((_FIRST_ROOM, core.NODE_COLUMNS), np.uint32)
        self.state = np.ones(core.STATES, np.int64)  # number 0 stands for none
        self.collections = 0
        self.moves = 0
        self._shadows: WeakSet[Shadow] = WeakSet()

    def shadow(self, nbytes: int) -> Shadow:
        """A new shadow whose slots lead here."""
        shadow = Shadow(nbytes)
        self._shadows.add(shadow)
        return shadow

    def begin(self) -> None:
        """All accesses so far are before all that follow."""
        self.state[core.FIRST_RECORD] = self.state[core.NEXT_RECORD]
        self.state[core.FIRST_NODE] = self.state[core.NEXT_NODE]

    def make_room(self, records: int, nodes: int) -> None:
        """Room for so many more.

        Raises:
            NotModelled: more records than slots can name.
        """
        slots = sum(shadow.writes.size for shadow in self._shadows)
        if max(len(self.records), len(self.nodes)) >= min(max(slots, _SMALL), _COLLECTED_FROM):
            self._collect()
        self.records = _grown(self.records, int(self.state[core.NEXT_RECORD]) + records)
        self.nodes = _grown(self.nodes, int(self.state[core.NEXT_NODE]) + nodes)

    def _collect(self) -> None:
        live_records = np.zeros(len(self.records), np.uint8)
        live_nodes = np.zeros(len(self.nodes), np.uint8)
        shadows = list(self._shadows)
        for shadow in shadows:
            for slots in (shadow.writes, shadow.reads):
                core.mark_slots(slots, self.records, self.nodes, self.state, live_records, live_nodes)
        new_records, new_nodes = (np.cumsum(live, dtype=np.int64) for live in (live_records, live_nodes))
        self.records[1 : int(new_records[-1]) + 1] = self.records[live_records != 0]
        kept = self.nodes[live_nodes != 0]
        kept[:, core.RECORD] = new_records[kept[:, core.RECORD]]
        rests = np.ascontiguousarray(kept[:, core.REST])
        core.renumber_slots(rests, new_records, new_nodes)
        kept[:, core.REST] = rests
        self.nodes[1 : len(kept) + 1] = kept
        for shadow in shadows:
            for slots in (shadow.writes, shadow.reads):
                core.renumber_slots(slots, new_records, new_nodes)
        self.state[:] = 1
        self.state[core.NEXT_RECORD] = new_records[-1] + 1
        self.state[core.NEXT_NODE] = new_nodes[-1] + 1
        self.collections += 1


def _grown(table: core.Array, least: int) -> core.Array:
    """The table with twice the rows that are needed, if it has less than half as many again."""
    if len(table) >= least + least // 2:
        return table
    if least >= _MOST:
        raise NotModelled(f"more than {_MOST} accesses that may race with later ones", hint="launch fewer blocks")
    larger = np.zeros((min(2 * least, _MOST), table.shape[1]), table.dtype)
    larger[: len(table)] = table
    return larger
