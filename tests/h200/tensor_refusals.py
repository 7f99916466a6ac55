"""Run on a machine with an H200: the tensor copies that the GPU refuses, and what the simulator says of them.

    python tests/h200/tensor_refusals.py EVIDENCE.json

Each runs in a process of its own, because an error costs the context.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tensor_cases import Illegal, illegal, run

from tileproof.conformance.environment import capture
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.device import DeviceError, EncodesTensorMaps
from tileproof.kernels.tensor_probe import REDUCTIONS, TensorProbe
from tileproof.simulators.ptx.device import Device as CpuDevice


def attempt(device: EncodesTensorMaps, case: Illegal) -> list[str]:
    """The GPU's error, or the kinds of findings."""
    copy = case.copy
    reductions = [copy.kind] if copy.kind in REDUCTIONS else []
    probe = TensorProbe(device, (len(copy.corner),), reductions)
    try:
        _, _, report = run(device, probe, copy, zeros=case.garbage)
    except DeviceError as error:
        return [error.error]
    return sorted({finding.kind.value for finding in report.findings})


def refusals() -> list[dict[str, Any]]:
    """Every illegal copy on both devices."""
    cases = illegal()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(pool.map(_in_process, range(len(cases))))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as processes:
        kinds = list(processes.map(_on_cpu, range(len(cases))))
    return [
        {"copy": case.name, "gpu": error, "simulator": found, "expected": case.finding}
        for case, error, found in zip(cases, errors, kinds, strict=True)
    ]


def _on_cpu(number: int) -> list[str]:
    return attempt(CpuDevice("sm_90a"), illegal()[number])


def _in_process(number: int) -> list[str]:
    command = [sys.executable, __file__, "--illegal", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    return lines[-1:] or [done.stderr[-200:]]


def text_of(rows: list[dict[str, Any]]) -> str:
    """The evidence, one line a copy."""
    alike = sum(row["gpu"][0].startswith("cuda") and row["simulator"] == [row["expected"]] for row in rows)
    head = {
        "what": "tensor copies that the GPU answers with an error, and the kinds of the simulator's findings",
        "environment": asdict(capture()),
        "copies": len(rows),
        "alike": alike,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines.append('"refused": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    if sys.argv[1] == "--illegal":
        sys.stdout.write(" ".join(attempt(CupyDevice(), illegal()[int(sys.argv[2])])) + "\n")
        return
    rows = refusals()
    text = text_of(rows)
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    sys.exit(0 if json.loads(text)["alike"] == len(rows) else 1)


if __name__ == "__main__":
    main()
