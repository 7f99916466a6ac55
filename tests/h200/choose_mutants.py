"""From results of `tileproof mutate` to the sample that the gate and a GPU run: python tests/h200/choose_mutants.py.

By the digests of their ids, kernel by kernel in turns: ORDER of barriers, fences, waits and atomics, which are the ones
that a GPU shows least, then others; what was killed, with the case that did it, and what survived, with a case that
reaches it. Mutants that are proved equivalent are not in it, nor those that took longer than MOST_SECONDS to kill.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

from tileproof.conformance.mutation.result import Outcome, Result, read_results
from tileproof.conformance.mutation.summary import ordering

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "evidence" / "mutation"
SAMPLE = ROOT / "tests" / "mutants.json"
COUNT = 200
ORDER = 90
MOST_SECONDS = 4.0


def main() -> None:
    found = [_ordered(path) for path in sorted(RESULTS.glob("*.ndjson"))]
    of_order = [[one for one in kernel if one in ordering(kernel)] for kernel in found]
    others = [[one for one in kernel if one not in ordering(kernel)] for kernel in found]
    chosen = list(islice(_turns(of_order), ORDER))
    chosen += islice(_turns(others), COUNT - len(chosen))
    SAMPLE.write_text("[\n" + ",\n".join(json.dumps(_row(one)) for one in chosen) + "\n]\n")


def _turns(by_kernel: list[list[Result]]) -> Iterator[Result]:
    return (one for turn in zip_longest(*by_kernel) for one in turn if one is not None)


def _ordered(path: Path) -> list[Result]:
    alive = (Outcome.KILLED, Outcome.SURVIVED)
    kept = (
        one
        for one in read_results(path).values()
        if one.outcome in alive and one.case and (one.seconds < MOST_SECONDS or one.outcome is Outcome.SURVIVED)
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
