"""What the CPU device says of the order table on every schedule of the slow lane: about eleven minutes.

python tests/order_table/record_device.py EVIDENCE.json [NAME ...]

With names, their rows alone are made again; the others stay as EVIDENCE.json has them.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from launch import launch
from pair import Pair, input_words
from table import PAIRS

WRONG_SEEDS, RIGHT_SEEDS = 50, 200


def schedules(seeds: int) -> list[tuple[str, int]]:
    """The friendly schedule and that many seeds of the adversarial one."""
    return [("friendly", 0), *(("adversarial", seed) for seed in range(seeds))]


def kinds(pair: Pair, schedule: str = "friendly", seed: int = 0) -> list[str]:
    """The kinds of the findings on the wrong kernel."""
    return sorted({finding.kind.value for finding in launch(pair, "wrong", schedule, seed).report.findings})


def silent_and_right(pair: Pair, schedule: str, seed: int) -> bool:
    """Whether the right kernel has no finding and leaves the right words."""
    shown = launch(pair, "right", schedule, seed)
    return not shown.report.findings and np.array_equal(shown.out, pair.expected(input_words()))


def row(pair: Pair) -> dict[str, Any]:
    """One row of the evidence."""
    found = [bool(set(kinds(pair, *place)) & set(pair.kinds)) for place in schedules(WRONG_SEEDS)]
    silent = [silent_and_right(pair, *place) for place in schedules(RIGHT_SEEDS)]
    return {
        "name": pair.name,
        "digest": pair.digest,
        "wrong": {"kinds": kinds(pair), "as_expected": sum(found), "launches": len(found)},
        "right": {"as_expected": sum(silent), "launches": len(silent)},
    }


def main(arguments: Sequence[str]) -> None:
    """Write the evidence."""
    path, names = Path(arguments[0]), set(arguments[1:])
    old = {row["name"]: row for row in json.loads(path.read_text())["rows"]} if names else {}
    evidence = {
        "what": "order table on the CPU device: wrong kernels found and right ones silent and right, by launch",
        "schedules": f"friendly, and adversarial: {WRONG_SEEDS} seeds for wrong and {RIGHT_SEEDS} for right kernels",
        "rows": [row(pair) if not names or pair.name in names else old[pair.name] for pair in PAIRS],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(evidence, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
