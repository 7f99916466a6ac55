"""The occupancy model against the driver: kernels of many needs, all block sizes, many sizes of dynamic shared memory.

python tests/h200/occupancy.py EVIDENCE.json
"""

import json
import sys
from collections import Counter
from pathlib import Path

import cupy
from occupancy_kernels import source

from tileproof.conformance.environment import capture
from tileproof.conformance.records import to_json
from tileproof.kernels.compile import compile_source
from tileproof.kernels.occupancy import occupancy
from tileproof.kernels.resources import resources_of

THREADS = (1, 31, 32, 33, 64, 96, 128, 160, 224, 256, 288, 384, 416, 512, 640, 768, 896, 1000, 1024)
DYNAMIC_BYTES = (0, 1, 127, 128, 1000, 8000, 16384, 31000, 49152, 65536, 98816, 100000, 115000, 116000, 200000, 232448)


def main() -> None:
    driver = cupy.cuda.driver
    module = compile_source(source(), name="occupancy_kernels.cu", arch="sm_90a")
    used = resources_of(module.report)
    loaded = cupy.cuda.function.Module()
    loaded.load(module.cubin)
    different: list[list[object]] = []
    limits: Counter[str] = Counter()
    asked = 0
    for entry in module.entries:
        function = loaded.get_function(entry)
        for dynamic in DYNAMIC_BYTES:
            if used[entry].shared_bytes + dynamic > 232448:
                continue
            driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic)
            for threads in THREADS:
                ours = occupancy("sm_90a", used[entry], threads=threads, dynamic_shared_bytes=dynamic)
                theirs = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, dynamic)
                asked += 1
                limits.update(ours.limits)
                if ours.blocks != theirs:
                    different.append([entry, threads, dynamic, ours.blocks, theirs])
    evidence = {
        "what": "blocks of an SM by kernels.occupancy and by cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "environment": to_json(capture()),
        "asked": asked,
        "different": different,
        "limits_met": dict(limits),
        "registers": {entry: used[entry].registers for entry in module.entries},
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    sys.stdout.write(f"{asked} asked, {len(different)} different: {different[:10]}\n")


if __name__ == "__main__":
    main()
