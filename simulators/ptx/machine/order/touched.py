"""The tables behind the lines of shadows: records of accesses, chained sets of them, and leaves of lines.

They grow until they are large; then what no slot leads to any more goes, and numbers start again.
"""

from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.shadow import Shadow

_FIRST_ROOM, _FIRST_LEAVES = 1 << 14, 1 << 10
# Tables of fewer rows than this, or than a quarter of the lines that lead to them, grow without asking what is still of
# use.
_SMALL = 1 << 16
# Numbers have 26 bits in a slot, and those of nodes 25.
_MOST = 1 << 25


class Touched:
    """Records and sets of the accesses to global memory, or to the shared memory of a wave.

    Attributes:
        records: see `compiled_order`.
        nodes: likewise.
        leaves: likewise.
        state: likewise.
        moves: grows whenever slots of a shadow move: who remembers where they were forgets it.
    """

    def __init__(self) -> None:
        self.records = np.zeros((_FIRST_ROOM, core.RECORD_COLUMNS), np.int32)
        self.nodes = np.zeros((_FIRST_ROOM, core.NODE_COLUMNS), np.uint32)
        self.leaves = np.zeros((_FIRST_LEAVES, 1 << core.LINE_SHIFT), np.uint32)
        self.state = _first_state()
        self.moves = 0
        self._shadows: WeakSet[Shadow] = WeakSet()

    def shadow(self, nbytes: int) -> Shadow:
        """A new shadow whose slots lead here."""
        shadow = Shadow(nbytes)
        self._shadows.add(shadow)
        return shadow

    def restart(self) -> None:
        """The shadows of today are no longer used."""
        self._shadows = WeakSet()
        self.state[:] = _first_state()

    def forget(self, shadow: Shadow, folded: bool) -> None:
        """All accesses so far are before all that follow; the shadow is the only one that leads here."""
        self.state[:] = _first_state()
        self.state[core.FOLDED] = folded
        shadow.lines.fill(0)

    def make_room_for(self, copies: int) -> None:
        """Room for so many of all that there is."""
        records, nodes, leaves = self.state[[core.NEXT_RECORD, core.NEXT_NODE, core.LIVE_LEAVES]].tolist()
        self.records = _grown(self.records, copies * records + 2)
        self.nodes = _grown(self.nodes, copies * nodes + 2)
        self._add_leaves(max(copies * leaves + 3 - len(self.leaves), 0))

    def refine(self, shadow: Shadow, places: int) -> None:
        """Granules small enough for accesses whose sizes and offsets have these bits."""
        shift = (places & -places).bit_length() - 1
        if shift >= shadow.shift:
            return
        finer = shadow.empty_lines(shift)
        while not core.refine_lines(
            shadow.lines, self.leaves, self.records, self.nodes, self.state, shadow.shift, finer, shift
        ):
            self._add_leaves(len(self.leaves))
        shadow.lines, shadow.shift = finer, shift
        self.moves += 1

    @property
    def tables(self) -> tuple[core.Array, ...]:
        """Records, nodes and leaves."""
        return self.records, self.nodes, self.leaves

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, and of the lines that lead here."""
        arrays = *self.tables, *(shadow.lines for shadow in self._shadows)
        return int(sum(array.nbytes for array in arrays))

    def begin(self) -> None:
        """All accesses so far are before all that follow."""
        self.state[core.FIRST_RECORD] = self.state[core.NEXT_RECORD]
        self.state[core.FIRST_NODE] = self.state[core.NEXT_NODE]

    def make_room(self, records: int, nodes: int) -> None:
        """Room for so many more.

        Raises:
            NotModelled: more records than slots can name.
        """
        lines = sum(len(shadow.lines) for shadow in self._shadows)
        if max(len(self.records), len(self.nodes)) >= max(_SMALL, lines // 4):
            self._collect()
        self.records = _grown(self.records, int(self.state[core.NEXT_RECORD]) + records)
        self.nodes = _grown(self.nodes, int(self.state[core.NEXT_NODE]) + nodes)
        if self.state[core.LIVE_LEAVES] + 2 >= len(self.leaves) - len(self.leaves) // 4:
            self._add_leaves(len(self.leaves) // 2)

    def _add_leaves(self, more: int) -> None:
        larger = np.zeros((len(self.leaves) + more, self.leaves.shape[1]), np.uint32)
        larger[: len(self.leaves)] = self.leaves
        self.leaves = larger

    def _collect(self) -> None:
        live_records = np.zeros(len(self.records), np.uint8)
        live_nodes = np.zeros(len(self.nodes), np.uint8)
        shadows = list(self._shadows)
        for shadow in shadows:
            core.mark_lines(shadow.lines, self.leaves, self.nodes, self.state, live_records, live_nodes)
        new_records, new_nodes = (np.cumsum(live, dtype=np.int64) for live in (live_records, live_nodes))
        self.records[1 : int(new_records[-1]) + 1] = self.records[live_records != 0]
        kept = self.nodes[live_nodes != 0]
        kept[:, core.RECORD] = new_records[kept[:, core.RECORD]]
        rests = np.ascontiguousarray(kept[:, core.REST])
        core.renumber_slots(rests, new_records, new_nodes)
        kept[:, core.REST] = rests
        self.nodes[1 : len(kept) + 1] = kept
        for shadow in shadows:
            core.renumber_lines(shadow.lines, self.leaves, new_records, new_nodes)
        self.state[[core.FIRST_RECORD, core.FIRST_NODE]] = 1
        self.state[core.NEXT_RECORD] = new_records[-1] + 1
        self.state[core.NEXT_NODE] = new_nodes[-1] + 1


def _first_state() -> NDArray[np.int64]:
    state = np.ones(core.STATES, np.int64)  # number 0 stands for none
    state[[core.FREE_LEAF, core.LIVE_LEAVES, core.FOLDED, core.LEFT_OUT]] = 0
    return state


def _grown(table: core.Array, least: int) -> core.Array:
    """The table with half as many rows again as are needed, if it has less than half of those now."""
    more = least // 2
    if len(table) >= least + more // 2:
        return table
    if least >= _MOST:
        raise NotModelled(f"more than {_MOST} accesses that may race with later ones", hint="launch fewer blocks")
    larger = np.zeros((min(least + more, _MOST), table.shape[1]), table.dtype)
    larger[: len(table)] = table
    return larger
