"""Clusters and launch limits on the H200 and on the simulator: registers, addresses, and what a launch may ask for.

python tests/h200/clusters.py EVIDENCE.json
"""

import json
import sys
from itertools import product
from pathlib import Path

import cupy
import numpy as np
from cluster_kernels import NAMES, PLAIN, RECORDED, kernel
from driver_launch import Extent, launch, load

from tileproof.conformance.environment import capture
from tileproof.conformance.records import to_json
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

GRIDS: tuple[tuple[Extent, Extent | None], ...] = (
    ((4, 2, 2), None),
    ((4, 2, 2), (2, 1, 1)),
    ((4, 2, 2), (2, 2, 2)),
    ((8, 1, 1), (8, 1, 1)),
)
CLUSTERS = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 2, 1), (8, 1, 1), (9, 1, 1), (16, 1, 1), (8, 4, 1), (1, 1, 4))
DIRECTIVES = ("", ".maxclusterrank 2", ".reqnctapercluster 2, 1, 1", ".explicitcluster")
SIZES: tuple[tuple[Extent, int], ...] = (
    *(((32, 1, 1), shared) for shared in (0, 48 * 1024, 227 * 1024, 227 * 1024 + 1)),
    ((512, 1, 1), 0),
    ((1024, 1, 1), 0),
)


def values() -> tuple[int, list[object]]:
    """Values that were compared, and those that differ."""
    asked, different = 0, list[object]()
    for align, (grid, cluster), compiled, dynamic in product((1, 4, 16, 128, 1024), GRIDS, (False, True), (0, 100)):
        directives = f".reqnctapercluster {cluster[0]}, {cluster[1]}, {cluster[2]}" if compiled and cluster else ""
        text = kernel(align, directives)
        shape = (grid[0] * grid[1] * grid[2], len(NAMES))
        theirs = cupy.zeros(shape, np.uint32)
        code = launch(
            load(text), grid, (32, 1, 1), theirs.data.ptr, shared_bytes=dynamic, cluster=None if compiled else cluster
        )
        machine = Device("sm_90a")
        ours = machine.allocate(shape, np.uint32)
        machine.load_ptx(text)["k"].launch(
            grid=grid, block=(32, 1, 1), args=(ours,), shared_bytes=dynamic, cluster=cluster or (1, 1, 1)
        )
        unequal = np.argwhere(theirs.get() != ours.download())
        asked += ours.download().size
        for index in sorted({int(column) for _, column in unequal}):
            row = int(unequal[unequal[:, 1] == index][0, 0])
            pair = [hex(int(theirs.get()[row, index])), hex(int(ours.download()[row, index]))]
            different.append([align, grid, cluster, compiled, dynamic, code, NAMES[index], row, *pair])
    return asked, different


def limits() -> tuple[int, list[object]]:
    """Launches that were asked for, and those on which the driver and the simulator disagree."""
    asked, different = 0, list[object]()
    for directives, cluster, opt_in in product(DIRECTIVES, CLUSTERS, (False, True)):
        for block, shared in SIZES:
            text, grid = PLAIN.format(directives=directives), (48, 4, 4)
            given = None if cluster == (1, 1, 1) else cluster  # what (1, 1, 1) says to the simulator
            code = launch(load(text), grid, block, 0, shared_bytes=shared, cluster=given, large_clusters=opt_in)
            try:
                Device("sm_90a", large_clusters=opt_in).load_ptx(text)["k"].launch(
                    grid=grid, block=block, args=(np.uint64(0),), shared_bytes=shared, cluster=cluster
                )
                refused = ""
            except Refusal as error:
                refused = error.message
            asked += 1
            if bool(code) != bool(refused):
                different.append([directives, cluster, opt_in, block, shared, code, refused])
    return asked, different


def recorded() -> dict[str, list[int]]:
    """What the simulator does not model, of kernels with 0 and 100 bytes of dynamic shared memory."""
    found = {}
    for dynamic in (0, 100):
        out = cupy.zeros(len(RECORDED), np.uint32)
        launch(load(kernel(16, recorded=True)), (1, 1, 1), (96, 1, 1), out.data.ptr, shared_bytes=dynamic)
        found[str(dynamic)] = out.get().tolist()
    return found


def main() -> None:
    asked_values, different_values = values()
    asked_limits, different_limits = limits()
    evidence = {
        "what": "special registers, shared addresses and launch limits of clusters on the GPU and on the simulator",
        "environment": to_json(capture()),
        "values": asked_values,
        "different_values": different_values,
        "limits": asked_limits,
        "different_limits": different_limits,
        "recorded": {"names": RECORDED, "by_dynamic_bytes": recorded()},
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    sys.stdout.write(f"{asked_values} values, {len(different_values)} different; ")
    sys.stdout.write(f"{asked_limits} limits, {len(different_limits)} different\n")


if __name__ == "__main__":
    main()
