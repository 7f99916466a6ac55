"""Random programs on both engines, until the time is up: not one difference.

python tests/fuzz/two_engines.py [SECONDS [FIRST_SEED]]
"""

import sys
import time
from collections import Counter

from outcome import Coordinates, Outcome, first_difference, outcome
from random_program import Flaw, random_program

ENGINES = ("reference", "fast")


def compare(seed: int) -> tuple[str, Outcome]:
    """How the engines differ on the program of a seed, and what the reference engine shows."""
    flaw = list(Flaw)[seed // 2 % len(Flaw)] if seed % 2 else Flaw.NONE
    program = random_program(seed, flaw)
    schedule = "adversarial" if seed % 3 == 0 else "friendly"
    reference, fast = (outcome(program, Coordinates(engine, schedule, seed), seed) for engine in ENGINES)
    difference = first_difference(reference, fast)
    if not difference and flaw is Flaw.NONE and (reference.findings or reference.refusal):
        difference = f"a right program has {reference.refusal or reference.findings[0]}"
    return difference and f"seed {seed}, flaw {flaw}, {schedule}: {difference}", reference


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1800.0
    seed = first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    different = 0
    while time.monotonic() < ends:
        try:
            difference, shown = compare(seed)
        except Exception as error:  # an internal error of either engine is a difference, and the rest goes on
            difference, shown = f"seed {seed}: internal {type(error).__name__}: {error}", Outcome()
        kinds.update({str(finding.kind) for finding in shown.findings} or {"refused" if shown.refusal else "none"})
        if difference:
            different += 1
            sys.stdout.write(difference + "\n")
        seed += 1
    sys.stdout.write(f"{seed - first} programs, {different} differ; findings: {dict(kinds)}\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
