"""Work for all cores until the time is over: what is begun then is dropped."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def side_by_side(
    function: Callable[[Given], Made], tasks: Sequence[Given], processes: int, end: float
) -> Iterator[Made]:
    """Results as they come, in any order, of spawned processes.

    Args:
        function: that a spawned process can import.
        tasks: in the order in which they begin.
        processes: at most.
        end: by `time.monotonic()`.
    """
    if not tasks:
        return
    with multiprocessing.get_context("spawn").Pool(min(processes, len(tasks))) as pool:
        results = pool.imap_unordered(function, tasks)
        for _ in tasks:
            try:
                yield results.next(max(0.01, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                pool.terminate()
                return
