"""Run on a machine with a GPU: fingerprints of torch's, Triton's and JAX's products and of our own kernels.

    python tests/h200/fingerprint.py EVIDENCE.json [GLOB]

Each box, or each whose name fits the glob, is fingerprinted in one of a few processes. What a library computes is
reported as found; our own kernels must have the accumulator that their rule declares. A box that cannot run says why.
"""

import json
import multiprocessing
import sys
import time
import traceback
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from fingerprint_boxes import LIBRARIES, int_mm

from tileproof.conformance.environment import capture
from tileproof.conformance.fingerprint.accumulator import FusedSum, Mode, Order, Rounding
from tileproof.conformance.fingerprint.evidence import Unexplained
from tileproof.conformance.fingerprint.fingerprint import Fingerprint, fingerprint
from tileproof.conformance.fingerprint.integers import examine
from tileproof.conformance.fingerprint.kernel_boxes import kernel_boxes
from tileproof.conformance.fingerprint.record import to_record
from tileproof.conformance.fingerprint.report import lines
from tileproof.kernels.cupy_device import CupyDevice

OURS = (
    "ninfer_linear/tma",
    "ninfer_linear/cp-async",
    "ninfer_linear/fallback",
    "ninfer_linear_add/tma",
    "astrai_mm_fp8/128x128-s2/e4m3",
    "astrai_mm_fp8/64x64-s3-lean/e5m2",
)
DECLARED = (
    Order(group=16, period=32, run=2, promotions=(32,)),
    FusedSum(25, result=Rounding(23, Mode.TOWARD_ZERO)),
    Rounding(23, Mode.NEAREST_EVEN),
)
"""mma.m16n8k32 of e4m3 on sm_90, expanded by ptxas 13.0: `oracle.units.nvidia_units`."""

PROCESSES = 6

INTEGERS = "torch._int_mm"
LIBRARY_K = (256, 512)
"""A library may choose another kernel, or a split, for another K."""


def main() -> None:
    start = time.perf_counter()
    wanted = sys.argv[2] if len(sys.argv) > 2 else "*"
    tasks = [(name, k) for k in LIBRARY_K for name in LIBRARIES] + [(name, 256) for name in OURS] + [(INTEGERS, 1024)]
    tasks = [task for task in tasks if fnmatch(task[0], wanted)]
    with multiprocessing.get_context("spawn").Pool(min(PROCESSES, len(tasks))) as pool:
        found = list(pool.imap(run_one, tasks, chunksize=1))
    evidence = {
        "what": "fingerprints of products on the GPU: libraries as found, our kernels against their declared order",
        "environment": asdict(capture()),
        "seconds": round(time.perf_counter() - start, 1),
        "boxes": found,
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1, default=str) + "\n")
    for one in found:
        sys.stdout.write("\n".join(one.get("lines", [f"{one['asked']}: {one.get('not run', one)}"])) + "\n")
    sys.exit(1 if any(one.get("as declared") is False for one in found) else 0)


def run_one(task: tuple[str, int]) -> dict[str, Any]:
    """One box, in a worker."""
    name, k = task
    start = time.perf_counter()
    try:
        return {"asked": name, **_found(name, k), "seconds": round(time.perf_counter() - start, 1)}
    except Exception as error:  # a library that is not there, or refuses, must not stop the others
        trace = traceback.format_exc().splitlines()[-3:]
        return {"asked": name, "not run": f"{type(error).__name__}: {error}", "trace": trace}


def _found(name: str, k: int) -> dict[str, Any]:
    if name == INTEGERS:
        try:
            return {"box": name, "lines": [f"{name}: {examine(name, int_mm, k)}"]}
        except Unexplained as why:
            return {"box": name, "lines": [f"{name}: unknown, {why}"]}
    if name in LIBRARIES:
        found = fingerprint(LIBRARIES[name](), k)
        return {**to_record(found), "lines": lines(found, probes=False)}
    found = fingerprint(kernel_boxes(CupyDevice())[name](), k)
    return {**to_record(found), "as declared": _as_declared(found), "lines": lines(found, probes=False)}


def _as_declared(found: Fingerprint) -> bool:
    named = found.accumulator
    return named is not None and (named.order, named.fused, named.sums) == DECLARED


if __name__ == "__main__":
    main()
