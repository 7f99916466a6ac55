"""From the events of `check --target sim,gpu` to evidence: one line a case with the digest of both targets' outputs.

python tests/h200/digests.py EVENTS.ndjson... EVIDENCE.json

Where a contract leaves an output open, both targets may pass with different bytes; such cases are listed by themselves.
`launched` says which kernels ran, with the digest of the normal form of their PTX: that is what the evidence is of.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def main() -> None:
    runs = [[json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[1:-1]]
    cases: dict[str, dict[str, str]] = {}
    kernels: dict[tuple[str, ...], list[str]] = {}
    for event in (event for events in runs for event in events if event["event"] == "case-finished"):
        assert event["passed"], event["case"]
        cases.setdefault(event["case"], {})[event["target"]] = event["output_digest"]
        if event["target"] == "gpu":
            kernels.setdefault(tuple(event["kernels"]), []).append(event["case"])
    started, finished = runs[0][0], [events[-1] for events in runs]
    same = {case: digests["gpu"] for case, digests in cases.items() if digests["sim"] == digests["gpu"]}
    evidence = {
        "what": "cases on the simulator and on the GPU: SHA-256 of the outputs, the same on both",
        "environment": started["environment"],
        "targets": started["targets"],
        "tier": started["tier"],
        "counts": total(end["counts"] for end in finished),
        "routes": total(end["routes"] for end in finished),
        "compared": sum(end["compared"] for end in finished),
        "differing": sum(end["differing"] for end in finished),
        "digests": same,
        "passed_with_different_bytes": sorted(cases.keys() - same.keys()),
        "launched": [{"kernels": ran, "cases": sorted(set(those))} for ran, those in sorted(kernels.items())],
    }
    Path(sys.argv[-1]).write_text(json.dumps(evidence, indent=0) + "\n")


def total(runs: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Counts of several runs as one: rows with the same words are added up."""
    sums: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for row in (row for run in runs for row in run):
        words = tuple((key, value) for key, value in row.items() if isinstance(value, str))
        counts = sums.setdefault(words, {})
        for key, value in row.items():
            if isinstance(value, int):
                counts[key] = counts.get(key, 0) + value
    return [{**dict(words), **counts} for words, counts in sums.items()]


if __name__ == "__main__":
    main()
