"""One case of a page judged by itself, with its crash file and the text of its failure: what a test needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.case import Case
from tileproof.conformance.contract import Contract
from tileproof.conformance.crash import CrashFolder
from tileproof.conformance.events import CaseErrored, CaseExplained, CaseNotRun, FindingFound
from tileproof.conformance.failure import describe_failure
from tileproof.conformance.gathering import gather
from tileproof.conformance.registry import registered
from tileproof.conformance.run_case import CaseResult
from tileproof.conformance.session import Plan, Session
from tileproof.conformance.target import Coordinates, Target
from tileproof.conformance.visible import visible_text
from tileproof.conformance.worker import InProcess, Job, Runner, Worker


@dataclass(frozen=True)
class SingleVerdict:
    """What one case came to.

    Args:
        report: the text of its failure, or why it has no verdict; empty where it passed.
        result: where it ran.
    """

    report: str
    result: CaseResult | None


def judge(case: Case, contract: Contract, place: Coordinates, page: Path, crashes: Path) -> SingleVerdict:
    """Run one case of a page, as `tileproof try` does.

    Args:
        case: of the contract.
        contract: the page's.
        place: where.
        page: the page's file, which the replay command names.
        crashes: folder of crash files.
    """
    with registered((contract,)), _runner(place.target, page) as runner:
        keeper = _Keeps(runner)
        session = Session(Plan((case,), (place,), page=str(page)), CrashFolder(crashes), {place.target: keeper})
        events = list(session.events())
        found = [event for event in events if isinstance(event, FindingFound)]
        reasons = [event for event in events if isinstance(event, CaseExplained)]
        lines = [
            line
            for failure in gather(found, reasons)
            for line in ("", *describe_failure(failure, (place,), crashes, str(page)))
        ]
        lines += [f"ERROR {event.message}" for event in events if isinstance(event, CaseErrored)]
        lines += [f"not run: {event.reason}" for event in events if isinstance(event, CaseNotRun)]
    return SingleVerdict(visible_text("\n".join(lines).strip("\n")), keeper.result)


class _Keeps:
    """A runner that remembers its last result."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.result: CaseResult | None = None

    def open(self, coordinates: Coordinates) -> None:
        self._runner.open(coordinates)

    def run(self, job: Job) -> CaseResult:
        self.result = self._runner.run(job)
        return self.result

    def close(self) -> None:
        self._runner.close()


@contextmanager
def _runner(target: Target, page: Path) -> Iterator[Runner]:
    """In this process, where a debugger and coverage see it; a GPU's kernels in a worker, which they may take along."""
    runner: Runner = Worker(pages=[page]) if target is Target.GPU else InProcess()
    try:
        yield runner
    finally:
        runner.close()
