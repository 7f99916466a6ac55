"""compute-sanitizer over the very cases of a run: a worker for the GPU that starts under it, its reports as findings.

The tool watches a process from its start, so the worker's interpreter is started through a script of one line that
starts the tool, and that the worker. What the tool writes while a case runs belongs to that case. Cases run far slower
under it: a deadline that nobody gave is twenty times the usual one.

A report's kind follows from its words; the signature has its first line without addresses and counts, so that one
cause in many cases is one failure.
"""

import os
import re
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from multiprocessing import spawn
from pathlib import Path

from tileproof.conformance.finding import Finding, FindingKind
from tileproof.conformance.sanitizer_words import Report, blind, reports
from tileproof.oracle.refusal import Refusal

PROGRAM = "compute-sanitizer"
SLOWER = 20
_OPTIONS = ("--report-api-errors", "no", "--show-backtrace", "no", "--print-limit", "0")
"""The Python bindings ask the driver for functions newer than it, which would be reported as errors; and no report is
dropped because many went before it."""
_PORTS = 49152
"""The first of the ports by which tool and program speak; several tools at once need different ones."""
MOST_LINES = 4


class Tool(StrEnum):
    """What it looks for: accesses, races in shared memory, reads of what nothing wrote, misuse of barriers."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"


_KINDS = (
    (re.compile(r"misaligned", re.IGNORECASE), FindingKind.MISALIGNED),
    (re.compile(r"use.after.free", re.IGNORECASE), FindingKind.USE_AFTER_FREE),
    (re.compile(r"Invalid __|out.of.bounds|Invalid (read|write|access)", re.IGNORECASE), FindingKind.OUT_OF_BOUNDS),
    (re.compile(r"Uninitialized", re.IGNORECASE), FindingKind.UNINITIALISED),
    (re.compile(r"race|hazard", re.IGNORECASE), FindingKind.RACE),
    (re.compile(r"Divergent", re.IGNORECASE), FindingKind.DIVERGENCE),
    (re.compile(r"Barrier", re.IGNORECASE), FindingKind.BARRIER),
    (re.compile(r"leak", re.IGNORECASE), FindingKind.LEAK),
)
_VARIES = re.compile(r"0x[0-9a-f]+|\[\d+ hazards?\]|\b\d+ hazards?\b")


def find_program() -> str:
    """The path of compute-sanitizer. Raises: Refusal where there is none."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise Refusal(
            f"--sanitize: there is no {PROGRAM} on the PATH", hint="it comes with the CUDA toolkit, in its bin"
        )
    return path


class Sanitizer:
    """One worker under one tool.

    Args:
        tool: which.
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self._program = find_program()
        self._folder = Path(tempfile.mkdtemp(prefix="tileproof-sanitizer-"))
        weakref.finalize(self, shutil.rmtree, self._folder, True)
        self._read: dict[Path, int] = {}

    @contextmanager
    def starting(self) -> Iterator[None]:
        """A process that is spawned within starts under the tool."""
        script = self._folder / "python"
        log = self._folder / "log.%p"
        port = _PORTS + 32 * (os.getpid() % 400)
        command = [self._program, "--tool", str(self.tool), *_OPTIONS, "--port", str(port), "--log-file", str(log)]
        line = " ".join(["exec", "setsid", *map(shlex.quote, [*command, sys.executable])])
        script.write_text(f'#!/bin/sh\n{line} "$@"\n', encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        before = spawn.get_executable()
        spawn.set_executable(str(script))
        try:
            yield
        finally:
            spawn.set_executable(before)

    def findings(self) -> tuple[Finding, ...]:
        """What the tool has reported since it was last asked; each cause once."""
        found = {finding.signature: finding for report in reports(self._new()) for finding in (self._finding(report),)}
        return tuple(found.values())

    def kill(self, pid: int) -> None:
        """End the tool with what it started, which are a session of their own."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def saw_nothing(self) -> str:
        """Why the tool's silence says nothing; empty where it does."""
        logs = [path.read_text(errors="replace") for path in self._folder.glob("log.*")]
        if not logs:
            return f"{PROGRAM} has written no log"
        lines = [line for log in logs if blind(log) for line in log.splitlines()[-2:]]
        return f"{PROGRAM} did not watch the program: {' '.join(lines)[:200]}" if lines else ""

    def _new(self) -> str:
        text = []
        for path in sorted(self._folder.glob("log.*")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                added = file.read()
            self._read[path] = self._read.get(path, 0) + len(added)
            text.append(added.decode(errors="replace"))
        return "\n".join(text)

    def _finding(self, report: Report) -> Finding:
        kind = next((kind for pattern, kind in _KINDS if pattern.search(report.said)), FindingKind.CRASH)
        below = "; ".join(report.below[:MOST_LINES])
        message = f"{PROGRAM} {self.tool}: {report.said}" + (f" ({below})" if below else "")
        return Finding(kind, message, f"{kind}/{self.tool}/{_VARIES.sub('*', report.said)}")
