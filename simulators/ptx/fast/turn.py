"""One wave's state as the compiled loop sees it, and the call."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tileproof.oracle.busy import busy
from tileproof.simulators.ptx.fast import layout
from tileproof.simulators.ptx.fast.lower import Bytecode, lower
from tileproof.simulators.ptx.machine import access
from tileproof.simulators.ptx.machine.asynchronous.small_flights import SmallFlights
from tileproof.simulators.ptx.machine.memory import Backing, GlobalMemory, Lanes, Moves, Piece, Window
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.order.knowledge import Knowledge
from tileproof.simulators.ptx.machine.registers import Selection, as_selection
from tileproof.simulators.ptx.machine.schedule import DrawState
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, Program, StateSpace

if TYPE_CHECKING:
    from tileproof.simulators.ptx.fast.order_gate import OrderGate

_MAYBE_GLOBAL = (StateSpace.GLOBAL, StateSpace.GENERIC)
_WINDOWS = (StateSpace.SHARED, StateSpace.LOCAL, StateSpace.CONST, StateSpace.PARAM)


@cache
def _compiled() -> tuple[Any, Any]:
    """The compiled loop, and what provides the functions that it calls.

    They are imported at first use: numba takes longer to load than a small kernel to run.
    """
    from tileproof.simulators.ptx.fast import gates
    from tileproof.simulators.ptx.fast.loop import run

    return run, gates


_PROVIDED: set[int] = set()
"""Operations whose functions this process has."""


def _provided(operations: set[int], kernel: str) -> tuple[Any, Any]:
    """`_compiled`, with the functions of these operations; that may take half a minute on a fresh machine."""
    if not operations <= _PROVIDED:
        with busy(f"compiling the CPU device for {kernel}, once: it is kept on disk"):
            _, gates = _compiled()
            gates.provide(operations)
        _PROVIDED.update(operations)
    return _compiled()


@cache
def _order_gates() -> "type[OrderGate]":
    with busy("compiling the CPU device's checks of order, once: they are kept on disk"):
        from tileproof.simulators.ptx.fast.order_gate import OrderGate
    return OrderGate


class FastTurns:
    """Runs hot steps of the turns of one launch's waves, one wave after the other.

    Args:
        program: the kernel.
        arch: whose matrix unit computes.
        late: stores to global memory may be held back, which compiled code does not do.
    """

    def __init__(self, program: Program, arch: str, *, late: bool = False) -> None:
        self._program = program
        self._bytecode = _without_stores(lower(program, arch), program) if late else lower(program, arch)
        self._hot = (self._bytecode.code[:, layout.OP] != layout.COLD).tolist()
        self._has_objects = any(step.kind is Kind.MBARRIER for step in program.steps)
        self._run, gates = _provided(set(self._bytecode.code[:, layout.OP].tolist()), program.name)
        frame = np.zeros(layout.FRAME, np.int64)
        self._state, self._frame = frame.ctypes.data, frame.data
        self._counters = np.zeros(layout.COUNTERS, np.int64)
        self._spaces = np.zeros((layout.SPACES, layout.SPACE_COLUMNS), np.int64)
        self._point(
            {
                layout.CODE: self._bytecode.code,
                layout.OPERAND_TABLE: self._bytecode.operands,
                layout.FUNCTIONS: gates.FUNCTIONS,
                layout.COUNTER_TABLE: self._counters,
                layout.SPACE_TABLE: self._spaces,
            }
        )
        self._ordered, self._moves, self._seen = True, Moves(), 0
        self._gate: OrderGate | None = None
        self._allocations: Lanes | None = None
        self._make_room(0)

    def _point(self, arrays: Mapping[int, npt.NDArray[Any]]) -> None:
        """Tell compiled code where some arrays are, which must live on."""
        for place, array in arrays.items():
            self._frame[place] = array.ctypes.data

    def _make_room(self, lanes: int) -> None:
        self._lanes = lanes
        self._scratch = np.zeros(layout.ROOM * lanes, np.uint64)
        self._runs, self._chosen = np.zeros((2, lanes // 2 + 1, 2), np.int64)
        places = 1 << (2 * lanes).bit_length()
        self._keys = np.zeros(places, np.uint64)
        self._stamps = np.zeros(places + 1, np.int64)
        self._point(
            {
                layout.SCRATCH: self._scratch,
                layout.RUNS: self._runs,
                layout.CHOSEN: self._chosen,
                layout.KEYS: self._keys,
                layout.STAMPS: self._stamps,
            }
        )
        self._frame[layout.PLACES] = places

    def begin(self, wave: Wave) -> None:
        """The next wave."""
        if wave.geometry.lanes != self._lanes:
            self._make_room(wave.geometry.lanes)
        self._ordered = wave.order.enabled
        if self._ordered:
            self._gate = self._gate or _order_gates()()
            self._gate.begin(wave)
            self._frame[layout.GATE], self._frame[layout.GATE_TABLE] = self._gate.function, self._gate.table
            self._know(wave.order.knowledge)
            whole = wave.geometry.threads == wave.geometry.lanes_per_block
            self._frame[layout.BLOCK_LANES] = wave.geometry.lanes_per_block if whole else 0
            self._frame[layout.FOLDED] = wave.order.checks.shared.touched.state[core.FOLDED :].ctypes.data
        registers = wave.registers
        self._frame[layout.SLOTS], self._frame[layout.WIDTH] = registers.values.shape
        self._point(
            {
                layout.REGISTERS: registers.values,
                layout.MASKS: registers.masks,
                layout.FLAGS: registers.known,
                layout.NEVER_ROW: registers.never,
                layout.BRACKETS: registers.brackets.flags,
            }
        )
        for space in _WINDOWS:
            window = wave.spaces[space]
            if isinstance(window, Window):
                window.moves = self._moves
        self._look(wave)
        wave.compiled = self.make

    def _know(self, knowledge: Knowledge) -> None:
        """Engines of the program's threads have components, and compiled waits say what their threads know of them."""
        if self._program.has_warpgroups:
            knowledge.first_component(Engine.WGMMA)
        if self._program.has_asynchronous:
            knowledge.first_component(Engine.CP_ASYNC)
            column = core.OWN_ENGINES + Engine.CP_ASYNC
            self._frame[layout.KNOWN] = knowledge.views[0, :, column].ctypes.data
            self._frame[layout.KNOWN_STEP] = core.VIEW_COLUMNS
            self._frame[layout.KNOWN_TABLES] = len(knowledge.own_planes)

    def _look(self, wave: Wave) -> None:
        """Where the wave's memories are."""
        self._seen = self._moves.count
        for index, space in enumerate(_WINDOWS, start=1):
            window = wave.spaces[space]
            # The shared memory of a cluster of several blocks is the reference engine's: its line says 0 bytes.
            self._spaces[index] = window.owner_line() if isinstance(window, Window) else 0
        if self._has_objects:
            self._spaces[layout.SHARED, layout.LIFE] = wave.asynchronous.barriers.life.ctypes.data
        self._spaces[layout.PRODUCTS] = self._spaces[layout.COPIES] = 0
        if self._program.has_warpgroups and wave.geometry.lanes_per_block % 128 == 0:
            products = wave.products
            tables = (products.registers.ctypes.data, products.registers.shape[1], products.warps.ctypes.data)
            self._spaces[layout.PRODUCTS, : 1 + len(tables)] = (1, *tables)
        if self._program.has_asynchronous:
            groups = wave.asynchronous.small
            arrays = (groups.open, groups.used, groups.used_at, groups.complete)
            self._spaces[layout.COPIES, : 1 + len(arrays)] = (1, *(array.ctypes.data for array in arrays))
            self._look_at_flights(wave.asynchronous.in_flight.small, wave.schedule.landings())

    def _look_at_flights(self, flights: SmallFlights, landings: DrawState | None) -> None:
        flights.moves = self._moves
        table, state = flights.table, flights.state.ctypes.data
        drawn = 0 if landings is None else landings.ctypes.data
        self._spaces[layout.FLIGHTS, :4] = table.ctypes.data, len(table), state, drawn

    def hot(self, pc: int) -> bool:
        """Whether the loop knows the step."""
        return bool(self._hot[pc])

    def run(self, wave: Wave, pc: int, stop: int, most: int, runs: Lanes, count: int) -> tuple[int, int]:
        """Run the turn's lanes from `pc` until the loop hands a step back; the new pc and how many steps it made.

        Args:
            wave: the machine.
            pc: the first step.
            stop: the step before which to end.
            most: steps at most.
            runs: the lanes [runs, first and last + 1].
            count: how many they are.
        """
        registers, frame = wave.registers, self._frame
        frame[layout.LANES], frame[layout.LIVE] = count, registers.present
        frame[layout.TOGETHER] = count == registers.present and not self._ordered
        frame[layout.ORDERED], frame[layout.PASSED] = self._ordered, 0
        frame[layout.RUN_COUNT] = len(runs)
        self._runs[: len(runs)] = runs
        made = 0
        while True:
            if self._seen != self._moves.count:
                self._look(wave)
            if self._gate is not None:
                self._gate.look(wave)
            frame[layout.PC], frame[layout.STOP], frame[layout.MOST] = pc, stop, most - made
            frame[layout.OPEN], frame[layout.ASKED] = registers.brackets.live, 0
            pc = self._call(wave)
            made += frame[layout.MADE]
            if not frame[layout.ASKED]:
                return pc, made
            self._check_order(wave, pc, runs)
            frame[layout.PASSED] = 1

    def make(self, wave: Wave, pc: int, lanes: Lanes) -> bool:
        """Make one step by some lanes; False, with nothing done, where it is not for compiled code."""
        return self.hot(pc) and self.run(wave, pc, pc + 1, 1, runs_of(as_selection(lanes)), lanes.size)[1] == 1

    def _call(self, wave: Wave) -> int:
        memory = wave.spaces[StateSpace.GLOBAL]
        assert isinstance(memory, GlobalMemory)
        allocations = memory.table()
        if allocations is not self._allocations:
            self._allocations = allocations
            self._point({layout.ALLOCATION_TABLE: allocations})
            self._frame[layout.ALLOCATIONS] = len(allocations)
        pc: int = self._run(self._state)
        wave.changes += int(self._counters[layout.CHANGES])
        self._counters[layout.CHANGES] = 0
        return pc

    def _check_order(self, wave: Wave, pc: int, runs: Lanes) -> None:
        """The access at `pc`, which passed all other checks, against earlier ones: it is reported here, then made."""
        frame, step = self._frame, wave.program.steps[pc]
        chosen = self._chosen[: frame[layout.ASKED_RUNS]] if frame[layout.ASKED_RUNS] else runs
        lanes = lanes_of(chosen)
        offsets = self._scratch[: frame[layout.ASKED]].view(np.int64)
        space = StateSpace.SHARED
        backing: Backing = wave.shared
        if frame[layout.ASKED_SPACE] == layout.GLOBAL:
            memory = wave.spaces[StateSpace.GLOBAL]
            assert isinstance(memory, GlobalMemory)
            space, backing = StateSpace.GLOBAL, memory.allocation(frame[layout.ASKED_ALLOCATION])
        access.check_weak(wave, step, pc, lanes, space, Piece(backing, slice(None), offsets.copy()))

    def finish(self, wave: Wave) -> None:
        """Add what was counted to the launch's counters."""
        counters, ours = wave.counters, self._counters
        counters.global_bytes_read += int(ours[layout.GLOBAL_READ])
        counters.global_bytes_written += int(ours[layout.GLOBAL_WRITTEN])
        counters.shared_bytes_read += int(ours[layout.SHARED_READ])
        counters.shared_bytes_written += int(ours[layout.SHARED_WRITTEN])
        ours[:] = 0


def _without_stores(bytecode: Bytecode, program: Program) -> Bytecode:
    """Stores that may go to global memory are handed back."""
    code = bytecode.code.copy()
    for line, step in zip(code, program.steps, strict=True):
        if step.kind is Kind.STORE and step.access is not None:
            line[layout.OP] = layout.COLD if step.access.space in _MAYBE_GLOBAL else line[layout.OP]
    return replace(bytecode, code=code)


def lanes_of(runs: Lanes) -> Lanes:
    """The lanes of some runs, ascending."""
    if len(runs) == 1:
        return np.arange(runs[0, 0], runs[0, 1])
    return np.concatenate([np.arange(first, last) for first, last in runs])


def runs_of(selection: Selection) -> Lanes:
    """Ascending lanes as [runs, 2]: first and last + 1 of neighbours."""
    if isinstance(selection, slice):
        return np.array([[selection.start, selection.stop]])
    breaks = (selection[1:] - selection[:-1] != 1).nonzero()[0]
    runs = np.empty((breaks.size + 1, 2), np.int64)
    runs[0, 0], runs[-1, 1] = selection[0], selection[-1] + 1
    runs[1:, 0], runs[:-1, 1] = selection[breaks + 1], selection[breaks] + 1
    return runs
