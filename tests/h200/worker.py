"""Run on a machine with a GPU: a kernel that faults and one that never ends kill their worker, and nothing else.

python tests/h200/worker.py EVIDENCE.json
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from tileproof.conformance.environment import capture
from tileproof.conformance.registry import find_case
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.worker import Job, Worker
from tileproof.kernels.compile import CompiledModule, compile_source
from tileproof.kernels.cupy_device import CupyDevice, CupyFunction
from tileproof.kernels.device import Device
from tileproof.kernels.fp8_quantize_rows import NAME, SOURCE

GOOD, WILD, ENDLESS = 0, 1, 2
CASE = "ninfer_quantize/fp8_quantize_rows/vector/T3.K64.f32/ties/0"
DEADLINE_S = 10.0

EDITS = {
    WILD: ("scales[row] = scale.scale;", "*reinterpret_cast<volatile float*>(64) = scale.scale;"),
    ENDLESS: ("scales[row] = scale.scale;", "while (scale.scale > 0.0f) *static_cast<volatile float*>(scales) = 1.0f;"),
}


class EditedDevice(CupyDevice):
    """A GPU that loads the kernel with one of the edits, whatever it is asked to load."""

    def __init__(self, edit: int) -> None:
        super().__init__()
        self._edit = edit

    def load(self, module: CompiledModule) -> Mapping[str, CupyFunction]:
        """The edited kernel's functions."""
        old, new = EDITS[self._edit]
        assert SOURCE.count(old) == 1
        return super().load(compile_source(SOURCE.replace(old, new), name=f"{NAME}.cu", arch=self.arch))


def make_device(coordinates: Coordinates) -> Device:
    """The seed says which kernel: it has no other meaning on a GPU."""
    return CupyDevice() if coordinates.seed == GOOD else EditedDevice(coordinates.seed)


def main() -> None:
    case = find_case(CASE)
    inputs = case_inputs(case)
    rows = []
    for edit, name in ((GOOD, "good"), (WILD, "faults"), (GOOD, "good"), (ENDLESS, "never ends"), (GOOD, "good")):
        coordinates = Coordinates(Target.GPU, seed=edit)
        worker = Worker(make_device, deadline_s=DEADLINE_S)
        start = time.perf_counter()
        worker.open(coordinates)
        result = worker.run(Job(case, coordinates, inputs))
        worker.close()
        kinds = [str(finding.kind) for finding in result.findings]
        rows.append({"kernel": name, "findings": kinds, "seconds": round(time.perf_counter() - start, 1)})
    right = [row["findings"] for row in rows] == [[], ["crash"], [], ["timeout"], []]
    evidence = {"what": "isolation of GPU cases", "case": CASE, "environment": asdict(capture()), "runs": rows}
    text = json.dumps(evidence, indent=1) + "\n"
    Path(sys.argv[1]).write_text(text)
    sys.stdout.write(text)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
