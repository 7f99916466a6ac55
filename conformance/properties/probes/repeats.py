"""P15: equal inputs give equal bits, run after run, whatever memory held before and in whatever order threads came.

On the CPU device each run has another hostile schedule; on a GPU `tests/h200/properties.py` makes two hundred and more.
"""

from tileproof.conformance.case import Case
from tileproof.conformance.contract import EditedSource
from tileproof.conformance.run_case import case_inputs, run_case
from tileproof.simulators.ptx.device import Device

RUNS = 4


def differing_runs(case: Case, source: EditedSource | None = None, runs: int = RUNS) -> tuple[str, ...]:
    """The runs whose outputs differ from those of the first, each of two launches with other poison."""
    inputs = case_inputs(case)
    devices = [Device(schedule="adversarial", seed=seed) for seed in range(runs)]
    results = [run_case(case, device, kernel_source=source, inputs=inputs) for device in devices]
    wrong = [seed for seed, one in enumerate(results) if one.output_digest != results[0].output_digest]
    unstable = [seed for seed, one in enumerate(results) if any("repeatable" in f.signature for f in one.findings)]
    return tuple(f"the outputs of seed {seed} are others" for seed in sorted({*wrong, *unstable}))
