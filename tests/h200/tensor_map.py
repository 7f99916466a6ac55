"""Run on a machine with an H200: what `tensor_map` of the simulator accepts and refuses against the driver's encoder.

    python tests/h200/tensor_map.py EVIDENCE.json WITNESS.npz

WITNESS.npz keeps requests as columns of numbers with the driver's answers: all that are taken or refused by one rule
alone are too many, so a sample is kept, half of it taken.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_requests import digest, requests

from tileproof.conformance.environment import capture
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.driver_tensor_map import answer
from tileproof.oracle.addresses.tensor_map import MAX_RANK, TensorMapRequest
from tileproof.oracle.addresses.tma_tile import Fill
from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.tensor_map import check

COUNT, GATE_COUNT, WITNESSES = 60_000, 10_000, 600


def accepted(request: TensorMapRequest) -> bool:
    """What the simulator says."""
    try:
        check(request, 90)
    except Refusal:
        return False
    return True


def row(request: TensorMapRequest) -> list[int]:
    """A request as numbers, each array filled up with ones."""
    arrays = (request.shape, request.strides_bytes, request.box, request.element_strides)
    numbers = [request.data_type.number, request.rank, request.address]
    for array in arrays:
        numbers += [*array, *(1,) * (MAX_RANK - len(array))]
    modes = (request.interleave, request.swizzle.number, request.promotion, list(Fill).index(request.fill))
    return [*numbers, *modes]


def witnesses(asked: Sequence[TensorMapRequest], taken: NDArray[np.bool_]) -> dict[str, Any]:
    """Half of them taken, half refused."""
    rng = np.random.default_rng(0)
    halves = [rng.permutation(np.flatnonzero(taken == side))[: WITNESSES // 2] for side in (True, False)]
    chosen = np.sort(np.concatenate(halves))
    return {"requests": np.array([row(asked[i]) for i in chosen], np.uint64), "taken": taken[chosen]}


def main() -> None:
    CupyDevice().synchronize()  # makes a context
    with CupyDevice().current("context"):
        asked = list(requests(COUNT))
        results = [answer(request)[0] for request in asked]
    taken = np.array(results) == 0
    ours = np.array([accepted(request) for request in asked])
    different = np.flatnonzero(taken != ours)
    evidence = {
        "what": "cuTensorMapEncodeTiled against simulators.ptx.tensor_map.check, on requests near every limit",
        "environment": asdict(capture()),
        "requests": COUNT,
        "taken": int(taken.sum()),
        "answers": {str(code): results.count(code) for code in sorted(set(results))},
        "different": len(different),
        "examples": [str(asked[i]) for i in different[:20]],
        "gate_requests": GATE_COUNT,
        "gate_digest": digest(taken[:GATE_COUNT].tolist()),
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    np.savez_compressed(sys.argv[2], **witnesses(asked, taken))
    sys.stdout.write(json.dumps(evidence, indent=1) + "\n")
    sys.exit(1 if len(different) else 0)


if __name__ == "__main__":
    main()
