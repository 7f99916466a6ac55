"""What compute-sanitizer wrote, as reports: a line that says what was seen, and the indented lines below it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

PREFIX = "========="
#: Lines of the tool about itself and about the end of the program.
_ABOUT = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY|Error: process didn't terminate successfully"
    r"|Target application returned an error|Error: couldn't find exit code|Error: No attachable process"
)
#: The tool did not look at the program at all.
_BLIND = re.compile(
    r"Target application terminated before first instrumented API call|No attachable process found"
    r"|Device not supported|(Unable|Failed) to|Internal Sanitizer Error"
)
_SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) ", re.MULTILINE)
_MOST_LINES, _MOST_CHARACTERS = 12, 160


@dataclass(frozen=True)
class Report:
    """One report.

    Args:
        head: its first line.
        below: the lines that belong to it, without their indentation.
    """

    head: str
    below: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it, one line."""
        return " ".join((self.head, *self.below))

    @property
    def said(self) -> str:
        """The head; of a race also the access that the next line has."""
        second = next((line for line in self.below[:1] if line.startswith("and ")), "")
        return f"{self.head} {second}".strip()[:_MOST_CHARACTERS]


def reports(log: str) -> tuple[Report, ...]:
    """The reports of a log, in its order.

    Args:
        log: all that the tool wrote; lines without its prefix are the program's own and are left out.
    """
    found: list[tuple[str, list[str]]] = []
    about = True
    for line in log.splitlines():
        if not line.startswith(PREFIX):
            continue
        text = line[len(PREFIX) :]
        if not text.strip():
            continue
        if text.startswith("  "):
            if not about:
                found[-1][1].append(text.strip())
            continue
        about = bool(_ABOUT.search(text) or _BLIND.search(text))
        if not about:
            found.append((text.strip(), []))
    return tuple(Report(head, tuple(below)) for head, below in found)


def blind(log: str) -> bool:
    """Whether the tool saw nothing of the program, so that its silence says nothing."""
    return PREFIX not in log or _BLIND.search(log) is not None


def summary(log: str) -> int | None:
    """How many errors the tool counts itself; None if it did not come to its summary."""
    found = _SUMMARY.search(log)
    return int(found[1]) if found else None


def lines(found: Sequence[Report]) -> list[str]:
    """The lines of some reports, for the record: at most 12, of at most 160 characters."""
    every = [line for report in found for line in (report.head, *(f"  {below}" for below in report.below))]
    return [line[:_MOST_CHARACTERS] for line in every[:_MOST_LINES]]
