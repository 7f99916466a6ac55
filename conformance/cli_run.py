"""A run for the command line: its events to the console and to a file, and its exit code."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from tileproof.conformance.console import Console
from tileproof.conformance.events import Event, EventFile, RunFinished
from tileproof.conformance.session import Run
from tileproof.conformance.tally import ERROR
from tileproof.oracle.refusal import Refusal


def follow(run: Run, console: Console, path: Path | None) -> int:
    """Pass the events of a run on; the exit code is the last event's."""
    with ExitStack() as stack:
        stack.enter_context(closing(run))
        file = None if path is None else stack.enter_context(EventFile(path))
        readers: list[Console | EventFile] = [console] if file is None else [console, file]
        try:
            code = _publish(run.events(), readers)
        except KeyboardInterrupt:
            code = _publish(run.interrupted(), readers)
    if file is not None and file.failure:
        raise Refusal(file.failure, hint="the summary is whole, the event file is not")
    return code


def _publish(events: Iterator[Event], readers: Sequence[Console | EventFile]) -> int:
    code = ERROR
    for event in events:
        for reader in readers:
            reader.receive(event)
        if isinstance(event, RunFinished):
            code = event.exit_code
    return code
