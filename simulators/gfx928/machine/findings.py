"""What the wave machine reports: one finding a cause, with the operation that showed it."""

from dataclasses import dataclass, replace

from tileproof.simulators.ptx.findings import FindingKind


@dataclass(frozen=True)
class WaveFinding:
    """One thing wrong.

    Attributes:
        kind: its class, as of the other device.
        message: the cause in a sentence, with the first wave and lane that showed it.
        line: number of the operation in its program, from 0.
        operation: that operation in words.
        count: lanes that showed it, all blocks together.
    """

    kind: FindingKind
    message: str
    line: int
    operation: str
    count: int

    def __str__(self) -> str:
        return f"{self.kind}: operation {self.line}, {self.operation}: {self.message} ({self.count} lanes)"


class Findings:
    """Collects findings; the same kind at the same operation is one."""

    def __init__(self) -> None:
        self._found: dict[tuple[FindingKind, int], WaveFinding] = {}

    def add(self, kind: FindingKind, line: int, operation: object, message: str, count: int) -> None:
        """Reports something; only the count of what is already known grows."""
        key = (kind, line)
        known = self._found.get(key)
        if known is None:
            self._found[key] = WaveFinding(kind, message, line, str(operation), count)
        else:
            self._found[key] = replace(known, count=known.count + count)

    def all(self) -> tuple[WaveFinding, ...]:
        """In the order in which they came."""
        return tuple(self._found.values())
