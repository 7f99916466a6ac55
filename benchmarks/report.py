"""Timing and output shared by the benchmarks."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def show(line: str) -> None:
    """Writes one line at once, so that a long benchmark is seen at work."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def keep(evidence: Mapping[str, object], path: str | Path) -> None:
    """Writes what was measured as JSON; what JSON does not know, in words."""
    Path(path).write_text(json.dumps(evidence, indent=1, default=str) + "\n")


def best_seconds(
    *runs: Callable[[], object], repeats: int = 15, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The shortest time of each run. They take turns, so that a busy machine hinders all of them alike.

    `time.process_time` as the clock counts the processor's time of this process alone, for runs that use one core.
    """
    times = [[_seconds(run, clock) for run in runs] for _ in range(repeats + 1)]
    return [min(column) for column in zip(*times[1:], strict=True)]  # the first turn compiles and warms up


def _seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    run()
    return clock() - started
