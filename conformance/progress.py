"""Progress of a run on stderr: a bar on a terminal, a plain line now and then elsewhere.

What takes long before a case says anything, compiling above all, is told by whoever does it (`oracle.busy`).
"""

import logging
import threading
import time
from contextlib import suppress
from typing import TextIO

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from tileproof.conformance.visible import visible
from tileproof.oracle.busy import LOG

PLAIN_INTERVAL_S = 5.0
"""Seconds between two lines of progress where there is no terminal."""
SILENCE_S = 30.0
"""Seconds after which such a line says that the run is still alive, though no case has ended."""
BUSY_S = 2.0
"""Seconds that something must take to be told in a line."""
_LOOK_S = 0.5


class Meter:
    """What progress is told."""

    def start(self, total: int) -> None:
        """The run begins; `total` cases, each target counted."""

    def more(self, number: int, total: int) -> None:
        """A further pass begins, of so many cases."""

    def case(self, name: str) -> None:
        """A case begins."""

    def busy(self, text: str) -> None:
        """Something begins that takes long, in words; "" where it has ended."""

    def step(self, *, failed: bool) -> None:
        """A case ended."""

    def skip(self) -> None:
        """A case will not run: it counts neither as done nor as left to do."""

    def stop(self) -> None:
        """The run ended."""


def meter(stream: TextIO, console: RichConsole) -> Meter:
    """What shows progress on a stream: a bar on the console of it where it is a terminal, else lines."""
    return _Bar(console) if stream.isatty() else _Lines(stream)


class _Bar(Meter):
    """A bar that moves, for terminals; it leaves nothing behind."""

    def __init__(self, console: RichConsole) -> None:
        failed = TextColumn("{task.fields[failed]}", markup=False)
        counts = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), failed)
        # The name gives way where the terminal is narrow; the counts stay.
        name = TextColumn("{task.description}", markup=False, table_column=Column(overflow="ellipsis"))
        self._bar = Progress(*counts, name, console=console, transient=True)
        self._failed = self._total = 0
        self._name = ""

    def start(self, total: int) -> None:
        self._total = total
        self._task = self._bar.add_task("", total=total, failed="")
        self._bar.start()

    def more(self, number: int, total: int) -> None:
        self._total += total
        self._bar.update(self._task, total=self._total)

    def case(self, name: str) -> None:
        self._name = visible(name)
        self._bar.update(self._task, description=self._name)

    def busy(self, text: str) -> None:
        self._bar.update(self._task, description=visible(text) if text else self._name)
        if text:
            self._bar.refresh()  # who is busy may keep the interpreter to itself

    def step(self, *, failed: bool) -> None:
        self._failed += failed
        self._bar.update(self._task, advance=1, failed=f"{self._failed} failed" if self._failed else "")

    def skip(self) -> None:
        self._total -= 1
        self._bar.update(self._task, total=self._total)

    def stop(self) -> None:
        self._bar.stop()


class _Lines(Meter):
    """A plain line every few seconds, for logs; a thread of its own writes where no case ends for long."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = self._failed = self._total = 0
        self._next = self._told = time.monotonic()
        self._next += PLAIN_INTERVAL_S
        self._name = self._busy = ""
        self._since = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look_on, daemon=True)

    def start(self, total: int) -> None:
        self._total = total
        self._told = time.monotonic()
        self._watch.start()

    def more(self, number: int, total: int) -> None:
        with self._lock:
            self._total += total
            self._write(f"{self._done} done, {self._failed} failed; pass {number + 1} begins")

    def case(self, name: str) -> None:
        self._name = name

    def busy(self, text: str) -> None:
        with self._lock:
            self._busy, self._since = text, time.monotonic()

    def skip(self) -> None:
        self._total -= 1

    def step(self, *, failed: bool) -> None:
        with self._lock:
            self._done += 1
            self._failed += failed
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + PLAIN_INTERVAL_S
                self._write(self._counts)

    def stop(self) -> None:
        self._ended.set()
        if self._watch.is_alive():
            self._watch.join()

    def look(self, now: float) -> None:
        """Write a line where it is time for one: something takes long, or nothing was said for long."""
        with self._lock:
            if self._busy and now - self._since >= BUSY_S:
                self._write(self._busy)
                self._busy = ""
            elif now - self._told >= SILENCE_S:
                self._write(f"{self._counts}, still at {self._name or 'work'}")

    @property
    def _counts(self) -> str:
        return f"{self._done} of {self._total} done, {self._failed} failed"

    def _write(self, line: str) -> None:
        self._told = time.monotonic()
        self._stream.write(f"{visible(line)}\n")
        self._stream.flush()

    def _look_on(self) -> None:
        with suppress(OSError, ValueError):  # nobody reads stderr any more
            while not self._ended.wait(_LOOK_S):
                self.look(time.monotonic())


class Listener(logging.Handler):
    """Passes what floors below say they are at on to a meter, from `open` to `close`."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(logging.INFO)
        self._meter = meter

    def open(self) -> None:
        """Begin to listen."""
        LOG.setLevel(logging.INFO)
        LOG.propagate = False
        LOG.addHandler(self)

    def close(self) -> None:
        """Listen no longer."""
        LOG.removeHandler(self)
        LOG.setLevel(logging.NOTSET)
        LOG.propagate = True
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        self._meter.busy(record.getMessage())
