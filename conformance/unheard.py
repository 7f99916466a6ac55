"""Starting processes that do not hear Ctrl-C, from their first instruction on.

Ctrl-C reaches the whole group, and the parent decides what it means. A process that ignores it by its own code does so
only once its interpreter has come that far, and dies with a trace if it comes before. So it is blocked while the
process starts, which the process inherits; the parent gets it as soon as it is unblocked.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def unheard() -> Iterator[None]:
    """Processes that start within do not hear SIGINT."""
    resource_tracker.ensure_running()  # its first start, which comes with that of a process, would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
