"""A search on the console: what it is at while it runs, each new finding as it comes, and at the end what was kept."""

import time
from collections.abc import Iterator
from typing import TextIO

from tileproof.conformance.columns import aligned
from tileproof.conformance.console import Console
from tileproof.conformance.events import (
    CaseErrored,
    CaseFinished,
    CaseNotRun,
    CaseStarted,
    Event,
    RunFinished,
    RunStarted,
)
from tileproof.conformance.fuzz.campaign import Campaign
from tileproof.conformance.fuzz.judge import Judged
from tileproof.conformance.fuzz.round_work import Done
from tileproof.conformance.progress import PLAIN_INTERVAL_S
from tileproof.conformance.registry import contracts


class FuzzConsole(Console):
    """Shows a search.

    Args:
        err: for progress.
        others: as `Console`.
    """

    def __init__(self, *, err: TextIO, **others: object) -> None:
        super().__init__(err=err, **others)  # type: ignore[arg-type]
        self._stream = err
        self._moves = err.isatty()
        self._tried = self._failed = 0
        self._next = time.monotonic() + PLAIN_INTERVAL_S
        self.campaign: Campaign | None = None

    def receive(self, event: Event) -> None:
        """Show one event, or keep it for the end."""
        if isinstance(event, RunStarted):
            self._places = event.targets
            self._print([_header(event)])
        elif isinstance(event, CaseStarted | CaseFinished):
            return  # trials are told of as they run, which is before their round's events come
        elif isinstance(event, CaseNotRun | CaseErrored):
            super().receive(event)
        elif isinstance(event, RunFinished):
            self._wipe()
            super().receive(event)
            self._print(self._remarks())
        else:
            super().receive(event)

    def tell(self, judged: Judged) -> None:
        """A trial ended in this process."""
        self.tried(str(judged.trial.case), bool(judged.signatures))

    def tried(self, case: str, failed: bool) -> None:
        """A trial ended."""
        self._tried += 1
        self._failed += failed
        self._show(case)

    def done(self, done: Done) -> None:
        """A round of another process ended."""
        self._tried += len(done.shows)
        self._failed += sum(bool(one.failed) for one in done.shows)
        self._show(done.work.contract)

    def _show(self, name: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.2 if self._moves else PLAIN_INTERVAL_S)
        counts = f"{self._tried} tried, {self._failed} failed"
        if self._moves:
            self._stream.write(f"\r\x1b[2K{counts}  {name[: max(0, 78 - len(counts))]}")
        else:
            self._stream.write(f"{counts}, at {name}\n")
        self._stream.flush()

    def _wipe(self) -> None:
        if self._moves:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()

    def _remarks(self) -> list[str]:
        campaign = self.campaign
        if campaign is None:
            return []
        found = "nothing new found" if not campaign.signatures else f"{campaign.signatures} different signatures found"
        shrinking = f", {campaign.shrinking} further trials to shrink them" if campaign.shrinking else ""
        lines = [*_reached(campaign), f"{found}{shrinking}; {campaign.kept} trials kept in {campaign.search.corpus}"]
        fault = campaign.search.setup.fault
        if fault is not None and not campaign.tally.found:
            lines.append(f"fault {fault} was NOT caught by these trials")
        lines += [f"{name}: {_BARREN}" for name in sorted(campaign.barren)]
        lines += [str(one) for one in campaign.lost[:3]]
        lines += [f"not read: {one}" for one in campaign.wrong[:3]]
        if len(campaign.wrong) > 3:
            lines.append(f"not read: {len(campaign.wrong) - 3} more files of the corpus")
        return [*lines, *([campaign.corpus.failure] if campaign.corpus.failure else [])]


_BARREN = "nothing can be drawn: no shape of its space is one that it takes and a search affords"


def _reached(campaign: Campaign) -> Iterator[str]:
    """A line for each contract: trials that ended, the routes that they took, and lines of PTX as far as counted."""
    rows = [["reached", "trials", "lines", "routes"]]
    for name, routes in campaign.reached.items():
        taken = ", ".join(f"{route} {count}" for route, count in routes.most_common() if route)
        known = {route for each in contracts()[name].routes.values() for route in each}
        missing = ", ".join(sorted(known - routes.keys()))
        words = "; ".join((taken or "none", *([f"not {missing}"] if missing else [])))
        rows.append([name, str(routes.total()), str(len(campaign.lines[name])), words])
    yield from aligned(rows, left=(0, 3))


def _header(event: RunStarted) -> str:
    targets = " and ".join(str(place.target) for place in event.targets)
    many = f"{event.cases} trials" if event.cases else "as long as there is time"
    fault = f", fault {event.fault}" if event.fault else ""
    return f"tileproof {event.environment.tileproof}: {event.tier}, {many}, on {targets}{fault}"
