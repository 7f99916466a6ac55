"""The order's check as the loop calls it: a function at an address, and a table that says where everything is.

What it does not pass, with nothing of the access made, goes to the reference engine's check.
"""

from operator import is_not
from typing import Any

import numba
import numpy as np

from tileproof.simulators.ptx.fast.asking import FOLDED_CALL
from tileproof.simulators.ptx.fast.layout import SHARED
from tileproof.simulators.ptx.fast.parts import inlined
from tileproof.simulators.ptx.fast.pointers import as_pointer
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Lanes
from tileproof.simulators.ptx.machine.order import compiled_order as core
from tileproof.simulators.ptx.machine.order import compiled_warps
from tileproof.simulators.ptx.machine.order.kinds import Engine
from tileproof.simulators.ptx.machine.order.remembered import Memory
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import StateSpace

# Addresses and lengths of clocks and of what lanes know; then of the records of each memory; then of the shadows of
# allocations; then the shadow of the shared memory; then the components of engines; then which shadow
# was missing, an allocation's number or that of the shared one.
_ROWS, _ROW_COUNT, _COMPONENTS, _VIEWS, _PLANE_COUNT, _LANES, _MINDS, _SPANS, _SPAN_COUNT = 0, 1, 2, 3, 4, 5, 6, 7, 8
_MAPS, _MAP_COUNT, _SHAPE, _KEPT, _TICKS = 9, 10, 11, 12, 13
_MEMORIES, _MEMORY_COLUMNS = 14, 13
_RECORDS, _RECORD_COUNT, _NODES, _NODE_COUNT, _STATE, _LAST, _STEPS, _PATTERNS, _PLANES, _LONGEST = range(10)
_LEAVES, _LEAF_COUNT, _LAST_WARPS = 10, 11, 12
_SHADOWS, _SHARED, _ENGINES, _MISSING, _TABLE = 40, 41, 44, 45, 46
# A shadow: address and number of its lines; a granule's bytes as a power of two. Zeros: not known.
_LINES, _LINE_COUNT, _SHIFT, _SHADOW_COLUMNS = 0, 1, 2, 3

_NONE, _SHARED_SHADOW = -2, -1
_LANE, _WARPGROUP = 31, 128
#: Number of the engines of warpgroups.
_WARPGROUPS = int(Engine.WGMMA)
_pass_warps = compiled_warps.pass_warps


@inlined
def _words(address: Any, shape: Any) -> Any:
    return numba.carray(as_pointer(address), shape, np.int32)


@inlined
def _slots(address: Any, shape: Any) -> Any:
    return numba.carray(as_pointer(address), shape, np.uint32)


@inlined
def _longs(address: Any, shape: Any) -> Any:
    return numba.carray(as_pointer(address), shape, np.int64)


@inlined
def _components(t: Any, flags: Any, lanes: Any, components: Any) -> Any:
    """The components of engines that perform accesses which lanes issue; whether the engines have some yet."""
    engine = ((flags >> core.ENGINE_SHIFT) & core.ENGINE_MASK) - 1
    first, shape = _longs(t[_ENGINES], (4,))[engine], _longs(t[_SHAPE], (core.SHAPES,))
    block_lanes = shape[core.LANES_PER_BLOCK]
    for i in range(len(lanes)):
        local = lanes[i] % shape[core.LANES_PER_UNIT]
        if engine == _WARPGROUPS:
            own = local // block_lanes * -(-block_lanes // _WARPGROUP) + local % block_lanes // _WARPGROUP
        else:
            own = local & ~_LANE
        components[i] = first + own
    return first >= 0


def _made(stamp: int) -> Any:
    """The function; `stamp` is part of what numba's cache knows it by."""

    @numba.cfunc(f"int64({', '.join(['int64'] * 11)})", cache=True, error_model="numpy")
    def gate(table, space, allocation, lanes, offsets, count, nbytes, flags, pc, by_warp, at):  # type: ignore[no-untyped-def]
        # Of accesses by engines, `at` is the address of their ticks, with room for as many components behind them.
        if stamp == 0:
            return 1
        t = _longs(table, (_TABLE,))
        if space == SHARED:
            shadow = _longs(table + _SHARED * 8, (_SHADOW_COLUMNS,))
        else:
            shadow = _longs(t[_SHADOWS] + allocation * _SHADOW_COLUMNS * 8, (_SHADOW_COLUMNS,))
        shift = shadow[_SHIFT]
        if shadow[_LINES] == 0 or nbytes & ((1 << shift) - 1):
            t[_MISSING] = _SHARED_SHADOW if space == SHARED else allocation
            return 1
        engines = count if at != 0 else 0
        ticks, components = _longs(at, (engines,)), _longs(at + engines * 8, (engines,))
        if engines > 0 and not _components(t, flags, _longs(lanes, (engines,)), components):
            return 1
        m = _longs(table + (_MEMORIES + space * _MEMORY_COLUMNS) * 8, (_MEMORY_COLUMNS,))
        state = _longs(m[_STATE], (core.STATES,))
        if space == SHARED and state[core.FOLDED] != 0 and not by_warp & FOLDED_CALL:
            return 1
        warps = t[_LANES] >> 5
        answer = _pass_warps(
            _words(t[_ROWS], (t[_ROW_COUNT], t[_COMPONENTS])),
            _words(t[_VIEWS], (t[_PLANE_COUNT], t[_LANES], core.VIEW_COLUMNS)),
            numba.carray(as_pointer(t[_MINDS]), (warps,), np.uint8),
            _longs(t[_SPANS], (t[_SPAN_COUNT], 2)),
            _words(t[_MAPS], (t[_MAP_COUNT], 2)),
            _longs(t[_SHAPE], (core.SHAPES,)),
            _longs(m[_PLANES] + (32 if flags & core.ASYNC_PROXY else 0), (4,)),
            _words(m[_RECORDS], (m[_RECORD_COUNT], core.RECORD_COLUMNS)),
            _slots(m[_NODES], (m[_NODE_COUNT], core.NODE_COLUMNS)),
            state,
            _words(m[_LAST], (m[_STEPS], m[_LAST_WARPS])),
            _longs(m[_PATTERNS], (m[_STEPS], compiled_warps.PATTERN)),
            _longs(t[_KEPT], (core.KEPT, 3)),
            _slots(shadow[_LINES], (shadow[_LINE_COUNT], 2)),
            _slots(m[_LEAVES], (m[_LEAF_COUNT], 1 << core.LINE_SHIFT)),
            shift,
            _longs(lanes, (count,)),
            _longs(offsets, (count,)),
            nbytes,
            flags,
            pc,
            by_warp & 1 != 0,
            _words(t[_TICKS], (warps,)),
            m[_LONGEST],
            components,
            ticks,
        )
        return 0 if answer == compiled_warps.PASSED else 1

    return gate


_gate = _made(compiled_warps.STAMP)


class OrderGate:
    """The table of one launch's waves, one after the other.

    Attributes:
        function: address of the function.
        table: address of the table.
    """

    def __init__(self) -> None:
        self.function = int(_gate.address)
        self._table = np.zeros(_TABLE, np.int64)
        self.table = self._table.ctypes.data
        self._shadows = np.zeros((0, _SHADOW_COLUMNS), np.int64)
        self._kept = np.zeros((core.KEPT, 3), np.int64)
        self._table[_KEPT] = self._kept.ctypes.data
        self._arrays: tuple[object, ...] = ()
        self._allocations: object = None
        self._moves = (0, 0)

    def begin(self, wave: Wave) -> None:
        """The next wave."""
        knowledge, table = wave.order.knowledge, self._table
        views = knowledge.views
        table[_VIEWS], table[_PLANE_COUNT], table[_LANES] = views.ctypes.data, views.shape[0], views.shape[1]
        table[_MINDS], table[_SHAPE] = knowledge.minds.ctypes.data, knowledge.shape.ctypes.data
        table[_TICKS], table[_ENGINES] = knowledge.ticks.ctypes.data, knowledge.engines.ctypes.data
        table[_MISSING] = _NONE
        table[_SHARED : _SHARED + _SHADOW_COLUMNS] = 0
        self.look(wave)

    def look(self, wave: Wave) -> None:
        """See what was replaced since; to be called before the loop is."""
        checks, clocks = wave.order.checks, wave.order.knowledge.clocks
        memories = checks.global_memory, checks.shared
        first, second = (memory.touched for memory in memories)
        arrays = (
            *(clocks.rows, clocks.spans, clocks.maps, memories[0].last, memories[1].last),
            *(first.records, first.nodes, first.leaves, second.records, second.nodes, second.leaves),
        )
        if not self._arrays or any(map(is_not, arrays, self._arrays)):
            self._arrays = arrays
            table = self._table
            table[_ROWS], (table[_ROW_COUNT], table[_COMPONENTS]) = clocks.rows.ctypes.data, clocks.rows.shape
            table[_SPANS], table[_SPAN_COUNT] = clocks.spans.ctypes.data, len(clocks.spans)
            table[_MAPS], table[_MAP_COUNT] = clocks.maps.ctypes.data, len(clocks.maps)
            for index, memory in enumerate(memories):
                start = _MEMORIES + index * _MEMORY_COLUMNS
                table[start : start + _MEMORY_COLUMNS] = _memory_line(memory)
        device_memory = wave.spaces[StateSpace.GLOBAL]
        assert isinstance(device_memory, GlobalMemory)
        allocations = device_memory.table()
        moves = (first.moves, second.moves)
        if self._allocations is not allocations or self._moves != moves:
            self._allocations, self._moves = allocations, moves
            self._shadows = np.zeros((len(allocations), _SHADOW_COLUMNS), np.int64)
            self._table[_SHADOWS] = self._shadows.ctypes.data
            self._table[_SHARED : _SHARED + _SHADOW_COLUMNS] = 0
        if self._table[_MISSING] != _NONE:
            self._find(wave, device_memory, int(self._table[_MISSING]))

    def _find(self, wave: Wave, memory: GlobalMemory, missing: int) -> None:
        """The shadow that was missing: the reference engine has made an access there since, and now there is one."""
        shadow = wave.shared.shadow if missing == _SHARED_SHADOW else memory.allocation(missing).shadow
        self._table[_MISSING] = _NONE
        if shadow is None:
            return
        line = shadow.lines.ctypes.data, len(shadow.lines), shadow.shift
        if missing == _SHARED_SHADOW:
            self._table[_SHARED : _SHARED + _SHADOW_COLUMNS] = line
        else:
            self._shadows[missing] = line


def _memory_line(memory: Memory) -> Lanes:
    touched = memory.touched
    return np.array(
        [
            *(touched.records.ctypes.data, len(touched.records), touched.nodes.ctypes.data, len(touched.nodes)),
            *(touched.state.ctypes.data, memory.last.ctypes.data, memory.last.shape[0], memory.patterns.ctypes.data),
            *(memory.planes.ctypes.data, memory.longest, touched.leaves.ctypes.data, len(touched.leaves)),
            memory.last.shape[1],
        ],
        np.int64,
    )
