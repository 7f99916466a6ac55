"""From the events of `check --target sim,gpu` to evidence: one line a case with the digest of both targets' outputs.

python tests/h200/digests.py EVENTS.ndjson EVIDENCE.json
"""

import json
import sys
from pathlib import Path


def main() -> None:
    events = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    cases: dict[str, dict[str, str]] = {}
    for event in events:
        if event["event"] == "case-finished":
            assert event["passed"], event["case"]
            cases.setdefault(event["case"], {})[event["target"]] = event["output_digest"]
    assert all(digests["sim"] == digests["gpu"] for digests in cases.values())
    started, finished = events[0], events[-1]
    evidence = {
        "what": "cases on the simulator and on the GPU: SHA-256 of the outputs, the same on both",
        "environment": started["environment"],
        "targets": started["targets"],
        "tier": started["tier"],
        "counts": finished["counts"],
        "routes": finished["routes"],
        "compared": finished["compared"],
        "differing": finished["differing"],
        "digests": {case: digests["gpu"] for case, digests in cases.items()},
    }
    Path(sys.argv[2]).write_text(json.dumps(evidence, indent=0) + "\n")


if __name__ == "__main__":
    main()
