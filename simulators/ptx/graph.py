"""Captured graphs: launches that are collected once and run many times.

with dev.capture() as graph:
    fn.launch(grid=(1, 1, 1), block=(32, 1, 1), args=(x, y, np.int32(4)))
reports = graph.replay()

Arguments are those of the capture, buffers by address: a replay sees what their bytes are then.
"""

from collections.abc import Callable

from tileproof.simulators.ptx.findings import Report
from tileproof.simulators.ptx.launch import Prepared


class Graph:
    """Launches in the order of their capture.

    Args:
        run: runs one of them.
    """

    def __init__(self, run: Callable[[Prepared], Report]) -> None:
        self._run = run
        self._launches: list[Prepared] = []

    def add(self, prepared: Prepared) -> None:
        """Append a launch."""
        self._launches.append(prepared)

    def replay(self) -> list[Report]:
        """Run the launches one after the other; a report for each."""
        return [self._run(prepared) for prepared in self._launches]
