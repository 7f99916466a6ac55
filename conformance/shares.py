"""Which process of a run takes which case: neighbours stay with one process.

Neighbours in the list of cases mostly run the same compiled kernel, and compiling and decoding one takes a process
about a second; two processes that took turns would each do it for every kernel.
"""

from collections import deque
from collections.abc import Iterable

from tileproof.conformance.case import Case


class Shares:
    """The cases that no process has taken yet.

    Args:
        cases: in order.
        apart: each process goes through a share of its own, and takes half of the longest one when it has none left;
            otherwise cases are taken in their order, whoever asks.
    """

    def __init__(self, cases: Iterable[Case], *, apart: bool) -> None:
        self._apart = apart
        self._shares: dict[int, deque[Case]] = {0: deque(cases)}

    def __len__(self) -> int:
        return sum(map(len, self._shares.values()))

    def take(self, process: int) -> Case:
        """The next case of a process, by its number; the first process's number is 0.

        The share of a process that has died is divided like any other.

        Raises:
            IndexError: no case is left.
        """
        share = self._shares.setdefault(process if self._apart else 0, deque())
        if not share:
            longest = max(self._shares.values(), key=len)
            for _ in range((len(longest) + 1) // 2):
                share.appendleft(longest.pop())
        return share.popleft()
