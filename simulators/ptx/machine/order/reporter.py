"""What the order needs of the machine around it."""

from typing import Protocol

from tileproof.simulators.ptx.findings import FindingKind, Where
from tileproof.simulators.ptx.machine.geometry import Geometry
from tileproof.simulators.ptx.machine.memory import Lanes
from tileproof.simulators.ptx.program import Program


class Reporter(Protocol):
    """A wave, as the order sees it."""

    @property
    def program(self) -> Program:
        """The kernel."""
        ...

    @property
    def geometry(self) -> Geometry:
        """Who is resident."""
        ...

    def report(self, kind: FindingKind, message: str, where: Where, lanes: Lanes, detail: str = "") -> None:
        """Record a finding."""
        ...

    def report_race(
        self, message: str, where: Where, lanes: Lanes, detail: str, earlier: Where, other_lane: int
    ) -> None:
        """Record that `lanes` race with an access at `earlier`."""
        ...

    def note(self, message: str, where: Where, count: int) -> None:
        """Record something quieter."""
        ...
