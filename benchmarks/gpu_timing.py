"""Times of GPU kernels that take turns, in one process on one stream, by CUDA events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

REPETITIONS = 3
LEAST_MS = 20.0  # of one measurement
MOST_RUNS = 200


@dataclass(frozen=True)
class Times:
    """Milliseconds of one contender, one number a repetition, in the order in which they were taken."""

    milliseconds: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.milliseconds)

    def over(self, other: "Times") -> "Ratio":
        """This contender's time relative to another's, repetition by repetition."""
        pairs = zip(self.milliseconds, other.milliseconds, strict=True)
        ratios = sorted(mine / theirs for mine, theirs in pairs)
        return Ratio(median(ratios), ratios[0], ratios[-1])


@dataclass(frozen=True)
class Ratio:
    """The median of some ratios, with the least and the largest."""

    middle: float
    least: float
    largest: float

    def __str__(self) -> str:
        return f"{self.middle:.3f} ({self.least:.3f}-{self.largest:.3f})"


def take_turns(cuda: Any, contenders: Mapping[str, Callable[[], object]]) -> Mapping[str, Times]:
    """Time contenders in turn, REPETITIONS times, each over enough runs to fill LEAST_MS.

    Args:
        cuda: the module cupy.cuda, on whose current stream all contenders run.
        contenders: by name; a call queues one run and does not wait.
    """
    runs = {name: _runs(cuda, run) for name, run in contenders.items()}
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(REPETITIONS):
        for name, run in contenders.items():
            taken[name].append(_milliseconds(cuda, run, runs[name]))
    return {name: Times(tuple(times)) for name, times in taken.items()}


def _runs(cuda: Any, run: Callable[[], object]) -> int:
    """How many runs fill a measurement; the first of them warm up."""
    _milliseconds(cuda, run, 2)
    return max(3, min(MOST_RUNS, int(LEAST_MS / max(_milliseconds(cuda, run, 3), 1e-3)) + 1))


def _milliseconds(cuda: Any, run: Callable[[], object], runs: int) -> float:
    """Of one run, on average."""
    start, end = cuda.Event(), cuda.Event()
    run()  # what ran before left caches and clocks as it liked
    start.record()
    for _ in range(runs):
        run()
    end.record()
    end.synchronize()
    return float(cuda.get_elapsed_time(start, end)) / runs
