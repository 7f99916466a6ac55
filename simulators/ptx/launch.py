"""One launch: arguments into the parameter area, the grid into waves of resident blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tileproof.simulators.ptx.arguments import Argument, parameter_area
from tileproof.simulators.ptx.findings import Counters, Findings, Report
from tileproof.simulators.ptx.launch_check import check_launch, cluster_of
from tileproof.simulators.ptx.launch_shape import LaunchShape
from tileproof.simulators.ptx.layout import CONST_BASE, SHARED_BASE, SharedPlacement
from tileproof.simulators.ptx.limits import Limits
from tileproof.simulators.ptx.machine.budget import Budget, BudgetExceeded, Watch
from tileproof.simulators.ptx.machine.engine import Engine, EngineName
from tileproof.simulators.ptx.machine.footprint import check_footprint
from tileproof.simulators.ptx.machine.geometry import Geometry, blocks_of_clusters
from tileproof.simulators.ptx.machine.memory import GlobalMemory, Window
from tileproof.simulators.ptx.machine.order.launch_order import LaunchOrder
from tileproof.simulators.ptx.machine.profile import Profile
from tileproof.simulators.ptx.machine.schedule import Schedule
from tileproof.simulators.ptx.machine.warp import WARP
from tileproof.simulators.ptx.machine.wave import LaunchMemory, Wave
from tileproof.simulators.ptx.program import Kind, Program
from tileproof.simulators.ptx.trace.recorder import Recorder

# What a wave costs by itself weighs less the more lanes it has, until its registers leave the processor's nearer
# caches: of 8 MiB both a small kernel (saxpy) and one with many registers (a tiled product) are at their fastest.
WAVE_LANES = 16384
_REGISTER_BYTES = 8 << 20
# Records of shared accesses (granules times warps, 12 bytes each) that a wave may need; more lowers its blocks.
_ORDER_RECORDS = 1 << 22
# What reaches global memory by another proxy than the threads'.
_OTHER_PROXIES = frozenset({Kind.BULK, Kind.TENSOR, Kind.MAP_EDIT, Kind.MAP_COPY, Kind.ASYNC_STORE})


@dataclass(frozen=True)
class Prepared:
    """A launch that was found legal, with its arguments as they were then: it can run any number of times.

    Attributes:
        program: the kernel.
        shape: grid, block, cluster, dynamic shared memory.
        placement: where its shared variables lie.
        parameters: the parameter area.
        global_addresses: constant slot to address, for module variables.
    """

    program: Program
    shape: LaunchShape
    placement: SharedPlacement
    parameters: Window
    global_addresses: Mapping[int, int]


def prepare(
    program: Program,
    shape: LaunchShape,
    args: Sequence[Argument],
    *,
    global_memory: GlobalMemory,
    global_addresses: Mapping[int, int],
    limits: Limits,
    shared_base: int = SHARED_BASE,
    large_clusters: bool = False,
) -> Prepared:
    """Check a launch and freeze its arguments.

    Raises:
        Refusal: grid, block, cluster, shared memory or arguments are illegal.
    """
    shape = replace(shape, cluster=cluster_of(program, shape.cluster))
    placement = program.shared.place(shape.shared_bytes, shared_base)
    check_launch(program, shape, placement, limits, large_clusters=large_clusters)
    return Prepared(program, shape, placement, parameter_area(program, args, global_memory), global_addresses)


def launch(
    prepared: Prepared,
    *,
    global_memory: GlobalMemory,
    schedule: Schedule,
    limits: Limits,
    budget: Budget,
    engine: EngineName,
    order: bool = True,
    grid_id: int = 1,
    recorder: Recorder | None = None,
    profiled: bool = False,
) -> Report:
    """Run a kernel to its end.

    Raises:
        BudgetExceeded: the launch used up what it was given; it holds what was found until then.
        Refusal: the kernel is outside the modelled range, or needs more memory than is left.
    """
    program, shape, placement = prepared.program, prepared.shape, prepared.placement
    watch = Watch(budget)
    memory = LaunchMemory(
        global_memory,
        prepared.parameters,
        _constants(program),
        prepared.global_addresses,
        placement,
        limits.multiprocessors,
        limits.warps,
        grid_id,
        LaunchOrder(global_memory, order, watch.attend),
        watch.attend,
        None if recorder is not None or not _can_be_weak(program, shape) else schedule.weak(),
        _can_be_late(program, shape),
    )
    findings, counters = Findings(), Counters()
    profile = Profile(program) if profiled else None
    machine = Engine(
        program, schedule, watch, engine, limits.arch, recorder, profile, late=memory.weak is not None and memory.late
    )
    size = shape.blocks_per_cluster
    left = shape.grid[0] * shape.grid[1] * shape.grid[2] // size
    most = max(1, _most_blocks(program, shape, placement.total_bytes) // size)
    for clusters in schedule.waves(left, most):
        left -= clusters.size
        geometry = Geometry(
            shape.grid,
            shape.block,
            blocks_of_clusters(clusters, shape.grid, shape.cluster),
            shape.shared_bytes,
            placement.total_bytes,
            left * size,
            shape.cluster,
            _says_cluster(program, shape),
        )
        check_footprint(program, geometry, global_memory.used_bytes, global_memory.limit_bytes)
        try:
            machine.run(Wave(program, geometry, memory, schedule, findings, counters, limits.arch))
        except BudgetExceeded as exceeded:
            exceeded.report = findings.report(counters, engine.value, machine.handed_back)
            raise
    if profile is not None:
        profile.report(counters, findings)
    return findings.report(counters, engine.value, machine.handed_back)


def _can_be_weak(program: Program, shape: LaunchShape) -> bool:
    """Whether the hostile schedule has what to show: late stores, or engines that work beside the threads."""
    return _can_be_late(program, shape) or program.has_asynchronous or program.has_warpgroups


def _can_be_late(program: Program, shape: LaunchShape) -> bool:
    """Whether anybody could tell that stores to global memory come late: another block, another proxy, a load without
    one. `cp.async` reads by the proxy of its thread, `wgmma` shared memory only."""
    non_coherent = any(step.access is not None and step.access.non_coherent for step in program.steps)
    proxies = any(step.kind in _OTHER_PROXIES for step in program.steps)
    return shape.grid != (1, 1, 1) or proxies or non_coherent


def _says_cluster(program: Program, shape: LaunchShape) -> bool:
    """Whether kernel or launch gives the cluster's extents: %is_explicit_cluster."""
    return program.cluster.explicit or program.cluster.required is not None or shape.blocks_per_cluster > 1


def _most_blocks(program: Program, shape: LaunchShape, total_shared: int) -> int:
    """How many blocks are resident at most."""
    warps = -(-shape.threads // WARP)
    records = -(-total_shared // program.shared_granule) * warps
    lanes = min(WAVE_LANES, _REGISTER_BYTES // (8 * max(1, len(program.slot_bits))))
    return max(1, min(lanes // (warps * WARP), _ORDER_RECORDS // max(1, records)))


def _constants(program: Program) -> Window:
    window = Window("constant", CONST_BASE, len(program.constant_image), 1, defined=True)
    window.fill(0, program.constant_image)
    return window
