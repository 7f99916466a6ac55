"""What SentryWard, a static verifier of PTX, says of the kernels of the order table.

python tests/order_table/record_sentryward.py EVIDENCE.json [SENTRYWARD]

SENTRYWARD is its command (`pip install sentryward==0.1.1` in an environment of its own). Each kernel is one call with
the PTX that the CPU device runs and the launch; pointers are symbolic, hence no arguments. A few minutes.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pair import PRELUDE, Pair
from table import PAIRS

from tileproof.kernels.compile import compile_source

SIDES = ("right", "wrong")
#: Results that are words about a kernel; any other one is about our call.
RESULTS = ("race_free", "not_wellsynced", "potential_race", "invalid_lifecycle", "unsupported", "timeout")


def launch(pair: Pair) -> dict[str, Any]:
    """The launch in the tool's own form."""
    shape = {"grid_dim": pair.blocks, "block_dim": pair.threads, "cluster_dim": pair.cluster}
    extents: dict[str, Any] = {name: [extent, 1, 1] for name, extent in shape.items()}
    return {
        "schema": "spverify.kernel-input/v1",
        "launch": {**extents, "dynamic_shared_bytes": 0},
        "arguments": [],
        "tma_descriptors": [],
    }


def verdict(output: str) -> str:
    """The result of a run, and for what is not supported also why.

    Raises:
        ValueError: the output is no report, or the tool rejected the call and said nothing of the kernel.
    """
    report = json.loads(output)
    result = report.get("result") if isinstance(report, dict) else None
    if result not in RESULTS:
        raise ValueError(f"SentryWard says {result!r}, which is no word about the kernel: {output[:300]}")
    codes = [str(entry.get("code", "")) for entry in report.get("diagnostics", [])]
    return f"unsupported: {codes[0]}" if result == "unsupported" and codes else str(result)


def said(command: str, pair: Pair, side: str) -> str:
    """What the tool says of one kernel."""
    with TemporaryDirectory() as folder:
        ptx, form = Path(folder, "k.ptx"), Path(folder, "input.json")
        ptx.write_text(compile_source(PRELUDE + pair.kernel(side), name="k.cu").ptx)
        form.write_text(json.dumps(launch(pair)))
        run = subprocess.run(
            [command, str(ptx), "--input", str(form), "--timeout", "60"], capture_output=True, text=True, check=False
        )
    return verdict(run.stdout)


def row(command: str, pair: Pair) -> dict[str, Any]:
    """One row of the evidence."""
    return {"name": pair.name, "digest": pair.digest, **{side: said(command, pair, side) for side in SIDES}}


def main(arguments: Sequence[str]) -> None:
    """Write the evidence."""
    path, command = Path(arguments[0]), arguments[1] if len(arguments) > 1 else "sentryward"
    evidence = {
        "what": "order table: the result of SentryWard 0.1.1 for every kernel",
        "launch": "the grid, block and cluster of the table; pointers symbolic; default assumptions",
        "rows": [row(command, pair) for pair in PAIRS],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(evidence, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
