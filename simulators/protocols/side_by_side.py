"""States looked at by several threads, with what one thread would find, in the same order.

Many states wait in the queue, and making their successors changes nothing. So other threads make those of one piece of
the queue, while this one enters those of the piece before into the table, and then helps. Where anything else than
successors comes of a piece, a question, a broken rule, it is left to the search by itself.

Example: two threads, and a state takes 200 ns to make its successors and 100 to enter them. Of a piece of 4,000 states
this thread makes those of 1,000, the other one those of the rest: both take 0.6 ms, which is 150 ns a state.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tileproof.simulators.protocols.compiled_search import (
    COUNT,
    DONE,
    ENDS,
    NEXT,
    NOTES,
    STEPS,
    Memory,
    Queue,
    Room,
    enter,
    expand,
)
from tileproof.simulators.protocols.tables import Ints, Tables, Words

_PIECE = 1 << 13
#: States in the queue from which on it is worth the while.
LARGE = 1 << 12
# Successors of a piece that there is room for; a model whose states have more is left to one thread.
_SUCCESSORS = 8 * _PIECE
_MOST_THREADS = 4


def threads_of_machine() -> int:
    """How many threads make sense here."""
    return min(_MOST_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


@dataclass
class _Share:
    """A part of a piece that one thread looks at; `status` and `notes` are what came of it."""

    begin: int
    end: int
    room: Room
    notes: Ints
    status: int = DONE
    seconds: float = 0.0


class Team:
    """Threads, and room for each.

    Args:
        tables: the model.
        make_room: makes room for so many successors.
        threads: how many there are with this one.
        sorts: as of `advance`.
        partial: as of `advance`.
    """

    def __init__(
        self, tables: Tables, make_room: Callable[[int], Room], threads: int, sorts: bool, partial: bool
    ) -> None:
        self._tables, self._sorts, self._partial = tables, sorts, partial
        self._rooms = [[make_room(_SUCCESSORS) for _ in range(threads)] for _ in range(2)]
        self._notes = [[np.zeros(NOTES, np.int64) for _ in range(threads)] for _ in range(2)]
        self._pool = ThreadPoolExecutor(threads - 1)
        self._threads = threads
        self._of_others = 1 / threads

    def close(self) -> None:
        """End the other threads."""
        self._pool.shutdown()

    def go_on(self, memory: Memory, queue: Queue, table: Words, notes: Ints) -> None:
        """Look at states as long as nothing but successors comes of them, and there are enough, and room for these."""
        before: list[_Share] = []
        begin, turn = int(notes[NEXT]), 0
        while notes[COUNT] + _made(before) + self._threads * _SUCCESSORS <= len(queue.states):
            waiting = int(notes[COUNT]) - begin
            if waiting < LARGE // 2:
                break
            # At first half of them, so that there is another piece when their successors are entered.
            shares = self._shares(begin, begin + min(_PIECE, waiting if before else waiting // 2), turn)
            others = [self._pool.submit(self._expand, memory, queue, share) for share in shares[:-1]]
            began = time.perf_counter()
            self._enter(queue, table, notes, before)
            entering = time.perf_counter() - began
            self._expand(memory, queue, shares[-1])
            _wait(others)
            if any(share.status != DONE for share in shares):
                return
            self._balance(shares, entering)
            before, begin, turn = shares, shares[-1].end, turn ^ 1
        self._enter(queue, table, notes, before)

    def _shares(self, begin: int, end: int, turn: int) -> list[_Share]:
        """Of a piece, one for each of the others, and what is left for this thread."""
        each = int((end - begin) * min(self._of_others, 1 / (self._threads - 1)))
        cuts = [begin + each * number for number in range(self._threads)] + [end]
        return [
            _Share(cuts[number], cuts[number + 1], self._rooms[turn][number], self._notes[turn][number])
            for number in range(self._threads)
        ]

    def _expand(self, memory: Memory, queue: Queue, share: _Share) -> None:
        began = time.perf_counter()
        share.status = expand(
            self._tables,
            memory,
            queue.states,
            share.begin,
            share.end,
            share.notes,
            share.room,
            self._sorts,
            self._partial,
        )
        share.seconds = time.perf_counter() - began

    def _enter(self, queue: Queue, table: Words, notes: Ints, shares: list[_Share]) -> None:
        for share in shares:
            enter(table, queue, share.room, share.notes[STEPS], share.begin, share.end, notes)
            notes[STEPS] += share.notes[STEPS]
            notes[ENDS] += share.notes[ENDS]

    def _balance(self, shares: list[_Share], entering: float) -> None:
        """Give the others so much that all end at once: this thread has the entering to do, too."""
        other, states = shares[0], shares[-1].end - shares[0].begin
        if other.end > other.begin and other.seconds > 0:
            states_meanwhile = entering * (other.end - other.begin) / other.seconds
            wanted = (1 + states_meanwhile / states) / self._threads
            self._of_others = (3 * self._of_others + wanted) / 4


def _made(shares: list[_Share]) -> int:
    """Successors that are still to be entered."""
    return sum(int(share.notes[STEPS]) for share in shares)


def _wait(others: list[Future[None]]) -> None:
    for other in others:
        other.result()
