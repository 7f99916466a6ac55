"""Which widths reach which route, as intervals that are computed from the rule itself.

A rule changes its answer only at places that its own constants name: tile multiples and thresholds. Those places cut
the range into pieces; the rule is asked once for each piece, and equal neighbours are joined. Example: a rule with
tiles of 64 that takes widths of 1,345 to 1,536 is asked for 1,281, 1,345, 1,409, 1,473, 1,537 and gives three bands.

The cuts are a claim about the rule, so the tests hold every coverage to the rule asked for every single width.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tileproof.oracle.arguments import whole
from tileproof.oracle.refusal import Refusal

Route = TypeVar("Route")


@dataclass(frozen=True)
class Interval:
    """The whole numbers from `first` to `last`, both included.

    Raises:
        Refusal: there are none, or an end is no whole number.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", whole("first", self.first))
        object.__setattr__(self, "last", whole("last", self.last))
        if self.last < self.first:
            raise Refusal(f"the interval {self.first}..{self.last} is empty", hint="first must not exceed last")

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, value: int) -> bool:
        return self.first <= value <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def count_multiples(self, step: int) -> int:
        """How many multiples of `step` it holds."""
        return self.last // step - (self.first - 1) // step


@dataclass(frozen=True)
class Band(Generic[Route]):
    """Neighbouring widths that take one route."""

    widths: Interval
    route: Route


def bands(
    rule: Callable[[int], Route], widths: Interval, tiles: Iterable[int] = (), thresholds: Iterable[int] = ()
) -> tuple[Band[Route], ...]:
    """The coverage of a rule.

    Args:
        rule: the route of one width.
        widths: the range to cover.
        tiles: the answer may differ on both sides of each multiple, and at the multiple itself.
        thresholds: the answer may differ between a threshold and the width before it.

    Raises:
        Refusal: a tile below 1.
    """
    found: list[Band[Route]] = []
    starts = sorted(_starts(widths, tiles, thresholds))
    for first, following in zip(starts, [*starts[1:], widths.last + 1], strict=True):
        route = rule(first)
        if found and found[-1].route == route:
            first = found.pop().widths.first
        found.append(Band(Interval(first, following - 1), route))
    return tuple(found)


def reaching(covered: Iterable[Band[Route]], route: Route) -> tuple[Interval, ...]:
    """The widths that take one route."""
    return tuple(band.widths for band in covered if band.route == route)


def _starts(widths: Interval, tiles: Iterable[int], thresholds: Iterable[int]) -> set[int]:
    """First widths of the pieces."""
    starts = {widths.first}
    for tile in tiles:
        if tile < 1:
            raise Refusal(f"a tile of {tile} has no multiples", hint="tiles are at least 1")
        multiples = range(widths.first // tile * tile, widths.last + 1, tile)
        starts.update(start for multiple in multiples for start in (multiple, multiple + 1))
    starts.update(thresholds)
    return {start for start in starts if start in widths}
