"""Times of GPU kernels that take turns, in one process on one stream, by CUDA events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

REPETITIONS = 9
LEAST_MS = 20.0  # that each contender runs in a repetition
LEAST_TURN_MS = 0.5  # between two events, which cost a few microseconds
MOST_TURNS = 50


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
    """Time contenders, REPETITIONS times, each over enough turns to fill LEAST_MS.

    A turn is one run, or a few of a short one, and the next contender has the next turn: a GPU at its limit of power
    slows down after whoever drew most, so that contenders which ran for long, one after the other, would be timed at
    each other's expense. The first of a round is another one in each repetition.

    Args:
        cuda: the module cupy.cuda, on whose current stream all contenders run.
        contenders: by name; a call queues one run and does not wait.
    """
    alone = {name: _milliseconds(cuda, run, 2) for name, run in contenders.items()}  # the first turn compiles
    alone = {name: _milliseconds(cuda, run, 3) for name, run in contenders.items()}
    runs = {name: int(LEAST_TURN_MS / max(each, 1e-3)) + 1 for name, each in alone.items()}
    shortest = min(each * runs[name] for name, each in alone.items())
    turns = max(3, min(MOST_TURNS, int(LEAST_MS / shortest) + 1))
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for repetition in range(REPETITIONS):
        first = repetition % len(contenders)
        order = [*contenders][first:] + [*contenders][:first]
        for name, each in _repetition(cuda, contenders, order, runs, turns).items():
            taken[name].append(each)
    return {name: Times(tuple(times)) for name, times in taken.items()}


def _repetition(
    cuda: Any, contenders: Mapping[str, Callable[[], object]], order: list[str], runs: Mapping[str, int], turns: int
) -> Mapping[str, float]:
    """Milliseconds of one run: the median over the turns."""
    events = {name: [(cuda.Event(), cuda.Event()) for _ in range(turns)] for name in order}
    for turn in range(turns):
        for name in order:
            _timed(contenders[name], runs[name], events[name][turn])
    cuda.runtime.deviceSynchronize()
    return {
        name: median(cuda.get_elapsed_time(start, end) / runs[name] for start, end in pairs)
        for name, pairs in events.items()
    }


def _milliseconds(cuda: Any, run: Callable[[], object], runs: int) -> float:
    """Of one run, on average, alone."""
    events = cuda.Event(), cuda.Event()
    _timed(run, runs, events)
    events[1].synchronize()
    return float(cuda.get_elapsed_time(*events)) / runs


def _timed(run: Callable[[], object], runs: int, events: tuple[Any, Any]) -> None:
    events[0].record()
    for _ in range(runs):
        run()
    events[1].record()
