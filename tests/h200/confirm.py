"""From the events of `check --target gpu` to evidence: which PTX each case ran, and that its outputs are as recorded.

python tests/h200/confirm.py EVENTS.ndjson EVIDENCE.json

Outputs are held to the digests of the recordings in docs/evidence; a case without one, or with another, is listed.
"""

import json
import sys
from pathlib import Path

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"


def main() -> None:
    recorded = {
        case: digest
        for path in sorted(EVIDENCE.glob("h200-*/*cases.json"))
        for case, digest in json.loads(path.read_text())["digests"].items()
    }
    events = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    finished = [event for event in events if event["event"] == "case-finished"]
    kernels: dict[tuple[str, ...], list[str]] = {}
    for event in finished:
        if event["passed"]:
            kernels.setdefault(tuple(event["kernels"]), []).append(event["case"])
    evidence = {
        "what": "every case on the GPU alone: the kernels that it launched, with the digest of their PTX",
        "environment": events[0]["environment"],
        "passed": sum(event["passed"] for event in finished),
        "failed": sorted(event["case"] for event in finished if not event["passed"]),
        "other": {
            event["case"]: event["output_digest"]
            for event in finished
            if event["output_digest"] != recorded.get(event["case"])
        },
        "launched": [{"kernels": ran, "cases": sorted(cases)} for ran, cases in sorted(kernels.items())],
    }
    Path(sys.argv[-1]).write_text(json.dumps(evidence, indent=0) + "\n")
    sys.stdout.write(f"{evidence['passed']} passed, {len(evidence['failed'])} failed, {len(evidence['other'])} other\n")


if __name__ == "__main__":
    main()
