"""Two properties on a GPU: equal runs give equal bits (P15), and a row gives the same bits in every batch (P22).

python tests/h200/properties.py EVIDENCE.json [RUNS] [DEVICE]

P15: of each contract a case a route, the largest of the smoke tier, launched RUNS times (200) on memory that holds
another pattern each time; outputs are compared byte for byte with those of the first launch. P22: the probe `anchor` on
the cases that contracts name for it. DEVICE is gpu, or sim for a trial without one.
"""

import json
import sys
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Contract, Tier
from tileproof.conformance.environment import capture
from tileproof.conformance.evidence.kernel_key import kernel_keys
from tileproof.conformance.layout import lay_out
from tileproof.conformance.properties.checks import launches
from tileproof.conformance.properties.declaration import Applies
from tileproof.conformance.properties.probes.anchor import anchor
from tileproof.conformance.records import to_json
from tileproof.conformance.registry import built_in, find_case
from tileproof.conformance.run_case import case_inputs
from tileproof.conformance.target import Coordinates, Schedule, Target, open_device
from tileproof.kernels.watch import watched

MOST_ELEMENTS = 1 << 18


def main() -> None:
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    place = Coordinates(Target(sys.argv[3] if len(sys.argv) > 3 else "gpu"), schedule=Schedule.FRIENDLY)
    repeats, rows = {}, {}
    for contract in built_in().values():
        for case in chosen(contract):
            repeats[str(case)] = repeated(contract, case, runs, place)
        for text in anchors(contract):
            rows[text] = list(anchor(find_case(text), make_device=lambda: open_device(place)))
    evidence = {
        "what": "P15, launches on equal inputs and dirty memory; P22, rows in batches of other sizes",
        "environment": to_json(capture()),
        "target": place.target,
        "runs": runs,
        "repeats": repeats,
        "different": sum(one["different"] for one in repeats.values()),
        "rows": rows,
        "rows_different": sum(map(len, rows.values())),
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=0) + "\n")
    sys.stdout.write(f"{len(repeats)} cases, {runs} runs each, {evidence['different']} runs differ; ")
    sys.stdout.write(f"{len(rows)} anchors, {evidence['rows_different']} differ\n")


def chosen(contract: Contract) -> Iterator[Case]:
    """A case a route: the largest that is not too large."""
    routes: dict[str, Case] = {}
    for case in sorted(contract.cases(Tier.SMOKE), key=lambda case: elements(contract, case)):
        if launches(case) and elements(contract, case) <= MOST_ELEMENTS:
            routes[case.route] = case
    yield from routes.values()


def elements(contract: Contract, case: Case) -> int:
    return sum(prod(spec.shape) for spec in contract.tensors(case.shape))


def anchors(contract: Contract) -> Iterator[str]:
    said = contract.properties["P22"]
    for check in said.checks if isinstance(said, Applies) else ():
        yield from check.cases


def repeated(contract: Contract, case: Case, runs: int, place: Coordinates) -> dict[str, Any]:
    """How many launches of a case differ from the first."""
    start, device, values = time.monotonic(), open_device(place), case_inputs(case)
    run = contract.kernel(device, case.kernel, None)
    layouts = [lay_out(spec, exact_bounds=True) for spec in contract.tensors(case.shape)]
    first: dict[str, bytes] = {}
    different = 0
    with watched() as launched:
        for index in range(runs):
            dirt = np.random.default_rng(index).integers(0, 256, dtype=np.uint8)
            images = {
                one.spec.name: one.image(values[one.spec.name], index % 2)
                if one.spec.role.is_read
                else np.full(one.total_bytes, dirt, np.uint8)
                for one in layouts
            }
            buffers = {name: device.upload(image) for name, image in images.items()}
            run(case, {one.spec.name: one.tensor(buffers[one.spec.name]) for one in layouts})
            seen = {
                one.spec.name: one.values(buffers[one.spec.name].download()).tobytes()
                for one in layouts
                if one.spec.role.is_written
            }
            first = first or seen
            different += seen != first
            for buffer in buffers.values():
                device.free(buffer)
    seconds = round(time.monotonic() - start, 2)
    return {"different": different, "kernels": kernel_keys(launched), "seconds": seconds}


if __name__ == "__main__":
    main()
