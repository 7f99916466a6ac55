"""What searches and soaks came to, as one small record: python tests/h200/searched.py OUT.json EVENTS[.gz]...

By contract the trials that came to a verdict on the first target and the routes that they took; of all targets findings
and errors; and how many outputs of two targets were compared. A file whose run was cut short counts as far as it goes.
"""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def main() -> None:
    out, *paths = map(Path, sys.argv[1:])
    out.write_text(json.dumps([searched(path) for path in paths], indent=1) + "\n")


def searched(path: Path) -> dict[str, Any]:
    """The record of one event file."""
    raw = path.read_bytes()
    lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines(keepends=True)
    events = [json.loads(line) for line in lines if line.endswith(b"\n")]
    start = events[0]
    first = start["targets"][0]["target"]
    kinds = Counter(event["event"] for event in events)
    routes: dict[str, Counter[str]] = {}
    for event in events:
        if event["event"] == "case-finished" and event["target"] == first:
            routes.setdefault(event["case"].partition("/")[0], Counter())[event["route"]] += 1
    return {
        "run": start["tier"],
        "targets": start["targets"],
        "environment": start["environment"],
        "is_whole": events[-1]["event"] == "run-finished",
        "trials": sum(each.total() for each in routes.values()),
        "findings": kinds["finding-found"],
        "errors": kinds["case-errored"],
        "compared": kinds["targets-compared"],
        "differing": sum(event["event"] == "targets-compared" and not event["equal"] for event in events),
        "contracts": {name: dict(sorted(each.items())) for name, each in sorted(routes.items())},
    }


if __name__ == "__main__":
    main()
