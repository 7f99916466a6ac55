"""What the CPU device shows of every litmus test: 10^4 schedules each, about ten minutes of one processor.

python tests/litmus/record_litmus.py EVIDENCE.json [NAME ...]

With names, their rows alone are made again; the others stay as EVIDENCE.json has them.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from litmus_program import Litmus
from litmus_table import SEEDS, TESTS, digest, run_all_seeds


def row(test: Litmus, seeds: int = SEEDS) -> dict[str, Any]:
    """One row of the evidence."""
    shown = run_all_seeds(test, seeds)
    return {
        "name": test.name,
        "digest": digest(test),
        "outcomes": sorted([list(outcome), count] for outcome, count in shown.outcomes.items()),
        "checked": shown.launches,
        "kinds": dict(sorted(shown.kinds.items())),
    }


def main(arguments: Sequence[str]) -> None:
    """Write the evidence."""
    path, names = Path(arguments[0]), set(arguments[1:])
    old = {row["name"]: row for row in json.loads(path.read_text())["rows"]} if names else {}
    rows = [row(test) if not names or name in names else old[name] for name, test in TESTS.items()]
    facts = {
        "what": "litmus tests on the CPU device, adversarial: how often each outcome came, and in how many of the "
        "launches whose order was checked findings of each kind",
        "names": "outcomes: registers by number, then what the places hold at the end, in alphabetical order",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(each) for each in rows)
    head = json.dumps(facts, indent=1)[:-2]
    path.write_text(f'{head},\n "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
