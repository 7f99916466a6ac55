"""From results of `tileproof mutate` to the sample that the gate and a GPU run: python tests/h200/choose_mutants.py.

First what survived of barriers, fences, waits and atomics, of which a GPU may say more; then the first mutants of each
kernel by the digests of their ids, kernel by kernel in turns: what was killed, with the case that did it, and what
survived, with a case that reaches it.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tileproof.conformance.mutation.result import Outcome, Result, read_results
from tileproof.conformance.mutation.summary import ordering

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "evidence" / "mutation"
SAMPLE = ROOT / "tests" / "mutants.json"
COUNT = 200
MOST_SURVIVORS = 30


def main() -> None:
    by_kernel = [_ordered(path) for path in sorted(RESULTS.glob("*.ndjson"))]
    alive = [
        [one for one in found if one.outcome is Outcome.SURVIVED and one in ordering(found)] for found in by_kernel
    ]
    first = [one for one, _ in zip(_turns(alive), range(MOST_SURVIVORS), strict=False)]
    others = (one for one in _turns(by_kernel) if one not in first)
    chosen = [*first, *(one for one, _ in zip(others, range(COUNT - len(first)), strict=False))]
    SAMPLE.write_text("[\n" + ",\n".join(json.dumps(_row(one)) for one in chosen) + "\n]\n")


def _turns(by_kernel: list[list[Result]]) -> Iterator[Result]:
    return (one for turn in zip_longest(*by_kernel) for one in turn if one is not None)


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
