"""From lanes of a wave to findings and notes of its launch."""

from dataclasses import dataclass

from tileproof.simulators.ptx.findings import SHOWN_THREADS, FindingKind, Findings, Thread, Where
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.program import Step


@dataclass(frozen=True)
class Reporter:
    """Names the threads of one wave.

    Attributes:
        geometry: who is resident.
        findings: of the launch.
    """

    geometry: Geometry
    findings: Findings

    def report(self, kind: FindingKind, message: str, where: Where, lanes: Lanes, detail: str = "") -> None:
        """Record a finding that `lanes` hit."""
        self.findings.add(kind, message, where, self._threads(lanes), count=lanes.size, detail=detail)

    def report_step(self, kind: FindingKind, message: str, step: Step, lanes: Lanes) -> None:
        """Record a finding that `lanes` hit at a step."""
        self.report(kind, message, step.where, lanes)

    def report_race(
        self, kind: FindingKind, message: str, where: Where, lanes: Lanes, detail: str, earlier: Where, other: Thread
    ) -> None:
        """Record that `lanes` race with an access at `earlier`; two lines race once, whichever comes first."""
        first, *rest = self._threads(lanes)
        pair = frozenset((where.source, earlier.source))
        self.findings.add(kind, message, where, [first, other, *rest], count=lanes.size, detail=detail, cause=pair)

    def note(self, message: str, where: Where, count: int) -> None:
        """Record something quieter."""
        self.findings.note(message, where, count)

    def _threads(self, lanes: Lanes) -> list[Thread]:
        return [self.geometry.thread(int(lane)) for lane in lanes[:SHOWN_THREADS]]
