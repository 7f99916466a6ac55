"""The blocks that are resident together: the whole machine state of one wave of a launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tileproof.simulators.ptx.findings import Counters, FindingKind, Findings, Where
from tileproof.simulators.ptx.geometry import Geometry
from tileproof.simulators.ptx.layout import (
    CONST_WINDOW,
    LOCAL_BASE,
    LOCAL_WINDOW,
    SHARED_BASE,
    SHARED_WINDOW,
    WINDOW_BYTES,
)
from tileproof.simulators.ptx.memory import Bits, GlobalMemory, Lanes, Space, Window
from tileproof.simulators.ptx.order import SharedOrder
from tileproof.simulators.ptx.program import Program, StateSpace
from tileproof.simulators.ptx.registers import Registers, Selection


class Status(IntEnum):
    """What a lane does."""

    RUNNING = 0
    AT_BARRIER = 1
    AT_COLLECTIVE = 2
    EXITED = 3


@dataclass(frozen=True)
class LaunchMemory:
    """What all waves of a launch share.

    Attributes:
        global_memory: the device's allocations.
        parameters: the parameter area.
        constants: module constants.
    """

    global_memory: GlobalMemory
    parameters: Window
    constants: Window


class Wave:
    """Registers, program counters, memories and order of the resident blocks.

    Args:
        program: the kernel.
        geometry: grid, block and resident blocks.
        memory: what outlives the wave.
        global_addresses: constant slot to address, for module variables.
        findings: where to report.
        counters: what to count.
    """

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        memory: LaunchMemory,
        global_addresses: Mapping[int, int],
        findings: Findings,
        counters: Counters,
    ) -> None:
        self.program = program
        self.geometry = geometry
        self.counters = counters
        self._findings = findings
        lanes, blocks = geometry.lanes, geometry.resident.size
        live = geometry.live()
        self.every_id: Lanes = np.arange(lanes)
        self.pc = np.zeros(lanes, np.int64)
        self.status = np.full(lanes, Status.EXITED, np.int8)
        self.status[live] = Status.RUNNING
        self.registers = Registers(program.slot_bits, live, lanes)
        self._fill(global_addresses)
        shared = Window("shared", SHARED_BASE, geometry.total_shared_bytes, blocks, defined=False)
        local = Window("local", LOCAL_BASE, program.local_bytes, lanes, defined=False)
        self.spaces: dict[StateSpace, Space] = {
            StateSpace.GLOBAL: memory.global_memory,
            StateSpace.SHARED: shared.owned_by(geometry.lanes_per_block),
            StateSpace.LOCAL: local.owned_by(1),
            StateSpace.PARAM: memory.parameters,
            StateSpace.CONST: memory.constants,
        }
        self.order = SharedOrder(shared.stride * blocks, blocks * geometry.warps_per_block, geometry.warps_per_block)

    def _fill(self, global_addresses: Mapping[int, int]) -> None:
        for slot, bits in self.program.constants.items():
            self.registers.fill(slot, global_addresses.get(slot, bits))
        for slot, name in self.program.specials.items():
            self.registers.fill(slot, self.geometry.special(name))

    def ids(self, selection: Selection) -> Lanes:
        """Lane numbers of a selection."""
        return self.every_id if isinstance(selection, slice) else selection

    def report(self, kind: FindingKind, message: str, where: Where, lanes: Lanes) -> None:
        """Record a finding that `lanes` hit."""
        threads = [self.geometry.thread(int(lane)) for lane in lanes[:8]]
        self._findings.add(kind, message, where, threads, int(lanes.size))

    def note(self, message: str, where: Where, count: int) -> None:
        """Record something quieter."""
        self._findings.note(message, where, count)


_GENERIC_WINDOWS = (
    (StateSpace.SHARED, SHARED_WINDOW),
    (StateSpace.LOCAL, LOCAL_WINDOW),
    (StateSpace.CONST, CONST_WINDOW),
)


def split_generic(addresses: Bits) -> list[tuple[StateSpace, Lanes, Bits]]:
    """Generic addresses by the space they lie in: (space, positions, addresses in that space)."""
    parts: list[tuple[StateSpace, Lanes, Bits]] = []
    rest = np.ones(addresses.size, np.bool_)
    for space, window in _GENERIC_WINDOWS:
        inside = (addresses >= np.uint64(window)) & (addresses < np.uint64(window + WINDOW_BYTES))
        if inside.any():
            parts.append((space, np.flatnonzero(inside), addresses[inside] - np.uint64(window)))
            rest &= ~inside
    if rest.any():
        parts.append((StateSpace.GLOBAL, np.flatnonzero(rest), addresses[rest]))
    return parts
