"""The blocks that are resident together: the whole machine state of one wave of a launch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tileproof.simulators.ptx.findings import Counters, FindingKind, Findings, Where
from tileproof.simulators.ptx.layout import (
    LOCAL_BASE,
    RANK_SHIFT,
    SHARED_BASE,
    SHARED_UNIT_BYTES,
    SharedPlacement,
    align_up,
)
from tileproof.simulators.ptx.machine.asynchronous.state import Asynchronous
from tileproof.simulators.ptx.machine.barrier_state import BlockBarriers, ClusterBarriers, RegisterCounts
from tileproof.simulators.ptx.machine.cluster_memory import Acquaintance, ClusterMemory
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.loops import Loops
from tileproof.simulators.ptx.machine.memory import Bits, GlobalMemory, Lanes, Mask, Space, Window
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.order.order import Order
from tileproof.simulators.ptx.machine.peer_access import PeerAccesses
from tileproof.simulators.ptx.machine.product_registers import ProductRegisters
from tileproof.simulators.ptx.machine.registers import RegisterFile, Registers, Selection
from tileproof.simulators.ptx.machine.reporter import Reporter
from tileproof.simulators.ptx.machine.schedule import Schedule
from tileproof.simulators.ptx.machine.warp import WARP, WARP_SHIFT, distinct
from tileproof.simulators.ptx.machine.weak.overlay import Overlay
from tileproof.simulators.ptx.machine.weak.proxy_view import MOST_BYTES, ProxyView
from tileproof.simulators.ptx.program import Program, Scope, StateSpace

# Of the time that threads read. Any start is legal; this one has bits in the upper half, which %clock_hi shows.
START_CYCLES = 0x0000_0012_3456_7800


# Bits that change in a register whose value the ISA leaves undefined: zero becomes 1.0.
_DISTURBED_BITS = 0x3F80_0000
# Special registers that hold the same in every wave of a launch.
_OF_ALL_WAVES = ("%tid.", "%ntid.", "%nctaid.", "%laneid", "%warpid", "%nwarpid", "%lanemask_")


class Status:
    """What a lane does: plain numbers, because numpy asks enumerations for more at every comparison."""

    RUNNING: Final = 0
    AT_BARRIER: Final = 1
    AT_COLLECTIVE: Final = 2
    EXITED: Final = 3
    AT_CLUSTER: Final = 4
    NOT_STARTED: Final = 5


@dataclass(frozen=True)
class LaunchMemory:
    """What all waves of a launch share.

    Attributes:
        global_memory: the device's allocations.
        parameters: the parameter area.
        constants: module constants.
        global_addresses: constant slot to address, for module variables.
        shared: where the kernel's shared variables lie.
        multiprocessors: of the GPU.
        warps: that one of them holds.
        grid_id: of the launch.
        order: of all its waves.
        attend: to be called by what takes long: it raises when the launch's time is over.
        weak: draws late stores and stale loads; None if all see every store at once.
        late: stores to global memory may come late: somebody could tell.
        registers: arrays for the registers of one wave after the other.
    """

    global_memory: GlobalMemory
    parameters: Window
    constants: Window
    global_addresses: Mapping[int, int]
    shared: SharedPlacement
    multiprocessors: int
    warps: int
    grid_id: int
    order: LaunchOrder
    attend: Callable[[], None]
    weak: np.random.Generator | None = None
    late: bool = True
    registers: RegisterFile = field(default_factory=RegisterFile)


class Wave:
    """Registers, program counters, memories and order of the resident blocks.

    Attributes:
        pc: program counter of every lane.
        status: what every lane does, see `Status`.
        alive: for every warp the bits of its lanes that have not exited.
        changes: grows with everything that one thread may wait for another to do.
        polls: grows with everything that a thread that waits for another one does over and over.
        shared: shared memory of all resident blocks, one after the other.
        acquaintance: who may touch a peer's shared memory.
        warp_barrier_mask: for every lane that waits at a `bar.warp.sync`, the members that it names; else 0.
        cycles: the time that threads read.
        memory_number: of the device's global memory.
        attend: see `LaunchMemory`.
        weak: what blocks see of global memory, where they do not all see the same.
        compiled: makes one step by some lanes that have met, by compiled code; False, with nothing done, where that
            cannot. None with the reference engine.

    Args:
        program: the kernel.
        geometry: grid, block and resident blocks.
        memory: what outlives the wave.
        schedule: who runs next.
        findings: where to report.
        counters: what to count.
        arch: whose matrix unit computes.
    """

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        memory: LaunchMemory,
        schedule: Schedule,
        findings: Findings,
        counters: Counters,
        arch: str,
    ) -> None:
        self.program = program
        self.arch = arch
        self.geometry = geometry
        self.schedule = schedule
        self.counters = counters
        self._reporter = Reporter(geometry, findings)
        lanes, blocks = geometry.lanes, geometry.resident.size
        live = geometry.live()
        self._every_id = _every_lane(lanes)
        self.pc = np.zeros(lanes, np.int64)
        self.status = _first_status(blocks, geometry.lanes_per_block, geometry.threads).copy()
        self.alive: Bits = _first_alive(blocks, geometry.lanes_per_block, geometry.threads).copy()
        self.changes = 0
        self.polls = 0
        self.compiled: Callable[[Wave, int, Lanes], bool] | None = None
        self.registers = Registers(program.slot_bits, live, lanes, memory.registers)
        self._fill(memory)
        shared = Window("shared", memory.shared.base, geometry.total_shared_bytes, blocks, defined=False)
        local = Window("local", LOCAL_BASE, program.local_bytes, lanes, defined=False)
        self.acquaintance = Acquaintance(geometry)
        self.warp_barrier_mask: Bits = np.zeros(lanes, np.uint64)
        self.cycles = START_CYCLES
        self.memory_number = memory.global_memory.number
        self._global_memory = memory.global_memory
        self.attend = memory.attend
        self.spaces: dict[StateSpace, Space] = {
            StateSpace.GLOBAL: memory.global_memory,
            **self._shared_spaces(shared.owned_by(geometry.lanes_per_block)),
            StateSpace.LOCAL: local.owned_by(1),
            StateSpace.PARAM: memory.parameters,
            StateSpace.CONST: memory.constants,
        }
        self.order = Order(program, self._reporter, memory.order, shared.stride)
        proxied = (program.has_asynchronous or program.has_warpgroups) and shared.stride <= MOST_BYTES
        view = ProxyView(shared) if memory.weak is not None and proxied else None
        self.weak = None
        if memory.weak is not None:
            self.weak = Overlay(memory.weak, geometry, self.order, view, late=memory.late)
        self.shared = shared
        self.peer_accesses = (
            None if geometry.blocks_per_cluster == 1 else PeerAccesses(geometry, self.order, self._reporter)
        )
        self._shared_base, self._lanes, self._blocks = memory.shared.base, lanes, blocks

    # What many kernels have no use for is made at its first use: a wave of a short kernel must cost little.

    @cached_property
    def asynchronous(self) -> Asynchronous:
        """mbarriers and copies in flight."""
        return Asynchronous(self._lanes, self.shared, self._global_memory, self._shared_base, self.schedule)

    @cached_property
    def block_barriers(self) -> BlockBarriers:
        """Who has come to the named barriers."""
        return BlockBarriers(self._blocks, self._lanes)

    @cached_property
    def cluster_barriers(self) -> ClusterBarriers:
        """Who has come to the barriers of clusters."""
        return ClusterBarriers(self.geometry)

    @cached_property
    def register_counts(self) -> RegisterCounts:
        """How many registers the warps have."""
        return RegisterCounts(self.program.register_limit, self.alive.size)

    @cached_property
    def products(self) -> ProductRegisters:
        """The registers of `wgmma`."""
        products = ProductRegisters(self.program, self.alive.size, self._reporter.report_step)
        products.disturb = None if self.weak is None else self._disturb
        return products

    def _disturb(self, slots: Sequence[int], lanes: Lanes) -> None:
        """Registers whose values the ISA leaves undefined: sometimes they show it."""
        if self.weak is not None and self.weak.misbehaves():
            for slot in slots:
                values = self.registers.read(slot, lanes)
                self.registers.write(slot, lanes, values ^ np.uint64(_DISTURBED_BITS), None)

    def _shared_spaces(self, window: Window) -> dict[StateSpace, Space]:
        """The block's own shared memory, and the cluster's: one and the same where clusters are single blocks."""
        if self.geometry.blocks_per_cluster == 1:
            return {StateSpace.SHARED: window, StateSpace.CLUSTER: window}
        return {
            space: ClusterMemory(window, self.geometry, self.acquaintance, peers=space is StateSpace.CLUSTER)
            for space in (StateSpace.SHARED, StateSpace.CLUSTER)
        }

    def _fill(self, memory: LaunchMemory) -> None:
        program, registers = self.program, self.registers
        if registers.kept:  # by the last wave, of as many lanes
            for slot in (*program.constants, *program.shared_symbols):
                registers.keep(slot)
        else:
            self._fill_constants(memory)
        for slot, name in program.specials.items():
            if registers.kept and name.startswith(_OF_ALL_WAVES):
                registers.keep(slot)
            else:
                registers.fill(slot, self._special(name, memory))

    def _fill_constants(self, memory: LaunchMemory) -> None:
        for slot, bits in self.program.constants.items():
            self.registers.fill(slot, memory.global_addresses.get(slot, bits))
        rank = (self.geometry.rank << RANK_SHIFT).astype(np.uint64)
        for slot, (name, offset) in self.program.shared_symbols.items():
            self.registers.fill(slot, rank + np.uint64((memory.shared.addresses[name] + offset) & 0xFFFF_FFFF))

    def _special(self, name: str, memory: LaunchMemory) -> int | Bits:
        """A special register: those of the geometry, and those that say where and when a block runs."""
        match name:
            case "%smid":
                blocks = self.schedule.multiprocessors(self.geometry.resident.size, memory.multiprocessors)
                return np.repeat(blocks, self.geometry.lanes_per_block).astype(np.uint64)
            case "%nsmid":
                return memory.multiprocessors
            case "%gridid":
                return memory.grid_id
            case "%nwarpid":
                return memory.warps
            case "%total_smem_size":
                return align_up(memory.shared.given_bytes, SHARED_UNIT_BYTES)
            case "%aggr_smem_size":
                return SHARED_BASE + memory.shared.given_bytes
        return self.geometry.special(name)

    def exit(self, lanes: Lanes) -> None:
        """The lanes end."""
        self.status[lanes if lanes.size < self.registers.present else slice(None)] = Status.EXITED
        self.registers.leave(lanes.size)
        self.order.exit(lanes)
        if self.registers.present == 0 and self.peer_accesses is None:
            self.alive[:] = 0
            return
        if self.peer_accesses is not None:
            blocks = self.geometry.blocks_of(lanes)
            running = self.status.reshape(-1, self.geometry.lanes_per_block)[blocks] != Status.EXITED
            self.acquaintance.gone[blocks] = ~running.any(axis=1)
            self.peer_accesses.end(blocks[self.acquaintance.gone[blocks]])
        warps = distinct(lanes >> WARP_SHIFT)
        self.alive[warps] = _warp_words(self.status.reshape(-1, WARP)[warps].reshape(-1) != Status.EXITED)

    def ids(self, selection: Selection) -> Lanes:
        """Lane numbers of a selection, ascending."""
        return self._every_id[selection] if isinstance(selection, slice) else selection

    def positions(self, count: int) -> Lanes:
        """The first `count` indices."""
        return self._every_id[:count]

    @cached_property
    def loops(self) -> Loops:
        """The program's loops."""
        return Loops(self.program)

    def cluster_of(self, lane: int) -> tuple[int, int]:
        """The first resident block of the lane's cluster, and how many blocks the cluster has."""
        blocks = self.geometry.blocks_per_cluster
        return lane // self.geometry.lanes_per_cluster * blocks, blocks

    def release(self, lanes: Lanes, scope: Scope) -> None:
        """Lanes release what they know: other blocks see it if the scope reaches them."""
        if self.weak is not None and scope > Scope.CTA:
            self.weak.release(lanes)

    def acquire(self, lanes: Lanes, scope: Scope) -> None:
        """Lanes acquire: their blocks see nothing older if the scope reaches others."""
        if self.weak is not None and scope > Scope.CTA:
            self.weak.acquire(lanes)

    def lane_order(self, count: int) -> Lanes | None:
        """The order in which `count` lanes of one atomic take turns; None for ascending."""
        return self.schedule.lane_order(count)

    def report(self, kind: FindingKind, message: str, where: Where, lanes: Lanes, detail: str = "") -> None:
        """Record a finding that `lanes` hit."""
        self._reporter.report(kind, message, where, lanes, detail)

    def note(self, message: str, where: Where, count: int) -> None:
        """Record something quieter."""
        self._reporter.note(message, where, count)

    def count_read(self, space: StateSpace, nbytes: int) -> None:
        """Count bytes loaded."""
        if space is StateSpace.GLOBAL:
            self.counters.global_bytes_read += nbytes
        elif space is StateSpace.SHARED:
            self.counters.shared_bytes_read += nbytes

    def count_written(self, space: StateSpace, nbytes: int, *, changed: bool = True) -> None:
        """Count bytes stored: a change that others may wait for, unless it is known to be none."""
        self.changes += changed
        if space is StateSpace.GLOBAL:
            self.counters.global_bytes_written += nbytes
        elif space is StateSpace.SHARED:
            self.counters.shared_bytes_written += nbytes


@lru_cache(maxsize=16)
def _every_lane(lanes: int) -> Lanes:
    return np.arange(lanes)


@lru_cache(maxsize=16)
def _first_status(blocks: int, lanes_per_block: int, threads: int) -> NDArray[np.int8]:
    """Of the lanes at the start of a wave: those that pad the last warp of a block have exited."""
    block = np.full(lanes_per_block, Status.EXITED, np.int8)
    block[:threads] = Status.RUNNING
    return np.tile(block, blocks)


@lru_cache(maxsize=16)
def _first_alive(blocks: int, lanes_per_block: int, threads: int) -> Bits:
    return _warp_words(_first_status(blocks, lanes_per_block, threads) != Status.EXITED)


def _warp_words(flags: Mask) -> Bits:
    words: Bits = (flags.reshape(-1, WARP) << np.arange(WARP, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    return words
