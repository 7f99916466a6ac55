"""Waivers at work on the events of a run: which findings are waived, and which waivers no longer hold."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from tileproof.conformance.case import Case
from tileproof.conformance.events import CaseFinished, Event, FindingFound, WaiverFailed
from tileproof.conformance.target import Target
from tileproof.conformance.waivers.waiver import Waiver


@dataclass
class Applying:
    """The waivers of one run.

    Args:
        waivers: of the file.
        asked: ids of the cases that were selected; probes run besides.
        targets: where they run.
        today: the day by which waivers end.
    """

    waivers: Sequence[Waiver]
    asked: frozenset[str]
    targets: Sequence[Target]
    today: date
    _matched: dict[int, set[str]] = field(default_factory=dict)
    _open: Counter[tuple[str, Target]] = field(default_factory=Counter)
    _waived: Counter[tuple[str, Target]] = field(default_factory=Counter)
    _ended: set[str] = field(default_factory=set)

    def seen(self, event: Event) -> Event:
        """The event as it is to be told: a finding with its waiver, a case all of whose findings are waived as that."""
        if isinstance(event, FindingFound):
            return self._finding(event)
        if isinstance(event, CaseFinished):
            key = (event.case, event.target)
            self._ended.add(event.case)
            return replace(event, waived=not event.passed and not self._open[key] and self._waived[key] > 0)
        return event

    def failures(self) -> Iterator[WaiverFailed]:
        """Waivers that have expired, whose probe passes, or that nothing needed; for the end of a run."""
        for waiver in self.waivers:
            problem = self._problem(waiver)
            if problem:
                yield WaiverFailed(waiver.name, problem, waiver.reason)

    def _finding(self, event: FindingFound) -> FindingFound:
        signature = event.finding.signature
        taking = [
            one for one in self.waivers if any(one.takes(event.case, target, signature) for target in event.targets)
        ]
        for waiver in taking:
            self._matched.setdefault(waiver.number, set()).add(event.case)
        holding = next((one for one in taking if one.expires >= self.today), None)
        counts = self._open if holding is None else self._waived
        counts.update((event.case, target) for target in event.targets)
        text = "" if holding is None else f"{holding.name}, until {holding.expires}: {holding.reason}"
        return replace(event, waiver=text)

    def _problem(self, waiver: Waiver) -> str:
        if waiver.expires < self.today:
            return f"it expired on {waiver.expires}"
        concerned = self._concerned(waiver)
        if not concerned:
            return ""
        matched = self._matched.get(waiver.number, set())
        probe = str(waiver.probe)
        if probe in self._ended and probe not in matched:
            return f"it is stale: its probe {probe} no longer fails so"
        if concerned <= self._ended and not matched & self.asked:
            return f"it is unused: none of its {len(concerned)} cases in this run fails so"
        return ""

    def _concerned(self, waiver: Waiver) -> set[str]:
        return {case for case in self.asked if any(waiver.concerns(case, target) for target in self.targets)}


def with_probes(cases: Sequence[Case], waivers: Iterable[Waiver], targets: Sequence[Target]) -> tuple[Case, ...]:
    """The selected cases, and behind them the probes of the waivers that concern any of them."""
    probes = [
        waiver.probe
        for waiver in waivers
        if any(waiver.concerns(str(case), target) for case in cases for target in targets)
    ]
    return tuple(dict.fromkeys((*cases, *probes)))
