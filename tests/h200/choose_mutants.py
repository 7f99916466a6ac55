"""From results of `tileproof mutate` to the sample that the gate and a GPU run: python tests/h200/choose_mutants.py.

The first mutants of each kernel by the digests of their ids, as many of each kernel as there are: what was killed, with
the case that did it, and what survived, with no case of its own.
"""

import hashlib
import json
from itertools import zip_longest
from pathlib import Path

from tileproof.conformance.mutation.result import Outcome, Result, read_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "evidence" / "mutation"
SAMPLE = ROOT / "tests" / "mutants.json"
COUNT = 200


def main() -> None:
    by_kernel = [_ordered(path) for path in sorted(RESULTS.glob("*.ndjson"))]
    turns = (one for turn in zip_longest(*by_kernel) for one in turn if one is not None)
    chosen = [one for one, _ in zip(turns, range(COUNT), strict=False)]
    SAMPLE.write_text("[\n" + ",\n".join(json.dumps(_row(one)) for one in chosen) + "\n]\n")


def _ordered(path: Path) -> list[Result]:
    kept = (
        one for one in read_results(path).values() if one.outcome in (Outcome.KILLED, Outcome.SURVIVED) and one.case
    )
    return sorted(kept, key=lambda one: hashlib.sha256(one.id.encode()).hexdigest())


def _row(one: Result) -> dict[str, object]:
    return {
        "id": one.id,
        "entry": one.entry,
        "outcome": one.outcome,
        "kinds": one.kinds,
        "case": one.case,
        "schedule": one.schedule,
    }


if __name__ == "__main__":
    main()
