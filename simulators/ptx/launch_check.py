"""Whether a launch is legal: extents, threads, shared memory, clusters, by kernel and architecture."""

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.findings import Index3
from tileproof.simulators.ptx.launch_shape import LaunchShape
from tileproof.simulators.ptx.layout import SharedPlacement
from tileproof.simulators.ptx.limits import (
    BLOCK_LIMIT,
    FIRST_WITH_CLUSTERS,
    GRID_LIMIT,
    PORTABLE_CLUSTER,
    STATIC_SHARED_BYTES,
    THREAD_LIMIT,
    Limits,
)
from tileproof.simulators.ptx.program import Program


def cluster_of(program: Program, given: Index3) -> Index3:
    """The cluster of a launch: what the kernel was compiled with, if the launch leaves it open.

    Raises:
        Refusal: the kernel was compiled with another one.
    """
    required = program.cluster.required
    if required is None or given == required:
        return given
    if given != (1, 1, 1):
        raise Refusal(
            f"cluster {given}: the kernel {program.name} was compiled with .reqnctapercluster {required}",
            hint="leave cluster out, or give that one",
        )
    return required


def check_launch(
    program: Program, shape: LaunchShape, placement: SharedPlacement, limits: Limits, *, large_clusters: bool
) -> None:
    """Whether the kernel can be launched so.

    Raises:
        Refusal: it cannot; the message names value and limit.
    """
    for name, extent, limit in (("grid", shape.grid, GRID_LIMIT), ("block", shape.block, BLOCK_LIMIT)):
        if len(extent) != 3 or any(not 1 <= n <= most for n, most in zip(extent, limit, strict=True)):
            raise Refusal(f"{name} {extent}: x, y, z must be at least 1 and at most {limit}")
    _check_threads(program, shape)
    _check_shared(program, shape, placement, limits)
    _check_cluster(program, shape, limits, large_clusters)


def _check_threads(program: Program, shape: LaunchShape) -> None:
    if shape.threads > THREAD_LIMIT:
        raise Refusal(f"block {shape.block} has {shape.threads} threads, the limit is {THREAD_LIMIT}")
    limit = program.thread_limit
    if limit is not None:
        most = limit[0] * limit[1] * limit[2]
        if shape.threads > most or (program.thread_exact and shape.block != limit):
            rule = ".reqntid" if program.thread_exact else ".maxntid"
            raise Refusal(f"block {shape.block}: the kernel {program.name} was compiled with {rule} {limit}")


def _check_shared(program: Program, shape: LaunchShape, placement: SharedPlacement, limits: Limits) -> None:
    if placement.static_bytes > STATIC_SHARED_BYTES:
        raise Refusal(
            f"kernel {program.name} declares {placement.static_bytes} bytes of static shared memory: the limit is "
            f"{STATIC_SHARED_BYTES}",
            hint="declare an .extern .shared array and give shared_bytes at the launch",
        )
    if shape.shared_bytes < 0 or placement.given_bytes > limits.shared_bytes_per_block:
        raise Refusal(
            f"{placement.static_bytes} bytes of static and {shape.shared_bytes} of dynamic shared memory: "
            f"{limits.arch} has {limits.shared_bytes_per_block} a block"
        )


def _check_cluster(program: Program, shape: LaunchShape, limits: Limits, large_clusters: bool) -> None:
    cluster, size = shape.cluster, shape.blocks_per_cluster
    if len(cluster) != 3 or any(n < 1 for n in cluster):
        raise Refusal(f"cluster {cluster}: x, y, z must be at least 1")
    if size > 1 and limits.number < FIRST_WITH_CLUSTERS:
        raise Refusal(f"cluster {cluster}: {limits.arch} has no clusters", hint=f"they need sm_{FIRST_WITH_CLUSTERS}")
    if any(blocks % n for blocks, n in zip(shape.grid, cluster, strict=True)):
        raise Refusal(f"grid {shape.grid} is not a multiple of the cluster {cluster}")
    if size > limits.largest_cluster:
        raise Refusal(f"cluster {cluster} has {size} blocks: {limits.arch} has at most {limits.largest_cluster}")
    if size > PORTABLE_CLUSTER and not large_clusters:
        raise Refusal(
            f"cluster {cluster} has {size} blocks, and {PORTABLE_CLUSTER} are portable",
            hint="Device(large_clusters=True) stands for the attribute that allows more",
        )
    most = program.cluster.most
    if most is not None and size > most:
        raise Refusal(f"cluster {cluster} has {size} blocks: {program.name} was compiled with .maxclusterrank {most}")
