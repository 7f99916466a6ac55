"""Judge hostile texts by their seeds, in a process of bounded memory; exit code 1 if one ends as it may not.

python judge_many.py FIRST COUNT

One text in ten that is accepted also goes to the reference engine, and one in three runs under a hostile schedule. The
process first runs every right text once, so that machine code is compiled before times are taken.
"""

import faulthandler
import resource
import sys
from collections import Counter

import corpus
from mutator import hostile
from trial import Verdict, judge

ADDRESS_SPACE_BYTES = 8 << 30
SHOWN = 20
REFERENCE_EACH, HOSTILE_SCHEDULE_EACH = 10, 3


def main(first: int, count: int) -> int:
    """Judge them and print a summary."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, resource.RLIM_INFINITY))
    if count > SHOWN:
        warm_up()
    ends, launches, wrong, slowest = Counter[str](), 0, [], (0.0, first)
    for seed in range(first, first + count):
        for verdict in judged(seed):
            ends[verdict.end] += 1
            launches += verdict.launches
            slowest = max(slowest, (verdict.seconds, seed))
            if not verdict.allowed:
                wrong.append((seed, verdict))
    told = ", ".join(f"{end} {number}" for end, number in ends.most_common())
    sys.stdout.write(f"{count} texts: {told}; {launches} launches; slowest {slowest[0]:.2f} s (seed {slowest[1]})\n")
    for seed, verdict in wrong[:SHOWN]:
        sys.stdout.write(f"seed {seed}: {verdict.end} {verdict.seconds:.2f} s: {verdict.detail[:300]}\n")
    return 1 if wrong else 0


def judged(seed: int) -> list[Verdict]:
    """The verdicts on one text."""
    source = hostile(seed)
    schedule = "friendly" if seed % HOSTILE_SCHEDULE_EACH else "adversarial"
    verdicts = [judge(source, schedule=schedule)]
    if verdicts[0].launches and seed % REFERENCE_EACH == 0:
        verdicts.append(judge(source, "reference", schedule=schedule))
    return verdicts


def warm_up() -> None:
    """Run every right text once, whatever time it takes."""
    for source in (*corpus.small(), *corpus.compiled()):
        judge(source, limit_s=600.0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
