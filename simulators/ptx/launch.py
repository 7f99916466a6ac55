"""One launch: arguments into the parameter area, the grid into waves of resident blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.arguments import Argument, parameter_area
from tileproof.simulators.ptx.findings import Counters, Findings, Index3, Report
from tileproof.simulators.ptx.layout import CONST_BASE, align_up
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.engine import Engine, EngineName
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Window
from tileproof.simulators.ptx.machine.schedule import Schedule
from tileproof.simulators.ptx.machine.warp import WARP
from tileproof.simulators.ptx.machine.wave import LaunchMemory, Wave
from tileproof.simulators.ptx.program import Program

# Lanes of one wave: numpy is fastest per lane between a few thousand and some ten thousand lanes.
WAVE_LANES = 8192
# Records of shared accesses (granules times warps, 12 bytes each) that a wave may need; more lowers its blocks.
_ORDER_RECORDS = 1 << 22
_GRID_LIMIT = (2**31 - 1, 65535, 65535)
_BLOCK_LIMIT = (1024, 1024, 64)
_THREAD_LIMIT = 1024


@dataclass(frozen=True)
class LaunchShape:
    """Grid, block and dynamic shared memory of one launch."""

    grid: Index3
    block: Index3
    shared_bytes: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


def launch(
    program: Program,
    shape: LaunchShape,
    args: Sequence[Argument],
    *,
    global_memory: GlobalMemory,
    global_addresses: Mapping[int, int],
    schedule: Schedule,
    limits: Limits,
    step_budget: int,
    engine: EngineName,
) -> Report:
    """Run a kernel to its end.

    Raises:
        Refusal: grid, block, shared memory or arguments are illegal, or the kernel is outside the modelled range.
    """
    _check_shape(program, shape, limits)
    memory = LaunchMemory(
        global_memory, parameter_area(program, args, global_memory), _constants(program), global_addresses
    )
    findings, counters = Findings(), Counters()
    machine = Engine(program, schedule, step_budget, engine)
    blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
    total_shared = _total_shared_bytes(program, shape)
    for resident in schedule.waves(blocks, _most_blocks(program, shape, total_shared)):
        blocks -= resident.size
        geometry = Geometry(shape.grid, shape.block, resident, shape.shared_bytes, total_shared, blocks)
        machine.run(Wave(program, geometry, memory, schedule, findings, counters, limits.arch))
    return findings.report(counters, engine.value, machine.handed_back)


def _total_shared_bytes(program: Program, shape: LaunchShape) -> int:
    """Static shared memory and, aligned behind it, the dynamic part."""
    if not shape.shared_bytes:
        return program.shared_bytes
    return align_up(program.shared_bytes, program.dynamic_alignment) + shape.shared_bytes


def _most_blocks(program: Program, shape: LaunchShape, total_shared: int) -> int:
    """How many blocks are resident at most."""
    warps = -(-shape.threads // WARP)
    records = -(-total_shared // program.shared_granule) * warps
    return max(1, min(WAVE_LANES // (warps * WARP), _ORDER_RECORDS // max(1, records)))


def _check_shape(program: Program, shape: LaunchShape, limits: Limits) -> None:
    for name, extent, limit in (("grid", shape.grid, _GRID_LIMIT), ("block", shape.block, _BLOCK_LIMIT)):
        if len(extent) != 3 or any(not 1 <= n <= most for n, most in zip(extent, limit, strict=True)):
            raise Refusal(f"{name} {extent}: x, y, z must be at least 1 and at most {limit}")
    if shape.threads > _THREAD_LIMIT:
        raise Refusal(f"block {shape.block} has {shape.threads} threads, the limit is {_THREAD_LIMIT}")
    limit3 = program.thread_limit
    if limit3 is not None:
        most = limit3[0] * limit3[1] * limit3[2]
        if shape.threads > most or (program.thread_exact and shape.block != limit3):
            rule = ".reqntid" if program.thread_exact else ".maxntid"
            raise Refusal(f"block {shape.block}: the kernel {program.name} was compiled with {rule} {limit3}")
    if shape.shared_bytes < 0 or _total_shared_bytes(program, shape) > limits.shared_bytes_per_block:
        raise Refusal(
            f"{program.shared_bytes} bytes of static and {shape.shared_bytes} of dynamic shared memory: "
            f"{limits.arch} has {limits.shared_bytes_per_block} a block"
        )


def _constants(program: Program) -> Window:
    window = Window("constant", CONST_BASE, len(program.constant_image), 1, defined=True)
    window.fill(0, program.constant_image)
    return window
