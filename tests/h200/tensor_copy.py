"""Run on a machine with an H200: tensor copies on the GPU and on the simulator, byte for byte.

    python tests/h200/tensor_copy.py EVIDENCE.json BYTES.npz
    python tests/h200/tensor_copy.py --dry EVIDENCE.json BYTES.npz       (no GPU: the simulator stands in for it)

Random copies of every rank, swizzle, element type and reduction. BYTES.npz keeps what the GPU left behind of some,
which the gate holds the simulator to.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tensor_cases import Bytes, Copy, legal, run

from tileproof.conformance.environment import capture
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.device import EncodesTensorMaps
from tileproof.kernels.tensor_probe import RANKS, REDUCTIONS, TensorProbe
from tileproof.simulators.ptx.device import Device as CpuDevice

COUNT, STRIDE = 3000, 19
CHUNK = 25


def on_gpu(device: EncodesTensorMaps, copies: Sequence[Copy]) -> list[Bytes]:
    """What every copy leaves behind."""
    probe, results = TensorProbe(device, RANKS, REDUCTIONS), []
    for copy in copies:
        left, complete, _ = run(device, probe, copy)
        assert complete, copy
        results.append(left)
    return results


def on_cpu(copies: Sequence[Copy]) -> list[tuple[Bytes, bool, list[str]]]:
    """The same of the simulator, with its findings."""
    device = CpuDevice("sm_90a")
    probe, results = TensorProbe(device, RANKS, REDUCTIONS), []
    for copy in copies:
        left, complete, report = run(device, probe, copy)
        results.append((left, complete, [str(finding) for finding in report.findings]))
    return results


def in_processes(copies: Sequence[Copy]) -> list[tuple[Bytes, bool, list[str]]]:
    """In processes that fork, so that they see the decoded kernels; none of them touches the GPU."""
    chunks = [copies[first : first + CHUNK] for first in range(0, len(copies), CHUNK)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
        return [result for chunk in pool.map(on_cpu, chunks) for result in chunk]


def form(copy: Copy) -> str:
    """What counts as one form."""
    return f"{copy.kind} {copy.dtype} {len(copy.box)}d swizzle {copy.swizzle}"


def report(
    copies: Sequence[Copy], gpu: Sequence[Bytes], cpu: Sequence[tuple[Bytes, bool, list[str]]]
) -> dict[str, Any]:
    different = [
        {"copy": asdict(copy), "bytes": int((left != here).sum()), "complete": complete, "findings": findings}
        for copy, left, (here, complete, findings) in zip(copies, gpu, cpu, strict=True)
        if findings or not complete or not np.array_equal(left, here)
    ]
    return {
        "what": "tensor copies on the GPU and on the simulator: shared memory after a load, the tensor after the rest",
        "environment": asdict(capture()),
        "copies": len(copies),
        "bytes": sum(left.size for left in gpu),
        "different": len(different),
        "examples": different[:10],
        "forms": dict(sorted(Counter(form(copy) for copy in copies).items())),
    }


def main() -> None:
    dry, paths = "--dry" in sys.argv, [argument for argument in sys.argv[1:] if argument != "--dry"]
    start = time.perf_counter()
    copies = list(legal(COUNT))
    TensorProbe(CpuDevice("sm_90a"), RANKS, REDUCTIONS)  # decoded before processes fork
    gpu = on_gpu(CpuDevice("sm_90a") if dry else CupyDevice(), copies[: 2 * STRIDE] if dry else copies)
    sys.stdout.write(f"launched, {time.perf_counter() - start:.1f} s\n")
    cpu = in_processes(copies[: len(gpu)])
    sys.stdout.write(f"simulated, {time.perf_counter() - start:.1f} s\n")
    evidence = report(copies[: len(gpu)], gpu, cpu)
    Path(paths[0]).write_text(json.dumps(evidence, indent=0) + "\n")
    arrays: dict[str, Any] = {f"copy{number}": left for number, left in enumerate(gpu[::STRIDE])}
    listing = json.dumps([asdict(copy) for copy in copies[: len(gpu)][::STRIDE]])
    np.savez_compressed(paths[1], listing=np.frombuffer(listing.encode(), np.uint8), **arrays)
    shown = {key: value for key, value in evidence.items() if key != "forms"}
    sys.stdout.write(json.dumps(shown, indent=0) + f"\n{time.perf_counter() - start:.1f} s\n")
    sys.exit(1 if evidence["different"] else 0)


if __name__ == "__main__":
    main()
