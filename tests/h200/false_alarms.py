"""Every unedited kernel under many hostile schedules: no finding, or it is a false alarm.

python tests/h200/false_alarms.py EVIDENCE.json SECONDS [PROCESSES [FIRST_ROUND]]

No GPU is needed: a machine with one has many cores.

The whole is every case of the full tier times SEEDS seeds. Rounds sample it: each takes every case once, in the order
of a digest, with a seed that the case and the round give, so that after r rounds each case has run under r different
seeds and all seeds have had about as many cases. What a run does not reach before its time is over is told.
"""

import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from timeboxed import side_by_side

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Tier
from tileproof.conformance.environment import capture
from tileproof.conformance.registry import contract_of, contracts
from tileproof.conformance.run_case import run_case
from tileproof.conformance.target import Coordinates, Schedule, Target, open_device
from tileproof.conformance.worker import step_budget

SEEDS = 200
ARCH = "sm_90a"
MOST_ROUNDS = 10
"""Of one run: more than a machine of many cores makes in an hour."""

MOST_FINDINGS = 100
"""That the evidence names; all are counted."""


@dataclass(frozen=True)
class Pair:
    """A case under one seed of the hostile schedule."""

    case: Case
    seed: int


@dataclass(frozen=True)
class Seen:
    """What became of a pair.

    Args:
        pair: the case and its seed.
        findings: kinds and messages.
        seconds: of processor time.
    """

    pair: Pair
    findings: tuple[str, ...]
    seconds: float


def cases() -> list[Case]:
    """Of the full tier, those that run on the CPU device, mixed."""
    every = [case for contract in contracts().values() for case in contract.cases(Tier.FULL)]
    runs = (case for case in every if contract_of(case).obstacle(case, ARCH) is None)
    return sorted(runs, key=lambda case: _digest(str(case)))


def pairs(of: Sequence[Case], first: int, count: int) -> list[Pair]:
    """So many of the sample, from the first one of a round on."""
    rounds = range(first, min(SEEDS, first + -(-count // len(of))))
    numbered = [(case, _digest(str(case))) for case in of]
    return [Pair(case, (digest + number) % SEEDS) for number in rounds for case, digest in numbered][:count]


def look(pair: Pair) -> Seen:
    """Run one pair."""
    start = time.process_time()
    device = open_device(Coordinates(Target.SIM, ARCH, Schedule.ADVERSARIAL, pair.seed))
    device.step_budget = step_budget(pair.case)  # type: ignore[attr-defined]
    found = run_case(pair.case, device).findings
    texts = tuple(f"{one.kind}: {one.message}" for one in found)
    return Seen(pair, texts, time.process_time() - start)


def _digest(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16)


def evidence(seen: Sequence[Seen], every: Sequence[Case], seconds: float, processes: int) -> dict[str, Any]:
    """Counts by contract, and all findings."""
    ran = Counter(one.pair.case.contract for one in seen)
    wrong = [one for one in seen if one.findings]
    return {
        "what": "unedited kernels on the CPU device: cases of the full tier under seeds of the hostile schedule",
        "environment": asdict(capture()),
        "seconds": round(seconds, 1),
        "processes": processes,
        "processor_seconds": round(sum(one.seconds for one in seen), 1),
        "cases_of_the_full_tier": len(every),
        "seeds": SEEDS,
        "pairs": len(seen),
        "cases": len({one.pair.case for one in seen}),
        "different_seeds": len({one.pair.seed for one in seen}),
        "pairs_by_contract": dict(sorted(ran.items())),
        "cases_by_contract": dict(sorted(Counter(case.contract for case in {one.pair.case for one in seen}).items())),
        "findings": sum(len(one.findings) for one in seen),
        "pairs_with_findings": [
            {"case": str(one.pair.case), "seed": one.pair.seed, "findings": one.findings}
            for one in wrong[:MOST_FINDINGS]
        ],
    }


def main() -> None:
    path, most = Path(sys.argv[1]), float(sys.argv[2])
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    every = cases()
    look(Pair(every[0], 0))  # compiles the engine for all, which is not counted
    start = time.monotonic()
    seen: list[Seen] = []
    for one in side_by_side(look, pairs(every, first, MOST_ROUNDS * len(every)), processes, start + most):
        seen.append(one)
        if one.findings:
            sys.stderr.write(f"{one.pair.case} seed {one.pair.seed}: {one.findings[0]}\n")
    text = json.dumps(evidence(seen, every, time.monotonic() - start, processes), indent=1) + "\n"
    path.write_text(text)
    sys.stdout.write(text)
    sys.exit(1 if any(one.findings for one in seen) else 0)


if __name__ == "__main__":
    main()
