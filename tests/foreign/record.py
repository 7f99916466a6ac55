"""Writes docs/evidence/cpu_device/foreign.json, of which docs/foreign.md is made: `python tests/foreign/record.py`.

Needs what `make foreign` fetches. Times are of the processor, of one launch whose machine code was compiled before.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from case import Case
from cases import CASES

from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.text.parse import parse_module

OUT = Path(__file__).parents[2] / "docs" / "evidence" / "cpu_device" / "foreign.json"
HOSTILE_SEEDS = (1, 2, 3)
#: Instructions by the first of these that their opcode begins with.
FAMILIES = (
    "wgmma.mma_async", "mma.sync", "ldmatrix", "stmatrix", "cp.async.bulk.tensor", "cp.async", "mbarrier", "tensormap",
    "fence.proxy", "elect", "setmaxnreg", "barrier.cluster", "mapa", "bar", "shfl", "griddepcontrol", "ld.global",
    "st.global", "ld.shared", "st.shared", "cvt", "fma", "mul.f32", "add.f32", "div", "max", "min",
)  # fmt: skip


def record(case: Case) -> dict[str, Any]:
    """One row."""
    start = time.perf_counter()
    ptx = case.built.ptx
    built = time.perf_counter() - start
    case.launch()
    start = time.process_time()
    outcome = case.launch()
    ran = time.process_time() - start
    hostile = [case.launch(schedule="adversarial", seed=seed) for seed in HOSTILE_SEEDS]
    seeds = HOSTILE_SEEDS if case.lowest_leader else ()
    led = [case.launch(schedule="adversarial", seed=seed, lowest_leader=False) for seed in seeds]
    any_leader = {finding.kind.value for each in led for finding in each.report.findings}
    name, entry = next((name, entry) for name, entry in parse_module(ptx).entries.items() if name != "describe")
    opcodes = [".".join((each.mnemonic, *each.qualifiers)) for each in entry.instructions]
    families = Counter(next((family for family in FAMILIES if code.startswith(family)), "other") for code in opcodes)
    return {
        "name": case.name,
        "package": f"{case.package} {case.version}",
        "file": case.file,
        "kernel": case.kernel,
        "arch": case.arch,
        "judged": case.judged,
        "instructions": len(opcodes),
        "families": {family: families[family] for family in FAMILIES if families[family]},
        "contractible": len(Device(arch=case.arch).load_ptx(ptx)[name].contractible),
        "outputs": int(outcome.got.size),
        "wrong": outcome.wrong,
        "undecided": outcome.undecided,
        "findings": [finding.message for finding in outcome.report.findings],
        "notes": [note.message for note in outcome.report.notes],
        "hostile_seeds": len(HOSTILE_SEEDS),
        "hostile_wrong": sum(each.wrong for each in hostile),
        "hostile_findings": sum(len(each.report.findings) for each in hostile),
        "any_leader": sorted(any_leader),
        "build_s": round(built, 1),
        "run_s": round(ran, 2),
    }


if __name__ == "__main__":
    rows = [record(case) for case in CASES]
    OUT.write_text(json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n")
    sys.exit(any(row["wrong"] or row["findings"] for row in rows))
