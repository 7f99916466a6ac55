"""Waivers as reports tell them: what was waived, gathered by waiver, and the waivers that hold no longer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tileproof.conformance.events import FindingFound, WaiverFailed


def waiver_lines(waived: Sequence[FindingFound], failed: Iterable[WaiverFailed]) -> Iterator[str]:
    """For a terminal: a block a waiver, and a line for each that failed."""
    for waiver, cases in by_waiver(waived).items():
        yield from ("", f"waived {_counted(cases)} by {waiver}", f"      case   {cases[0]}")
    yield from (line for one in failed for line in ("", f"WAIVER {failure(one)}"))


def failure(one: WaiverFailed) -> str:
    """A waiver that failed, in a line."""
    return f"{one.waiver}: {one.problem} (its reason: {one.reason})"


def by_waiver(waived: Iterable[FindingFound]) -> Mapping[str, list[str]]:
    """The cases of each waiver, each once, in the order of their findings."""
    found: dict[str, dict[str, None]] = {}
    for event in waived:
        found.setdefault(event.waiver, {}).setdefault(event.case)
    return {waiver: list(cases) for waiver, cases in found.items()}


def _counted(cases: Sequence[str]) -> str:
    return "1 case" if len(cases) == 1 else f"{len(cases)} cases"
