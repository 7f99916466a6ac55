"""How far the search through a model is: on a terminal one line that moves, else a plain line now and then."""

import time
from types import TracebackType
from typing import TextIO

from rich.progress import Progress, TextColumn

from tileproof.conformance.console import open_console
from tileproof.conformance.progress import PLAIN_INTERVAL_S
from tileproof.simulators.protocols.search import Progress as Searched


def progress_line(searched: Searched) -> str:
    """States found, how deep, how fast, and how many are left to look at."""
    rate = searched.looked_at / max(searched.seconds, 1e-9) / 1e6
    left = searched.states - searched.looked_at
    return (
        f"{searched.states:,} states, {left:,} of them to be looked at, depth {searched.depth}, "
        f"{rate:.1f} M/s, {searched.seconds:.0f} s"
    )


class SearchProgress:
    """Shows it while it is open.

    Args:
        stream: the process's stderr.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next: float | None = None
        self._bar: Progress | None = None
        if stream.isatty():
            self._bar = Progress(TextColumn("{task.description}"), console=open_console(stream), transient=True)
            self._task = self._bar.add_task("")

    def __enter__(self) -> "SearchProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, searched: Searched) -> None:
        """Take note of how far it is."""
        if self._bar is not None:
            self._bar.update(self._task, description=progress_line(searched))
        elif self._next is None:  # the clock starts with the search, not with what it loads
            self._next = time.monotonic() + PLAIN_INTERVAL_S
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_INTERVAL_S
            self._stream.write(progress_line(searched) + "\n")
            self._stream.flush()
