"""Run on a machine with two GPUs: the FP8 product on both, launch by launch in turn, in one process.

    python tests/kernels/fp8_a8_two_devices.py EVIDENCE.json

More shared memory than 48 KiB is granted to one function on one device, and a tensor map holds one device's addresses:
what was asked for once a process fails at the first launch on the other GPU. Every output is held to the oracle.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from fp8_a8_call import RAGGED_ROWS, TILED_ROWS, Array, Call, bits

from tileproof.conformance.environment import capture
from tileproof.conformance.records import to_json
from tileproof.kernels.cupy_device import CupyDevice
from tileproof.kernels.fp8_a8_call_site import CALL_SITES
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm
from tileproof.kernels.fp8_a8_selector import Route

TOKENS = (1, 65, 257)
DEPTHS = {Route.TMA: 320, Route.CP_ASYNC: 384, Route.FALLBACK: 33}


def differences(call: Call, expected: list[Array], outputs: list[Array]) -> int:
    """Outputs that are not the oracle's, or not one of the two that it allows."""
    if call.site.paired:
        (output,) = outputs
        return int(np.all([bits(output) != bits(end) for end in expected], axis=0).sum())
    return sum(int((bits(a) != bits(b)).sum()) for a, b in zip(outputs, expected, strict=True))


def main() -> None:
    devices = [CupyDevice(index) for index in range(2)]
    rows: list[dict[str, Any]] = []
    for site in CALL_SITES:
        gemms = [Fp8A8Gemm(device, site) for device in devices]
        for route, depth in DEPTHS.items():
            for tokens in TOKENS:
                height = (RAGGED_ROWS if route is Route.FALLBACK else TILED_ROWS)[site]
                call = Call(site, tokens, height, depth, seed=tokens, scale=2.0**-14)
                expected = call.expected("sm_90a")
                for index in (0, 1, 0):
                    outputs = call.run(devices[index], gemms[index], route).outputs
                    rows.append(
                        {
                            "site": site.name,
                            "route": route,
                            "tokens": tokens,
                            "device": index,
                            "outputs": sum(output.size for output in outputs),
                            "different": differences(call, expected, outputs),
                        }
                    )
    evidence = {
        "what": "the FP8 product on two GPUs in turn, in one process, against the oracle",
        "environment": to_json(capture()),
        "launches": {index: sum(row["device"] == index for row in rows) for index in range(2)},
        "outputs": sum(row["outputs"] for row in rows),
        "different": sum(row["different"] for row in rows),
        "rows": rows,
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1) + "\n")
    sys.stdout.write(
        f"{evidence['launches']} launches, {evidence['outputs']} outputs, {evidence['different']} differ\n"
    )
    sys.exit(1 if evidence["different"] else 0)


if __name__ == "__main__":
    main()
