"""What a kernel's results come to: rates by operator and by property, survivors, the time to the first kill."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tileproof.conformance.mutation.operator import Group
from tileproof.conformance.mutation.operators import OPERATORS
from tileproof.conformance.mutation.result import Outcome, Result
from tileproof.conformance.properties.broken import NAMES


@dataclass(frozen=True)
class Rate:
    """How many of a set of mutants were killed.

    Args:
        killed: by a finding.
        survived: by no case of those that reach it.
        equivalent: proved so by machine.
        refused: by the device or the assembler: no mutants of a kernel that anybody could run.
        unfinished: undecided.
    """

    killed: int
    survived: int
    equivalent: int
    refused: int
    unfinished: int

    @property
    def counted(self) -> int:
        """The denominator: all that could run and is not proved to be the same."""
        return self.killed + self.survived + self.unfinished

    @property
    def share(self) -> float:
        """Killed of counted, 1 where nothing counts."""
        return self.killed / self.counted if self.counted else 1.0

    def __str__(self) -> str:
        killed = (
            f"{self.killed} of {self.counted} killed ({100 * self.share:.1f} %)" if self.counted else "none counted"
        )
        others = (("equivalent", self.equivalent), ("refused", self.refused), ("unfinished", self.unfinished))
        return "; ".join((killed, *(f"{count} {name}" for name, count in others if count)))


def rate(results: Iterable[Result]) -> Rate:
    """Of some mutants."""
    counts = Counter(one.outcome for one in results)
    return Rate(*(counts[outcome] for outcome in _OUTCOMES))


_OUTCOMES = (Outcome.KILLED, Outcome.SURVIVED, Outcome.EQUIVALENT, Outcome.REFUSED, Outcome.UNFINISHED)


def by(results: Iterable[Result], key: Callable[[Result], str]) -> Mapping[str, Rate]:
    """Rates of the parts that a key makes, sorted by it."""
    parts: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        parts[key(one)].append(one)
    return {name: rate(parts[name]) for name in sorted(parts)}


def ordering(results: Iterable[Result]) -> list[Result]:
    """Those of operators on order."""
    return [one for one in results if OPERATORS[one.operator].group is Group.ORDER]


def survivors(results: Iterable[Result]) -> list[Result]:
    """What no case kills, by source line."""
    alive = (one for one in results if one.outcome in (Outcome.SURVIVED, Outcome.UNFINISHED))
    return sorted(alive, key=lambda one: (one.file, one.line, one.id))


def describe(results: Sequence[Result]) -> Iterator[str]:
    """The summary of a run, line by line."""
    killed = [one for one in results if one.outcome is Outcome.KILLED]
    yield f"all mutants       {rate(results)}"
    yield f"mutants of order  {rate(ordering(results))}"
    if killed:
        times = sorted(one.seconds for one in killed)
        first = sum(one.tried == 1 for one in killed)
        yield (
            f"time to the kill  median {median(times):.2f} s, longest {times[-1]:.2f} s of processor time;"
            f" {first} by the first case"
        )
    yield ""
    yield "operator"
    yield from (f"  {name:<16} {one}" for name, one in by(results, lambda one: one.operator).items())
    yield ""
    yield "killed by finding"
    yield from _ranked(Counter(one.kinds[0] for one in killed), {})
    yield ""
    yield "killed by property"
    yield from _ranked(Counter(one.property for one in killed), NAMES)
    left = survivors(results)
    if left:
        yield ""
        yield "survivors"
        yield from map(_line, left)


def _ranked(counts: Counter[str], words: Mapping[str, str]) -> Iterator[str]:
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"  {name:<16} {count}  {words.get(name, '')}".rstrip()


def _line(one: Result) -> str:
    where = f"{one.file}:{one.line}" if one.file else f"PTX line {one.ptx_line}"
    unfinished = " (its time ran out)" if one.outcome is Outcome.UNFINISHED else ""
    return f"  {where}  {one.id}  {one.change or 'dropped'}  {one.reaching} cases reach it{unfinished}"
